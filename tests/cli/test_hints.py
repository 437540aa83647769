"""What a refused person is told: commands that exist, values that are legal, roles that suffice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from flowfabric_client import _error_codes
from flowfabric_client.cli import cli
from flowfabric_client.client import Client
from flowfabric_client.errors import PermissionDeniedError
from tests.cli.conftest import CommandLineAs
from tests.cli.support import UNKNOWN_UUID, CommandLine, create, flow
from tests.conftest import RoleConnection
from tests.support.cluster import REPOSITORY

_COMMAND = re.compile(r"`flowfabric ([^`]*)`")


def named_commands() -> Iterator[tuple[str, str]]:
    """Every command that a hint, a verdict or a finding names, with the place."""
    for entry in _error_codes.ERROR_CODES:
        for command in _COMMAND.findall(entry.hint):
            yield entry.code, command
    for path in sorted((REPOSITORY / "plpgsql").rglob("*.sql")):
        for command in _COMMAND.findall(path.read_text()):
            yield path.name, command


def test_every_command_that_a_hint_names_exists() -> None:
    named = [*named_commands()]
    assert len(named) > 60
    context = click.Context(cli)
    for place, command in named:
        found: click.Command | None = cli
        for word in command.split():
            if isinstance(found, click.Group):
                found = found.get_command(context, word)
                assert found is not None, f"{place} names `flowfabric {command}`"
            elif word.startswith("--"):
                assert found is not None
                options = {option for parameter in found.params for option in parameter.opts}
                assert word in options, f"{place} names `flowfabric {command}`"


def test_no_hint_names_a_function_where_a_command_does_the_same() -> None:
    by_command = re.compile(
        r"ff_(replay|cancel|resume|unblock)_execution|ff_set_lane_state|ff_reset_budget|ff_why\b|ff_tick\b"
        r"|ff_(rotate|seed)_waitpoint_hmac_secret"
    )
    named = [entry.code for entry in _error_codes.ERROR_CODES if by_command.search(entry.hint)]
    assert named == []


def test_a_bare_uuid_is_enough_where_the_execution_is_found(flowfabric: CommandLine, client: Client) -> None:
    execution_id = create(client)
    bare = execution_id.partition(":")[2].partition(":")[2]
    assert flowfabric.json("executions", "show", bare)["execution_id"] == execution_id
    assert flowfabric.json("why", bare)["execution_id"] == execution_id
    assert flowfabric.json("priority", bare.upper(), "7")["new_priority"] == 7
    assert flowfabric.json("cancel", bare)["execution_id"] == execution_id
    assert flowfabric.json("replay", bare)["public_state"] == "waiting"


def test_a_bare_uuid_of_a_flow_still_cancels_the_flow(flowfabric: CommandLine, client: Client) -> None:
    assert flowfabric.json("cancel", str(flow(client)))["cancelled_count"] == 2


def test_a_bare_uuid_that_is_nowhere_says_so(flowfabric: CommandLine) -> None:
    for args in (("why", UNKNOWN_UUID), ("cancel", UNKNOWN_UUID), ("replay", UNKNOWN_UUID)):
        assert f"no execution {UNKNOWN_UUID}" in flowfabric.error(*args, exit_code=3)


def test_a_bare_uuid_of_two_executions_names_both(flowfabric: CommandLine, client: Client) -> None:
    for partition in (1, 2):
        create(client, execution_id=f"{{fp:{partition}}}:{UNKNOWN_UUID}")
    message = flowfabric.error("why", UNKNOWN_UUID, exit_code=2)
    assert f"{{fp:1}}:{UNKNOWN_UUID}, {{fp:2}}:{UNKNOWN_UUID}" in message


def test_a_role_that_may_not_search_is_told_what_is_missing(flowfabric_as: CommandLineAs) -> None:
    message = flowfabric_as("flowfabric_worker", "flowfabric_signaller").error(
        "signal", UNKNOWN_UUID, "yes", "--waitpoint", UNKNOWN_UUID, "--token", "x", exit_code=2
    )
    assert "The partition is missing: an execution id is {fp:N}:<uuid>" in message


def test_cancel_names_only_the_role_that_suffices(flowfabric_as: CommandLineAs, client: Client) -> None:
    execution_id = create(client)
    message = flowfabric_as("flowfabric_producer").error("cancel", execution_id, exit_code=1)
    assert "connect as a member of flowfabric_operator." in message
    assert "flowfabric_worker" not in message
    # With the role that it was once sent for, it is refused again: by the engine, which names the other one.
    message = flowfabric_as("flowfabric_worker").error("cancel", execution_id, exit_code=1)
    assert "Connect as a member of flowfabric_operator" in message


@pytest.mark.parametrize(
    ("source", "roles"),
    [
        ("operator_override", ["flowfabric_operator"]),
        ("lease_holder", ["flowfabric_worker", "flowfabric_operator"]),
    ],
)
def test_a_python_caller_is_told_which_roles_may(
    role_connection: RoleConnection, client: Client, source: str, roles: list[str]
) -> None:
    execution_id = create(client)
    with pytest.raises(PermissionDeniedError) as denied:
        Client(role_connection("flowfabric_producer")).cancel_execution(execution_id, "no", source=source)
    assert denied.value.details["roles"] == roles
    assert str(denied.value).endswith(f"connect as a member of {' or '.join(roles)}")
    assert denied.value.hint is not None
    assert f"grant {roles[0]} to" in denied.value.hint
