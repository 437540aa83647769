"""What a worker tells whoever listens: `worker.on_event(callback)`.

Metrics and traces attach here, so that the worker depends on none of their libraries. Callbacks run on the
worker's event loop, in the order of events; they must not block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkEvent:
    """Something happened to one attempt of one execution."""

    execution_id: str
    kind: str
    lane_id: str
    attempt_index: int


@dataclass(frozen=True, slots=True)
class Claimed(WorkEvent):
    """The worker holds a lease on the execution."""

    how: str
    """`fresh`, `resumed` (the same attempt goes on) or `reclaimed` (another worker had lost it)."""


@dataclass(frozen=True, slots=True)
class Started(WorkEvent):
    """The handler is about to run."""


@dataclass(frozen=True, slots=True)
class Completed(WorkEvent):
    """The database has the result."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Failed(WorkEvent):
    """The database has the failure."""

    seconds: float
    category: str
    reason: str
    will_retry: bool


@dataclass(frozen=True, slots=True)
class LeaseWasLost(WorkEvent):
    """The execution is not this worker's any more; whatever the handler returns is ignored."""

    code: str


@dataclass(frozen=True, slots=True)
class WasDelayed(WorkEvent):
    """The handler gave the execution back until a time."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class WasSuspended(WorkEvent):
    """The handler waits for signals, and has given the execution back until they come."""

    key: str


@dataclass(frozen=True, slots=True)
class WaitsForChildren(WorkEvent):
    """The handler waits for children, and has given the execution back until it looks at them again."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class HandedBack(WorkEvent):
    """The worker gave the execution back before its handler started."""


@dataclass(frozen=True, slots=True)
class ReportSent:
    """One flush: how many completions and how many failures went out together."""

    completions: int
    failures: int


@dataclass(frozen=True, slots=True)
class LeasesRenewed:
    """One renewal call went through."""

    count: int


@dataclass(frozen=True, slots=True)
class ReclaimsUsedUp:
    """An execution was failed because too many workers had lost it."""

    execution_id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """A call did not go through and is made again after a pause."""

    activity: str
    error: Exception
    pause_s: float


@dataclass(frozen=True, slots=True)
class LoopBlocked:
    """Something kept the event loop from running; leases were not renewed meanwhile."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Idle:
    """The worker has free slots, has found nothing for them, and waits until it is called or polls again."""


@dataclass(frozen=True, slots=True)
class DrainStarted:
    """The worker claims nothing more and ends when the running work has."""

    running: int


@dataclass(frozen=True, slots=True)
class PausedByOperator:
    """An operator asked the worker to take no work (`ff_drain_worker`), or lets it take work again."""

    is_paused: bool


Event = (
    WorkEvent
    | ReportSent
    | LeasesRenewed
    | ReclaimsUsedUp
    | Trouble
    | LoopBlocked
    | Idle
    | DrainStarted
    | PausedByOperator
)
EventCallback = Callable[[Event], None]
