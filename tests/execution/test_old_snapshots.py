"""A caller whose snapshot is older than what it must see: its call is repeated, or it has seen it.

Under REPEATABLE READ and SERIALIZABLE a transaction reads by the snapshot of its first statement. The lock of
a row that is unchanged since then tells it nothing about new rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.conftest import Clock, Connect
from tests.flow.flows import call_all, cancel, column, submit
from tests.stream.support import Attempt, lease
from tests.support.cluster import Connection
from tests.support.engine import Row, call
from tests.suspension.support import (
    buffer,
    claim,
    count,
    deliver,
    execution_id,
    install_key,
    open_pending,
    public_state,
    single,
    suspend,
)
from tests.suspension.support import lease as lease_numbered

LEVELS = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
BUDGET: Row = {"budget_id": "budget", "dimensions": ["tokens"]}


def batch(function: str) -> Callable[[Connection, Attempt], Any]:
    def end(connection: Connection, attempt: Attempt) -> Any:
        fence = {f"{name}s": [value] for name, value in attempt.fence.items()}
        return call(connection, function, execution_ids=[attempt.execution_id], **fence)

    return end


def expire(connection: Connection, attempt: Attempt) -> Any:
    return call(connection, "ff_expire_execution", execution_id=attempt.execution_id)


def scan(function: str) -> Callable[[Connection, Attempt], Any]:
    return lambda connection, attempt: call(connection, function)


ENDS: dict[str, Callable[[Connection, Attempt], Any]] = {
    "complete": lambda connection, attempt: attempt.complete(connection),
    "complete as an operator": lambda connection, attempt: call(
        connection,
        "ff_complete_execution",
        execution_id=attempt.execution_id,
        source="operator_override",
    ),
    "complete in a batch": batch("ff_complete_executions"),
    "fail": lambda connection, attempt: attempt.fail(connection),
    "fail in a batch": batch("ff_fail_executions"),
    "cancel": lambda connection, attempt: cancel(connection, attempt.execution_id),
    "expire": expire,
    "deadline": scan("ff_scan_execution_deadlines"),
    "tick": lambda connection, attempt: call_all(connection, "ff_tick", scanners=["execution_deadline"]),
}


@pytest.fixture(params=LEVELS, ids=lambda level: level.name.lower())
def old(request: pytest.FixtureRequest, connect: Connect) -> Connection:
    """A session whose transaction begins with `begin_old`."""
    connection = connect(autocommit=False)
    connection.isolation_level = request.param
    return connection


def begin_old(connection: Connection) -> None:
    """Take the snapshot, without looking at anything of the engine."""
    connection.execute("select 1")


def assert_must_begin_again(old: Connection, act: Callable[[Connection], Any]) -> None:
    """The call is refused with serialization_failure, and succeeds in a transaction that starts now."""
    with pytest.raises(psycopg.errors.SerializationFailure):
        act(old)
    old.rollback()
    act(old)
    old.commit()


def assert_sound(db: Connection) -> None:
    assert call_all(db, "ff_check_invariants") == []


# Streams


@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_is_older_than_the_first_frame_leaves_no_stream_open(
    db: Connection, clock: Clock, old: Connection, end: str
) -> None:
    clock.freeze(1_000)
    attempt = lease(db)
    db.execute("update flowfabric.ff_exec_core set deadline_at_ms = 1000")
    begin_old(old)
    attempt.append(db)
    assert_must_begin_again(old, lambda connection: ENDS[end](connection, attempt))
    assert attempt.closed_reason(db) is not None
    assert_sound(db)


@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_is_older_than_the_second_frame_does_not_either(
    db: Connection, clock: Clock, old: Connection, end: str
) -> None:
    clock.freeze(1_000)
    attempt = lease(db)
    db.execute("update flowfabric.ff_exec_core set deadline_at_ms = 1000")
    attempt.append(db)
    begin_old(old)
    attempt.append(db)
    assert_must_begin_again(old, lambda connection: ENDS[end](connection, attempt))
    assert_sound(db)


def test_a_first_frame_changes_nothing_else_about_its_execution(db: Connection, clock: Clock) -> None:
    clock.freeze(1_000)
    attempt = lease(db)
    row = "select to_jsonb(e) from flowfabric.ff_exec_core as e"
    before = db.execute(row).fetchone()
    clock.freeze(2_000)
    attempt.append(db)
    assert db.execute(row).fetchone() == before


# Grants and reservations


def new_execution(db: Connection) -> str:
    return str(call(db, "ff_create_execution", execution_kind="test")["execution_id"])


def test_a_cancel_that_is_older_than_a_grant_leaves_none(db: Connection, old: Connection) -> None:
    waiting = new_execution(db)
    begin_old(old)
    worker = {"worker_id": "w", "worker_instance_id": "w-1", "lane_id": "default"}
    call(db, "ff_issue_claim_grant", execution_id=waiting, **worker)
    assert_must_begin_again(old, lambda connection: cancel(connection, waiting))
    assert_sound(db)


def test_a_claim_that_is_older_than_a_grant_does_not_pass_it_by(db: Connection, old: Connection) -> None:
    waiting = new_execution(db)
    begin_old(old)
    call(db, "ff_grant_next", lanes=["default"], worker_id="w", worker_instance_id="w-1")
    worker = {"lanes": ["default"], "worker_id": "x", "worker_instance_id": "x-1"}
    with pytest.raises(psycopg.errors.SerializationFailure):
        call_all(old, "ff_claim_next", **worker)
    old.rollback()
    assert call_all(old, "ff_claim_next", **worker) == []
    assert public_state_of(db, waiting) == "waiting"


def public_state_of(db: Connection, wire_id: str) -> str:
    (state,) = column(db, "select flowfabric.ff_read_execution_state(%s)", [wire_id])
    return str(state)


def test_an_end_that_is_older_than_a_reservation_gives_it_back(
    db: Connection, clock: Clock, old: Connection
) -> None:
    clock.freeze(1_000)
    call(db, "ff_create_budget", budget_id="budget", scope_type="tenant", scope_id="t")
    attempt = lease(db)
    begin_old(old)
    fence = {"execution_id": attempt.execution_id, **attempt.fence}
    call(db, "ff_reserve_budget", **BUDGET, amounts=[7], **fence)
    assert_must_begin_again(old, attempt.complete)
    assert_sound(db)


# Signals


@pytest.fixture
def key(db: Connection) -> None:
    install_key(db)


@pytest.mark.usefixtures("key")
def test_a_suspend_that_is_older_than_a_buffered_signal_sees_it(db: Connection, old: Connection) -> None:
    fence = lease_numbered(db)
    pending = open_pending(db, fence, "wpk:approval")
    begin_old(old)
    buffer(db, pending)
    assert_must_begin_again(
        old,
        lambda connection: suspend(
            connection, fence, single(), use_pending=True, waitpoint_ids=[pending.waitpoint_id]
        ),
    )
    assert public_state(db) == "active"
    assert_sound(db)


@pytest.mark.usefixtures("key")
def test_a_second_signal_that_is_older_than_the_first_counts_both(db: Connection, old: Connection) -> None:
    (waitpoint,) = suspend(db, lease_numbered(db), count(2, "DistinctSignals"))
    begin_old(old)
    deliver(db, waitpoint)
    assert_must_begin_again(old, lambda connection: deliver(connection, waitpoint))
    assert public_state(db) == "waiting"
    assert claim(db)["execution_id"] == execution_id()


# Flows


def stage(db: Connection, flow_id: str, up: str, down: str) -> Row:
    edge: Row = {"flow_id": flow_id, "edge_id": uuid4()}
    ends = {"upstream_execution_id": up, "downstream_execution_id": down}
    (revision,) = column(
        db, "select graph_revision from flowfabric.ff_flow_core where flow_id = %s", [flow_id]
    )
    call(db, "ff_stage_dependency_edge", **edge, **ends, expected_graph_revision=revision)
    return {**edge, **ends}


def test_an_upstream_whose_end_is_older_than_an_edge_resolves_it(db: Connection, old: Connection) -> None:
    flow = submit(db, "ab")
    edge = stage(db, flow.flow_id, flow.ids["a"], flow.ids["b"])
    fence = flow.claim(db, "a")
    begin_old(old)
    call(db, "ff_apply_dependency_to_child", **edge)
    assert_must_begin_again(old, lambda connection: call(connection, "ff_complete_execution", **fence))
    assert flow.states(db) == {"a": "completed", "b": "waiting"}
    flow.assert_sound(db)


def test_an_edge_that_is_older_than_the_end_of_its_upstream_is_resolved(
    db: Connection, old: Connection
) -> None:
    flow = submit(db, "ab")
    edge = stage(db, flow.flow_id, flow.ids["a"], flow.ids["b"])
    begin_old(old)
    flow.end(db, "a", "success")
    assert_must_begin_again(old, lambda connection: call(connection, "ff_apply_dependency_to_child", **edge))
    assert flow.states(db) == {"a": "completed", "b": "waiting"}
    flow.assert_sound(db)


def test_of_two_ends_the_older_snapshot_decides_no_join(db: Connection, old: Connection) -> None:
    flow = submit(db, "abc", [("a", "c"), ("b", "c")])
    fence = flow.claim(db, "b")
    begin_old(old)
    flow.end(db, "a", "success")
    assert_must_begin_again(old, lambda connection: call(connection, "ff_complete_execution", **fence))
    assert flow.states(db)["c"] == "waiting"
    flow.assert_sound(db)


def test_a_replay_that_is_older_than_a_repeated_success_counts_it(db: Connection, old: Connection) -> None:
    flow = submit(db, "ab", [("a", "b")])
    flow.end(db, "a", "failed")
    assert flow.states(db)["b"] == "skipped"
    call(db, "ff_replay_execution", execution_id=flow.ids["a"])
    begin_old(old)
    flow.end(db, "a", "success")
    assert_must_begin_again(
        old, lambda connection: call(connection, "ff_replay_execution", execution_id=flow.ids["b"])
    )
    assert flow.states(db) == {"a": "completed", "b": "waiting"}
    flow.assert_sound(db)


def test_an_end_that_is_older_than_the_flow_it_has_joined_knows_it(db: Connection, old: Connection) -> None:
    flow_id = UUID(int=0xF10)
    (created,) = call_all(db, "ff_create_flow", flow_id=flow_id, flow_kind="test", namespace="default")
    assert created
    partition = column(db, "select flowfabric.ff_flow_partition(%s)", [flow_id])[0]
    member = f"{{fp:{partition}}}:{uuid4()}"
    call(db, "ff_create_execution", execution_kind="test", execution_id=member)
    begin_old(old)
    call(db, "ff_add_execution_to_flow", flow_id=flow_id, execution_id=member)
    assert_must_begin_again(old, lambda connection: cancel(connection, member))
    assert_sound(db)
