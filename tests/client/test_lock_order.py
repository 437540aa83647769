"""Transactions of several calls: in the documented order they never deadlock; a deadlock says what to do."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric_client import Client, errors, lock_order
from tests.conftest import Connect
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked

Fence = dict[str, Any]
HOUR_MS = 3_600_000
SESSIONS, TRANSACTIONS = 8, 60


@dataclass
class World:
    """Executions that run: some alone, some in flows in which each is followed by the next."""

    alone: list[Fence] = field(default_factory=list)
    flows: dict[UUID, list[Fence]] = field(default_factory=dict)


def claim(client: Client, execution_id: str) -> Fence:
    row = client.issue_grant_and_claim(execution_id, HOUR_MS)
    return {name: getattr(row, name) for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


@pytest.fixture
def world(database: str) -> World:
    found = World()
    with Client(database) as client:
        client.create_budget("b", "lane", "default", dimensions=["t"], hard_limits=[10**9], soft_limits=[0])
        for number in range(8):
            lane = f"lane-{number}"
            found.alone.append(claim(client, client.create_execution("test", lane_id=lane).execution_id))
        for _ in range(3):
            flow_id = uuid4()
            document = {
                "flow_id": str(flow_id),
                "namespace": "default",
                "defaults": {"lane_id": "default", "execution_kind": "test"},
                "members": [{"name": name} for name in ("a", "b", "c", "child")],
                "edges": [{"upstream": name, "downstream": "child"} for name in "abc"],
                "joins": {"child": {"kind": "any_of", "on_satisfied": "cancel_remaining"}},
            }
            members = client.submit_flow(document)
            found.flows[flow_id] = [
                claim(client, member.execution_id) for member in members if member.name != "child"
            ]
    return found


ENDS: list[Callable[[Client, Fence], Any]] = [
    lambda tx, fence: tx.complete_execution(**fence, result=b"done"),
    lambda tx, fence: tx.fail_execution(**fence, failure_reason="no luck"),
    lambda tx, fence: tx.cancel_execution(**fence, reason="stop"),
]
OTHERS: list[Callable[[Client, Fence], Any]] = [
    lambda tx, fence: tx.renew_lease(**fence, lease_ttl_ms=HOUR_MS),
    lambda tx, fence: tx.update_progress(**fence, progress_pct=50),
    lambda tx, fence: tx.set_execution_tags(fence["execution_id"], {"ff.instance_id": "x"}),
    lambda tx, fence: tx.revoke_lease(fence["execution_id"]),
]
BUDGETS: list[Callable[[Client, Fence], Any]] = [
    lambda tx, fence: tx.reserve_budget("b", ["t"], [1], **fence),
    lambda tx, fence: tx.record_spend("b", ["t"], [1], **fence),
    lambda tx, fence: tx.report_usage_and_check("b", ["t"], [1], **fence),
]
Step = Callable[[Client], Any]


def on(call: Callable[[Client, Fence], Any], fence: Fence) -> Step:
    return lambda tx: call(tx, fence)


def ascending(fences: list[Fence]) -> list[Fence]:
    return sorted(fences, key=lambda fence: lock_order(fence["execution_id"]))


def in_safe_order(world: World, dice: random.Random) -> list[Step]:
    """Some calls, in the order that the documentation calls safe."""
    steps: list[Step] = [lambda tx: tx.create_executions(["test"] * 2)]
    for flow_id in sorted(dice.sample(list(world.flows), dice.randint(0, 2)), key=lambda flow: flow.int):
        members = ascending(dice.sample(world.flows[flow_id], 2))
        steps.append(on(dice.choice(ENDS), members[0]))
        steps.append(on(dice.choice(OTHERS), members[1]))
    alone = ascending(dice.sample(world.alone, dice.randint(1, 4)))
    steps += [on(dice.choice([*ENDS, *OTHERS]), fence) for fence in alone[:-1]]
    steps.append(on(dice.choice([*ENDS, *OTHERS, *BUDGETS]), alone[-1]))
    return steps


def play(connection: Connection, world: World, seed: int, start: threading.Barrier) -> None:
    dice = random.Random(seed)
    connection.execute("set deadlock_timeout = '10ms'")
    connection.commit()
    client = Client(connection)
    start.wait()
    for _ in range(TRANSACTIONS):
        for step in in_safe_order(world, dice):
            # What was ended before in the same transaction is refused; that is not what this is about.
            connection.execute("savepoint step")
            try:
                step(client)
            except (errors.StateError, errors.ContentionError) as error:
                if isinstance(error, errors.RetryExhaustedError):
                    raise
                connection.execute("rollback to savepoint step")
        # The world stays as it is: what counts is who waits for whom.
        connection.rollback()


def test_transactions_in_the_documented_order_never_deadlock(connect: Connect, world: World) -> None:
    start = threading.Barrier(SESSIONS)
    sessions = [connect(autocommit=False) for _ in range(SESSIONS)]
    running = [
        in_background(lambda session=session, seed=seed: play(session, world, seed, start))  # type: ignore[misc]
        for seed, session in enumerate(sessions)
    ]
    for run in running:
        run.result(deadline_s=120)


@pytest.mark.parametrize("in_order", [True, False])
def test_two_transactions_that_end_two_executions_each(
    connect: Connect, db: Connection, world: World, in_order: bool
) -> None:
    """Crosswise they deadlock, and the error names the calls that do not; in order the second one waits."""
    low, high = ascending(world.alone)[:2]
    first, second = connect(autocommit=False), connect(autocommit=False)
    second.execute("set deadlock_timeout = '10ms'")
    first.execute("set deadlock_timeout = '20s'")
    one, two = Client(first), Client(second)
    one.complete_execution(**low)
    if in_order:
        waiting = in_background(lambda: two.complete_execution(**low))
        wait_until_blocked(db, second, by=first)
        one.complete_execution(**high)
        first.commit()
        with pytest.raises(errors.ExecutionNotActiveError):
            waiting.result()
        return
    two.complete_execution(**high)
    crossed = in_background(lambda: one.complete_execution(**high))
    wait_until_blocked(db, first, by=second)
    with pytest.raises(errors.RetryExhaustedError) as refused:
        two.complete_execution(**low)
    second.rollback()
    assert crossed.result().outcome == "completed"
    assert refused.value.details["last_sqlstate"] == "40P01"
    for words in ("Repeat the transaction", "complete_executions", "Transactions of several calls"):
        assert words in (refused.value.hint or "")
        assert words in str(refused.value)


def test_a_serialization_failure_says_what_to_do(connect: Connect, db: Connection, world: World) -> None:
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1 from flowfabric.ff_exec_core limit 1")
    fence = world.alone[0]
    Client(db).renew_lease(**fence)
    with pytest.raises(errors.RetryExhaustedError, match=r"READ COMMITTED.*complete_executions") as refused:
        Client(old).complete_execution(**fence)
    assert refused.value.details["last_sqlstate"] == "40001"


def test_executions_sort_as_the_engine_locks_them(database: str, connect: Connect, db: Connection) -> None:
    low, high = str(UUID(int=1)), str(UUID(int=2**127))
    ids = [f"{{fp:{partition}}}:{uuid}" for partition in (2, 10, 100) for uuid in (low, high)]
    shuffled = random.Random(7).sample(ids, len(ids))
    assert sorted(shuffled, key=lock_order) == ids
    found = db.execute(
        "select id from unnest(%s::text[]) as id, flowfabric.ff_parse_execution_id(id) as k"
        " order by k.partition_key, k.execution_id",
        [shuffled],
    )
    assert [row[0] for row in found] == ids
    with pytest.raises(ValueError, match="no execution id"):
        lock_order(low)
