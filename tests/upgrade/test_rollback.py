"""Every migration can be undone, by yoyo alone, on an installation full of data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from yoyo import get_backend, read_migrations

from flowfabric_client.install import SqlSources, migrate
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import in_background, wait_until
from tests.suspension.support import Row, call, calls
from tests.upgrade.conftest import Installation
from tests.upgrade.survival import YOYO_TABLES, Facts, lost, schema_of, stored_rows
from tests.upgrade.world import fence_of

MIGRATIONS = SqlSources.shipped().migrations()
_CREATED_TABLE = re.compile(r"create (?:unlogged )?table if not exists flowfabric\.(\w+)")

#: The ledger is the record of what is applied, so an undone migration is not in it.
LEDGER = "ff_migration_annotation"

#: Tables that hold nothing that a user has stored.
OWN_TABLES = {"ff_tick_loop_lock", "ff_scanner_detour"}


def tables_of(number: int) -> set[str]:
    (migration,) = (migration for migration in MIGRATIONS if migration.number == number)
    return set(_CREATED_TABLE.findall(migration.text))


def first_without_tables() -> int:
    """The migration from which on undoing all of them loses nothing that a user has stored."""
    return max(m.number for m in MIGRATIONS if tables_of(m.number) - OWN_TABLES) + 1


@contextmanager
def yoyo(dsn: str) -> Iterator[tuple[Any, Any]]:
    """yoyo's own backend and migrations, as its command line has them."""
    uri = dsn.replace("postgresql://", "postgresql+psycopg://") + "&schema=flowfabric"
    with get_backend(uri) as backend:
        yield backend, read_migrations(str(SqlSources.shipped().migrations_dir))


def roll_back(dsn: str, *, down_to: int) -> None:
    """Undo migrations from the newest to one that is undone last."""
    with yoyo(dsn) as (backend, migrations):
        for migration in backend.to_rollback(migrations):
            if int(migration.id[:4]) >= down_to:
                backend.rollback_one(migration)


def objects(db: Connection) -> set[str]:
    """The names of everything in the schema but indexes and the types that come with tables."""
    rows = db.execute(
        """
        select c.relname from pg_class as c
        where c.relnamespace = 'flowfabric'::regnamespace and c.relkind <> 'i'
        union all
        select p.proname from pg_proc as p where p.pronamespace = 'flowfabric'::regnamespace
        union all
        select t.typname from pg_type as t
        where t.typnamespace = 'flowfabric'::regnamespace and t.typelem = 0 and t.typrelid = 0"""
    )
    return {name for (name,) in rows}


def without_ledger(facts: Facts) -> Facts:
    return {table: rows for table, rows in facts.items() if table != LEDGER}


def create_undone(db: Connection, **arguments: Any) -> str:
    row = call(db, "ff_create_execution", execution_kind="test", lane_id="undone", **arguments)
    return str(row["execution_id"])


def claim_undone(db: Connection, count: int = 1) -> list[Row]:
    worker = {"worker_id": "pool", "worker_instance_id": "pool-1"}
    return calls(db, "ff_claim_next", lanes=["undone"], max=count, **worker)


def ended_and_waiting(db: Connection) -> tuple[str, str, str]:
    """An execution that has ended with a result, one without payload or result, and one that waits."""
    ended, empty = create_undone(db, payload=b"input", priority=1), create_undone(db)
    for claim, result in zip(claim_undone(db, 2), (b"output", None), strict=True):
        call(db, "ff_complete_execution", **fence_of(claim), result=result)
    return ended, empty, create_undone(db, payload=b"still waiting")


def uuid_of(execution_id: str) -> str:
    return execution_id[-36:]


_ATTEMPT_COLUMNS = (
    "attempt_index",
    "attempt_type",
    "attempt_state",
    "attempt_id",
    "lease_id",
    "lease_epoch",
    "worker_id",
    "worker_instance_id",
    "created_at_ms",
    "started_at_ms",
    "ended_at_ms",
)


def listed_attempts(db: Connection, execution_id: str) -> list[Row]:
    attempts = calls(db, "ff_list_attempts", execution_id=execution_id)
    return [{column: attempt[column] for column in _ATTEMPT_COLUMNS} for attempt in attempts]


def written_attempts(db: Connection, execution_id: str) -> list[Row]:
    """The rows of `ff_attempt` themselves."""
    rows = db.execute(
        f"select {', '.join(_ATTEMPT_COLUMNS)} from flowfabric.ff_attempt"
        " where execution_id = %s order by attempt_index",
        [uuid_of(execution_id)],
    )
    return [dict(zip(_ATTEMPT_COLUMNS, row, strict=True)) for row in rows]


def test_each_is_undone_by_itself_and_in_the_end_nothing_is_left(upgraded: Installation) -> None:
    db = upgraded.db
    remaining = without_ledger(stored_rows(db))
    with yoyo(upgraded.dsn) as (backend, migrations):
        for migration in backend.to_rollback(migrations):
            number = int(migration.id[:4])
            backend.rollback_one(migration)

            assert not tables_of(number) & objects(db), migration.id
            remaining = {table: rows for table, rows in remaining.items() if table not in tables_of(number)}
            assert lost(remaining, stored_rows(upgraded.db)) == {}, (
                f"{migration.id} takes more than its own tables"
            )
            applied = [name for (name,) in db.execute("select migration_id from flowfabric._yoyo_migration")]
            assert sorted(applied) == [m.id for m in MIGRATIONS if m.number < number]
    assert objects(db) == YOYO_TABLES


@pytest.mark.parametrize("down_to", sorted({1, first_without_tables(), MIGRATIONS[-1].number}))
def test_what_was_undone_is_done_again_by_the_installer(
    server: Cluster, upgraded: Installation, down_to: int
) -> None:
    before = without_ledger(stored_rows(upgraded.db))
    roll_back(upgraded.dsn, down_to=down_to)

    report = migrate(upgraded.dsn, with_test_clock=True)

    assert report.applied == tuple(m.id for m in MIGRATIONS if m.number >= down_to)
    kept = {table for m in MIGRATIONS if m.number < down_to for table in tables_of(m.number)}
    assert (
        lost({table: rows for table, rows in before.items() if table in kept}, stored_rows(upgraded.db)) == {}
    )
    with server.database(server.template) as fresh:
        assert schema_of(upgraded.dsn) == schema_of(fresh)


def test_work_goes_on_after_a_rollback_that_loses_no_rows(upgraded: Installation) -> None:
    roll_back(upgraded.dsn, down_to=first_without_tables())
    migrate(upgraded.dsn)
    upgraded.world.finish(upgraded.db)


def test_a_running_first_attempt_gets_its_row_before_the_functions_that_need_it_come_back(
    upgraded: Installation,
) -> None:
    create_undone(upgraded.db)
    (claim,) = claim_undone(upgraded.db)
    (running,) = listed_attempts(upgraded.db, claim["execution_id"])

    roll_back(upgraded.dsn, down_to=18)

    assert written_attempts(upgraded.db, claim["execution_id"]) == [running]


def test_payloads_and_succeeded_attempts_get_their_rows_before_the_functions_that_need_them_come_back(
    upgraded: Installation,
) -> None:
    db = upgraded.db
    ended, empty, waiting = ended_and_waiting(db)
    attempts = {execution_id: listed_attempts(db, execution_id) for execution_id in (ended, empty)}
    assert written_attempts(db, ended) == written_attempts(db, empty) == []
    claim_undone(db)

    roll_back(upgraded.dsn, down_to=21)

    beside = "select payload, result, tags from flowfabric.ff_exec_payload where execution_id = %s"
    assert [db.execute(beside, [uuid_of(one)]).fetchall() for one in (ended, empty, waiting)] == [
        [(b"input", b"output", {})],
        [(None, None, {})],
        [(b"still waiting", None, {})],
    ]
    assert {execution_id: written_attempts(db, execution_id) for execution_id in (ended, empty)} == attempts
    assert written_attempts(db, waiting) == [], "those functions know that a first attempt that runs has none"


def test_a_payload_that_is_about_to_be_stored_is_waited_for(upgraded: Installation) -> None:
    db = upgraded.db
    execution_id = create_undone(db, payload=b"early")
    roll_back(upgraded.dsn, down_to=22)
    with psycopg.connect(upgraded.dsn) as producer:
        # In place of a creation: the functions of today may need what was just undone.
        producer.execute(
            "update flowfabric.ff_exec_core set small_payload = 'late' where execution_id = %s",
            [uuid_of(execution_id)],
        )
        undoing = in_background(lambda: roll_back(upgraded.dsn, down_to=21))
        waiting = "select from pg_stat_activity where %s = any (pg_blocking_pids(pid))"
        wait_until(
            lambda: db.execute(waiting, [producer.info.backend_pid]).fetchone() is not None,
            "the rollback waited for the producer",
        )
        producer.commit()
        undoing.result()
    stored = "select payload from flowfabric.ff_exec_payload where execution_id = %s"
    assert db.execute(stored, [uuid_of(execution_id)]).fetchall() == [(b"late",)]


def test_tags_that_were_set_later_go_back_to_where_earlier_functions_look_for_them(
    upgraded: Installation,
) -> None:
    db = upgraded.db
    plain = create_undone(db, payload=b"small")
    tagged = create_undone(db, payload=b"small", tags=Jsonb({"test.a": "1", "test.b": "1"}))
    for execution_id in (plain, tagged):
        call(db, "ff_set_execution_tags", execution_id=execution_id, tags=Jsonb({"test.b": "2"}))
    flow_id = upgraded.world.flows["going"].flow_id
    call(db, "ff_set_flow_tags", flow_id=flow_id, tags=Jsonb({"test.b": "2"}))

    roll_back(upgraded.dsn, down_to=27)

    stored = """
        select convert_from(p.payload, 'UTF8'), e.small_payload, p.tags
        from flowfabric.ff_exec_core as e
        join flowfabric.ff_exec_payload as p using (partition_key, execution_id)
        where e.execution_id = %s"""
    assert db.execute(stored, [uuid_of(plain)]).fetchall() == [("small", None, {"test.b": "2"})]
    assert db.execute(stored, [uuid_of(tagged)]).fetchall() == [
        ("small", None, {"test.a": "1", "test.b": "2"})
    ]
    tags = "select tags from flowfabric.ff_flow_core where flow_id = %s"
    assert db.execute(tags, [flow_id]).fetchall() == [({"test.name": "going", "test.b": "2"},)]


def test_executions_with_all_their_rows_go_on_after_the_upgrade(upgraded: Installation) -> None:
    """What was stored under 0020: a row for each payload and for each attempt that has ended."""
    db = upgraded.db
    ended, _, waiting = ended_and_waiting(db)
    (first_attempt,) = listed_attempts(db, ended)
    roll_back(upgraded.dsn, down_to=21)
    migrate(upgraded.dsn, with_test_clock=True)

    (claim,) = claim_undone(db)
    assert (claim["execution_id"], claim["payload"], claim["tags"]) == (waiting, b"still waiting", {})
    call(db, "ff_complete_execution", **fence_of(claim), result=b"done")
    assert call(db, "ff_get_execution_result", execution_id=waiting)["result"] == b"done"

    assert call(db, "ff_get_execution_result", execution_id=ended)["result"] == b"output"
    call(db, "ff_replay_execution", execution_id=ended, force=True)
    (replay,) = claim_undone(db)
    assert (replay["execution_id"], replay["payload"]) == (ended, b"input")
    call(db, "ff_complete_execution", **fence_of(replay))
    first, second = listed_attempts(db, ended)
    assert first == first_attempt
    assert (second["attempt_type"], second["attempt_state"]) == ("replay", "ended_success")
    assert calls(db, "ff_check_invariants") == []
