"""What the workers are given to do, and the tables in which it shows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeVar
from uuid import uuid4

from flowfabric_client import Client
from flowfabric_client.errors import ClientTimeoutError, ResourceExhaustedError, TransportError
from flowfabric_client.flow import Flow
from tests.event.support import START, read_events
from tests.support.cluster import Connection

T = TypeVar("T")

BUDGET = "chaos"
QUOTA = "chaos"
QUOTA_SLOTS = 5
RESERVED = 5
SETTLED = 3

LEASE_TTL_MS = 3_000
LARGEST_BATCH = 500
LONGEST_OUTAGE_S = 60.0

#: What a worker may do to the tables of the application; the engine's it cannot touch.
WORKER_ROLE = "chaos_worker"

#: No unique constraint: what happens twice must show.
TABLES = f"""
    create table effect (execution_id text not null);
    create table consumed (execution_id text not null, outcome text not null);
    create table position as select '{START}'::text as cursor"""

#: Kinds of solo executions and how often each is drawn.
MIX = {"effect": 40, "thread": 15, "retry": 10, "usage": 15, "spend": 10, "pause": 10}

#: Connections that break make handlers fail, as often as they break.
PATIENT = {"retry_policy": {"max_retries": 100}}


@dataclass
class Work:
    """Executions by what they leave behind."""

    kinds: dict[str, str] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)
    """Those of which only `QUOTA_SLOTS` may run at once."""

    in_flows: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.kinds)

    def add(self, other: Work) -> None:
        self.kinds |= other.kinds
        self.limited |= other.limited
        self.in_flows |= other.in_flows

    def of_kind(self, *kinds: str) -> set[str]:
        return {execution_id for execution_id, kind in self.kinds.items() if kind in kinds}

    @property
    def with_effect(self) -> set[str]:
        """Those that leave a row in `effect`."""
        return self.kinds.keys() - self.of_kind("usage")


def prepare(db: Connection) -> None:
    """Make what the work needs: tables, limits, a signing key, and a role for workers."""
    db.execute(TABLES)
    db.execute(
        f"""
        create role {WORKER_ROLE} login in role flowfabric_worker;
        grant insert on effect to {WORKER_ROLE};
        select flowfabric.ff_seed_waitpoint_hmac_secret('kid-1', repeat('ab', 32));
        select flowfabric.ff_create_quota_policy('{QUOTA}', 1, 1000000, {QUOTA_SLOTS});
        select flowfabric.ff_create_budget(
            '{BUDGET}', 'tenant', 'chaos', '{{tokens,calls}}', '{{1000000000,1000000000}}', '{{0,0}}')"""
    )
    # What waits for a scanner would otherwise wait for seconds, with nothing to do meanwhile.
    for scanner in ("suspension_timeout", "unblock"):
        db.execute("select flowfabric.ff_set_scanner(%s, p_interval_ms => 200)", [scanner])


def submit(client: Client, count: int, dice: Random) -> Work:
    """Create about so many executions: solo ones of every kind, limited ones, and flows.

    The ids are made here, so that a call whose answer was lost can be made again.
    """
    flows = count // 12
    limited = max(3 * QUOTA_SLOTS, count // 50)
    solo = dice.choices(list(MIX), list(MIX.values()), k=max(0, count - limited - 4 * flows))
    work = Work()
    _create(client, work, solo, "default", PATIENT)
    _create(client, work, ["effect"] * limited, "limited", {**PATIENT, "quota_policy_id": QUOTA})
    for _ in range(flows):
        _submit_diamond(client, work)
    return work


def _create(client: Client, work: Work, kinds: list[str], lane: str, policy: dict[str, Any]) -> None:
    partition = insist(lambda: client.solo_partition(lane))
    for start in range(0, len(kinds), LARGEST_BATCH):
        batch = kinds[start : start + LARGEST_BATCH]
        ids = [f"{{fp:{partition}}}:{uuid4()}" for _ in batch]
        create = partial(
            client.create_executions,
            batch,
            execution_ids=ids,
            lane_ids=[lane] * len(batch),
            policies=[policy] * len(batch),
        )
        assert {item.outcome for item in insist(create)} <= {"created", "duplicate"}
        work.kinds |= dict(zip(ids, batch, strict=True))
        if lane == "limited":
            work.limited |= set(ids)


def _submit_diamond(client: Client, work: Work) -> None:
    flow = (
        Flow()
        .task("root", kind="effect", policy=PATIENT)
        .task("left", kind="retry", after=["root"], policy=PATIENT)
        .task("right", kind="pause", after=["root"], policy=PATIENT)
        .task("join", kind="effect", after=["left", "right"], policy=PATIENT)
    )
    kinds = {"root": "effect", "left": "retry", "right": "pause", "join": "effect"}
    members = insist(lambda: client.submit_flow(flow.to_json()))
    work.kinds |= {member.execution_id: kinds[member.name] for member in members}
    work.in_flows |= {member.execution_id for member in members}


def insist(call: Callable[[], T]) -> T:
    """Make a call until the database answers; only for calls that may be made twice."""
    give_up_at = time.monotonic() + LONGEST_OUTAGE_S
    while True:
        try:
            return call()
        except (TransportError, ResourceExhaustedError, ClientTimeoutError):
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.1)


def consume(connection: Connection, limit: int = 256) -> int:
    """Take completions as a consumer does: effects and position are one transaction. Return how many."""
    with connection.transaction():
        row = connection.execute("select cursor from position for update").fetchone()
        assert row is not None
        events, position = read_events(connection, "completion", row[0], limit=limit)
        with connection.cursor() as cursor:
            cursor.executemany(
                "insert into consumed values (%s, %s)",
                [(event["execution_id"], event["outcome"]) for event in events],
            )
        connection.execute("update position set cursor = %s", [position["cursor"]])
    return len(events)


def column(connection: Connection, query: str) -> list[Any]:
    """The first column of all rows."""
    return [row[0] for row in connection.execute(query.encode())]
