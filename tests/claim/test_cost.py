"""A claim costs the same whatever waits, has finished or lies dead in the index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.claim.support import call, claim, create, fill, intern, names, raise_floors, value
from tests.conftest import Clock, Connect
from tests.support.cluster import Connection

CLAIM = "select c.* from flowfabric.ff_claim_next(%(lanes)s, 'w', 'w-1', %(capabilities)s, %(max)s) as c"
END_ALL = (
    "update flowfabric.ff_exec_core set lifecycle_phase = 'terminal', terminal_at_ms = 1,"
    " eligibility_state = 'not_applicable', blocking_reason = 'none', terminal_outcome = 'success',"
    " delay_until_ms = null"
)


def buffers(connection: Connection, **arguments: Any) -> int:
    """How many pages a claim touches, those of everything that it calls included."""
    parameters = {"lanes": ["default"], "capabilities": [], "max": 1, **arguments}
    explained = connection.execute(f"explain (analyze, buffers, format json) {CLAIM}", parameters).fetchone()
    assert explained is not None
    node = explained[0][0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"] + node["Shared Dirtied Blocks"])


def test_dead_entries_below_the_floor_are_not_read(
    old_snapshot: Callable[[], None], db: Connection, clock: Clock
) -> None:
    clock.freeze(100_000)
    fill(db, 20_000)
    old_snapshot()
    db.execute(END_ALL)
    clock.freeze(200_000)
    create(db, *(str(n) for n in range(40)))
    buffers(db)
    without_floor = buffers(db)
    raise_floors(db, clock)
    buffers(db, lanes=["default", "other"], capabilities=["x"])
    single = [buffers(db) for _ in range(10)]
    batch = [buffers(db, max=2) for _ in range(5)]
    merged = [buffers(db, lanes=["default", "other"], capabilities=["x"]) for _ in range(5)]
    assert max(single) < 150 < without_floor
    assert max(batch) < 300
    assert max(merged) < 300
    assert names(claim(db)) == ["28"]


def test_dead_delays_below_the_floor_are_not_read(
    old_snapshot: Callable[[], None], db: Connection, clock: Clock
) -> None:
    clock.freeze(100_000)
    fill(db, 20_000)
    db.execute(
        "update flowfabric.ff_exec_core set eligibility_state = 'not_eligible_until_time',"
        " blocking_reason = 'waiting_for_delay', delay_until_ms = 100001"
    )
    old_snapshot()
    db.execute(END_ALL)
    clock.freeze(200_000)
    create(db, "delayed", delay_until_ms=200_001)
    create(db, *(str(n) for n in range(40)))
    without_floor = buffers(db)
    clock.freeze(200_001)
    assert names(claim(db)) == ["delayed"]
    raise_floors(db, clock)
    single = [buffers(db) for _ in range(10)]
    batch = [buffers(db, max=2) for _ in range(5)]
    routed = [buffers(db, capabilities=["x"]) for _ in range(5)]
    assert max(single) < 150 < without_floor
    assert max(batch) < 300
    assert max(routed) < 300


def test_a_scan_from_the_beginning_that_takes_long_is_followed_by_a_rest(
    old_snapshot: Callable[[], None], db: Connection
) -> None:
    fill(db, 50_000)
    old_snapshot()
    db.execute(END_ALL)
    create(db, "a")
    claim(db)
    db.execute("update flowfabric.ff_lane_floor set checked_at_ms = 0, due_at_ms = 0")
    (scan,) = call(db, "ff_scan_claim_floors")
    assert scan["processed"] == 1
    rest = value(
        db,
        "select max(checked_at_ms) + 150 - max(due_at_ms) from flowfabric.ff_lane_floor",
    )
    assert rest >= 40, "50 000 dead entries take more than a millisecond"
    assert rest % 20 == 0
    db.execute(
        "update flowfabric.ff_lane_floor set checked_at_ms = 9007199254740991, floor_ms = 9007199254740991"
    )
    resting = buffers(db)
    db.execute("update flowfabric.ff_lane_floor set checked_at_ms = 0")
    assert buffers(db) > 5 * resting, "a claim that finds nothing reads from the beginning"
    assert buffers(db) <= 2 * resting, "the next ones rest"


@pytest.mark.parametrize("analyzed", [0, 50])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"max": 100},
        {"lanes": ["default", "other"], "max": 10},
        {"capabilities": ["x"]},
        {"namespace": "default"},
    ],
    ids=str,
)
def test_a_session_that_planned_its_claims_on_small_tables_reads_no_large_one(
    connect: Connect, db: Connection, analyzed: int, arguments: dict[str, Any]
) -> None:
    fill(db, analyzed)
    db.execute("analyze")
    worker = connect()
    for _ in range(3):
        claim(worker, **arguments)
    db.execute("delete from flowfabric.ff_exec_core where eligibility_state = 'eligible_now'")
    fill(db, 5_000, state="leased")
    fill(db, 5_000, state="finished")
    fill(db, 5_000)
    with worker.transaction():
        before = counters(worker)
        claimed = claim(worker, **arguments)
        after = counters(worker)
    assert len(claimed) == arguments.get("max", 1)
    scans = {table: after[table][0] - before[table][0] for table in after}
    assert scans == dict.fromkeys(scans, 0)
    # Per region a page of candidates at most, and each row a few times more: lock, change, answer.
    assert after["ff_exec_core"][1] - before["ff_exec_core"][1] <= 2_000


def test_of_many_queues_only_what_can_win_is_read(connect: Connect, db: Connection) -> None:
    lanes = [f"lane-{n}" for n in range(20)]
    tokens = [f"token-{n}" for n in range(50)]
    sets = [intern(db, token) for token in tokens]
    for number, lane in enumerate(lanes):
        for place, set_id in enumerate(sets):
            fill(db, 30, lane=lane, capability_set_id=set_id, created_at_ms=100 * number + place)
    db.execute("analyze")
    for order in ("fair", "strict", "global"):
        with db.transaction():
            before = counters(db)
            claimed = claim(db, lanes=lanes, capabilities=tokens, max=20, lane_order=order)
            after = counters(db)
        assert len(claimed) == 20
        read = after["ff_exec_core"][1] - before["ff_exec_core"][1]
        # The head of each queue, and of those that come first as many as can be in a page of 40.
        assert read < 20 * 50 + 40 * 41 // 2 + 10 * 20, order


@pytest.mark.parametrize("capabilities", [[], ["x"]], ids=["one queue", "two queues"])
def test_what_waits_for_another_namespace_is_not_read_by_each_claim(
    db: Connection, clock: Clock, capabilities: list[str]
) -> None:
    intern(db, "x")
    clock.freeze(100_000_000)
    fill(db, 20_000, namespace="large", created_at_ms=90_000_000)
    fill(db, 20_000, namespace="large", created_at_ms=90_000_000, capability_set_id=2)
    db.execute("analyze")
    mine = {"namespace": "small", "capabilities": capabilities}
    # The first claims make floors, wait for transactions that have not seen them, and move both.
    for _ in range(6):
        assert claim(db, **mine) == []
        clock.advance(1_000)
    create(db, *(str(n) for n in range(6)), namespace="small")
    read = [rows_read(db, **mine) for _ in range(5)]
    assert max(read) < 100
    # A claim that finds nothing reads from the beginning, but after a slow scan not for a while.
    assert names(claim(db, **mine)) == ["5"]
    assert rows_read(db, **mine) > 10_000
    db.execute("update flowfabric.ff_lane_floor set checked_at_ms = %s", [clock.now_ms() + 60_000])
    assert rows_read(db, **mine) < 100


def rows_read(connection: Connection, **arguments: Any) -> int:
    """How many executions a claim reads through indexes."""
    with connection.transaction():
        before = counters(connection)
        claim(connection, **arguments)
        after = counters(connection)
    return after["ff_exec_core"][1] - before["ff_exec_core"][1]


def counters(connection: Connection) -> dict[str, tuple[int, int]]:
    """Sequential scans of the large tables, and rows fetched through an index, in this transaction."""
    rows = connection.execute(
        "select relname, seq_scan, coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables"
        " where schemaname = 'flowfabric' and relname in ('ff_exec_core', 'ff_exec_payload', 'ff_attempt')"
    )
    return {table: (scans, fetched) for table, scans, fetched in rows.fetchall()}
