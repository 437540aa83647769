"""A client's own pools: quick to say why there is no connection, and safe behind a pooler."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from flowfabric_client._conninfo import display_name, failure_reason, require_connection_string
from flowfabric_client._fork import OwnedAsyncConnection, OwnedConnection, abandon, forget_after_fork
from flowfabric_client.errors import ResourceExhaustedError, TransportError

_BACKEND = "select pg_backend_pid()"
_Happened = TypeVar("_Happened", bound=threading.Event | asyncio.Event)


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How a client's own pool was configured; see `Session`."""

    dsn: str = field(repr=False)
    max_connections: int = 4
    connect_timeout_s: float = 5.0
    pool_timeout_s: float = 30.0
    prepare_statements: bool | None = None

    def __post_init__(self) -> None:
        require_connection_string(self.dsn)

    def check_patience(self, waited_s: float, late: PoolTimeout) -> None:
        """Give up on a pool that has been full for too long."""
        if waited_s >= self.pool_timeout_s:
            raise ResourceExhaustedError(
                f"all {self.max_connections} connections of this client were in use for"
                f" {self.pool_timeout_s:g} s: end transactions sooner, or give it a larger max_connections."
            ) from late

    @property
    def connect_arguments(self) -> dict[str, Any]:
        arguments = connect_arguments(self.dsn, self.connect_timeout_s)
        return arguments if self.prepare_statements is not False else {**arguments, "prepare_threshold": None}


def connect_arguments(dsn: str, connect_timeout_s: float) -> dict[str, Any]:
    """What a client asks for when it connects; a limit that the connection string sets is kept."""
    arguments: dict[str, Any] = {"autocommit": True}
    if "connect_timeout" not in conninfo_to_dict(dsn):
        arguments["connect_timeout"] = max(1, round(connect_timeout_s))
    return arguments


# Behind a pooler
#
# A pooler in transaction mode gives every transaction another session of the server, in which a statement
# that was prepared is not there, or is another client's. What gives a pooler away is the process id: the one
# that it told the client is its own invention, because a request to cancel has to come to the pooler.


def settle_preparation(connection: psycopg.Connection[Any]) -> None:
    """Let a connection prepare no statements if a pooler stands between it and the server."""
    if is_pooled(connection):
        connection.prepare_threshold = None


async def settle_preparation_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """The same for an asynchronous connection."""
    if await is_pooled_async(connection):
        connection.prepare_threshold = None


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether a pooler stands between a connection and the server."""
    row = connection.execute(_BACKEND, prepare=False).fetchone()
    return row is None or row[0] != connection.info.backend_pid


async def is_pooled_async(connection: psycopg.AsyncConnection[Any]) -> bool:
    """The same for an asynchronous connection."""
    cursor = await connection.execute(_BACKEND, prepare=False)
    row = await cursor.fetchone()
    return row is None or row[0] != connection.info.backend_pid


# Contact with the server


class _Contact(Generic[_Happened]):
    """What became of the attempts of one pool to connect; a pool itself keeps that in its log."""

    def __init__(self, happened: _Happened) -> None:
        self.happened = happened
        self.established = False
        self.error: psycopg.Error | None = None
        """Why the newest attempt failed; None if it did not."""

    def succeeded(self) -> None:
        self.established = True
        self.error = None
        self.happened.set()

    def failed(self, error: psycopg.Error) -> None:
        self.error = error
        self.happened.set()


def _reporting_class(contact: _Contact[Any], options: PoolOptions) -> type[psycopg.Connection[Any]]:
    class ReportingConnection(OwnedConnection):
        @classmethod
        def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
            try:
                connection = super().connect(conninfo, **arguments)
                if options.prepare_statements is None:
                    settle_preparation(connection)
            except psycopg.Error as error:
                contact.failed(error)
                raise
            contact.succeeded()
            return connection

    return ReportingConnection


def _reporting_async_class(
    contact: _Contact[Any], options: PoolOptions
) -> type[psycopg.AsyncConnection[Any]]:
    class ReportingConnection(OwnedAsyncConnection):
        @classmethod
        async def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
            try:
                connection = await super().connect(conninfo, **arguments)
                if options.prepare_statements is None:
                    await settle_preparation_async(connection)
            except psycopg.Error as error:
                contact.failed(error)
                raise
            contact.succeeded()
            return connection

    return ReportingConnection


def _unreachable(options: PoolOptions, contact: _Contact[Any]) -> TransportError:
    place = display_name(options.dsn)
    reason = (
        f"no answer within {options.connect_timeout_s:g} s"
        if contact.error is None
        else failure_reason(contact.error, options.dsn)
    )
    return TransportError(
        f"cannot connect to {place}: {reason}. Check that the server runs and accepts connections there, and"
        " that the connection string is right.",
        retryable=True,
        sqlstate=None if contact.error is None else contact.error.sqlstate,
    )


def _closed() -> RuntimeError:
    return RuntimeError("this client is closed")


def refuse_if_ended(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Raise what the driver raises if the server has ended a connection while it was not used."""
    # No round trip: the socket is asked whether the server has hung up since the connection was last used.
    # The first look reads the server's last words, if there are any, and the second one finds the end.
    connection.pgconn.consume_input()
    connection.pgconn.consume_input()


async def refuse_if_ended_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """The same for an asynchronous pool."""
    refuse_if_ended(connection)


class CheckedPool(ConnectionPool[Any]):
    """A pool whose connections are looked at when they are handed out; dead ones are thrown away at once.

    The check that a pool itself offers waits longer after each dead connection: when the server has ended
    them all, whoever asks first would wait for as long as the pool is large.

    In a child of the process that made it, the pool is empty and opens again when it is first used.
    """

    def __init__(
        self, dsn: str, *, examine: Callable[[psycopg.Connection[Any]], None], **options: Any
    ) -> None:
        """Like any pool; `examine` raises what the driver raises for a connection that does not work."""
        self._examine = examine
        self._dsn = dsn
        self._pool_options = {"connection_class": OwnedConnection, **options}
        self._reopens = False
        super().__init__(dsn, **self._pool_options)
        forget_after_fork(self)

    def _forget(self) -> None:
        """Be empty in a child, whatever state the parent's threads had left this pool in."""
        self._reopens = self._reopens or not self.closed
        abandon(vars(self).copy())
        super().__init__(self._dsn, **{**self._pool_options, "open": False})

    def close(self, timeout: float = 5.0) -> None:
        """Close the pool, and open it no more."""
        self._reopens = False
        super().close(timeout)

    def putconn(self, conn: psycopg.Connection[Any]) -> None:
        """Take a connection back, unless it was handed out to the parent."""
        if not (isinstance(conn, OwnedConnection) and conn.is_of_parent):
            super().putconn(conn)

    def getconn(self, timeout: float | None = None) -> psycopg.Connection[Any]:
        """Take a connection that works."""
        if self._reopens:
            # First, so that another thread does not find the pool closed.
            self.open()
            self._reopens = False
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            connection: psycopg.Connection[Any] = super().getconn(deadline - time.monotonic())
            try:
                self._examine(connection)
            except psycopg.Error:
                self.putconn(connection)
            except BaseException:
                self.putconn(connection)
                raise
            else:
                return connection


class CheckedAsyncPool(AsyncConnectionPool[Any]):
    """The same for the event loop."""

    def __init__(
        self, dsn: str, *, examine: Callable[[psycopg.AsyncConnection[Any]], Awaitable[None]], **options: Any
    ) -> None:
        """Like `CheckedPool`."""
        self._examine = examine
        super().__init__(dsn, **{"connection_class": OwnedAsyncConnection, **options})

    async def getconn(self, timeout: float | None = None) -> psycopg.AsyncConnection[Any]:
        """Take a connection that works."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            connection: psycopg.AsyncConnection[Any] = await super().getconn(deadline - time.monotonic())
            try:
                await self._examine(connection)
            except psycopg.Error:
                await self.putconn(connection)
            except BaseException:
                await self.putconn(connection)
                raise
            else:
                return connection


class OwnPool:
    """A pool that is opened at the first use."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._is_closed = False
        self._opened: tuple[ConnectionPool[Any], _Contact[threading.Event]] | None = None
        forget_after_fork(self)

    def _forget(self) -> None:
        """Have no pool yet, in a child of the process that had one."""
        abandon(self._opened)
        self._opened = None
        self._lock = threading.Lock()

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool.

        Raises:
            TransportError: the server cannot be reached.
            ResourceExhaustedError: all connections are in use.
        """
        with ExitStack() as stack:
            yield self._enter(stack)

    def close(self) -> None:
        """Close the pool; there will be no other."""
        with self._lock:
            self._is_closed = True
            opened, self._opened = self._opened, None
        if opened is not None:
            opened[0].close()

    def _enter(self, stack: ExitStack) -> psycopg.Connection[Any]:
        began = time.monotonic()
        while True:
            pool, contact = self._open()
            contact.happened.wait(self._options.connect_timeout_s)
            if contact.established:
                try:
                    return stack.enter_context(pool.connection(self._options.connect_timeout_s))
                except PoolClosed:
                    # Another thread has given it up, or closed this client.
                    continue
                except PoolTimeout as late:
                    if contact.error is None:
                        self._options.check_patience(time.monotonic() - began, late)
                        continue
            self._give_up(pool)
            raise _unreachable(self._options, contact) from contact.error

    def _open(self) -> tuple[ConnectionPool[Any], _Contact[threading.Event]]:
        with self._lock:
            if self._is_closed:
                raise _closed()
            if self._opened is None:
                contact = _Contact(threading.Event())
                pool = CheckedPool(
                    self._options.dsn,
                    examine=refuse_if_ended,
                    connection_class=_reporting_class(contact, self._options),
                    kwargs=self._options.connect_arguments,
                    min_size=1,
                    max_size=self._options.max_connections,
                    open=True,
                )
                self._opened = pool, contact
            return self._opened

    def _give_up(self, pool: ConnectionPool[Any]) -> None:
        """Forget a pool that waits longer and longer between its attempts: the next call tries at once."""
        with self._lock:
            if self._opened is not None and self._opened[0] is pool:
                self._opened = None
        pool.close(timeout=1)


class AsyncOwnPool:
    """The same for the asynchronous client."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._is_closed = False
        self._opened: tuple[AsyncConnectionPool[Any], _Contact[asyncio.Event]] | None = None
        forget_after_fork(self)

    def _forget(self) -> None:
        """Have no pool yet, in a child of the process that had one."""
        abandon(self._opened)
        self._opened = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection of the pool; see `OwnPool.connection`."""
        async with AsyncExitStack() as stack:
            yield await self._enter(stack)

    async def close(self) -> None:
        """Close the pool; there will be no other."""
        self._is_closed = True
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[0].close()

    async def _enter(self, stack: AsyncExitStack) -> psycopg.AsyncConnection[Any]:
        began = time.monotonic()
        while True:
            pool, contact = await self._open()
            with suppress(TimeoutError):
                await asyncio.wait_for(contact.happened.wait(), self._options.connect_timeout_s)
            if contact.established:
                try:
                    return await stack.enter_async_context(pool.connection(self._options.connect_timeout_s))
                except PoolClosed:
                    # Another task has given it up, or closed this client.
                    continue
                except PoolTimeout as late:
                    if contact.error is None:
                        self._options.check_patience(time.monotonic() - began, late)
                        continue
            await self._give_up(pool)
            raise _unreachable(self._options, contact) from contact.error

    async def _open(self) -> tuple[AsyncConnectionPool[Any], _Contact[asyncio.Event]]:
        if self._is_closed:
            raise _closed()
        if self._opened is None:
            contact = _Contact(asyncio.Event())
            pool = CheckedAsyncPool(
                self._options.dsn,
                examine=refuse_if_ended_async,
                connection_class=_reporting_async_class(contact, self._options),
                kwargs=self._options.connect_arguments,
                min_size=1,
                max_size=self._options.max_connections,
                open=False,
            )
            opened = self._opened = pool, contact
            await pool.open()
            return opened
        return self._opened

    async def _give_up(self, pool: AsyncConnectionPool[Any]) -> None:
        if self._opened is not None and self._opened[0] is pool:
            self._opened = None
        await pool.close(timeout=1)
