"""What a test gets from the fixture `flowfabric`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any, Self
from uuid import UUID

import psycopg
from psycopg.rows import TupleRow

from flowfabric_client.client import Client
from flowfabric_client.rows import ScannerRun, SignalDelivery, WaitpointListing
from flowfabric_client.testing.clock import (
    NEXT_DUE_SQL,
    Duration,
    Instant,
    as_datetime,
    duration_ms,
    instant_ms,
)
from flowfabric_client.testing.drain import DrainingRuntime, Ran
from flowfabric_client.worker import Worker
from flowfabric_client.worker.codec import encode_value

# Scanners that keep house: what they do lets nothing run.
HOUSEKEEPING = frozenset(
    {
        "future_times",
        "worker_ttl",
        "event_notify",
        "claim_floor",
        "stream_ttl",
        "dedup_expiry",
        "event_prune",
        "retention",
    }
)
# It visits flows that have not ended again and again, so what it does is no news.
NEVER_DONE = "flow_summary"

_TICK_LIMIT = 1_000
_TICK_MAX_MS = 60_000

#: Whether the clock moves by itself: not at all, through all that is due one day, or for so long.
Advance = bool | Duration


class FlowFabric:
    """A database with FlowFabric that is the test's alone, and the means to move what is in it."""

    def __init__(self, dsn: str, client: Client, connection: psycopg.Connection[TupleRow]) -> None:
        self.dsn = dsn
        """The connection string, as superuser; for the application's own connections."""
        self.client = client
        """A client with every right."""
        self._connection = connection

    @classmethod
    @contextmanager
    def on(cls, dsn: str) -> Iterator[Self]:
        """Work on a database that has FlowFabric with the test clock, without pytest."""
        with Client(dsn) as client, psycopg.connect(dsn, autocommit=True) as connection:
            yield cls(dsn, client, connection)

    # Time

    @property
    def now_ms(self) -> int:
        """What the engine takes for the present, in milliseconds since 1970."""
        return int(self._value("select flowfabric.ff_now_ms()"))

    @property
    def now(self) -> datetime:
        """What the engine takes for the present, in UTC."""
        return as_datetime(self.now_ms)

    def freeze_time(self, when: Instant | None = None) -> datetime:
        """Let the engine's clock stand: at a time, or at the present one.

        Args:
            when: A datetime with a time zone, or milliseconds since 1970.

        Raises:
            ValueError: the datetime has no time zone.
        """
        return self._set_clock("freeze", self.now_ms if when is None else instant_ms(when))

    def advance(self, by: Duration) -> datetime:
        """Move the engine's clock forward, whether it stands or runs; nothing else happens yet.

        Args:
            by: A timedelta, or milliseconds.
        """
        return self._set_clock("advance", duration_ms(by))

    def unfreeze_time(self) -> datetime:
        """Go back to the wall clock."""
        return self._set_clock("reset", None)

    # Work

    def worker(self, **options: Any) -> Worker:
        """A worker on this database, for handlers that the test itself registers; options as for `Worker`."""
        return Worker(self.dsn, **options)

    def run_until_idle(
        self, worker: Worker, *, advance: Advance = False, timeout_s: float = 30.0
    ) -> list[Ran]:
        """Run a worker in this process until there is nothing left to do at the engine's present time.

        Whatever is due is done, without waiting: retries, delays, timeouts, lost leases, dependencies. The
        worker may have been made for any other database: its handlers run against this one.

        Args:
            worker: Whose handlers, lanes and capabilities count.
            advance: False leaves the clock alone. A duration moves it from one due time to the next, for so
                long altogether. True does so until nothing is due any more.
            timeout_s: How long all of it may take.

        Returns:
            The runs in the order in which they ended; an execution that is retried has several.

        Raises:
            NotIdleError: there was still something to do when the time was up.
            FlowFabricError: the database refused a call of the worker.
        """
        if _event_loop_is_running():
            raise RuntimeError("An event loop is running: `await flowfabric.run_until_idle_async(...)`.")
        return asyncio.run(self.run_until_idle_async(worker, advance=advance, timeout_s=timeout_s))

    async def run_until_idle_async(
        self, worker: Worker, *, advance: Advance = False, timeout_s: float = 30.0
    ) -> list[Ran]:
        """Run a worker in the event loop of the test: see `run_until_idle`."""
        until_ms = None if isinstance(advance, bool) else self.now_ms + duration_ms(advance)
        runtime = DrainingRuntime(
            worker, self.dsn, scan=self._run_scanners, advance=self._time_step(advance, until_ms)
        )
        ran = await runtime.drain_within(timeout_s)
        if until_ms is not None:
            self.advance(max(0, until_ms - self.now_ms))
        await asyncio.to_thread(self._tick)
        return ran

    def deliver(
        self,
        target: str | UUID,
        name: str,
        payload: Any = None,
        *,
        waitpoint_key: str | None = None,
        **options: Any,
    ) -> SignalDelivery:
        """Deliver a signal to whoever waits for it, without knowing the token.

        Args:
            target: An execution, or the id of one of its waitpoints.
            name: The signal's name.
            payload: What comes with it: bytes and text as they are, anything else as JSON.
            waitpoint_key: Which waitpoint of the execution, if several wait for a signal of that name.
            options: Further arguments of `Client.deliver_signal`, such as `idempotency_key`.

        Raises:
            LookupError: nothing waits for it, or more than one waitpoint does.
            FlowFabricError: the signal is refused.
        """
        waitpoint = self._waitpoint(target, name, waitpoint_key)
        token = self.client.read_waitpoint_token(waitpoint.execution_id, waitpoint.waitpoint_id)
        if token is None:
            raise LookupError(f"Waitpoint {waitpoint.waitpoint_id} is not open any more.")
        data, encoding = encode_value(payload)
        deliver = (
            self.client.buffer_signal_for_pending_waitpoint
            if waitpoint.state == "pending"
            else self.client.deliver_signal
        )
        return deliver(
            waitpoint.execution_id,
            waitpoint.waitpoint_id,
            token.waitpoint_token,
            name,
            payload=data,
            payload_encoding=encoding or "json",
            **options,
        )

    # Inside

    def _run_scanners(self) -> bool:
        """Run those that can let something run, due or not: under a frozen clock no interval passes."""
        runs = self._tick(scanners=self._movers, force=True)
        return any(run.processed for run in runs if run.scanner != NEVER_DONE)

    @cached_property
    def _movers(self) -> list[str]:
        scanners = (listing.scanner for listing in self.client.list_scanners())
        return [scanner for scanner in scanners if scanner not in HOUSEKEEPING]

    def _tick(self, **options: Any) -> list[ScannerRun]:
        runs = self.client.tick(limit=_TICK_LIMIT, max_ms=_TICK_MAX_MS, **options)
        for run in runs:
            if run.status == "failed":
                raise AssertionError(f"The engine's scanner {run.scanner} failed: {run.last_error}")
        return runs

    def _time_step(self, advance: Advance, until_ms: int | None) -> Callable[[], bool]:
        def advance_to_next_due() -> bool:
            due_ms = self._value(NEXT_DUE_SQL)
            if due_ms is None or (until_ms is not None and due_ms > until_ms):
                return False
            self.advance(max(0, due_ms - self.now_ms))
            return True

        return (lambda: False) if advance is False else advance_to_next_due

    def _waitpoint(self, target: str | UUID, name: str, key: str | None) -> WaitpointListing:
        waitpoint_id = _as_uuid(target)
        execution_id = str(target) if waitpoint_id is None else self._execution_of(waitpoint_id)
        open_waitpoints = [
            waitpoint
            for waitpoint in self.client.list_pending_waitpoints(execution_id)
            if waitpoint_id in (None, waitpoint.waitpoint_id) and key in (None, waitpoint.waitpoint_key)
        ]
        wanting = [
            waitpoint for waitpoint in open_waitpoints if name in waitpoint.required_signal_names
        ] or open_waitpoints
        if len(wanting) == 1:
            return wanting[0]
        if not wanting:
            state = self.client.read_execution_state(execution_id)
            raise LookupError(f"No open waitpoint of {execution_id} matches; the execution is {state}.")
        keys = ", ".join(waitpoint.waitpoint_key for waitpoint in wanting)
        raise LookupError(f"Several waitpoints of {execution_id} are open: say which waitpoint_key ({keys}).")

    def _execution_of(self, waitpoint_id: UUID) -> str:
        execution_id = self._value(
            "select flowfabric.ff_format_execution_id(w.partition_key, w.execution_id)"
            " from flowfabric.ff_waitpoint_pending as w where w.waitpoint_id = %s",
            waitpoint_id,
        )
        if execution_id is None:
            raise LookupError(f"There is no waitpoint {waitpoint_id}.")
        return str(execution_id)

    def _set_clock(self, mode: str, ms: int | None) -> datetime:
        return as_datetime(self.client.test_set_clock(mode, ms=ms).now_ms)

    def _value(self, statement: str, *parameters: Any) -> Any:
        row = self._connection.execute(statement.encode(), parameters or None).fetchone()
        return None if row is None else row[0]


def _as_uuid(target: str | UUID) -> UUID | None:
    if isinstance(target, UUID):
        return target
    try:
        return UUID(target)
    except ValueError:
        return None


def _event_loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
