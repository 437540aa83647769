"""One run of a worker: what it claims, holds, reports, and how it stops.

Each activity is a loop of its own that outlives any error of the database: it pauses and tries again. They
share the jobs, which only the event loop's thread changes.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from flowfabric_client._sql import SqlSources
from flowfabric_client.aio import AsyncClient
from flowfabric_client.errors import (
    ExecutionNotActiveError,
    FlowFabricError,
    LeaseLostError,
    PermissionDeniedError,
    TransportError,
    UnavailableError,
    ValidationError,
)
from flowfabric_client.handle import Handle
from flowfabric_client.worker import events
from flowfabric_client.worker.backoff import LONGEST_S, Backoff
from flowfabric_client.worker.codec import InvalidPayloadError, failure_text
from flowfabric_client.worker.connections import ConnectionOptions, HandlerConnections
from flowfabric_client.worker.handlers import Handler
from flowfabric_client.worker.job import Claim, Failure, Job, Outcome
from flowfabric_client.worker.reporting import Reporter, fences

_LOGGER = logging.getLogger("flowfabric.worker")

LARGEST_CLAIM = 100
THIRD_LOOK_S = 0.1
LOOP_LAG_WORTH_TELLING_S = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """How a worker was configured; see `Worker`."""

    dsn: str
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...]
    concurrency: int
    lease_ttl_ms: int
    worker_id: str
    instance_id: str
    namespace: str | None
    poll_interval_s: float
    listen: bool
    listen_dsn: str
    run_ticks: bool
    max_connections: int
    prepare_statements: bool | None


class Runtime:
    """The state of one run."""

    def __init__(
        self, options: Options, handlers: Mapping[str, Handler], callbacks: Sequence[events.EventCallback]
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._callbacks = callbacks
        self._ttl_s = options.lease_ttl_ms / 1000
        connections = ConnectionOptions(options.dsn, options.instance_id, options.prepare_statements)
        self._pool = connections.own_pool(min_size=1, max_size=options.max_connections, timeout=5.0)
        self._client = AsyncClient(self._pool)
        self._connections = HandlerConnections(
            connections,
            options.concurrency,
            with_threads=any(not handler.is_async for handler in handlers.values()),
        )
        self._threads = ThreadPoolExecutor(options.concurrency, thread_name_prefix="flowfabric-handler")
        self._reporter = Reporter(self._client, self._connections.asynchronous, self._emit)
        self._jobs: dict[UUID, Job] = {}
        self._carriers: set[asyncio.Task[None]] = set()
        self._waiting_renewal: asyncio.Task[None] | None = None
        self._drain_requested = asyncio.Event()
        # None until the registry was asked whether this worker may work.
        self._paused: bool | None = None
        self._woken = asyncio.Event()
        self._slots_changed = asyncio.Event()
        self._registered_as_waiter_at = float("-inf")
        self._reclaimed_at = float("-inf")
        self._claim_answer_was_lost = False
        self._has_claimed = False
        self._schema_version = SqlSources.shipped().migrations()[-1].number
        self._server_is_known = False

    # Beginning and end

    async def run(self) -> None:
        """Work until `drain` is called and everything that was started has ended.

        Raises:
            FlowFabricError: the database refuses this worker for good: wrong arguments, missing rights, no
                FlowFabric in it.
        """
        options = self._options
        async with AsyncExitStack() as stack:
            await self._pool.open(wait=False)
            stack.push_async_callback(self._pool.close)
            await stack.enter_async_context(self._connections)
            stack.callback(self._threads.shutdown, wait=False)
            background = [
                self._keep_going(
                    "renewing leases", self._renew, longest_pause_s=min(LONGEST_S, self._ttl_s / 6)
                ),
                self._keep_going("watching", self._watch),
                self._reporter.run(),
                self._keep_going("registering", self._register_or_beat(), optional=True),
            ]
            if options.listen:
                background.append(self._keep_going("listening", self._listen))
            if options.run_ticks:
                background.append(self._keep_going("ticking", self._tick, optional=True))
            tasks = [asyncio.create_task(activity) for activity in background]
            stack.push_async_callback(_cancel, tasks)
            try:
                await self._claim_until_drained()
            finally:
                while self._carriers:
                    await asyncio.wait(self._carriers)
                if self._waiting_renewal is not None:
                    await _cancel([self._waiting_renewal])
            if options.listen:
                with suppress(FlowFabricError):
                    await self._client.wait_for_work(options.lanes, options.instance_id, wait_ms=0)

    @property
    def _draining(self) -> bool:
        return self._drain_requested.is_set()

    def drain(self) -> None:
        """Claim nothing more; `run` returns when the running work has ended."""
        if self._draining:
            return
        _LOGGER.info("draining: %d executions are running", len(self._jobs))
        self._emit(events.DrainStarted(len(self._jobs)))
        self._drain_requested.set()
        self._woken.set()
        self._slots_changed.set()

    async def _keep_going(
        self,
        activity: str,
        step: Callable[[], Awaitable[float]],
        *,
        optional: bool = False,
        longest_pause_s: float = LONGEST_S,
    ) -> None:
        """Repeat a step, which returns the pause after it, whatever the database does."""
        backoff = Backoff(longest_pause_s)
        while True:
            try:
                pause_s = await step()
                backoff.reset()
            except (UnavailableError, PermissionDeniedError) as error:
                if optional:
                    _LOGGER.warning("this worker goes on without %s: %s", activity, error)
                    return
                pause_s = self._trouble(activity, error, backoff)
            except Exception as error:
                if not isinstance(error, FlowFabricError | psycopg.Error):
                    _LOGGER.exception("unexpected error while %s", activity)
                pause_s = self._trouble(activity, error, backoff)
            await asyncio.sleep(pause_s)

    def _trouble(self, activity: str, error: Exception, backoff: Backoff) -> float:
        pause_s = backoff.pause_s()
        _LOGGER.warning("%s failed, next try in %.1f s: %s", activity, pause_s, error)
        self._emit(events.Trouble(activity, error, pause_s))
        return pause_s

    def _emit(self, event: events.Event) -> None:
        for callback in self._callbacks:
            try:
                callback(event)
            except Exception:
                _LOGGER.exception("a callback of on_event raised")

    # Claiming

    async def _claim_until_drained(self) -> None:
        backoff = Backoff()
        empty_looks = 0
        while not self._draining:
            self._slots_changed.clear()
            free = self._free_slots()
            if free == 0:
                await self._slots_changed.wait()
                continue
            # Who is woken when idle was most likely called for one execution, and a claim of one is quicker;
            # the next look is for all slots.
            if empty_looks >= 2 and self._woken.is_set():
                free = 1
            try:
                self._woken.clear()
                if empty_looks:
                    await self._register_as_waiter()
                found = await self._look(free)
                backoff.reset()
            except FlowFabricError as error:
                if not self._has_claimed and _is_final(error):
                    raise
                if isinstance(error, TransportError):
                    self._claim_answer_was_lost = True
                    self._server_is_known = False
                await _wait(self._drain_requested, self._trouble("claiming", error, backoff))
                continue
            if found:
                empty_looks = 0
                # The next look is work for this thread too: first let the handlers of this one start, each of
                # which is a task that a task starts.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                continue
            # Look, register, look again, look once more after a moment, then poll: spec 40, section 3.6 shows
            # that an execution can slip through all of this only while its creator's transaction stays open.
            empty_looks += 1
            if empty_looks == 2:
                await _wait(self._woken, THIRD_LOOK_S)
            elif empty_looks > 2:
                if empty_looks == 3:
                    self._emit(events.Idle())
                await _wait(self._woken, self._options.poll_interval_s)

    def _free_slots(self) -> int:
        return max(0, self._options.concurrency - len(self._jobs)) if self._paused is False else 0

    async def _register_as_waiter(self) -> None:
        poll_s = self._options.poll_interval_s
        now = time.monotonic()
        if not self._options.listen or now - self._registered_as_waiter_at < poll_s / 2:
            return
        wait_ms = min(60_000, int(2000 * poll_s))
        await self._client.wait_for_work(self._options.lanes, self._options.instance_id, wait_ms=wait_ms)
        self._registered_as_waiter_at = now

    async def _look(self, free: int) -> bool:
        """Claim for the free slots; whether there was anything."""
        if not self._server_is_known:
            # The server may be another one than before. Data that were restored elsewhere need a new epoch of
            # event cursors before anything is written, or their consumers would miss it.
            await self._client.boot_check(self._schema_version)
            self._server_is_known = True
        if self._claim_answer_was_lost:
            await self._hand_back_unknown_leases()
            self._claim_answer_was_lost = False
        options = self._options
        claimed = await self._client.claim_next(
            options.lanes,
            options.worker_id,
            options.instance_id,
            capabilities=options.capabilities,
            max=min(free, LARGEST_CLAIM),
            lease_ttl_ms=options.lease_ttl_ms,
            namespace=options.namespace,
        )
        self._has_claimed = True
        await self._accept(claimed)
        free -= len(claimed)
        now = time.monotonic()
        if free <= 0 or self._draining or now - self._reclaimed_at < options.poll_interval_s:
            return bool(claimed)
        self._reclaimed_at = now
        reclaimed = await self._client.reclaim_next(
            options.lanes,
            options.worker_id,
            options.instance_id,
            capabilities=options.capabilities,
            max=min(free, LARGEST_CLAIM),
            lease_ttl_ms=options.lease_ttl_ms,
            namespace=options.namespace,
        )
        await self._accept([row for row in reclaimed if row.lease_id is not None])
        for row in reclaimed:
            if row.lease_id is None:
                self._emit(events.ReclaimsUsedUp(row.execution_id, row.execution_kind))
        return bool(claimed or reclaimed)

    async def _accept(self, claims: Sequence[Claim]) -> None:
        # Once for all of them: with hundreds of slots a search for each would take longer than the handlers.
        held = {job.handle.execution_id: job for job in self._jobs.values()} if claims else {}
        for claim in claims:
            job = Job(claim, self._emit)
            self._emit(events.Claimed(*job.facts(), job.handle.kind))
            if self._draining:
                await self._hand_back(job.handle, _claimed_at_ms(claim))
                self._emit(events.HandedBack(*job.facts()))
                continue
            other = held.get(job.handle.execution_id)
            if other is not None and not other.speaks_for_itself:
                # Lost and, by chance, found by the same worker, sooner than a renewal could tell.
                other.lose("stale_lease")
            self._jobs[job.handle.lease_id] = job
            carrier = asyncio.create_task(self._carry_out(job))
            self._carriers.add(carrier)
            carrier.add_done_callback(self._carriers.discard)

    async def _hand_back(self, handle: Handle, until_ms: int) -> None:
        try:
            await self._client.delay_execution(delay_until_ms=until_ms, **handle.arguments())
        except FlowFabricError as error:
            # Nothing is lost: the lease runs out, and the execution is reclaimed.
            _LOGGER.warning("%s was not handed back: %s", handle.execution_id, error)

    async def _hand_back_unknown_leases(self) -> None:
        """Give back what was claimed by a call whose answer was lost."""
        leases = await self._client.list_worker_leases(self._options.instance_id)
        for lease in leases:
            if lease.ownership_state != "leased" or lease.lease_id in self._jobs:
                continue
            handle = Handle(
                lease.execution_id,
                lease.attempt_index,
                lease.attempt_id,
                lease.lease_id,
                lease.lease_epoch,
                self._options.lease_ttl_ms,
                lease.lane_id,
                self._options.instance_id,
                "fresh",
            )
            await self._hand_back(handle, lease.lease_expires_at_ms - self._options.lease_ttl_ms)

    # Running

    async def _carry_out(self, job: Job) -> None:
        try:
            outcome = await self._run_handler(job)
            if outcome is not None and job.lost_code is None:
                await self._reporter.report(job, outcome)
        finally:
            job.settled = True
            # A handler that ignores its cancellation keeps its slot: more must not run than are allowed.
            if job.runner is not None and not job.runner.done():
                await asyncio.wait({job.runner})
            del self._jobs[job.handle.lease_id]
            self._slots_changed.set()

    async def _run_handler(self, job: Job) -> Outcome | None:
        """The outcome to report; None if there is nothing to say."""
        handler = self._handlers.get(job.claim.execution_kind)
        if handler is None:
            return Failure("permanent", f"unknown kind: {job.claim.execution_kind}")
        try:
            arguments = handler.arguments(job.claim.payload or b"")
        except InvalidPayloadError as error:
            return Failure("permanent", failure_text(error))
        self._emit(events.Started(*job.facts()))
        runner = handler.start(job, arguments, self._connections, self._threads)
        job.runner = runner
        ends: list[asyncio.Future[Any]] = [runner, job.lost]
        await asyncio.wait(ends, timeout=handler.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if runner.done():
            return self._outcome_of(job, runner.result().outcome)
        job.cancelled.set()
        if handler.is_async:
            runner.cancel()
        too_late = Failure("timeout", f"the handler took longer than {handler.timeout_s} s")
        return self._outcome_of(job, lambda: too_late)

    def _outcome_of(self, job: Job, outcome: Callable[[], Outcome]) -> Outcome | None:
        if job.lost_code is not None:
            return None
        if job.pause is not None:
            self._emit(job.pause)
            return None
        if job.completion == "committed":
            self._emit(events.Completed(*job.facts(), job.seconds))
            return None
        if job.completion == "unknown":
            ended = outcome()
            return (
                ended
                if isinstance(ended, Failure)
                else Failure("transient", "the transaction of complete_in was not committed")
            )
        return outcome()

    # Holding

    async def _renew(self) -> float:
        held = [job for job in self._jobs.values() if job.is_held]
        if held:
            items = await self._client.renew_leases(**fences(held), lease_ttl_ms=self._options.lease_ttl_ms)
            busy = []
            for job, item in zip(held, items, strict=True):
                if item.outcome == "renewed":
                    job.extend()
                elif item.outcome == "busy":
                    busy.append(job)
                elif not job.speaks_for_itself:
                    job.lose(item.code or "stale_lease")
            self._emit(events.LeasesRenewed(len(held) - len(busy)))
            self._renew_busy(busy)
        return self._ttl_s / 3

    def _renew_busy(self, jobs: Sequence[Job]) -> None:
        # Waiting for a locked row takes a connection, so it is one task that does it for all of them. Whoever
        # completes inside a transaction holds the lock himself, and needs no renewal while he does.
        if jobs and (self._waiting_renewal is None or self._waiting_renewal.done()):
            self._waiting_renewal = asyncio.create_task(
                self._renew_one_by_one([job for job in jobs if job.completion == "none"])
            )

    async def _renew_one_by_one(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            try:
                if job.is_held:
                    await self._client.renew_lease(
                        **job.handle.arguments(), lease_ttl_ms=self._options.lease_ttl_ms
                    )
                    job.extend()
            except (LeaseLostError, ExecutionNotActiveError) as error:
                if not job.speaks_for_itself:
                    job.lose(error.code or "stale_lease")
            except FlowFabricError as error:
                _LOGGER.warning("the lease on %s was not renewed: %s", job.handle.execution_id, error)

    async def _watch(self) -> float:
        """Stop handlers whose lease has run out while the database was away; notice a blocked event loop."""
        pause_s = min(self._ttl_s / 6, 1.0)
        before = time.monotonic()
        await asyncio.sleep(pause_s)
        now = time.monotonic()
        lag_s = now - before - pause_s
        if lag_s > LOOP_LAG_WORTH_TELLING_S:
            _LOGGER.warning(
                "the event loop was blocked for %.1f s and no lease was renewed: a handler that blocks"
                " should be a plain function, which runs in a thread",
                lag_s,
            )
            self._emit(events.LoopBlocked(lag_s))
        for job in list(self._jobs.values()):
            if job.is_held and not job.speaks_for_itself and job.expires_at <= now:
                job.lose("lease_expired")
        return 0

    # Hearing and being heard

    async def _listen(self) -> float:
        connection = await psycopg.AsyncConnection.connect(
            self._options.listen_dsn, autocommit=True, fallback_application_name=self._options.instance_id
        )
        async with connection:
            await connection.execute("listen ff_eligible")
            # What was announced while nobody listened is not announced again.
            self._woken.set()
            async for notification in connection.notifies():
                if notification.payload in self._options.lanes:
                    self._woken.set()
        raise TransportError("the connection that listens for work was closed", retryable=True)

    def _register_or_beat(self) -> Callable[[], Awaitable[float]]:
        options = self._options
        liveness_ttl_ms = min(86_400_000, max(2 * options.lease_ttl_ms, 1_000))
        namespace = options.namespace or "default"
        is_registered = False

        async def register_or_beat() -> bool:
            nonlocal is_registered
            draining: bool | None = None
            if is_registered:
                beat = await self._client.heartbeat_worker(options.instance_id, namespace=namespace)
                is_registered = beat.outcome == "refreshed"
                draining = beat.draining
            if not is_registered:
                registration = await self._client.register_worker(
                    options.worker_id,
                    options.instance_id,
                    lanes=options.lanes,
                    capabilities=options.capabilities,
                    namespace=namespace,
                    liveness_ttl_ms=liveness_ttl_ms,
                )
                is_registered = True
                draining = registration.draining
            return bool(draining)

        async def step() -> float:
            # The registry informs and does not admit: a worker that cannot reach it works all the same.
            is_paused = bool(self._paused)
            try:
                is_paused = await register_or_beat()
            finally:
                self._pause(is_paused)
            return liveness_ttl_ms / 3000

        return step

    def _pause(self, paused: bool) -> None:
        if paused != bool(self._paused):
            _LOGGER.info("an operator %s this worker", "paused" if paused else "resumed")
            self._emit(events.PausedByOperator(paused))
        self._paused = paused
        self._slots_changed.set()

    async def _tick(self) -> float:
        for scanner in await self._client.due_scanners():
            more = True
            while more and not self._draining:
                runs = await self._client.tick(scanners=[scanner])
                more = any(run.status == "ran" and run.more for run in runs)
        # Any number of workers tick: jitter keeps them from doing it at the same moment.
        return random.uniform(0.5, 1.0)  # noqa: S311


def _is_final(error: FlowFabricError) -> bool:
    return isinstance(error, ValidationError | PermissionDeniedError | UnavailableError)


def _claimed_at_ms(claim: Claim) -> int:
    # A time of the database's clock that is past, so that the execution is due at once.
    return (claim.lease_expires_at_ms or 0) - (claim.lease_ttl_ms or 0)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), timeout_s)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
