"""Runs a pgTAP file with psql and says what is wrong with it.

psql gets the arguments that pg_prove gives it, so that a file means the same to pg_prove and to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.support.cluster import HarnessError

_PSQL_OPTIONS = (
    "--no-psqlrc",
    "--no-align",
    "--quiet",
    "--pset=pager=off",
    "--pset=tuples_only=true",
    "--set=ON_ERROR_ROLLBACK=1",
    "--set=ON_ERROR_STOP=1",
)
_DEADLINE_S = 120

_PLAN = re.compile(r"1\.\.(?P<count>\d+)")
_RESULT = re.compile(r"(?P<failed>not )?ok\b(?: +(?P<number>\d+))?(?P<description>.*)")
_TODO = re.compile(r"# *todo\b", re.IGNORECASE)


@dataclass
class PgTapRun:
    """What one file printed, and every reason not to call it passed."""

    output: str
    problems: list[str] = field(default_factory=list)


def find_psql(bin_dir: Path | None) -> Path:
    """The server's own psql, else the one on PATH."""
    if bin_dir is not None and (bin_dir / "psql").exists():
        return bin_dir / "psql"
    on_path = shutil.which("psql")
    if on_path is None:
        raise HarnessError(
            "psql was not found: install it (on Debian: sudo apt-get install -y postgresql-client)."
        )
    return Path(on_path)


def run_pgtap(file: Path, *, dsn: str, psql: Path) -> PgTapRun:
    """Run a file against a database and judge what it printed and what it left behind."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    try:
        done = subprocess.run(
            [psql, *_PSQL_OPTIONS, f"--dbname={dsn}", f"--file={file}"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**environment, "PGCLIENTENCODING": "UTF8"},
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        return PgTapRun(output, [f"The file did not end within {_DEADLINE_S} s."])
    run = PgTapRun(done.stdout, tap_problems(done.stdout))
    if done.returncode != 0 or done.stderr:
        run.problems.insert(0, f"psql ended with status {done.returncode} and said:\n{done.stderr.rstrip()}")
    if left_behind(dsn):
        run.problems.append("The file committed: schema ff_tap is still there after it.")
    return run


def tap_problems(output: str) -> list[str]:
    """Every failing assertion with its diagnostics, and every reason not to call the run complete."""
    problems: list[str] = []
    planned: int | None = None
    results = 0
    diagnostics_of_failure: list[str] | None = None
    for line in output.splitlines():
        if plan := _PLAN.match(line):
            planned = int(plan["count"])
        elif line.startswith("Bail out!"):
            problems.append(line)
        elif result := _RESULT.match(line):
            results += 1
            if diagnostics_of_failure:
                problems.append("\n".join(diagnostics_of_failure))
            failed = result["failed"] and not _TODO.search(result["description"])
            diagnostics_of_failure = [line] if failed else None
            if result["number"] and int(result["number"]) != results:
                problems.append(f"Assertion {results} calls itself number {result['number']}.")
        elif line.startswith("#") and diagnostics_of_failure:
            diagnostics_of_failure.append(line)
    if diagnostics_of_failure:
        problems.append("\n".join(diagnostics_of_failure))
    if planned is None:
        problems.append("The file has no plan: it ended before `select plan(...)` or has none.")
    elif planned == 0:
        problems.append("The file plans no assertion.")
    elif planned != results:
        problems.append(f"The file planned {planned} assertions and made {results}.")
    return problems


def left_behind(dsn: str) -> bool:
    """Whether the transaction in which a file made its fixtures was committed."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select to_regnamespace('ff_tap') is not null").fetchone()
    return row == (True,)
