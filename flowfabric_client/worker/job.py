"""One claimed execution, for as long as this worker is responsible for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from flowfabric_client.errors import (
    ExecutionNotActiveError,
    FlowFabricError,
    LeaseLostError,
    NoActiveLeaseError,
    StreamClosedError,
)
from flowfabric_client.handle import Handle
from flowfabric_client.rows import ClaimedExecution, ReclaimedExecution
from flowfabric_client.worker import events
from flowfabric_client.worker.signals import LeaseLost

if TYPE_CHECKING:
    from flowfabric_client.worker.children import Child
    from flowfabric_client.worker.suspension import Waitpoint

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

# What the functions that take a fence answer to somebody who does not hold the lease.
_REFUSALS_OF_STRANGERS = (LeaseLostError, ExecutionNotActiveError, NoActiveLeaseError, StreamClosedError)


class Flag:
    """A `threading.Event` that costs next to nothing until somebody waits for it, which few handlers do."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: threading.Event | None = None

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake whoever waits."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set; False if the time is over first."""
        with _FLAG_LOCK:
            if self._event is None:
                self._event = threading.Event()
        # Looked at after the event is there: whoever sets the flag from now on finds it.
        return self._is_set or self._event.wait(timeout_s)


# One for all jobs: waiting for a flag and losing a lease are rare.
_FLAG_LOCK = threading.Lock()
_LOSS_LOCK = threading.Lock()


class Job:
    """A lease, the handler that runs under it, and what is known about both.

    The event loop's thread owns it. `lose` and `cancelled` are for any thread.
    """

    __slots__ = (
        "_loop",
        "_loss",
        "_notice_loss",
        "_started_at",
        "cancelled",
        "children",
        "claim",
        "completion",
        "expires_at",
        "giving_back",
        "handle",
        "is_running",
        "lost_code",
        "pause",
        "replay_count",
        "reporting",
        "retry_policy",
        "runner",
        "settled",
        "timer",
        "waitpoints",
    )

    def __init__(
        self, claim: Claim, loop: asyncio.AbstractEventLoop, notice_loss: Callable[[Job, str], None]
    ) -> None:
        self.claim = claim
        self.handle = Handle.of(claim)
        self.cancelled = Flag()
        """The handler should stop, because the lease is lost or its time is up."""
        self.lost_code: str | None = None
        self.runner: asyncio.Task[None] | None = None
        """The task of a handler that runs in the event loop."""
        self.timer: asyncio.TimerHandle | None = None
        """Ends the time of the handler."""
        self.is_running = False
        """The handler has a slot, which it keeps until it has ended."""
        self.retry_policy: Mapping[str, Any] | None = None
        """The handler's; None if it has none or the execution has one of its own."""
        self.reporting = False
        """The outcome is on its way: what the database answers to that counts, not what a renewal hears."""
        self.settled = False
        """Nothing more will be said of it."""
        self.completion: Literal["none", "unknown", "committed"] = "none"
        """What became of `complete_in`; unknown from the call until its transaction is seen to end."""
        self.giving_back = False
        """The database is being asked to take the execution back before it has ended."""
        self.pause: events.WorkEvent | None = None
        """What to tell of an execution that was given back."""
        self.waitpoints: dict[str, Waitpoint] = {}
        """Those that the handler has opened in this run and not yet suspended at, by key."""
        self.children: list[Child] = []
        """Those that the handler has asked for in this run, in their order."""
        self.replay_count: int | None = None
        """How often an operator has let the execution begin anew; None until somebody wants to know."""
        self._loop = loop
        self._notice_loss = notice_loss
        self._loss: asyncio.Future[None] | None = None
        self._started_at = time.monotonic()
        self.expires_at = self._started_at + self.handle.lease_ttl_ms / 1000
        """Unless it is renewed, the lease ends a moment before this."""

    def extend(self) -> None:
        """The lease was renewed a moment ago."""
        self.expires_at = time.monotonic() + self.handle.lease_ttl_ms / 1000

    @property
    def is_held(self) -> bool:
        """Whether the lease must be kept alive."""
        return not (self.settled or self.lost_code or self._is_given_back)

    @property
    def speaks_for_itself(self) -> bool:
        """Whether another call than a renewal will tell how the execution ended."""
        return self.reporting or self.completion != "none" or self._is_given_back

    @property
    def _is_given_back(self) -> bool:
        return self.giving_back or self.pause is not None

    @property
    def seconds(self) -> float:
        """How long the worker has had it."""
        return time.monotonic() - self._started_at

    def facts(self) -> tuple[str, str, str, int]:
        """The first fields of every event about it."""
        claim = self.claim
        return claim.execution_id, claim.execution_kind, claim.lane_id, self.handle.attempt_index

    @property
    def loss(self) -> asyncio.Future[None]:
        """Done when the lease is lost; made when somebody waits for that, which few handlers do."""
        if self._loss is None:
            self._loss = self._loop.create_future()
            if self.lost_code is not None:
                self._loss.set_result(None)
        return self._loss

    def lose(self, code: str) -> None:
        """Let the handler know, once, that the execution is not this worker's any more."""
        with _LOSS_LOCK:
            if self.lost_code is not None or self.settled:
                return
            self.lost_code = code
        self.cancelled.set()
        self._loop.call_soon_threadsafe(self._be_lost, code)

    def _be_lost(self, code: str) -> None:
        if self._loss is not None and not self._loss.done():
            self._loss.set_result(None)
        self._notice_loss(self, code)

    def check(self) -> None:
        """Unwind a handler that goes on after its lease was lost."""
        if self.lost_code is not None:
            raise LeaseLost(self.handle.execution_id, self.lost_code)

    def check_open(self) -> None:
        """Refuse to say more of an execution that has been completed or given back."""
        self.check()
        if self.completion != "none":
            # The database would let a call on another connection wait for the open transaction, for ever.
            raise RuntimeError("nothing more can be said of an execution after complete_in")
        if self._is_given_back:
            raise RuntimeError("nothing more can be said of an execution that was given back")

    def refused(self, error: FlowFabricError) -> None:
        """Unwind the handler if the refusal means that the lease is lost."""
        if isinstance(error, _REFUSALS_OF_STRANGERS):
            code = error.code or "stale_lease"
            if not self.reporting:
                self.lose(code)
            raise LeaseLost(self.handle.execution_id, code) from error
