"""Many workers at one queue: nobody waits for an execution, and nothing is claimed or admitted twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.claim.support import (
    Row,
    call,
    claim,
    complete,
    create,
    fence,
    fill,
    intern,
    names,
    raise_floors,
    value,
)
from tests.conftest import Clock, Connect
from tests.support.cluster import Connection
from tests.support.concurrency import Background, in_background, wait_until_blocked

WORKERS = 16


@pytest.fixture
def leader(connect: Connect) -> Connection:
    """Whoever comes first, in a transaction of its own."""
    return connect(autocommit=False)


@pytest.fixture
def follower(connect: Connect) -> Connection:
    """Whoever comes while the leader has not committed; it fails the test if it waits."""
    connection = connect()
    connection.execute("set lock_timeout = '5s'")
    return connection


# Nobody waits


def test_two_workers_that_race_for_two_executions_both_get_one(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    create(db, "a", "b")
    assert names(claim(leader)) == ["a"]
    assert names(claim(follower)) == ["b"]
    leader.commit()
    assert value(db, "select count(distinct current_lease_id) from flowfabric.ff_exec_core") == 2


def test_batches_pass_what_others_hold(db: Connection, leader: Connection, follower: Connection) -> None:
    create(db, *"abcdef")
    assert names(claim(leader, max=3)) == ["a", "b", "c"]
    assert names(claim(follower, max=100)) == ["d", "e", "f"]
    assert claim(follower, max=100) == []
    leader.rollback()
    assert names(claim(follower, max=100)) == ["a", "b", "c"]


def test_a_batch_over_several_lanes_passes_what_others_hold(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    for lane in ("x", "y"):
        create(db, *(f"{lane}{n}" for n in range(3)), lane_id=lane)
    lanes = {"lanes": ["x", "y"], "lane_order": "strict"}
    assert names(claim(leader, max=4, **lanes)) == ["x0", "x1", "x2", "y0"]
    assert names(claim(follower, max=100, **lanes)) == ["y1", "y2"]


def test_more_held_executions_than_a_page_has_hide_nothing(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    create(db, *(f"held{n}" for n in range(45)), priority=1)
    create(db, "free")
    assert len(claim(leader, max=45)) == 45
    for lanes in (["default"], ["default", "other"]):
        assert names(claim(follower, lanes=lanes)) == ["free"]
        db.execute("delete from flowfabric.ff_lane_registry where lane_id = 'other'")
        create(db, "free")


@pytest.mark.parametrize("order", ["fair", "strict", "global"])
@pytest.mark.parametrize("capabilities", [[], ["gpu"]], ids=["one queue", "two queues"])
def test_what_others_hold_does_not_count_against_a_claim_of_many_from_several_lanes(
    db: Connection, connect: Connect, order: str, capabilities: list[str]
) -> None:
    gpu = intern(db, "gpu")
    for lane in ("x", "y"):
        fill(db, 400, lane=lane)
        fill(db, 400, lane=lane, capability_set_id=gpu)
    arguments = {"lanes": ["x", "y"], "max": 50, "lane_order": order, "capabilities": capabilities}
    leaders = [connect(autocommit=False) for _ in range(11)]
    for connection in leaders:
        assert len(claim(connection, **arguments)) == 50
    assert len(claim(db, **arguments)) == 50


@pytest.mark.parametrize(
    ("waiting", "most", "expected"),
    [
        ((5, 0, 5), 4, (2, 0, 2)),
        ((5, 5, 5), 7, (3, 2, 2)),
        ((1, 9, 2), 9, (1, 6, 2)),
        ((0, 0, 3), 2, (0, 0, 2)),
        ((9, 1, 9), 1, (1, 0, 0)),
        ((0, 9, 9), 1, (0, 1, 0)),
        ((2, 2, 2), 9, (2, 2, 2)),
    ],
)
def test_lanes_are_dealt_in_turn_and_what_one_lacks_the_others_give(
    db: Connection, waiting: tuple[int, ...], most: int, expected: tuple[int, ...]
) -> None:
    lanes = ["x", "y", "z"]
    for lane, number in zip(lanes, waiting, strict=True):
        fill(db, number, lane=lane)
    claimed = [row["lane_id"] for row in claim(db, lanes=lanes, max=most)]
    given = Counter(claimed)
    assert sorted(given[lane] for lane in lanes) == sorted(expected)
    # Dealt one by one: a lane is served again only after every other one that has something left.
    for end in range(1, len(claimed) + 1):
        so_far = Counter(claimed[:end])
        left = [so_far[lane] for lane in lanes if so_far[lane] < given[lane]]
        assert all(so_far[claimed[end - 1]] <= number + 1 for number in left)
    strict = Counter(row["lane_id"] for row in claim(db, lanes=lanes, max=100, lane_order="strict"))
    assert all(strict[lane] == number - given[lane] for lane, number in zip(lanes, waiting, strict=True))


def test_a_crowd_at_several_lanes_gets_no_empty_answer_while_work_waits(
    db: Connection, connect: Connect
) -> None:
    for lane in ("x", "y"):
        fill(db, 8_500, lane=lane)
    answers: list[int] = []

    def claim_some(connection: Connection) -> None:
        for _ in range(20):
            answers.append(len(claim(connection, lanes=["x", "y"], max=50)))

    crowd = [in_background(partial(claim_some, connect())) for _ in range(12)]
    for worker in crowd:
        worker.result(120)
    # At most 12 000 of the 17 000 are claimed.
    assert Counter(answers) == {50: 240}


@pytest.mark.parametrize("order", [["gpu 1", "plain", "gpu 2"], ["gpu 1", "gpu 2", "plain"]])
def test_a_worker_with_capabilities_passes_what_others_hold_in_the_order_of_all_its_queues(
    db: Connection, clock: Clock, leader: Connection, follower: Connection, order: list[str]
) -> None:
    for age, name in enumerate(order):
        clock.freeze(1_000_000 + age)
        tokens = ["gpu"] if name.startswith("gpu") else []
        create(db, name, policy=Jsonb({"routing_requirements": {"required_capabilities": tokens}}))
    assert names(claim(leader, capabilities=["gpu"])) == [order[0]]
    assert names(claim(follower, capabilities=["gpu"])) == [order[1]]
    assert names(claim(follower, capabilities=["gpu"])) == [order[2]]
    assert claim(follower, capabilities=["gpu"]) == []


def test_only_what_is_taken_is_locked(db: Connection, leader: Connection, follower: Connection) -> None:
    create(db, *"abc")
    create(db, "z", lane_id="other")
    for arguments in ({}, {"lanes": ["default", "other"]}, {"max": 2}):
        claimed = claim(leader, **arguments)
        free = follower.execute(
            "select count(*) from (select from flowfabric.ff_exec_core for no key update skip locked) as e"
        ).fetchone()
        assert free == (4 - len(claimed),)
        leader.rollback()


def test_an_execution_that_is_being_granted_is_not_waited_for(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    ids = create(db, "a", "b")
    call(
        leader,
        "ff_issue_claim_grant",
        execution_id=ids[0],
        worker_id="other",
        worker_instance_id="other-1",
        lane_id="default",
    )
    assert names(claim(follower)) == ["b"]
    leader.commit()
    assert claim(follower, max=5) == []


def test_a_claim_does_not_wait_for_a_cancellation(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    ids = create(db, "a", "b")
    call(leader, "ff_cancel_execution", execution_id=ids[0], reason="stop", source="operator_override")
    assert names(claim(follower, max=2)) == ["b"]
    leader.commit()
    assert claim(follower, max=2) == []


def test_nobody_waits_for_a_floor_that_another_is_creating(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    create(db, *"abcd")
    claim(leader)
    assert names(claim(follower)) == ["b"]
    assert names(claim(follower, max=2)) == ["c", "d"]
    leader.commit()
    assert value(db, "select array_agg(side) from flowfabric.ff_lane_floor") == [0, 1, 2]


def test_nobody_waits_for_a_floor_that_another_is_moving(
    db: Connection, leader: Connection, follower: Connection, clock: Clock
) -> None:
    clock.freeze(100_000)
    create(db, *(str(n) for n in range(40)))
    claim(db)
    clock.freeze(110_000)
    assert len(claim(leader, max=16)) == 16
    assert names(claim(follower, max=16)) == [str(n) for n in range(17, 33)]
    (scan,) = call(follower, "ff_scan_claim_floors")
    assert (scan["processed"], scan["skipped"]) == (0, 1)
    leader.commit()
    assert value(db, "select max(checked_at_ms) from flowfabric.ff_lane_floor") == 110_000


def test_a_stranger_that_holds_advisory_locks_keeps_no_floor_from_being_created(
    db: Connection, connect: Connect
) -> None:
    create(db, "a")
    connect().execute(
        "select pg_advisory_lock(hashtextextended('ff_lane_floor/1/0/default', 0)), pg_advisory_lock(0)"
    )
    claim(db)
    assert value(db, "select count(*) from flowfabric.ff_lane_floor") == 3


# Floors


@pytest.fixture
def old(db: Connection, clock: Clock) -> Row:
    """An execution far below the floors of its lane, failed once and claimed again by w-1."""
    clock.freeze(100_000)
    at_once = '{"retry_policy": {"max_retries": 9, "backoff": {"type": "fixed", "delay_ms": 0}}}'
    create(db, "old", policy=at_once)
    (claimed,) = claim(db, lease_ttl_ms=86_400_000)
    clock.freeze(200_000)
    create(db, "young")
    assert names(claim(db)) == ["young"]
    assert raise_floors(db, clock) == 200_900
    return claimed


def give_back(connection: Connection, row: Row) -> None:
    """Let the attempt fail, and make its retry eligible."""
    call(connection, "ff_fail_execution", **fence(row), failure_reason="oops")
    (scan,) = call(connection, "ff_promote_due")
    assert scan["processed"] == 1


@pytest.mark.parametrize("held", ["side = 0", "side = 1", "side = 2", "true"])
def test_a_retry_is_found_at_once_whatever_floor_rows_were_held_when_it_came_back(
    db: Connection, leader: Connection, old: Row, clock: Clock, held: str
) -> None:
    leader.execute(f"select from flowfabric.ff_lane_floor where {held} for no key update")
    give_back(db, old)
    leader.rollback()
    create(db, "next", "last")
    assert names(claim(db)) == ["old"]


def test_a_retry_is_found_at_once_even_while_all_floor_rows_are_held(
    db: Connection, leader: Connection, follower: Connection, old: Row
) -> None:
    give_back(db, old)
    create(db, "next")
    leader.execute("select from flowfabric.ff_lane_floor for no key update")
    assert names(claim(follower)) == ["old"]


def test_floors_that_move_while_a_retry_is_not_yet_committed_do_not_pass_it(
    db: Connection, leader: Connection, old: Row, clock: Clock
) -> None:
    give_back(leader, old)
    for _ in range(3):
        raise_floors(db, clock)
    leader.commit()
    create(db, "next")
    assert names(claim(db)) == ["old"]


def test_more_announcers_at_once_than_there_are_floors_wait_for_nobody_and_hide_nothing(
    db: Connection, connect: Connect, clock: Clock
) -> None:
    clock.freeze(100_000)
    ids = create(db, *"abcdef")
    claim(db, max=6)
    clock.freeze(200_000)
    create(db, "young")
    claim(db)
    raise_floors(db, clock)
    open_ones = [connect(autocommit=False) for _ in ids]
    for connection, execution_id in zip(open_ones, ids, strict=True):
        connection.execute("set lock_timeout = '5s'")
        call(
            connection,
            "ff_cancel_execution",
            execution_id=execution_id,
            reason="stop",
            source="operator_override",
        )
        call(connection, "ff_replay_execution", execution_id=execution_id, reason="again")
        raise_floors(db, clock)
    create(db, *(f"next {n}" for n in range(9)))
    for n, connection in enumerate(open_ones):
        connection.commit()
        raise_floors(db, clock)
        assert names(claim(db)) == ["abcdef"[n]]
    # Both floors are moved again, and what announcers added is gone.
    raise_floors(db, clock)
    assert value(db, "select count(*) from flowfabric.ff_lane_floor where capability_set_id = 1") == 3


def test_a_creation_that_commits_within_a_quarter_of_the_recheck_is_above_the_floors(
    db: Connection, leader: Connection, old: Row, clock: Clock
) -> None:
    create(leader, "late")
    create(db, *(str(n) for n in range(99)))
    for _ in range(25):
        clock.advance(10)
        claim(db)
        call(db, "ff_scan_claim_floors")
    leader.commit()
    assert names(claim(db)) == ["late"]


def test_a_creation_that_commits_later_is_found_when_floors_are_moved_after_the_recheck(
    db: Connection, leader: Connection, old: Row, clock: Clock
) -> None:
    create(leader, "late")
    clock.advance(5_000)
    create(db, *(str(n) for n in range(99)))
    claim(db)
    raise_floors(db, clock)
    leader.commit()
    assert names(claim(db)) == ["1"]
    raise_floors(db, clock)
    assert names(claim(db)) == ["late"]


def test_a_creation_that_commits_later_is_found_at_once_by_a_claim_with_room_left(
    db: Connection, leader: Connection, old: Row, clock: Clock
) -> None:
    create(leader, "late")
    clock.advance(5_000)
    create(db, "next")
    claim(db)
    raise_floors(db, clock)
    leader.commit()
    create(db, "above")
    assert names(claim(db, max=9)) == ["above", "late"]


def test_an_execution_that_somebody_holds_keeps_the_floor_down(
    db: Connection, leader: Connection, old: Row, clock: Clock
) -> None:
    give_back(db, old)
    leader.execute("select from flowfabric.ff_exec_core where eligibility_state = 'eligible_now' for update")
    create(db, "next")
    assert raise_floors(db, clock) == 100_000
    assert names(claim(db)) == ["next"]
    leader.rollback()
    assert names(claim(db)) == ["old"]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_session_with_an_old_snapshot_moves_no_floor(
    db: Connection, leader: Connection, old: Row, clock: Clock, level: str
) -> None:
    clock.advance(1_000)
    leader.execute(f"set transaction isolation level {level}")
    leader.execute("select count(*) from flowfabric.ff_exec_core")
    give_back(db, old)
    (scan,) = call(leader, "ff_scan_claim_floors")
    assert (scan["processed"], scan["skipped"]) == (0, 1)
    leader.commit()
    create(db, "next")
    assert names(claim(db)) == ["old"]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_session_with_an_old_snapshot_announces_to_a_floor_of_its_own(
    db: Connection, leader: Connection, old: Row, clock: Clock, level: str
) -> None:
    leader.execute(f"set transaction isolation level {level}")
    leader.execute("select count(*) from flowfabric.ff_exec_core")
    raise_floors(db, clock)
    give_back(leader, old)
    raise_floors(db, clock)
    leader.commit()
    create(db, "next")
    assert names(claim(db)) == ["old"]


# Quotas


def quota(connection: Connection, name: str, *, rate: int = 0, cap: int = 0) -> str:
    call(
        connection,
        "ff_create_quota_policy",
        quota_policy_id=name,
        window_seconds=60,
        max_requests_per_window=rate,
        max_concurrent=cap,
    )
    return f'{{"quota_policy_id": "{name}"}}'


def claiming(connection: Connection, **arguments: Any) -> Callable[[], list[Row]]:
    return lambda: claim(connection, **arguments)


def start_and_block(
    watcher: Connection, waiter: Connection, ask: Callable[[], list[Row]], holder: Connection
) -> Background[list[Row]]:
    waiting = in_background(ask)
    wait_until_blocked(watcher, waiter, by=holder)
    return waiting


def test_a_claim_that_waited_for_a_quota_counts_from_the_time_after_the_wait(
    db: Connection, leader: Connection, follower: Connection, clock: Clock
) -> None:
    clock.freeze(100_000)
    policy = quota(db, "one", cap=1)
    create(db, "a", "b", policy=policy)
    (first,) = claim(leader, lease_ttl_ms=1_000)
    waiting = start_and_block(db, follower, claiming(follower, lease_ttl_ms=1_000), leader)
    clock.freeze(105_000)
    leader.rollback()
    (second,) = waiting.result()
    assert names([first]) == names([second]) == ["a"]
    assert second["lease_expires_at_ms"] == 106_000
    assert value(db, "select admitted_at_ms from flowfabric.ff_quota_admitted") == 105_000


def test_a_claim_that_waited_for_a_quota_sees_what_was_admitted_meanwhile(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    policy = quota(db, "one", cap=1)
    create(db, "a", "b", policy=policy)
    create(db, "free")
    assert names(claim(leader)) == ["a"]
    waiting = start_and_block(db, follower, claiming(follower), leader)
    leader.commit()
    assert names(waiting.result()) == ["free"]
    assert value(db, "select count(*) from flowfabric.ff_v_execution where state = 'rate_limited'") == 1


def test_a_quota_that_is_busy_behind_the_first_page_is_not_waited_for(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    used_up = quota(db, "a", cap=1)
    busy = quota(db, "b", cap=1)
    create(db, *(f"a{n}" for n in range(22)), policy=used_up, priority=3)
    create(db, "b", policy=busy, priority=2)
    create(db, "free", priority=1)
    assert names(claim(db)) == ["a0"]
    leader.execute("select from flowfabric.ff_quota_policy where quota_policy_id = 'b' for no key update")
    assert names(claim(follower)) == ["free"]
    leader.rollback()
    assert names(claim(follower)) == ["b"]


# Many at once


class Crowd:
    """Workers that claim and complete, each on a connection of its own, until all that can start has."""

    def __init__(self, connect: Connect, expected: int, **arguments: Any) -> None:
        self.claimed: Counter[str] = Counter()
        self._expected = expected
        self._arguments = arguments
        self._lock = threading.Lock()
        self._connections = [connect() for _ in range(WORKERS)]

    def work(self) -> None:
        workers = [in_background(partial(self._work, number)) for number in range(WORKERS)]
        for worker in workers:
            worker.result(60)

    def _work(self, number: int) -> None:
        connection = self._connections[number]
        while self.claimed.total() < self._expected:
            rows = claim(connection, worker_instance_id=f"w-{number}", max=1 + number % 4, **self._arguments)
            with self._lock:
                self.claimed.update(row["execution_id"] for row in rows)
            for row in rows:
                complete(connection, row)
            if not rows:
                call(connection, "ff_scan_unblock", limit=20)
        assert claim(connection, worker_instance_id=f"w-{number}", max=100, **self._arguments) == []


def test_sixteen_workers_claim_every_execution_exactly_once(connect: Connect, db: Connection) -> None:
    count = 600
    call(
        db,
        "ff_create_executions",
        execution_kinds=["test"] * count,
        lane_ids=[f"lane{n % 3}" for n in range(count)],
        priorities=[n % 5 for n in range(count)],
    )
    crowd = Crowd(connect, count, lanes=["lane0", "lane1", "lane2"], with_payload=False)
    crowd.work()
    assert len(crowd.claimed) == count
    assert set(crowd.claimed.values()) == {1}
    assert value(db, "select count(*) from flowfabric._ff_all_attempts()") == count
    assert value(db, "select count(*) from flowfabric.ff_v_execution where state = 'completed'") == count


def test_under_sixteen_workers_caps_and_rates_are_exact_and_every_slot_comes_back(
    connect: Connect, db: Connection, clock: Clock
) -> None:
    clock.freeze(100_000)
    policies = [
        *(quota(db, f"cap{n}", cap=n) for n in (1, 2, 3)),
        *(quota(db, f"rate{n}", rate=n * 10) for n in (1, 2)),
        quota(db, "both", rate=15, cap=2),
    ]
    count = 240
    call(
        db,
        "ff_create_executions",
        execution_kinds=["test"] * count,
        lane_ids=[f"lane{n % 3}" for n in range(count)],
        policies=[policies[n % 8] if n % 8 < 6 else None for n in range(count)],
    )
    running = (
        "select coalesce(max(held.slots - q.active_concurrency_cap), 0) from flowfabric.ff_quota_policy as q"
        " join (select e.quota_policy_id, count(*) as slots from flowfabric.ff_exec_core as e"
        " where e.ownership_state = 'leased' group by 1) as held using (quota_policy_id)"
        " where q.active_concurrency_cap > 0"
    )
    excesses = []
    done = threading.Event()
    watcher = connect()

    def watch() -> None:
        while not done.is_set():
            excesses.append(value(watcher, running))

    watching = in_background(watch)
    allowed = {"cap1": 30, "cap2": 30, "cap3": 30, "rate1": 10, "rate2": 20, "both": 15, "none": 60}
    crowd = Crowd(connect, sum(allowed.values()), lanes=["lane0", "lane1", "lane2"], with_payload=False)
    crowd.work()
    done.set()
    watching.result()

    assert set(crowd.claimed.values()) == {1}
    assert max(excesses) <= 0
    started: dict[str, int] = dict(
        db.execute(
            "select coalesce(e.quota_policy_id, 'none'), count(*) from flowfabric.ff_exec_core as e"
            " where e.total_attempt_count > 0 group by 1"
        ).fetchall()
    )
    assert started == allowed
    assert value(db, "select count(*) from flowfabric.ff_quota_admitted where slot_held") == 0


def test_a_reclaim_has_one_winner(
    db: Connection, leader: Connection, follower: Connection, clock: Clock
) -> None:
    clock.freeze(100_000)
    create(db, "a", "b")
    claim(db, max=2, lease_ttl_ms=1_000)
    clock.freeze(101_000)
    reclaim = {"lanes": ["default"], "worker_id": "r"}
    (first,) = call(leader, "ff_reclaim_next", worker_instance_id="r-1", **reclaim)
    (second,) = call(follower, "ff_reclaim_next", worker_instance_id="r-2", max=9, **reclaim)
    leader.commit()
    assert names([first, second]) == ["a", "b"]
    assert value(db, "select array_agg(lease_reclaim_count) from flowfabric.ff_exec_core") == [1, 1]


def test_a_reclaim_waits_for_no_flow_and_takes_the_next(
    db: Connection, leader: Connection, follower: Connection, clock: Clock
) -> None:
    clock.freeze(100_000)
    ids = create(db, "member", "b")
    flow = "00000000-0000-4000-8000-00000000f10f"
    db.execute(
        "insert into flowfabric.ff_flow_core (partition_key, flow_id, flow_kind, namespace,"
        " public_flow_state, created_at_ms, last_mutation_at_ms)"
        " values (1, %s, 'test', 'default', 'open', 1000, 1000)",
        [flow],
    )
    db.execute(
        "update flowfabric.ff_exec_core set flow_id = %s where execution_id = right(%s, 36)::uuid",
        [flow, ids[0]],
    )
    claim(db, max=2, lease_ttl_ms=1_000)
    clock.freeze(101_000)
    leader.execute("select from flowfabric.ff_flow_core for no key update")
    reclaim = {"lanes": ["default"], "worker_id": "r", "worker_instance_id": "r-1", "max": 9}
    assert names(call(follower, "ff_reclaim_next", **reclaim)) == ["b"]
    leader.rollback()
    assert names(call(follower, "ff_reclaim_next", **reclaim)) == ["member"]


# Rights


def test_roles_hold_exactly_their_rights_to_call(
    db: Connection, role_connection: Callable[..., Connection]
) -> None:
    create(db, "a", "b")
    worker = role_connection("flowfabric_worker")
    operator = role_connection("flowfabric_operator")
    reader = role_connection("flowfabric_reader")
    assert names(claim(worker)) == ["a"]
    assert len(call(worker, "ff_list_worker_leases", worker_instance_id="w-1")) == 1
    assert len(call(reader, "ff_scan_eligible", lane="default")) == 1
    (change,) = call(operator, "ff_set_lane_state", lane_id="default", lane_state="paused")
    assert change["outcome"] == "changed"
    for connection, ask in (
        (operator, claiming(operator)),
        (reader, claiming(reader)),
        (worker, lambda: call(worker, "ff_set_lane_state", lane_id="default", lane_state="active")),
        (worker, lambda: call(worker, "ff_scan_eligible", lane="default")),
        (reader, lambda: call(reader, "ff_wait_for_work", lanes=["default"], waiter_id="x")),
        (worker, lambda: call(worker, "ff_scan_claim_floors")),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask()
        assert not connection.broken
