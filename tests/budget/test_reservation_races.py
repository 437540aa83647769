"""Reservations of many workers, of dying ones, and of ones that settle while their lease is taken away."""

from __future__ import annotations

import random
import threading
from collections import Counter
from functools import partial

import psycopg
import pytest

from tests.budget.support import (
    BUDGET,
    Spender,
    broken_invariants,
    create_budget,
    execution_id,
    public_state,
    usage,
)
from tests.conftest import Clock, Connect, RoleConnection
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Race, call

OTHER_BUDGET = "zz-tokens-of-acme"


@pytest.fixture
def race(connect: Connect, clock: Clock) -> Race:
    """Two sessions at 1000 ms; the leader's transaction stays open until it is ended."""
    clock.freeze(1_000)
    return Race(leader=connect(autocommit=False), follower=connect(), watcher=connect())


@pytest.fixture
def spender(db: Connection, race: Race) -> Spender:
    """A worker that holds a lease until 1500 ms, and a budget of 100."""
    create_budget(db, 100)
    return Spender.start(db, 1, lease_ttl_ms=500)


def test_twenty_reservations_of_ten_against_a_hundred_reserve_exactly_ten(
    db: Connection, connect: Connect
) -> None:
    create_budget(db, 100)
    spenders = [Spender.start(db, number) for number in range(1, 21)]
    holder, watcher = connect(autocommit=False), connect()
    holder.execute("select from flowfabric.ff_budget_policy for no key update")
    waiting = []
    for number, spender in enumerate(spenders):
        session = connect()
        waiting.append(in_background(partial(spender.reserve, session, 10, f"call-{number}")))
        wait_until_blocked(watcher, session)
    holder.commit()
    assert Counter(answer.result()["outcome"] for answer in waiting) == {"reserved": 10, "hard_breach": 10}
    assert usage(db) == (0, 100)
    assert broken_invariants(db) == []


def test_of_two_calls_with_one_key_one_reserves(race: Race, spender: Spender) -> None:
    spender.reserve(race.leader, 60, "call-1")
    waiting = race.follow(lambda session: spender.reserve(session, 30, "call-1"))
    race.leader.commit()
    answer = waiting.result()
    assert (answer["outcome"], answer["amounts"]) == ("already_reserved", [60])
    assert usage(race.watcher) == (0, 60)


def test_a_reservation_that_waited_fits_when_the_other_gives_up(race: Race, spender: Spender) -> None:
    other = Spender.start(race.watcher, 2)
    spender.reserve(race.leader, 60, "call-1")
    waiting = race.follow(lambda session: other.reserve(session, 60, "call-2"))
    race.leader.rollback()
    assert waiting.result()["outcome"] == "reserved"


def test_a_reservation_that_waited_for_a_settlement_finds_what_was_left_over(
    race: Race, spender: Spender
) -> None:
    other = Spender.start(race.watcher, 2)
    spender.reserve(race.watcher, 90, "call-1")
    spender.settle(race.leader, "call-1", 20)
    waiting = race.follow(lambda session: other.reserve(session, 80, "call-2"))
    race.leader.commit()
    assert waiting.result()["outcome"] == "reserved"
    assert usage(race.watcher) == (20, 80)


# A worker settles while its lease is taken away


def test_a_settlement_that_waited_for_the_mark_of_the_expiry_is_too_late(
    race: Race, spender: Spender, clock: Clock
) -> None:
    spender.reserve(race.watcher, 60, "call-1")
    clock.freeze(1_500)
    call(race.leader, "ff_mark_lease_expired_if_due", execution_id=spender.id)
    waiting = race.follow(lambda session: spender.settle(session, "call-1", 60))
    race.leader.commit()
    with pytest.raises(psycopg.Error, match=r"^lease_expired"):
        waiting.result()
    assert usage(race.watcher) == (0, 0)


def test_a_mark_that_waited_for_a_settlement_returns_nothing(
    race: Race, spender: Spender, clock: Clock
) -> None:
    spender.reserve(race.watcher, 60, "call-1")
    clock.freeze(1_499)
    spender.settle(race.leader, "call-1", 40)
    clock.freeze(1_500)
    waiting = race.follow(
        lambda session: call(session, "ff_mark_lease_expired_if_due", execution_id=spender.id)
    )
    race.leader.commit()
    assert waiting.result()["outcome"] == "marked_expired"
    assert usage(race.watcher) == (40, 0)


def test_a_settlement_that_waited_for_a_reclaim_is_fenced_off_and_the_amount_is_back_once(
    race: Race, spender: Spender, clock: Clock
) -> None:
    spender.reserve(race.watcher, 60, "call-1")
    clock.freeze(1_500)
    worker = {"execution_id": spender.id, "worker_id": "pool", "worker_instance_id": "pool-1"}
    call(race.leader, "ff_issue_reclaim_grant", **worker)
    call(race.leader, "ff_reclaim_execution", **worker)
    waiting = race.follow(lambda session: spender.settle(session, "call-1", 60))
    race.leader.commit()
    with pytest.raises(psycopg.Error, match=r"^stale_lease"):
        waiting.result()
    assert usage(race.watcher) == (0, 0)
    assert broken_invariants(race.watcher) == []


def test_a_revocation_that_waited_for_a_reservation_returns_it(race: Race, spender: Spender) -> None:
    spender.reserve(race.leader, 60, "call-1")
    waiting = race.follow(lambda session: call(session, "ff_revoke_lease", execution_id=spender.id))
    race.leader.commit()
    assert waiting.result()["outcome"] == "revoked"
    assert usage(race.watcher) == (0, 0)
    assert broken_invariants(race.watcher) == []


def test_a_reservation_that_waited_for_a_completion_is_refused(race: Race, spender: Spender) -> None:
    spender.complete(race.leader)
    waiting = race.follow(lambda session: spender.reserve(session, 60, "call-1"))
    race.leader.commit()
    with pytest.raises(psycopg.Error, match=r"^execution_not_active"):
        waiting.result()
    assert usage(race.watcher) == (0, 0)


def test_a_suspension_returns_what_was_set_aside(race: Race, spender: Spender) -> None:
    call(race.watcher, "ff_rotate_waitpoint_hmac_secret", new_kid="kid-1", new_secret_hex="ab" * 32)
    spender.reserve(race.watcher, 60, "call-1")
    call(
        race.leader,
        "ff_suspend_execution",
        resume_condition='{"Single": {"waitpoint_key": "wpk:approval", "matcher": "Wildcard"}}',
        reason_code="waiting_for_signal",
        **spender.fence,
    )
    assert usage(race.watcher) == (0, 60)
    race.leader.commit()
    assert usage(race.watcher) == (0, 0)


# Together with the caller's own work


def test_settlement_and_completion_commit_together(race: Race, spender: Spender) -> None:
    spender.reserve(race.watcher, 60, "call-1")
    assert spender.settle(race.leader, "call-1", 25)["outcome"] == "settled"
    spender.complete(race.leader)
    race.leader.commit()
    assert usage(race.watcher) == (25, 0)
    assert public_state(race.watcher, spender) == "completed"


def test_settlement_and_completion_roll_back_together(race: Race, spender: Spender) -> None:
    spender.reserve(race.watcher, 60, "call-1")
    spender.settle(race.leader, "call-1", 25)
    spender.complete(race.leader)
    race.leader.rollback()
    assert usage(race.watcher) == (0, 60)
    assert public_state(race.watcher, spender) == "active"
    assert spender.settle(race.watcher, "call-1", 25)["outcome"] == "settled"
    assert broken_invariants(race.watcher) == []


def test_a_worker_role_reserves_and_settles_and_cannot_override(
    race: Race, spender: Spender, role_connection: RoleConnection
) -> None:
    worker = role_connection("flowfabric_worker")
    assert spender.reserve(worker, 10, "call-1")["outcome"] == "reserved"
    assert spender.reserve(worker, 10, "call-2")["outcome"] == "reserved"
    assert spender.settle(worker, "call-1", 7)["outcome"] == "settled"
    override = {
        "budget_id": BUDGET,
        "reservation_key": "call-2",
        "execution_id": spender.id,
        "source": "operator_override",
    }
    with pytest.raises(psycopg.Error, match=r"^unauthorized"):
        call(worker, "ff_release_reservation", **override)
    operator = role_connection("flowfabric_operator")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        spender.reserve(operator, 10, "call-3")
    assert call(operator, "ff_release_reservation", **override)["outcome"] == "released"
    assert usage(race.watcher) == (7, 0)


# Many at once


def test_leases_that_end_together_return_to_several_budgets_without_deadlock(
    db: Connection, connect: Connect
) -> None:
    create_budget(db, 0)
    create_budget(db, 0, budget_id=OTHER_BUDGET)
    spenders = [Spender.start(db, number) for number in range(1, 41)]
    for number, spender in enumerate(spenders):
        budgets = [BUDGET, OTHER_BUDGET] if number % 2 else [OTHER_BUDGET, BUDGET]
        for budget_id in budgets:
            spender.reserve(db, 5, f"call-{number}", budget_id=budget_id)
    assert usage(db) == usage(db, OTHER_BUDGET) == (0, 200)

    def complete_all(mine: list[Spender]) -> None:
        session = connect()
        for spender in mine:
            spender.complete(session)

    running = [in_background(partial(complete_all, spenders[start::4])) for start in range(4)]
    for call_ in running:
        call_.result()
    assert usage(db) == usage(db, OTHER_BUDGET) == (0, 0)
    assert broken_invariants(db) == []


def test_sixteen_workers_that_reserve_settle_and_die_at_random_leave_nothing_reserved(
    db: Connection, connect: Connect
) -> None:
    """Workers stop in the middle, leases expire and are reclaimed by others, an operator revokes some."""
    hard_limit = 400
    create_budget(db, hard_limit)
    create_budget(db, 0, budget_id=OTHER_BUDGET)
    executions = 48
    for number in range(1, executions + 1):
        call(db, "ff_create_execution", execution_kind="test", execution_id=execution_id(number))
    stop = threading.Event()
    refused: Counter[str] = Counter()
    unbooked: list[int] = []

    def spend(session: Connection, spender: Spender, dice: random.Random) -> None:
        """Work on a lease until it is finished, lost, or abandoned like a process that was killed."""
        open_keys: list[tuple[str, str, int]] = []
        for _ in range(dice.randint(1, 6)):
            budget_id = dice.choice([BUDGET, OTHER_BUDGET])
            amount = dice.randint(1, 60)
            key = f"{dice.random():.17f}"
            if spender.reserve(session, amount, key, budget_id=budget_id)["outcome"] == "reserved":
                open_keys.append((budget_id, key, amount))
            if open_keys and dice.random() < 0.5:
                budget_id, key, amount = open_keys.pop(dice.randrange(len(open_keys)))
                if dice.random() < 0.6:
                    spender.settle(session, key, dice.randint(0, amount), budget_id=budget_id)
                else:
                    spender.release(session, key, budget_id=budget_id)
            if dice.random() < 0.15:
                return
        if dice.random() < 0.6:
            spender.complete(session)
        elif dice.random() < 0.5:
            call(session, "ff_delay_execution", delay_until_ms=0, **spender.fence)

    def work(seed: int) -> None:
        dice = random.Random(seed)
        session = connect()
        worker = {"lanes": ["default"], "worker_id": "pool", "worker_instance_id": f"pool-{seed}"}
        while not stop.is_set():
            for function in ("ff_claim_next", "ff_reclaim_next"):
                claims = session.execute(
                    "select c.execution_id, c.lease_id, c.lease_epoch, c.attempt_id"
                    f" from flowfabric.{function}(p_lanes => %(lanes)s, p_worker_id => %(worker_id)s,"
                    " p_worker_instance_id => %(worker_instance_id)s, p_lease_ttl_ms => 40) as c"
                    " where c.lease_id is not null",
                    worker,
                ).fetchall()
                for claim in claims:
                    names = ("execution_id", "lease_id", "lease_epoch", "attempt_id")
                    try:
                        spend(session, Spender(dict(zip(names, claim, strict=True))), dice)
                    except psycopg.Error as refusal:
                        refused[str(refusal.diag.message_primary)] += 1

    def operate() -> None:
        dice = random.Random(99)
        session = connect()
        while not stop.is_set():
            victim = execution_id(dice.randint(1, executions))
            try:
                if dice.random() < 0.8:
                    call(session, "ff_revoke_lease", execution_id=victim)
                else:
                    call(session, "ff_scan_expired_leases")
            except psycopg.Error as refusal:
                refused[str(refusal.diag.message_primary)] += 1
            used, reserved = usage(session)
            unbooked.append(hard_limit - used - reserved)
            stop.wait(0.01)

    running = [in_background(partial(work, seed)) for seed in range(16)] + [in_background(operate)]
    stop.wait(4)
    stop.set()
    for call_ in running:
        call_.result()

    # Settlements never exceed what was set aside here, so nothing may ever have passed the limit.
    assert min(unbooked) >= 0
    lost_leases = {"lease_expired", "lease_revoked", "stale_lease", "execution_not_active"}
    assert set(refused) <= lost_leases | {"no_active_lease"}
    assert lost_leases & set(refused)
    assert broken_invariants(db) == []

    for number in range(1, executions + 1):
        info = call(db, "ff_read_execution_info", execution_id=execution_id(number))
        if info["lifecycle_phase"] != "terminal":
            call(
                db,
                "ff_cancel_execution",
                execution_id=execution_id(number),
                reason="over",
                source="operator_override",
            )
    assert usage(db)[1] == usage(db, OTHER_BUDGET)[1] == 0
    assert usage(db)[0] > 0
    assert broken_invariants(db) == []
    ledger = db.execute("select sum(delta_total) from flowfabric.ff_budget_usage_by_exec").fetchone()
    assert ledger == (usage(db)[0] + usage(db, OTHER_BUDGET)[0],)
