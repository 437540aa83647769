"""How a call reaches the database: connections, transactions, retries, errors.

The clients are generated (`python tools/generate_client.py`); what they share is here. A call either runs on
a connection that the caller owns, where it neither commits nor repeats anything, or on a pool, where each
call is a transaction of its own.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap
from psycopg.pq.abc import PGresult
from psycopg.rows import scalar_row
from psycopg.types.json import JsonbLoader
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from flowfabric_client._call import Call
from flowfabric_client._listening import AsyncListener, ListenOptions
from flowfabric_client._pools import AsyncOwnPool, OwnPool, PoolOptions
from flowfabric_client._steps import Answer, Steps, once, repeating
from flowfabric_client.errors import FlowFabricError

T = TypeVar("T")

_JSONB = psycopg.adapters.types["jsonb"].oid


class Session:
    """The synchronous side of the client: a pool, or one connection of the caller's."""

    def __init__(
        self,
        source: str | ConnectionPool[Any] | psycopg.Connection[Any] = "",
        *,
        max_connections: int = 4,
        connect_timeout_s: float = 5.0,
        pool_timeout_s: float = 30.0,
        prepare_statements: bool | None = None,
        listen_dsn: str | None = None,
    ) -> None:
        """Work on a connection string, a pool, or a connection.

        Args:
            source: A connection string opens a pool of the client's own at the first call; "" leaves
                everything to libpq's environment. On a pool each call is a transaction of its own. On a
                connection every call is part of the caller's transaction: the client neither commits nor
                repeats.
            max_connections: Size of the client's own pool.
            connect_timeout_s: How long a call waits for a server that cannot be reached.
            pool_timeout_s: How long a call waits when all connections of the client's own pool are in use.
            prepare_statements: Whether the client's own pool prepares statements that it uses often. By
                default it does unless a pooler such as PgBouncer stands before the server.
            listen_dsn: A direct connection for notifications, where `source` is not a connection string or
                goes through a pooler. Without one, following events then means polling.
        """
        self._connection: psycopg.Connection[Any] | None = None
        self._pool: OwnPool | ConnectionPool[Any] | None = None
        self._listen: ListenOptions | None = None
        if isinstance(source, psycopg.Connection):
            self._connection = source
        elif isinstance(source, ConnectionPool):
            self._pool = source
        else:
            _check_is_dsn(source, self, "AsyncClient")
            options = PoolOptions(
                source, max_connections, connect_timeout_s, pool_timeout_s, prepare_statements
            )
            self._pool = OwnPool(options)
            self._listen = ListenOptions(source, connect_timeout_s)
        if listen_dsn is not None:
            self._listen = ListenOptions(listen_dsn, connect_timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the pool if it is the client's own."""
        if isinstance(self._pool, OwnPool):
            self._pool.close()

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection that this client works on; only inside `transaction()` or when it was given one."""
        if self._connection is None:
            raise RuntimeError(
                "this client works on a pool: use `with client.transaction() as tx` and tx.connection"
            )
        return self._connection

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A client whose calls, and whatever runs on its `connection`, are one transaction."""
        with self._checked_out() as connection, connection.transaction():
            yield self if connection is self._connection else type(self)(connection)

    @contextmanager
    def _checked_out(self) -> Iterator[psycopg.Connection[Any]]:
        if self._pool is None:
            yield self.connection
        else:
            with self._pool.connection() as connection:
                yield connection

    def _one(self, call: Call[T]) -> T:
        return self._run(call)[0]

    def _first(self, call: Call[T]) -> T | None:
        return next(iter(self._run(call)), None)

    def _all(self, call: Call[T]) -> list[T]:
        return self._run(call)

    def _run(self, call: Call[T]) -> list[T]:
        return self._carry_out(self._send(call))

    def _send(self, call: Call[T]) -> Steps[list[T]]:
        return repeating(call) if self._connection is None else once(call)

    def _carry_out(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                step = self._answer(step).resume(steps)
        except StopIteration as end:
            return cast(T, end.value)

    def _answer(self, step: Call[Any] | float) -> Answer:
        if isinstance(step, float):
            time.sleep(step)
            return Answer()
        try:
            with self._checked_out() as connection:
                return Answer(_fetch(connection, step))
        except (psycopg.Error, FlowFabricError) as error:
            return Answer(error=error)


def _fetch(connection: psycopg.Connection[Any], call: Call[T]) -> list[T]:
    # Not `connection.cursor()`: the kind of cursor that a framework has chosen for its own queries may bind
    # parameters in a way of its own.
    with psycopg.Cursor(connection, row_factory=_row_factory(call)) as cursor:
        read_json(cursor.adapters)
        return cast(list[T], cursor.execute(call.sql, call.params).fetchall())


class AsyncSession:
    """The asynchronous side of the client: a pool, or one connection of the caller's."""

    def __init__(
        self,
        source: str | AsyncConnectionPool[Any] | psycopg.AsyncConnection[Any] = "",
        *,
        max_connections: int = 4,
        connect_timeout_s: float = 5.0,
        pool_timeout_s: float = 30.0,
        prepare_statements: bool | None = None,
        listen_dsn: str | None = None,
    ) -> None:
        """Work on a connection string, a pool, or a connection; see `Session` for the arguments."""
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._pool: AsyncOwnPool | AsyncConnectionPool[Any] | None = None
        listen: ListenOptions | None = None
        if isinstance(source, psycopg.AsyncConnection):
            self._connection = source
        elif isinstance(source, AsyncConnectionPool):
            self._pool = source
        else:
            _check_is_dsn(source, self, "Client")
            options = PoolOptions(
                source, max_connections, connect_timeout_s, pool_timeout_s, prepare_statements
            )
            self._pool = AsyncOwnPool(options)
            listen = ListenOptions(source, connect_timeout_s)
        if listen_dsn is not None:
            listen = ListenOptions(listen_dsn, connect_timeout_s)
        self._listener = AsyncListener(listen)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the pool if it is the client's own."""
        await self._listener.close()
        if isinstance(self._pool, AsyncOwnPool):
            await self._pool.close()

    @property
    def connection(self) -> psycopg.AsyncConnection[Any]:
        """The connection that this client works on; only inside `transaction()` or when it was given one."""
        if self._connection is None:
            raise RuntimeError(
                "this client works on a pool: use `async with client.transaction() as tx` and tx.connection"
            )
        return self._connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A client whose calls, and whatever runs on its `connection`, are one transaction."""
        async with self._checked_out() as connection, connection.transaction():
            yield self if connection is self._connection else type(self)(connection)

    @asynccontextmanager
    async def _checked_out(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        if self._pool is None:
            yield self.connection
        else:
            async with self._pool.connection() as connection:
                yield connection

    async def _one(self, call: Call[T]) -> T:
        return (await self._run(call))[0]

    async def _first(self, call: Call[T]) -> T | None:
        return next(iter(await self._run(call)), None)

    async def _all(self, call: Call[T]) -> list[T]:
        return await self._run(call)

    async def _run(self, call: Call[T]) -> list[T]:
        return await self._carry_out(self._send(call))

    def _send(self, call: Call[T]) -> Steps[list[T]]:
        return repeating(call) if self._connection is None else once(call)

    async def _carry_out(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                step = (await self._answer(step)).resume(steps)
        except StopIteration as end:
            return cast(T, end.value)

    async def _answer(self, step: Call[Any] | float) -> Answer:
        if isinstance(step, float):
            await asyncio.sleep(step)
            return Answer()
        try:
            async with self._checked_out() as connection:
                return Answer(await _fetch_async(connection, step))
        except (psycopg.Error, FlowFabricError) as error:
            return Answer(error=error)


def _check_is_dsn(source: object, client: object, twin: str) -> None:
    """Refuse what is neither a connection string nor a connection or pool of this client's own kind."""
    if isinstance(source, str):
        return
    kind, name = type(source).__name__, type(client).__name__
    remedy = (
        f"use {twin}"
        if isinstance(
            source, psycopg.Connection | psycopg.AsyncConnection | ConnectionPool | AsyncConnectionPool
        )
        else "give it a connection string, a psycopg connection or a pool"
    )
    raise TypeError(f"{name} cannot work on {kind}: {remedy}")


async def _fetch_async(connection: psycopg.AsyncConnection[Any], call: Call[T]) -> list[T]:
    async with psycopg.AsyncCursor(connection, row_factory=_row_factory(call)) as cursor:
        read_json(cursor.adapters)
        await cursor.execute(call.sql, call.params)
        return cast(list[T], await cursor.fetchall())


def _row_factory(call: Call[Any]) -> Any:
    if call.row is None:
        return scalar_row
    row = call.row
    return lambda cursor: row_maker(row, cursor.pgresult)


def row_maker(row: Any, result: PGresult | None) -> Callable[[Sequence[Any]], Any]:
    """What makes a row of a class of the values of a result."""
    wanted = _column_names(row.__match_args__)
    # Not `cursor.description`: that makes an object of every column, which takes longer than to send a call.
    columns = [result.fname(place) for place in range(result.nfields)] if result is not None else []
    if columns == wanted:
        return lambda values: row(*values)
    # A newer installation may return columns that this client does not know.
    places = [columns.index(name) for name in wanted]
    return lambda values: row(*(values[place] for place in places))


@functools.cache
def _column_names(fields: tuple[str, ...]) -> list[bytes]:
    return [field.encode() for field in fields]


def read_json(adapters: AdaptersMap) -> None:
    """Let JSON be read as objects, which the rows promise.

    Django takes it as text, and others may have a decoder of their own.
    """
    adapters.register_loader(_JSONB, _ObjectLoader)


class _ObjectLoader(JsonbLoader):
    def load(self, data: Buffer) -> Any:
        # As most tags are; the decoder would take longer than the rest of the row.
        return {} if data == b"{}" else super().load(data)
