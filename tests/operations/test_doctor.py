"""The doctor on real servers: a clean bill, what only a second session can provoke, few rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from flowfabric_client import install
from flowfabric_client._sql import SqlSources
from tests.conftest import Connect
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import wait_until

Row = dict[str, Any]


def doctor(connection: Connection, function: str = "ff_doctor()") -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"select * from flowfabric.{function}").fetchall()


def findings(connection: Connection, check: str) -> list[Row]:
    return [row for row in doctor(connection) if row["check_name"] == check]


@pytest.fixture
def production(production_database: str) -> Iterator[Connection]:
    """An installation as in production that was initialised, and whose tick has run."""
    with psycopg.connect(production_database, autocommit=True) as connection:
        connection.execute("select flowfabric.ff_initialize(p_hmac_kid => 'kid-1')")
        connection.execute("select flowfabric.ff_tick(p_max_ms => 60000)")
        yield connection


def test_a_clean_installation_with_a_running_tick_has_no_finding(production: Connection) -> None:
    assert doctor(production) == []
    assert {row["severity"] for row in doctor(production, "ff_doctor(true)")} == {"ok"}


def test_work_in_progress_is_no_finding(production: Connection) -> None:
    production.execute(
        """
        select flowfabric.ff_register_worker('w', 'w-1');
        select flowfabric.ff_create_execution('test') from generate_series(1, 20);
        select flowfabric.ff_claim_next('{default}', 'w', 'w-1', p_max => 5);
        select flowfabric.ff_tick(p_force => true, p_max_ms => 60000)"""
    )
    assert doctor(production) == []


def test_the_functions_say_for_which_migrations_they_were_written(db: Connection) -> None:
    last = SqlSources.shipped().migrations()[-1].number
    assert db.execute("select flowfabric._ff_schema_version()").fetchone() == (last,)


def test_an_installation_that_nobody_ticks_is_critical(production_database: str) -> None:
    with psycopg.connect(production_database, autocommit=True) as connection:
        connection.execute("select flowfabric.ff_initialize(p_hmac_kid => 'kid-1')")
        (found,) = doctor(connection)
    assert (found["check_name"], found["severity"]) == ("scanners", "critical")
    assert found["finding"] == "No scanner has ever run."


def test_a_transaction_that_stays_open_is_named(production: Connection, production_database: str) -> None:
    with psycopg.connect(production_database, application_name="forgotten") as forgotten:
        forgotten.execute("select flowfabric.ff_create_execution('test')")
        assert findings(production, "oldest_snapshot") == []
        # The check itself waits for five minutes; here it is told to wait for none.
        (found,) = doctor(production, "_ff_doctor_oldest_snapshot(0, 3600000)")
        assert found["severity"] == "warning"
        assert found["detail"]["pid"] == forgotten.info.backend_pid
        assert (found["detail"]["kind"], found["detail"]["name"]) == ("session", "forgotten")
        assert found["detail"]["state"] == "idle in transaction"
        assert str(forgotten.info.backend_pid) in found["what_to_do"]
        (found,) = doctor(production, "_ff_doctor_oldest_snapshot(0, 0)")
        assert found["severity"] == "critical"
        forgotten.rollback()
    assert doctor(production, "_ff_doctor_oldest_snapshot(0, 0)") == []


def test_a_reader_that_only_holds_a_snapshot_is_named_too(
    production: Connection, production_database: str
) -> None:
    with psycopg.connect(production_database) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("select 1")
        (found,) = doctor(production, "_ff_doctor_oldest_snapshot(0, 0)")
        assert found["detail"]["pid"] == reader.info.backend_pid
        reader.rollback()


def test_a_writer_in_another_database_holds_back_events_and_is_named(
    production: Connection, server: Cluster
) -> None:
    with psycopg.connect(server.dsn()) as elsewhere:
        elsewhere.execute("create table left_open (x integer)")
        (found,) = doctor(production, "_ff_doctor_oldest_snapshot(0, 0)")
        assert found["detail"]["pid"] == elsewhere.info.backend_pid
        elsewhere.rollback()


def test_dead_rows_and_a_vacuum_that_does_not_come_are_named(production: Connection) -> None:
    assert findings(production, "dead_rows") == findings(production, "vacuum") == []
    production.execute(
        """
        insert into flowfabric.ff_claim_grant (
            partition_key, execution_id, grant_ttl_ms, issued_at_ms, expires_at_ms, grant_id, kind, worker_id,
            worker_instance_id)
        select 0, gen_random_uuid(), 1, 1, 1, '', 'claim', 'w', 'w-1' from generate_series(1, 10001);
        delete from flowfabric.ff_claim_grant"""
    )
    # Statistics arrive a little later.
    wait_until(lambda: bool(findings(production, "dead_rows")), "the dead rows were noticed")
    (dead,) = findings(production, "dead_rows")
    assert (dead["severity"], dead["detail"]["table"]) == ("warning", "ff_claim_grant")
    assert dead["detail"]["dead_rows"] == 10001
    assert findings(production, "vacuum") == []
    production.execute(
        "update flowfabric.ff_migration_annotation set applied_at_ms = applied_at_ms - 2 * 3600000"
    )
    (late,) = findings(production, "vacuum")
    assert late["finding"] == "ff_claim_grant needs a vacuum and has had none for an hour."
    production.execute("vacuum flowfabric.ff_claim_grant")
    wait_until(lambda: not findings(production, "vacuum"), "the vacuum was noticed")
    assert findings(production, "dead_rows") == []


def test_an_index_that_is_not_valid_is_named(production: Connection) -> None:
    production.execute(
        "update pg_index set indisvalid = false where indexrelid = 'flowfabric.ff_attempt_pkey'::regclass"
    )
    (found,) = findings(production, "functions")
    assert (found["severity"], found["detail"]) == ("critical", {"invalid_indexes": ["ff_attempt_pkey"]})


def test_a_role_that_is_missing_is_named(production: Connection) -> None:
    # A role belongs to the whole server, so it comes back in any case.
    production.execute("alter role flowfabric_signaller rename to flowfabric_signaler")
    try:
        found = findings(production, "grants")
    finally:
        production.execute("alter role flowfabric_signaler rename to flowfabric_signaller")
    assert found[0]["detail"] == {"missing_roles": ["flowfabric_signaller"]}
    assert findings(production, "grants") == []


@pytest.fixture
def modest(server: Cluster) -> Iterator[tuple[str, str]]:
    """An installation whose owner has no rights beyond it: its DSN as superuser, and the owner's name."""
    owner, password = server.create_login_role("pg_monitor")
    name = server.create_database()
    dsn = server.dsn(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"revoke pg_monitor from {owner}")
        connection.execute(f"alter database {name} owner to {owner}")
    install.migrate(make_conninfo(dsn, user=owner, password=password))
    yield dsn, owner
    server.drop_database(name)


def test_a_doctor_without_the_right_to_see_says_so_and_goes_on(
    modest: tuple[str, str], server: Cluster
) -> None:
    dsn, owner = modest
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select flowfabric.ff_initialize(p_hmac_kid => 'kid-1')")
        connection.execute("select flowfabric.ff_tick(p_max_ms => 60000)")
        connection.execute("revoke execute on function pg_notification_queue_usage() from public")
    user, password = server.create_login_role("flowfabric_reader")
    with psycopg.connect(make_conninfo(dsn, user=user, password=password), autocommit=True) as reader:
        found = doctor(reader)
    assert [(row["check_name"], row["severity"]) for row in found] == [
        ("oldest_snapshot", "notice"),
        ("notify_queue", "notice"),
    ]
    assert all(
        row["what_to_do"] == f"Grant pg_read_all_stats to {owner}, the owner of the schema." for row in found
    )
    assert "permission denied for function pg_notification_queue_usage" in found[1]["finding"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"grant pg_read_all_stats to {owner}")
    with psycopg.connect(make_conninfo(dsn, user=user, password=password), autocommit=True) as reader:
        assert [row["check_name"] for row in doctor(reader)] == ["notify_queue"]


def test_a_consumer_behind_a_forgotten_transaction_learns_why(db: Connection, connect: Connect) -> None:
    db.execute("select flowfabric.ff_tick(p_max_ms => 60000)")
    forgotten = connect(autocommit=False)
    forgotten.execute("select flowfabric.ff_register_lane('forgotten')")
    db.execute(
        "select flowfabric.ff_cancel_execution(c.execution_id, 'test', 'operator_override') "
        "from flowfabric.ff_create_execution('test') as c"
    )
    assert findings(db, "events") == []
    db.execute("select flowfabric.ff_test_set_clock('advance', 60000)")
    found = findings(db, "events")
    assert {row["detail"]["stream"] for row in found} == {"completion", "operator"}
    assert {(row["severity"], row["detail"]["held_back"]) for row in found} == {("warning", 1)}
    forgotten.rollback()
    assert findings(db, "events") == []
