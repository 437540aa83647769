"""Batches beside each other and beside everybody else: nobody waits, and the loser is told."""

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
from tests.flow.flows import submit
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Row, call

FLOW = UUID(int=0xF10F)
LOCK_EXECUTION = "select from flowfabric.ff_exec_core where execution_id = %s for no key update"
LOCK_FLOW = "select from flowfabric.ff_flow_core where flow_id = %s for no key update"
LOCK_BUDGET = "select from flowfabric.ff_budget_policy where budget_id = %s for no key update"

Batch = Callable[[Connection, Sequence[Lease]], list[Row]]
FINISHING = [complete, fail]


def impatient(connect: Connect) -> Connection:
    """A session in which any wait for a lock is an error."""
    return connect(options="-c lock_timeout=1ms")


def codes(answers: Sequence[Row]) -> list[str | None]:
    return [answer["code"] for answer in answers]


def is_busy(answers: Sequence[Row]) -> list[bool]:
    return [answer["outcome"] == "busy" for answer in answers]


def reserved(connection: Connection) -> dict[str, int]:
    found = rows(connection, "select u.budget_id, u.reserved_value from flowfabric.ff_budget_usage as u")
    return {row["budget_id"]: row["reserved_value"] for row in found}


def append(connection: Connection, lease: Lease) -> None:
    call(
        connection,
        "ff_append_frame",
        execution_id=lease.execution_id,
        attempt_index=0,
        lease_id=lease.lease_id,
        lease_epoch=lease.lease_epoch,
        attempt_id=lease.attempt_id,
        frame_type="text",
    )


def until_free(batch: Batch, connection: Connection, leases: Sequence[Lease]) -> list[Row]:
    """The answers of a batch whose busy items are repeated until none is busy."""
    answers: dict[str | None, Row] = {}
    while len(answers) < len(leases):
        open_leases = [lease for lease in leases if lease.execution_id not in answers]
        for lease, answer in zip(open_leases, batch(connection, open_leases), strict=True):
            if answer["outcome"] != "busy":
                answers[lease.execution_id] = answer
    return [answers[lease.execution_id] for lease in leases]


def states(connection: Connection) -> Counter[str]:
    found = rows(connection, "select e.state::text from flowfabric.ff_v_execution as e")
    return Counter(row["state"] for row in found)


def retry_once(connection: Connection, leases: Sequence[Lease]) -> list[Row]:
    return fail(connection, leases, retry_policies=[Jsonb({"max_retries": 1})] * len(leases))


def at_once(start: threading.Barrier, batch: Batch, session: Connection, leases: list[Lease]) -> list[Row]:
    """Run a batch at the same time as another one."""
    start.wait()
    return until_free(batch, session, leases)


def renew_often(session: Connection, leases: list[Lease]) -> set[str]:
    """All that is said about some leases in five renewals."""
    return {outcome for _ in range(5) for outcome in outcomes(renew(session, leases))}


# Rows that another session holds


@pytest.mark.parametrize("batch", FINISHING)
def test_an_execution_that_another_session_holds_is_busy_and_the_others_end(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    first, held, last = leased(db, 1, 2, 3)
    holder, worker = connect(autocommit=False), impatient(connect)
    holder.execute(LOCK_EXECUTION, [held.uuid])
    before = traces(db)[held.uuid]
    missing, nonsense = Lease(execution_id(9)), Lease("nonsense")
    answers = batch(worker, [last, missing, held, first, held, nonsense])
    assert [answer["item"] for answer in answers] == [1, 2, 3, 4, 5, 6]
    assert codes(answers) == [None, "execution_not_found", None, None, "invalid_input", "invalid_input"]
    assert is_busy(answers) == [False, False, True, False, False, False]
    assert {name for name, value in answers[2].items() if value is not None} == {
        "item",
        "execution_id",
        "outcome",
    }
    assert traces(db)[held.uuid] == before
    holder.rollback()
    assert is_busy(batch(worker, [held])) == [False]
    assert states(db)["active"] == 0


@pytest.mark.parametrize("batch", FINISHING)
def test_members_of_a_flow_that_another_session_holds_are_busy_and_the_others_end(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    flows = [UUID(int=number) for number in (101, 102)]
    of_free, of_held, of_gone, alone = leased(db, 1, 2, 3, 4)
    for flow, member in zip(flows, (of_free, of_held), strict=True):
        create_flow(db, flow)
        join_flow(db, flow, member)
    join_flow(db, UUID(int=103), of_gone)
    holder, worker = connect(autocommit=False), impatient(connect)
    holder.execute(LOCK_FLOW, [flows[1]])
    before = traces(db)[of_held.uuid]
    answers = batch(worker, [alone, of_gone, of_held, of_free])
    assert is_busy(answers) == [False, False, True, False]
    assert codes(answers) == [None] * 4
    assert traces(db)[of_held.uuid] == before
    holder.rollback()
    assert is_busy(batch(worker, [of_held])) == [False]


@pytest.mark.parametrize("batch", FINISHING)
@pytest.mark.parametrize("is_member", [False, True])
def test_reservations_in_a_budget_that_another_session_holds_make_an_item_busy(
    connect: Connect, db: Connection, batch: Batch, is_member: bool
) -> None:
    holds_a, holds_both, holds_b, holds_none = leases = leased(db, 1, 2, 3, 4)
    if is_member:
        create_flow(db, FLOW)
        join_flow(db, FLOW, *leases)
    reserve(db, holds_a, "a")
    reserve(db, holds_both, "a", "b")
    reserve(db, holds_b, "b")
    holder, worker = connect(autocommit=False), connect()
    holder.execute(LOCK_BUDGET, ["b"])
    before = traces(db)
    answers = batch(worker, [holds_none, holds_b, holds_both, holds_a])
    assert is_busy(answers) == [False, True, True, False]
    assert {uuid: traces(db)[uuid] for uuid in (holds_b.uuid, holds_both.uuid)} == {
        uuid: before[uuid] for uuid in (holds_b.uuid, holds_both.uuid)
    }
    assert reserved(db) == {"a": 10, "b": 20}
    holder.rollback()
    assert is_busy(batch(worker, [holds_b, holds_both])) == [False, False]
    assert reserved(db) == {"a": 0, "b": 0}


@pytest.mark.parametrize("batch", FINISHING)
@pytest.mark.parametrize("frames_before", [0, 1])
def test_an_execution_whose_output_stream_another_session_holds_is_busy(
    connect: Connect, db: Connection, batch: Batch, frames_before: int
) -> None:
    streaming, streamed, quiet = leased(db, 1, 2, 3)
    append(db, streamed)
    for _ in range(frames_before):
        append(db, streaming)
    holder, worker = connect(autocommit=False), impatient(connect)
    append(holder, streaming)
    assert is_busy(batch(worker, [quiet, streaming, streamed])) == [False, True, False]
    holder.commit()
    assert is_busy(batch(worker, [streaming])) == [False]
    assert rows(db, "select count(*) from flowfabric.ff_stream_meta where closed_at_ms is null") == [
        {"count": 0}
    ]


def test_a_member_whose_child_another_session_holds_is_busy_and_nothing_of_its_end_stays(
    connect: Connect, db: Connection
) -> None:
    flow = submit(db, ["a", "b", "held", "free"], [("a", "held"), ("b", "free")])
    a, b = (Lease(**flow.claim(db, name)) for name in ("a", "b"))
    holder, worker = connect(autocommit=False), connect()
    holder.execute(LOCK_EXECUTION, [flow.uuid("held")])
    before = traces(db)[a.uuid]
    assert is_busy(complete(worker, [a, b], results=[b"1", b"2"])) == [True, False]
    assert traces(db)[a.uuid] == before
    assert flow.states(db) == {
        "a": "active",
        "b": "completed",
        "held": "waiting_children",
        "free": "waiting",
    }
    holder.rollback()
    assert is_busy(complete(worker, [a])) == [False]
    assert flow.states(db)["held"] == "waiting"


def test_many_members_whose_children_are_held_do_not_make_a_batch_wait_for_each(
    connect: Connect, db: Connection
) -> None:
    names = [f"m{number}" for number in range(200)]
    flow = submit(db, [*names, *(f"{name}.child" for name in names)], [(n, f"{n}.child") for n in names])
    leases = [Lease(**flow.claim(db, name)) for name in names]
    holder = connect(autocommit=False)
    holder.execute("select from flowfabric.ff_exec_core where lifecycle_phase = 'runnable' for no key update")
    # A batch waits five times for 10 ms; 200 such waits would take two seconds.
    worker = connect(options="-c statement_timeout=1s")
    assert is_busy(complete(worker, leases)) == [True] * 200
    holder.rollback()
    assert outcomes(until_free(complete, connect(), leases)) == ["completed"] * 200
    flow.assert_sound(db)


@pytest.mark.parametrize("batch", FINISHING)
def test_an_execution_that_joins_a_flow_meanwhile_is_busy_and_the_others_are_not(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    alone, joining = leased(db, 1, 2)
    create_flow(db, FLOW)
    holder, worker = connect(autocommit=False), impatient(connect)
    join_flow(holder, FLOW, joining)
    assert is_busy(batch(worker, [joining, alone])) == [True, False]
    holder.commit()
    assert is_busy(batch(db, [joining])) == [False]


def test_an_execution_that_joined_a_flow_and_lost_its_lease_is_refused_for_the_lease(
    connect: Connect, db: Connection
) -> None:
    (joining,) = leased(db, 1)
    create_flow(db, FLOW)
    holder, worker = connect(autocommit=False), impatient(connect)
    join_flow(holder, FLOW, joining)
    call(holder, "ff_revoke_lease", execution_id=joining.execution_id)
    assert outcomes(complete(worker, [joining])) == ["busy"]
    holder.commit()
    assert outcomes(complete(worker, [joining])) == ["lease_revoked"]


@pytest.mark.parametrize("batch", FINISHING)
def test_a_lease_that_runs_out_while_its_row_is_held_is_refused_when_the_row_is_free(
    connect: Connect, db: Connection, clock: Clock, batch: Batch
) -> None:
    clock.freeze(1_000)
    (held,) = leased(db, 1, ttl_ms=500)
    holder, worker = connect(autocommit=False), impatient(connect)
    holder.execute(LOCK_EXECUTION, [held.uuid])
    clock.freeze(1_500)
    assert outcomes(batch(worker, [held])) == ["busy"]
    holder.rollback()
    assert outcomes(batch(worker, [held])) == ["lease_expired"]
    assert states(db) == {"active": 1}


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
    assert set(reserved(db).values()) == {0}


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
        assert outcomes(until_free(complete, finishing, leases)) == ["completed"] * len(leases)
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


@pytest.mark.parametrize("batch", FINISHING)
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


@pytest.mark.parametrize("batch", [*FINISHING, renew])
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
