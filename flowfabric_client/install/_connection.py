"""Connections of the installer: whom they reach and what they are set to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from flowfabric_client._conninfo import (
    NOT_A_CONNECTION_STRING,
    display_name,
    failure_reason,
    with_connect_timeout,
)
from flowfabric_client.install._errors import InstallError, UnreachableError

Connection = psycopg.Connection[tuple[Any, ...]]
OnStep = Callable[[str], None]

OLDEST_SERVER = 14

# What a server, a database or a role may have set otherwise. Building an index may take as long as it takes;
# only waits for the locks of others are limited.
_SESSION_SETTINGS = {
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "statement_timeout": "0",
    "check_function_bodies": "on",
}


@dataclass(frozen=True, slots=True)
class Session:
    """How to open a connection that works like every other connection of the same installation."""

    conninfo: str = field(repr=False)
    lock_timeout_ms: int
    act_as: str | None = None

    @property
    def database(self) -> str | None:
        """The database by name; yoyo asks its connection target for it."""
        return str(conninfo_to_dict(self.conninfo).get("dbname") or "") or None

    def connect(self) -> Connection:
        """Open a connection in autocommit mode; `prepare` makes it one of this session."""
        try:
            return psycopg.connect(
                make_conninfo(self.conninfo, client_encoding="UTF8", application_name="flowfabric installer"),
                autocommit=True,
            )
        except psycopg.Error as exc:
            target, reason = display_name(self.conninfo), failure_reason(exc, self.conninfo)
            raise UnreachableError(f"Cannot connect to {target}: {reason}.") from exc

    def prepare(self, conn: Connection) -> None:
        """Give a connection the settings and the role of this session."""
        settings = {**_SESSION_SETTINGS, "lock_timeout": str(self.lock_timeout_ms)}
        conn.execute(
            "select set_config(s.name, s.value, false) from unnest(%s::text[], %s::text[]) s (name, value)",
            [list(settings), list(settings.values())],
        )
        if self.act_as is not None:
            conn.execute(sql.SQL("set role {}").format(sql.Identifier(self.act_as)))


def open_session(dsn: str, *, lock_timeout_ms: int) -> tuple[Session, Connection]:
    """Connect to a server that is new enough."""
    try:
        dsn = with_connect_timeout(dsn)
    except psycopg.Error:
        # libpq's own message would quote the part it stumbled over, which may be the password.
        raise UnreachableError(NOT_A_CONNECTION_STRING) from None
    session = Session(dsn, lock_timeout_ms)
    conn = session.connect()
    try:
        _refuse_old_server(conn)
        _refuse_other_encodings(conn)
        session.prepare(conn)
        # With an empty path a file that forgets to say `flowfabric.` fails instead of going elsewhere.
        conn.execute("set search_path = ''")
    except BaseException:
        conn.close()
        raise
    return session, conn


def _refuse_old_server(conn: Connection) -> None:
    if conn.info.server_version < OLDEST_SERVER * 10_000:
        version = conn.info.parameter_status("server_version")
        raise InstallError(f"FlowFabric needs PostgreSQL {OLDEST_SERVER} or later; this server is {version}.")


def _refuse_other_encodings(conn: Connection) -> None:
    # Ids, keys and signatures are defined over UTF-8 bytes, and some literals need characters beyond ASCII.
    encoding = conn.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InstallError(f"FlowFabric needs a database in UTF8; this one is in {encoding}.")


def one_row(conn: Connection, query: LiteralString, args: Sequence[object] = ()) -> tuple[Any, ...]:
    """The row of a query that always has one."""
    return next(iter(conn.execute(query, args)))
