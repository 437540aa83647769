"""Arguments that several commands take."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

# `{fp:N}:uuid`, or the bare uuid: `engine_command` finds the rest.
execution_argument: Callable[[_Command], _Command] = click.argument("execution_id", metavar="EXECUTION_ID")
flow_argument: Callable[[_Command], _Command] = click.argument("flow_id", metavar="FLOW_ID", type=click.UUID)
namespace_option: Callable[[_Command], _Command] = click.option(
    "--namespace", default="default", show_default=True, help="The namespace."
)
reason_option: Callable[[_Command], _Command] = click.option("--reason", help="Why; kept with the change.")


def page_options(function: _Command) -> _Command:
    """`--limit` and `--after`: a page of a list."""
    limit = click.option(
        "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Rows of a page."
    )
    after = click.option(
        "--after", metavar="CURSOR", help="Begin behind this row: `next` of the page before."
    )
    return limit(after(function))


def duration_option(*names: str, help: str, default: str | None = None) -> Callable[[_Command], _Command]:
    """An option that takes a duration such as 250ms, 30s, 5m, 2h or 1d, and gives milliseconds."""
    return click.option(
        *names, type=_parse_duration, metavar="DURATION", default=default, show_default=True, help=help
    )


def _parse_duration(value: str) -> int:
    match = _DURATION.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a duration such as 250ms, 30s, 5m, 2h or 1d.")
    return round(float(match[1]) * _UNIT_MS[match[2]])


def parse_pair(value: str) -> tuple[str, str]:
    """The two sides of an equals sign: the type of an option that names both."""
    left, equals, right = value.partition("=")
    if not left or not equals:
        raise click.BadParameter(f"{value!r} has no equals sign with something before it.")
    return left, right


def read_bytes(argument: str | None) -> bytes | None:
    """The bytes that an argument names: itself, the file behind `@`, or standard input for `-`."""
    if argument is None:
        return None
    if argument == "-":
        return sys.stdin.buffer.read()
    if argument.startswith("@"):
        try:
            return Path(argument[1:]).read_bytes()
        except OSError as error:
            raise click.UsageError(f"{argument[1:]} cannot be read: {error.strerror}.") from error
    # Bytes of the command line that are no text are surrogates here, and bytes again in what is sent.
    return argument.encode(errors="surrogateescape")


def read_json_object(argument: str | None, option: str) -> dict[str, Any] | None:
    """The JSON object that an option holds, or names as `read_bytes` does."""
    data = read_bytes(argument)
    if data is None:
        return None
    try:
        found = json.loads(data)
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"{option} is not a JSON object.")
    return found


def unique_pairs(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, str]:
    """Pairs by their left side, which may occur only once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise click.UsageError(f"{option} names a key twice.")
    return found
