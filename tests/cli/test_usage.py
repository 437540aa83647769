"""What is wrong with a command line is said before anybody connects; and every command explains itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from flowfabric_client.cli import COMMANDS, SECTIONS, cli
from tests.cli.support import UNKNOWN_EXECUTION, UNKNOWN_UUID, UNREACHABLE, CommandLine

# They print SQL, what a worker logs, and what the benchmark is told to.
WITHOUT_JSON = {"sql", "worker", "bench"}


@pytest.mark.parametrize(
    "args",
    [
        ("executions", "list", "--state", "nonsense"),
        ("executions", "list", "--tag", "nonsense"),
        ("executions", "list", "--limit", "0"),
        ("executions", "resume", UNKNOWN_EXECUTION, "--delay", "soon"),
        ("flows", "list", "--after", "nonsense"),
        ("flows", "show", "nonsense"),
        ("workers", "list", "--after", "nonsense"),
        ("budgets", "create", "a", "--scope", "tenant=7"),
        ("budgets", "create", "a", "--scope", "tenant=7", "--hard", "tokens=many"),
        ("budgets", "create", "a", "--scope", "tenant=7", "--hard", "tokens=1", "--hard", "tokens=2"),
        ("quotas", "create", "a"),
        ("quotas", "create", "a", "--starts", "1", "--window", "1500ms"),
        ("signal", UNKNOWN_EXECUTION, "approved"),
        ("signal", UNKNOWN_EXECUTION, "approved", "--waitpoint", UNKNOWN_UUID),
        ("signal", UNKNOWN_EXECUTION, "approved", "-", "--waitpoint", UNKNOWN_UUID, "--token", "-"),
        ("signal", UNKNOWN_EXECUTION, "approved", "{}", "--as-operator"),
        ("events", "nonsense"),
        ("run",),
        ("run", "greet", "@/nonexistent"),
        ("run", "greet", "--policy", "[]"),
        ("run", "greet", "--policy", "{"),
        ("run", "greet", "--tag", "a=1", "--tag", "a=2"),
    ],
)
def test_wrong_usage_ends_with_2_without_a_connection(args: tuple[str, ...]) -> None:
    assert "Usage: " in CommandLine(UNREACHABLE).error(*args, exit_code=2)


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that name it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


ALL = dict(commands(cli))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    shown = CommandLine(UNREACHABLE).text(*path, "--help")
    example = shown.partition("Examples:\n")[2]
    assert f"flowfabric {' '.join(path)}" in example
    assert (" --json " in shown) != (path[0] in WITHOUT_JSON)
    for parameter in ALL[path].params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    listed = CommandLine(UNREACHABLE).text("--help")
    for name, line in ((name, line) for section in SECTIONS.values() for name, line in section.items()):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.help is not None
        assert " ".join(command.help.partition("\n\n")[0].split()) == line
        assert f"  {name} " in listed


def test_listing_the_commands_loads_none_of_them() -> None:
    program = (
        "import sys\n"
        "from flowfabric_client.cli import cli\n"
        "try:\n    cli(['--help'])\nexcept SystemExit:\n    pass\n"
        "loaded = {'yoyo', 'rich'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_every_command_is_in_a_section() -> None:
    assert sorted(COMMANDS) == cli.list_commands(click.Context(cli))
