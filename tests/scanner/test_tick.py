"""The tick from many sessions at once: everything is done once, nothing is left out, nobody is harmed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import psycopg
import pytest

from tests.claim.support import fill
from tests.conftest import Clock, Connect, RoleConnection
from tests.scanner.ticking import Engine, Row, call, rows, statuses, tick, uuid, value, wire_id
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked

CALLERS = 8


@pytest.fixture
def engine(db: Connection, clock: Clock) -> Engine:
    clock.freeze(1_000_000)
    return Engine(db, clock)


def at_once(connections: list[Connection], work: Callable[[Connection], list[Row]]) -> list[Row]:
    """Let every connection do the work at the same moment; return all that they report."""
    barrier = threading.Barrier(len(connections))

    def start(connection: Connection) -> list[Row]:
        barrier.wait()
        return work(connection)

    running = [in_background(partial(start, connection)) for connection in connections]
    return [row for background in running for row in background.result(60)]


def test_two_ticks_mark_each_of_500_leases_once(engine: Engine, connect: Connect) -> None:
    engine.lease(*range(500))
    engine.clock.advance(1000)
    first, second = connect(autocommit=False), connect()
    # Both may take all of it; the limit of the scanner itself is 100.
    call(engine.db, "ff_set_scanner", scanner="lease_expiry", batch_limit=10_000)
    held = tick(first, "lease_expiry", limit=200)["lease_expiry"]
    assert (held["status"], held["processed"], held["more"]) == ("ran", 200, True)
    assert tick(second, "lease_expiry", limit=10_000)["lease_expiry"]["status"] == "busy"
    first.commit()
    rest = tick(second, "lease_expiry", limit=10_000)["lease_expiry"]
    assert (rest["status"], rest["processed"], rest["skipped"], rest["errors"]) == ("ran", 300, 0, 0)
    assert engine.events("ff_lease_event", "expired") == dict.fromkeys(range(500), 1)


def test_eight_ticks_at_once_do_everything_that_is_due_exactly_once(engine: Engine, connect: Connect) -> None:
    leases, timeouts = range(150), range(200, 260)
    delays, deadlines = range(300, 420), range(500, 560)
    engine.lease(*leases)
    engine.lease(*timeouts, ttl_ms=600_000, timeout_ms=1000)
    for number in delays:
        engine.create(number, delay_until_ms=1_001_000, lane_id=f"lane-{number % 3}")
    for number in deadlines:
        engine.create(number, execution_deadline_at_ms=1_001_000)
    engine.clock.advance(1000)

    def until_nothing_is_left(connection: Connection) -> list[Row]:
        reports: list[Row] = []
        while True:
            report = rows(connection, "ff_tick", limit=7, max_ms=60_000)
            reports += report
            # Whatever another caller runs right now may leave something over.
            if not any(run["more"] or run["status"] == "busy" for run in report):
                return reports

    reports = at_once([connect() for _ in range(CALLERS)], until_nothing_is_left)

    assert {run["status"] for run in reports} <= {"ran", "busy"}
    assert sum(run["errors"] for run in reports) == 0
    done = {
        scanner: sum(run["processed"] for run in reports if run["scanner"] == scanner)
        for scanner in ("lease_expiry", "attempt_timeout", "delayed", "execution_deadline")
    }
    assert done == {
        "lease_expiry": len(leases),
        "attempt_timeout": len(timeouts),
        "delayed": len(delays),
        "execution_deadline": len(deadlines),
    }
    assert engine.events("ff_lease_event", "expired") == dict.fromkeys(leases, 1)
    assert engine.events("ff_completion_event", "expired") == dict.fromkeys([*timeouts, *deadlines], 1)
    assert engine.count("eligibility_state = 'eligible_now'") == len(delays)
    assert engine.due() == []
    assert rows(engine.db, "ff_check_invariants") == []


def test_what_becomes_due_is_done_by_somebody_in_the_same_round(engine: Engine, connect: Connect) -> None:
    callers = [connect() for _ in range(CALLERS)]
    for number in range(40):
        engine.create(number, delay_until_ms=1_000_000 + 100 * number + 50)
    runs: list[Row] = []
    for _ in range(40):
        engine.clock.advance(100)
        runs += at_once(callers, lambda caller: rows(caller, "ff_tick", max_ms=60_000))
        assert engine.due() == []
    ran = [run["scanner"] for run in runs if run["status"] == "ran"]
    # 4 s: every 750, 1500 and 5000 ms, and each time by one of the eight only.
    assert {name: ran.count(name) for name in ("delayed", "lease_expiry", "execution_deadline")} == {
        "delayed": 5,
        "lease_expiry": 3,
        "execution_deadline": 1,
    }
    assert engine.count("eligibility_state = 'not_eligible_until_time'") == value(
        engine.db,
        "select count(*) from flowfabric.ff_exec_core where delay_until_ms > %s",
        [engine.schedule("delayed")["last_run_at_ms"]],
    )


def test_a_scanner_that_another_caller_has_just_run_is_not_run_again(
    engine: Engine, connect: Connect
) -> None:
    engine.lease(1)
    engine.clock.advance(1000)
    engine.stop_at(1)
    gate, slow = connect(autocommit=False), connect()
    gate.execute("select pg_advisory_xact_lock(1)")
    # It has read the whole schedule, and is at the first scanner.
    ticking = in_background(lambda: tick(slow))
    wait_until_blocked(engine.db, slow, by=gate)
    assert statuses(tick(engine.db, "delayed", "lease_expiry")) == {"lease_expiry": "busy", "delayed": "ran"}
    gate.rollback()
    assert "delayed" not in ticking.result()
    assert tick(engine.db, "delayed")["delayed"]["status"] == "not_due"


def test_different_scanners_run_side_by_side(engine: Engine, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect(autocommit=False)
    assert tick(first, "lease_expiry")["lease_expiry"]["status"] == "ran"
    assert statuses(tick(second, "lease_expiry", "delayed")) == {"lease_expiry": "busy", "delayed": "ran"}
    first.commit()
    second.commit()
    assert tick(engine.db, "lease_expiry")["lease_expiry"]["status"] == "not_due"


@pytest.fixture
def stopped(engine: Engine, connect: Connect) -> tuple[Engine, Connection, Connection]:
    """An engine, a gate, and a tick that has done half of its work when it comes to the gate."""
    engine.lease(*range(10))
    for number in range(20, 25):
        engine.create(number, delay_until_ms=1_000_500)
    engine.clock.advance(1000)
    engine.stop_at(5)
    gate = connect(autocommit=False)
    gate.execute("select pg_advisory_xact_lock(1)")
    return engine, gate, connect()


def assert_nothing_happened(engine: Engine) -> None:
    assert engine.events("ff_lease_event", "expired") == {}
    assert engine.count("ownership_state = 'leased'") == 10
    assert engine.schedule("lease_expiry")["last_run_at_ms"] is None
    assert engine.schedule("lease_expiry")["total_processed"] == 0
    assert rows(engine.db, "ff_list_scanner_failures") == []
    assert "lease_expiry" in engine.due()


def assert_the_next_tick_does_it(engine: Engine) -> None:
    runs = tick(engine.db)
    assert {name: runs[name]["processed"] for name in ("lease_expiry", "delayed")} == {
        "lease_expiry": 10,
        "delayed": 5,
    }
    assert engine.events("ff_lease_event", "expired") == dict.fromkeys(range(10), 1)
    assert rows(engine.db, "ff_check_invariants") == []


def test_a_tick_that_is_killed_leaves_no_half_state(stopped: tuple[Engine, Connection, Connection]) -> None:
    engine, gate, victim = stopped
    ticking = in_background(lambda: tick(victim))
    wait_until_blocked(engine.db, victim, by=gate)
    assert value(engine.db, "select pg_terminate_backend(%s)", [victim.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        ticking.result()
    gate.rollback()
    assert_nothing_happened(engine)
    assert_the_next_tick_does_it(engine)


def test_a_tick_that_is_cancelled_ends_and_leaves_no_half_state(
    stopped: tuple[Engine, Connection, Connection],
) -> None:
    engine, gate, victim = stopped
    ticking = in_background(lambda: tick(victim))
    wait_until_blocked(engine.db, victim, by=gate)
    victim.cancel()
    # A cancelled call is not a failed item: it must not be swallowed by the blocks that isolate items.
    with pytest.raises(psycopg.errors.QueryCanceled):
        ticking.result()
    gate.rollback()
    assert_nothing_happened(engine)
    assert_the_next_tick_does_it(engine)


def test_a_rolled_back_tick_is_as_if_it_never_was(engine: Engine, connect: Connect) -> None:
    engine.lease(*range(10))
    engine.clock.advance(1000)
    caller = connect(autocommit=False)
    assert tick(caller, "lease_expiry")["lease_expiry"]["processed"] == 10
    caller.rollback()
    assert_nothing_happened(engine)


def test_a_worker_is_never_the_victim_of_a_tick(engine: Engine, connect: Connect) -> None:
    engine.lease(1, 2)
    engine.clock.advance(1000)
    engine.db.execute(
        """
        insert into flowfabric.ff_budget_policy (
            budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit, created_at_ms,
            updated_at_ms)
        values ('budget', 'tenant', 't', 'strict', 'fail', 'warn', 0, 0);
        insert into flowfabric.ff_budget_usage (budget_id, dimension, reserved_value, updated_at_ms)
        values ('budget', 'tokens', 30, 0);
        insert into flowfabric.ff_budget_reservation (
            budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions,
            amounts, reserved_at_ms)
        select 'budget', 'r', partition_key, execution_id, current_attempt_id, 1, '{tokens}', '{30}', 0
        from flowfabric.ff_exec_core where execution_id = '00000000-0000-4000-8000-000000000002';
        update flowfabric.ff_exec_core set open_reservation_count = 1
        where execution_id = '00000000-0000-4000-8000-000000000002'"""
    )
    worker, ticker = connect(autocommit=False), connect(autocommit=False)
    worker.execute("select from flowfabric.ff_budget_policy for no key update")
    ticking = in_background(lambda: tick(ticker, "lease_expiry"))
    wait_until_blocked(engine.db, ticker, by=worker)
    # The tick holds execution 1 and waits for the budget; the worker holds the budget and wants execution 1.
    wanting = in_background(
        lambda: (
            worker.execute(
                "select from flowfabric.ff_exec_core where execution_id = %s for no key update", [uuid(1)]
            ).rowcount
        )
    )
    run = ticking.result()["lease_expiry"]
    assert (run["processed"], run["skipped"], run["errors"]) == (1, 1, 0)
    ticker.commit()
    assert wanting.result() == 1
    worker.rollback()
    engine.clock.advance(1500)
    assert tick(engine.db, "lease_expiry")["lease_expiry"]["processed"] == 1


def test_work_of_a_worker_that_dies_is_taken_over_within_lease_time_and_one_tick(
    engine: Engine, role_connection: RoleConnection
) -> None:
    lease_ms = 30_000
    lanes = {"lanes": ["default"], "worker_id": "w", "lease_ttl_ms": lease_ms}
    engine.create(1)
    dying, heir = role_connection("flowfabric_worker"), role_connection("flowfabric_worker", autocommit=False)
    operator = role_connection("flowfabric_operator")
    tick(operator)
    lease = call(dying, "ff_claim_next", **lanes, worker_instance_id="w-1")
    fence = {name: lease[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}
    call(dying, "ff_append_frame", **fence, attempt_index=0, frame_type="stdout", payload=b"half of it")
    # It dies in the middle of a write that it has not committed.
    dying.execute("begin")
    call(dying, "ff_append_frame", **fence, attempt_index=0, frame_type="stdout", payload=b"never said")
    assert value(engine.db, "select pg_terminate_backend(%s, 10000)", [dying.info.backend_pid])

    def stream() -> tuple[list[bytes], str | None]:
        frames = rows(operator, "ff_read_attempt_stream", execution_id=wire_id(1), attempt_index=0)
        return [frame["payload"] for frame in frames], frames[0]["closed_reason"]

    def reclaim() -> list[Row]:
        heir.rollback()
        return rows(heir, "ff_reclaim_next", **lanes, worker_instance_id="w-2")

    engine.clock.advance(lease_ms - 1)
    tick(operator)
    assert reclaim() == []
    assert stream() == ([b"half of it"], None)

    # One interval of the scanner later somebody who watches the stream knows, and the work is offered.
    engine.clock.advance(1 + engine.schedule("lease_expiry")["interval_ms"])
    assert tick(operator)["lease_expiry"]["processed"] == 1
    assert stream() == ([b"half of it"], "lease_expired")
    (taken,) = reclaim()
    heir.commit()
    assert (taken["execution_id"], taken["attempt_index"]) == (wire_id(1), 1)
    assert stream() == ([b"half of it"], "reclaimed")
    assert engine.events("ff_lease_event", "expired") == {1: 1}
    assert engine.events("ff_lease_event", "reclaimed") == {1: 1}

    # The one that was thought dead comes back, and can change nothing.
    back = role_connection("flowfabric_worker")
    with pytest.raises(psycopg.errors.DatabaseError, match="stale_lease"):
        call(back, "ff_complete_execution", **fence)
    with pytest.raises(psycopg.errors.DatabaseError, match="stale_owner_cannot_append"):
        call(back, "ff_append_frame", **fence, attempt_index=0, frame_type="stdout", payload=b"still here")
    new = {name: taken[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}
    assert call(heir, "ff_complete_execution", **new)["outcome"] == "completed"
    heir.commit()
    assert rows(engine.db, "ff_check_invariants") == []


def test_time_is_bounded_however_much_is_due(engine: Engine) -> None:
    # Every scanner says that it has more to do, for ever, and takes its time.
    engine.db.execute(
        """
        create or replace function flowfabric._ff_run_scanner(p_scanner text, p_limit integer)
        returns flowfabric.ff_scan language plpgsql volatile
        as $$ begin perform pg_sleep(0.05); return row(1, 0, 0, true)::flowfabric.ff_scan; end $$"""
    )
    scanners = len(rows(engine.db, "ff_list_scanners"))
    seen: set[str] = set()
    for _ in range(scanners):
        started = time.monotonic()
        runs = tick(engine.db, max_ms=200)
        # One scanner that was started in time may end after it.
        assert time.monotonic() - started < 2
        assert len(runs) == scanners
        seen |= {name for name, run in runs.items() if run["status"] == "ran"}
        assert {run["status"] for run in runs.values()} == {"ran", "out_of_time"}
        engine.clock.advance(100_000)
        if len(seen) == scanners:
            return
    raise AssertionError(f"never had their turn: {engine.due()}")


def test_setting_a_scanner_waits_for_the_tick_that_runs_it(engine: Engine, connect: Connect) -> None:
    ticker, operator = connect(autocommit=False), connect()
    tick(ticker, "delayed")
    setting = in_background(lambda: call(operator, "ff_set_scanner", scanner="delayed", enabled=False))
    wait_until_blocked(engine.db, operator, by=ticker)
    ticker.commit()
    assert setting.result() == {"outcome": "changed"}
    # Neither has overwritten what the other did.
    schedule = engine.schedule("delayed")
    assert (schedule["enabled"], schedule["last_run_at_ms"]) == (False, 1_000_000)


def expired_keys(engine: Engine, count: int) -> None:
    for number in range(count):
        engine.create(number, idempotency_key=f"key-{number}", dedup_ttl_ms=1000)
    engine.clock.advance(1000)


def test_two_sweeps_share_expired_keys(engine: Engine, connect: Connect) -> None:
    expired_keys(engine, 10)
    first = connect(autocommit=False)
    assert call(first, "ff_sweep_dedup", limit=4) == {"processed": 4, "skipped": 0, "errors": 0, "more": True}
    assert call(engine.db, "ff_sweep_dedup", limit=10) == {
        "processed": 6,
        "skipped": 4,
        "errors": 0,
        "more": False,
    }
    first.commit()
    assert value(engine.db, "select count(*) from flowfabric.ff_execution_idempotency") == 0


def test_a_key_that_somebody_is_using_anew_is_kept(engine: Engine, connect: Connect) -> None:
    expired_keys(engine, 2)
    producer = connect(autocommit=False)
    call(
        producer,
        "ff_create_execution",
        execution_kind="test",
        execution_id=wire_id(7),
        idempotency_key="key-1",
        dedup_ttl_ms=1000,
    )
    assert call(engine.db, "ff_sweep_dedup")["processed"] == 1
    producer.commit()
    assert call(engine.db, "ff_sweep_dedup")["processed"] == 0
    assert value(engine.db, "select execution_id::text from flowfabric.ff_execution_idempotency") == uuid(7)


def test_a_run_that_took_long_and_found_nothing_is_followed_by_a_rest(
    db: Connection, old_snapshot: Callable[[], None]
) -> None:
    fill(db, 50_000, state="leased")
    db.execute("update flowfabric.ff_exec_core set lease_expires_at_ms = 1")
    old_snapshot()
    db.execute("delete from flowfabric.ff_exec_core")
    call(db, "ff_set_scanner", scanner="lease_expiry", interval_ms=10)
    assert tick(db, "lease_expiry")["lease_expiry"]["processed"] == 0
    rest = value(
        db, "select next_due_at_ms - last_run_at_ms from flowfabric.ff_scanner where scanner = 'lease_expiry'"
    )
    assert 10 < rest <= 100, "50 000 dead entries take more than a millisecond"
    assert rest % 20 == 0
