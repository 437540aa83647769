"""What a command says and how it ends when it cannot reach the engine, or may not ask it."""

from __future__ import annotations

import pytest

from flowfabric_client.client import Client
from tests.cli.conftest import CommandLineAs
from tests.cli.support import UNKNOWN_EXECUTION, UNREACHABLE, CommandLine, create

# One command of each way to the database: a function, a view, a stream, a loop.
COMMANDS = [
    ("lanes", "list"),
    ("budgets", "list"),
    ("top", "--once"),
    ("top",),
    ("tick", "--loop"),
    ("events",),
    ("events", "--follow"),
    ("run", "greet"),
]


@pytest.mark.parametrize("args", COMMANDS)
def test_an_unreachable_server_is_named_without_the_password(args: tuple[str, ...]) -> None:
    nowhere = CommandLine(UNREACHABLE)
    message = nowhere.error(*args, exit_code=4)
    assert message.startswith("Error: Cannot connect to host=127.0.0.1 port=1 user=me dbname=shop: ")
    assert message.count("\n") == 1
    assert "s3cret" not in message
    (failure,) = nowhere.lines(*args, exit_code=4) if args[0] in ("events", "run") else [None]
    assert failure is None or failure["error"] in message


def test_a_broken_connection_string_is_not_quoted() -> None:
    message = CommandLine("postgresql://me:s3cret@host/x?nonsense=1").error("lanes", "list", exit_code=4)
    assert "postgresql://user@host:port/database" in message
    assert "s3cret" not in message


def test_a_database_without_the_engine_says_how_to_install_it(empty_database: str) -> None:
    for args in (("lanes", "list"), ("budgets", "list"), ("top", "--once"), ("events",), ("run", "greet")):
        assert "flowfabric migrate" in CommandLine(empty_database).error(*args, exit_code=1)


def test_a_missing_right_names_the_role_and_how_to_grant_it(flowfabric_as: CommandLineAs) -> None:
    signaller = flowfabric_as("flowfabric_signaller")
    for args, role in (
        (("executions", "list"), "flowfabric_reader"),
        (("budgets", "list"), "flowfabric_reader"),
        (("top", "--once"), "flowfabric_reader"),
        (("events",), "flowfabric_reader"),
        (("run", "greet", "--detach"), "flowfabric_producer"),
        (("tick",), "flowfabric_worker"),
        (("replay", UNKNOWN_EXECUTION), "flowfabric_operator"),
        (("keys", "rotate"), "flowfabric_operator"),
        (("consumers", "forget", "billing"), "flowfabric_operator"),
        (("lanes", "pause", "mail"), "flowfabric_operator"),
    ):
        sentence, _, grant = signaller.error(*args, exit_code=1).partition("\n\n")
        assert f"connect as a member of {role}" in sentence
        assert grant.startswith(f'grant "{role}" to ')


def test_a_role_without_any_right_is_told_the_same(flowfabric_as: CommandLineAs) -> None:
    assert "flowfabric_reader" in flowfabric_as("pg_monitor").error("lanes", "list", exit_code=1)


def test_whoever_may_create_but_not_watch_is_told_what_was_created(
    flowfabric_as: CommandLineAs, client: Client
) -> None:
    message = flowfabric_as("flowfabric_producer").error("run", "greet", exit_code=1)
    (created,) = client.list_executions()
    assert message.startswith(f"created {created.execution_id}\n")
    assert "connect as a member of flowfabric_reader" in message


def test_a_worker_may_not_cancel_what_it_does_not_hold(flowfabric_as: CommandLineAs, client: Client) -> None:
    refused = flowfabric_as("flowfabric_worker").json("cancel", create(client), exit_code=1)
    assert refused["code"] == "unauthorized"
    assert refused["details"]["role"] == "flowfabric_operator"


def test_a_reader_can_look_at_everything(flowfabric_as: CommandLineAs, client: Client) -> None:
    execution_id = create(client)
    reader = flowfabric_as("flowfabric_reader")
    for args in (
        ("executions", "list"),
        ("executions", "show", execution_id),
        ("flows", "list"),
        ("lanes", "show", "default"),
        ("workers", "list"),
        ("budgets", "list"),
        ("quotas", "list"),
        ("keys", "list"),
        ("consumers", "list"),
        ("why", execution_id),
        ("top", "--once"),
        ("events",),
    ):
        assert reader.run(*args).exit_code == 0, args
    assert reader.run("doctor").exit_code == 1


def test_a_policy_with_another_word_is_refused_with_the_nearest(flowfabric: CommandLine) -> None:
    message = flowfabric.error("run", "greet", "--detach", "--policy", '{"retries": 3}', exit_code=2)
    assert "invalid_policy_json" in message
    assert "retry_policy.max_retries" in message
