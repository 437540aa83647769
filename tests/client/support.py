"""What the client's tests share: followers in the background, and a database that goes away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, Protocol, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from flowfabric_client import AsyncClient, Client, Handle
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import Background, in_background, wait_until

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Kind = Literal["sync", "async"]


class Follow(Protocol[T_co]):
    """Starts to follow something; both clients have the same method for it."""

    def __call__(self, client: Any) -> Iterable[T_co] | AsyncIterable[T_co]: ...


class Follower(Generic[T]):
    """A loop over a subscription, in a thread of the test process."""

    def __init__(self, kind: Kind, dsn: str, follow: Follow[T], **options: Any) -> None:
        self.items: list[T] = []
        self._stop: Callable[[], None] = lambda: None
        work = self._loop if kind == "sync" else lambda *given: asyncio.run(self._async_loop(*given))
        self._run: Background[None] = in_background(lambda: work(dsn, follow, options))

    def _loop(self, dsn: str, follow: Any, options: dict[str, Any]) -> None:
        with Client(dsn, **options) as client, follow(client) as subscription:
            self._stop = subscription.close
            for item in subscription:
                self.items.append(item)

    async def _async_loop(self, dsn: str, follow: Any, options: dict[str, Any]) -> None:
        async with AsyncClient(dsn, **options) as client, follow(client) as subscription:
            loop = asyncio.get_running_loop()
            self._stop = lambda: asyncio.run_coroutine_threadsafe(subscription.close(), loop).result(20)
            async for item in subscription:
                self.items.append(item)

    def wait_for(self, count: int) -> list[T]:
        """Wait until so many items were delivered."""
        wait_until(lambda: len(self.items) >= count or self._run.is_done, f"{count} items were delivered")
        if len(self.items) < count:
            self._run.result()
            raise AssertionError(f"the loop ended after {self.items}")
        return self.items

    def end(self) -> None:
        """Wait until the loop ends by itself."""
        self._run.result()

    def stop(self) -> None:
        """Close the subscription from here, and wait for the end of the loop."""
        self._stop()
        self._run.result()


def waiters(db: Connection) -> int:
    """How many followers want to be notified."""
    return db.execute("select from flowfabric.ff_waiter").rowcount


def listeners(db: Connection) -> int:
    """How many sessions of this database have listened."""
    return db.execute(
        "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and query like 'listen %'"
    ).rowcount


def sessions(db: Connection) -> int:
    """How many other sessions this database has."""
    return db.execute(
        "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and backend_type = 'client backend'"
    ).rowcount


def wait_until_asked(db: Connection, function: str) -> None:
    """Wait until another session of this database has called a function."""
    query = (
        "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and state = 'idle' and query like %s"
    )
    wait_until(lambda: bool(db.execute(query, [f"%{function}(%"]).rowcount), f"somebody called {function}")


@contextmanager
def outage(server: Cluster, dsn: str) -> Iterator[None]:
    """End all sessions of a database and let nobody in, as if its server were down."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    gate = sql.SQL("alter database {} with allow_connections {}")
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(gate.format(sql.Identifier(name), sql.Literal(False)))
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [name]
        )
        try:
            yield
        finally:
            admin.execute(gate.format(sql.Identifier(name), sql.Literal(True)))


def claimed(client: Client, *, policy: dict[str, object] | None = None) -> Handle:
    """A new execution, and the handle of its first attempt."""
    created = client.create_execution("test", policy=policy)
    return Handle.of(client.issue_grant_and_claim(created.execution_id, 86_400_000))


def complete_one(client: Client) -> str:
    """An execution that was created, claimed and completed."""
    handle = claimed(client)
    client.complete_execution(**handle.arguments())
    return handle.execution_id
