"""A run of a worker that ends by itself: when there is nothing left to do at the engine's present time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from flowfabric_client.worker import Worker, events
from flowfabric_client.worker.runtime import Runtime, wait_for

# How soon work is looked for again that a running handler may have created and now waits for.
_LOOK_AGAIN_S = 0.01


Outcome = Literal["completed", "failed", "retrying", "delayed", "suspended", "waiting_children", "lost"]


class NotIdleError(AssertionError):
    """The worker was still busy when its time was up."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a handler, or of what stands for one: an execution without a handler fails, too."""

    execution_id: str
    kind: str
    attempt_index: int
    outcome: Outcome
    """How it ended: `retrying` has failed and will be retried, `lost` was taken away from the worker."""
    reason: str | None = None
    """Why it failed, or how its lease was lost."""


def as_ran(event: events.Event) -> Ran | None:
    """What an event says about the end of a run; None if it tells of something else."""
    outcome: Outcome
    reason = None
    match event:
        case events.Completed():
            outcome = "completed"
        case events.Failed():
            outcome, reason = ("retrying" if event.will_retry else "failed"), event.reason
        case events.WasDelayed():
            outcome = "delayed"
        case events.WasSuspended():
            outcome = "suspended"
        case events.WaitsForChildren():
            outcome = "waiting_children"
        case events.LeaseWasLost():
            outcome, reason = "lost", event.code
        case _:
            return None
    return Ran(event.execution_id, event.kind, event.attempt_index, outcome, reason)


class DrainingRuntime(Runtime):
    """Looks for work and runs the scanners in turn until neither finds anything, then returns."""

    def __init__(
        self, worker: Worker, dsn: str, *, scan: Callable[[], bool], advance: Callable[[], bool]
    ) -> None:
        """Take over the handlers and options of a worker, for another database.

        Args:
            worker: The application's worker, made for whatever database; it is not changed.
            dsn: The database to work on.
            scan: Runs the engine's scanners and returns whether that moved any work.
            advance: Called whenever there is nothing left to do; moves the clock and returns True if there
                may be something now.
        """
        self.ran: list[Ran] = []
        options = replace(
            worker._options,
            dsn=dsn,
            # Nothing here waits to be called, and no lost lease is left for the next look.
            listen=False,
            run_ticks=False,
            poll_interval_s=0.0,
        )
        super().__init__(options, dict(worker._handlers), (*worker._callbacks, self._note))
        self._scan = scan
        self._advance = advance

    def _note(self, event: events.Event) -> None:
        ran = as_ran(event)
        if ran is not None:
            self.ran.append(ran)

    async def drain_within(self, timeout_s: float) -> list[Ran]:
        """Run to the end.

        Raises:
            NotIdleError: there was still something to do after so long.
            FlowFabricError: the database refuses a call; nothing is tried again here.
        """
        run = asyncio.create_task(self.run())
        done, _ = await asyncio.wait({run}, timeout=timeout_s)
        if done:
            run.result()
            return self.ran
        running = [f"{job.claim.execution_kind} {job.claim.execution_id}" for job in self._jobs.values()]
        run.cancel()
        for job in list(self._jobs.values()):
            self._stop(job)
            if job.is_running and job.runner is None:
                # A thread cannot be stopped, and nobody waits for it.
                job.is_running = False
                self._settle(job)
        await asyncio.wait({run})
        raise NotIdleError(
            f"After {timeout_s} s there was still work to do. Running: {', '.join(running) or 'nothing'};"
            f" ended: {len(self.ran)}, the last of them {self.ran[-3:]}."
        )

    async def _claim_until_drained(self) -> None:
        while self._paused is None:
            # Before the registry has been asked, an execution may seem to have no capable worker.
            self._slots_changed.clear()
            await self._slots_changed.wait()
        while True:
            # What ends from here on may let something run that neither the scanners nor the look have seen.
            self._slots_changed.clear()
            busy = bool(self._jobs)
            moved = await asyncio.to_thread(self._scan)
            found = self._free_slots() > 0 and await self._look()
            if self._jobs:
                await wait_for(self._slots_changed, _LOOK_AGAIN_S)
            elif not (busy or found or moved or self._advance()):
                return
