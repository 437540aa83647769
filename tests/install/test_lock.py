"""One installer at a time, by a lock that no other role can hold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo

from flowfabric_client.install import InstallError, migrate, status
from tests.install.catalogue import read_catalogue
from tests.install.sample import SampleEngine
from tests.install.test_migrate import execute, rows
from tests.support.cluster import Cluster
from tests.support.concurrency import in_background, wait_until

# An earlier form of the lock was two advisory locks: "flowfab" in ASCII, and the number after it.
ADVISORY_KEYS = (0x666C6F77666162, 0x666C6F77666163)

HOLDERS = (
    "from pg_locks where relation = 'flowfabric.yoyo_lock'::regclass and mode = 'ShareUpdateExclusiveLock'"
)


def test_a_login_that_holds_advisory_locks_stops_no_installation(
    server: Cluster, empty_database: str, engine: SampleEngine
) -> None:
    user, password = server.create_login_role("pg_monitor")
    with psycopg.connect(make_conninfo(empty_database, user=user, password=password)) as login:
        for key in ADVISORY_KEYS:
            login.execute("select pg_advisory_lock(%s)", [key])
        run = in_background(lambda: migrate(empty_database, sources=engine.sources))
        assert run.result().changed
        assert not in_background(lambda: migrate(empty_database, sources=engine.sources)).result().changed


def test_a_login_without_a_right_to_the_schema_cannot_hold_the_lock(
    server: Cluster, installed_database: str
) -> None:
    user, password = server.create_login_role("flowfabric_admin")
    with psycopg.connect(
        make_conninfo(installed_database, user=user, password=password), autocommit=True
    ) as login:
        for mode in ("row exclusive", "share update exclusive", "share", "access exclusive", "access share"):
            with pytest.raises(pg.InsufficientPrivilege), login.transaction():
                login.execute(f"lock table flowfabric.yoyo_lock in {mode} mode".encode())


@pytest.mark.parametrize("prepared", [False, True], ids=["no schema", "an empty schema"])
def test_first_installations_at_the_same_time_are_one(
    server: Cluster, empty_database: str, engine: SampleEngine, prepared: bool
) -> None:
    with server.database() as alone:
        migrate(alone, sources=engine.sources)
        expected = read_catalogue(alone)
    if prepared:
        execute(empty_database, "create schema flowfabric")
    crowd = 6
    start = Barrier(crowd)

    def install(_: int) -> bool:
        def meet(step: str) -> None:
            if step.startswith(("creating schema", "creating yoyo's tables")):
                start.wait(timeout=30)

        return migrate(empty_database, sources=engine.sources, on_step=meet).changed

    with ThreadPoolExecutor(max_workers=crowd) as pool:
        assert sorted(pool.map(install, range(crowd))) == [False] * (crowd - 1) + [True]
    assert read_catalogue(empty_database) == expected


def test_an_installer_that_lost_its_lock_stops(installed_database: str, engine: SampleEngine) -> None:
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")

    def lose(step: str) -> None:
        if step == "installation lock taken":
            assert rows(installed_database, f"select pg_terminate_backend(pid, 10000) {HOLDERS}") == [(True,)]

    with pytest.raises(InstallError, match=r"^The connection that holds the installation lock was lost"):
        migrate(installed_database, sources=engine.sources, on_step=lose)

    assert not status(installed_database, sources=engine.sources).current
    assert migrate(installed_database, sources=engine.sources).applied == ("0003.colour",)


def test_a_schema_that_is_dropped_while_an_installer_waits_is_installed_again(
    installed_database: str, engine: SampleEngine
) -> None:
    steps: list[str] = []
    with psycopg.connect(installed_database) as other:
        other.execute("drop schema flowfabric cascade")
        run = in_background(lambda: migrate(installed_database, sources=engine.sources, on_step=steps.append))
        wait_until(lambda: "waiting for another installer to finish" in steps, "the installer waits")
    assert run.result().changed
    assert "creating schema flowfabric" in steps
    assert status(installed_database, sources=engine.sources).current
