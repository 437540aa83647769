"""The harness itself: what the other tests take for granted."""

from __future__ import annotations

import psycopg
import pytest

from flowfabric_client._sql import SqlSources
from tests.conftest import Clock, Connect, RoleConnection
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import in_background, wait_until, wait_until_blocked


def value(connection: Connection, statement: str) -> object:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def test_a_test_starts_with_no_executions_and_a_running_clock(db: Connection) -> None:
    assert value(db, "select count(*) from flowfabric.ff_exec_core") == 0
    assert value(db, "select count(*) from flowfabric.ff_setting where name like 'test_clock\\_%'") == 0


def test_databases_of_one_template_are_apart(server: Cluster) -> None:
    with server.database(server.template) as one, server.database(server.template) as other:
        with psycopg.connect(one) as connection:
            connection.execute("create table flowfabric.ff_only_here ()")
        with psycopg.connect(other) as connection:
            assert value(connection, "select to_regclass('flowfabric.ff_only_here')") is None


def test_the_clock_is_the_same_on_every_connection(connect: Connect, clock: Clock) -> None:
    clock.freeze(1_000)
    assert [value(connect(), "select flowfabric.ff_now_ms()") for _ in range(2)] == [1_000, 1_000]
    clock.advance(500)
    assert clock.now_ms() == 1_500
    clock.reset()
    assert clock.now_ms() > 1_600_000_000_000


def test_a_production_installation_has_no_test_clock(production_database: str) -> None:
    with psycopg.connect(production_database, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as refused:
            connection.execute("select flowfabric.ff_test_set_clock('freeze', 1000)")
        assert refused.value.diag.message_primary == "unavailable"


def test_a_role_connection_has_the_rights_of_its_roles_only(role_connection: RoleConnection) -> None:
    reader = role_connection("flowfabric_reader")
    assert value(reader, "select count(*) > 0 from flowfabric.ff_list_settings()") is True
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute("select flowfabric.ff_set_setting('lease_events', 0)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute("select from flowfabric.ff_setting")


def test_a_session_that_waits_for_a_lock_is_seen(connect: Connect) -> None:
    holder, waiter, observer = connect(autocommit=False), connect(), connect()
    holder.execute("select pg_advisory_xact_lock(1)")
    waiting = in_background(lambda: waiter.execute("select pg_advisory_xact_lock(1)"))
    wait_until_blocked(observer, waiter, by=holder)
    assert not waiting.is_done
    holder.rollback()
    waiting.result()


def test_an_error_in_the_background_reaches_the_test(db: Connection) -> None:
    failing = in_background(lambda: db.execute("select 1 / 0"))
    with pytest.raises(psycopg.errors.DivisionByZero):
        failing.result()


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(AssertionError, match="it did not happen that pigs fly"):
        wait_until(lambda: False, "pigs fly", deadline_s=0.01)


def test_the_ledger_ends_with_the_last_migration_file(db: Connection) -> None:
    migrations = SqlSources.shipped().migrations()
    ledger = db.execute("select version from flowfabric.ff_migration_annotation order by version").fetchall()
    assert ledger == [(migration.number,) for migration in migrations]
    assert len(migrations) == migrations[-1].number
