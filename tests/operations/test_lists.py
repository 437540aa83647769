"""What a page of a list costs: a bounded number of rows, however many there are and however few match.

The server counts the rows that a transaction reads, so no clock is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from flowfabric_client import AsyncClient, Client
from tests.conftest import Connect
from tests.support.cluster import Cluster, Connection

STORED = 100_000
#: What one call may read; a page of matches is found twice: in its index and in its table.
MOST_READ = 5_000
PARTITION = 86
FLOW = "550e8400-e29b-41d4-a716-446655440000"
FLOW_PARTITION = 24

# By hand, because making them through the engine would take minutes. Every 9000th is in a lane of its own.
EXECUTIONS = f"""
insert into flowfabric.ff_exec_core (
    partition_key, execution_id, lifecycle_phase, ownership_state, eligibility_state, blocking_reason,
    attempt_state, created_at_ms, last_transition_at_ms, last_mutation_at_ms, namespace, lane_id,
    execution_kind, delay_until_ms)
select
    {PARTITION}, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'runnable', 'unowned',
    case when n % 9000 = 0 then 'not_eligible_until_time'::flowfabric.ff_eligibility_state
        else 'eligible_now' end,
    case when n % 9000 = 0 then 'waiting_for_delay'::flowfabric.ff_blocking_reason
        else 'waiting_for_worker' end,
    'pending_first_attempt', n, n, n, case when n % 9000 = 0 then 'rare' else 'default' end,
    case when n % 9000 = 0 then 'rare' else 'default' end, 'test',
    case when n % 9000 = 0 then 9000000000000 end
from generate_series(1, {STORED}) as n;
insert into flowfabric.ff_exec_payload (partition_key, execution_id, tags)
select
    {PARTITION}, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
    case when n % 9000 = 0 then '{{"app.rare": "yes"}}'::jsonb else '{{}}' end
from generate_series(1, {STORED}) as n;
insert into flowfabric.ff_exec_core (
    partition_key, execution_id, flow_id, lifecycle_phase, ownership_state, eligibility_state,
    blocking_reason, attempt_state, created_at_ms, last_transition_at_ms, last_mutation_at_ms, namespace,
    lane_id, execution_kind)
select
    {FLOW_PARTITION}, gen_random_uuid(), '{FLOW}', 'runnable', 'unowned', 'eligible_now',
    'waiting_for_worker', 'pending_first_attempt', n, n, n, 'default', 'default', 'test'
from generate_series(1, 10) as n"""

RARE = [f"{{fp:{PARTITION}}}:00000000-0000-4000-8000-{n:012d}" for n in range(9000, STORED, 9000)]

#: Filters that few executions pass.
FILTERS: dict[str, dict[str, Any]] = {
    "lane": {"lane_id": "rare"},
    "namespace": {"namespace": "rare"},
    "state": {"public_state": "delayed"},
    "tag": {"tag_key": "app.rare", "tag_value": "yes"},
    "lane and partition": {"lane_id": "rare", "partition_key": PARTITION},
}
#: Filters that none passes.
NOTHING: dict[str, dict[str, Any]] = {
    "lane": {"lane_id": "none"},
    "phase": {"lifecycle_phase": "suspended"},
    "state": {"public_state": "failed"},
    "flow and lane": {"lane_id": "none", "flow_id": FLOW},
}


@pytest.fixture(scope="module", params=["never analysed", "analysed when empty", "analysed"])
def full(request: pytest.FixtureRequest, server: Cluster) -> Iterator[Connection]:
    """An installation with 100 000 executions in one lane, and 11 in another."""
    name = server.create_database(server.template)
    with psycopg.connect(server.dsn(name), autocommit=True) as connection:
        if request.param == "analysed when empty":
            connection.execute("analyze flowfabric.ff_exec_core, flowfabric.ff_exec_payload")
        connection.execute(EXECUTIONS)
        if request.param == "analysed":
            connection.execute("analyze flowfabric.ff_exec_core, flowfabric.ff_exec_payload")
        yield connection
    server.drop_database(name)


def read_page(
    connection: Connection,
    arguments: dict[str, Any],
    function: str = "ff_list_executions",
    *,
    keep: bool = False,
) -> tuple[list[dict[str, Any]], int]:
    """A page of a list, and how many rows were read for it."""

    def counted() -> int:
        row = connection.execute(
            """select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))
               from pg_stat_xact_user_tables where schemaname = 'flowfabric'"""
        ).fetchone()
        assert row is not None
        return int(row[0])

    types = {"flow_id": "uuid", "cursor": "uuid", "partition_key": "smallint", "limit": "integer"}
    types |= dict.fromkeys(("after_expires_at_ms", "after_suspended_at_ms"), "bigint")
    types |= {"after_partition_key": "smallint"}
    if function == "ff_list_expired_leases":
        types["after_execution_id"] = "uuid"
    given = ", ".join(f"p_{name} => %({name})s::{types.get(name, 'text')}" for name in arguments)
    with connection.transaction(force_rollback=not keep), connection.cursor(row_factory=dict_row) as cursor:
        before = counted()
        page = cursor.execute(f"select * from flowfabric.{function}({given})", arguments).fetchall()
        return page, counted() - before


def walk(connection: Connection, arguments: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Every execution that a list has, page by page, and what each page read."""
    found: list[str] = []
    reads: list[int] = []
    after: str | None = None
    while True:
        page, read = read_page(connection, {**arguments, "after": after})
        reads.append(read)
        found += [row["execution_id"] for row in page if row["execution_id"] is not None]
        if not page or not page[-1]["has_more"]:
            return found, reads
        assert {row["next_after"] for row in page} == {page[-1]["next_after"]}
        assert page[-1]["next_after"] != after
        after = page[-1]["next_after"]


def most_read(arguments: dict[str, Any]) -> int:
    # The tags of an execution are in another row.
    return MOST_READ * (2 if "tag_key" in arguments else 1) + 10


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("arguments", FILTERS.values(), ids=FILTERS)
def test_a_rare_filter_finds_all_in_bounded_pages(
    full: Connection, arguments: dict[str, Any], limit: int
) -> None:
    found, reads = walk(full, {**arguments, "limit": limit})
    assert found == RARE
    assert max(reads) <= most_read(arguments)


@pytest.mark.parametrize("arguments", NOTHING.values(), ids=NOTHING)
def test_a_filter_that_nothing_passes_comes_to_its_end_in_bounded_pages(
    full: Connection, arguments: dict[str, Any]
) -> None:
    found, reads = walk(full, arguments)
    assert found == []
    assert max(reads) <= most_read(arguments)


def test_a_page_without_a_match_is_one_row_without_an_id(full: Connection) -> None:
    page, _ = read_page(full, {"lane_id": "none", "partition_key": PARTITION})
    following = f"{{fp:{PARTITION}}}:00000000-0000-4000-8000-{MOST_READ:012d}"
    assert [row.pop("next_after") for row in page] == [following]
    assert [row.pop("has_more") for row in page] == [True]
    assert set(page[0].values()) == {None}


def test_a_scan_that_stops_at_a_match_loses_nothing_and_repeats_nothing(full: Connection) -> None:
    # Number 9000 is the last row that a scan from 4000 may read: it is a match and the end at once.
    after = f"{{fp:{PARTITION}}}:00000000-0000-4000-8000-{4000:012d}"
    page, _ = read_page(full, {"lane_id": "rare", "after": after, "limit": 1})
    assert [(row["execution_id"], row["next_after"]) for row in page] == [(RARE[0], RARE[0])]
    page, _ = read_page(full, {"lane_id": "rare", "after": after, "limit": 5})
    assert [(row["execution_id"], row["next_after"]) for row in page] == [(RARE[0], RARE[0])]


def test_pages_without_a_filter_read_what_they_show(full: Connection) -> None:
    after = f"{{fp:{PARTITION}}}:00000000-0000-4000-8000-{50_000:012d}"
    for arguments in ({}, {"after": after}, {"flow_id": FLOW}):
        page, read = read_page(full, {**arguments, "limit": 10})
        assert len(page) == 10
        assert read <= 30


def test_no_rows_are_asked_for_and_none_come(full: Connection) -> None:
    assert read_page(full, {"lane_id": "none", "limit": 0})[0] == []


def test_the_iterator_follows_every_page(full: Connection) -> None:
    client = Client(full)
    assert [row.execution_id for row in client.iter_executions(lane_id="rare")] == RARE
    assert [*client.iter_executions(lane_id="none")] == []
    assert sum(1 for _ in client.iter_executions()) == STORED + 10


def test_the_async_iterator_follows_every_page(full: Connection) -> None:
    async def listed(lane_id: str) -> list[str | None]:
        async with AsyncClient(full.info.dsn) as client:
            return [row.execution_id async for row in client.iter_executions(lane_id=lane_id)]

    assert asyncio.run(listed("rare")) == RARE
    assert asyncio.run(listed("none")) == []


# A third each: a lease that has run out, one that is marked, one that was revoked; in three lanes. Rare ones
# come last.
LEASES = f"""
insert into flowfabric.ff_lane_registry (lane_id, lane_crc, registered_at_ms, registered_by)
select 'lane-' || n, 0, 0, 'test' from generate_series(0, 2) as n;
insert into flowfabric.ff_exec_core (
    partition_key, execution_id, lifecycle_phase, ownership_state, eligibility_state, blocking_reason,
    attempt_state, created_at_ms, last_transition_at_ms, last_mutation_at_ms, namespace, lane_id,
    execution_kind, current_lease_id, current_lease_epoch, current_attempt_id, total_attempt_count,
    current_worker_id, current_worker_instance_id, lease_acquired_at_ms, lease_last_renewed_at_ms,
    lease_expires_at_ms, lease_expired_at_ms, lease_revoked_at_ms, attempt_is_deferred)
select
    {PARTITION}, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'active',
    o.ownership::flowfabric.ff_ownership_state, 'not_applicable',
    case o.remainder when 0 then 'none'::flowfabric.ff_blocking_reason else 'waiting_for_worker' end,
    case o.remainder when 0 then 'running_attempt'::flowfabric.ff_attempt_state
        else 'attempt_interrupted' end,
    1, 1, 1, case when n > 29990 then 'rare' else 'default' end, 'lane-' || n / 3 % 3, 'test',
    gen_random_uuid(), 1, gen_random_uuid(), 1, 'w', 'w-1', 1, 1, 1000 + n / 10,
    case when n % 3 = 1 then 5000 end, case when n % 3 = 2 then 5000 end, true
from generate_series(1, 30000) as n
cross join lateral (values
    (0, 'leased'), (1, 'lease_expired_reclaimable'), (2, 'lease_revoked')
) as o (remainder, ownership)
where o.remainder = n % 3"""


@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed"])
@pytest.mark.parametrize("namespace", ["rare", None])
def test_expired_leases_are_found_in_bounded_pages(
    db: Connection, namespace: str | None, analysed: bool
) -> None:
    db.execute(LEASES)
    if analysed:
        db.execute("analyze flowfabric.ff_exec_core")
    found: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page, read = read_page(db, {"namespace": namespace, "limit": 900, **cursor}, "ff_list_expired_leases")
        # Unmarked leases in each of three lanes. The index of marked ones is in the order of their takeovers:
        # all of them are read.
        assert read <= 3 * 1000 + 20_000 + 20
        found += [row["execution_id"] for row in page if row["execution_id"] is not None]
        if not page or not page[-1]["has_more"]:
            break
        following = {
            name.removeprefix("next_"): value for name, value in page[-1].items() if name.startswith("next_")
        }
        assert following != cursor
        cursor = following
    first = 29991 if namespace else 1
    # A revoked lease has not run out; equally old ones come by their ids.
    wanted = [n for n in range(first, 30001) if n % 3 != 2]
    assert found == [f"{{fp:{PARTITION}}}:00000000-0000-4000-8000-{n:012d}" for n in wanted]


# All in one partition, but for five in another.
SUSPENSIONS = """
insert into flowfabric.ff_suspension_current (
    partition_key, execution_id, suspension_id, attempt_index, reason_code, requested_by, suspended_at_ms,
    condition, consume_matched_signals, retain_signal_buffer_until_closed, close_waitpoint_on_resume,
    resume_target)
select
    case when n > 50000 then 2 else 1 end, gen_random_uuid(), gen_random_uuid(), 0, 'manual_pause', 'worker',
    n, '{}', false, false, false, 'runnable'
from generate_series(1, 50005) as n"""

FLOWS = """
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
select flowfabric.ff_flow_partition(f.flow_id), f.flow_id, 'test', 'default', 'open', 1, 1
from (select gen_random_uuid() as flow_id from generate_series(1, 20000) offset 0) as f"""


@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed"])
def test_suspensions_and_flows_read_what_they_show(db: Connection, analysed: bool) -> None:
    db.execute(SUSPENSIONS)
    db.execute(FLOWS)
    if analysed:
        db.execute("analyze flowfabric.ff_suspension_current, flowfabric.ff_flow_core")
    for partition_key, expected in ((1, 10), (2, 5), (3, 0)):
        page, read = read_page(db, {"partition_key": partition_key, "limit": 10}, "ff_list_suspended")
        assert len(page) == expected
        assert read <= 20
    page, _ = read_page(db, {"partition_key": 2, "limit": 2}, "ff_list_suspended")
    cursor = {f"after_{name}": page[-1][name] for name in ("suspended_at_ms", "execution_id")}
    page, read = read_page(db, {"partition_key": 2, "limit": 10, **cursor}, "ff_list_suspended")
    assert [row["suspended_at_ms"] for row in page] == [50003, 50004, 50005]
    assert read <= 20

    page, read = read_page(db, {"limit": 10}, "ff_list_flows")
    assert len(page) == 10
    assert read <= 30
    page, read = read_page(db, {"limit": 10, "cursor": page[-1]["flow_id"]}, "ff_list_flows")
    assert len(page) == 10
    assert read <= 30


# Flows that have ended, with their summaries, and one member each.
ENDED_FLOWS = """
with flow as (
    insert into flowfabric.ff_flow_core (
        partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
    select 7, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'test', 'default', 'open', 1, 1
    from generate_series(1, 25000) as n
    returning partition_key, flow_id
),
summary as (
    insert into flowfabric.ff_flow_summary (
        partition_key, flow_id, total_members, sampled_members, members_completed, public_flow_state,
        last_summary_update_at)
    select f.partition_key, f.flow_id, 1, 1, 1, 'completed', 2 from flow as f
)
insert into flowfabric.ff_exec_core (
    partition_key, execution_id, flow_id, lifecycle_phase, ownership_state, eligibility_state,
    blocking_reason, attempt_state, terminal_outcome, terminal_at_ms, created_at_ms,
    last_transition_at_ms, last_mutation_at_ms, namespace, lane_id, execution_kind, total_attempt_count,
    current_lease_epoch)
select
    f.partition_key, f.flow_id, f.flow_id, 'terminal', 'unowned', 'not_applicable', 'none',
    'attempt_terminal', 'success', 1, 1, 1, 1, 'default', 'default', 'test', 1, 1
from flow as f"""


@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed"])
def test_summaries_are_projected_window_by_window(db: Connection, analysed: bool) -> None:
    db.execute(ENDED_FLOWS)
    if analysed:
        db.execute("analyze flowfabric.ff_flow_core, flowfabric.ff_flow_summary, flowfabric.ff_exec_core")
    # One that has changed in each window of 10 000.
    db.execute(
        """
        update flowfabric.ff_flow_core as f set last_mutation_at_ms = 3
        where right(f.flow_id::text, 12)::integer in (1, 10000, 10001, 20000, 25000)"""
    )
    projected = []
    for _ in range(4):
        page, read = read_page(db, {}, "ff_project_flow_summaries", keep=True)
        projected.append(page[0]["processed"])
        # The end of the window is looked for, then its flows are read, each with its summary and one member.
        assert read <= 4 * 10_000 + 100
    assert projected == [2, 2, 1, 0]


def test_a_position_that_another_session_holds_is_left_alone(db: Connection, connect: Connect) -> None:
    db.execute(ENDED_FLOWS)
    holder = connect(autocommit=False)
    holder.execute("select from flowfabric.ff_scanner for update")
    read_page(db, {}, "ff_project_flow_summaries", keep=True)
    position = "select position from flowfabric.ff_scanner where scanner = 'flow_summary'"
    assert db.execute(position).fetchone() == (None,)
    holder.rollback()
    read_page(db, {}, "ff_project_flow_summaries", keep=True)
    assert db.execute(position).fetchone() == ("7/00000000-0000-4000-8000-000000010000",)
