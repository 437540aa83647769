"""The loop that pg_cron calls: a transaction per scanner, one loop at a time, and an end."""

from __future__ import annotations

import time

import psycopg
import pytest

from tests.conftest import Clock, Connect, RoleConnection
from tests.scanner.ticking import Engine, rows, value
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until, wait_until_blocked

A_MINUTE = 60_000


@pytest.fixture
def engine(db: Connection, clock: Clock) -> Engine:
    return Engine(db, clock)


def loop(connection: Connection, duration_ms: int, interval_ms: int = 20) -> float:
    """Run the loop, and return for how many seconds it ran."""
    started = time.monotonic()
    connection.execute(
        "call flowfabric.ff_tick_loop(p_duration_ms => %s::integer, p_interval_ms => %s::integer)",
        [duration_ms, interval_ms],
    )
    return time.monotonic() - started


def wait_until_it_loops(observer: Connection, looping: Connection) -> None:
    wait_until(
        lambda: bool(
            value(
                observer,
                """select count(*) from pg_locks where pid = %s and granted
                   and relation = 'flowfabric.ff_tick_loop_lock'::regclass""",
                [looping.info.backend_pid],
            )
        ),
        "the loop held its lock",
    )


def test_an_operator_runs_everything_that_is_due_until_the_time_is_over(
    engine: Engine, role_connection: RoleConnection
) -> None:
    engine.lease(*range(3), ttl_ms=1)
    engine.create(10, delay_until_ms=value(engine.db, "select flowfabric.ff_now_ms() + 300"))
    operator = role_connection("flowfabric_operator")
    assert 1.5 <= loop(operator, 1500) < 15
    assert engine.events("ff_lease_event", "expired") == dict.fromkeys(range(3), 1)
    assert engine.count("eligibility_state = 'not_eligible_until_time'") == 0
    assert all(row["last_run_at_ms"] is not None for row in rows(engine.db, "ff_list_scanners"))


def test_each_scanner_has_a_transaction_of_its_own(engine: Engine, connect: Connect) -> None:
    engine.clock.freeze(1_000_000)
    engine.lease(1)
    engine.create(2, execution_deadline_at_ms=1_000_500)
    engine.clock.advance(1000)
    engine.stop_at(2)
    gate, looping = connect(autocommit=False), connect()
    gate.execute("select pg_advisory_xact_lock(1)")
    running = in_background(lambda: loop(looping, 500))
    wait_until_blocked(engine.db, looping, by=gate)
    # It is at the deadline of one execution; the expired lease of the other has been committed.
    assert engine.events("ff_lease_event", "expired") == {1: 1}
    assert engine.schedule("lease_expiry")["last_run_at_ms"] == 1_001_000
    assert engine.schedule("execution_deadline")["last_run_at_ms"] is None
    gate.rollback()
    running.result()
    assert engine.events("ff_completion_event", "expired") == {2: 1}


def test_a_scanner_that_always_has_more_keeps_no_other_waiting(engine: Engine, connect: Connect) -> None:
    """Of ten thousand executions to delete one goes per round."""
    for _ in range(10):
        engine.db.execute("select flowfabric.ff_create_executions(array_fill('test'::text, array[1000]))")
    engine.db.execute(
        """
        update flowfabric.ff_exec_core
        set lifecycle_phase = 'terminal', terminal_outcome = 'skipped', eligibility_state = 'not_applicable',
            blocking_reason = 'none', terminal_at_ms = 0
        """
    )
    rows(engine.db, "ff_set_scanner", scanner="retention", batch_limit=1)
    engine.lease(1, ttl_ms=1)
    looping = connect()
    running = in_background(lambda: loop(looping, A_MINUTE))
    for number in (2, 3):
        wait_until(
            lambda expected=number - 1: len(engine.events("ff_lease_event", "expired")) == expected,  # type: ignore[misc]
            "the lease was marked",
        )
        assert engine.count("lifecycle_phase = 'terminal'") > 0
        engine.lease(number, ttl_ms=1)
    looping.cancel_safe()
    with pytest.raises(psycopg.errors.QueryCanceled):
        running.result()


def test_a_second_loop_returns_at_once(engine: Engine, connect: Connect) -> None:
    first, second = connect(), connect()
    running = in_background(lambda: loop(first, A_MINUTE, interval_ms=3000))
    wait_until_it_loops(engine.db, first)
    assert loop(second, A_MINUTE) < 20
    assert not running.is_done
    first.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        running.result()


def test_a_cancelled_loop_leaves_no_lock_behind(engine: Engine, connect: Connect) -> None:
    first, second = connect(), connect()
    running = in_background(lambda: loop(first, A_MINUTE, interval_ms=3000))
    wait_until_it_loops(engine.db, first)
    first.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        running.result()
    # The session of the first is still there, and holds nothing.
    assert value(first, "select 1") == 1
    assert loop(second, 300) >= 0.3


def test_a_scanner_that_fails_does_not_end_the_loop(engine: Engine, connect: Connect) -> None:
    engine.lease(1, ttl_ms=1)
    engine.db.execute(
        """
        create or replace function flowfabric.ff_scan_suspension_timeouts(
            p_limit integer default 50, p_partition_key smallint default null)
        returns flowfabric.ff_scan language plpgsql volatile
        as $$ begin raise exception 'broken'; end $$"""
    )
    looping = connect()
    running = in_background(lambda: loop(looping, A_MINUTE))
    wait_until(
        lambda: engine.schedule("retention")["last_run_at_ms"] is not None, "the last scanner had its turn"
    )
    assert engine.schedule("suspension_timeout")["consecutive_failures"] >= 1
    looping.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        running.result()


def test_it_cannot_run_inside_a_transaction(connect: Connect) -> None:
    caller = connect(autocommit=False)
    with pytest.raises(psycopg.errors.InvalidTransactionTermination):
        loop(caller, 100)
