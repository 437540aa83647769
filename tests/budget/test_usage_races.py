"""Many workers spend from one budget: the limit holds, a report counts once, a rollback takes it all back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import psycopg
import pytest

from tests.budget.support import BUDGET, Spender, create_budget, public_state, usage
from tests.conftest import Clock, Connect, RoleConnection
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Race, Row, call


@pytest.fixture
def race(connect: Connect, clock: Clock) -> Race:
    """Two sessions at 1000 ms; the leader's transaction stays open until it is ended."""
    clock.freeze(1_000)
    return Race(leader=connect(autocommit=False), follower=connect(), watcher=connect())


@pytest.fixture
def spender(db: Connection, race: Race) -> Spender:
    """A worker that holds a lease until 31000 ms, and a budget of 10."""
    create_budget(db, 10)
    return Spender.start(db, 1)


def report_at_once(
    connect: Connect, spenders: list[Spender], amount: int, dedup_key: str | None = None
) -> Counter[str]:
    """Let every spender wait for the budget with a report, let go of it, and count their outcomes."""
    holder, watcher = connect(autocommit=False), connect()
    holder.execute("select from flowfabric.ff_budget_policy for no key update")
    waiting = []
    for spender in spenders:
        session = connect()
        waiting.append(in_background(partial(spender.report, session, amount, dedup_key=dedup_key)))
        wait_until_blocked(watcher, session)
    holder.commit()
    return Counter(answer.result()["outcome"] for answer in waiting)


def test_twenty_reports_of_one_against_ten_book_exactly_ten(db: Connection, connect: Connect) -> None:
    create_budget(db, 10)
    spenders = [Spender.start(db, number) for number in range(1, 21)]
    assert report_at_once(connect, spenders, 1) == {"ok": 10, "hard_breach": 10}
    assert usage(db) == (10, 0)
    assert call(db, "ff_get_budget_status", budget_id=BUDGET)["breach_count"] == 10


def test_of_ten_reports_with_one_key_one_counts(db: Connection, connect: Connect) -> None:
    create_budget(db, 100)
    spenders = [Spender.start(db, number) for number in range(1, 11)]
    assert report_at_once(connect, spenders, 7, dedup_key="call-1") == {"ok": 1, "already_applied": 9}
    assert usage(db) == (7, 0)


def test_a_report_that_waited_counts_what_was_booked_meanwhile(race: Race, spender: Spender) -> None:
    other = Spender.start(race.watcher, 2)
    spender.report(race.leader, 8)
    waiting = race.follow(lambda session: other.report(session, 3))
    race.leader.commit()
    assert waiting.result()["outcome"] == "hard_breach"
    assert usage(race.watcher) == (8, 0)


def test_a_report_that_waited_has_room_when_the_other_gives_up(race: Race, spender: Spender) -> None:
    other = Spender.start(race.watcher, 2)
    spender.report(race.leader, 8)
    waiting = race.follow(lambda session: other.report(session, 3))
    race.leader.rollback()
    assert waiting.result()["outcome"] == "ok"
    assert usage(race.watcher) == (3, 0)


def test_usage_and_completion_commit_together(race: Race, spender: Spender) -> None:
    assert spender.report(race.leader, 4)["outcome"] == "ok"
    spender.complete(race.leader)
    assert usage(race.watcher) == (0, 0)
    race.leader.commit()
    assert usage(race.watcher) == (4, 0)
    assert public_state(race.watcher, spender) == "completed"


def test_usage_and_completion_roll_back_together(race: Race, spender: Spender) -> None:
    spender.report(race.leader, 4, dedup_key="call-1")
    spender.complete(race.leader)
    race.leader.rollback()
    assert usage(race.watcher) == (0, 0)
    assert public_state(race.watcher, spender) == "active"
    assert spender.report(race.watcher, 4, dedup_key="call-1")["outcome"] == "ok"


def test_a_breach_is_kept_when_the_caller_completes_all_the_same(race: Race, spender: Spender) -> None:
    assert spender.report(race.leader, 11)["outcome"] == "hard_breach"
    spender.complete(race.leader)
    race.leader.commit()
    assert call(race.watcher, "ff_get_budget_status", budget_id=BUDGET)["breach_count"] == 1
    assert usage(race.watcher) == (0, 0)


# The fence


@pytest.mark.parametrize("spend", [Spender.report, Spender.spend])
def test_a_report_that_waited_for_a_revocation_is_refused(
    race: Race, spender: Spender, spend: Callable[[Spender, Connection, int], Row]
) -> None:
    call(race.leader, "ff_revoke_lease", execution_id=spender.id)
    waiting = race.follow(lambda session: spend(spender, session, 1))
    race.leader.commit()
    with pytest.raises(psycopg.Error, match=r"^lease_revoked"):
        waiting.result()
    assert usage(race.watcher) == (0, 0)


@pytest.mark.parametrize("spend", [Spender.report, Spender.spend])
def test_a_report_is_judged_by_the_time_after_the_wait(
    race: Race, spender: Spender, clock: Clock, spend: Callable[[Spender, Connection, int], Row]
) -> None:
    race.lock_execution()
    waiting = race.follow(lambda session: spend(spender, session, 1))
    clock.freeze(31_000)
    race.leader.commit()
    with pytest.raises(psycopg.Error, match=r"^lease_expired"):
        waiting.result()


def test_a_report_that_waited_for_a_reclaim_is_fenced_off(race: Race, spender: Spender, clock: Clock) -> None:
    clock.freeze(31_000)
    worker = {"execution_id": spender.id, "worker_id": "pool", "worker_instance_id": "pool-1"}
    call(race.leader, "ff_issue_reclaim_grant", **worker)
    call(race.leader, "ff_reclaim_execution", **worker)
    waiting = race.follow(lambda session: spender.report(session, 1))
    race.leader.commit()
    with pytest.raises(psycopg.Error, match=r"^stale_lease"):
        waiting.result()


def test_a_worker_role_cannot_override_and_an_operator_role_can(
    db: Connection, role_connection: RoleConnection, spender: Spender
) -> None:
    override = {"budget_id": BUDGET, "dimensions": ["tokens"], "deltas": [1], "source": "operator_override"}
    worker = role_connection("flowfabric_worker")
    assert spender.report(worker, 1)["outcome"] == "ok"
    for function in ("ff_report_usage_and_check", "ff_record_spend"):
        with pytest.raises(psycopg.Error, match=r"^unauthorized"):
            call(worker, function, execution_id=spender.id, **override)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        call(worker, "ff_reset_budget", budget_id=BUDGET)
    operator = role_connection("flowfabric_operator")
    assert call(operator, "ff_report_usage_and_check", **override)["outcome"] == "ok"
    assert usage(db) == (2, 0)


# Definitions and resets


def test_of_two_definitions_the_second_waits_and_keeps_the_first(race: Race) -> None:
    create_budget(race.leader, 10)
    waiting = race.follow(lambda session: create_budget(session, 99))
    race.leader.commit()
    assert waiting.result()["outcome"] == "already_satisfied"
    assert call(race.watcher, "ff_get_budget_usage", budget_id=BUDGET)["hard_limit"] == 10


def test_a_scanner_leaves_a_budget_that_is_being_reset_alone(race: Race, clock: Clock) -> None:
    create_budget(race.watcher, 10, reset_interval_ms=1_000)
    clock.freeze(2_000)
    scan = "select flowfabric.ff_scan_budget_resets()"
    call(race.leader, "ff_reset_budget", budget_id=BUDGET)
    assert race.follower.execute(scan).fetchone() == (0,)
    race.leader.commit()
    assert race.follower.execute(scan).fetchone() == (0,)
    status = call(race.watcher, "ff_get_budget_status", budget_id=BUDGET)
    assert (status["reset_count"], status["next_reset_at_ms"]) == (1, 3_000)


def test_spends_and_releases_of_one_budget_wait_for_each_other_without_deadlock(
    db: Connection, connect: Connect
) -> None:
    create_budget(db, 0)
    spenders = [Spender.start(db, number) for number in range(1, 5)]
    sessions = [connect() for _ in spenders]

    def spend_and_release(session: Connection, spender: Spender, others: list[Spender]) -> None:
        for _ in range(25):
            spender.spend(session, 3)
            for other in others:
                call(session, "ff_release_budget", budget_id=BUDGET, execution_id=other.id)

    running = [
        in_background(partial(spend_and_release, session, spender, spenders[number:] + spenders[:number]))
        for number, (session, spender) in enumerate(zip(sessions, spenders, strict=True))
    ]
    for call_ in running:
        call_.result()
    for spender in spenders:
        call(db, "ff_release_budget", budget_id=BUDGET, execution_id=spender.id)
    assert usage(db) == (0, 0)
