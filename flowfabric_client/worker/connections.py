"""The connections of a worker: its own, and those of its handlers apart from them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from flowfabric_client._pools import settle_preparation, settle_preparation_async
from flowfabric_client.aio import AsyncClient
from flowfabric_client.client import Client


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How every connection of a worker is made."""

    dsn: str
    name: str
    prepare_statements: bool | None

    def async_pool(self, **sizes: Any) -> AsyncConnectionPool[Any]:
        """A pool for the event loop, not yet open."""
        configure = settle_preparation_async if self.prepare_statements is None else None
        return AsyncConnectionPool[Any](
            self.dsn, kwargs=self._connection_arguments, configure=configure, open=False, **sizes
        )

    def pool(self, **sizes: Any) -> ConnectionPool[Any]:
        """A pool for threads, not yet open."""
        configure = settle_preparation if self.prepare_statements is None else None
        return ConnectionPool[Any](
            self.dsn, kwargs=self._connection_arguments, configure=configure, open=False, **sizes
        )

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
        self._async_pool = options.async_pool(
            min_size=0, max_size=size, check=AsyncConnectionPool.check_connection
        )
        self._pool = (
            options.pool(min_size=0, max_size=size, check=ConnectionPool.check_connection)
            if with_threads
            else None
        )
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
