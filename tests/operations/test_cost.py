"""What operating an installation costs when it is old: nothing is read that has ended, and counts stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.support.cluster import Cluster, Connection

ENDED = 200_000
WAITING = 100_000

# By hand, because making them through the engine would take minutes.
HISTORY = f"""
insert into flowfabric.ff_lane_registry (lane_id, lane_crc, registered_at_ms, registered_by)
values ('default', 0, 0, 'test') on conflict do nothing;
insert into flowfabric.ff_exec_core (
    partition_key, execution_id, total_attempt_count, current_lease_epoch, lifecycle_phase, ownership_state,
    eligibility_state, blocking_reason, terminal_outcome, attempt_state, created_at_ms, last_transition_at_ms,
    last_mutation_at_ms, terminal_at_ms, namespace, lane_id, execution_kind)
select
    86, gen_random_uuid(), 1, 1, 'terminal', 'unowned', 'not_applicable', 'none', 'success',
    'attempt_terminal', n, clock.now_ms, n, clock.now_ms, 'default', 'default', 'test'
from (select flowfabric.ff_now_ms() as now_ms offset 0) as clock
cross join generate_series(1, {ENDED}) as n"""

BACKLOG = f"""
insert into flowfabric.ff_exec_core (
    partition_key, execution_id, lifecycle_phase, ownership_state, eligibility_state, blocking_reason,
    attempt_state, created_at_ms, last_transition_at_ms, last_mutation_at_ms, namespace, lane_id,
    execution_kind, priority)
select
    86, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'runnable', 'unowned', 'eligible_now',
    'waiting_for_worker', 'pending_first_attempt', 1000000 + n, 1000000 + n, 1000000 + n, 'default',
    'default', 'test', n % 3
from generate_series(1, {WAITING}) as n"""


@dataclass
class Reads:
    """What one statement read of the table of executions."""

    sequential_scans: int
    rows: int
    seconds: float


def reads_of(connection: Connection, statement: str) -> Reads:
    def counted() -> tuple[int, int]:
        row = connection.execute(
            """select seq_scan, seq_tup_read + idx_tup_fetch
               from pg_stat_xact_user_tables where relname = 'ff_exec_core'"""
        ).fetchone()
        assert row is not None
        return row[0], row[1]

    # The counters of a transaction begin with what is not yet reported of the ones before.
    with connection.transaction(force_rollback=True):
        scans_before, rows_before = counted()
        started = time.monotonic()
        connection.execute(statement)
        seconds = time.monotonic() - started
        scans, rows = counted()
    return Reads(scans - scans_before, rows - rows_before, seconds)


@pytest.fixture(scope="module")
def old(server: Cluster) -> Iterator[Connection]:
    """An installation with a long history and a handful of executions that have not ended."""
    name = server.create_database(server.template)
    with psycopg.connect(server.dsn(name), autocommit=True) as connection:
        connection.execute(HISTORY)
        connection.execute(
            """
            select flowfabric.ff_create_execution('test') from generate_series(1, 5);
            select flowfabric.ff_claim_next('{default}', 'w', 'w-1', p_max => 2);
            select flowfabric.ff_register_worker('w', 'w-1')"""
        )
        yield connection
    server.drop_database(name)


@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed"])
@pytest.mark.parametrize(
    "statement",
    [
        "select * from flowfabric.ff_metrics()",
        "select * from flowfabric.ff_queue_stats()",
        "select * from flowfabric.ff_doctor()",
        "select * from flowfabric.ff_tick(p_force => true)",
    ],
)
def test_history_is_not_read(old: Connection, statement: str, analysed: bool) -> None:
    if analysed:
        old.execute("analyze flowfabric.ff_exec_core")
    reads = reads_of(old, statement)
    assert reads.sequential_scans == 0
    assert reads.rows < 1000


@pytest.mark.parametrize("view", ["ff_v_running", "ff_v_lane", "ff_v_worker"])
def test_views_of_what_goes_on_do_not_read_history(old: Connection, view: str) -> None:
    old.execute("analyze flowfabric.ff_exec_core")
    reads = reads_of(old, f"select * from flowfabric.{view}")
    assert reads.sequential_scans == 0
    assert reads.rows < 1000


@pytest.fixture(scope="module")
def busy(server: Cluster) -> Iterator[Connection]:
    """An installation with 100 000 executions in one lane, of three priorities."""
    name = server.create_database(server.template)
    with psycopg.connect(server.dsn(name), autocommit=True) as connection:
        connection.execute("select flowfabric.ff_register_lane('default')")
        connection.execute(BACKLOG)
        connection.execute("select flowfabric.ff_register_worker('w', 'w-1')")
        connection.execute("analyze flowfabric.ff_exec_core")
        yield connection
    server.drop_database(name)


def ahead_of(connection: Connection, number: int) -> tuple[str, int]:
    row = connection.execute(
        "select w.verdict, (w.detail ->> 'ahead')::integer from flowfabric.ff_why(%s) as w",
        [f"{{fp:86}}:00000000-0000-4000-8000-{number:012d}"],
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_why_stops_counting_in_a_long_queue(busy: Connection) -> None:
    # 2 is the highest priority; the first of it is number 2, then every third.
    assert ahead_of(busy, 2) == ("queued", 0)
    assert ahead_of(busy, 302) == ("queued", 100)
    assert ahead_of(busy, 3) == ("queued", 10_000)
    assert ahead_of(busy, WAITING) == ("queued", 10_000)


@pytest.mark.parametrize("number", [2, 3, WAITING])
def test_why_reads_no_more_than_it_counts(busy: Connection, number: int) -> None:
    statement = f"select flowfabric.ff_why('{{fp:86}}:00000000-0000-4000-8000-{number:012d}')"
    reads = reads_of(busy, statement)
    assert reads.sequential_scans == 0
    assert reads.rows <= 10_000 + 100
    # Some 10 ms; reading the whole lane would be ten times as much.
    assert reads.seconds < 5


def test_the_oldest_of_a_long_queue_is_found_without_reading_it(busy: Connection) -> None:
    reads = reads_of(busy, "select flowfabric._ff_oldest_eligible('default')")
    assert reads.rows < 100
    assert busy.execute("select flowfabric._ff_oldest_eligible('default')").fetchone() == (1_000_001,)


def test_metrics_count_up_to_their_cap(busy: Connection) -> None:
    measured = "select value, capped from flowfabric.ff_metrics() where metric = 'queue_depth' "
    in_lane = measured + 'and labels = \'{"lane": "default", "state": "waiting"}\''
    assert busy.execute(in_lane).fetchone() == (100_000, False)
    busy.execute("select flowfabric.ff_create_execution('test')")
    assert busy.execute(in_lane).fetchone() == (100_000, True)
    assert reads_of(busy, "select * from flowfabric.ff_metrics()").sequential_scans == 0
