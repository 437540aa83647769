"""Appends beside what ends their attempt: a stream that has ended gets no frame, and none gets lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import psycopg
import pytest

from tests.conftest import Clock, Connect
from tests.stream.support import Attempt, lease
from tests.support.cluster import Connection
from tests.support.concurrency import DEADLINE_S, Background
from tests.support.engine import Race, Row, call


@pytest.fixture
def race(connect: Connect, clock: Clock) -> Race:
    """Two sessions at 1000 ms."""
    clock.freeze(1_000)
    return Race(leader=connect(autocommit=False), follower=connect(), watcher=connect())


@pytest.fixture
def attempt(db: Connection, race: Race) -> Attempt:
    """An attempt that holds its lease until 2000 ms and has not written yet."""
    return lease(db, ttl_ms=1_000)


def refusal(waiting: Background[Row]) -> str:
    """The code with which the engine refused the call."""
    with pytest.raises(psycopg.Error) as refused:
        waiting.result()
    return str(refused.value.diag.message_primary)


def test_completion_waits_for_a_first_frame_and_closes_its_stream(
    db: Connection, race: Race, attempt: Attempt
) -> None:
    attempt.append(race.leader, b"last words")
    completing = race.follow(attempt.complete)
    race.leader.commit()
    assert completing.result()["outcome"] == "completed"
    assert attempt.payloads(db) == [b"last words"]
    assert attempt.closed_reason(db) == "attempt_success"


def test_a_first_frame_that_waited_for_the_completion_is_refused(
    db: Connection, race: Race, attempt: Attempt
) -> None:
    attempt.complete(race.leader)
    appending = race.follow(attempt.append)
    race.leader.commit()
    assert refusal(appending) == "stream_closed"
    assert not attempt.has_stream(db)


def test_a_first_frame_that_waited_for_a_completion_undone_is_written(
    db: Connection, race: Race, attempt: Attempt
) -> None:
    attempt.complete(race.leader)
    appending = race.follow(attempt.append)
    race.leader.rollback()
    assert appending.result()["frame_count"] == 1
    assert attempt.closed_reason(db) is None


def test_completion_waits_for_a_later_frame_too(db: Connection, race: Race, attempt: Attempt) -> None:
    attempt.append(db, b"first")
    attempt.append(race.leader, b"second")
    completing = race.follow(attempt.complete)
    race.leader.commit()
    assert completing.result()["outcome"] == "completed"
    assert attempt.payloads(db) == [b"first", b"second"]
    assert attempt.closed_reason(db) == "attempt_success"


def test_a_later_frame_that_waited_for_the_completion_is_refused(
    db: Connection, race: Race, attempt: Attempt
) -> None:
    attempt.append(db, b"first")
    attempt.complete(race.leader)
    appending = race.follow(attempt.append)
    race.leader.commit()
    assert refusal(appending) == "stream_closed"
    assert attempt.payloads(db) == [b"first"]


def test_a_frame_between_the_locks_of_a_completion_comes_before_the_end(
    db: Connection, race: Race, attempt: Attempt
) -> None:
    attempt.append(db, b"first")
    # A completion that holds the execution and has not come to the stream yet.
    race.lock_execution()
    attempt.append(db, b"second")
    attempt.complete(race.leader)
    race.leader.commit()
    assert attempt.payloads(db) == [b"first", b"second"]
    assert attempt.closed_reason(db) == "attempt_success"


def test_appends_go_on_beside_an_open_renewal(db: Connection, race: Race, attempt: Attempt) -> None:
    attempt.append(db)
    call(
        race.leader,
        "ff_renew_lease",
        execution_id=attempt.execution_id,
        **attempt.fence,
        lease_ttl_ms=5_000,
    )
    db.execute("set lock_timeout = '1ms'")
    assert attempt.append(db)["frame_count"] == 2
    race.leader.rollback()


def test_two_first_frames_make_one_stream(db: Connection, race: Race, attempt: Attempt) -> None:
    assert attempt.append(race.leader, b"one")["entry_id"] == "1000-0"
    appending = race.follow(partial(attempt.append, payload=b"two"))
    race.leader.commit()
    assert appending.result() == {"entry_id": "1000-1", "frame_count": 2, "summary_version": None}
    assert attempt.payloads(db) == [b"one", b"two"]


def test_a_first_frame_takes_the_place_of_one_undone(db: Connection, race: Race, attempt: Attempt) -> None:
    attempt.append(race.leader, b"one")
    appending = race.follow(partial(attempt.append, payload=b"two"))
    race.leader.rollback()
    assert appending.result() == {"entry_id": "1000-0", "frame_count": 1, "summary_version": None}
    assert attempt.payloads(db) == [b"two"]


@pytest.mark.parametrize("has_stream", [False, True])
def test_a_lease_that_ran_out_while_the_append_waited_is_over(
    db: Connection, race: Race, attempt: Attempt, clock: Clock, has_stream: bool
) -> None:
    if has_stream:
        attempt.append(db, b"before")
    attempt.append(race.leader, b"in time")
    appending = race.follow(attempt.append)
    clock.freeze(2_000)
    race.leader.commit()
    assert refusal(appending) == "stale_owner_cannot_append"
    assert attempt.payloads(db)[-1] == b"in time"


def test_an_old_owner_that_waited_for_the_reclaim_is_fenced_off(
    db: Connection, race: Race, attempt: Attempt
) -> None:
    attempt.append(db)
    call(db, "ff_revoke_lease", execution_id=attempt.execution_id)
    worker = {
        "execution_id": attempt.execution_id,
        "worker_id": "worker",
        "worker_instance_id": "worker-2",
        "lane_id": "default",
    }
    call(db, "ff_issue_reclaim_grant", **worker)
    call(race.leader, "ff_reclaim_execution", **worker)
    appending = race.follow(attempt.append)
    race.leader.commit()
    assert refusal(appending) == "stale_owner_cannot_append"
    assert attempt.closed_reason(db) == "reclaimed"


def test_the_scanner_passes_over_a_stream_that_is_being_written(
    db: Connection, race: Race, attempt: Attempt, clock: Clock
) -> None:
    attempt.append(db, b"old", stream_mode="best_effort", ttl_ms=100)
    clock.freeze(1_200)
    attempt.append(race.leader, b"new", stream_mode="best_effort", ttl_ms=100)
    assert call(db, "ff_scan_stream_ttl") == {"processed": 0, "skipped": 1, "errors": 0, "more": False}
    race.leader.commit()
    assert call(db, "ff_scan_stream_ttl") == {"processed": 0, "skipped": 0, "errors": 0, "more": False}
    assert attempt.payloads(db) == [b"new"]


def test_an_append_that_waited_for_the_scanner_goes_on(
    db: Connection, race: Race, attempt: Attempt, clock: Clock
) -> None:
    attempt.append(db, b"old", stream_mode="best_effort", ttl_ms=100)
    clock.freeze(1_200)
    assert call(race.leader, "ff_scan_stream_ttl")["processed"] == 1
    appending = race.follow(partial(attempt.append, payload=b"new"))
    race.leader.commit()
    assert appending.result() == {"entry_id": "1200-0", "frame_count": 2, "summary_version": None}
    assert attempt.payloads(db) == [b"new"]


def test_a_purge_waits_for_nothing_and_an_append_finds_nothing(
    db: Connection, race: Race, attempt: Attempt, clock: Clock
) -> None:
    attempt.append(db)
    attempt.complete(db)
    clock.freeze(10**9)
    assert call(race.leader, "ff_trim_retention")["processed"] == 1
    appending = race.follow(attempt.append)
    race.leader.commit()
    assert refusal(appending) == "stream_closed"
    assert db.execute("select from flowfabric.ff_stream_meta").rowcount == 0


def test_a_snapshot_from_before_the_end_cannot_write_after_it(
    db: Connection, race: Race, attempt: Attempt, connect: Connect
) -> None:
    attempt.append(db)
    late = connect(autocommit=False)
    late.execute("set transaction isolation level repeatable read")
    late.execute("select from flowfabric.ff_exec_core")
    attempt.complete(db)
    with pytest.raises(psycopg.errors.SerializationFailure):
        attempt.append(late)


def act_at_once(barrier: Barrier, session: Connection, act: Callable[[Connection], Row]) -> str:
    """Act when everybody is ready, and say how the engine took it."""
    barrier.wait()
    try:
        act(session)
    except psycopg.Error as error:
        return str(error.diag.message_primary)
    return "done"


def test_no_ended_attempt_is_left_with_an_open_stream(db: Connection, connect: Connect) -> None:
    """Append, complete and fail at the same moment, for many executions: nothing but the two right orders."""
    sessions = [connect() for _ in range(3)]
    attempts = [lease(db, number) for number in range(1, 81)]
    with ThreadPoolExecutor(len(sessions)) as pool:
        for number, attempt in enumerate(attempts):
            if number % 2:
                attempt.append(db, b"before")
            acts: list[Callable[[Connection], Row]] = [
                partial(attempt.append, payload=b"race"),
                attempt.complete,
                attempt.fail,
            ]
            barrier = Barrier(len(acts))
            running = [
                pool.submit(act_at_once, barrier, session, act)
                for session, act in zip(sessions, acts, strict=True)
            ]
            appended, *ended = [future.result() for future in running]
            assert appended in ("done", "stream_closed")
            assert sorted(ended) == ["done", "execution_not_active"]
    assert all(attempt.closed_reason(db) is not None for attempt in attempts if attempt.has_stream(db)), (
        "every attempt has ended, so every stream must have"
    )
    assert db.execute("select from flowfabric.ff_check_invariants()").rowcount == 0
    counted = db.execute(
        """select from flowfabric.ff_stream_meta as m
           where m.retained_count <> (
               select count(*) from flowfabric.ff_stream_frame as f where f.execution_id = m.execution_id)"""
    )
    assert counted.rowcount == 0, "a stream counts the frames that it has"


def test_a_tailer_sees_every_frame_once_and_in_order(db: Connection, connect: Connect) -> None:
    """Several sessions of one worker write while a reader follows by the id of the last frame it saw."""
    attempt = lease(db)
    writers, frames_each = 4, 60

    def write(connection: Connection, writer: int) -> None:
        for number in range(frames_each):
            attempt.append(connection, f"{writer}:{number}".encode())

    def tail(connection: Connection) -> list[Row]:
        seen: list[Row] = []
        last = "0-0"
        give_up_at = time.monotonic() + DEADLINE_S
        while time.monotonic() < give_up_at:
            page = attempt.read(connection, after=last, count_limit=7)
            if page[0]["entry_id"] is None:
                if page[0]["closed_at_ms"] is not None:
                    return seen
                continue
            seen += page
            last = page[-1]["entry_id"]
        raise AssertionError("the stream did not end")

    with ThreadPoolExecutor(writers + 1) as pool:
        tailing = pool.submit(tail, connect())
        writing = [pool.submit(write, connect(), writer) for writer in range(writers)]
        for future in writing:
            future.result()
        attempt.complete(db)
        seen = tailing.result()
    assert [frame["payload"] for frame in seen] == attempt.payloads(db)
    assert sorted(frame["payload"] for frame in seen) == sorted(
        f"{writer}:{number}".encode() for writer in range(writers) for number in range(frames_each)
    )


def test_an_append_waits_for_one_row_only(race: Race, db: Connection, attempt: Attempt) -> None:
    """The order of the locks: whoever ends an attempt takes the execution first and then the stream."""
    attempt.append(db)
    attempt.append(race.leader)
    appending = race.follow(attempt.append)
    # The append waits for the stream and holds nothing: the execution is free, so no cycle can arise.
    db.execute("select from flowfabric.ff_exec_core for update nowait")
    race.leader.commit()
    assert appending.result()["frame_count"] == 3


def test_completions_and_appends_of_the_same_transaction_are_one(
    db: Connection, race: Race, attempt: Attempt
) -> None:
    attempt.append(race.leader, b"{}", stream_mode="summary")
    attempt.complete(race.leader)
    race.leader.rollback()
    assert not attempt.has_stream(db)
    attempt.append(race.leader)
    attempt.complete(race.leader)
    race.leader.commit()
    assert attempt.closed_reason(db) == "attempt_success"
