"""A worker without a live lease can change nothing: every write under a lease, in every way to lose one.

The matrix is dba/zombie_matrix.sql, which a DBA runs on a database of theirs with dba/zombies.sql.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.attack.digest import stored_digest
from tests.support.cluster import REPOSITORY, Cluster, Connection
from tests.support.engine import Row
from tests.support.pgtap import find_psql

SCRIPT = REPOSITORY / "dba/zombies.sql"
MATRIX = REPOSITORY / "dba/zombie_matrix.sql"

#: The heart of the fence without its judgement: whoever asks is let through.
FENCE_THAT_LETS_ALL_THROUGH = """
    create or replace function flowfabric._ff_fence_refusal(
        p_exec flowfabric.ff_exec_core, p_lease_id uuid, p_lease_epoch bigint, p_attempt_id uuid,
        p_attempt_index integer, p_override boolean, p_now_ms bigint)
    returns flowfabric.ff_refusal language sql as 'select null::flowfabric.ff_refusal'
"""


def run_script(server: Cluster, dsn: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [find_psql(server.bin_dir), "--no-psqlrc", "--quiet", f"--file={SCRIPT}", f"--dbname={dsn}"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def matrix(server: Cluster) -> Iterator[Connection]:
    """A connection in whose transaction every case was tried, each lease at the instant of its expiry."""
    with server.database(server.template) as dsn, psycopg.connect(dsn) as connection:
        connection.execute(MATRIX.read_text(encoding="utf-8").encode())
        yield connection


def rows(connection: Connection, query: LiteralString) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query).fetchall()


def test_every_stale_write_is_refused_with_the_documented_code_and_writes_nothing(matrix: Connection) -> None:
    cases = rows(matrix, "select * from pg_temp.zombie_case")
    wrong = [case for case in cases if case["actual"] != case["expected"] or case["rows_written"] != 0]
    assert wrong == []
    functions = {case["function_name"] for case in cases}
    situations = {case["situation"] for case in cases}
    assert len(cases) == len(functions) * len(situations) >= 60


def test_no_write_under_a_lease_is_missing_from_the_matrix(matrix: Connection) -> None:
    assert rows(matrix, "select * from pg_temp.zombie_forgotten") == []
    with matrix.transaction(force_rollback=True):
        matrix.execute("delete from pg_temp.zombie_call where function_name = 'ff_renew_leases'")
        assert rows(matrix, "select * from pg_temp.zombie_forgotten") == [{"proname": "ff_renew_leases"}]


def test_what_a_zombie_tries_is_accepted_while_its_lease_is_live(matrix: Connection) -> None:
    control = rows(matrix, "select * from pg_temp.zombie_control")
    assert [call for call in control if call["actual"] is not None] == []
    assert len(control) == len(rows(matrix, "select from pg_temp.zombie_call"))


def test_the_script_proves_it_on_a_production_database_and_leaves_nothing_behind(
    server: Cluster, production_database: str
) -> None:
    with psycopg.connect(production_database, autocommit=True) as connection:
        before = stored_digest(connection)
        done = run_script(server, production_database)
        assert (done.returncode, done.stderr) == (0, "")
        assert "none was accepted, none wrote a row" in done.stdout
        assert stored_digest(connection) == before


def test_the_script_fails_when_the_fence_lets_zombies_through(
    server: Cluster, production_database: str
) -> None:
    with psycopg.connect(production_database, autocommit=True) as connection:
        connection.execute(FENCE_THAT_LETS_ALL_THROUGH)
    done = run_script(server, production_database)
    assert done.returncode != 0
    assert "ACCEPTED" in done.stdout
    assert "cases are wrong" in done.stderr
