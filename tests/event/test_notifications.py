"""Waiting and waking: who said that he waits is notified, once, and nobody else is."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from statistics import median
from threading import Event, Lock
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Clock, Connect
from tests.event.support import Reader, complete_one, finish, new_execution_id, start
from tests.stream.support import lease
from tests.support.cluster import Connection
from tests.support.concurrency import wait_until
from tests.support.engine import Row, call

CHANNELS = {
    "completion": "ff_completion",
    "lease": "ff_lease_event",
    "signal": "ff_signal_event",
    "operator": "ff_operator_event",
    "worker": "ff_worker_event",
    "dispatch": "ff_dispatch",
}
MARK = "mark"


class Listener:
    """A session that listens on every channel, and knows what has been sent up to now."""

    def __init__(self, listening: Connection, marking: Connection) -> None:
        self._listening, self._marking = listening, marking
        for channel in (*CHANNELS.values(), "ff_stream", "ff_eligible", MARK):
            listening.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    def heard(self) -> list[tuple[str, str]]:
        """What was sent since the last call; notifications come in the order of their commits."""
        self._marking.execute("select pg_notify(%s, '')", [MARK])
        heard: list[tuple[str, str]] = []
        for notification in self._listening.notifies(timeout=20):
            if notification.channel == MARK:
                return heard
            heard.append((notification.channel, notification.payload))
        raise AssertionError("the mark did not come")


@pytest.fixture
def listener(connect: Connect) -> Listener:
    return Listener(connect(), connect())


@pytest.fixture(autouse=True)
def frozen(clock: Clock) -> None:
    clock.freeze(1_000_000)


def wait_for(connection: Connection, *streams: str, waiter: str = "me", wait_ms: int = 5_000) -> Row:
    return call(connection, "ff_wait_for_events", waiter_id=waiter, streams=list(streams), wait_ms=wait_ms)


def tail(connection: Connection, execution_id: str, *, waiter: str = "me", wait_ms: int = 5_000) -> Row:
    return call(
        connection,
        "ff_wait_for_events",
        waiter_id=waiter,
        execution_id=execution_id,
        attempt_index=0,
        wait_ms=wait_ms,
    )


def set_mode(connection: Connection, group: str, mode: int) -> None:
    call(connection, "ff_set_setting", name=f"notify_{group}", value=mode)


# Event streams


def test_without_a_waiter_nothing_is_sent(db: Connection, listener: Listener) -> None:
    complete_one(db)
    assert listener.heard() == []


def test_a_waiter_is_woken_by_the_stream_it_waits_for(db: Connection, listener: Listener) -> None:
    wait_for(db, "completion")
    complete_one(db)
    assert listener.heard() == [("ff_completion", "*")]


def test_three_changes_in_one_transaction_make_one_notification(
    connect: Connect, db: Connection, listener: Listener
) -> None:
    wait_for(db, "completion", waiter="me")
    wait_for(db, "completion", waiter="you")
    session = connect(autocommit=False)
    for _ in range(3):
        complete_one(session)
    assert listener.heard() == []
    session.commit()
    assert listener.heard() == [("ff_completion", "*")]


def test_every_commit_wakes_again(db: Connection, listener: Listener) -> None:
    wait_for(db, "lease")
    complete_one(db)
    assert listener.heard() == [("ff_lease_event", "*")] * 2, "one for the claim, one for the completion"


def test_a_change_undone_sends_nothing(connect: Connect, db: Connection, listener: Listener) -> None:
    wait_for(db, "completion")
    session = connect(autocommit=False)
    complete_one(session)
    session.rollback()
    assert listener.heard() == []


def test_a_waiter_whose_time_is_over_is_not_woken(db: Connection, listener: Listener, clock: Clock) -> None:
    wait_for(db, "completion", wait_ms=100)
    clock.advance(99)
    complete_one(db)
    assert listener.heard() == [("ff_completion", "*")]
    clock.advance(1)
    complete_one(db)
    assert listener.heard() == []


def test_a_waiter_that_withdrew_is_not_woken(db: Connection, listener: Listener) -> None:
    wait_for(db, "completion", "lease")
    wait_for(db, "completion", wait_ms=0)
    complete_one(db)
    assert set(listener.heard()) == {("ff_lease_event", "*")}


def test_a_waiter_is_not_seen_before_it_has_committed(
    connect: Connect, db: Connection, listener: Listener
) -> None:
    """The window that the look after the registration closes."""
    waiting = connect(autocommit=False)
    wait_for(waiting, "completion")
    complete_one(db)
    waiting.commit()
    assert listener.heard() == []
    assert len(Reader(db).read()) == 1, "the look after the registration finds what was not announced"


@pytest.mark.parametrize(("mode", "at_commit", "by_tick"), [(0, 0, 0), (1, 1, 0), (2, 0, 1)])
def test_the_setting_of_a_channel_says_who_notifies(
    db: Connection, listener: Listener, mode: int, at_commit: int, by_tick: int
) -> None:
    set_mode(db, "completion", mode)
    assert wait_for(db, "completion")["notify"] == (mode != 0)
    complete_one(db)
    assert listener.heard() == [("ff_completion", "*")] * at_commit
    assert call(db, "ff_scan_event_notify")["processed"] == by_tick
    assert listener.heard() == [("ff_completion", "*")] * by_tick
    assert call(db, "ff_scan_event_notify")["processed"] == 0
    assert listener.heard() == []


def test_the_tick_announces_events_when_they_can_be_read(
    connect: Connect, db: Connection, listener: Listener
) -> None:
    set_mode(db, "completion", 2)
    wait_for(db, "completion")
    slow = connect(autocommit=False)
    first = new_execution_id()
    start(db, first)
    finish(slow, first)
    complete_one(db)
    assert call(db, "ff_scan_event_notify")["processed"] == 0, "the slow transaction holds them back"
    slow.commit()
    assert call(db, "ff_scan_event_notify")["processed"] == 1
    assert len(Reader(db).read()) == 2


def test_two_ticks_announce_once(connect: Connect, db: Connection, listener: Listener) -> None:
    set_mode(db, "completion", 2)
    wait_for(db, "completion")
    complete_one(db)
    first = connect(autocommit=False)
    assert call(first, "ff_scan_event_notify")["processed"] == 1
    assert call(db, "ff_scan_event_notify")["processed"] == 0, "somebody is at it, and is not waited for"
    first.commit()
    assert listener.heard() == [("ff_completion", "*")]


def test_operators_wake_those_who_wait_for_them(db: Connection, listener: Listener) -> None:
    execution_id = new_execution_id()
    call(db, "ff_create_execution", execution_kind="test", execution_id=execution_id)
    wait_for(db, "operator")
    call(db, "ff_change_priority", execution_id=execution_id, new_priority=7)
    assert listener.heard() == [("ff_operator_event", "*")]


# Output streams


def test_a_tailer_is_woken_by_its_own_attempt(db: Connection, listener: Listener) -> None:
    mine, other = lease(db, 1), lease(db, 2)
    tail(db, mine.execution_id)
    other.append(db)
    assert listener.heard() == []
    mine.append(db)
    assert listener.heard() == [("ff_stream", f"{mine.uuid}_0")]


def test_the_end_of_a_stream_wakes_its_tailers(db: Connection, listener: Listener) -> None:
    attempt = lease(db)
    attempt.append(db)
    tail(db, attempt.execution_id)
    attempt.complete(db)
    assert ("ff_stream", f"{attempt.uuid}_0") in listener.heard()


def test_a_dead_worker_wakes_its_tailers(db: Connection, listener: Listener, clock: Clock) -> None:
    attempt = lease(db, ttl_ms=1_000)
    attempt.append(db)
    tail(db, attempt.execution_id)
    clock.advance(1_000)
    assert call(db, "ff_scan_expired_leases")["processed"] == 1
    assert listener.heard() == [("ff_stream", f"{attempt.uuid}_0")]
    assert attempt.closed_reason(db) == "lease_expired"


def test_tailers_that_left_are_not_woken(db: Connection, listener: Listener, clock: Clock) -> None:
    attempt = lease(db)
    tail(db, attempt.execution_id)
    tail(db, attempt.execution_id, wait_ms=0)
    attempt.append(db)
    tail(db, attempt.execution_id, wait_ms=100)
    clock.advance(100)
    attempt.append(db)
    assert listener.heard() == []


def test_a_refused_append_wakes_nobody(db: Connection, listener: Listener, clock: Clock) -> None:
    attempt = lease(db, ttl_ms=1_000)
    attempt.append(db)
    tail(db, attempt.execution_id)
    clock.advance(1_000)
    with pytest.raises(psycopg.Error, match="stale_owner_cannot_append"):
        attempt.append(db)
    assert listener.heard() == []


@pytest.mark.parametrize(("mode", "at_commit", "by_tick"), [(0, 0, 0), (1, 1, 0), (2, 0, 1)])
def test_frames_are_announced_as_their_setting_says(
    db: Connection, listener: Listener, mode: int, at_commit: int, by_tick: int
) -> None:
    set_mode(db, "stream", mode)
    attempt = lease(db)
    tail(db, attempt.execution_id)
    attempt.append(db)
    announcement = ("ff_stream", f"{attempt.uuid}_0")
    assert listener.heard() == [announcement] * at_commit
    assert call(db, "ff_scan_event_notify")["processed"] == by_tick
    assert listener.heard() == [announcement] * by_tick


def test_many_waiting_tailers_hold_no_connection(db: Connection, connect: Connect) -> None:
    """Twenty tailers, one listening session and one connection for everything else."""
    listening, pooled = connect(), connect()
    listening.execute("listen ff_stream")
    attempt = lease(db)
    for number in range(20):
        tail(pooled, attempt.execution_id, waiter=f"tailer-{number}")
    started = time.monotonic()
    attempt.append(pooled)
    (notification,) = listening.notifies(timeout=20, stop_after=1)
    assert time.monotonic() - started < 0.5
    assert notification.payload == f"{attempt.uuid}_0"


# The protocol under load


class Subscriber:
    """Follows completions by the protocol: look, register, look once more, wait for a wake-up or the poll."""

    POLL_S = 1.0
    THIRD_LOOK_S = 0.1

    def __init__(self, listening: Connection, reading: Connection) -> None:
        self._listening = listening
        self._reader = Reader(reading)
        self.seen_at: dict[str, float] = {}
        listening.execute("listen ff_completion")

    def _look(self) -> bool:
        events = self._reader.read()
        now = time.monotonic()
        self.seen_at |= {event["execution_id"]: now for event in events}
        return bool(events)

    def follow(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            if self._look():
                continue
            call(
                self._reader.connection,
                "ff_wait_for_events",
                waiter_id="subscriber",
                streams=["completion"],
                wait_ms=5_000,
            )
            for pause in (0.0, self.THIRD_LOOK_S, self.POLL_S):
                woken = list(self._listening.notifies(timeout=pause, stop_after=1)) if pause else []
                if self._look() or woken:
                    break


def test_sixteen_writers_are_followed_within_the_poll_interval(
    connect: Connect, clock: Clock, db: Connection
) -> None:
    clock.reset()
    complete_one(db)
    writers, changes_each = 16, 6
    done_at: dict[str, float] = {}
    lock, stop = Lock(), Event()

    def write(connection: Connection, seed: int) -> None:
        dice = Random(seed)
        for _ in range(changes_each):
            time.sleep(dice.uniform(0.05, 0.5))
            execution_id = complete_one(connection)
            with lock:
                done_at[execution_id] = time.monotonic()

    subscriber = Subscriber(connect(), connect())
    sessions = [connect() for _ in range(writers)]
    with ThreadPoolExecutor(writers + 1) as pool:
        following = pool.submit(subscriber.follow, stop.is_set)
        writing = [pool.submit(write, session, seed) for seed, session in enumerate(sessions)]
        try:
            for future in writing:
                future.result()
            wait_until(lambda: done_at.keys() <= subscriber.seen_at.keys(), "every change was seen")
        finally:
            stop.set()
        following.result()
    latencies = [subscriber.seen_at[execution_id] - done_at[execution_id] for execution_id in done_at]
    assert len(latencies) == writers * changes_each
    # A poll alone would take half of its interval on average; a second allows for a busy machine.
    assert max(latencies) < Subscriber.POLL_S + 1.0
    assert median(latencies) < Subscriber.POLL_S / 4


def test_under_steady_load_nobody_waits_and_nothing_is_sent(
    connect: Connect, db: Connection, listener: Listener, clock: Clock
) -> None:
    clock.reset()
    complete_one(db)
    stop = Event()

    def work(connection: Connection) -> int:
        done = 0
        while not stop.is_set():
            execution_id = complete_one(connection)
            attempt = {"execution_id": execution_id, "attempt_index": 0}
            Reader(connection, cursor="v1:1:18446744073709551615:0").read()
            call(connection, "ff_read_attempt_stream", **attempt)
            done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        working: list[Any] = [pool.submit(work, connect()) for _ in range(4)]
        time.sleep(1.0)
        stop.set()
        assert sum(future.result() for future in working) > 0
    assert db.execute("select from flowfabric.ff_waiter").rowcount == 0
    assert listener.heard() == []
