"""plpgsql_check over every function: PL/pgSQL itself finds a mistyped column only when the line runs."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
from psycopg.rows import class_row

from tests.support.cluster import Connection

REQUIRED = os.environ.get("FLOWFABRIC_REQUIRE_PLPGSQL_CHECK") == "1"


@dataclass(frozen=True)
class Finding:
    function: str
    line: int | None
    level: str
    message: str

    def __str__(self) -> str:
        return f"{self.function}, line {self.line}: {self.level}: {self.message}"


def check_functions(connection: Connection) -> list[Finding]:
    with connection.cursor(row_factory=class_row(Finding)) as cursor:
        return cursor.execute(
            """
            select p.oid::regprocedure::text as function, found.lineno as line, found.level,
                concat_ws(' ', found.message, found.detail, found.hint, 'in: ' || found.query) as message
            from pg_proc as p
            join pg_language as l on l.oid = p.prolang
            cross join lateral plpgsql_check_function_tb(
                p.oid, fatal_errors => false, all_warnings => true) as found
            where p.pronamespace = 'flowfabric'::regnamespace and l.lanname = 'plpgsql'
                -- The check takes row locks for reads. A function that locks must be volatile: a stable one
                -- sees the snapshot of its caller, and not what it waited for.
                and found.message <> 'routine is marked as VOLATILE, should be STABLE'
            order by 1, 2
            """
        ).fetchall()


@pytest.fixture
def checked(db: Connection) -> Connection:
    """A database with plpgsql_check in it."""
    if not db.execute("select from pg_available_extensions where name = 'plpgsql_check'").rowcount:
        missing = (
            "The server has no plpgsql_check: install its package "
            "(on Debian, for PostgreSQL 15: sudo apt-get install -y postgresql-15-plpgsql-check)."
        )
        if REQUIRED:
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    db.execute("create extension plpgsql_check")
    return db


def test_no_function_body_has_a_mistake(checked: Connection) -> None:
    findings = check_functions(checked)
    if findings:
        pytest.fail("\n".join(map(str, findings)), pytrace=False)


def test_a_mistyped_column_is_found(checked: Connection) -> None:
    checked.execute(
        """
        create function flowfabric._ff_mistyped() returns void language plpgsql as $$
        begin
            update flowfabric.ff_setting set no_such_column = 1;
        end;
        $$
        """
    )
    found = [finding for finding in check_functions(checked) if finding.line == 3]
    assert any("no_such_column" in finding.message for finding in found)
