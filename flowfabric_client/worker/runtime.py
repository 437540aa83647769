"""One run of a worker: what it claims, holds, reports, and how it stops.

Each activity is a loop of its own that outlives any error of the database: it pauses and tries again. They
share the jobs, which only the event loop's thread changes.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from flowfabric_client import _calls
from flowfabric_client._call import Call
from flowfabric_client._sql import SqlSources
from flowfabric_client.aio import AsyncClient
from flowfabric_client.errors import (
    FlowFabricError,
    PermissionDeniedError,
    TransportError,
    UnavailableError,
    ValidationError,
    from_psycopg,
)
from flowfabric_client.handle import Handle
from flowfabric_client.rows import ClaimedExecution, WorkerLeaseListing
from flowfabric_client.worker import events
from flowfabric_client.worker.backoff import LONGEST_S, Backoff, passes
from flowfabric_client.worker.batches import LARGEST_BATCH
from flowfabric_client.worker.calls import CallLine
from flowfabric_client.worker.connections import ConnectionOptions, HandlerConnections
from flowfabric_client.worker.handlers import Ended, Handler
from flowfabric_client.worker.job import Claim, Failure, Job, Outcome
from flowfabric_client.worker.patience import HeldElsewhereError, ask
from flowfabric_client.worker.renewing import Renewer
from flowfabric_client.worker.reporting import Reporter
from flowfabric_client.worker.signals import PermanentError

_LOGGER = logging.getLogger("flowfabric.worker")

T = TypeVar("T")

LARGEST_CLAIM = 100
CLAIMS_AT_ONCE = 2
# While lost work keeps coming, fresh work is first in one of this many polls.
FRESH_FIRST_EVERY = 4
THIRD_LOOK_S = 0.1
# The database knows for a minute at most that somebody waits: who listens must say so again in time.
LONGEST_PAUSE_S = 30.0
LOOP_LAG_WORTH_TELLING_S = 0.5
HAND_BACK_WAIT_MS = 100
REGISTRY_WAIT_MS = 100


@dataclass(frozen=True, slots=True)
class Options:
    """How a worker was configured; see `Worker`."""

    dsn: str = field(repr=False)
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...]
    concurrency: int
    lease_ttl_ms: int
    worker_id: str
    instance_id: str
    namespace: str | None
    poll_interval_s: float
    listen: bool
    listen_dsn: str = field(repr=False)
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
        # Renewals never wait for a connection; outcomes that wait for a row keep none from the rest.
        self._renewal_pool = connections.own_pool(min_size=1, max_size=1, timeout=5.0)
        self._parked_pool = connections.own_pool(min_size=0, max_size=1, timeout=5.0)
        self._connections = HandlerConnections(
            connections,
            options.concurrency,
            with_threads=any(not handler.is_async for handler in handlers.values()),
        )
        self._threads = ThreadPoolExecutor(options.concurrency, thread_name_prefix="flowfabric-handler")
        self._slots_changed = asyncio.Event()
        self._reporter = Reporter(
            self._client,
            AsyncClient(self._parked_pool),
            self._connections.asynchronous,
            self._emit,
            self._tell,
            self._slots_changed.set,
            self._settle,
        )
        self._jobs: dict[UUID, Job] = {}
        self._renewer = Renewer(
            AsyncClient(self._renewal_pool), self._jobs.values, options.lease_ttl_ms, self._emit
        )
        # An execution can be there twice: under a lost lease, if the handler goes on, and under a new one.
        self._newest_jobs: dict[str, Job] = {}
        self._running = 0
        # Executions that claims under way have asked for.
        self._asked = 0
        self._drain_requested = asyncio.Event()
        # None until the registry was asked whether this worker may work.
        self._paused: bool | None = None
        self._woken = asyncio.Event()
        # While this worker listens.
        self._call_line: CallLine | None = None
        self._registered_as_waiter_at = float("-inf")
        self._reclaimed_at = float("-inf")
        # The last reclaim returned all it asked for.
        self._more_is_lost = False
        self._polls_since_fresh_first = 0
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
            for pool in (self._pool, self._renewal_pool, self._parked_pool):
                await pool.open(wait=False)
                stack.push_async_callback(pool.close)
            await stack.enter_async_context(self._connections)
            stack.callback(self._threads.shutdown, wait=False)
            background = [
                self._keep_going(
                    "renewing leases", self._renewer.step, longest_pause_s=min(LONGEST_S, self._ttl_s / 6)
                ),
                self._keep_going("watching", self._watch),
                self._reporter.run(),
                self._reporter.run_parked(),
                self._keep_going("registering", self._register_or_beat(), optional=True),
            ]
            if options.listen:
                background.append(self._keep_going("listening", self._listen))
            if options.run_ticks:
                background.append(self._keep_going("ticking", self._tick, optional=True))
            # After the next line's: a heartbeat would register this worker again.
            stack.push_async_callback(self._deregister)
            tasks = [asyncio.create_task(activity) for activity in background]
            stack.push_async_callback(_cancel, tasks)
            try:
                await self._claim_until_drained()
            finally:
                while self._jobs:
                    self._slots_changed.clear()
                    await self._slots_changed.wait()
            if options.listen:
                with suppress(FlowFabricError):
                    await self._client.wait_for_work(options.lanes, options.instance_id, wait_ms=0)

    async def _deregister(self) -> None:
        """Leave the registry, if it can be reached: else the registration lapses by itself."""
        options = self._options
        with suppress(FlowFabricError, TimeoutError):
            async with asyncio.timeout(2):
                await self._client.deregister_worker(
                    options.worker_id, options.instance_id, namespace=options.namespace or "default"
                )

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
        self._reporter.give_up_expired()
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
                if optional and not passes(error):
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

    def _tell(self, event: Callable[..., events.WorkEvent], job: Job, *more: object) -> None:
        # Most workers have no callbacks: then the three events of each job need not even be made.
        if self._callbacks:
            self._emit(event(*job.facts(), *more))

    # Claiming

    async def _claim_until_drained(self) -> None:
        backoff = Backoff()
        was_empty = False
        looks_while_waiting = 0
        while not self._draining:
            self._slots_changed.clear()
            free = self._free_slots()
            if free == 0:
                await self._slots_changed.wait()
                continue
            # Who is called while waiting was most likely called for one execution, and a claim of one is
            # quicker; the next look is for all slots.
            is_called = looks_while_waiting > 0 and self._woken.is_set()
            self._woken.clear()
            try:
                # If it waits, this worker is told of what comes from here on.
                is_waiter = self._is_waiter
                if was_empty and not (is_waiter or is_called):
                    await self._register_as_waiter()
                    is_waiter = True
                was_empty = not (await self._answer_call() if is_called else await self._look())
                backoff.reset()
            except FlowFabricError as error:
                if not self._has_claimed and _is_final(error):
                    raise
                if isinstance(error, TransportError):
                    self._claim_answer_was_lost = True
                    self._server_is_known = False
                    # A server that crashed has forgotten it.
                    self._registered_as_waiter_at = float("-inf")
                await wait_for(self._drain_requested, self._trouble("claiming", error, backoff))
                continue
            if not was_empty:
                looks_while_waiting = 0
                if is_called:
                    # The next look is work for this thread too: first let the handler start.
                    await asyncio.sleep(0)
                continue
            # Spec 40, section 3.6: whoever makes an execution eligible and does not see the registration has
            # looked for waiters before that was committed. So either he had committed when this look began,
            # which then would have found it, or his transaction was open at both times, and only a later look
            # can find it: the first of them comes soon, the others at every poll. This holds for every look
            # that begins under a valid registration, however old that is.
            if not is_waiter:
                continue
            looks_while_waiting += 1
            if looks_while_waiting == 1:
                await wait_for(self._woken, THIRD_LOOK_S)
            else:
                if looks_while_waiting == 2:
                    self._emit(events.Idle())
                await wait_for(self._woken, self._pause_s)

    def _free_slots(self) -> int:
        if self._paused is not False:
            return 0
        # A handler's slot is free when it has ended: the next execution is claimed while the outcome is on
        # its way. But what cannot be reported must not pile up. An outcome that waits for a stranger's
        # transaction says nothing of the others, so there may be more of those.
        concurrency = self._options.concurrency
        parked = self._reporter.parked_count
        free = min(
            concurrency - self._running, 2 * concurrency - (len(self._jobs) - parked), LARGEST_BATCH - parked
        )
        return max(0, free - self._asked)

    @property
    def _pause_s(self) -> float:
        """For how long an idle worker waits to be called before it looks again."""
        poll_interval_s = self._options.poll_interval_s
        return min(poll_interval_s, LONGEST_PAUSE_S) if self._options.listen else poll_interval_s

    @property
    def _is_waiter(self) -> bool:
        """Whether the database knows that this worker waits, and will for longer than until the next poll."""
        registered_for_s = time.monotonic() - self._registered_as_waiter_at
        return not self._options.listen or registered_for_s < self._pause_s / 2

    async def _register_as_waiter(self) -> None:
        now = time.monotonic()
        wait_ms = int(2000 * self._pause_s)
        await self._client.wait_for_work(self._options.lanes, self._options.instance_id, wait_ms=wait_ms)
        self._registered_as_waiter_at = now

    async def _look(self) -> bool:
        """Take up what is there for the free slots; whether there was anything."""
        await self._know_server()
        # First what others have lost: a queue that never runs empty must not keep it waiting. Nor must lost
        # work that never runs out keep the queue waiting.
        is_fresh_first = self._is_turn_of_fresh_work()
        found = is_fresh_first and await self._claim()
        if self._is_reclaim_due:
            found = await self._reclaim() or found
            if self._more_is_lost:
                return True
        return found if is_fresh_first else await self._claim() or found

    def _is_turn_of_fresh_work(self) -> bool:
        self._polls_since_fresh_first += 1
        if not self._more_is_lost or self._polls_since_fresh_first < FRESH_FIRST_EVERY:
            return False
        self._polls_since_fresh_first = 0
        return True

    @property
    def _is_reclaim_due(self) -> bool:
        return self._more_is_lost or time.monotonic() - self._reclaimed_at >= self._options.poll_interval_s

    async def _know_server(self) -> None:
        if not self._server_is_known:
            # The server may be another one than before. Data that were restored elsewhere need a new epoch of
            # event cursors before anything is written, or their consumers would miss it.
            await self._client.boot_check(self._schema_version)
            self._server_is_known = True
        if self._claim_answer_was_lost:
            await self._hand_back_unknown_leases()
            self._claim_answer_was_lost = False

    async def _answer_call(self) -> bool:
        """Claim what this worker was called for; whether it was still there."""
        await self._know_server()
        try:
            claims = None if self._call_line is None else await self._call_line.claim()
        except psycopg.Error as error:
            raise from_psycopg(error, function="ff_claim_next") from error
        if claims is None:
            claims = await self._claim_some(1)
        self._has_claimed = True
        await self._accept(claims)
        return bool(claims)

    async def _claim(self) -> bool:
        """Claim for the free slots; whether there was anything."""
        free = self._free_slots()
        if free > LARGEST_CLAIM:
            return await self._claim_in_batches()
        if free == 0:
            return False
        claims = await self._claim_some(free)
        await self._accept(claims)
        return bool(claims)

    async def _claim_in_batches(self) -> bool:
        """Claim for many slots as long as whole batches come; whether there was anything.

        Once there has been one, the next call is under way while the answer of the last one is dealt with,
        so that neither the database nor this process waits for the other.
        """
        calls: deque[asyncio.Task[list[ClaimedExecution]]] = deque()
        claims: list[ClaimedExecution] = []
        at_once = 1
        found, more_waits = False, True
        error: FlowFabricError | None = None
        try:
            while True:
                while more_waits and len(calls) < at_once and self._free_slots() >= LARGEST_CLAIM:
                    self._asked += LARGEST_CLAIM
                    calls.append(asyncio.create_task(self._claim_some(LARGEST_CLAIM)))
                    # It is sent before this thread is busy with what has come.
                    await asyncio.sleep(0)
                self._asked -= len(claims)
                await self._accept(claims)
                if not calls:
                    break
                try:
                    claims = await calls[0]
                except FlowFabricError as failure:
                    # Another call may have an answer yet, which must not be taken for lost.
                    error = error or failure
                    claims = []
                calls.popleft()
                at_once = CLAIMS_AT_ONCE
                self._asked -= LARGEST_CLAIM - len(claims)
                found = found or bool(claims)
                more_waits = (
                    more_waits
                    and len(claims) == LARGEST_CLAIM
                    and not self._draining
                    and not self._is_reclaim_due
                )
        finally:
            for call in calls:
                call.cancel()
            self._asked = 0
        if error is not None:
            raise error
        return found

    async def _claim_some(self, limit: int) -> list[ClaimedExecution]:
        claims = await self._client.claim_next(**self._claim_arguments(limit))
        self._has_claimed = True
        return claims

    def _claim_arguments(self, limit: int) -> dict[str, Any]:
        options = self._options
        return {
            "lanes": options.lanes,
            "worker_id": options.worker_id,
            "worker_instance_id": options.instance_id,
            "capabilities": options.capabilities,
            "max": limit,
            "lease_ttl_ms": options.lease_ttl_ms,
            "namespace": options.namespace,
        }

    async def _reclaim(self) -> bool:
        """Take over what others have lost, for the free slots; whether there was anything."""
        wanted = min(self._free_slots(), LARGEST_CLAIM)
        if wanted == 0:
            return False
        self._reclaimed_at = time.monotonic()
        self._more_is_lost = False
        reclaimed = await self._client.reclaim_next(**self._claim_arguments(wanted))
        taken = [row for row in reclaimed if row.lease_id is not None]
        self._more_is_lost = len(taken) >= wanted
        await self._accept(taken)
        for row in reclaimed:
            if row.lease_id is None:
                _LOGGER.error(
                    "%s (%s) has failed: it was lost again after %d takeovers in a row without progress;"
                    " its handler may kill the worker process",
                    row.execution_id,
                    row.execution_kind,
                    row.reclaim_count,
                )
                self._emit(events.ReclaimsUsedUp(row.execution_id, row.execution_kind))
        return bool(reclaimed)

    async def _accept(self, claims: Sequence[Claim]) -> None:
        loop = asyncio.get_running_loop()
        for claim in claims:
            job = Job(claim, loop, self._notice_loss)
            handle = job.handle
            self._tell(events.Claimed, job, handle.kind)
            if self._draining:
                await self._hand_back(handle, _claimed_at_ms(claim))
                self._tell(events.HandedBack, job)
                continue
            other = self._newest_jobs.get(handle.execution_id)
            if other is not None and not other.speaks_for_itself:
                # Lost and, by chance, found by the same worker, sooner than a renewal could tell.
                other.lose("stale_lease")
            self._jobs[handle.lease_id] = self._newest_jobs[handle.execution_id] = job
            self._start(job)

    async def _hand_back(self, handle: Handle, until_ms: int) -> None:
        try:
            call = _calls.delay_execution(delay_until_ms=until_ms, **handle.arguments())
            await ask(self._client, call, HAND_BACK_WAIT_MS)
        except (FlowFabricError, HeldElsewhereError) as error:
            # Nothing is lost: the lease runs out, and the execution is reclaimed.
            _LOGGER.warning("%s was not handed back: %s", handle.execution_id, error)

    async def _hand_back_unknown_leases(self) -> None:
        """Give back what was claimed by a call whose answer was lost."""
        for lease in await self._leases():
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

    async def _leases(self) -> list[WorkerLeaseListing]:
        """All leases that the database knows of this worker."""
        leases: list[WorkerLeaseListing] = []
        while not leases or leases[-1].has_more:
            after = leases[-1].execution_id if leases else None
            page = await self._client.list_worker_leases(self._options.instance_id, after=after)
            if not page:
                break
            leases += page
        return leases

    # Running

    def _start(self, job: Job) -> None:
        job.is_running = True
        self._running += 1
        handler = self._handlers.get(job.claim.execution_kind)
        if handler is None:
            self._end(job, Ended(error=PermanentError(f"unknown kind: {job.claim.execution_kind}")))
            return
        try:
            arguments = handler.arguments(job.claim.payload or b"")
        except Exception as error:
            self._end(job, Ended(error=error))
            return
        self._tell(events.Started, job)
        if handler.timeout_s is not None:
            job.timer = asyncio.get_running_loop().call_later(
                handler.timeout_s, self._time_out, job, handler.timeout_s
            )
        job.runner = handler.start(job, arguments, self._connections, self._threads, self._end)

    def _end(self, job: Job, ended: Ended) -> None:
        """The handler has ended, so its slot is free."""
        job.is_running = False
        self._running -= 1
        self._slots_changed.set()
        if job.timer is not None:
            job.timer.cancel()
        if job.settled:
            self._forget(job)
        elif not job.reporting:
            self._decide(job, ended.outcome)

    def _time_out(self, job: Job, timeout_s: float) -> None:
        if not job.settled:
            self._stop(job)
            self._decide(job, lambda: Failure("timeout", f"the handler took longer than {timeout_s} s"))

    def _notice_loss(self, job: Job, code: str) -> None:
        self._tell(events.LeaseWasLost, job, code)
        if not job.reporting:
            self._stop(job)
            self._settle(job)

    def _stop(self, job: Job) -> None:
        """Ask the handler to end. Until it has, it keeps its slot: more must not run than are allowed."""
        job.cancelled.set()
        if job.runner is not None:
            # Not at once: a task that is cancelled before its first step never tells its end.
            asyncio.get_running_loop().call_soon(job.runner.cancel)

    def _decide(self, job: Job, outcome: Callable[[], Outcome]) -> None:
        """Report the outcome, if there is anything to say."""
        found = self._outcome_of(job, outcome)
        if found is None:
            self._settle(job)
        else:
            self._reporter.report(job, found)

    def _settle(self, job: Job) -> None:
        """Nothing more will be said of a job."""
        job.settled = True
        if not job.is_running:
            self._forget(job)

    def _forget(self, job: Job) -> None:
        self._jobs.pop(job.handle.lease_id, None)
        if self._newest_jobs.get(job.handle.execution_id) is job:
            del self._newest_jobs[job.handle.execution_id]
        self._slots_changed.set()

    def _outcome_of(self, job: Job, outcome: Callable[[], Outcome]) -> Outcome | None:
        if job.lost_code is not None:
            return None
        if job.pause is not None:
            self._emit(job.pause)
            return None
        if job.completion == "committed":
            self._tell(events.Completed, job, job.seconds)
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
        options = self._options
        claim = _calls.claim_next(**self._claim_arguments(1))
        async with CallLine.open(
            options.listen_dsn, options.instance_id, options.lanes, claim, self._woken.set
        ) as line:
            self._call_line = line
            try:
                # What was announced while nobody listened is not announced again.
                self._woken.set()
                await line.hear()
            finally:
                self._call_line = None
        return 0

    def _register_or_beat(self) -> Callable[[], Awaitable[float]]:
        options = self._options
        liveness_ttl_ms = min(86_400_000, max(2 * options.lease_ttl_ms, 1_000))
        namespace = options.namespace or "default"
        is_registered = False

        async def register_or_beat() -> bool:
            nonlocal is_registered
            draining: bool | None = None
            if is_registered:
                beat = await self._ask_registry(
                    _calls.heartbeat_worker(options.instance_id, namespace=namespace)
                )
                is_registered = beat.outcome == "refreshed"
                draining = beat.draining
            if not is_registered:
                registration = await self._ask_registry(
                    _calls.register_worker(
                        options.worker_id,
                        options.instance_id,
                        lanes=options.lanes,
                        capabilities=options.capabilities,
                        namespace=namespace,
                        liveness_ttl_ms=liveness_ttl_ms,
                    )
                )
                is_registered = True
                draining = registration.draining
            return bool(draining)

        async def step() -> float:
            # The registry informs and does not admit: a worker that cannot reach it works all the same.
            is_paused = bool(self._paused)
            try:
                is_paused = await register_or_beat()
            except HeldElsewhereError:
                # An operator is about to say something about this worker, and has not committed.
                return min(1.0, liveness_ttl_ms / 3000)
            finally:
                self._pause(is_paused)
            return liveness_ttl_ms / 3000

        return step

    async def _ask_registry(self, call: Call[T]) -> T:
        return await ask(self._client, call, REGISTRY_WAIT_MS, key="worker_instance_id")

    def _pause(self, paused: bool) -> None:
        if paused != bool(self._paused):
            _LOGGER.info("an operator %s this worker", "paused" if paused else "resumed")
            self._emit(events.PausedByOperator(paused))
        self._paused = paused
        self._slots_changed.set()

    async def _tick(self) -> float:
        """Run every scanner that is due once, the most overdue first."""
        more = False
        for scanner in await self._client.due_scanners():
            if self._draining:
                break
            runs = await self._client.tick(scanners=[scanner])
            more = more or any(run.status == "ran" and run.more for run in runs)
        # Any number of workers tick: jitter keeps them from doing it at the same moment.
        return 0.0 if more and not self._draining else random.uniform(0.5, 1.0)  # noqa: S311


def _is_final(error: FlowFabricError) -> bool:
    return isinstance(error, ValidationError | PermissionDeniedError | UnavailableError) and not passes(error)


def _claimed_at_ms(claim: Claim) -> int:
    # A time of the database's clock that is past, so that the execution is due at once.
    return (claim.lease_expires_at_ms or 0) - (claim.lease_ttl_ms or 0)


async def wait_for(event: asyncio.Event, timeout_s: float) -> None:
    """Wait until an event is set, or for so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
