"""Many leases lost at once: what a reclaim reads, and what other sessions hold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.claim.support import Row, call, claim, create, names, value
from tests.claim.test_cost import counters
from tests.conftest import Clock, Connect
from tests.support.cluster import Connection

MANY = 4_000
EXPIRED_AT = 100_000


def lose(connection: Connection, size: int, lane: str = "default", **columns: Any) -> None:
    """Insert executions whose lease has run out by plain SQL: through the engine it would take a minute."""
    connection.execute(
        "insert into flowfabric.ff_exec_core (partition_key, execution_id, lifecycle_phase, ownership_state,"
        " eligibility_state, blocking_reason, terminal_outcome, attempt_state, current_attempt_id,"
        " current_lease_id, current_worker_id, current_worker_instance_id, lease_acquired_at_ms,"
        " lease_expires_at_ms, total_attempt_count, attempt_is_deferred, current_lease_epoch, created_at_ms,"
        " started_at_ms, last_transition_at_ms, last_mutation_at_ms, namespace, lane_id, execution_kind,"
        " lease_reclaim_count, small_payload)"
        " select n %% 256, gen_random_uuid(), 'active', 'leased', 'not_applicable', 'none', 'none',"
        " 'running_attempt', gen_random_uuid(), gen_random_uuid(), 'dead', 'dead-1', 1, %(expired)s, 1, true,"
        " 1, n, 1, 1, 1, 'default', %(lane)s, 'test', %(count)s, 'x' from generate_series(1, %(size)s) as n",
        {"lane": lane, "size": size, "expired": EXPIRED_AT, "count": columns.get("lease_reclaim_count", 0)},
    )
    connection.execute(
        "insert into flowfabric.ff_lane_registry (lane_id, lane_crc, registered_at_ms, registered_by)"
        " values (%s, 0, 1, 'test') on conflict do nothing",
        [lane],
    )


def reclaim(connection: Connection, **arguments: Any) -> list[Row]:
    defaults = {"lanes": ["default"], "worker_id": "r", "worker_instance_id": "r-1"}
    return call(connection, "ff_reclaim_next", **{**defaults, **arguments})


def rows_read(connection: Connection, **arguments: Any) -> tuple[int, int]:
    """How many executions a reclaim takes over and how many rows of them it reads, without a table scan."""
    with connection.transaction():
        before = counters(connection)
        taken = reclaim(connection, **arguments)
        after = counters(connection)
    scans = {table: after[table][0] - before[table][0] for table in after}
    assert scans == dict.fromkeys(scans, 0)
    return len(taken), after["ff_exec_core"][1] - before["ff_exec_core"][1]


@pytest.mark.parametrize("is_marked", [False, True], ids=["unmarked", "marked"])
def test_a_reclaim_reads_a_window_of_its_own_lanes(
    db: Connection, connect: Connect, clock: Clock, is_marked: bool
) -> None:
    worker = connect()
    db.execute("analyze")
    # Planned while the tables are empty.
    for arguments in ({}, {"lanes": ["quiet"]}, {"max": 100}, {"lanes": ["default", "quiet"]}):
        assert reclaim(worker, **arguments) == []
    clock.freeze(EXPIRED_AT)
    lose(db, MANY)
    if is_marked:
        call(db, "ff_scan_expired_leases", limit=MANY)
    # Each row that is taken over is read a few times more: lock, change, answer.
    one, read_for_one = rows_read(worker)
    assert one == 1
    assert read_for_one < 150
    many, read_for_many = rows_read(worker, max=100)
    assert many == 100
    assert read_for_many < 2_000
    two_lanes, read_for_two_lanes = rows_read(worker, lanes=["default", "quiet"], max=10)
    assert two_lanes == 10
    assert read_for_two_lanes < 250
    assert rows_read(worker, lanes=["quiet"], max=100) == (0, 0)


def test_what_backs_off_is_read_once(db: Connection, connect: Connect, clock: Clock) -> None:
    worker = connect()
    clock.freeze(EXPIRED_AT)
    lose(db, 1_000, lease_reclaim_count=1)
    while rows_read(worker, max=100) != (0, 0):
        # Each call sets a hundred aside; then nothing is left to read.
        pass
    assert value(db, "select count(*) from flowfabric.ff_exec_core where delay_until_ms > 100000") == 1_000
    clock.freeze(EXPIRED_AT + 2_000)
    assert len(reclaim(worker, max=100)) == 100


def test_twelve_sessions_at_once_all_get_what_they_ask_for(
    db: Connection, connect: Connect, clock: Clock
) -> None:
    clock.freeze(EXPIRED_AT)
    lose(db, 2_000)
    sessions = [connect(autocommit=False) for _ in range(12)]
    # None of them commits: the later ones find the first 1100 of the queue held.
    taken = [row["execution_id"] for session in sessions for row in reclaim(session, max=100)]
    assert len(taken) == len(set(taken)) == 1_200
    # A session whose window was read before others committed reads the next one.
    for session in sessions:
        session.commit()
    assert len(reclaim(db, max=100)) == 100


def test_a_reclaim_passes_by_what_others_hold(db: Connection, connect: Connect, clock: Clock) -> None:
    holder, worker = connect(autocommit=False), connect()
    worker.execute("set lock_timeout = '5s'")
    clock.freeze(EXPIRED_AT)
    call(
        db,
        "ff_create_budget",
        budget_id="tokens",
        scope_type="tenant",
        scope_id="a",
        dimensions=["tokens"],
        hard_limits=[1_000],
        soft_limits=[0],
    )
    ids = create(db, "reserved", "tagged", "free", policy='{"budget_ids": ["tokens"]}')
    claimed = {row["execution_id"]: row for row in claim(db, max=3, lease_ttl_ms=1_000)}
    reserved = claimed[ids[0]]
    call(
        db,
        "ff_reserve_budget",
        execution_id=ids[0],
        lease_id=reserved["lease_id"],
        lease_epoch=reserved["lease_epoch"],
        attempt_id=reserved["attempt_id"],
        budget_id="tokens",
        reservation_key="r",
        dimensions=["tokens"],
        amounts=[10],
    )
    clock.advance(1_000)
    holder.execute("select from flowfabric.ff_budget_policy for no key update")
    holder.execute(
        "select from flowfabric.ff_exec_core where execution_id = right(%s, 36)::uuid for no key update",
        [ids[1]],
    )
    # Neither the budget of the first nor the row of the second is waited for.
    assert names(reclaim(worker, max=9)) == ["free"]
    holder.rollback()
    assert names(reclaim(worker, max=9)) == ["reserved", "tagged"]
    assert value(db, "select reserved_value from flowfabric.ff_budget_usage") == 0
