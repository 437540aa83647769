"""The installation lock: one installer at a time, by locks that only the owner of the schema can take.

Any login of the database could hold an advisory lock and so stop every upgrade. These are locks of table
yoyo_lock, which no role but its owner may lock:

- An installer holds SHARE UPDATE EXCLUSIVE, which conflicts with itself and lets its other connections write.
- Every transaction in which it changes something holds ROW EXCLUSIVE. When an installer is killed, the server
  may still be busy with what it had sent. The next installer waits for such transactions with a SHARE lock,
  which it releases at once.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import LiteralString

import psycopg
from psycopg import errors as pg

from flowfabric_client.install._connection import Connection, OnStep, Session
from flowfabric_client.install._errors import InstallError

LOCK_TABLE = "yoyo_lock"


class InstallationLock:
    """The lock while it is held, by a transaction on a connection that does nothing else."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def assert_held(self) -> None:
        """Raise if the connection, and with it the lock, was lost."""
        try:
            self._conn.execute("select")
        except psycopg.Error as exc:
            raise InstallError(
                "The connection that holds the installation lock was lost, so another installer may be "
                "at work: run `flowfabric migrate` again."
            ) from exc


@contextmanager
def installation_lock(session: Session, on_step: OnStep) -> Iterator[InstallationLock]:
    """Wait, however long, until no other installer works on this database; the lock ends with its connection.

    Raises:
        psycopg.errors.UndefinedTable: The lock table is not there, or was dropped meanwhile.
    """
    with closing(session.connect()) as conn:
        session.prepare(conn)
        conn.execute("set lock_timeout = 0")
        conn.execute("begin")
        _take(conn, _BE_THE_ONLY_ONE, "another installer to finish", on_step)
        conn.execute("savepoint no_leftovers")
        _take(conn, _WAIT_FOR_LEFTOVERS, "the last statement of an installer that was killed", on_step)
        conn.execute("rollback to savepoint no_leftovers")
        yield InstallationLock(conn)


def join_installation(conn: Connection) -> None:
    """Let the next installer wait for the open transaction, even if this process is killed."""
    conn.execute("lock table flowfabric.yoyo_lock in row exclusive mode")


def _take(conn: Connection, statement: LiteralString, holder: str, on_step: OnStep) -> None:
    try:
        with conn.transaction():
            conn.execute(f"{statement} nowait")
    except pg.LockNotAvailable:
        on_step(f"waiting for {holder}")
        conn.execute(statement)


_BE_THE_ONLY_ONE: LiteralString = "lock table flowfabric.yoyo_lock in share update exclusive mode"
_WAIT_FOR_LEFTOVERS: LiteralString = "lock table flowfabric.yoyo_lock in share mode"
