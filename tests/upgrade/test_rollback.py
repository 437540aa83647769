"""Every migration can be undone, by yoyo alone, on an installation full of data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from yoyo import get_backend, read_migrations

from flowfabric_client.install import SqlSources, migrate
from tests.support.cluster import Cluster, Connection
from tests.upgrade.conftest import Installation
from tests.upgrade.survival import YOYO_TABLES, Facts, lost, schema_of, stored_rows

MIGRATIONS = SqlSources.shipped().migrations()
_CREATED_TABLE = re.compile(r"create (?:unlogged )?table if not exists flowfabric\.(\w+)")

#: The ledger is the record of what is applied, so an undone migration is not in it.
LEDGER = "ff_migration_annotation"


def tables_of(number: int) -> set[str]:
    (migration,) = (migration for migration in MIGRATIONS if migration.number == number)
    return set(_CREATED_TABLE.findall(migration.text))


def first_without_tables() -> int:
    """The migration from which on undoing all of them loses nothing that a user has stored."""
    return max(migration.number for migration in MIGRATIONS if tables_of(migration.number)) + 1


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
    upgraded.db.execute("select flowfabric.ff_create_execution('test', p_lane_id => 'undone')")
    (claim,) = upgraded.db.execute(
        "select c.execution_id from flowfabric.ff_claim_next('{undone}', 'pool', 'pool-1') as c"
    ).fetchall()
    (claimed,) = upgraded.db.execute(
        "select a.attempt_id, a.lease_id, a.lease_epoch, a.worker_id, a.started_at_ms"
        " from flowfabric.ff_list_attempts(%s) as a",
        claim,
    ).fetchall()

    roll_back(upgraded.dsn, down_to=18)

    written = upgraded.db.execute(
        "select a.attempt_id, a.lease_id, a.lease_epoch, a.worker_id, a.started_at_ms"
        " from flowfabric.ff_attempt as a where a.attempt_id = %s and a.attempt_state = 'started'",
        [claimed[0]],
    ).fetchall()
    assert written == [claimed]
