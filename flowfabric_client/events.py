"""Events: one class per stream of the engine, with the fields that its events have.

    for event in client.events("completion", consumer="billing"):
        print(event.execution_id, event.outcome)

`cursor` is the position after an event: what `events(start=...)` takes, and `commit_event_cursor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal
from uuid import UUID

from flowfabric_client import rows

EventStream = Literal["completion", "lease", "signal", "operator", "worker"]


@dataclass(frozen=True, slots=True)
class Event:
    """What every event has."""

    stream: ClassVar[EventStream]

    cursor: str
    event_id: int
    """Grows with time among the events of one execution."""
    partition_key: int
    occurred_at_ms: int
    namespace: str | None
    instance_tag: str | None


@dataclass(frozen=True, slots=True)
class CompletionEvent(Event):
    """An execution has ended."""

    stream = "completion"

    execution_id: str
    outcome: rows.TerminalOutcome
    flow_id: UUID | None
    lane_id: str | None
    attempt_index: int | None


@dataclass(frozen=True, slots=True)
class LeaseEvent(Event):
    """A lease was acquired, renewed, released, revoked or reclaimed, or has expired."""

    stream = "lease"

    execution_id: str
    event_type: str
    lease_id: UUID | None
    lease_epoch: int | None
    old_lease_epoch: int | None
    attempt_index: int | None
    attempt_id: UUID | None
    worker_id: str | None
    worker_instance_id: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SignalEvent(Event):
    """A signal was accepted."""

    stream = "signal"

    execution_id: str
    signal_id: UUID
    effect: str
    signal_name: str | None
    waitpoint_id: UUID | None
    source_type: str | None
    source_identity: str | None


@dataclass(frozen=True, slots=True)
class OperatorEvent(Event):
    """An operator has acted on an execution, a flow or a lane."""

    stream = "operator"

    event_type: str
    details: dict[str, Any]
    execution_id: str | None
    flow_id: UUID | None


@dataclass(frozen=True, slots=True)
class WorkerEvent(Event):
    """A worker was registered, drained or lost."""

    stream = "worker"

    event_type: str
    worker_instance_id: str
    worker_id: str | None
    reason: str | None


AnyEvent = CompletionEvent | LeaseEvent | SignalEvent | OperatorEvent | WorkerEvent

EVENT_CLASSES: Mapping[str, type[AnyEvent]] = {
    cls.stream: cls for cls in (CompletionEvent, LeaseEvent, SignalEvent, OperatorEvent, WorkerEvent)
}
_FIELDS = {stream: tuple(field.name for field in fields(cls)) for stream, cls in EVENT_CLASSES.items()}


def typed(row: rows.Event) -> AnyEvent:
    """The event of a row that has one."""
    stream = row.stream or ""
    return EVENT_CLASSES[stream](**{name: getattr(row, name) for name in _FIELDS[stream]})
