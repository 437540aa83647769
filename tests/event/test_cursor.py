"""The event cursor: transactions commit in another order than they insert, and still nothing is missed."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import psycopg
import pytest

from tests.conftest import Clock, Connect, RoleConnection
from tests.event.support import (
    START,
    Reader,
    complete_one,
    executions,
    finish,
    new_execution_id,
    read_events,
    start,
)
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Row, call

WRITERS = 12
STRESS_S = 3.0


@pytest.fixture(autouse=True)
def lane(db: Connection) -> None:
    """The lane exists: who registers it first keeps others waiting until the commit."""
    call(db, "ff_create_execution", execution_kind="test", execution_id=new_execution_id())


@pytest.fixture
def reader(connect: Connect) -> Reader:
    """A consumer of completions that begins at the start."""
    return Reader(connect())


def value(connection: Connection, statement: str, arguments: list[Any] | None = None) -> Any:
    row = connection.execute(statement, arguments).fetchone()
    assert row is not None
    return row[0]


def stored_ids(connection: Connection, table: str = "ff_completion_event") -> list[int]:
    return [event_id for (event_id,) in connection.execute(f"select event_id from flowfabric.{table}")]


# One transaction against another


def test_a_late_commit_with_lower_ids_is_delivered(db: Connection, reader: Reader, connect: Connect) -> None:
    slow = connect(autocommit=False)
    first = complete_one(slow)
    second = complete_one(db)
    assert reader.read() == [], "the second is held back, because the first may still come"
    naive = value(db, "select max(event_id) from flowfabric.ff_completion_event")
    slow.commit()
    assert executions(reader.read()) == [first, second]
    assert reader.read() == []
    missed = value(db, "select min(event_id) < %s from flowfabric.ff_completion_event", [naive])
    assert missed, "a reader that goes on from the highest id it has seen never sees the first"


def test_a_transaction_undone_never_appears_and_holds_nothing_back(
    db: Connection, reader: Reader, connect: Connect
) -> None:
    undone = connect(autocommit=False)
    complete_one(undone)
    kept = complete_one(db)
    assert reader.read() == []
    undone.rollback()
    assert executions(reader.read()) == [kept]


def test_a_part_of_a_transaction_that_was_undone_never_appears(reader: Reader, connect: Connect) -> None:
    writer = connect(autocommit=False)
    first = complete_one(writer)
    with writer.transaction(force_rollback=True):
        complete_one(writer)
    with writer.transaction():
        second = complete_one(writer)
    writer.commit()
    assert executions(reader.read()) == [first, second]


def test_an_open_transaction_is_neither_delivered_nor_skipped(
    db: Connection, reader: Reader, connect: Connect
) -> None:
    before = complete_one(db)
    open_ = connect(autocommit=False)
    during = complete_one(open_)
    assert executions(reader.read()) == [before]
    for _ in range(3):
        assert reader.read() == []
    open_.commit()
    assert executions(reader.read()) == [during]


def test_transactions_of_anybody_hold_events_back_if_they_wrote_something(
    db: Connection, reader: Reader, connect: Connect
) -> None:
    stranger = connect(autocommit=False)
    stranger.execute("create table something_else ()")
    done = complete_one(db)
    assert reader.read() == []
    stranger.rollback()
    assert executions(reader.read()) == [done]


def test_transactions_that_only_read_hold_nothing_back(
    db: Connection, reader: Reader, connect: Connect
) -> None:
    looking = connect(autocommit=False)
    looking.execute("set transaction isolation level repeatable read")
    looking.execute("select count(*) from flowfabric.ff_exec_core")
    done = complete_one(db)
    assert executions(reader.read()) == [done]


def test_a_consumer_does_not_see_its_own_transaction(connect: Connect) -> None:
    session = connect(autocommit=False)
    own = complete_one(session)
    reader = Reader(session)
    assert reader.read() == []
    session.commit()
    assert executions(reader.read()) == [own]


def test_the_order_of_one_execution_can_be_told_by_the_ids(
    db: Connection, connect: Connect, reader: Reader
) -> None:
    """A transaction over two executions can be delivered before a change that happened before its own."""
    reader.stream = "lease"
    first, second = new_execution_id(), new_execution_id()
    both = connect(autocommit=False)
    start(both, first)
    start(db, second)
    finish(both, second)
    both.commit()
    events = [event for event in reader.read() if event["execution_id"] == second]
    assert [event["event_type"] for event in events] == ["released", "acquired"]
    by_id = sorted(events, key=lambda event: int(event["event_id"]))
    assert [event["event_type"] for event in by_id] == ["acquired", "released"]


# Cursors


def test_a_cursor_can_be_taken_up_in_another_session(db: Connection, connect: Connect) -> None:
    done = [complete_one(db) for _ in range(5)]
    seen: list[str] = []
    cursor = START
    for _ in range(5):
        events, position = read_events(connect(), "completion", cursor, limit=1)
        seen += executions(events)
        cursor = position["cursor"]
    assert seen == done
    assert not position["more"]


def test_pages_of_one_give_what_one_page_gives(db: Connection, connect: Connect) -> None:
    for _ in range(7):
        complete_one(db)
    one_by_one, at_once = Reader(connect()), Reader(connect())
    one_by_one.read(limit=1)
    at_once.read()
    assert one_by_one.events == at_once.events
    assert len(at_once.events) == 7


def test_a_filter_that_matches_nothing_moves_the_cursor_on(db: Connection, reader: Reader) -> None:
    for _ in range(30):
        complete_one(db)
    assert reader.read(limit=5, namespace="elsewhere") == []
    mine = complete_one(db, namespace="elsewhere")
    assert executions(reader.read(limit=5)) == [mine], "what was passed over does not come again"


def test_the_tail_begins_now(db: Connection, reader: Reader, connect: Connect) -> None:
    complete_one(db)
    open_ = connect(autocommit=False)
    during = complete_one(open_)
    reader.cursor = value(db, "select flowfabric.ff_event_position('completion')")
    after = complete_one(db)
    open_.commit()
    assert executions(reader.read()) == [during, after], "whatever commits from then on is delivered"


def test_readers_need_no_right_beyond_theirs(db: Connection, role_connection: RoleConnection) -> None:
    done = complete_one(db)
    reader = Reader(role_connection("flowfabric_reader"))
    assert executions(reader.read()) == [done]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        Reader(role_connection("flowfabric_worker")).read()


# Pruning


def test_a_reader_that_is_too_slow_is_told(db: Connection, reader: Reader, clock: Clock) -> None:
    complete_one(db)
    reader.read()
    late = reader.cursor
    complete_one(db)
    clock.advance(604_800_001)
    kept = complete_one(db)
    assert call(db, "ff_prune_events")["processed"] == 6, "two completions and four lease events"
    with pytest.raises(psycopg.Error, match="event_cursor_expired") as refused:
        read_events(db, "completion", late)
    assert refused.value.sqlstate == "ZS035"
    assert executions(Reader(db).read()) == [kept], "the start is whatever is left"


def test_events_pruned_during_a_read_are_not_missed_in_silence(
    db: Connection, connect: Connect, clock: Clock
) -> None:
    complete_one(db)
    clock.advance(604_800_001)
    cursor = "v1:1:1:1"
    pruner, slow = connect(autocommit=False), connect()
    # The read has looked where the stream begins and comes to the table, which the pruner holds.
    pruner.execute("lock table flowfabric.ff_completion_event in access exclusive mode")
    reading = in_background(lambda: read_events(slow, "completion", cursor))
    wait_until_blocked(db, slow, by=pruner)
    assert call(pruner, "ff_prune_events")["processed"] == 3
    pruner.commit()
    with pytest.raises(psycopg.Error, match="event_cursor_expired"):
        reading.result()


def test_a_snapshot_from_before_the_pruning_still_reads(
    db: Connection, connect: Connect, clock: Clock
) -> None:
    done = complete_one(db)
    clock.advance(604_800_001)
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select from flowfabric.ff_exec_core")
    assert call(db, "ff_prune_events")["processed"] == 3
    assert executions(read_events(old, "completion", "v1:1:1:1")[0]) == [done]


def test_two_pruners_share_the_streams(db: Connection, connect: Connect, clock: Clock) -> None:
    for _ in range(3):
        complete_one(db)
    clock.advance(604_800_001)
    first, second = connect(autocommit=False), connect()
    assert call(first, "ff_prune_events", limit=1)["processed"] == 1
    # The first holds what it has begun; the second takes what is left and waits for nobody.
    assert call(second, "ff_prune_events") == {"processed": 6, "skipped": 1, "errors": 0, "more": False}
    first.commit()
    assert call(second, "ff_prune_events")["processed"] == 2
    assert stored_ids(db) == stored_ids(db, "ff_lease_event") == []


# Epochs


def test_a_new_epoch_waits_for_everybody_who_writes_in_the_old(
    db: Connection, reader: Reader, connect: Connect
) -> None:
    writer, operator = connect(autocommit=False), connect()
    old = complete_one(writer)
    bumping = in_background(lambda: value(operator, "select flowfabric.ff_bump_event_epoch(60000)"))
    wait_until_blocked(db, operator, by=writer)
    writer.commit()
    assert bumping.result() == 2
    new = complete_one(db)
    assert executions(reader.read()) == [old, new]


def test_a_new_epoch_does_not_stop_the_engine_for_a_transaction_that_stays_open(
    db: Connection, connect: Connect
) -> None:
    writer, operator, caller = connect(autocommit=False), connect(), connect()
    complete_one(writer)
    bumping = in_background(lambda: value(operator, "select flowfabric.ff_bump_event_epoch()"))
    wait_until_blocked(db, operator, by=writer)
    # A call behind it waits, but only as long as the operator's call does.
    behind = in_background(lambda: complete_one(caller))
    with pytest.raises(psycopg.Error) as refused:
        bumping.result()
    assert refused.value.sqlstate == "ZC018"
    detail = json.loads(refused.value.diag.message_detail or "")
    assert (detail["code"], detail["reason"], detail["waited_ms"]) == ("retry_exhausted", "lock_timeout", 900)
    assert writer.info.backend_pid in detail["held_by"]
    assert behind.result()
    writer.commit()
    assert value(db, "select event_epoch from flowfabric.ff_partition_config") == 1


def test_a_client_that_starts_after_a_restore_waits_no_longer(db: Connection, connect: Connect) -> None:
    db.execute("update flowfabric.ff_partition_config set system_identifier = 42")
    writer, client = connect(autocommit=False), connect()
    complete_one(writer)
    with pytest.raises(psycopg.Error, match="retry_exhausted") as refused:
        call(client, "ff_boot_check", required_version=1)
    assert refused.value.sqlstate == "ZC018"
    writer.commit()
    assert call(client, "ff_boot_check", required_version=1)["event_epoch"] == 2


def test_after_a_restore_old_and_new_events_are_delivered_once_each(db: Connection, reader: Reader) -> None:
    """The data come from a server whose transaction ids were far ahead of this one's."""
    old = [complete_one(db) for _ in range(4)]
    db.execute(
        """update flowfabric.ff_completion_event
           set xact_id = (xact_id::text::bigint + 9000000000)::text::xid8"""
    )
    reader.cursor = value(
        db,
        """select format('v1:1:%s:%s', xact_id, event_id) from flowfabric.ff_completion_event
           order by xact_id limit 1""",
    )
    assert reader.read() == [], "ids of the other server seem to lie in the future"
    db.execute("select flowfabric.ff_bump_event_epoch()")
    new = [complete_one(db) for _ in range(3)]
    assert executions(reader.read(limit=2)) == old[1:] + new
    assert reader.read() == []
    new_xact, old_xact = db.execute(
        """select max(xact_id::text::bigint) filter (where epoch = 2),
                  min(xact_id::text::bigint) filter (where epoch = 1) from flowfabric.ff_completion_event"""
    ).fetchone() or (0, 0)
    assert new_xact < old_xact


# Who is to blame


def test_lag_names_the_transaction_that_holds_events_back(db: Connection, connect: Connect) -> None:
    assert lag(db)["held_back_rows"] == 0
    forgotten = connect(autocommit=False)
    forgotten.execute("create table forgotten ()")
    xact_id = value(forgotten, "select pg_current_xact_id()::text")
    since = value(forgotten, "select floor(extract(epoch from now()) * 1000)::bigint")
    for _ in range(3):
        complete_one(db)
    row = lag(db)
    assert row["held_back_rows"] == 3
    assert row["deliverable_rows"] == 0
    assert str(row["oldest_running_xact"]) == xact_id
    assert row["oldest_running_pid"] == forgotten.info.backend_pid
    assert row["oldest_running_since_ms"] == since
    forgotten.rollback()
    row = lag(db)
    assert (row["held_back_rows"], row["deliverable_rows"], row["oldest_running_pid"]) == (0, 3, None)


def lag(connection: Connection, stream: str = "completion") -> Row:
    return call(connection, "ff_event_lag", stream=stream)


# Under load


@dataclass
class NaiveReader:
    """What everybody writes first: remember the highest id, ask for higher ones."""

    connection: Connection
    last_seen: int = 0
    ids: list[int] = field(default_factory=list)

    def read(self) -> None:
        rows = self.connection.execute(
            "select event_id from flowfabric.ff_lease_event where event_id > %s order by event_id",
            [self.last_seen],
        )
        new = [event_id for (event_id,) in rows.fetchall()]
        self.ids += new
        self.last_seen = max([self.last_seen, *new])


def write_until(stop: Event, connection: Connection, seed: int) -> int:
    """Transactions of two lease events each with a pause in between; some are undone."""
    dice = random.Random(seed)
    committed = 0
    while not stop.is_set():
        execution_id = new_execution_id()
        start(connection, execution_id)
        time.sleep(dice.uniform(0, 0.008))
        finish(connection, execution_id)
        if dice.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()
            committed += 1
    return committed


def test_with_twelve_writers_nothing_is_missed_and_nothing_repeated(db: Connection, connect: Connect) -> None:
    stop = Event()
    reader, naive = Reader(connect(), "lease"), NaiveReader(connect())
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write_until, stop, connect(autocommit=False), seed) for seed in range(WRITERS)]
        enough_at = time.monotonic() + STRESS_S
        try:
            while time.monotonic() < enough_at:
                reader.read()
                naive.read()
        finally:
            stop.set()
        committed = sum(future.result() for future in writing)
    reader.read()
    naive.read()
    written = stored_ids(db, "ff_lease_event")
    assert len(written) == 2 * committed > 0
    assert len(reader.ids()) == len(set(reader.ids())), "nothing is repeated"
    assert set(reader.ids()) == set(written), "nothing is missed"
    assert set(naive.ids) < set(written), "on the same data, asking for higher ids loses some for good"
    assert [int(event["event_id"]) for event in Reader(connect(), "lease").read()] == reader.ids(), (
        "whoever reads it all again gets the same order"
    )
