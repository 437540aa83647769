"""The commands migrate, status and sql: what they print and how they end."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from flowfabric_client import __version__
from flowfabric_client.cli import COMMANDS, cli
from flowfabric_client.install import CLIENT_ROLES, render_roles_sql, render_sql
from tests.install.test_migrate import execute

UNREACHABLE = "postgresql://me:s3cret@127.0.0.1:1/shop"


def run(*args: str, env: dict[str, str | None] | None = None) -> Result:
    return CliRunner().invoke(cli, args, env={"FLOWFABRIC_DSN": None, **(env or {})})


def test_migrate_shows_its_steps_and_a_second_run_says_that_nothing_was_done(empty_database: str) -> None:
    first = run("migrate", "--dsn", empty_database)
    assert first.exit_code == 0
    assert "  applying migration 0001.engine\n" in first.stdout
    assert f"FlowFabric {__version__} (schema version " in first.stdout

    second = run("migrate", env={"FLOWFABRIC_DSN": empty_database})
    assert second.exit_code == 0
    assert f"Nothing to do: FlowFabric {__version__} " in second.stdout


def test_json_is_one_object(production_database: str) -> None:
    migrated = run("migrate", "--dsn", production_database, "--json")
    assert json.loads(migrated.stdout)["changed"] is False

    status = json.loads(run("status", "--dsn", production_database, "--json").stdout)
    assert status["current"] is True
    assert status["pending"] == []

    failed = run("migrate", "--dsn", UNREACHABLE, "--json")
    assert failed.exit_code == 4
    assert json.loads(failed.stdout)["error"].startswith("Cannot connect to ")


def test_the_test_clock_can_be_taken_away(database: str) -> None:
    assert "with the test clock" in run("migrate", "--dsn", database).stdout
    removed = run("migrate", "--dsn", database, "--without-test-clock")
    assert removed.exit_code == 0
    assert "test clock" not in removed.stdout


def test_status_ends_with_0_when_current_and_with_3_when_something_is_to_do(
    empty_database: str, production_database: str
) -> None:
    assert run("status", "--dsn", empty_database).exit_code == 3

    current = run("status", "--dsn", production_database)
    assert current.exit_code == 0
    assert "Everything is current." in current.stdout

    execute(
        production_database, "update flowfabric.ff_partition_config set library_digest = 'of another build'"
    )
    changed = run("status", "--dsn", production_database)
    assert changed.exit_code == 3
    assert "differ from this client's" in changed.stdout

    execute(production_database, "delete from flowfabric.ff_migration_annotation where version > 1")
    broken = run("status", "--dsn", production_database)
    assert broken.exit_code == 1
    assert "half-installed" in broken.stderr


@pytest.mark.parametrize("command", ["migrate", "status"])
def test_an_error_is_one_sentence_on_stderr_without_the_password(command: str) -> None:
    result = run(command, "--dsn", UNREACHABLE)
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr.startswith("Error: Cannot connect to ")
    assert result.stderr.count("\n") == 1
    assert "s3cret" not in result.stderr


def test_wrong_usage_ends_with_2() -> None:
    for args in (
        ["migrate", "--lock-timeout-ms", "-1"],
        ["sql", "--roles-only", "--with-test-clock"],
        ["nonsense"],
    ):
        assert run(*args).exit_code == 2


def test_sql_prints_what_can_be_installed() -> None:
    assert run("sql").stdout == render_sql()
    assert run("sql", "--with-test-clock").stdout == render_sql(with_test_clock=True)
    roles = run("sql", "--roles-only").stdout
    assert roles == render_roles_sql()
    assert all(f"'{role}'" in roles for role in CLIENT_ROLES)


def test_every_command_can_be_loaded() -> None:
    listed = run("--help").stdout
    for command in COMMANDS:
        assert f"  {command} " in listed
        assert run(command, "--help").exit_code == 0


def test_the_command_line_starts_without_loading_what_only_some_commands_need() -> None:
    program = "import sys, flowfabric_client.cli; print({'yoyo', 'sqlparse', 'rich'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
