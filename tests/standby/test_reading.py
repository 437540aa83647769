"""Reading from a hot standby: it works, or a typed error says that the server is read-only."""

from __future__ import annotations

import subprocess
from random import Random

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from flowfabric_client.install import InstallError, migrate, status
from tests.attack.calling import Call, objections, perform
from tests.attack.catalogue import documented_codes, documented_roles, public_functions
from tests.attack.values import Values
from tests.cli.support import CommandLine
from tests.standby.conftest import Pair
from tests.support.cluster import REPOSITORY, Connection
from tests.support.pgtap import find_psql, tap_problems

CALLS_PER_FUNCTION = 15
#: What a reader can do and a standby cannot.
WRITING = {"ff_commit_event_cursor", "ff_wait_for_events"}


def test_every_function_of_readers_works_on_a_standby_or_says_that_it_cannot(
    pair: Pair, reader: dict[str, str]
) -> None:
    codes, roles = documented_codes(), documented_roles()
    values = Values(Random(20))
    problems: list[str] = []
    with pair.connected(**reader) as (primary, standby):
        functions = [each for each in public_functions(standby) if "reader" in roles[each.name]]
        assert len(functions) > 50
        for function in functions:
            accepted = 0
            for _ in range(CALLS_PER_FUNCTION):
                call = Call(function, pair.world.arguments(function, values))
                expected = perform(primary, call, keep=False)
                outcome = perform(standby, call, keep=False)
                problems += objections(call, outcome, codes)
                state = outcome.error.diag.sqlstate if outcome.error else None
                wanted = expected.error.diag.sqlstate if expected.error else None
                if function.name in WRITING and wanted is None:
                    wanted = "ZU005"
                    accepted += 1
                accepted += state is None
                if state != wanted:
                    problems.append(f"{call}: {state} on the standby, {wanted} on the primary")
            if not accepted:
                problems.append(f"{function.name}: no call that makes sense was tried")
    assert problems == []


def test_the_refusal_says_what_to_do(pair: Pair, reader: dict[str, str]) -> None:
    with pair.connected(**reader) as (_, standby):
        for call in (
            "select flowfabric.ff_commit_event_cursor('me', 'lease', 'v1:1:1:1')",
            "select flowfabric.ff_wait_for_events('me', array['lease'])",
        ):
            with pytest.raises(psycopg.Error) as refusal, standby.transaction():
                standby.execute(call.encode())
            assert refusal.value.sqlstate == "ZU005"
            assert refusal.value.diag.message_primary == "read_only_server"
            assert '"is_standby": true' in (refusal.value.diag.message_detail or "")
            assert "Connect to the primary" in (refusal.value.diag.message_hint or "")


def test_every_view_can_be_read(pair: Pair, reader: dict[str, str]) -> None:
    views = """
        select c.oid::regclass::text from pg_class as c
        where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'v'"""
    with pair.connected(**reader) as (primary, standby):
        names = [name for (name,) in standby.execute(views)]
        assert len(names) > 8
        for name in names:
            count = f"select count(*) from {name}".encode()
            assert standby.execute(count).fetchall() == primary.execute(count).fetchall(), name


def test_metrics_are_those_of_the_primary_but_for_what_a_standby_cannot_know(pair: Pair) -> None:
    def names(connection: Connection) -> set[str]:
        return {name for (name,) in connection.execute("select metric from flowfabric.ff_metrics()")}

    with psycopg.connect(pair.primary) as primary:
        primary.execute("select flowfabric.ff_wait_for_events('me', array['lease'])")
    pair.replica.catch_up()
    with pair.connected() as (primary, standby):
        assert names(primary) - names(standby) == {"waiters", "table_dead_ratio"}
        assert names(standby) < names(primary)


def test_the_doctor_names_the_checks_that_it_left_out(pair: Pair) -> None:
    findings = "select * from flowfabric.ff_doctor(true)"
    with pair.connected() as (primary, standby), standby.cursor(row_factory=dict_row) as cursor:
        on_primary = {row[0] for row in primary.execute(findings.encode())}
        found = {row["check_name"]: row for row in cursor.execute(findings.encode())}
        assert found["standby"]["severity"] == "notice"
        skipped = set(found["standby"]["detail"]["skipped"])
        assert set(found) == on_primary - skipped | {"standby"}
        assert "primary" in found["standby"]["what_to_do"]


def test_a_boot_check_warns_and_leaves_the_event_epoch_to_the_primary(pair: Pair) -> None:
    with pair.connected() as (primary, standby):
        row = standby.execute("select warnings, event_epoch from flowfabric.ff_boot_check(1)").fetchone()
        assert row is not None
        warnings, epoch = row
        assert "the server is a standby: it answers readers and refuses every write" in warnings
        assert primary.execute("select event_epoch from flowfabric.ff_partition_config").fetchone() == (
            epoch,
        )


COMMANDS = (
    "status",
    "top --once",
    "doctor --fail-on critical",
    "events lease",
    "executions list",
    "executions show {execution}",
    "why {execution}",
    "flows list",
    "lanes list",
    "lanes show default",
    "workers list --all",
    "budgets list",
    "quotas list",
    "keys list",
    "migrate",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_that_read_work(pair: Pair, command: str) -> None:
    execution = str(pair.world.subjects[0]["execution_id"])
    args = [word.format(execution=execution) for word in command.split()]
    expected = CommandLine(pair.primary).run(*args)
    result = CommandLine(pair.standby).run(*args)
    assert result.exit_code == expected.exit_code, result.output
    # The doctor has something to say about either server: the clock of the tests.
    assert result.exit_code == (1 if command.startswith("doctor") else 0), result.output


@pytest.mark.parametrize(
    "command", ["executions revoke {execution}", "lanes pause default", "cancel {execution}", "tick"]
)
def test_commands_that_write_say_that_the_server_is_read_only(pair: Pair, command: str) -> None:
    execution = str(pair.world.subjects[3]["execution_id"])
    args = [word.format(execution=execution) for word in command.split()]
    said = CommandLine(pair.standby).error(*args, exit_code=1)
    assert "read_only_server" in said
    assert "Connect to the primary" in said


def test_an_upgrade_of_a_standby_is_refused(pair: Pair) -> None:
    assert status(pair.standby).current
    with pytest.raises(InstallError, match=r"^This server is a standby, which cannot be written to"):
        migrate(pair.standby, force=True)


def test_the_check_for_dbas_says_the_same(pair: Pair) -> None:
    def problems(dsn: str) -> list[str]:
        psql = find_psql(pair.servers.bin_dir)
        command = [str(psql), "-X", "-q", "-A", "-t", "-f", str(REPOSITORY / "dba/check.sql"), "-d", dsn]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.stderr == ""
        return [problem.partition("\n")[0] for problem in tap_problems(run.stdout)]

    assert problems(pair.standby) == problems(pair.primary)


def test_a_read_only_session_of_the_primary_is_told_the_same(pair: Pair) -> None:
    dsn = make_conninfo(pair.primary, options="-c default_transaction_read_only=on")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for function in ("ff_metrics", "ff_doctor"):
            connection.execute(f"select * from flowfabric.{function}()".encode())
        connection.execute("select * from flowfabric.ff_boot_check(1)")
        with pytest.raises(psycopg.Error) as refusal:
            connection.execute("select flowfabric.ff_commit_event_cursor('me', 'lease', 'v1:1:1:1')")
        assert refusal.value.sqlstate == "ZU005"
        assert '"is_standby": false' in (refusal.value.diag.message_detail or "")
