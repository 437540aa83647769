"""An installation survives being killed: wherever it happens, the next run completes it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest

from flowfabric_client.install import CLIENT_ROLES, SqlSources, migrate
from flowfabric_client.install._lock import join_installation
from tests.install.catalogue import Catalogue, read_catalogue
from tests.install.sample import SampleEngine
from tests.support.cluster import REPOSITORY, Cluster

COLOUR_FUNCTION = """\
create or replace function flowfabric.ff_colour() returns text language sql stable as
'select t.colour from flowfabric.ff_thing as t';
"""


class KillableInstaller:
    """Talks to the program that runs `migrate` in a process of its own and kills that."""

    def __init__(self, process: subprocess.Popen[str], sources: SqlSources) -> None:
        self._process = process
        self._sources = [str(sources.migrations_dir), str(sources.plpgsql_dir)]

    def killed_at(self, kind: str, place: int, dsn: str) -> bool:
        """Run `migrate` until a place; false if it finished before."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"dsn": dsn, "sources": self._sources, "kill_at": [kind, place]}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer in ("SIGKILL", "finished")
        return answer == "SIGKILL"


@pytest.fixture
def installer(engine: SampleEngine) -> Iterator[KillableInstaller]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.install.killed_migrate"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    with process:
        yield KillableInstaller(process, engine.sources)
        assert process.stdin is not None
        process.stdin.close()


def catalogue_of(dsn: str) -> Catalogue:
    """The catalogue without yoyo's log, which tells of the kill."""
    catalogue = read_catalogue(dsn)
    del catalogue["rows of _yoyo_log"]
    return catalogue


def undisturbed_catalogue(server: Cluster, engine: SampleEngine) -> Catalogue:
    with server.database() as dsn:
        migrate(dsn, sources=engine.sources)
        return catalogue_of(dsn)


def drop_schema(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("set client_min_messages = warning")
        conn.execute("drop schema if exists flowfabric cascade")


def test_a_run_after_a_kill_at_any_step_completes_the_installation(
    server: Cluster, engine: SampleEngine, installer: KillableInstaller
) -> None:
    expected = undisturbed_catalogue(server, engine)
    steps: list[str] = []
    with server.database() as dsn:
        migrate(dsn, sources=engine.sources, on_step=steps.append)
    for place, step in enumerate(steps, start=1):
        with server.database() as dsn:
            assert installer.killed_at("step", place, dsn)
            migrate(dsn, sources=engine.sources)
            assert catalogue_of(dsn) == expected, f"after a kill at: {step}"
            assert not migrate(dsn, sources=engine.sources).changed


@pytest.mark.parametrize("first", [1, 2])
def test_a_run_after_a_kill_before_any_statement_completes_the_installation(
    server: Cluster, engine: SampleEngine, installer: KillableInstaller, empty_database: str, first: int
) -> None:
    """Every second place from the first one: two halves, so that they can run at the same time."""
    expected = undisturbed_catalogue(server, engine)
    kills = 0
    while installer.killed_at("statement", first + 2 * kills, empty_database):
        migrate(empty_database, sources=engine.sources)
        assert catalogue_of(empty_database) == expected, f"after a kill before statement {first + 2 * kills}"
        kills += 1
        drop_schema(empty_database)
    assert kills > 20


def test_a_kill_leaves_all_roles_or_none(roleless_server: Cluster, installer: KillableInstaller) -> None:
    seen: list[int] = []
    while len(CLIENT_ROLES) not in seen:
        with roleless_server.database() as dsn:
            assert installer.killed_at("statement", len(seen) + 1, dsn)
            seen.append(len(existing_roles(dsn)))
    assert set(seen) == {0, len(CLIENT_ROLES)}


def existing_roles(dsn: str) -> list[tuple[str]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute("select from pg_roles where rolname = any(%s)", [list(CLIENT_ROLES)]).fetchall()


def test_an_upgrade_that_is_killed_is_completed_by_the_next_run(
    server: Cluster, engine: SampleEngine, installer: KillableInstaller
) -> None:
    template = server.create_database()
    migrate(server.dsn(template), sources=engine.sources)
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")
    engine.remove("10_thing/ff_size.sql")
    engine.write("10_thing/ff_colour.sql", COLOUR_FUNCTION)
    expected = undisturbed_catalogue(server, engine)
    steps: list[str] = []
    with server.database(template) as dsn:
        migrate(dsn, sources=engine.sources, on_step=steps.append)
        assert catalogue_of(dsn) == expected

    for place, step in enumerate(steps, start=1):
        with server.database(template) as dsn:
            assert installer.killed_at("step", place, dsn)
            migrate(dsn, sources=engine.sources)
            assert catalogue_of(dsn) == expected, f"after a kill at: {step}"


def test_the_next_run_waits_for_what_the_server_still_does_for_a_killed_one(
    engine: SampleEngine, installed_database: str
) -> None:
    """The server notices that a client is gone only when it has finished the client's statement."""
    steps: list[str] = []
    with psycopg.connect(installed_database) as orphan:
        join_installation(orphan)

        def note(step: str) -> None:
            steps.append(step)
            if step.startswith("waiting for"):
                orphan.close()

        migrate(installed_database, sources=engine.sources, on_step=note)
    assert "waiting for the last statement of an installer that was killed" in steps
