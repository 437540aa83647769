"""What a handler gets: the facts of its execution and what it may do about it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from flowfabric_client.aio import AsyncClient
from flowfabric_client.client import Client
from flowfabric_client.errors import ExecutionNotActiveError, FlowFabricError
from flowfabric_client.handle import Handle
from flowfabric_client.worker.backoff import Backoff, passes
from flowfabric_client.worker.codec import encode_result
from flowfabric_client.worker.job import Job
from flowfabric_client.worker.signals import Delayed, LeaseLost

_LOGGER = logging.getLogger("flowfabric.worker.handler")


class HandlerConnections:
    """Connections for handlers, apart from the worker's own: a handler must not keep leases from renewal."""

    def __init__(self, dsn: str, size: int, *, name: str, with_threads: bool) -> None:
        options: dict[str, Any] = {
            "min_size": 0,
            "max_size": size,
            "open": False,
            "kwargs": {"autocommit": True, "fallback_application_name": name},
        }
        self._async_pool = AsyncConnectionPool[Any](
            dsn, check=AsyncConnectionPool.check_connection, **options
        )
        self._pool = (
            ConnectionPool[Any](dsn, check=ConnectionPool.check_connection, **options)
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


class _JobLogger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        facts = dict(self.extra or {})
        kwargs["extra"] = {**facts, **kwargs.get("extra", {})}
        return f"[{facts['execution_kind']} {facts['execution_id']} #{facts['attempt_index']}] {msg}", kwargs


@dataclass(frozen=True, slots=True)
class _Facts:
    _job: Job
    _connections: HandlerConnections

    @property
    def handle(self) -> Handle:
        """The lease, for calls of your own: `client.set_...(**ctx.handle.arguments())`."""
        return self._job.handle

    @property
    def execution_id(self) -> str:
        """The execution, in wire form."""
        return self._job.claim.execution_id

    @property
    def kind(self) -> str:
        """The kind that the handler was found by."""
        return self._job.claim.execution_kind

    @property
    def lane_id(self) -> str:
        """The lane that the execution came from."""
        return self._job.claim.lane_id

    @property
    def namespace(self) -> str:
        """The namespace of the execution."""
        return self._job.claim.namespace

    @property
    def attempt_index(self) -> int:
        """0 for the first attempt; retries, reclaims and replays count on."""
        return self._job.handle.attempt_index

    @property
    def payload(self) -> bytes:
        """The payload as stored; empty if there is none."""
        return self._job.claim.payload or b""

    @property
    def tags(self) -> Mapping[str, Any]:
        """The tags at the time of the claim."""
        return MappingProxyType(self._job.claim.tags or {})

    @property
    def policy(self) -> Mapping[str, Any]:
        """The policy document; empty if there is none."""
        return MappingProxyType(self._job.claim.policy or {})

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the ids of the execution."""
        return _JobLogger(
            _LOGGER,
            {
                "execution_id": self.execution_id,
                "execution_kind": self.kind,
                "attempt_index": self.attempt_index,
                "lane_id": self.lane_id,
            },
        )

    def _check_open(self) -> None:
        self._job.check()
        if self._job.completion != "none":
            # The database would let a call on another connection wait for the open transaction, for ever.
            raise RuntimeError("nothing more can be said of an execution after complete_in")

    def cancelled(self) -> bool:
        """Whether to stop: the lease is lost, or the handler's time is up. Nothing will be reported."""
        return self._job.cancelled.is_set()

    def _progress_failed(self, error: FlowFabricError) -> None:
        self._job.refused(error)
        if not passes(error):
            raise error
        self.logger.warning("progress was not stored: %s", error)

    def _pause_before_next_delay(self, error: FlowFabricError, backoff: Backoff) -> float | None:
        """How long to wait before the delay is asked for again; None if it had been granted after all."""
        job = self._job
        details = error.details
        # A lost answer: nobody but the holder of this epoch interrupts its attempt with a delay.
        if (
            isinstance(error, ExecutionNotActiveError)
            and details.get("attempt_state") == "attempt_interrupted"
            and details.get("lease_epoch") == job.handle.lease_epoch
            and details.get("attempt_id") == str(job.handle.attempt_id)
        ):
            return None
        if passes(error):
            return backoff.pause_s()
        job.delayed_until_ms = None
        job.refused(error)
        raise error


@dataclass(frozen=True, slots=True)
class Context(_Facts):
    """The context of an `async def` handler."""

    async def progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Store how far the work has come; a database that is away for the moment is only logged."""
        self._check_open()
        try:
            await self._connections.asynchronous.update_progress(
                **self.handle.arguments(), progress_pct=pct, progress_message=message
            )
        except FlowFabricError as error:
            self._progress_failed(error)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncClient]:
        """A transaction for effects: `tx.connection` for your own SQL, `tx` for calls of the engine."""
        job = self._job
        job.check()
        async with self._connections.asynchronous.transaction() as tx:
            try:
                yield tx
            except BaseException:
                job.completion = "none"
                raise
        if job.completion == "unknown":
            job.completion = "committed"

    async def complete_in(
        self, transaction: AsyncClient | psycopg.AsyncConnection[Any], result: Any = None
    ) -> None:
        """Complete the execution inside a transaction: it commits with your effects or not at all.

        What the handler returns afterwards is ignored. Nothing may follow in the transaction that can fail
        for reasons of its own; commit soon, because the execution stays locked until then.

        Raises:
            UnserialisableResultError: the result has no form in which it could be stored.
            LeaseLost: the execution is not this worker's any more.
        """
        self._check_open()
        data, encoding = encode_result(result)
        client = transaction if isinstance(transaction, AsyncClient) else AsyncClient(transaction)
        try:
            await client.complete_execution(**self.handle.arguments(), result=data, result_encoding=encoding)
        except FlowFabricError as error:
            self._job.refused(error)
            raise
        self._job.completion = "unknown"

    async def delay(self, until_ms: int) -> NoReturn:
        """Give the execution back until a time; the same attempt goes on then, with a new run of the handler.

        Raises:
            Delayed: always, when the database has it; let it through.
        """
        self._check_open()
        self._job.delayed_until_ms = until_ms
        backoff = Backoff()
        while True:
            try:
                await self._connections.asynchronous.delay_execution(
                    delay_until_ms=until_ms, **self.handle.arguments()
                )
            except FlowFabricError as error:
                pause_s = self._pause_before_next_delay(error, backoff)
            else:
                pause_s = None
            if pause_s is None:
                raise Delayed
            await asyncio.sleep(pause_s)

    async def wait_cancelled(self) -> None:
        """Wait until the lease is lost."""
        await asyncio.shield(self._job.lost)


@dataclass(frozen=True, slots=True)
class SyncContext(_Facts):
    """The context of a plain `def` handler, which runs in a thread."""

    def raise_if_cancelled(self) -> None:
        """End the handler here if its lease is lost or its time is up.

        Raises:
            LeaseLost: it is.
        """
        self._job.check()
        if self.cancelled():
            raise LeaseLost(self.execution_id, "timeout")

    def wait_cancelled(self, timeout_s: float | None = None) -> bool:
        """Wait until the handler should stop; False if the time is over first."""
        return self._job.cancelled.wait(timeout_s)

    def progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Store how far the work has come; a database that is away for the moment is only logged."""
        self._check_open()
        try:
            self._connections.synchronous.update_progress(
                **self.handle.arguments(), progress_pct=pct, progress_message=message
            )
        except FlowFabricError as error:
            self._progress_failed(error)

    @contextmanager
    def transaction(self) -> Iterator[Client]:
        """A transaction for effects: `tx.connection` for your own SQL, `tx` for calls of the engine."""
        job = self._job
        job.check()
        with self._connections.synchronous.transaction() as tx:
            try:
                yield tx
            except BaseException:
                job.completion = "none"
                raise
        if job.completion == "unknown":
            job.completion = "committed"

    def complete_in(self, transaction: Client | psycopg.Connection[Any], result: Any = None) -> None:
        """Complete the execution inside a transaction: see `Context.complete_in`."""
        self._check_open()
        data, encoding = encode_result(result)
        client = transaction if isinstance(transaction, Client) else Client(transaction)
        try:
            client.complete_execution(**self.handle.arguments(), result=data, result_encoding=encoding)
        except FlowFabricError as error:
            self._job.refused(error)
            raise
        self._job.completion = "unknown"

    def delay(self, until_ms: int) -> NoReturn:
        """Give the execution back until a time: see `Context.delay`."""
        self._check_open()
        self._job.delayed_until_ms = until_ms
        backoff = Backoff()
        while True:
            try:
                self._connections.synchronous.delay_execution(
                    delay_until_ms=until_ms, **self.handle.arguments()
                )
            except FlowFabricError as error:
                pause_s = self._pause_before_next_delay(error, backoff)
            else:
                pause_s = None
            if pause_s is None:
                raise Delayed
            time.sleep(pause_s)
