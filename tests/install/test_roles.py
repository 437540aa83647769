"""The client roles: created by whoever may, otherwise asked of a DBA before anything is changed.

Roles belong to the whole server, so these tests have a server of their own.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from flowfabric_client.install import CLIENT_ROLES, InstallError, migrate, render_roles_sql, status
from tests.install.sample import SampleEngine
from tests.install.test_migrate import execute, rows
from tests.support.cluster import Cluster
from tests.support.pgtap import find_psql


@pytest.fixture
def database_of_app(roleless_server: Cluster) -> str:
    """A database that the plain login role `app` owns; the DSN is the superuser's."""
    name = roleless_server.create_database()
    dsn = roleless_server.dsn(name)
    execute(dsn, "create role app login password 'app'", f"alter database {name} owner to app")
    return dsn


def as_app(dsn: str) -> str:
    return make_conninfo(dsn, user="app", password="app")


def test_the_installer_creates_nologin_roles_and_makes_admin_a_member_of_the_others(
    roleless_server: Cluster, engine: SampleEngine
) -> None:
    with roleless_server.database() as dsn:
        migrate(dsn, sources=engine.sources)
        created = rows(
            dsn,
            """
            select rolname, rolcanlogin, rolsuper, rolcreaterole,
                pg_has_role('flowfabric_admin', oid, 'usage')
            from pg_roles where starts_with(rolname, 'flowfabric_')""",
        )
    assert sorted(created) == [(role, False, False, False, True) for role in sorted(CLIENT_ROLES)]


def test_a_role_with_createrole_creates_them(database_of_app: str, engine: SampleEngine) -> None:
    execute(database_of_app, "alter role app createrole")

    assert migrate(as_app(database_of_app), sources=engine.sources).owner == "app"
    assert status(as_app(database_of_app), sources=engine.sources).current


def test_a_role_that_may_not_create_roles_gets_the_sql_for_a_dba(
    roleless_server: Cluster, database_of_app: str, engine: SampleEngine
) -> None:
    with pytest.raises(
        InstallError, match=r"^Role app may not create flowfabric_producer, .* and flowfabric_admin: "
    ) as failure:
        migrate(as_app(database_of_app), sources=engine.sources)
    assert failure.value.sql == render_roles_sql()
    assert rows(database_of_app, "select from pg_namespace where nspname = 'flowfabric'") == []

    run_psql(roleless_server, database_of_app, failure.value.sql)

    assert migrate(as_app(database_of_app), sources=engine.sources).owner == "app"


def run_psql(server: Cluster, dsn: str, text: str) -> None:
    psql = find_psql(server.bin_dir)
    subprocess.run([psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn], input=text, text=True, check=True)


def test_a_missing_membership_is_asked_for_as_well(database_of_app: str, engine: SampleEngine) -> None:
    execute(database_of_app, render_roles_sql(), "revoke flowfabric_reader from flowfabric_admin")

    with pytest.raises(
        InstallError, match=r"^Role app may not grant flowfabric_reader to flowfabric_admin: "
    ):
        migrate(as_app(database_of_app), sources=engine.sources)

    execute(database_of_app, "grant flowfabric_reader to app with admin option")
    migrate(as_app(database_of_app), sources=engine.sources)
    assert rows(database_of_app, "select pg_has_role('flowfabric_admin', 'flowfabric_reader', 'usage')") == [
        (True,)
    ]


def test_createrole_grants_a_role_of_others_only_before_postgres_16(
    roleless_server: Cluster, database_of_app: str, engine: SampleEngine
) -> None:
    """Since PostgreSQL 16 CREATEROLE gives power over the roles that one created, and over no others."""
    execute(database_of_app, "alter role app createrole", "create role flowfabric_reader nologin")
    if roleless_server.version < 16:
        assert migrate(as_app(database_of_app), sources=engine.sources).changed
    else:
        with pytest.raises(
            InstallError,
            match=r"^Role app may not create .* and grant flowfabric_reader to flowfabric_admin: ",
        ):
            migrate(as_app(database_of_app), sources=engine.sources)


def test_a_missing_role_is_noticed_and_filled_in(roleless_server: Cluster, engine: SampleEngine) -> None:
    with roleless_server.database() as dsn:
        migrate(dsn, sources=engine.sources)
        execute(dsn, "drop owned by flowfabric_signaller", "drop role flowfabric_signaller")
        assert status(dsn, sources=engine.sources).missing_roles == ("flowfabric_signaller",)

        assert migrate(dsn, sources=engine.sources).changed

        assert status(dsn, sources=engine.sources).current


def test_installations_into_two_databases_at_the_same_time_share_the_roles(
    roleless_server: Cluster, engine: SampleEngine
) -> None:
    start = Barrier(3)

    def install(dsn: str) -> None:
        def meet(step: str) -> None:
            if step.startswith("roles: "):
                start.wait(timeout=30)

        migrate(dsn, sources=engine.sources, on_step=meet)

    names = [roleless_server.create_database() for _ in range(3)]
    with ThreadPoolExecutor(max_workers=3) as pool:
        list(pool.map(install, map(roleless_server.dsn, names)))
    for name in names:
        assert status(roleless_server.dsn(name), sources=engine.sources).current


def test_an_existing_role_is_left_as_its_dba_made_it(roleless_server: Cluster, engine: SampleEngine) -> None:
    with roleless_server.database() as dsn:
        execute(dsn, "create role flowfabric_worker login connection limit 5")
        migrate(dsn, sources=engine.sources)
        role = rows(dsn, "select rolcanlogin, rolconnlimit from pg_roles where rolname = 'flowfabric_worker'")
    assert role == [(True, 5)]


def test_the_owner_need_not_be_able_to_create_roles(database_of_app: str, engine: SampleEngine) -> None:
    execute(database_of_app, "alter role app nologin")
    assert migrate(database_of_app, sources=engine.sources, owner="app").owner == "app"


def test_a_role_that_may_not_create_a_schema_is_refused(database_of_app: str, engine: SampleEngine) -> None:
    database = psycopg.conninfo.conninfo_to_dict(database_of_app)["dbname"]
    execute(database_of_app, render_roles_sql(), f"alter database {database} owner to postgres")

    with pytest.raises(
        InstallError, match=rf"^Role app may not create a schema in database {database}: "
    ) as failure:
        migrate(as_app(database_of_app), sources=engine.sources)

    assert failure.value.sql == f'grant create on database "{database}" to "app";\n'
    execute(database_of_app, failure.value.sql)
    assert migrate(as_app(database_of_app), sources=engine.sources).changed


def test_an_installation_of_another_owner_is_refused(database_of_app: str, engine: SampleEngine) -> None:
    migrate(database_of_app, sources=engine.sources)

    with pytest.raises(
        InstallError, match=r"^Role app may not act as postgres, the owner of schema flowfabric: "
    ):
        migrate(as_app(database_of_app), sources=engine.sources)
    with pytest.raises(InstallError, match=r"^Schema flowfabric belongs to postgres, not to app: "):
        migrate(database_of_app, sources=engine.sources, owner="app")
    with pytest.raises(InstallError, match=r"permission denied for schema flowfabric: connect as the owner"):
        status(as_app(database_of_app), sources=engine.sources)


def test_an_owner_that_does_not_exist_is_refused(empty_database: str, engine: SampleEngine) -> None:
    with pytest.raises(InstallError, match=r"^Role nobody does not exist: "):
        migrate(empty_database, sources=engine.sources, owner="nobody")
