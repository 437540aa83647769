"""The cost of an item does not depend on how many others there are, nor on what the statistics say.

A plan that was made when the tables were small, or empty, lives as long as its session. So the batch
functions are called in one session while the tables grow under them, and asked what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from tests.batch.support import (
    Lease,
    complete,
    create_flow,
    fail,
    join_flow,
    outcomes,
    renew,
    rows,
    wire_id,
)
from tests.conftest import Connect
from tests.support.cluster import Connection
from tests.support.engine import Row

TABLES = ["ff_exec_core", "ff_exec_payload", "ff_attempt"]
FLOW = UUID(int=0xF10F)

#: An item is looked up when flows are locked, when it is locked itself, and when it is refused; a member of a
#: flow once more by each of its moves.
READS_PER_ITEM = 8

Batch = Callable[[Connection, Sequence[Lease]], list[Row]]


def complete_with_results(connection: Connection, leases: Sequence[Lease]) -> list[Row]:
    return complete(connection, leases, results=[b"result"] * len(leases))


def retry(connection: Connection, leases: Sequence[Lease]) -> list[Row]:
    return fail(connection, leases, retry_policies=[Jsonb({"max_retries": 1})] * len(leases))


BATCHES = [complete, complete_with_results, fail, retry, renew]


def add_leases(connection: Connection, count: int) -> list[Lease]:
    """Live leases in numbers for which the engine's own functions would take too long.

    Every other attempt has its row, as one that was paused before.
    """
    connection.execute(
        """
        with core as (
            insert into flowfabric.ff_exec_core (
                partition_key, execution_id, namespace, lane_id, execution_kind, lifecycle_phase,
                ownership_state, eligibility_state, blocking_reason, attempt_state, total_attempt_count,
                current_lease_epoch, created_at_ms, last_transition_at_ms, last_mutation_at_ms, started_at_ms,
                lease_acquired_at_ms, lease_expires_at_ms, lease_last_renewed_at_ms, current_attempt_id,
                current_lease_id, current_worker_id, current_worker_instance_id, attempt_is_deferred)
            select
                86, gen_random_uuid(), 'default', 'default', 'test', 'active', 'leased', 'not_applicable',
                'none', 'running_attempt', 1, 1, now.ms, now.ms, now.ms, now.ms, now.ms, now.ms + 3600000,
                now.ms, gen_random_uuid(), gen_random_uuid(), 'worker', 'worker-1', n %% 2 = 0
            from flowfabric.ff_now_ms() as now (ms), generate_series(1, %s) as n
            returning *
        ),
        payload as (
            insert into flowfabric.ff_exec_payload (partition_key, execution_id)
            select c.partition_key, c.execution_id from core as c
        )
        insert into flowfabric.ff_attempt (
            partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id,
            lease_epoch, created_at_ms, started_at_ms, worker_id, worker_instance_id)
        select
            c.partition_key, c.execution_id, 0, 'initial', 'started', c.current_attempt_id,
            c.current_lease_id, 1, c.created_at_ms, c.created_at_ms, 'worker', 'worker-1'
        from core as c
        where not c.attempt_is_deferred
        """,
        [count],
    )
    return [
        Lease(wire_id(row["execution_id"]), row["current_lease_id"], 1, row["current_attempt_id"])
        for row in rows(
            connection,
            """
            select e.execution_id, e.current_lease_id, e.current_attempt_id
            from flowfabric.ff_exec_core as e
            where e.ownership_state = 'leased'
            order by random()
            """,
        )
    ]


@dataclass(frozen=True)
class Reads:
    """What a session has read of a table: whole passes over it, and rows by an index."""

    sequential_scans: int
    rows_by_index: int


def reads(connection: Connection) -> dict[str, Reads]:
    """What this session has read and not yet reported to the server's statistics."""
    found = rows(
        connection,
        """
        select s.relname::text as name, s.seq_scan, coalesce(s.idx_tup_fetch, 0) as fetched
        from pg_stat_xact_user_tables as s
        where s.schemaname = 'flowfabric' and s.relname = any(%s)
        """,
        [TABLES],
    )
    return {row["name"]: Reads(int(row["seq_scan"]), int(row["fetched"])) for row in found}


def check_reads(connection: Connection, batch: Batch, leases: Sequence[Lease]) -> None:
    """Run a batch and hold what it read against the number of its items."""
    with connection.transaction():
        before = reads(connection)
        answers = batch(connection, leases)
        after = reads(connection)
    told = set(outcomes(answers))
    assert told <= {"completed", "terminal_failed", "retry_scheduled", "renewed", "stale_lease"}
    assert len(told) == 2, "some items are accepted and some refused"
    for table in TABLES:
        assert after[table].sequential_scans == before[table].sequential_scans, table
        read = after[table].rows_by_index - before[table].rows_by_index
        assert read <= READS_PER_ITEM * len(leases), table


def mixed(leases: Sequence[Lease]) -> list[Lease]:
    """The same items, but every tenth shows another epoch."""
    return [
        replace(lease, lease_epoch=7) if position % 10 == 0 else lease
        for position, lease in enumerate(leases)
    ]


@pytest.mark.parametrize("batch", BATCHES)
def test_a_plan_made_on_an_empty_install_reads_by_key(connect: Connect, db: Connection, batch: Batch) -> None:
    worker = connect()
    check_reads(worker, batch, mixed(add_leases(db, 100)))
    check_reads(worker, batch, mixed(add_leases(db, 20_000)[:100]))


@pytest.mark.parametrize("batch", BATCHES)
def test_a_plan_made_after_an_analyze_of_fifty_rows_reads_by_key(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    worker = connect()
    few = mixed(add_leases(db, 50))
    db.execute("analyze")
    check_reads(worker, batch, few)
    check_reads(worker, batch, mixed(add_leases(db, 20_000)[:100]))


@pytest.mark.parametrize("batch", BATCHES)
def test_a_plan_made_with_twenty_thousand_live_leases_reads_by_key(
    connect: Connect, db: Connection, batch: Batch
) -> None:
    leases = add_leases(db, 20_000)
    create_flow(db, FLOW)
    join_flow(db, FLOW, *leases[95:100])
    db.execute("analyze")
    worker = connect()
    check_reads(worker, batch, mixed(leases[:100]))
    check_reads(worker, batch, mixed(leases[100:1_100]))
