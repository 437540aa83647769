"""The pgTAP collector: nothing but a complete, clean run of a file counts as passed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster import REPOSITORY, Cluster
from tests.support.pgtap import PgTapRun, find_psql, run_pgtap

HELPERS = REPOSITORY / "pgtap/helpers.sql"
PASSING = "select plan(1); select is(1, 1, 'one is one'); select * from finish(); rollback;"

Run = Callable[[str], PgTapRun]


@pytest.fixture
def run(server: Cluster, tmp_path: Path) -> Iterator[Run]:
    """Runs the text of a pgTAP file, after the opening that all of them have."""
    with server.database(server.pgtap_template) as dsn:

        def run_text(text: str) -> PgTapRun:
            file = tmp_path / "example.sql"
            file.write_text(f"begin;\n\\i {HELPERS}\n{text}\n")
            return run_pgtap(file, dsn=dsn, psql=find_psql(server.bin_dir))

        yield run_text


def test_a_complete_file_passes(run: Run) -> None:
    assert run(PASSING).problems == []


def test_a_failing_assertion_is_reported_with_what_it_got_and_wanted(run: Run) -> None:
    (problem,) = run(PASSING.replace("is(1, 1,", "is(1, 2,")).problems
    assert "not ok 1 - one is one" in problem
    assert "have: 1" in problem
    assert "want: 2" in problem


def test_each_failing_assertion_is_reported(run: Run) -> None:
    text = "select plan(3); select ok(false, 'a'); select ok(true, 'b'); select ok(false, 'c'); rollback;"
    first, second = run(text).problems
    assert first.startswith("not ok 1 - a")
    assert second.startswith("not ok 3 - c")


def test_fewer_assertions_than_planned_fail(run: Run) -> None:
    problems = run(PASSING.replace("plan(1)", "plan(2)")).problems
    assert problems == ["The file planned 2 assertions and made 1."]


def test_more_assertions_than_planned_fail(run: Run) -> None:
    problems = run(PASSING.replace("select * from", "select ok(true, 'more'); select * from")).problems
    assert problems == ["The file planned 1 assertions and made 2."]


def test_a_file_without_a_plan_fails(run: Run) -> None:
    (problem,) = run("select 1; rollback;").problems
    assert "has no plan" in problem


def test_a_file_without_assertions_fails(run: Run) -> None:
    assert "The file plans no assertion." in run("select '1..0'; rollback;").problems


def test_an_sql_error_fails_and_is_shown(run: Run) -> None:
    problem, incomplete = run(
        "select plan(1); select 1 / 0; select ok(true, 'not reached'); rollback;"
    ).problems
    assert "status 3" in problem
    assert "division by zero" in problem
    assert incomplete == "The file planned 1 assertions and made 0."


def test_an_error_after_the_last_assertion_fails(run: Run) -> None:
    (problem,) = run(PASSING.replace("rollback;", "select no_such_column; rollback;")).problems
    assert "no_such_column" in problem


def test_a_warning_fails(run: Run) -> None:
    (problem,) = run(PASSING + " rollback;").problems
    assert "there is no transaction in progress" in problem


def test_a_file_that_commits_fails(run: Run) -> None:
    (problem,) = run(PASSING.replace("rollback", "commit")).problems
    assert problem == "The file committed: schema ff_tap is still there after it."


def test_a_database_without_pgtap_is_named_as_the_reason(
    server: Cluster, empty_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "example.sql"
    file.write_text(f"begin;\n\\i {HELPERS}\n{PASSING}\n")
    run = run_pgtap(file, dsn=empty_database, psql=find_psql(server.bin_dir))
    assert any("pgTAP is not installed" in problem for problem in run.problems)


def test_the_helpers_by_themselves_are_a_skipped_file(server: Cluster) -> None:
    with server.database(server.pgtap_template) as dsn:
        run = run_pgtap(HELPERS, dsn=dsn, psql=find_psql(server.bin_dir))
    assert run.output == "1..0 # SKIP fixtures that the other files include\n"
    assert run.problems == ["The file plans no assertion."]


def test_error_of_returns_the_detail_of_a_refusal(run: Run) -> None:
    text = r"""
        select plan(2);
        \set refused 'select flowfabric.ff_set_setting(\'no such setting\', 1)'
        select is(ff_tap.error_of(:'refused') ->> 'code', 'invalid_input', 'the detail is JSON');
        select is(ff_tap.sqlstate_of(:'refused'), 'ZV001', 'the SQLSTATE is that of the code');
        rollback;"""
    assert run(text).problems == []


def test_error_of_a_statement_that_succeeds_is_an_error(run: Run) -> None:
    problem, _ = run(
        "select plan(1); select isnt(ff_tap.error_of('select 1'), null, 'x'); rollback;"
    ).problems
    assert "this raised no error: select 1" in problem


def test_error_of_passes_other_errors_through(run: Run) -> None:
    problem, _ = run(
        "select plan(1); select isnt(ff_tap.error_of('select 1 / 0'), null, 'x'); rollback;"
    ).problems
    assert "division by zero" in problem


def test_the_clock_stands_still_and_moves_on_command(run: Run) -> None:
    text = """
        select plan(2);
        select ff_tap.freeze_time(1000);
        select is(flowfabric.ff_now_ms(), 1000::bigint, 'frozen');
        select ff_tap.advance_time(500);
        select is(flowfabric.ff_now_ms(), 1500::bigint, 'advanced');
        rollback;"""
    assert run(text).problems == []


def test_pytest_reports_each_file_as_a_test_of_its_own(server: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "pgtap/10_example"
    folder.mkdir(parents=True)
    (tmp_path / "pgtap/helpers.sql").write_text(HELPERS.read_text())
    (folder / "good.sql").write_text(f"begin;\n\\ir ../helpers.sql\n{PASSING}\n")
    (folder / "bad.sql").write_text(
        f"begin;\n\\ir ../helpers.sql\n{PASSING.replace('is(1, 1,', 'is(1, 2,')}\n"
    )
    options = ["-v", "-p", "tests.support.plugin", "--rootdir", str(tmp_path)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path,
        env={
            **inherited,
            "PYTHONPATH": str(REPOSITORY),
            "FLOWFABRIC_TEST_DSN": server.dsn(),
            "FLOWFABRIC_TEST_PG": "env",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pgtap/10_example/good.sql::pgtap PASSED" in done.stdout
    assert "pgtap/10_example/bad.sql::pgtap FAILED" in done.stdout
    assert "#         want: 2" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


@pytest.mark.skipif(shutil.which("pg_prove") is None, reason="pg_prove is not installed")
def test_pg_prove_runs_the_same_files(server: Cluster) -> None:
    command = [sys.executable, str(REPOSITORY / "tools/run_pg_prove.py")]
    files = ["pgtap/00_contract", "pgtap/helpers.sql"]
    with server.database(server.pgtap_template) as dsn:
        done = subprocess.run([*command, dsn, *files], capture_output=True, text=True, check=False)
    assert "pgtap/00_contract/grants.sql" in done.stdout
    assert "skipped: fixtures that the other files include" in done.stdout
    assert done.stdout.endswith("Result: PASS\n")


def test_pg_prove_stops_with_a_sentence_without_a_database() -> None:
    command = [sys.executable, str(REPOSITORY / "tools/run_pg_prove.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make pgtap DSN=" in done.stderr
