"""Signals, timeouts, operators and workers that meet at one execution: the row lock decides, once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.conftest import Clock, Connect
from tests.support.cluster import Connection
from tests.support.concurrency import Background, in_background, wait_until_blocked
from tests.suspension.support import (
    Row,
    Waitpoint,
    call,
    calls,
    claim,
    count,
    deliver,
    execution_id,
    install_key,
    lease,
    open_pending,
    public_state,
    refusal,
    refused,
    single,
    suspend,
    value,
)


@dataclass
class Race:
    """Two sessions and somebody who watches them. The leader decides when its transaction ends."""

    leader: Connection
    follower: Connection
    watcher: Connection

    def follow(self, ask: Callable[[Connection], Any]) -> Background[Any]:
        """Let the follower ask, and return once it waits for the leader."""
        waiting = in_background(lambda: ask(self.follower))
        wait_until_blocked(self.watcher, self.follower, by=self.leader)
        return waiting

    def signal_events(self) -> list[str]:
        events = self.watcher.execute("select effect from flowfabric.ff_signal_event order by event_id")
        return [effect for (effect,) in events.fetchall()]


@pytest.fixture
def race(connect: Connect) -> Race:
    install_key(connect())
    return Race(connect(autocommit=False), connect(), connect())


def quorum(race: Race) -> Waitpoint:
    """An execution that waits for one more of two sources."""
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), count(2, "DistinctSources"))
    assert deliver(race.watcher, waitpoint, source_identity="ann")["effect"] == "appended_to_waitpoint"
    return waitpoint


def test_two_last_signals_of_a_quorum_resume_once(race: Race) -> None:
    waitpoint = quorum(race)
    first = deliver(race.leader, waitpoint, source_identity="bob")
    second = race.follow(lambda session: deliver(session, waitpoint, source_identity="cleo"))
    race.leader.commit()
    assert first["effect"] == "resume_condition_satisfied"
    assert refused(second) == "target_not_signalable"
    assert public_state(race.watcher) == "waiting"
    assert race.signal_events() == ["appended_to_waitpoint", "resume_condition_satisfied"]


def test_the_second_last_signal_counts_if_the_first_is_rolled_back(race: Race) -> None:
    waitpoint = quorum(race)
    deliver(race.leader, waitpoint, source_identity="bob")
    second = race.follow(lambda session: deliver(session, waitpoint, source_identity="cleo"))
    race.leader.rollback()
    assert second.result()["effect"] == "resume_condition_satisfied"
    assert value(
        race.watcher, "select array_agg(source_identity order by seq) from flowfabric.ff_signal"
    ) == [
        "ann",
        "cleo",
    ]


def test_a_crowd_of_signals_resumes_once(connect: Connect) -> None:
    watcher = connect()
    install_key(watcher)
    (waitpoint,) = suspend(watcher, lease(watcher), count(3, "DistinctSources"))
    sessions = [connect() for _ in range(8)]
    start = threading.Barrier(len(sessions))

    def send(number: int, session: Connection) -> str:
        start.wait()
        try:
            return str(deliver(session, waitpoint, source_identity=str(number))["effect"])
        except psycopg.Error as error:
            return str(error.diag.message_primary)

    senders = [in_background(partial(send, number, session)) for number, session in enumerate(sessions)]
    answers = sorted(sender.result() for sender in senders)
    assert answers == sorted(
        ["appended_to_waitpoint"] * 2 + ["resume_condition_satisfied"] + ["target_not_signalable"] * 5
    )
    assert value(watcher, "select array_agg(seq order by seq) from flowfabric.ff_signal") == [1, 2, 3]
    assert (
        value(watcher, "select cardinality(satisfier_signal_ids) from flowfabric.ff_suspension_current") == 3
    )


def test_a_delivery_and_its_repeat_at_the_same_moment_are_one_signal(race: Race) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), count(9, "DistinctSignals"))
    first = deliver(race.leader, waitpoint, idempotency_key="once")
    second = race.follow(lambda session: deliver(session, waitpoint, idempotency_key="once"))
    race.leader.commit()
    assert second.result() == {"outcome": "duplicate", "signal_id": first["signal_id"], "effect": None}
    assert race.signal_events() == ["appended_to_waitpoint"]


def test_a_repeat_by_signal_id_is_one_signal_too_even_if_the_first_resumed(race: Race) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single())
    signal_id = uuid4()
    assert deliver(race.leader, waitpoint, signal_id=signal_id)["effect"] == "resume_condition_satisfied"
    second = race.follow(lambda session: deliver(session, waitpoint, signal_id=signal_id))
    race.leader.commit()
    assert second.result()["outcome"] == "duplicate"


def test_a_signal_before_the_timeout_wins(race: Race, clock: Clock) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single(), timeout_in_ms=1000)
    clock.freeze(clock.now_ms() + 1000)
    deliver(race.leader, waitpoint)
    scanned = call(race.follower, "ff_scan_suspension_timeouts")
    assert (scanned["processed"], scanned["skipped"]) == (0, 1)
    expiring = race.follow(lambda session: call(session, "ff_expire_suspension", execution_id=execution_id()))
    race.leader.commit()
    assert expiring.result()["outcome"] == "not_suspended_cleaned"
    assert public_state(race.watcher) == "waiting"
    assert call(race.follower, "ff_scan_suspension_timeouts")["processed"] == 0


def test_a_timeout_before_the_signal_wins(race: Race, clock: Clock) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single(), timeout_in_ms=1000)
    clock.freeze(clock.now_ms() + 1000)
    assert call(race.leader, "ff_scan_suspension_timeouts")["processed"] == 1
    late = race.follow(lambda session: deliver(session, waitpoint))
    race.leader.commit()
    assert refused(late) == "target_not_signalable"
    assert public_state(race.watcher) == "failed"
    assert race.signal_events() == []


def test_a_timeout_that_is_rolled_back_leaves_the_signal_its_turn(race: Race, clock: Clock) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single(), timeout_in_ms=1000)
    clock.freeze(clock.now_ms() + 1000)
    call(race.leader, "ff_expire_suspension", execution_id=execution_id())
    late = race.follow(lambda session: deliver(session, waitpoint))
    race.leader.rollback()
    assert late.result()["effect"] == "resume_condition_satisfied"


def test_scanners_side_by_side_share_the_work(race: Race, clock: Clock) -> None:
    for number in range(1, 5):
        suspend(race.watcher, lease(race.watcher, number), single(), timeout_in_ms=1000)
    clock.freeze(clock.now_ms() + 1000)
    first = call(race.leader, "ff_scan_suspension_timeouts", limit=2)
    second = call(race.follower, "ff_scan_suspension_timeouts", limit=10)
    race.leader.commit()
    assert (first["processed"], first["more"]) == (2, True)
    assert (second["processed"], second["skipped"]) == (2, 2)
    assert value(race.watcher, "select count(*) from flowfabric.ff_completion_event") == 4


def test_a_suspend_after_a_cancel_is_refused(race: Race) -> None:
    fence = lease(race.watcher)
    call(
        race.leader,
        "ff_cancel_execution",
        execution_id=execution_id(),
        reason="stop",
        source="operator_override",
    )
    suspending = race.follow(lambda session: suspend(session, fence, single()))
    race.leader.commit()
    assert refused(suspending) == "execution_not_active"
    assert value(race.watcher, "select count(*) from flowfabric.ff_waitpoint_pending") == 0


def test_a_cancel_after_a_suspend_closes_the_suspension(race: Race) -> None:
    (waitpoint,) = suspend(race.leader, lease(race.watcher), single())
    cancelling = race.follow(
        lambda session: call(
            session,
            "ff_cancel_execution",
            execution_id=execution_id(),
            reason="stop",
            source="operator_override",
        )
    )
    race.leader.commit()
    assert cancelling.result()["cancelled_from"] == "suspended"
    assert value(race.watcher, "select close_reason from flowfabric.ff_waitpoint_pending") == "cancelled"
    assert refusal(race.watcher, "ff_deliver_signal", **waitpoint.address, signal_name="approved") == (
        "target_not_signalable"
    )
    assert calls(race.watcher, "ff_check_invariants") == []


def test_an_operator_and_a_signal_resume_once(race: Race) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single())
    deliver(race.leader, waitpoint)
    overriding = race.follow(
        lambda session: call(session, "ff_resume_execution", execution_id=execution_id())
    )
    race.leader.commit()
    assert refused(overriding) == "execution_not_suspended"
    assert value(race.watcher, "select resume_trigger from flowfabric.ff_suspension_current") == "signal"


def test_a_repeated_suspend_waits_for_the_first_and_gets_its_answer(race: Race) -> None:
    fence = lease(race.watcher)
    first = suspend(race.leader, fence, single(), idempotency_key="pause")
    second = race.follow(lambda session: suspend(session, fence, single(), idempotency_key="pause"))
    race.leader.commit()
    assert second.result() == first
    assert value(race.watcher, "select count(*) from flowfabric.ff_waitpoint_pending") == 1


def test_an_early_signal_waits_for_the_suspend_and_is_sent_on(race: Race) -> None:
    fence = lease(race.watcher)
    waitpoint = open_pending(race.watcher, fence, "wpk:approval")
    suspend(race.leader, fence, single(), waitpoint_ids=[waitpoint.waitpoint_id], use_pending=True)
    early = race.follow(
        lambda session: call(
            session,
            "ff_buffer_signal_for_pending_waitpoint",
            **waitpoint.address,
            signal_name="approved",
        )
    )
    race.leader.commit()
    # Nothing is lost: the sender is told to use the other function, and then it counts.
    assert refused(early) == "waitpoint_not_pending"
    assert deliver(race.follower, waitpoint)["effect"] == "resume_condition_satisfied"


def test_a_suspend_waits_for_an_early_signal_and_counts_it(race: Race) -> None:
    fence = lease(race.watcher)
    waitpoint = open_pending(race.watcher, fence, "wpk:approval")
    call(
        race.leader,
        "ff_buffer_signal_for_pending_waitpoint",
        **waitpoint.address,
        signal_name="approved",
    )
    suspending = race.follow(
        lambda session: call(
            session,
            "ff_suspend_execution",
            **fence,
            resume_condition='{"Single": {"waitpoint_key": "wpk:approval", "matcher": "Wildcard"}}',
            reason_code="waiting_for_approval",
            waitpoint_ids=[waitpoint.waitpoint_id],
            use_pending=True,
        )
    )
    race.leader.commit()
    assert suspending.result()["outcome"] == "already_satisfied"
    assert public_state(race.watcher) == "active"


# One commit


@pytest.mark.parametrize("commits", [True, False])
def test_a_signal_the_resume_and_the_callers_rows_are_one_commit(race: Race, commits: bool) -> None:
    race.watcher.execute("create table answers (waitpoint_id uuid)")
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single())
    race.leader.execute("insert into answers values (%s)", [waitpoint.waitpoint_id])
    deliver(race.leader, waitpoint)
    assert public_state(race.watcher) == "suspended"
    if commits:
        race.leader.commit()
    else:
        race.leader.rollback()
    expected = (1, "waiting") if commits else (0, "suspended")
    assert (value(race.watcher, "select count(*) from answers"), public_state(race.watcher)) == expected
    assert len(race.signal_events()) == expected[0]
    assert value(race.watcher, "select count(*) from flowfabric.ff_signal") == expected[0]


def test_a_suspend_and_the_callers_rows_are_one_commit(race: Race) -> None:
    race.watcher.execute("create table tickets (token text)")
    fence = lease(race.watcher)
    (waitpoint,) = suspend(race.leader, fence, single())
    race.leader.execute("insert into tickets values (%s)", [waitpoint.waitpoint_token])
    race.leader.rollback()
    assert public_state(race.watcher) == "active"
    assert value(race.watcher, "select count(*) from tickets") == 0
    # The lease is the worker's again, so it can simply suspend once more.
    suspend(race.watcher, fence, single())
    assert public_state(race.watcher) == "suspended"


# Nobody waits for somebody without a token


def test_a_bad_token_is_refused_while_the_execution_is_locked(race: Race) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single())
    race.leader.execute("select from flowfabric.ff_exec_core for no key update")
    race.follower.execute("set lock_timeout = '1ms'")
    address = waitpoint.address | {"waitpoint_token": f"kid-1:{'0' * 64}"}
    for function in ("ff_deliver_signal", "ff_buffer_signal_for_pending_waitpoint"):
        assert refusal(race.follower, function, **address, signal_name="x") == "invalid_token"
    # A good one does wait: that it was refused above is not for want of a lock.
    with pytest.raises(psycopg.errors.LockNotAvailable):
        deliver(race.follower, waitpoint)


def test_a_refused_token_locks_nothing(race: Race) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single())
    address = waitpoint.address | {"waitpoint_token": f"kid-1:{'0' * 64}"}
    race.leader.execute("savepoint before_the_refusal")
    assert refusal(race.leader, "ff_deliver_signal", **address, signal_name="x") == "invalid_token"
    race.leader.execute("rollback to savepoint before_the_refusal")
    race.follower.execute("set lock_timeout = '1ms'")
    assert deliver(race.follower, waitpoint)["outcome"] == "accepted"


def test_noting_a_bad_token_does_not_wait(race: Race) -> None:
    suspend(race.watcher, lease(race.watcher), single())
    race.leader.execute("select from flowfabric.ff_exec_core for no key update")
    race.follower.execute("set lock_timeout = '1ms'")
    calls(race.follower, "ff_record_signal_auth_failure", execution_id=execution_id())
    assert value(race.watcher, "select count(*) from flowfabric.ff_exec_note") == 0
    race.leader.rollback()
    calls(race.follower, "ff_record_signal_auth_failure", execution_id=execution_id())
    assert value(race.watcher, "select count(*) from flowfabric.ff_exec_note") == 1


@pytest.mark.parametrize(
    "vanishes", ["delete from flowfabric.ff_waitpoint_pending", "delete from flowfabric.ff_exec_core"]
)
def test_what_vanishes_after_the_token_was_verified_reads_like_a_bad_token(race: Race, vanishes: str) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single())
    race.leader.execute("select from flowfabric.ff_exec_core for update")
    waiting = race.follow(lambda session: deliver(session, waitpoint))
    race.leader.execute(vanishes.encode())
    race.leader.commit()
    assert refused(waiting) == "invalid_token"


# Ids that two executions want at once


def test_of_two_suspends_with_one_waitpoint_id_the_second_is_told(race: Race) -> None:
    first, second = lease(race.watcher, 1), lease(race.watcher, 2)
    waitpoint_id = uuid4()
    binding = {"waitpoint_ids": [waitpoint_id], "waitpoint_keys": ["wpk:approval"]}
    suspend(race.leader, first, single(), **binding)
    waiting = race.follow(lambda session: suspend(session, second, single(), **binding))
    race.leader.commit()
    assert refused(waiting) == "waitpoint_already_exists"
    assert public_state(race.watcher, 2) == "active"


@pytest.mark.parametrize("use_pending", [True, False])
def test_of_two_suspends_with_one_suspension_id_the_second_is_told(race: Race, use_pending: bool) -> None:
    fences = [lease(race.watcher, number) for number in (1, 2)]
    suspension_id = uuid4()

    def arguments(fence: Row) -> dict[str, Any]:
        if not use_pending:
            return {"suspension_id": suspension_id}
        pending = open_pending(race.watcher, fence, "wpk:approval")
        return {"suspension_id": suspension_id, "waitpoint_ids": [pending.waitpoint_id], "use_pending": True}

    first, second = (arguments(fence) for fence in fences)
    suspend(race.leader, fences[0], single(), **first)
    waiting = race.follow(lambda session: suspend(session, fences[1], single(), **second))
    race.leader.commit()
    assert refused(waiting) == "invalid_input"
    assert public_state(race.watcher, 2) == "active"


def test_of_two_pending_waitpoints_with_one_id_the_second_is_told(race: Race) -> None:
    first, second = lease(race.watcher, 1), lease(race.watcher, 2)
    arguments: dict[str, Any] = {
        "waitpoint_key": "k",
        "expires_in_ms": 1000,
        "waitpoint_id": UUID(int=7),
    }
    call(race.leader, "ff_create_pending_waitpoint", **first, **arguments)
    waiting = race.follow(lambda session: call(session, "ff_create_pending_waitpoint", **second, **arguments))
    race.leader.commit()
    assert refused(waiting) == "waitpoint_already_exists"


# Keys


def current_kids(connection: Connection) -> list[str]:
    rows = connection.execute("select kid from flowfabric.ff_waitpoint_hmac where is_current").fetchall()
    return [kid for (kid,) in rows]


def test_of_two_boots_at_once_one_seeds(connect: Connect) -> None:
    race = Race(connect(autocommit=False), connect(), connect())
    assert call(race.leader, "ff_seed_waitpoint_hmac_secret", kid="boot")["outcome"] == "seeded"
    second = race.follow(lambda session: call(session, "ff_seed_waitpoint_hmac_secret", kid="boot"))
    race.leader.commit()
    assert second.result() == {"outcome": "already_seeded", "kid": "boot", "same_secret": True}
    assert current_kids(race.watcher) == ["boot"]


def test_of_two_rotations_at_once_the_second_sees_the_first(race: Race) -> None:
    call(race.leader, "ff_rotate_waitpoint_hmac_secret", new_kid="b")
    second = race.follow(lambda session: call(session, "ff_rotate_waitpoint_hmac_secret", new_kid="c"))
    race.leader.commit()
    assert second.result()["previous_kid"] == "b"
    assert current_kids(race.watcher) == ["c"]


def test_of_two_equal_rotations_one_is_a_noop(race: Race) -> None:
    call(race.leader, "ff_rotate_waitpoint_hmac_secret", new_kid="b")
    second = race.follow(lambda session: call(session, "ff_rotate_waitpoint_hmac_secret", new_kid="b"))
    race.leader.commit()
    assert second.result()["outcome"] == "noop"


def test_a_rotation_does_not_disturb_a_signal_in_flight(race: Race) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single())
    deliver(race.leader, waitpoint)
    # Nobody waits for anybody: a delivery only reads the key store.
    race.follower.execute("set lock_timeout = '1ms'")
    rotated = call(race.follower, "ff_rotate_waitpoint_hmac_secret", new_kid="b", grace_ms=0)
    race.leader.commit()
    assert rotated["outcome"] == "rotated"
    assert public_state(race.watcher) == "waiting"


def test_tokens_handed_out_before_a_rotation_outlive_it(race: Race, clock: Clock) -> None:
    clock.freeze(clock.now_ms())
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), single())
    call(race.watcher, "ff_rotate_waitpoint_hmac_secret", new_kid="b", grace_ms=500)
    clock.advance(500)
    assert deliver(race.follower, waitpoint)["effect"] == "resume_condition_satisfied"
    (second,) = suspend(race.watcher, claim(race.watcher), single())
    call(race.watcher, "ff_rotate_waitpoint_hmac_secret", new_kid="c", grace_ms=500)
    clock.advance(501)
    assert refusal(race.follower, "ff_deliver_signal", **second.address, signal_name="approved") == (
        "token_expired"
    )
    (renewed,) = calls(
        race.watcher,
        "ff_read_waitpoint_token",
        execution_id=execution_id(),
        waitpoint_id=second.waitpoint_id,
    )
    fresh = Waitpoint(
        second.execution_id, second.waitpoint_id, second.waitpoint_key, renewed["waitpoint_token"]
    )
    assert deliver(race.follower, fresh)["effect"] == "resume_condition_satisfied"


# Waking


def test_whoever_waits_is_woken_by_a_signal_and_by_the_resume(race: Race) -> None:
    (waitpoint,) = suspend(race.watcher, lease(race.watcher), count(2, "DistinctSignals"))
    listener = race.follower
    listener.execute("listen ff_signal_event")
    listener.execute("listen ff_eligible")
    deliver(race.watcher, waitpoint)
    assert list(listener.notifies(timeout=0)) == []
    race.watcher.execute(
        """
        insert into flowfabric.ff_waiter (channel, key, waiter_id, until_ms)
        values ('ff_signal_event', '*', 'w', flowfabric.ff_now_ms() + 60000),
            ('ff_eligible', 'default', 'w', flowfabric.ff_now_ms() + 60000)
        """
    )
    deliver(race.watcher, waitpoint)
    woken = {(n.channel, n.payload) for n in listener.notifies(timeout=5, stop_after=2)}
    assert woken == {("ff_signal_event", "*"), ("ff_eligible", "default")}
