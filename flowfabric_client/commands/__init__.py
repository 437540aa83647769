"""The commands of `flowfabric`, one module each, and what all of them share."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from flowfabric_client.commands._text import plain

if TYPE_CHECKING:
    from flowfabric_client.install import InstallError

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_UNREACHABLE = 4
EXIT_TIMED_OUT = 5
EXIT_INTERRUPTED = 130

# What `status` looks for is a current installation, and it is not there.
EXIT_NOT_CURRENT = EXIT_NOT_FOUND

_Command = TypeVar("_Command", bound=Callable[..., Any])

dsn_option: Callable[[_Command], _Command] = click.option(
    "--dsn",
    envvar="FLOWFABRIC_DSN",
    default="",
    metavar="DSN",
    help="Connection string or URI of the database. Default: FLOWFABRIC_DSN, then libpq's own PG* variables.",
)
json_option: Callable[[_Command], _Command] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of text."
)


def examples(*lines: str) -> str:
    """The epilog of a command's help: command lines that work when pasted."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def print_json(fields: Mapping[str, object], *, on_one_line: bool = False) -> None:
    """Print the one object of a command with --json, or the next object of a stream of them."""
    click.echo(json.dumps(fields, indent=None if on_one_line else 2))


def fail(
    message: str,
    *,
    sql: str | None = None,
    as_json: bool = False,
    exit_code: int = EXIT_ERROR,
    facts: Mapping[str, object] | None = None,
    on_one_line: bool = False,
) -> NoReturn:
    """End the command with one sentence, and with the SQL that would help if there is any.

    Args:
        message: The sentence; it says what to do next.
        sql: Statements that somebody with more privileges can run.
        as_json: Print an object on standard output instead of text on standard error.
        exit_code: How the process ends.
        facts: Further fields of that object, for scripts.
        on_one_line: The object ends a stream of JSON lines.
    """
    if as_json:
        print_json({"error": message, "sql": sql, **(facts or {})}, on_one_line=on_one_line)
    else:
        click.echo(f"Error: {plain(message, keep=chr(10))}", err=True)
        if sql is not None:
            click.echo(f"\n{sql}", err=True, nl=False)
    raise SystemExit(exit_code)


def fail_install(error: "InstallError", *, as_json: bool) -> NoReturn:
    """End a command of the installer with what the installer says."""
    from flowfabric_client.install import UnreachableError  # noqa: PLC0415 - loads yoyo

    exit_code = EXIT_UNREACHABLE if isinstance(error, UnreachableError) else EXIT_ERROR
    fail(str(error), sql=error.sql, as_json=as_json, exit_code=exit_code)
