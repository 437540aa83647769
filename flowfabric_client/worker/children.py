"""Children: executions that a handler creates once, however often it runs, and whose ends it waits for.

The engine's own way of waiting, edges of a flow, ends a parent as skipped when one of its children fails. A
handler wants to hear of it instead, so it looks: after a quarter of the time that the first open child has
taken so far, which needs no memory and few looks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID, uuid5

from flowfabric_client import rows
from flowfabric_client.worker import events
from flowfabric_client.worker.codec import encode_value
from flowfabric_client.worker.job import Job
from flowfabric_client.worker.signals import WaitingForChildren
from flowfabric_client.worker.steps import Steps, delay, insist

T = TypeVar("T")

SHORTEST_PAUSE_MS = 100
LONGEST_PAUSE_MS = 10_000
_ENDED = frozenset({"completed", "failed", "cancelled", "expired", "skipped"})
# Ids of children are names in this space, so that a run that comes later finds those of an earlier one.
_IDS = UUID("6e0c6c52-4c1f-5d0a-9f0b-5a1d4b0f7c3e")


@dataclass(frozen=True, slots=True)
class Child:
    """An execution that this one has created."""

    key: str
    kind: str
    execution_id: str


@dataclass(frozen=True, slots=True)
class EndedChild(Child):
    """A child, and how it ended."""

    state: str
    """`completed`, `failed`, `cancelled`, `expired` or `skipped`."""
    result: bytes | None
    result_encoding: str | None
    failure_reason: str | None

    @property
    def succeeded(self) -> bool:
        """Whether it completed."""
        return self.state == "completed"

    def json(self) -> Any:
        """The result as JSON; None if there is none."""
        return None if self.result is None else json.loads(self.result)


def spawn(
    job: Job,
    kind: str,
    payload: Any,
    key: str | None,
    lane_id: str | None,
    priority: int,
    policy: Mapping[str, Any] | None,
    tags: Mapping[str, Any],
) -> Steps[Child]:
    """Create a child, or find the one that an earlier run has created under this key.

    Raises:
        ValueError: this run has used the key already.
        UnserialisableValueError: the payload has no form in which it could be stored.
    """
    key = f"{kind}#{len(job.children)}" if key is None else key
    if any(child.key == key for child in job.children):
        raise ValueError(f"this run has a child with the key {key!r} already")
    data, encoding = encode_value(payload)
    if job.replay_count is None:
        info: rows.ExecutionInfo = yield from insist(
            job, lambda client: client.read_execution_info(job.handle.execution_id)
        )
        job.replay_count = info.replay_count
    partition, _, parent = job.handle.execution_id.rpartition(":")
    child = Child(key, kind, f"{partition}:{uuid5(_IDS, f'{parent}/{job.replay_count}/{key}')}")
    claim = job.claim
    yield from insist(
        job,
        lambda client: client.create_execution(
            kind,
            payload=data,
            payload_encoding=encoding,
            execution_id=child.execution_id,
            lane_id=claim.lane_id if lane_id is None else lane_id,
            namespace=claim.namespace,
            priority=priority,
            policy=policy,
            tags=tags,
            creator_identity=job.handle.execution_id,
        ),
    )
    job.children.append(child)
    return child


def wait(job: Job, children: Sequence[Child], longest_pause_ms: int) -> Steps[list[EndedChild]]:
    """The children, if all have ended; else give the execution back for a while.

    Raises:
        WaitingForChildren: one has not ended.
    """
    ends = []
    for child in children:
        end = yield from _describe(job, child)
        if end.public_state not in _ENDED:
            now_ms: int = yield from insist(job, lambda client: client.now_ms())
            pause_ms = (now_ms - end.created_at_ms) // 4
            until_ms = now_ms + max(SHORTEST_PAUSE_MS, min(pause_ms, longest_pause_ms))
            yield from delay(job, until_ms, events.WaitsForChildren(*job.facts(), until_ms))
            raise WaitingForChildren
        ends.append(end)
    ended = []
    for child, end in zip(children, ends, strict=True):
        stored = yield from _result(job, child)
        ended.append(
            EndedChild(
                child.key,
                child.kind,
                child.execution_id,
                end.public_state,
                stored.result,
                stored.result_encoding,
                end.failure_reason,
            )
        )
    return ended


def _describe(job: Job, child: Child) -> Steps[rows.ExecutionSnapshot]:
    found: rows.ExecutionSnapshot | None = yield from insist(
        job, lambda client: client.describe_execution(child.execution_id)
    )
    return _there(child, found)


def _result(job: Job, child: Child) -> Steps[rows.ExecutionResult]:
    found: rows.ExecutionResult | None = yield from insist(
        job, lambda client: client.get_execution_result(child.execution_id)
    )
    return _there(child, found)


def _there(child: Child, found: T | None) -> T:
    if found is None:
        raise LookupError(f"child {child.key!r} ({child.execution_id}) is gone: its retention is too short")
    return found
