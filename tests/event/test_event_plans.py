"""What reading and pruning cost does not depend on how much is stored, nor on when the plans were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from tests.conftest import Clock, Connect
from tests.event.support import START, read_events
from tests.support.cluster import Connection
from tests.support.engine import call

EVENTS = 100_000
PER_TRANSACTION = 3
LIMIT = 256


@dataclass
class Cost:
    """How often event tables were read from end to end, and how many rows were fetched by an index."""

    sequential_scans: int
    rows_fetched: int


def counted(connection: Connection) -> Cost:
    """What the server has counted for this session and not yet handed over to the common statistics."""
    row = connection.execute(
        """select sum(t.seq_scan)::integer, sum(t.idx_tup_fetch)::integer
           from pg_stat_xact_user_tables as t
           where t.schemaname = 'flowfabric' and t.relname like 'ff%event'"""
    ).fetchone()
    assert row is not None
    return Cost(*row)


def cost_of(connection: Connection, act: Callable[[], object]) -> Cost:
    """Run something in a transaction of its own, within which the counts only grow."""
    with connection.transaction():
        before = counted(connection)
        act()
        after = counted(connection)
    return Cost(after.sequential_scans - before.sequential_scans, after.rows_fetched - before.rows_fetched)


def store(connection: Connection, first: int, last: int) -> None:
    """Completions of transactions that are long over; a cursor of the n-th event is `cursor(n)`."""
    connection.execute(
        f"""insert into flowfabric.ff_completion_event (
                epoch, xact_id, event_id, partition_key, occurred_at_ms, namespace, execution_id, outcome)
            select 0, (i / {PER_TRANSACTION})::text::xid8, i, 86, i, 'namespace-' || i %% 1000,
                   gen_random_uuid(), 'success'
            from generate_series(%s::integer, %s::integer) as i""",
        [first, last],
    )


def cursor(event_id: int) -> str:
    return f"v1:0:{event_id // PER_TRANSACTION}:{event_id}"


@pytest.fixture
def history(db: Connection) -> Connection:
    """A session whose plans were made for a handful of analysed events, and a long history since."""
    store(db, 1, 5)
    db.execute("analyze flowfabric.ff_completion_event, flowfabric.ff_lease_event")
    for _ in range(10):
        read_events(db, "completion", START)
        read_events(db, "completion", START, namespace="none")
        call(db, "ff_event_lag", stream="completion")
        call(db, "ff_prune_events", limit=1)
    store(db, 6, EVENTS)
    return db


def assert_flat(session: Connection) -> None:
    for event_id in (5, EVENTS // 2, EVENTS - LIMIT - 1, EVENTS):
        read = partial(read_events, session, "completion", cursor(event_id), LIMIT)
        cost = cost_of(session, read)
        assert cost.sequential_scans == 0
        assert cost.rows_fetched <= LIMIT + 1
        filtered = cost_of(session, partial(read, namespace="x"))
        assert filtered.sequential_scans == 0
        assert filtered.rows_fetched <= 4 * LIMIT + 1


def test_a_read_fetches_what_it_returns_and_no_more(history: Connection, connect: Connect) -> None:
    assert_flat(history)
    history.execute("analyze flowfabric.ff_completion_event")
    assert_flat(history)
    assert_flat(connect())


def test_a_read_of_one_event_fetches_two(history: Connection) -> None:
    cost = cost_of(history, lambda: read_events(history, "completion", cursor(EVENTS // 2), 1))
    assert cost == Cost(sequential_scans=0, rows_fetched=2)


def test_an_empty_stream_beside_a_long_one_costs_nothing(history: Connection) -> None:
    cost = cost_of(history, lambda: read_events(history, "lease", START, 1000))
    assert cost == Cost(sequential_scans=0, rows_fetched=0)


def test_lag_counts_up_to_its_limit(history: Connection) -> None:
    history.execute("select flowfabric.ff_commit_event_cursor('c', 'completion', %s)", [cursor(20)])
    cost = cost_of(history, lambda: call(history, "ff_event_lag", stream="completion"))
    assert cost.sequential_scans == 0
    assert cost.rows_fetched <= 2 * 10_000 + 1


def test_pruning_costs_what_it_deletes(history: Connection, clock: Clock) -> None:
    clock.freeze(EVENTS + 604_800_000 + 1)
    for _ in range(3):
        cost = cost_of(history, lambda: call(history, "ff_prune_events", limit=500))
        assert cost.sequential_scans == 0
        # Each row is looked at to see that it is old enough, and again to delete it.
        assert cost.rows_fetched <= 2 * 500 + 1
    pruned = history.execute(
        "select pruned_event_id from flowfabric.ff_event_stream where stream = 'completion'"
    )
    assert pruned.fetchone() == (5 + 3 * 500,)
