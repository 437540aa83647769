"""`flowfabric sql`: one file that psql installs, with the result of `flowfabric migrate`."""

from __future__ import annotations

import subprocess

import psycopg
import pytest

from flowfabric_client.install import migrate, render_sql
from tests.install.catalogue import read_catalogue
from tests.install.sample import SampleEngine
from tests.install.test_migrate import execute, rows
from tests.support.cluster import Cluster
from tests.support.pgtap import find_psql


def psql(server: Cluster, dsn: str, text: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(find_psql(server.bin_dir)),
        "-X",
        "-q",
        "-1",
        "-v",
        "ON_ERROR_STOP=1",
        "-f",
        "-",
        "-d",
        dsn,
    ]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False)


@pytest.mark.parametrize("with_test_clock", [False, True])
def test_the_file_installs_exactly_what_migrate_installs(server: Cluster, with_test_clock: bool) -> None:
    with server.database() as by_file, server.database() as by_migrate:
        run = psql(server, by_file, render_sql(with_test_clock=with_test_clock))
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
        migrate(by_migrate, with_test_clock=with_test_clock)

        installed = read_catalogue(by_migrate)
        assert read_catalogue(by_file) == installed
        assert not migrate(by_file).changed
        assert len(installed["routines"]) > 20


def test_a_release_after_the_file_is_installed_by_migrate(
    server: Cluster, empty_database: str, engine: SampleEngine
) -> None:
    assert psql(server, empty_database, render_sql(sources=engine.sources)).returncode == 0
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")

    assert migrate(empty_database, sources=engine.sources).applied == ("0003.colour",)


def test_the_file_is_not_for_upgrades(server: Cluster, installed_database: str, engine: SampleEngine) -> None:
    before = read_catalogue(installed_database)

    run = psql(server, installed_database, render_sql(sources=engine.sources))

    assert run.returncode != 0
    assert "upgrade it with" in run.stderr
    assert read_catalogue(installed_database) == before


def test_the_file_is_not_for_a_schema_that_holds_anything(
    server: Cluster, empty_database: str, engine: SampleEngine
) -> None:
    for theirs in (
        "create function flowfabric.theirs() returns integer language sql as 'select 1'",
        "create type flowfabric.theirs as enum ()",
    ):
        execute(
            empty_database, "drop schema if exists flowfabric cascade", "create schema flowfabric", theirs
        )
        run = psql(server, empty_database, render_sql(sources=engine.sources))
        assert run.returncode != 0
        assert "is not empty" in run.stderr


def test_the_file_is_not_for_a_schema_that_somebody_else_owns(
    server: Cluster, empty_database: str, engine: SampleEngine
) -> None:
    execute(empty_database, "create schema flowfabric authorization pg_monitor")

    run = psql(server, empty_database, render_sql(sources=engine.sources))

    assert run.returncode != 0
    assert "belongs to another role" in run.stderr


def test_a_file_that_fails_leaves_nothing(server: Cluster, empty_database: str, engine: SampleEngine) -> None:
    engine.write("90_last/broken.sql", "oops;")

    assert psql(server, empty_database, render_sql(sources=engine.sources)).returncode != 0

    assert rows(empty_database, "select from pg_namespace where nspname = 'flowfabric'") == []


def test_the_file_leaves_the_settings_of_the_session_alone(empty_database: str, engine: SampleEngine) -> None:
    with psycopg.connect(empty_database) as conn:
        settings = "select current_setting('search_path'), current_setting('client_min_messages')"
        before = conn.execute(settings.encode()).fetchone()
        conn.execute(render_sql(sources=engine.sources).encode())
        assert conn.execute(settings.encode()).fetchone() == before


def test_a_database_with_a_search_path_of_its_own_gets_the_same(
    server: Cluster, installed_database: str, empty_database: str, engine: SampleEngine
) -> None:
    execute(
        empty_database,
        "create schema theirs",
        "create function theirs.now() returns integer language sql as 'select 1'",
    )
    name = rows(empty_database, "select current_database()")[0][0]
    execute(empty_database, f"alter database {name} set search_path = theirs, pg_catalog")

    assert psql(server, empty_database, render_sql(sources=engine.sources)).returncode == 0

    assert read_catalogue(empty_database) == read_catalogue(installed_database)
