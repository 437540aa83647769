"""What a handler gets: the facts of its execution and what it may do about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, cast

import psycopg

from flowfabric_client import rows
from flowfabric_client.aio import AsyncClient
from flowfabric_client.client import Client
from flowfabric_client.errors import FlowFabricError, from_psycopg
from flowfabric_client.worker import budgets, children, streaming, suspension
from flowfabric_client.worker.budgets import Amounts, OpenReservation
from flowfabric_client.worker.children import Child, EndedChild
from flowfabric_client.worker.codec import encode_result
from flowfabric_client.worker.facts import Facts
from flowfabric_client.worker.signals import LeaseLost
from flowfabric_client.worker.steps import Request, Steps, carry_out, carry_out_in_loop
from flowfabric_client.worker.streaming import Frame, StreamMode
from flowfabric_client.worker.suspension import Answer, Condition, OnTimeout, Wait, Waitpoint

T = TypeVar("T")

HandOut = Callable[[AsyncClient, Waitpoint], Awaitable[None]]
SyncHandOut = Callable[[Client, Waitpoint], None]
NO_TAGS: Mapping[str, Any] = MappingProxyType({})


@contextmanager
def _engine_errors() -> Iterator[None]:
    """What the driver raises at the borders of a transaction, as the client raises it inside."""
    try:
        yield
    except psycopg.OperationalError as cause:
        raise from_psycopg(cause) from cause


@dataclass(frozen=True, slots=True)
class Context(Facts):
    """The context of an `async def` handler."""

    async def _do(self, steps: Steps[T]) -> T:
        self._job.check_open()
        return await carry_out_in_loop(steps, self._connections.asynchronous)

    async def progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Store how far the work has come; a database that is away for the moment is only logged."""
        await self._do(self._progress(pct, message))

    async def stream(
        self,
        value: Any,
        *,
        frame_type: str | None = None,
        mode: StreamMode = "durable",
        ttl_ms: int = 0,
    ) -> None:
        """Append a frame to the output of this attempt, which readers can follow.

        A frame whose answer was lost with the connection is sent again and may be there twice, both times
        with the same `correlation_id`.

        Args:
            value: Bytes are stored as they are, text as UTF-8, everything else as JSON.
            frame_type: What readers tell frames apart by; `text`, `binary` or `json` unless given.
            mode: `best_effort` frames may be dropped: while the database is away, and when there are many.
            ttl_ms: For how long best-effort frames should be readable; 0 says nothing about it.

        Raises:
            UnserialisableValueError: the value has no form in which it could be stored.
            RetentionLimitExceededError: it is larger than 64 KiB.
            LeaseLost: the execution is not this worker's any more.
        """
        await self._do(streaming.append(self._job, Frame.of(value, frame_type, mode, ttl_ms)))

    async def summary(self, changes: Mapping[str, Any]) -> int:
        """Change the summary of the output, a JSON object, by a JSON merge patch; its new version.

        A member that is None is removed; the text `__ff_null__` stores a null.
        """
        appended = await self._do(streaming.append(self._job, Frame.patch(changes)))
        return streaming.version_of(appended)

    async def suspend(
        self,
        key: str,
        *,
        signal: str | None = None,
        condition: Condition | None = None,
        timeout_ms: int | None = None,
        on_timeout: OnTimeout = "fail",
        hand_out: HandOut | None = None,
        reason: str = "waiting_for_signal",
        resume_delay_ms: int = 0,
    ) -> Answer:
        """Wait for a signal without holding a worker.

        The handler ends here, and runs again from its beginning when the execution goes on; then this call
        returns at once. A key is therefore one question: every later run and attempt gets the same answer,
        until the execution is replayed.

        Args:
            key: Names the waitpoint, and this question among those of the handler.
            signal: The name of the signal to wait for; None takes any.
            condition: A resume condition of the engine instead, which must name the key if it names any.
            timeout_ms: For how long to wait; None waits for ever.
            on_timeout: What then: `resume` lets the handler go on with an answer that has `timed_out`;
                `fail`, `cancel` and `expire` end the execution; `escalate` leaves it to an operator.
            hand_out: Called with a transaction and each waitpoint, to store its token where the one who
                answers finds it: it commits together with the suspension, or neither does.
            reason: The engine's `reason_code`, which tells readers what is waited for.
            resume_delay_ms: How long after the signal to go on.

        Raises:
            Suspended: there is no answer yet; let it through.
            ValueError: the arguments contradict each other.
            LeaseLost: the execution is not this worker's any more.
        """
        wait = Wait.of(key, signal, condition, timeout_ms, on_timeout, reason, resume_delay_ms)
        return await self._do(suspension.suspend(self._job, wait, self._submit(wait, hand_out)))

    def _submit(self, wait: Wait, hand_out: HandOut | None) -> Request:
        job = self._job
        if hand_out is None:
            return lambda client: wait.submit(job, client)

        async def submit(client: AsyncClient) -> Any:
            with _engine_errors():
                async with client.transaction() as tx:
                    answer = await wait.submit(job, cast(Client, tx))
                    for waitpoint in suspension.opened(job, answer):
                        await hand_out(tx, waitpoint)
            return answer

        return cast(Request, submit)

    async def open_waitpoint(self, key: str, *, expires_in_ms: int = 600_000) -> Waitpoint | None:
        """Open the waitpoint of a later `suspend` with this key, to hand its token out before.

        For those who are told directly, not through the database: a signal that comes before the handler has
        suspended is kept for it. None if the key has its answer, so that nobody is asked twice. Nothing that
        gives the execution back may come between this and `suspend`. A worker that dies there leaves a token
        that nobody listens to; the next attempt opens another waitpoint.

        Args:
            key: The key of the suspension.
            expires_in_ms: By when the handler must have suspended.
        """
        return await self._do(suspension.open_waitpoint(self._job, key, expires_in_ms))

    async def report_usage(
        self, budget_id: str, amounts: Amounts, *, key: str | None = None
    ) -> rows.UsageReport:
        """Book what was used. The `outcome` says how that went, and nothing is raised for a breach.

        `ok` and `soft_breach` are booked, `already_applied` was booked before, and `hard_breach` is not: then
        `dimension`, `limit_value` and `current_usage` say which limit has no room for it.

        Args:
            budget_id: The budget.
            amounts: What to add, by dimension.
            key: Book it once for the execution, however often the handler runs; within 24 hours.
        """
        return await self._do(budgets.report(self._job, budget_id, amounts, key))

    @asynccontextmanager
    async def reserve(self, budget_id: str, amounts: Amounts) -> AsyncIterator[Reservation]:
        """Set amounts aside for a block, so that parallel workers together cannot pass a hard limit.

        Call `settle` on what the block gets to book what was really used; what is not settled is given back
        at its end, and also when the worker dies.

        Raises:
            BudgetExceededError: a hard limit has no room; its `details` say which.
        """
        reservation = Reservation(OpenReservation(self._job, budget_id, amounts), self)
        await self._do(reservation.held.reserve())
        try:
            yield reservation
        finally:
            await carry_out_in_loop(reservation.held.give_back(), self._connections.asynchronous)

    async def spawn(
        self,
        kind: str,
        payload: Any = None,
        *,
        key: str | None = None,
        lane_id: str | None = None,
        priority: int = 0,
        policy: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] = NO_TAGS,
    ) -> Child:
        """Create a child execution, once: a later run that spawns with the same key gets the same child.

        The role of the worker needs `flowfabric_producer` and `flowfabric_reader` too.

        Args:
            kind: The kind of the child.
            payload: Bytes are stored as they are, text as UTF-8, everything else as JSON.
            key: What tells it from the other children. Unless given, its kind and its place among them count,
                so that a handler must then spawn the same ones in the same order in every run.
            lane_id: Its lane; that of this execution unless given.
            priority: Its priority.
            policy: Its policy.
            tags: Its tags.
        """
        return await self._do(children.spawn(self._job, kind, payload, key, lane_id, priority, policy, tags))

    async def wait_children(
        self, *these: Child, longest_pause_ms: int = children.LONGEST_PAUSE_MS
    ) -> list[EndedChild]:
        """Wait until children have ended, well or not, without holding a worker.

        The handler ends here, and runs again from its beginning when it is time to look; once all have ended,
        this call returns them.

        Args:
            these: Whom to wait for; all that this run has spawned unless given.
            longest_pause_ms: The longest time between two looks. They come after a quarter of the time that a
                child has taken so far.

        Raises:
            WaitingForChildren: one has not ended; let it through.
        """
        return await self._do(children.wait(self._job, these or tuple(self._job.children), longest_pause_ms))

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
        self._job.check_open()
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
        await self._do(self._delay(until_ms))

    async def wait_cancelled(self) -> None:
        """Wait until the lease is lost."""
        await asyncio.shield(self._job.loss)


@dataclass(frozen=True, slots=True)
class Reservation:
    """What `Context.reserve` has set aside."""

    held: OpenReservation
    """Its `budget_id` and `key`, for settling inside a transaction of yours."""
    _context: Context

    async def settle(self, actuals: Amounts) -> rows.UsageReport:
        """Book what was really used instead, even beyond a limit: see `Context.report_usage`."""
        return await self._context._do(self.held.settle(actuals))


@dataclass(frozen=True, slots=True)
class SyncContext(Facts):
    """The context of a plain `def` handler, which runs in a thread."""

    def _do(self, steps: Steps[T]) -> T:
        self._job.check_open()
        return carry_out(steps, self._connections.synchronous)

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
        self._do(self._progress(pct, message))

    def stream(
        self,
        value: Any,
        *,
        frame_type: str | None = None,
        mode: StreamMode = "durable",
        ttl_ms: int = 0,
    ) -> None:
        """Append a frame to the output of this attempt: see `Context.stream`."""
        self._do(streaming.append(self._job, Frame.of(value, frame_type, mode, ttl_ms)))

    def summary(self, changes: Mapping[str, Any]) -> int:
        """Change the summary of the output: see `Context.summary`."""
        return streaming.version_of(self._do(streaming.append(self._job, Frame.patch(changes))))

    def suspend(
        self,
        key: str,
        *,
        signal: str | None = None,
        condition: Condition | None = None,
        timeout_ms: int | None = None,
        on_timeout: OnTimeout = "fail",
        hand_out: SyncHandOut | None = None,
        reason: str = "waiting_for_signal",
        resume_delay_ms: int = 0,
    ) -> Answer:
        """Wait for a signal without holding a worker: see `Context.suspend`."""
        wait = Wait.of(key, signal, condition, timeout_ms, on_timeout, reason, resume_delay_ms)
        return self._do(suspension.suspend(self._job, wait, self._submit(wait, hand_out)))

    def _submit(self, wait: Wait, hand_out: SyncHandOut | None) -> Request:
        job = self._job
        if hand_out is None:
            return lambda client: wait.submit(job, client)

        def submit(client: Client) -> Any:
            with _engine_errors(), client.transaction() as tx:
                answer = wait.submit(job, tx)
                for waitpoint in suspension.opened(job, answer):
                    hand_out(tx, waitpoint)
            return answer

        return submit

    def open_waitpoint(self, key: str, *, expires_in_ms: int = 600_000) -> Waitpoint | None:
        """Open the waitpoint of a later `suspend`: see `Context.open_waitpoint`."""
        return self._do(suspension.open_waitpoint(self._job, key, expires_in_ms))

    def report_usage(self, budget_id: str, amounts: Amounts, *, key: str | None = None) -> rows.UsageReport:
        """Book what was used: see `Context.report_usage`."""
        return self._do(budgets.report(self._job, budget_id, amounts, key))

    @contextmanager
    def reserve(self, budget_id: str, amounts: Amounts) -> Iterator[SyncReservation]:
        """Set amounts aside for a block: see `Context.reserve`."""
        reservation = SyncReservation(OpenReservation(self._job, budget_id, amounts), self)
        self._do(reservation.held.reserve())
        try:
            yield reservation
        finally:
            carry_out(reservation.held.give_back(), self._connections.synchronous)

    def spawn(
        self,
        kind: str,
        payload: Any = None,
        *,
        key: str | None = None,
        lane_id: str | None = None,
        priority: int = 0,
        policy: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] = NO_TAGS,
    ) -> Child:
        """Create a child execution, once: see `Context.spawn`."""
        return self._do(children.spawn(self._job, kind, payload, key, lane_id, priority, policy, tags))

    def wait_children(
        self, *these: Child, longest_pause_ms: int = children.LONGEST_PAUSE_MS
    ) -> list[EndedChild]:
        """Wait until children have ended: see `Context.wait_children`."""
        return self._do(children.wait(self._job, these or tuple(self._job.children), longest_pause_ms))

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
        self._job.check_open()
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
        self._do(self._delay(until_ms))


@dataclass(frozen=True, slots=True)
class SyncReservation:
    """What `SyncContext.reserve` has set aside."""

    held: OpenReservation
    """Its `budget_id` and `key`, for settling inside a transaction of yours."""
    _context: SyncContext

    def settle(self, actuals: Amounts) -> rows.UsageReport:
        """Book what was really used instead, even beyond a limit: see `Context.report_usage`."""
        return self._context._do(self.held.settle(actuals))
