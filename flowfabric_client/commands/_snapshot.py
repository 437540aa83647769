"""What `flowfabric top` shows: one look at lanes, running work, workers and throughput."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from flowfabric_client import rows
from flowfabric_client.commands._engine import Engine
from flowfabric_client.commands.lanes import all_lanes


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """A lane with its executions that have not ended."""

    lane_id: str
    lane_state: str
    waiting: int
    running: int
    delayed: int
    rate_limited: int
    waiting_children: int
    suspended: int
    leases_expired: int
    oldest_age_ms: int


@dataclass(frozen=True, slots=True)
class RunningWork:
    """An execution that a worker holds, or has lost."""

    execution_id: str
    lane: str
    kind: str
    worker_instance: str
    running_ms: int
    lease_is_expired: bool
    progress: int | None
    attempt: int


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """A worker process and how many leases it holds."""

    instance: str
    worker: str
    namespace: str
    lanes: list[str]
    live: bool
    draining: bool
    heartbeat_ms: int
    leases: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at the engine."""

    at_ms: int
    claimed_per_minute: int
    completed_per_minute: dict[str, int]
    lanes: list[LaneLoad]
    running: list[RunningWork]
    workers: list[WorkerLoad]


_RUNNING = """
    select
        r.execution_id, r.lane, r.kind, r.worker_instance,
        (extract(epoch from r.running_for) * 1000)::bigint as running_ms, r.lease_is_expired, r.progress,
        r.attempt
    from flowfabric.ff_v_running as r
    order by r.running_for desc
    limit %(limit)s
"""
_WORKERS = """
    select
        w.instance, w.worker, w.namespace, w.lanes, w.live, w.draining,
        (extract(epoch from w.last_heartbeat) * 1000)::bigint as heartbeat_ms, w.leases
    from flowfabric.ff_v_worker as w
    order by w.live desc, w.leases desc, w.instance
    limit %(limit)s
"""


def take_snapshot(engine: Engine, limit: int) -> Snapshot:
    """Look at the engine once.

    Args:
        engine: The database.
        limit: At most so many rows of running work, which runs longest, and so many workers.
    """
    client = engine.client
    metrics = client.metrics()
    by_lane = _numbers_by_lane(metrics)
    return Snapshot(
        at_ms=client.now_ms(),
        claimed_per_minute=sum(round(m.value) for m in metrics if m.metric == "claimed_per_minute"),
        completed_per_minute={
            str(m.labels["outcome"]): round(m.value) for m in metrics if m.metric == "completed_per_minute"
        },
        lanes=[
            LaneLoad(lane_id=lane.lane_id, lane_state=lane.lane_state, **by_lane[lane.lane_id])
            for lane in all_lanes(client)
        ],
        running=engine.view("ff_v_running", _RUNNING, RunningWork, limit=limit),
        workers=engine.view("ff_v_worker", _WORKERS, WorkerLoad, limit=limit),
    )


def _numbers_by_lane(metrics: list[rows.Metric]) -> dict[str, dict[str, int]]:
    fields = (
        "waiting",
        "running",
        "delayed",
        "rate_limited",
        "waiting_children",
        "suspended",
        "leases_expired",
    )
    found: dict[str, dict[str, Any]] = defaultdict(lambda: dict.fromkeys((*fields, "oldest_age_ms"), 0))
    for metric in metrics:
        lane = metric.labels.get("lane")
        name = {
            "queue_depth": metric.labels.get("state"),
            "running": "running",
            "leases_expired": "leases_expired",
            "queue_oldest_age_ms": "oldest_age_ms",
        }.get(metric.metric)
        if lane is not None and name in (*fields, "oldest_age_ms"):
            found[lane][name] = round(metric.value)
    return found
