"""How a call reaches the database: connections, transactions, retries, errors.

The clients are generated (`python tools/generate_client.py`); what they share is here. A call either runs on
a connection that the caller owns, where it neither commits nor repeats anything, or on a pool, where each
call is a transaction of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import psycopg
from psycopg.rows import class_row, scalar_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from flowfabric_client import rows
from flowfabric_client._reconcile import EndingCall, reconcile
from flowfabric_client.errors import (
    CompletionDispatchPendingError,
    ExecutionNotActiveError,
    FlowFabricError,
    FlowMembershipChangedError,
    TransportError,
    from_psycopg,
)

T = TypeVar("T")
JsonObject = Mapping[str, Any]
EMPTY_OBJECT: JsonObject = MappingProxyType({})

# Pauses before a call is repeated that the server refused for a reason that passes by itself.
_PAUSES_S = (0.005, 0.010, 0.020)
# Pauses before a call is repeated whose answer was lost with the connection: long enough for a restart.
_RECONNECT_PAUSES_S = (0.05, 0.2, 1.0)
_TRANSIENT_SQLSTATES = frozenset({"40001", "40P01", "55P03"})
_ENDING_CALLS: Mapping[str, EndingCall] = {
    "ff_complete_execution": "complete",
    "ff_fail_execution": "fail",
    "ff_cancel_execution": "cancel",
}


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call of one database function."""

    function: str
    sql: str
    params: Mapping[str, Any]
    row: type[T] | None
    """The class of the rows; None for a function that returns one value."""
    repeatable: bool
    """Whether the call may be sent again when its answer was lost."""


def json_param(value: JsonObject | str | None) -> Jsonb | None:
    """A JSON parameter; None stays NULL."""
    return None if value is None else Jsonb(value if isinstance(value, str | dict) else dict(value))


def _pause_before_repeat(
    cause: psycopg.Error, error: FlowFabricError, call: Call[Any], tries: int
) -> float | None:
    """How long to wait before the call is made again, or None if its error stands."""
    if isinstance(error, TransportError):
        pauses = _RECONNECT_PAUSES_S if error.retryable and call.repeatable else ()
    elif cause.sqlstate in _TRANSIENT_SQLSTATES or isinstance(
        error, FlowMembershipChangedError | CompletionDispatchPendingError
    ):
        pauses = _PAUSES_S
    else:
        pauses = ()
    return pauses[tries - 1] if tries <= len(pauses) else None


@dataclass(frozen=True, slots=True)
class _Fence:
    lease_epoch: int
    attempt_id: Any


def _lost_answer(call: Call[T], error: FlowFabricError) -> T | None:
    """The answer that an earlier try of a complete, fail or cancel must have had, or None."""
    ending = _ENDING_CALLS.get(call.function)
    if ending is None or not isinstance(error, ExecutionNotActiveError):
        return None
    params = call.params
    fence = _Fence(params["lease_epoch"], params["attempt_id"]) if params["lease_id"] is not None else None
    answer = reconcile(ending, error.details, fence)
    if answer is None:
        return None
    execution_id = params["execution_id"]
    if ending == "complete":
        row: Any = rows.ExecutionOutcome(answer.outcome, execution_id, "completed")
    elif ending == "cancel":
        row = rows.Cancellation(answer.outcome, execution_id, None, "cancelled")
    else:
        terminal = answer.outcome == "terminal_failed"
        row = rows.Failure(
            answer.outcome, execution_id, "failed" if terminal else "delayed", answer.delay_until_ms, None
        )
    return cast(T, row)


class Session:
    """The synchronous side of the client: a pool, or one connection of the caller's."""

    def __init__(
        self,
        source: str | ConnectionPool[Any] | psycopg.Connection[Any] = "",
        *,
        max_connections: int = 4,
    ) -> None:
        """Work on a connection string, a pool, or a connection.

        Args:
            source: A connection string opens a pool of the client's own at the first call; "" leaves
                everything to libpq's environment. On a pool each call is a transaction of its own. On a
                connection every call is part of the caller's transaction: the client neither commits nor
                repeats.
            max_connections: Size of the client's own pool.
        """
        self._connection: psycopg.Connection[Any] | None = None
        self._pool: ConnectionPool[Any] | None = None
        self._owns_pool = isinstance(source, str)
        if isinstance(source, psycopg.Connection):
            self._connection = source
        elif isinstance(source, ConnectionPool):
            self._pool = source
        else:
            self._pool = ConnectionPool(
                source, min_size=1, max_size=max_connections, kwargs={"autocommit": True}, open=False
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the pool if it is the client's own."""
        if self._owns_pool and self._pool is not None:
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
        if self._connection is not None:
            with self._connection.transaction():
                yield self
            return
        with self._open_pool().connection() as connection, connection.transaction():
            yield type(self)(connection)

    def _open_pool(self) -> ConnectionPool[Any]:
        if self._pool is None:
            raise RuntimeError("this client works on a connection and has no pool")
        if self._owns_pool and self._pool.closed:
            self._pool.open()
        return self._pool

    def _one(self, call: Call[T]) -> T:
        return self._run(call)[0]

    def _first(self, call: Call[T]) -> T | None:
        return next(iter(self._run(call)), None)

    def _all(self, call: Call[T]) -> list[T]:
        return self._run(call)

    def _run(self, call: Call[T]) -> list[T]:
        if self._connection is not None:
            try:
                return _fetch(self._connection, call)
            except psycopg.Error as cause:
                raise from_psycopg(cause, function=call.function) from cause
        tries = 0
        answer_was_lost = False
        while True:
            tries += 1
            try:
                with self._open_pool().connection() as connection:
                    return _fetch(connection, call)
            except psycopg.Error as cause:
                error = from_psycopg(
                    cause, idempotent=call.repeatable, attempts=tries, function=call.function
                )
                if answer_was_lost and (answer := _lost_answer(call, error)) is not None:
                    return [answer]
                pause = _pause_before_repeat(cause, error, call, tries)
                if pause is None:
                    raise error from cause
                answer_was_lost = answer_was_lost or isinstance(error, TransportError)
            time.sleep(pause)


def _fetch(connection: psycopg.Connection[Any], call: Call[T]) -> list[T]:
    factory: Any = scalar_row if call.row is None else class_row(call.row)
    with connection.cursor(row_factory=factory) as cursor:
        return cast(list[T], cursor.execute(call.sql, call.params).fetchall())


class AsyncSession:
    """The asynchronous side of the client: a pool, or one connection of the caller's."""

    def __init__(
        self,
        source: str | AsyncConnectionPool[Any] | psycopg.AsyncConnection[Any] = "",
        *,
        max_connections: int = 4,
    ) -> None:
        """Work on a connection string, a pool, or a connection.

        Args:
            source: A connection string opens a pool of the client's own at the first call; "" leaves
                everything to libpq's environment. On a pool each call is a transaction of its own. On a
                connection every call is part of the caller's transaction: the client neither commits nor
                repeats.
            max_connections: Size of the client's own pool.
        """
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._pool: AsyncConnectionPool[Any] | None = None
        self._owns_pool = isinstance(source, str)
        if isinstance(source, psycopg.AsyncConnection):
            self._connection = source
        elif isinstance(source, AsyncConnectionPool):
            self._pool = source
        else:
            self._pool = AsyncConnectionPool(
                source, min_size=1, max_size=max_connections, kwargs={"autocommit": True}, open=False
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the pool if it is the client's own."""
        if self._owns_pool and self._pool is not None:
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
        if self._connection is not None:
            async with self._connection.transaction():
                yield self
            return
        pool = await self._open_pool()
        async with pool.connection() as connection, connection.transaction():
            yield type(self)(connection)

    async def _open_pool(self) -> AsyncConnectionPool[Any]:
        if self._pool is None:
            raise RuntimeError("this client works on a connection and has no pool")
        if self._owns_pool and self._pool.closed:
            await self._pool.open()
        return self._pool

    async def _one(self, call: Call[T]) -> T:
        return (await self._run(call))[0]

    async def _first(self, call: Call[T]) -> T | None:
        return next(iter(await self._run(call)), None)

    async def _all(self, call: Call[T]) -> list[T]:
        return await self._run(call)

    async def _run(self, call: Call[T]) -> list[T]:
        if self._connection is not None:
            try:
                return await _fetch_async(self._connection, call)
            except psycopg.Error as cause:
                raise from_psycopg(cause, function=call.function) from cause
        tries = 0
        answer_was_lost = False
        while True:
            tries += 1
            try:
                pool = await self._open_pool()
                async with pool.connection() as connection:
                    return await _fetch_async(connection, call)
            except psycopg.Error as cause:
                error = from_psycopg(
                    cause, idempotent=call.repeatable, attempts=tries, function=call.function
                )
                if answer_was_lost and (answer := _lost_answer(call, error)) is not None:
                    return [answer]
                pause = _pause_before_repeat(cause, error, call, tries)
                if pause is None:
                    raise error from cause
                answer_was_lost = answer_was_lost or isinstance(error, TransportError)
            await asyncio.sleep(pause)


async def _fetch_async(connection: psycopg.AsyncConnection[Any], call: Call[T]) -> list[T]:
    factory: Any = scalar_row if call.row is None else class_row(call.row)
    async with connection.cursor(row_factory=factory) as cursor:
        await cursor.execute(call.sql, call.params)
        return cast(list[T], await cursor.fetchall())
