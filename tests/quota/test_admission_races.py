"""Admissions beside each other, beside releases, and under a crowd: no cap is passed, no slot is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from functools import partial
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from tests.conftest import Clock, Connect
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Race, Row, call

POLICY = "quota"


def execution_id(number: int) -> str:
    """The id of an execution; ids ascend with their numbers."""
    return f"{{fp:86}}:{UUID(int=number)}"


def create_policy(
    connection: Connection, policy_id: str = POLICY, *, window_s: int = 0, rate: int = 0, cap: int = 0
) -> None:
    call(
        connection,
        "ff_create_quota_policy",
        quota_policy_id=policy_id,
        window_seconds=window_s,
        max_requests_per_window=rate,
        max_concurrent=cap,
    )


def create_execution(connection: Connection, number: int, policy_id: str | None = POLICY) -> str:
    policy = Jsonb({} if policy_id is None else {"quota_policy_id": policy_id})
    call(
        connection,
        "ff_create_execution",
        execution_kind="test",
        execution_id=execution_id(number),
        policy=policy,
    )
    return execution_id(number)


def admit(connection: Connection, number: int) -> Row:
    return call(
        connection,
        "ff_check_admission_and_record",
        quota_policy_id=POLICY,
        execution_id=execution_id(number),
    )


def claim(connection: Connection, number: int) -> Row:
    lease = call(
        connection, "ff_issue_grant_and_claim", execution_id=execution_id(number), lease_ttl_ms=30_000
    )
    return {name: lease[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


def active_slots(connection: Connection, policy_id: str = POLICY) -> int:
    slots = call(connection, "ff_get_quota_policy", quota_policy_id=policy_id)["active_concurrency"]
    assert isinstance(slots, int)
    return slots


@pytest.fixture
def race(connect: Connect, clock: Clock) -> Race:
    """Two sessions at 100 s; the leader's transaction stays open until it is ended."""
    clock.freeze(100_000)
    return Race(leader=connect(autocommit=False), follower=connect(), watcher=connect())


@pytest.fixture
def two_for_one_slot(db: Connection, race: Race) -> None:
    """Two executions under a policy with a single slot."""
    create_policy(db, cap=1)
    for number in (1, 2):
        create_execution(db, number)


def test_of_eight_admissions_at_once_three_get_the_three_slots(db: Connection, connect: Connect) -> None:
    create_policy(db, cap=3)
    for number in range(1, 9):
        create_execution(db, number)
    holder, watcher = connect(autocommit=False), connect()
    holder.execute("select from flowfabric.ff_quota_policy for no key update")
    waiting = []
    for number in range(1, 9):
        session = connect()
        waiting.append(in_background(partial(admit, session, number)))
        wait_until_blocked(watcher, session)
    holder.commit()
    outcomes = Counter(answer.result()["outcome"] for answer in waiting)
    assert outcomes == {"admitted": 3, "concurrency_exceeded": 5}
    assert active_slots(db) == 3


def test_of_eight_admissions_at_once_two_get_the_two_tokens(db: Connection, connect: Connect) -> None:
    create_policy(db, window_s=3_600, rate=2)
    for number in range(1, 9):
        create_execution(db, number)
    sessions = [connect() for _ in range(8)]
    waiting = [in_background(partial(admit, session, number + 1)) for number, session in enumerate(sessions)]
    outcomes = Counter(answer.result()["outcome"] for answer in waiting)
    assert outcomes == {"admitted": 2, "rate_exceeded": 6}


def test_an_admission_that_waited_finds_the_slot_taken(race: Race, two_for_one_slot: None) -> None:
    assert admit(race.leader, 1)["outcome"] == "admitted"
    waiting = race.follow(lambda session: admit(session, 2))
    race.leader.commit()
    assert waiting.result()["outcome"] == "concurrency_exceeded"


def test_an_admission_that_waited_gets_the_slot_when_the_other_gives_up(
    race: Race, two_for_one_slot: None
) -> None:
    admit(race.leader, 1)
    waiting = race.follow(lambda session: admit(session, 2))
    race.leader.rollback()
    assert waiting.result()["outcome"] == "admitted"
    assert active_slots(race.watcher) == 1


def test_an_admission_is_judged_by_the_time_after_the_wait(race: Race, clock: Clock) -> None:
    create_policy(race.watcher, window_s=1, rate=1)
    for number in (1, 2):
        create_execution(race.watcher, number)
    admit(race.watcher, 1)
    race.leader.execute("select from flowfabric.ff_quota_policy for no key update")
    waiting = race.follow(lambda session: admit(session, 2))
    clock.freeze(101_000)
    race.leader.commit()
    assert waiting.result()["outcome"] == "admitted"


def test_a_slot_is_free_when_the_completion_is_committed_and_not_before(
    race: Race, two_for_one_slot: None
) -> None:
    admit(race.watcher, 1)
    fence = claim(race.watcher, 1)
    call(race.leader, "ff_complete_execution", **fence)
    assert admit(race.follower, 2)["outcome"] == "concurrency_exceeded"
    race.leader.commit()
    assert admit(race.follower, 2)["outcome"] == "admitted"


def test_a_completion_does_not_wait_for_an_admission(race: Race, two_for_one_slot: None) -> None:
    admit(race.watcher, 1)
    fence = claim(race.watcher, 1)
    assert admit(race.leader, 2)["outcome"] == "concurrency_exceeded"
    assert call(race.follower, "ff_complete_execution", **fence)["outcome"] == "completed"


def test_of_two_definitions_the_second_waits_and_keeps_the_first(race: Race) -> None:
    create_policy(race.leader, cap=1)

    def define(session: Connection) -> Row:
        return call(
            session,
            "ff_create_quota_policy",
            quota_policy_id=POLICY,
            window_seconds=0,
            max_requests_per_window=0,
            max_concurrent=9,
        )

    waiting = race.follow(define)
    race.leader.commit()
    assert waiting.result()["outcome"] == "already_satisfied"
    status = call(race.watcher, "ff_get_quota_policy", quota_policy_id=POLICY)
    assert status["active_concurrency_cap"] == 1


def test_a_reconciliation_leaves_the_slot_of_a_busy_execution_to_the_next_one(
    race: Race, two_for_one_slot: None, clock: Clock
) -> None:
    admit(race.watcher, 1)
    clock.advance(60_000)
    race.leader.execute("select from flowfabric.ff_exec_core for no key update")
    busy = call(race.follower, "ff_reconcile_quota")
    assert (busy["slots_released"], busy["skipped"]) == (0, 1)
    race.leader.commit()
    assert call(race.follower, "ff_reconcile_quota")["slots_released"] == 1


def test_a_reconciliation_takes_a_slot_only_when_its_grant_is_over(
    race: Race, two_for_one_slot: None, clock: Clock
) -> None:
    admit(race.watcher, 1)
    clock.advance(60_000)
    call(
        race.watcher,
        "ff_issue_claim_grant",
        execution_id=execution_id(1),
        worker_id="pool",
        worker_instance_id="pool-1",
        lane_id="default",
    )
    assert call(race.follower, "ff_reconcile_quota")["slots_released"] == 0
    clock.advance(5_001)
    assert call(race.follower, "ff_reconcile_quota")["slots_released"] == 1


# Unblocking


def block(connection: Connection, number: int) -> None:
    create_execution(connection, number)
    call(
        connection,
        "ff_block_execution_for_admission",
        execution_id=execution_id(number),
        blocking_reason="waiting_for_quota",
    )


def test_of_two_scanners_with_one_free_slot_one_lets_one_execution_back(race: Race) -> None:
    create_policy(race.watcher, cap=1)
    for number in (1, 2, 3):
        block(race.watcher, number)
    assert call(race.leader, "ff_scan_unblock")["quota"] == 1
    beside = call(race.follower, "ff_scan_unblock")
    assert (beside["quota"], beside["skipped"]) == (0, 1)
    race.leader.commit()
    eligible = race.watcher.execute(
        "select count(*) from flowfabric.ff_exec_core where eligibility_state = 'eligible_now'"
    ).fetchone()
    assert eligible == (1,)


def test_a_scanner_waits_for_no_execution(race: Race) -> None:
    create_policy(race.watcher, cap=0)
    for number in (1, 2):
        block(race.watcher, number)
    race.leader.execute(
        "select from flowfabric.ff_exec_core where execution_id = %s for no key update", [UUID(int=1)]
    )
    scan = call(race.follower, "ff_scan_unblock")
    assert (scan["processed"], scan["skipped"]) == (1, 1)
    race.leader.commit()
    assert call(race.follower, "ff_scan_unblock")["processed"] == 1


def test_an_execution_that_comes_back_wakes_a_waiter_of_its_lane(connect: Connect, db: Connection) -> None:
    create_policy(db, cap=0)
    block(db, 1)
    worker = connect()
    worker.execute("listen ff_eligible")
    call(db, "ff_wait_for_work", lanes=["default"], waiter_id="pool-1", wait_ms=60_000)
    call(db, "ff_scan_unblock")
    notified = next(worker.notifies(timeout=20), None)
    assert notified is not None
    assert notified.payload == "default"


# A crowd


def test_caps_and_rates_are_exact_under_sixteen_claimers_that_finish_their_work(
    db: Connection, connect: Connect
) -> None:
    """Claims, completions and unblocking side by side; every claimer counts what runs after each claim."""
    caps = {"narrow": 2, "wide": 5, "both": 3}
    window_s, rate = 1, 12
    create_policy(db, "narrow", cap=caps["narrow"])
    create_policy(db, "wide", cap=caps["wide"])
    create_policy(db, "both", window_s=window_s, rate=rate, cap=caps["both"])
    policies: list[str | None] = ["narrow", "wide", "both", None]
    executions = 120
    for number in range(1, executions + 1):
        create_execution(db, number, policies[number % len(policies)])

    most_at_once: defaultdict[str, int] = defaultdict(int)
    lock = threading.Lock()
    done = threading.Event()
    running_now = (
        "select e.quota_policy_id, count(*) from flowfabric.ff_exec_core as e"
        " where e.lifecycle_phase = 'active' and e.quota_policy_id is not null group by e.quota_policy_id"
    )

    def count_running(session: Connection) -> None:
        counts = session.execute(running_now).fetchall()
        with lock:
            for policy_id, count in counts:
                most_at_once[policy_id] = max(most_at_once[policy_id], count)

    def work(number: int) -> None:
        session = connect()
        while not done.is_set():
            claims = session.execute(
                "select c.execution_id, c.lease_id, c.lease_epoch, c.attempt_id"
                " from flowfabric.ff_claim_next('{default}', 'pool', %s, p_max => %s) as c",
                [f"pool-{number}", 1 + number % 3],
            ).fetchall()
            count_running(session)
            for fence in claims:
                session.execute("select flowfabric.ff_complete_execution(%s, %s, %s, %s)", fence)
            if not claims:
                done.wait(0.01)

    def unblock() -> None:
        session = connect()
        while not done.is_set():
            call(session, "ff_scan_unblock")
            count_running(session)
            done.wait(0.02)

    running = [in_background(partial(work, number)) for number in range(16)] + [in_background(unblock)]
    give_up_at = time.monotonic() + 60
    unfinished = "select count(*) from flowfabric.ff_exec_core where lifecycle_phase <> 'terminal'"
    while db.execute(unfinished).fetchone() != (0,) and time.monotonic() < give_up_at:
        done.wait(0.05)
    done.set()
    for call_ in running:
        call_.result()

    assert db.execute(unfinished).fetchone() == (0,)
    assert all(most_at_once[policy_id] <= cap for policy_id, cap in caps.items())
    assert most_at_once["narrow"] == caps["narrow"]
    assert [active_slots(db, policy_id) for policy_id in caps] == [0, 0, 0]
    attempts = db.execute("select count(*), max(attempt_index) from flowfabric._ff_all_attempts()").fetchone()
    assert attempts == (executions, 0)

    # A claim may be stamped with the time before it waited for another lane's quota: hence the margin.
    starts = [
        start
        for (start,) in db.execute(
            "select a.started_at_ms from flowfabric._ff_all_attempts() as a"
            " join flowfabric.ff_exec_core as e using (partition_key, execution_id)"
            " where e.quota_policy_id = 'both' order by a.started_at_ms"
        ).fetchall()
    ]
    margin_ms = 100
    for first, beyond in zip(starts, starts[rate:], strict=False):
        assert beyond - first >= window_s * 1_000 - margin_ms
