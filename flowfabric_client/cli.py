"""The command `flowfabric`: a group whose commands are imported when they are used."""

from importlib import import_module

import click

from flowfabric_client._version import __version__

# Each is a module of flowfabric_client.commands that holds a click command of the same name.
COMMANDS = ("demo", "dev", "migrate", "sql", "status", "worker")


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


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flowfabric")
def cli() -> None:
    """FlowFabric on Postgres: install the engine, look at it, run it."""


def main() -> None:
    """The entry point of the command `flowfabric`."""
    cli(prog_name="flowfabric")
