"""Batches beside each other and beside everybody else: who waits for whom, and what the loser is told."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.batch.support import (
    Lease,
    complete,
    create_flow,
    execution_id,
    fail,
    join_flow,
    leased,
    outcomes,
    renew,
    reserve,
    rows,
    traces,
)
from tests.conftest import Clock, Connect
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Row, call

FLOW = UUID(int=0xF10F)
LOCK_EXECUTION = "select from flowfabric.ff_exec_core where execution_id = %s for no key update"
LOCK_FLOW = "select from flowfabric.ff_flow_core where flow_id = %s for no key update"
LOCK_BUDGET = "select from flowfabric.ff_budget_policy where budget_id = %s for no key update"

Batch = Callable[[Connection, Sequence[Lease]], list[Row]]
BATCHES_THAT_WAIT = [complete, fail]


def is_free(connection: Connection, lock: str, key: object) -> bool:
    """Whether nobody holds the lock."""
    try:
        with connection.transaction():
            connection.execute(f"{lock} nowait", [key])
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def states(connection: Connection) -> Counter[str]:
    found = rows(connection, "select e.state::text from flowfabric.ff_v_execution as e")
    return Counter(row["state"] for row in found)


def retry_once(connection: Connection, leases: Sequence[Lease]) -> list[Row]:
    return fail(connection, leases, retry_policies=[Jsonb({"max_retries": 1})] * len(leases))


def at_once(start: threading.Barrier, batch: Batch, session: Connection, leases: list[Lease]) -> list[Row]:
    """Run a batch at the same time as another one."""
    start.wait()
    return batch(session, leases)


def renew_often(session: Connection, leases: list[Lease]) -> set[str]:
    """All that is said about some leases in five renewals."""
    return {outcome for _ in range(5) for outcome in outcomes(renew(session, leases))}


# Order of locks


@pytest.mark.parametrize("batch", BATCHES_THAT_WAIT)
def test_rows_are_locked_in_ascending_order_whatever_the_order_of_the_items(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    first, second, third = leased(db, 1, 2, 3)
    holder, worker = connect(autocommit=False), connect()
    holder.execute(LOCK_EXECUTION, [second.uuid])
    waiting = in_background(lambda: batch(worker, [third, first, second]))
    wait_until_blocked(db, worker, by=holder)
    assert not is_free(db, LOCK_EXECUTION, first.uuid)
    assert is_free(db, LOCK_EXECUTION, third.uuid)
    holder.rollback()
    assert [answer["execution_id"] for answer in waiting.result()] == [
        third.execution_id,
        first.execution_id,
        second.execution_id,
    ]


@pytest.mark.parametrize("batch", BATCHES_THAT_WAIT)
def test_flows_are_locked_before_executions_and_in_ascending_order(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    leases = leased(db, 1, 2, 3)
    flows = [UUID(int=number) for number in (101, 102, 103)]
    for flow, lease in zip(flows, reversed(leases), strict=True):
        create_flow(db, flow)
        join_flow(db, flow, lease)
    holder, worker = connect(autocommit=False), connect()
    holder.execute(LOCK_FLOW, [flows[1]])
    waiting = in_background(lambda: batch(worker, leases))
    wait_until_blocked(db, worker, by=holder)
    assert not is_free(db, LOCK_FLOW, flows[0])
    assert is_free(db, LOCK_FLOW, flows[2])
    assert all(is_free(db, LOCK_EXECUTION, lease.uuid) for lease in leases)
    holder.rollback()
    assert {answer["outcome"] for answer in waiting.result()} <= {"completed", "terminal_failed"}


@pytest.mark.parametrize("batch", [*BATCHES_THAT_WAIT, retry_once])
def test_budgets_are_locked_last_and_in_ascending_order(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    alone, member = leased(db, 1, 2)
    create_flow(db, FLOW)
    join_flow(db, FLOW, member)
    reserve(db, alone, "c", "b")
    reserve(db, member, "d", "a")
    holder, worker = connect(autocommit=False), connect()
    holder.execute(LOCK_BUDGET, ["b"])
    waiting = in_background(lambda: batch(worker, [member, alone]))
    wait_until_blocked(db, worker, by=holder)
    assert not is_free(db, LOCK_BUDGET, "a")
    assert is_free(db, LOCK_BUDGET, "c")
    assert is_free(db, LOCK_BUDGET, "d")
    holder.rollback()
    assert not any(answer["code"] for answer in waiting.result())
    assert rows(db, "select sum(u.reserved_value)::int as n from flowfabric.ff_budget_usage as u") == [
        {"n": 0}
    ]


@pytest.mark.parametrize("other", [complete, fail, retry_once])
def test_crossed_batches_never_deadlock_and_each_item_has_one_winner(
    connect: Connect, db: Connection, other: Batch
) -> None:
    flows = [UUID(int=number) for number in (101, 102, 103)]
    for flow in flows:
        create_flow(db, flow)
    sessions = connect(), connect()
    for number in range(25):
        leases = leased(db, *range(100 * number, 100 * number + 12))
        for position, flow in enumerate(flows):
            join_flow(db, flow, *leases[position::4])
        reserve(db, leases[3], "a", "b")
        reserve(db, leases[7], "b", "c")
        start = threading.Barrier(2)
        one = in_background(partial(at_once, start, complete, sessions[0], leases))
        two = in_background(partial(at_once, start, other, sessions[1], leases[::-1]))
        for first, second in zip(one.result(), reversed(two.result()), strict=True):
            assert first["execution_id"] == second["execution_id"]
            assert [first["code"], second["code"]].count("execution_not_active") == 1
            assert [first["code"], second["code"]].count(None) == 1


# Waiting


@pytest.mark.parametrize("batch", BATCHES_THAT_WAIT)
def test_the_clock_is_read_when_the_last_lock_is_held(
    connect: Connect, db: Connection, clock: Clock, batch: Batch
) -> None:
    clock.freeze(1_000)
    first, last = leased(db, 1, 2, ttl_ms=500)
    holder, worker = connect(autocommit=False), connect()
    holder.execute(LOCK_EXECUTION, [last.uuid])
    waiting = in_background(lambda: batch(worker, [first, last]))
    wait_until_blocked(db, worker, by=holder)
    clock.freeze(1_500)
    holder.rollback()
    assert outcomes(waiting.result()) == ["lease_expired", "lease_expired"]
    assert states(db) == {"active": 2}


@pytest.mark.parametrize("batch", BATCHES_THAT_WAIT)
def test_a_row_that_changed_during_the_wait_is_judged_and_changed_as_it_is_then(
    connect: Connect, db: Connection, clock: Clock, batch: Batch
) -> None:
    clock.freeze(1_000)
    renewed, finished, untouched = leased(db, 1, 2, 3, ttl_ms=500)
    holder, worker = connect(autocommit=False), connect()
    renew(holder, [renewed], lease_ttl_ms=9_000)
    complete(holder, [finished])
    holder.execute(
        "update flowfabric.ff_exec_core set instance_tag = 'changed' where execution_id = %s", [renewed.uuid]
    )
    waiting = in_background(lambda: batch(worker, [untouched, finished, renewed]))
    wait_until_blocked(db, worker, by=holder)
    clock.freeze(1_600)
    holder.commit()
    assert outcomes(waiting.result())[:2] == ["lease_expired", "execution_not_active"]
    assert not waiting.result()[2]["code"]
    (core,) = rows(
        db,
        """
        select e.lifecycle_phase::text, e.terminal_at_ms, a.ended_at_ms, e.instance_tag
        from flowfabric.ff_exec_core as e
        join flowfabric._ff_all_attempts() as a using (partition_key, execution_id)
        where e.execution_id = %s
        """,
        [renewed.uuid],
    )
    assert core == {
        "lifecycle_phase": "terminal",
        "terminal_at_ms": 1_600,
        "ended_at_ms": 1_600,
        "instance_tag": "changed",
    }


@pytest.mark.parametrize("batch", BATCHES_THAT_WAIT)
def test_an_execution_that_joins_a_flow_meanwhile_is_refused_and_the_others_are_not(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    alone, joining = leased(db, 1, 2)
    create_flow(db, FLOW)
    holder, worker = connect(autocommit=False), connect()
    join_flow(holder, FLOW, joining)
    waiting = in_background(lambda: batch(worker, [joining, alone]))
    wait_until_blocked(db, worker, by=holder)
    holder.commit()
    refused, done = waiting.result()
    assert (refused["code"], refused["sqlstate"]) == ("flow_membership_changed", "ZC020")
    assert refused["detail"] == {
        "code": "flow_membership_changed",
        "fn": f"ff_{batch.__name__}_executions",
        "execution_id": joining.execution_id,
        "flow_id": str(FLOW),
    }
    assert done["outcome"] in {"completed", "terminal_failed"}
    assert not any(answer["code"] for answer in batch(db, [joining]))


def test_an_execution_that_joined_a_flow_and_lost_its_lease_is_refused_for_the_lease(
    connect: Connect, db: Connection
) -> None:
    (joining,) = leased(db, 1)
    create_flow(db, FLOW)
    holder, worker = connect(autocommit=False), connect()
    join_flow(holder, FLOW, joining)
    call(holder, "ff_revoke_lease", execution_id=joining.execution_id)
    waiting = in_background(lambda: complete(worker, [joining]))
    wait_until_blocked(db, worker, by=holder)
    holder.commit()
    assert outcomes(waiting.result()) == ["lease_revoked"]


# Renewal


def test_a_renewal_waits_for_nobody(connect: Connect, db: Connection) -> None:
    free, locked = leased(db, 1, 2)
    missing = Lease(execution_id(3))
    holder = connect(autocommit=False)
    holder.execute(LOCK_EXECUTION, [locked.uuid])
    db.execute("set lock_timeout = '1ms'")
    before = rows(db, "select e.* from flowfabric.ff_exec_core as e where e.execution_id = %s", [locked.uuid])
    answers = renew(db, [missing, locked, free, locked, Lease("nonsense")])
    assert outcomes(answers) == ["execution_not_found", "busy", "renewed", "invalid_input", "invalid_input"]
    busy = {name for name, value in answers[1].items() if value is not None}
    assert busy == {"item", "execution_id", "outcome"}
    assert before == rows(
        db, "select e.* from flowfabric.ff_exec_core as e where e.execution_id = %s", [locked.uuid]
    )
    holder.rollback()
    assert outcomes(renew(db, [locked])) == ["renewed"]


def test_an_unfinished_batch_makes_renewals_busy_and_a_finished_one_refuses_them(
    connect: Connect, db: Connection
) -> None:
    leases = leased(db, *range(10))
    finishing = connect(autocommit=False)
    complete(finishing, leases[:5])
    assert outcomes(renew(db, leases)) == ["busy"] * 5 + ["renewed"] * 5
    finishing.commit()
    assert outcomes(renew(db, leases)) == ["execution_not_active"] * 5 + ["renewed"] * 5


def test_a_renewal_beside_a_cascade_that_wants_the_same_members_never_deadlocks(
    connect: Connect, db: Connection
) -> None:
    held_by_cascade, wanted_by_cascade = leased(db, 1, 2)
    cascade, worker = connect(autocommit=False), connect(autocommit=False)
    cascade.execute(LOCK_EXECUTION, [held_by_cascade.uuid])
    assert outcomes(renew(worker, [wanted_by_cascade, held_by_cascade])) == ["renewed", "busy"]
    waiting = in_background(lambda: cascade.execute(LOCK_EXECUTION, [wanted_by_cascade.uuid]))
    wait_until_blocked(db, cascade, by=worker)
    assert outcomes(renew(worker, [wanted_by_cascade, held_by_cascade])) == ["renewed", "busy"]
    worker.commit()
    waiting.result()


def test_renewals_and_completions_of_the_same_leases_never_deadlock(connect: Connect, db: Connection) -> None:
    create_flow(db, FLOW)
    renewing, finishing = connect(), connect()
    for number in range(15):
        leases = leased(db, *range(100 * number, 100 * number + 20))
        join_flow(db, FLOW, *leases[::3])
        renewals = in_background(partial(renew_often, renewing, leases[::-1]))
        assert outcomes(complete(finishing, leases)) == ["completed"] * len(leases)
        assert renewals.result() <= {"renewed", "busy", "execution_not_active"}


# The lease scanner


def test_the_lease_scanner_passes_over_what_a_batch_holds(
    connect: Connect, db: Connection, clock: Clock
) -> None:
    clock.freeze(1_000)
    leases = leased(db, 1, 2, ttl_ms=500)
    finishing = connect(autocommit=False)
    complete(finishing, leases[:1])
    clock.freeze(1_500)
    scan = call(db, "ff_scan_expired_leases")
    assert (scan["processed"], scan["errors"]) == (1, 0)
    finishing.commit()
    assert outcomes(complete(db, leases)) == ["execution_not_active", "lease_expired"]
    assert states(db) == {"completed": 1, "active": 1}


# All or nothing


@pytest.mark.parametrize("batch", BATCHES_THAT_WAIT)
def test_an_unexpected_error_leaves_nothing_of_the_batch(db: Connection, batch: Batch) -> None:
    leases = leased(db, 1, 2, 3)
    create_flow(db, FLOW)
    join_flow(db, FLOW, leases[0])
    reserve(db, leases[1], "a")
    db.execute(
        "update flowfabric.ff_exec_core set lane_id = 'poison' where execution_id = %s", [leases[2].uuid]
    )
    db.execute("alter table flowfabric.ff_completion_event add check (lane_id <> 'poison')")
    before = traces(db)
    with pytest.raises(psycopg.errors.CheckViolation):
        batch(db, leases)
    assert traces(db) == before
    assert states(db) == {"active": 3}


@pytest.mark.parametrize("batch", [*BATCHES_THAT_WAIT, renew])
def test_the_callers_rollback_takes_the_batch_back(connect: Connect, db: Connection, batch: Batch) -> None:
    leases = leased(db, 1, 2)
    caller = connect(autocommit=False)
    before = traces(db)
    assert not any(answer["code"] for answer in batch(caller, leases))
    caller.rollback()
    assert traces(db) == before


# Waking


def test_a_batch_wakes_each_channel_once(connect: Connect, db: Connection) -> None:
    leases = leased(db, *range(10))
    db.execute("select flowfabric.ff_wait_for_events('test', '{completion,lease}', p_wait_ms => 600000)")
    listener = connect()
    listener.execute("listen ff_completion")
    listener.execute("listen ff_lease_event")
    complete(db, leases)
    db.execute("notify ff_completion, 'end'")
    heard = []
    for notification in listener.notifies(timeout=20):
        if notification.payload == "end":
            break
        heard.append((notification.channel, notification.payload))
    assert sorted(heard) == [("ff_completion", "*"), ("ff_lease_event", "*")]
