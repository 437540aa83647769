"""One claimed execution, for as long as this worker is responsible for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from flowfabric_client.errors import ExecutionNotActiveError, FlowFabricError, LeaseLostError
from flowfabric_client.handle import Handle
from flowfabric_client.rows import ClaimedExecution, ReclaimedExecution
from flowfabric_client.worker import events
from flowfabric_client.worker.signals import LeaseLost

Claim = ClaimedExecution | ReclaimedExecution

LEASE_LOST_CODES = frozenset({"stale_lease", "lease_expired", "lease_revoked", "execution_not_active"})


@dataclass(frozen=True, slots=True)
class Success:
    """What a handler returned, as the engine stores it."""

    result: bytes | None
    encoding: str | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result."""

    category: str
    reason: str


Outcome = Success | Failure


class Job:
    """A lease, the handler that runs under it, and what is known about both.

    The event loop's thread owns it. `lose` and `cancelled` are for any thread.
    """

    def __init__(self, claim: Claim, emit: Callable[[events.Event], None]) -> None:
        self.claim = claim
        self.handle = Handle.of(claim)
        self.cancelled = threading.Event()
        """The handler should stop, because the lease is lost or its time is up."""
        self.lost_code: str | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.runner: asyncio.Future[Any] | None = None
        self.reporting = False
        """The outcome is on its way: what the database answers to that counts, not what a renewal hears."""
        self.settled = False
        self.completion: Literal["none", "unknown", "committed"] = "none"
        """What became of `complete_in`; unknown from the call until its transaction is seen to end."""
        self.delayed_until_ms: int | None = None
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._started_at = time.monotonic()
        self.extend()

    def extend(self) -> None:
        """The lease was granted or renewed a moment ago, so it ends a moment before this."""
        self.expires_at = time.monotonic() + self.handle.lease_ttl_ms / 1000

    @property
    def is_held(self) -> bool:
        """Whether the lease must be kept alive."""
        return not (self.settled or self.lost_code or self.delayed_until_ms is not None)

    @property
    def speaks_for_itself(self) -> bool:
        """Whether another call than a renewal will tell how the execution ended."""
        return self.reporting or self.completion != "none" or self.delayed_until_ms is not None

    @property
    def seconds(self) -> float:
        """How long the worker has had it."""
        return time.monotonic() - self._started_at

    def facts(self) -> tuple[str, str, str, int]:
        """The first fields of every event about it."""
        claim = self.claim
        return claim.execution_id, claim.execution_kind, claim.lane_id, self.handle.attempt_index

    def lose(self, code: str) -> None:
        """Let the handler know, once, that the execution is not this worker's any more."""
        with self._lock:
            if self.lost_code is not None or self.settled:
                return
            self.lost_code = code
        self.cancelled.set()
        self._loop.call_soon_threadsafe(self._notice_loss, code)

    def _notice_loss(self, code: str) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        self._emit(events.LeaseWasLost(*self.facts(), code))

    def check(self) -> None:
        """Unwind a handler that goes on after its lease was lost."""
        if self.lost_code is not None:
            raise LeaseLost(self.handle.execution_id, self.lost_code)

    def refused(self, error: FlowFabricError) -> None:
        """Unwind the handler if the refusal means that the lease is lost."""
        if isinstance(error, LeaseLostError | ExecutionNotActiveError):
            code = error.code or "stale_lease"
            self.lose(code)
            raise LeaseLost(self.handle.execution_id, code) from error
