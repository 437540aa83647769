"""A dump taken in the middle of work, restored on another server: nothing is lost, and work goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from flowfabric_client import Client
from flowfabric_client.install import CLIENT_ROLES, migrate, render_roles_sql
from flowfabric_client.worker import Context, Worker
from tests.backup.dumps import dump, restore
from tests.chaos.work import TABLES, column, consume
from tests.install.catalogue import Catalogue
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import wait_until
from tests.suspension.support import call, calls
from tests.upgrade.survival import lost, readings, schema_of, stored_rows
from tests.upgrade.world import World
from tests.worker.support import running

EXECUTIONS = 300


def make_worker(dsn: str) -> Worker:
    """A worker whose effects commit together with the completion."""
    worker = Worker(dsn, poll_interval_ms=100, concurrency=4, lease_ttl_ms=2000)

    @worker.handler("write")
    async def write(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute("insert into effect values (%s)", [ctx.execution_id])
            await ctx.complete_in(tx)

    return worker


@pytest.fixture
def other_server(roleless_server: Cluster) -> Cluster:
    """Another server, on which a DBA has created the roles."""
    with psycopg.connect(roleless_server.dsn(), autocommit=True) as connection:
        connection.execute(render_roles_sql().encode())
    return roleless_server


def be_older_than(other: Cluster, db: Connection) -> None:
    """Use up transaction ids, so that those of the other server are lower than any in the dump."""
    use_up = """
        create temporary table used (i integer);
        do $$
        begin
            for v_i in 1..10000 loop
                begin
                    insert into used values (v_i);
                exception when division_by_zero then null;
                end;
            end loop;
        end;
        $$;
        drop table used"""
    xid = "select pg_current_xact_id()::text::bigint"
    with psycopg.connect(other.dsn()) as connection:
        (theirs,) = column(connection, xid)
    while column(db, xid)[0] < theirs + 5000:
        db.execute(use_up)


def without_owner(schema: Catalogue) -> Catalogue:
    """The catalogue without what owners may do, which pg_dump leaves out where it is the default."""

    def without(value: Any) -> Any:
        is_grants = isinstance(value, list) and all(isinstance(item, str) and "=" in item for item in value)
        return [item for item in value if not item.startswith("postgres=")] if is_grants else value

    return {part: [tuple(map(without, row)) for row in rows] for part, rows in schema.items()}


def test_everything_comes_back_and_goes_on(
    server: Cluster, other_server: Cluster, database: str, db: Connection, tmp_path: Path
) -> None:
    be_older_than(other_server, db)
    world = World.build(db)
    rows, answers, schema = stored_rows(db), readings(db, world), schema_of(database)
    path = dump(server, database, tmp_path / "dump")

    with other_server.database() as dsn:
        assert restore(server, path, dsn) == []
        with psycopg.connect(dsn, autocommit=True) as restored:
            assert lost(rows, stored_rows(restored)) == {}
            assert without_owner(schema_of(dsn)) == without_owner(schema)
            assert calls(restored, "ff_check_invariants") == []

            assert call(restored, "ff_boot_check", required_version=1)["event_epoch"] == 2
            assert lost(answers, readings(restored, world)) == {}
            # Leases, tokens, grants, reservations and cursors of before count as they did.
            world.finish(restored)


def test_a_dump_in_the_middle_of_work_can_be_worked_on(
    server: Cluster, other_server: Cluster, database: str, db: Connection, tmp_path: Path
) -> None:
    be_older_than(other_server, db)
    db.execute(TABLES)
    with Client(database) as client:
        created = {
            item.execution_id
            for item in client.create_executions(["write"] * EXECUTIONS)
            if item.execution_id
        }
    with running(make_worker(database)):
        wait_until(lambda: consume(db, limit=5) > 0, "events were consumed")
        path = dump(server, database, tmp_path / "dump")
        assert len(column(db, "select execution_id from effect")) < EXECUTIONS, "there was work left"

    with other_server.database() as dsn:
        assert restore(server, path, dsn) == []
        with psycopg.connect(dsn, autocommit=True) as restored:
            in_dump = column(restored, "select execution_id from effect")
            completed = column(
                restored,
                "select execution_id from flowfabric.ff_v_execution where state = 'completed'",
            )
            assert sorted(in_dump) == sorted(completed)
            assert 0 < len(column(restored, "select 1 from consumed")) < EXECUTIONS
            with running(make_worker(dsn)):
                wait_until(
                    lambda: len(column(restored, "select 1 from effect")) >= EXECUTIONS, "all work was done"
                )
            while consume(restored):
                pass
            assert sorted(column(restored, "select execution_id from effect")) == sorted(created)
            assert sorted(column(restored, "select execution_id from consumed")) == sorted(created)
            assert calls(restored, "ff_check_invariants") == []


def test_roles_that_were_forgotten_are_made_up_for_by_the_installer(
    server: Cluster, roleless_server: Cluster, database: str, tmp_path: Path
) -> None:
    schema = schema_of(database)
    path = dump(server, database, tmp_path / "dump")
    with roleless_server.database() as dsn:
        complaints = restore(server, path, dsn)
        assert complaints
        assert set(complaints) <= {f'role "{role}" does not exist' for role in CLIENT_ROLES}
        assert without_owner(schema_of(dsn)) != without_owner(schema)

        migrate(dsn, force=True)

        assert schema_of(dsn) == schema


def test_a_copy_on_the_same_server_keeps_its_epoch(
    server: Cluster, database: str, db: Connection, tmp_path: Path
) -> None:
    """Its transaction ids have not gone back, so its cursors mean what they meant."""
    call(db, "ff_boot_check", required_version=1)
    world = World.build(db)
    path = dump(server, database, tmp_path / "dump")
    with server.database() as dsn:
        assert restore(server, path, dsn) == []
        with psycopg.connect(dsn, autocommit=True) as restored:
            assert call(restored, "ff_boot_check", required_version=1)["event_epoch"] == 1
            world.finish(restored)
