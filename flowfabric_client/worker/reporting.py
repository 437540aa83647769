"""How outcomes reach the database: in batches, and each of them exactly once.

A lone outcome is sent at once. What arrives while a call is under way goes out together with the next one,
so batches grow by themselves when the database is the bottleneck. A call whose answer was lost is made again:
the refusal of an item that had been accepted carries the proof, and nothing but the database's word ends the
attempts to tell it.

No report waits for a row that another session holds. Such an outcome is parked. Parked outcomes are sent
again and again over a connection of their own, beside the rest, until the database has answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from flowfabric_client import _calls
from flowfabric_client._call import Call
from flowfabric_client._reconcile import EndingCall, Reconciled, reconcile
from flowfabric_client.aio import AsyncClient
from flowfabric_client.errors import (
    ExecutionNotActiveError,
    FlowFabricError,
    FlowMembershipChangedError,
    LeaseLostError,
)
from flowfabric_client.rows import ExecutionItem
from flowfabric_client.worker import events
from flowfabric_client.worker.backoff import Backoff, passes
from flowfabric_client.worker.batches import LARGEST_BATCH, fences
from flowfabric_client.worker.codec import failure_text
from flowfabric_client.worker.job import LEASE_LOST_CODES, Failure, Job, Outcome, Success
from flowfabric_client.worker.patience import HeldElsewhereError, ask

_LOGGER = logging.getLogger("flowfabric.worker")

# How long a lone report may wait for a row before it is parked, and a parked one before another has its turn.
_LONE_WAIT_MS = 20
_PARKED_WAIT_MS = 100
_LONGEST_PARKED_PAUSE_S = 0.5
_PARKED_WORTH_TELLING_S = 5.0

Emit = Callable[[events.Event], None]
# Called with the class of an event, the job, and the fields that only this event has.
Tell = Callable[..., None]


class _Item(Protocol):
    @property
    def outcome(self) -> str: ...

    @property
    def code(self) -> str | None: ...

    @property
    def detail(self) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class _Answer:
    outcome: str
    code: str | None = None
    detail: dict[str, Any] | None = None


_COMPLETED = _Answer("completed")
_BUSY = _Answer("busy")


@dataclass(slots=True, eq=False)
class _Report:
    job: Job
    outcome: Outcome
    parked_at: float | None = None
    """Since when a row that it needs is held by another session; None once somebody was told."""

    @property
    def call(self) -> EndingCall:
        return "complete" if isinstance(self.outcome, Success) else "fail"


class Reporter:
    """Tells the database how jobs ended."""

    def __init__(
        self,
        client: AsyncClient,
        parked_client: AsyncClient,
        handler_client: AsyncClient,
        emit: Emit,
        tell: Tell,
        on_parked: Callable[[], None],
        on_settled: Callable[[Job], None],
    ) -> None:
        """Report over connections that may be shared, but for those of `parked_client`."""
        self._client = client
        self._parked_client = parked_client
        self._handler_client = handler_client
        self._emit = emit
        self._tell = tell
        self._on_parked = on_parked
        self._on_settled = on_settled
        self._waiting: list[_Report] = []
        self._arrived = asyncio.Event()
        self._parked: list[_Report] = []
        self._parked_arrived = asyncio.Event()
        self._parked_jobs: set[Job] = set()
        self._gives_up_expired = False
        self._alone: set[asyncio.Task[None]] = set()

    def report(self, job: Job, outcome: Outcome) -> None:
        """Call back once the database has the outcome, or has said that it does not want it."""
        job.reporting = True
        if job.completion == "unknown" and isinstance(outcome, Failure):
            alone = asyncio.create_task(self._report_alone(job, outcome))
            self._alone.add(alone)
            alone.add_done_callback(self._alone.discard)
            alone.add_done_callback(lambda _: self._on_settled(job))
            return
        self._waiting.append(_Report(job, outcome))
        self._arrived.set()

    @property
    def parked_count(self) -> int:
        """How many outcomes wait for a row that another session holds."""
        return len(self._parked_jobs)

    def give_up_expired(self) -> None:
        """From now on a parked outcome whose lease has surely run out is lost: a worker drains."""
        self._gives_up_expired = True

    async def run(self) -> None:
        """Send what is reported, forever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            batch, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
            if self._waiting:
                self._arrived.set()
            busy = await self._flush(self._client, batch)
            if busy:
                now = time.monotonic()
                for report in busy:
                    report.parked_at = now
                    self._parked_jobs.add(report.job)
                self._parked += busy
                self._parked_arrived.set()
                self._on_parked()

    async def run_parked(self) -> None:
        """Send parked outcomes until each is answered, forever."""
        backoff = Backoff(_LONGEST_PARKED_PAUSE_S)
        while True:
            await self._parked_arrived.wait()
            self._parked_arrived.clear()
            batch, self._parked = self._parked[:LARGEST_BATCH], self._parked[LARGEST_BATCH:]
            busy = await self._flush(self._parked_client, batch)
            if busy:
                # A row that many sessions take in turn is never free when a batch comes: who waits gets it.
                first = busy.pop(0)
                busy += await self._flush(self._parked_client, [first], wait_ms=_PARKED_WAIT_MS)
            busy = [report for report in busy if not self._is_given_up(report)]
            self._parked += busy
            if self._parked:
                self._parked_arrived.set()
            if len(busy) < len(batch):
                backoff.reset()
            else:
                await asyncio.sleep(backoff.pause_s())

    def _is_given_up(self, report: _Report) -> bool:
        job = report.job
        now = time.monotonic()
        if self._gives_up_expired and job.expires_at <= now:
            job.lose("lease_expired")
            self._settle(report)
            return True
        if report.parked_at is not None and report.parked_at <= now - _PARKED_WORTH_TELLING_S:
            report.parked_at = None
            _LOGGER.warning(
                "the outcome of %s waits: another session holds a row that its end needs",
                job.handle.execution_id,
            )
        return False

    async def _flush(
        self, client: AsyncClient, batch: Sequence[_Report], *, wait_ms: int = _LONE_WAIT_MS
    ) -> list[_Report]:
        """Send outcomes and settle their jobs; return those that need a row that another session holds."""
        busy: list[_Report] = []
        try:
            completions = [report for report in batch if report.call == "complete"]
            failures = [report for report in batch if report.call == "fail"]
            if completions and failures:
                both = await asyncio.gather(
                    self._send(client, completions, wait_ms), self._send(client, failures, wait_ms)
                )
                busy = [*both[0], *both[1]]
            else:
                busy = await self._send(client, completions or failures, wait_ms)
            sent = [len(set(reports).difference(busy)) for reports in (completions, failures)]
            if any(sent):
                self._emit(events.ReportSent(*sent))
        except Exception:
            # Their leases run out, and they are done again: better than no report ever after.
            _LOGGER.exception("unexpected error while reporting %d outcomes", len(batch))
        finally:
            still_open = set(busy)
            for report in batch:
                if report not in still_open:
                    self._settle(report)
        return busy

    def _settle(self, report: _Report) -> None:
        self._parked_jobs.discard(report.job)
        self._on_settled(report.job)

    async def _send(self, client: AsyncClient, reports: Sequence[_Report], wait_ms: int) -> list[_Report]:
        call = reports[0].call
        send = self._complete if call == "complete" else self._fail
        backoff = Backoff()
        pending, busy = reports, []
        while pending:
            try:
                items = await send(client, pending, wait_ms)
            except Exception as error:
                if isinstance(error, FlowFabricError) and passes(error):
                    pause_s = backoff.pause_s()
                    self._emit(events.Trouble("reporting", error, pause_s))
                    await asyncio.sleep(pause_s)
                elif len(pending) > 1:
                    # One of them spoils the call: alone, the others go through.
                    for report in pending:
                        busy += await self._send(client, [report], wait_ms)
                    break
                else:
                    busy += await self._reject(client, pending[0], error, wait_ms)
                    break
                continue
            again = []
            for report, item in zip(pending, items, strict=True):
                if item.outcome == "busy":
                    busy.append(report)
                elif item.outcome != "refused":
                    self._note(report.job, report.outcome, item.outcome)
                elif item.code == "flow_membership_changed":
                    again.append(report)
                else:
                    busy += await self._be_refused(client, report, item, wait_ms)
            if again:
                await asyncio.sleep(backoff.pause_s())
            pending = again
        return busy

    async def _complete(
        self, client: AsyncClient, reports: Sequence[_Report], wait_ms: int
    ) -> Sequence[_Item]:
        outcomes = [report.outcome for report in reports if isinstance(report.outcome, Success)]
        if len(outcomes) == 1:
            return [await self._complete_one(client, reports[0].job, outcomes[0], wait_ms)]
        arguments = fences(report.job for report in reports)
        if any(outcome.result is not None for outcome in outcomes):
            arguments["results"] = [outcome.result for outcome in outcomes]
            arguments["result_encodings"] = [outcome.encoding for outcome in outcomes]
        items: list[_Item] = [_COMPLETED] * len(reports)
        for other in await self._other_completions(client, _calls.complete_executions(**arguments)):
            items[other.item - 1] = other
        return items

    async def _other_completions(
        self, client: AsyncClient, call: Call[ExecutionItem]
    ) -> Sequence[ExecutionItem]:
        # Nearly all are accepted: only another answer is worth a row.
        return await client._run(replace(call, sql=f"{call.sql} as i where i.outcome <> 'completed'"))

    async def _complete_one(self, client: AsyncClient, job: Job, outcome: Success, wait_ms: int) -> _Item:
        # While little happens, most reports are of one, and the call for one takes two thirds of the time.
        call = _calls.complete_execution(
            **job.handle.arguments(), result=outcome.result, result_encoding=outcome.encoding
        )
        return await self._end_one(client, call, wait_ms)

    async def _fail(self, client: AsyncClient, reports: Sequence[_Report], wait_ms: int) -> Sequence[_Item]:
        outcomes = [report.outcome for report in reports if isinstance(report.outcome, Failure)]
        if len(outcomes) == 1:
            call = _calls.fail_execution(
                **reports[0].job.handle.arguments(),
                failure_reason=outcomes[0].reason,
                failure_category=outcomes[0].category,
                retry_policy=reports[0].job.retry_policy,
            )
            return [await self._end_one(client, call, wait_ms)]
        return await client.fail_executions(
            **fences(report.job for report in reports),
            failure_reasons=[outcome.reason for outcome in outcomes],
            failure_categories=[outcome.category for outcome in outcomes],
            retry_policies=retry_policies(report.job for report in reports),
        )

    async def _end_one(self, client: AsyncClient, call: Call[Any], wait_ms: int) -> _Item:
        try:
            return _Answer((await ask(client, call, wait_ms)).outcome)
        except HeldElsewhereError:
            return _BUSY
        except (LeaseLostError, ExecutionNotActiveError, FlowMembershipChangedError) as error:
            return _Answer("refused", error.code, error.details)

    async def _be_refused(
        self, client: AsyncClient, report: _Report, item: _Item, wait_ms: int
    ) -> list[_Report]:
        job = report.job
        if item.code not in LEASE_LOST_CODES:
            return await self._reject(client, report, f"{item.code}: {item.detail}", wait_ms)
        earlier = reconcile(report.call, item.detail or {}, job.handle)
        if item.code == "execution_not_active" and earlier is not None:
            self._note(job, report.outcome, earlier.outcome)
        else:
            job.lose(item.code)
        return []

    async def _reject(
        self, client: AsyncClient, report: _Report, error: object, wait_ms: int
    ) -> list[_Report]:
        """The database cannot take this outcome: a result becomes a failure, a failure is given up."""
        _LOGGER.error("the outcome of %s was refused: %s", report.job.handle.execution_id, error)
        if isinstance(report.outcome, Success):
            report.outcome = Failure("permanent", failure_text(f"result_refused: {error}"))
            return await self._send(client, [report], wait_ms)
        report.job.lose("report_refused")
        return []

    def _note(self, job: Job, outcome: Outcome, answer: str) -> None:
        job.settled = True
        if isinstance(outcome, Success) or answer == "completed":
            self._tell(events.Completed, job, job.seconds)
        else:
            will_retry = answer == "retry_scheduled"
            self._tell(events.Failed, job, job.seconds, outcome.category, outcome.reason, will_retry)

    async def _report_alone(self, job: Job, failure: Failure) -> None:
        # Whether `complete_in` was committed is for the database to say. Its transaction may still be open,
        # and then this call waits for it: so it goes alone, and on a connection of the handlers.
        backoff = Backoff()
        while True:
            try:
                row = await self._handler_client.fail_execution(
                    **job.handle.arguments(),
                    failure_reason=failure.reason,
                    failure_category=failure.category,
                    retry_policy=job.retry_policy,
                )
            except (ExecutionNotActiveError, LeaseLostError) as error:
                earlier = _earlier_answer(error.details, job)
                if isinstance(error, ExecutionNotActiveError) and earlier is not None:
                    self._note(job, failure, earlier.outcome)
                else:
                    job.lose(error.code or "stale_lease")
                return
            except FlowFabricError as error:
                if not passes(error):
                    _LOGGER.exception("the failure of %s was refused", job.handle.execution_id)
                    job.lose("report_refused")
                    return
                pause_s = backoff.pause_s()
                self._emit(events.Trouble("reporting", error, pause_s))
                await asyncio.sleep(pause_s)
            else:
                self._note(job, failure, row.outcome)
                return


def _earlier_answer(details: Mapping[str, Any], job: Job) -> Reconciled | None:
    return reconcile("complete", details, job.handle) or reconcile("fail", details, job.handle)


def retry_policies(jobs: Iterable[Job]) -> list[Mapping[str, Any] | None] | None:
    """What handlers say about retries, in the order of a batch; None if none of them says anything."""
    policies = [job.retry_policy for job in jobs]
    return policies if any(policy is not None for policy in policies) else None
