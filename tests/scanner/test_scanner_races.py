"""Scanners beside workers and beside each other: they take what is free, wait for nobody, do things once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.conftest import Clock, Connect
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Row, call

FLOW = "00000000-0000-4000-8000-00000000f10e"
LEASE = "00000000-0000-4000-8000-00000000001e"
ATTEMPT = "00000000-0000-4000-8000-0000000000a7"
BUDGET = "tokens-of-tenant"


def wire_id(number: int) -> str:
    return f"{{fp:86}}:{uuid(number)}"


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def scan(connection: Connection, function: str = "ff_scan_expired_leases", limit: int = 1000) -> Row:
    return call(connection, function, limit=limit)


def value(connection: Connection, statement: str, arguments: list[Any] | None = None) -> Any:
    row = connection.execute(statement, arguments).fetchone()
    assert row is not None
    return row[0]


def result(processed: int, *, skipped: int = 0, errors: int = 0, more: bool = False) -> Row:
    return {"processed": processed, "skipped": skipped, "errors": errors, "more": more}


@dataclass
class Engine:
    """An installation with executions whose leases, attempts or delays are due."""

    db: Connection
    clock: Clock

    def lease(self, *numbers: int, ttl_ms: int = 1000, timeout_ms: int | None = None) -> None:
        """Lease executions to worker-1."""
        for number in numbers:
            call(self.db, "ff_create_execution", execution_kind="test", execution_id=wire_id(number))
            call(
                self.db,
                "ff_issue_grant_and_claim",
                execution_id=wire_id(number),
                lease_ttl_ms=ttl_ms,
                lease_id=LEASE,
                attempt_id=ATTEMPT,
                attempt_timeout_ms=timeout_ms,
            )

    def ownership(self, number: int) -> str:
        return str(self._column("ownership_state", number))

    def public_state(self, number: int) -> str:
        return str(value(self.db, "select flowfabric.ff_read_execution_state(%s)", [wire_id(number)]))

    def _column(self, name: str, number: int) -> Any:
        statement = f"select {name} from flowfabric.ff_exec_core where execution_id = %s"
        return value(self.db, statement, [uuid(number)])

    def events(self, event_type: str) -> dict[str, int]:
        """How many lease events of a type each execution has."""
        rows = self.db.execute(
            """select execution_id::text, count(*) from flowfabric.ff_lease_event
               where event_type = %s group by execution_id""",
            [event_type],
        )
        return dict(rows.fetchall())

    def failures(self) -> list[tuple[str, str, int]]:
        rows = self.db.execute(
            "select scanner, item_key, failures from flowfabric.ff_scanner_failure order by scanner, item_key"
        )
        return rows.fetchall()

    def poison(self, number: int) -> None:
        """Let every change of the attempt of one execution fail."""
        self.db.execute(
            f"""create function flowfabric.refuse() returns trigger language plpgsql
                as $$ begin raise exception 'poisoned'; end $$;
                create trigger poison before insert or update on flowfabric.ff_attempt for each row
                when (new.execution_id = '{uuid(number)}') execute function flowfabric.refuse()"""
        )


@pytest.fixture
def engine(db: Connection, clock: Clock) -> Engine:
    clock.freeze(1_000_000)
    return Engine(db, clock)


def lock(connection: Connection, *numbers: int) -> None:
    """Hold executions as an operation of a worker does that has not committed yet."""
    connection.execute(
        "select from flowfabric.ff_exec_core where execution_id = any (%s::uuid[]) for no key update",
        [[uuid(number) for number in numbers]],
    )


def is_free(observer: Connection, table: str, condition: str) -> bool:
    """Whether nobody holds a row."""
    try:
        observer.execute(f"select from flowfabric.{table} where {condition} for no key update nowait")
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def test_two_scanners_share_expired_leases(engine: Engine, connect: Connect) -> None:
    engine.lease(*range(200))
    engine.clock.advance(1000)
    first, second = connect(autocommit=False), connect()
    assert scan(first, limit=120) == result(120, more=True)
    assert scan(second) == result(80, skipped=120)
    first.commit()
    assert engine.events("expired") == {uuid(number): 1 for number in range(200)}
    assert scan(second) == result(0)


def test_many_scanners_mark_each_lease_once(engine: Engine, connect: Connect) -> None:
    engine.lease(*range(200))
    engine.clock.advance(1000)
    scanners = [connect() for _ in range(4)]

    def until_nothing_is_left(connection: Connection) -> list[Row]:
        scans = [scan(connection, limit=7)]
        while scans[-1]["processed"] or scans[-1]["skipped"]:
            scans.append(scan(connection, limit=7))
        return scans

    running = [in_background(partial(until_nothing_is_left, connection)) for connection in scanners]
    scans = [one for background in running for one in background.result()]
    assert sum(one["processed"] for one in scans) == 200
    assert sum(one["errors"] for one in scans) == 0
    assert engine.events("expired") == {uuid(number): 1 for number in range(200)}


def test_what_workers_hold_is_skipped_without_waiting(engine: Engine, connect: Connect) -> None:
    engine.lease(*range(40))
    engine.clock.advance(1000)
    worker = connect(autocommit=False)
    lock(worker, *range(1, 40))
    started = time.monotonic()
    assert scan(engine.db) == result(1, skipped=39)
    # Waiting for the lock timeout of 100 ms at each of them would take 3.9 s.
    assert time.monotonic() - started < 2
    worker.rollback()
    assert scan(engine.db) == result(39)


def test_a_lease_renewed_after_it_was_seen_expired_is_left_alone(engine: Engine, connect: Connect) -> None:
    engine.lease(1)
    engine.clock.advance(1)
    engine.lease(2)
    # The scanner has read both when it comes to the first, and stops there until it is let go. Its own lock
    # timeout would end that wait; the trigger has another.
    engine.db.execute(
        f"""create function flowfabric.stop() returns trigger language plpgsql set lock_timeout = 0
            as $$ begin perform pg_advisory_xact_lock(1); return new; end $$;
            create trigger stop before update on flowfabric.ff_exec_core for each row
            when (old.execution_id = '{uuid(1)}') execute function flowfabric.stop()"""
    )
    gate, worker, scanner = connect(autocommit=False), connect(autocommit=False), connect()
    gate.execute("select pg_advisory_xact_lock(1)")
    fence = {"lease_id": LEASE, "lease_epoch": 1, "attempt_id": ATTEMPT}
    call(worker, "ff_renew_lease", execution_id=wire_id(2), **fence, lease_ttl_ms=60_000)
    engine.clock.advance(2000)
    scanning = in_background(lambda: scan(scanner))
    wait_until_blocked(engine.db, scanner, by=gate)
    worker.commit()
    gate.rollback()
    assert scanning.result() == result(1)
    assert engine.ownership(1) == "lease_expired_reclaimable"
    assert engine.ownership(2) == "leased"
    assert engine.events("expired") == {uuid(1): 1}


@pytest.fixture
def reserved(engine: Engine) -> Engine:
    """An expired lease under which something was reserved, and one without."""
    engine.lease(1, 2)
    engine.db.execute(
        """
        insert into flowfabric.ff_budget_policy (
            budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit, created_at_ms,
            updated_at_ms)
        values (%(budget)s, 'tenant', 't', 'strict', 'fail', 'warn', 0, 0)""",
        {"budget": BUDGET},
    )
    engine.db.execute(
        """
        insert into flowfabric.ff_budget_usage (budget_id, dimension, reserved_value, updated_at_ms)
        values (%(budget)s, 'tokens', 30, 0)""",
        {"budget": BUDGET},
    )
    engine.db.execute(
        """
        insert into flowfabric.ff_budget_reservation (
            budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions,
            amounts, reserved_at_ms)
        values (%(budget)s, 'r', 86, %(execution)s, %(attempt)s, 1, '{tokens}', '{30}', 0)""",
        {"budget": BUDGET, "execution": uuid(1), "attempt": ATTEMPT},
    )
    engine.db.execute(
        "update flowfabric.ff_exec_core set open_reservation_count = 1 where execution_id = %s", [uuid(1)]
    )
    engine.clock.advance(1000)
    return engine


def reserved_value(connection: Connection) -> int:
    return int(value(connection, "select reserved_value from flowfabric.ff_budget_usage"))


def test_a_wait_inside_an_item_ends_in_a_skip_that_undoes_it(reserved: Engine, connect: Connect) -> None:
    worker, scanner = connect(autocommit=False), connect(autocommit=False)
    worker.execute("select from flowfabric.ff_budget_policy for no key update")
    assert scan(scanner) == result(1, skipped=1)
    # The scanner's transaction is open and holds what it did, not what it gave up.
    assert is_free(reserved.db, "ff_exec_core", f"execution_id = '{uuid(1)}'")
    assert not is_free(reserved.db, "ff_exec_core", f"execution_id = '{uuid(2)}'")
    scanner.commit()
    worker.rollback()
    assert reserved.ownership(1) == "leased"
    assert reserved.events("expired") == {uuid(2): 1}
    assert scan(reserved.db) == result(1)
    assert reserved_value(reserved.db) == 0
    assert reserved.failures() == []


def test_a_worker_is_never_the_victim_of_a_scanner(reserved: Engine, connect: Connect) -> None:
    worker, scanner = connect(autocommit=False), connect()
    worker.execute("select from flowfabric.ff_budget_policy for no key update")
    scanning = in_background(lambda: scan(scanner))
    wait_until_blocked(reserved.db, scanner, by=worker)
    # Each holds what the other wants: the scanner gives way.
    lock(worker, 1)
    assert scanning.result() == result(1, skipped=1)
    worker.rollback()
    assert scan(reserved.db) == result(1)


def test_many_items_that_want_a_held_budget_do_not_make_a_scanner_wait_for_each(
    reserved: Engine, connect: Connect
) -> None:
    numbers = range(10, 60)
    reserved.lease(*numbers)
    reserved.db.execute(
        """
        insert into flowfabric.ff_budget_reservation (
            budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions,
            amounts, reserved_at_ms)
        select %(budget)s, e.execution_id, 86, e.execution_id, %(attempt)s, 1, '{tokens}', '{0}', 0
        from unnest(%(executions)s::uuid[]) as e (execution_id)""",
        {"budget": BUDGET, "attempt": ATTEMPT, "executions": [uuid(number) for number in numbers]},
    )
    reserved.db.execute(
        "update flowfabric.ff_exec_core set open_reservation_count = 1 where execution_id = any (%s)",
        [[uuid(number) for number in numbers]],
    )
    reserved.clock.advance(1000)
    # Waits of 100 ms for each would take five seconds.
    worker, scanner = connect(autocommit=False), connect(options="-c statement_timeout=2s")
    worker.execute("select from flowfabric.ff_budget_policy for no key update")
    assert scan(scanner) == result(1, skipped=51)
    assert value(scanner, "select current_setting('lock_timeout')") == "0"
    worker.rollback()
    assert scan(scanner) == result(51)


@pytest.fixture
def member(engine: Engine) -> Engine:
    """A member of a flow whose attempt is overdue."""
    engine.db.execute(
        """
        insert into flowfabric.ff_flow_core (
            partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms,
            last_mutation_at_ms)
        values (86, %s, 'test', 'default', 'open', 1, 0, 0)""",
        [FLOW],
    )
    engine.lease(1, timeout_ms=500)
    engine.db.execute("update flowfabric.ff_exec_core set flow_id = %s", [FLOW])
    engine.clock.advance(500)
    return engine


def test_a_member_of_a_busy_flow_is_left_for_the_next_call(member: Engine, connect: Connect) -> None:
    other = connect(autocommit=False)
    other.execute("select from flowfabric.ff_flow_core for no key update")
    assert scan(member.db, "ff_scan_attempt_timeouts") == result(0, skipped=1)
    other.rollback()
    assert scan(member.db, "ff_scan_attempt_timeouts") == result(1)
    assert member.public_state(1) == "expired"


def test_a_busy_member_does_not_leave_its_flow_locked(member: Engine, connect: Connect) -> None:
    worker, scanner = connect(autocommit=False), connect(autocommit=False)
    lock(worker, 1)
    assert scan(scanner, "ff_scan_attempt_timeouts") == result(0, skipped=1)
    assert is_free(member.db, "ff_flow_core", f"flow_id = '{FLOW}'")


def test_the_lease_scanner_does_not_care_for_flows(member: Engine, connect: Connect) -> None:
    other = connect(autocommit=False)
    other.execute("select from flowfabric.ff_flow_core for no key update")
    member.clock.advance(500)
    assert scan(member.db) == result(1)


def test_a_poisoned_item_stops_nobody_and_is_left_out_after_three_failures(engine: Engine) -> None:
    engine.lease(1, 2, 3, timeout_ms=500)
    engine.poison(2)
    engine.clock.advance(500)
    assert scan(engine.db, "ff_scan_attempt_timeouts") == result(2, errors=1)
    assert [engine.public_state(number) for number in (1, 2, 3)] == ["expired", "active", "expired"]
    assert engine.failures() == [("attempt_timeout", wire_id(2), 1)]
    assert scan(engine.db, "ff_scan_attempt_timeouts") == result(0, errors=1)
    assert scan(engine.db, "ff_scan_attempt_timeouts") == result(0, errors=1)
    assert engine.failures() == [("attempt_timeout", wire_id(2), 3)]
    assert scan(engine.db, "ff_scan_attempt_timeouts") == result(0)
    skip_until_ms = value(engine.db, "select skip_until_ms from flowfabric.ff_scanner_failure")
    engine.clock.freeze(skip_until_ms)
    assert scan(engine.db, "ff_scan_attempt_timeouts") == result(0, errors=1)
    assert engine.failures() == [("attempt_timeout", wire_id(2), 4)]


def test_two_scanners_that_fail_at_the_same_item_count_one_failure(engine: Engine, connect: Connect) -> None:
    engine.lease(1, timeout_ms=500)
    engine.poison(1)
    engine.clock.advance(500)
    first, second = connect(autocommit=False), connect()
    assert scan(first, "ff_scan_attempt_timeouts") == result(0, errors=1)
    assert scan(second, "ff_scan_attempt_timeouts") == result(0, errors=1)
    first.commit()
    assert engine.failures() == [("attempt_timeout", wire_id(1), 1)]


def test_two_scanners_share_due_delays(engine: Engine, connect: Connect) -> None:
    for number in range(50):
        call(
            engine.db,
            "ff_create_execution",
            execution_kind="test",
            execution_id=wire_id(number),
            lane_id=f"lane-{number % 3}",
            delay_until_ms=1_000_001,
        )
    engine.clock.advance(1)
    first, second = connect(autocommit=False), connect()
    assert scan(first, "ff_promote_due", limit=20) == result(20, more=True)
    assert scan(second, "ff_promote_due") == result(30, skipped=20)
    first.commit()
    waiting = "select count(*) from flowfabric.ff_v_execution where state = 'waiting'"
    assert value(engine.db, waiting) == 50


def test_two_callers_share_what_retention_removes(engine: Engine, connect: Connect) -> None:
    engine.lease(*range(30))
    for number in range(30):
        call(
            engine.db,
            "ff_complete_execution",
            execution_id=wire_id(number),
            lease_id=LEASE,
            lease_epoch=1,
            attempt_id=ATTEMPT,
        )
    engine.clock.advance(86_400_000)
    first, second = connect(autocommit=False), connect()
    assert scan(first, "ff_trim_retention", limit=10) == result(10, more=True) | {"flows_purged": 0}
    assert scan(second, "ff_trim_retention") == result(20, skipped=10) | {"flows_purged": 0}
    first.commit()
    assert value(engine.db, "select count(*) from flowfabric.ff_exec_core") == 0
    assert value(engine.db, "select count(*) from flowfabric.ff_completion_event") == 30


def test_an_execution_replayed_after_it_was_seen_due_is_not_removed(engine: Engine, connect: Connect) -> None:
    engine.lease(1)
    call(engine.db, "ff_cancel_execution", execution_id=wire_id(1), reason="test", source="operator_override")
    engine.clock.advance(86_400_000)
    operator = connect(autocommit=False)
    call(operator, "ff_replay_execution", execution_id=wire_id(1))
    assert scan(engine.db, "ff_trim_retention") == result(0, skipped=1) | {"flows_purged": 0}
    operator.commit()
    assert scan(engine.db, "ff_trim_retention") == result(0) | {"flows_purged": 0}
    assert engine.public_state(1) == "waiting"


def test_a_flow_in_use_is_not_removed(engine: Engine, connect: Connect) -> None:
    engine.db.execute(
        """
        insert into flowfabric.ff_flow_core (
            partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms,
            last_mutation_at_ms)
        values (86, %s, 'test', 'default', 'cancelled', 0, 0, 0)""",
        [FLOW],
    )
    engine.clock.advance(604_800_000)
    other = connect(autocommit=False)
    other.execute("select from flowfabric.ff_flow_core for no key update")
    assert scan(engine.db, "ff_trim_retention") == result(0, skipped=1) | {"flows_purged": 0}
    other.rollback()
    assert scan(engine.db, "ff_trim_retention") == result(0) | {"flows_purged": 1}
