"""The commands of `flowfabric`, one module each, and what they share."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import click

EXIT_ERROR = 1
EXIT_NOT_CURRENT = 3

_Command = TypeVar("_Command", bound=Callable[..., Any])

dsn_option: Callable[[_Command], _Command] = click.option(
    "--dsn",
    envvar="FLOWFABRIC_DSN",
    default="",
    metavar="DSN",
    help="Connection string or URI of the database. Default: FLOWFABRIC_DSN, then libpq's own PG* variables.",
)
json_option: Callable[[_Command], _Command] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)


def print_json(fields: Mapping[str, object]) -> None:
    """Print the one object of a command with --json."""
    click.echo(json.dumps(fields, indent=2))


def fail(message: str, *, sql: str | None = None, as_json: bool = False) -> NoReturn:
    """End the command with one sentence, and with the SQL that would help if there is any."""
    if as_json:
        print_json({"error": message, "sql": sql})
    else:
        click.echo(f"Error: {message}", err=True)
        if sql is not None:
            click.echo(f"\n{sql}", err=True, nl=False)
    raise SystemExit(EXIT_ERROR)
