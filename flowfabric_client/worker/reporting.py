"""How outcomes reach the database: in batches, and each of them exactly once.

A lone outcome is sent at once. What arrives while a call is under way goes out together with the next one,
so batches grow by themselves when the database is the bottleneck. A call whose answer was lost is made again:
the refusal of an item that had been accepted carries the proof (spec 01, section 4.3), and nothing but the
database's word ends the attempts to tell it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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
from flowfabric_client.worker.codec import failure_text
from flowfabric_client.worker.job import LEASE_LOST_CODES, Failure, Job, Outcome, Success

_LOGGER = logging.getLogger("flowfabric.worker")

LARGEST_BATCH = 1000

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


@dataclass(slots=True)
class _Report:
    job: Job
    outcome: Outcome


class Reporter:
    """Tells the database how jobs ended."""

    def __init__(
        self,
        client: AsyncClient,
        handler_client: AsyncClient,
        emit: Emit,
        tell: Tell,
        on_settled: Callable[[Job], None],
    ) -> None:
        self._client = client
        self._handler_client = handler_client
        self._emit = emit
        self._tell = tell
        self._on_settled = on_settled
        self._waiting: list[_Report] = []
        self._arrived = asyncio.Event()
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

    async def run(self) -> None:
        """Send what is reported, for ever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            batch, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
            if self._waiting:
                self._arrived.set()
            try:
                await self._flush(batch)
            except Exception:
                # Their leases run out, and they are done again: better than no report ever after.
                _LOGGER.exception("unexpected error while reporting %d outcomes", len(batch))
            finally:
                for report in batch:
                    self._on_settled(report.job)

    async def _flush(self, batch: Sequence[_Report]) -> None:
        completions = [report for report in batch if isinstance(report.outcome, Success)]
        failures = [report for report in batch if isinstance(report.outcome, Failure)]
        if completions and failures:
            await asyncio.gather(
                self._send(completions, self._complete, "complete"), self._send(failures, self._fail, "fail")
            )
        elif completions:
            await self._send(completions, self._complete, "complete")
        else:
            await self._send(failures, self._fail, "fail")
        self._emit(events.ReportSent(len(completions), len(failures)))

    async def _send(
        self,
        reports: Sequence[_Report],
        send: Callable[[Sequence[_Report]], Awaitable[Sequence[_Item]]],
        call: EndingCall,
    ) -> None:
        backoff = Backoff()
        pending = reports
        while pending:
            try:
                items = await send(pending)
            except Exception as error:
                if isinstance(error, FlowFabricError) and passes(error):
                    pause_s = backoff.pause_s()
                    self._emit(events.Trouble("reporting", error, pause_s))
                    await asyncio.sleep(pause_s)
                elif len(pending) > 1:
                    # One of them spoils the call: alone, the others go through.
                    for report in pending:
                        await self._send([report], send, call)
                    return
                else:
                    await self._reject(pending[0], error)
                    return
                continue
            again = []
            for report, item in zip(pending, items, strict=True):
                if item.outcome != "refused":
                    self._note(report.job, report.outcome, item.outcome)
                elif item.code == "flow_membership_changed":
                    again.append(report)
                else:
                    await self._be_refused(report, item, call)
            if again:
                await asyncio.sleep(backoff.pause_s())
            pending = again

    async def _complete(self, reports: Sequence[_Report]) -> Sequence[_Item]:
        outcomes = [report.outcome for report in reports if isinstance(report.outcome, Success)]
        if len(outcomes) == 1:
            return [await self._complete_one(reports[0].job, outcomes[0])]
        arguments = fences(report.job for report in reports)
        if any(outcome.result is not None for outcome in outcomes):
            arguments["results"] = [outcome.result for outcome in outcomes]
            arguments["result_encodings"] = [outcome.encoding for outcome in outcomes]
        items: list[_Item] = [_COMPLETED] * len(reports)
        for refused in await self._refused_completions(_calls.complete_executions(**arguments)):
            items[refused.item - 1] = refused
        return items

    async def _refused_completions(self, call: Call[ExecutionItem]) -> Sequence[ExecutionItem]:
        # Nearly all are accepted: only a refusal is worth a row.
        return await self._client._run(replace(call, sql=f"{call.sql} as i where i.outcome = 'refused'"))

    async def _complete_one(self, job: Job, outcome: Success) -> _Item:
        # While little happens, most reports are of one, and the call for one takes two thirds of the time.
        try:
            await self._client.complete_execution(
                **job.handle.arguments(), result=outcome.result, result_encoding=outcome.encoding
            )
        except (LeaseLostError, ExecutionNotActiveError, FlowMembershipChangedError) as error:
            return _Answer("refused", error.code, error.details)
        return _COMPLETED

    async def _fail(self, reports: Sequence[_Report]) -> Sequence[_Item]:
        outcomes = [report.outcome for report in reports if isinstance(report.outcome, Failure)]
        return await self._client.fail_executions(
            **fences(report.job for report in reports),
            failure_reasons=[outcome.reason for outcome in outcomes],
            failure_categories=[outcome.category for outcome in outcomes],
            retry_policies=retry_policies(report.job for report in reports),
        )

    async def _be_refused(self, report: _Report, item: _Item, call: EndingCall) -> None:
        job = report.job
        if item.code not in LEASE_LOST_CODES:
            await self._reject(report, f"{item.code}: {item.detail}")
            return
        earlier = reconcile(call, item.detail or {}, job.handle)
        if item.code == "execution_not_active" and earlier is not None:
            self._note(job, report.outcome, earlier.outcome)
        else:
            job.lose(item.code)

    async def _reject(self, report: _Report, error: object) -> None:
        """The database cannot take this outcome: a result becomes a failure, a failure is given up."""
        _LOGGER.error("the outcome of %s was refused: %s", report.job.handle.execution_id, error)
        if isinstance(report.outcome, Success):
            report.outcome = Failure("permanent", failure_text(f"result_refused: {error}"))
            await self._send([report], self._fail, "fail")
        else:
            report.job.lose("report_refused")

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


def fences(jobs: Any) -> dict[str, Any]:
    """The fence arrays that every batch call takes."""
    handles = [job.handle for job in jobs]
    return {
        "execution_ids": [handle.execution_id for handle in handles],
        "lease_ids": [handle.lease_id for handle in handles],
        "lease_epochs": [handle.lease_epoch for handle in handles],
        "attempt_ids": [handle.attempt_id for handle in handles],
    }
