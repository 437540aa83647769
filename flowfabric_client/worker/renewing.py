"""How leases are kept: together, at a third of their time, over a connection that nothing else uses.

A renewal waits for no row. A lease whose row another session holds is asked for again soon, and as long as
that takes: the row may be free in time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from flowfabric_client import _calls
from flowfabric_client.aio import AsyncClient
from flowfabric_client.errors import ExecutionNotActiveError, FlowFabricError, LeaseLostError
from flowfabric_client.worker import events
from flowfabric_client.worker.batches import fences, slices
from flowfabric_client.worker.job import Job
from flowfabric_client.worker.patience import HeldElsewhereError, ask

_LOGGER = logging.getLogger("flowfabric.worker")

_LONGEST_PAUSE_S = 0.5
_LONGEST_WAIT_MS = 100


class Renewer:
    """Renews the leases of a worker."""

    def __init__(
        self,
        client: AsyncClient,
        jobs: Callable[[], Iterable[Job]],
        lease_ttl_ms: int,
        emit: Callable[[events.Event], None],
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._ttl_ms = lease_ttl_ms
        self._emit = emit
        self._due_at = float("-inf")
        # Those whose row another session held.
        self._busy: list[Job] = []

    async def step(self) -> float:
        """Renew what is due; how many seconds the next step has time."""
        started_at = time.monotonic()
        if started_at >= self._due_at:
            held = [job for job in self._jobs() if job.is_held]
            self._busy = await self._renew(held)
            self._due_at = started_at + self._ttl_ms / 3000
            if held:
                self._emit(events.LeasesRenewed(len(held) - len(self._busy)))
        elif self._busy:
            self._busy = await self._renew([job for job in self._busy if job.is_held])
        # A job that completes inside a transaction holds the row itself, and needs no renewal while it does.
        self._busy = [job for job in self._busy if job.completion == "none"]
        if self._busy:
            await self._wait_for_first()
        pause_s = max(0.0, self._due_at - time.monotonic())
        return min(pause_s, _LONGEST_PAUSE_S, self._ttl_ms / 20_000) if self._busy else pause_s

    async def _renew(self, jobs: Sequence[Job]) -> list[Job]:
        """Renew leases, and return those whose row another session holds."""
        busy = []
        for part in slices(jobs):
            items = await self._client.renew_leases(**fences(part), lease_ttl_ms=self._ttl_ms)
            for job, item in zip(part, items, strict=True):
                if item.outcome == "renewed":
                    job.extend()
                elif item.outcome == "busy":
                    busy.append(job)
                elif not job.speaks_for_itself:
                    job.lose(item.code or "stale_lease")
        return busy

    async def _wait_for_first(self) -> None:
        # A row that many sessions take in turn is never free when a batch comes: who waits gets it.
        job = self._busy.pop(0)
        call = _calls.renew_lease(**job.handle.arguments(), lease_ttl_ms=self._ttl_ms)
        try:
            await ask(self._client, call, max(1, min(_LONGEST_WAIT_MS, self._ttl_ms // 20)))
            job.extend()
        except HeldElsewhereError:
            self._busy.append(job)
        except (LeaseLostError, ExecutionNotActiveError) as error:
            if not job.speaks_for_itself:
                job.lose(error.code or "stale_lease")
        except FlowFabricError as error:
            _LOGGER.warning("the lease on %s was not renewed: %s", job.handle.execution_id, error)
