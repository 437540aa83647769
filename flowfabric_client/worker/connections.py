"""The connections of a worker: its own, and those of its handlers apart from them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from flowfabric_client._pools import (
    CheckedAsyncPool,
    CheckedPool,
    refuse_if_ended_async,
    settle_preparation,
    settle_preparation_async,
)
from flowfabric_client.aio import AsyncClient
from flowfabric_client.client import Client

# Between its attempts to connect a pool waits 1 s, 2 s, 4 s, and so on for minutes, and whoever asks it waits
# too. So it gives up soon and begins anew: the database is used again within seconds of its return.
_RECONNECT_FOR_S = 2.0


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How every connection of a worker is made."""

    dsn: str = field(repr=False)
    name: str
    prepare_statements: bool | None

    def own_pool(self, **sizes: Any) -> AsyncConnectionPool[Any]:
        """A pool for what the worker itself asks and tells, not yet open."""
        return CheckedAsyncPool(
            self.dsn, examine=refuse_if_ended_async, **self._async_pool_arguments, **sizes
        )

    def handlers_async_pool(self, **sizes: Any) -> AsyncConnectionPool[Any]:
        """A pool for handlers in the event loop, not yet open."""
        # Unlike the worker, a handler does not repeat what it does in a transaction of its own, so a round
        # trip makes sure that the connection works.
        return CheckedAsyncPool(
            self.dsn, examine=AsyncConnectionPool.check_connection, **self._async_pool_arguments, **sizes
        )

    def handlers_pool(self, **sizes: Any) -> ConnectionPool[Any]:
        """The same for handlers in threads."""
        return CheckedPool(
            self.dsn,
            examine=ConnectionPool.check_connection,
            kwargs=self._connection_arguments,
            configure=settle_preparation if self.prepare_statements is None else None,
            open=False,
            reconnect_timeout=_RECONNECT_FOR_S,
            reconnect_failed=ConnectionPool.check,
            **sizes,
        )

    @property
    def _async_pool_arguments(self) -> dict[str, Any]:
        return {
            "kwargs": self._connection_arguments,
            "configure": settle_preparation_async if self.prepare_statements is None else None,
            "open": False,
            "reconnect_timeout": _RECONNECT_FOR_S,
            "reconnect_failed": AsyncConnectionPool.check,
        }

    @property
    def _connection_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {"autocommit": True, "fallback_application_name": self.name}
        if self.prepare_statements is False:
            arguments["prepare_threshold"] = None
        return arguments


class HandlerConnections:
    """Pools that only handlers use: a handler must not keep leases from renewal."""

    def __init__(self, options: ConnectionOptions, handlers: int, *, with_threads: bool) -> None:
        # Two for each: were there one, handlers that call their context inside a transaction of theirs would
        # wait for each other's connections.
        size = 2 * handlers
        self._async_pool = options.handlers_async_pool(min_size=0, max_size=size)
        self._pool = options.handlers_pool(min_size=0, max_size=size) if with_threads else None
        self.asynchronous = AsyncClient(self._async_pool)

    @property
    def synchronous(self) -> Client:
        """For handlers that run in threads."""
        if self._pool is None:
            raise RuntimeError("this worker has no handlers that run in threads")
        return Client(self._pool)

    async def __aenter__(self) -> HandlerConnections:
        await self._async_pool.open()
        if self._pool is not None:
            self._pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._async_pool.close()
        if self._pool is not None:
            await asyncio.to_thread(self._pool.close)
