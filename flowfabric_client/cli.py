"""The command `flowfabric`: a group whose commands are imported when they are used."""

from collections.abc import Mapping
from importlib import import_module

import click

from flowfabric_client._version import __version__
from flowfabric_client.commands import EXIT_INTERRUPTED

# Each is a module of flowfabric_client.commands that holds a click command of the same name. The first line
# of its help stands here too, so that listing the commands imports none of them.
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Begin": {
        "dev": "Run a private Postgres with FlowFabric in its database `flowfabric`, until Ctrl-C.",
        "demo": "Start a private Postgres, install the engine, act out a story with real workers, and remove "
        "everything.",
        "migrate": "Install FlowFabric in a database, or bring an installation up to this version.",
        "status": "Show what is installed in a database and whether it is current.",
        "sql": "Print SQL that installs FlowFabric in an empty database.",
        "bench": "Run the benchmark of a checkout: this engine and its peers, side by side.",
    },
    "Work": {
        "run": "Create an execution and wait for its end, showing progress and output live.",
        "worker": "Run the worker that a module holds, such as `app.jobs:worker`.",
        "tick": "Run the background scanners that are due, once or in a loop.",
        "signal": "Deliver a signal to an execution that waits for it.",
    },
    "Look": {
        "top": "Watch lanes, running work, workers and throughput.",
        "why": "Explain why an execution is not running, and what to do about it.",
        "doctor": "Look for problems of the installation and say what to do about them.",
        "events": "Print events, and with --follow those that happen from now on.",
        "executions": "List executions, look into one, or act on it.",
        "flows": "List flows, or look into one.",
        "lanes": "List lanes, look into one, or open and close it.",
        "workers": "List worker processes, look into one, or drain it.",
        "budgets": "List budgets, look into one, create or reset it.",
        "quotas": "List quota policies, look into one, or create it.",
    },
    "Operate": {
        "cancel": "Cancel an execution, or a flow with its members.",
        "replay": "Run an ended execution once more.",
        "priority": "Move a waiting execution within the queue of its lane.",
        "consumers": "List the stored positions of consumers of events, or move them.",
        "keys": "List the keys that sign waitpoint tokens, or rotate them.",
    },
}
COMMANDS = tuple(name for section in SECTIONS.values() for name in section)


class _LazyGroup(click.Group):
    """Imports a command when it is asked for, so that none pays for what another needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*COMMANDS, *super().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(f"flowfabric_client.commands.{cmd_name}"), cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"flowfabric_client.commands.{cmd_name}.{cmd_name} is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # As a shell reports a program that SIGINT ended, and without click's "Aborted!".
            raise SystemExit(EXIT_INTERRUPTED) from None


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes:\n"
    "  0    done\n"
    "  1    refused by the engine, or failed\n"
    "  2    wrong usage: an option, or a value that cannot be right\n"
    "  3    not found; for `status`: not installed, or not current\n"
    "  4    no connection to the database\n"
    "  5    timed out\n"
    "  130  ended by Ctrl-C",
)
@click.version_option(__version__, prog_name="flowfabric")
def cli() -> None:
    """FlowFabric on Postgres: install the engine, look at it, run it."""


def main() -> None:
    """The entry point of the command `flowfabric`."""
    cli(prog_name="flowfabric")
