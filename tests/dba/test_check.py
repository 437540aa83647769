"""dba/check.sql: what a DBA runs on a production database, with a role that can only read."""

from __future__ import annotations

import os
import re
import subprocess

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.attack.catalogue import documented_roles
from tests.attack.digest import stored_digest
from tests.install.catalogue import read_catalogue
from tests.support.cluster import REPOSITORY, Cluster
from tests.support.pgtap import find_psql, tap_problems

CHECK = REPOSITORY / "dba/check.sql"
_GRANTS = re.compile(r"^    \('([a-z ]+)', '\n([a-z_ \n]+)'\)", re.MULTILINE)

#: What may be wrong with an installation, and the line that says so, by the number of its check.
DAMAGE = {
    "drop function flowfabric.ff_ping()": (2, "ff_ping is missing"),
    "create function flowfabric.ff_extra() returns void language sql as ''": (2, "flowfabric.ff_extra()"),
    "grant execute on function flowfabric.ff_tick to flowfabric_reader": (
        3,
        "reader may call flowfabric.ff_tick(",
    ),
    "revoke execute on function flowfabric.ff_why from flowfabric_producer": (3, "producer may not call"),
    "grant execute on function flowfabric.ff_version to public": (
        4,
        "PUBLIC may call flowfabric.ff_version()",
    ),
    "grant execute on function flowfabric._ff_hmac_sha256 to flowfabric_signaller": (
        4,
        "flowfabric_signaller may call flowfabric._ff_hmac_sha256(",
    ),
    "grant select on flowfabric.ff_exec_core to pg_monitor": (7, "pg_monitor has SELECT on ff_exec_core"),
    "grant select (kid) on flowfabric.ff_waitpoint_hmac to pg_monitor": (
        7,
        "column kid of ff_waitpoint_hmac",
    ),
    "grant select on flowfabric.ff_v_execution to flowfabric_signaller": (
        8,
        "flowfabric_signaller has SELECT",
    ),
    "grant create on schema flowfabric to flowfabric_worker": (9, "flowfabric_worker has CREATE"),
    "alter table flowfabric.ff_lane_registry owner to pg_monitor": (
        10,
        "ff_lane_registry belongs to pg_monitor",
    ),
    "alter function flowfabric.ff_now_ms() security definer": (11, "flowfabric.ff_now_ms()"),
    "create trigger extra before update on flowfabric.ff_setting execute function"
    " suppress_redundant_updates_trigger()": (12, "trigger extra on ff_setting"),
    "update flowfabric.ff_exec_core set attempt_is_deferred = false": (14, "current_attempt_exists"),
    "update flowfabric.ff_scanner set last_run_at_ms = 1, next_due_at_ms = 2": (15, "critical scanners"),
}


@pytest.fixture
def healthy(server: Cluster, production_database: str) -> str:
    """A production installation that has been initialised and is being looked after."""
    with psycopg.connect(production_database, autocommit=True) as connection:
        connection.execute("select flowfabric.ff_initialize(p_hmac_kid => 'first')")
        connection.execute("select flowfabric.ff_tick(p_force => true)")
        connection.execute("select flowfabric.ff_create_execution('kind')")
        connection.execute("select flowfabric.ff_claim_next(array['default'], 'pool', 'worker')")
    return production_database


def check(server: Cluster, dsn: str, *roles: str) -> str:
    """What the check prints for a login with these roles, in a session that may write nothing."""
    user, password = server.create_login_role(*roles)
    done = subprocess.run(
        [
            find_psql(server.bin_dir),
            "--no-psqlrc",
            f"--file={CHECK}",
            f"--dbname={make_conninfo(dsn, user=user, password=password)}",
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PGOPTIONS": "-c default_transaction_read_only=on"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_sound_installation_passes_and_is_not_changed(server: Cluster, healthy: str) -> None:
    with psycopg.connect(healthy, autocommit=True) as connection:
        rows, catalogue = stored_digest(connection), read_catalogue(healthy)
        assert tap_problems(check(server, healthy, "flowfabric_reader")) == []
        assert (stored_digest(connection), read_catalogue(healthy)) == (rows, catalogue)


def test_every_damage_is_found_and_named(server: Cluster, healthy: str) -> None:
    with psycopg.connect(healthy, autocommit=True) as connection:
        for statement in DAMAGE:
            connection.execute(statement.encode())
    found = tap_problems(check(server, healthy, "flowfabric_reader"))
    unnamed = [
        statement
        for statement, (number, line) in DAMAGE.items()
        if not any(problem.startswith(f"not ok {number} ") and line in problem for problem in found)
    ]
    assert unnamed == [], "\n".join(found)
    assert len(found) == len({number for number, _ in DAMAGE.values()})


def test_the_test_clock_does_not_belong_in_production(server: Cluster, database: str) -> None:
    assert "not ok 13 - the test clock is not installed" in check(server, database, "flowfabric_reader")


@pytest.mark.parametrize("role", ["flowfabric_worker", "pg_monitor"])
def test_who_may_not_look_is_told_so(role: str, server: Cluster, production_database: str) -> None:
    output = check(server, production_database, role)
    assert output.startswith("Bail out!")
    assert "not a member of flowfabric_reader" in output


def test_its_table_of_grants_is_the_documented_one() -> None:
    table = {
        function: {"admin", *roles.split()}
        for roles, functions in _GRANTS.findall(CHECK.read_text(encoding="utf-8"))
        for function in functions.split()
    }
    assert table == documented_roles(), "keep dba/check.sql and pgtap/00_contract/grants.sql in step"
