"""What one session holds stops no other: advisory locks, and a tick that is never committed."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.conftest import Clock, Connect, RoleConnection
from tests.scanner.test_tick_loop import loop, wait_until_it_loops
from tests.scanner.ticking import Engine, Row, call, rows, statuses, tick, value
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until

A_MINUTE = 60_000

#: The keys under which the engine took advisory locks before.
ADVISORY_KEYS = ("7378697629483820", "hashtextextended('flowfabric.ff_waitpoint_hmac', 0)")


@pytest.fixture
def engine(db: Connection, clock: Clock) -> Engine:
    """Every scanner has run once, at 1 000 000 ms."""
    clock.freeze(1_000_000)
    tick(db)
    return Engine(db, clock)


@pytest.fixture
def open_tick(engine: Engine, role_connection: RoleConnection) -> Connection:
    """A worker whose tick ran every scanner and was never committed."""
    worker = role_connection("flowfabric_worker", autocommit=False)
    engine.clock.advance(A_MINUTE)
    assert set(statuses(tick(worker)).values()) == {"ran"}
    return worker


def intervals(db: Connection) -> dict[str, int]:
    return {row["scanner"]: row["interval_ms"] for row in rows(db, "ff_list_scanners")}


def holders(db: Connection) -> list[Row]:
    return [
        finding["detail"]
        for finding in rows(db, "ff_doctor")
        if finding["check_name"] == "scanners" and "pid" in finding["detail"]
    ]


# Advisory locks


def test_a_stranger_with_advisory_locks_stops_neither_the_loop_nor_a_rotation(
    db: Connection, role_connection: RoleConnection
) -> None:
    stranger = role_connection("pg_monitor")
    for key in ADVISORY_KEYS:
        stranger.execute(f"select pg_advisory_lock({key})")
    operator = role_connection("flowfabric_operator")
    operator.execute("set statement_timeout = '10s'")
    assert loop(operator, 300) >= 0.3
    assert all(row["last_run_at_ms"] is not None for row in rows(db, "ff_list_scanners"))
    rotated = call(operator, "ff_rotate_waitpoint_hmac_secret", new_kid="one")
    assert rotated["outcome"] == "rotated"


@pytest.mark.parametrize("table", ["ff_tick_loop_lock", "ff_waitpoint_hmac", "ff_scanner"])
def test_no_role_can_lock_what_the_engine_locks(role_connection: RoleConnection, table: str) -> None:
    for role in ("pg_monitor", "flowfabric_worker", "flowfabric_operator", "flowfabric_admin"):
        session = role_connection(role, autocommit=False)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(f"lock table flowfabric.{table} in access share mode")


def test_of_two_rotations_at_once_the_second_sees_the_first(db: Connection, connect: Connect) -> None:
    first = connect(autocommit=False)
    call(first, "ff_rotate_waitpoint_hmac_secret", new_kid="one")
    with pytest.raises(psycopg.Error) as refused:
        call(db, "ff_rotate_waitpoint_hmac_secret", new_kid="two")
    assert refused.value.sqlstate == "ZC018"
    assert json.loads(refused.value.diag.message_detail or "")["held_by"] == [first.info.backend_pid]
    assert value(db, "select count(*) from flowfabric.ff_list_waitpoint_hmac_kids()") == 0
    first.commit()
    assert call(db, "ff_rotate_waitpoint_hmac_secret", new_kid="two")["previous_kid"] == "one"


def test_a_loop_that_sleeps_holds_no_event_back(db: Connection, connect: Connect) -> None:
    looping = connect()
    running = in_background(lambda: loop(looping, A_MINUTE, interval_ms=30_000))
    wait_until_it_sleeps(db, looping)
    xid = "select backend_xid is null from pg_stat_activity where pid = %s"
    assert value(db, xid, [looping.info.backend_pid])
    looping.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        running.result()


def wait_until_it_sleeps(db: Connection, looping: Connection) -> None:
    wait_until_it_loops(db, looping)
    sleeping = "select coalesce(max(wait_event), '') = 'PgSleep' from pg_stat_activity where pid = %s"
    wait_until(lambda: bool(value(db, sleeping, [looping.info.backend_pid])), "the loop slept")


# A tick that stays open


def test_every_scanner_runs_although_an_open_tick_holds_its_row(
    engine: Engine, open_tick: Connection
) -> None:
    assert open_tick.info.transaction_status.name == "INTRANS"
    every = intervals(engine.db)
    # The last committed run was a minute before: only shorter intervals have passed twice since.
    early = statuses(tick(engine.db))
    assert {name for name, status in early.items() if status == "busy"} == {
        name for name, interval in every.items() if 2 * interval > A_MINUTE
    }
    assert "retention" in early, "and there are such"
    engine.clock.advance(A_MINUTE)
    # Others that ran a minute ago are due again, and those that were busy have waited long enough.
    assert statuses(tick(engine.db)) == dict.fromkeys(every, "ran")
    assert rows(engine.db, "ff_check_invariants") == []


def test_work_moves_on_beside_an_open_tick(engine: Engine, open_tick: Connection) -> None:
    engine.lease(1)
    engine.create(2, delay_until_ms=engine.clock.now_ms() + 500)
    engine.clock.advance(5_000)
    runs = tick(engine.db)
    assert runs["lease_expiry"]["processed"] == 1
    assert runs["delayed"]["processed"] == 1
    open_tick.rollback()
    assert rows(engine.db, "ff_check_invariants") == []


def test_a_scanner_without_its_row_runs_once_per_interval(engine: Engine, open_tick: Connection) -> None:
    interval = intervals(engine.db)["lease_expiry"]
    assert statuses(tick(engine.db, "lease_expiry")) == {"lease_expiry": "ran"}
    assert statuses(tick(engine.db, "lease_expiry")) == {"lease_expiry": "busy"}
    assert "lease_expiry" not in engine.due()
    assert engine.schedule("lease_expiry")["overdue_ms"] == 0
    engine.clock.advance(interval - 1)
    assert statuses(tick(engine.db, "lease_expiry")) == {"lease_expiry": "busy"}
    engine.clock.advance(1)
    assert "lease_expiry" in engine.due()
    assert statuses(tick(engine.db, "lease_expiry")) == {"lease_expiry": "ran"}
    assert value(engine.db, "select count(*) from flowfabric.ff_scanner_detour") == 1


def test_the_exact_instant_is_twice_the_interval(engine: Engine, role_connection: RoleConnection) -> None:
    interval = intervals(engine.db)["lease_expiry"]
    worker = role_connection("flowfabric_worker", autocommit=False)
    engine.clock.advance(interval)
    assert statuses(tick(worker, "lease_expiry")) == {"lease_expiry": "ran"}
    engine.clock.advance(interval - 1)
    assert statuses(tick(engine.db, "lease_expiry")) == {"lease_expiry": "busy"}
    engine.clock.advance(1)
    assert statuses(tick(engine.db, "lease_expiry")) == {"lease_expiry": "ran"}


def test_several_open_ticks_stop_nothing_either(
    engine: Engine, open_tick: Connection, role_connection: RoleConnection
) -> None:
    engine.clock.advance(A_MINUTE)
    others = [role_connection("flowfabric_worker", autocommit=False) for _ in range(3)]
    for other in others:
        assert set(statuses(tick(other)).values()) == {"ran"}, "each beside those before it"
    assert set(statuses(tick(engine.db)).values()) == {"ran"}
    for other in others:
        other.commit()
    open_tick.commit()
    engine.clock.advance(2 * A_MINUTE)
    assert set(statuses(tick(engine.db)).values()) == {"ran"}
    assert value(engine.db, "select count(*) from flowfabric.ff_scanner_detour") == 0


def test_after_the_commit_scanners_run_with_their_rows_again(engine: Engine, open_tick: Connection) -> None:
    tick(engine.db)
    open_tick.commit()
    engine.clock.advance(A_MINUTE)
    assert set(statuses(tick(engine.db)).values()) == {"ran"}
    assert value(engine.db, "select count(*) from flowfabric.ff_scanner_detour") == 0
    assert engine.schedule("lease_expiry")["last_run_at_ms"] == engine.clock.now_ms()


def test_doctor_names_the_session_that_holds_what_must_stay_single(
    db: Connection, clock: Clock, role_connection: RoleConnection
) -> None:
    """A stream is pruned by one session at a time, or its position would be torn."""
    clock.reset()
    tick(db)
    assert holders(db) == []
    clock.advance(A_MINUTE)
    for _ in range(2):
        call(
            db, "ff_cancel_execution", execution_id=new_execution(db), reason="x", source="operator_override"
        )
    clock.advance(8 * 86_400_000)
    worker = role_connection("flowfabric_worker", autocommit=False)
    # A completion and an operator event of each cancellation.
    assert tick(worker, "event_prune")["event_prune"]["processed"] == 4
    assert holders(db) != [], "by the clock of the engine the transaction began days ago"
    runs = tick(db)
    assert runs["event_prune"]["status"] == "ran", "beside the one that is open"
    assert runs["event_prune"]["processed"] == 0, "but it leaves alone what that one holds"
    assert runs["event_prune"]["skipped"] >= 1
    (held,) = holders(db)
    assert held["pid"] == worker.info.backend_pid
    assert held["user"] == worker.info.user
    assert held["holds"] == ["ff_event_stream", "ff_scanner"]
    (finding,) = [f for f in rows(db, "ff_doctor") if f["detail"] == held]
    assert str(worker.info.backend_pid) in finding["what_to_do"]
    worker.rollback()
    assert holders(db) == []
    assert value(db, "select count(*) from flowfabric.ff_completion_event") == 2
    clock.advance(A_MINUTE)
    assert tick(db)["event_prune"]["processed"] == 4


def new_execution(db: Connection) -> str:
    return str(call(db, "ff_create_execution", execution_kind="test")["execution_id"])


def test_an_operator_that_cannot_set_a_scanner_learns_who_holds_it(
    engine: Engine, open_tick: Connection
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        call(engine.db, "ff_set_scanner", scanner="delayed", enabled=False)
    assert refused.value.sqlstate == "ZC018"
    detail = json.loads(refused.value.diag.message_detail or "")
    assert (detail["reason"], detail["held_by"]) == ("lock_timeout", [open_tick.info.backend_pid])
    open_tick.rollback()
    assert call(engine.db, "ff_set_scanner", scanner="delayed", enabled=False) == {"outcome": "changed"}
