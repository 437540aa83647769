"""What commands print: tables and fields for people, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Generic, TypeVar, cast

import click
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flowfabric_client.commands._text import STATE_STYLES, plain, readable, relative, span

R = TypeVar("R")
Cell = Callable[[Any, int], Text]
"""Makes a cell of a value, given the time of the engine."""

# A table that is not for a terminal is as wide as its content: whoever reads a pipe wants a row per line.
_UNBOUNDED = 100_000


MISSING = Text("-", style="bright_black")


def text(value: Any, _now_ms: int = 0) -> Text:
    """Any value; whatever is missing is a dash."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, list | tuple):
        return text(", ".join(plain(item) for item in value))
    if isinstance(value, Mapping):
        return text(json.dumps(value, default=_as_json, ensure_ascii=False)) if value else MISSING
    return Text(plain(value))


def state(value: Any, _now_ms: int = 0) -> Text:
    """A state, in its colour."""
    return Text(plain(value), style=STATE_STYLES.get(value, "")) if value else MISSING


def when(value: int | None, now_ms: int) -> Text:
    """An instant, by its distance from now."""
    return MISSING if value is None else Text(relative(value, now_ms))


def duration(value: int | None, _now_ms: int = 0) -> Text:
    """A number of milliseconds."""
    return MISSING if value is None else Text(span(value))


def number(value: int | None, _now_ms: int = 0) -> Text:
    """A count, with separators; zero recedes."""
    if value is None:
        return MISSING
    return Text(f"{value:,}", style="" if value else "bright_black")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """A column of a list: its title, which value of a row it shows, and how."""

    title: str
    value: Callable[[R], Any]
    cell: Cell = text
    can_wrap: bool = False
    """Whether a cell may take several lines: free text may, an id may not."""
    drop: int = 0
    """The greatest of these is left out first where a terminal is too narrow; 0 always stays."""


def console(*, to_stderr: bool = False) -> Console:
    """A console that takes no text for markup and lets no line end where the terminal does."""
    return Console(highlight=False, markup=False, emoji=False, stderr=to_stderr)


def make_table(rows: Iterable[R], columns: Sequence[Column[R]], now_ms: int) -> Table:
    """A table of rows."""
    lines = [[column.cell(column.value(row), now_ms) for column in columns] for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, column in enumerate(columns):
        table.add_column(
            column.title,
            header_style="bold",
            no_wrap=not column.can_wrap,
            overflow="fold",
            # rich takes the longest word for what a column needs at least, even if it may not wrap.
            min_width=None
            if column.can_wrap
            else max(cell_len(column.title), *(line[position].cell_len for line in lines), 0),
            justify="right" if column.cell in (number, duration) else "left",
        )
    for line in lines:
        table.add_row(*line)
    return table


def make_fitting_table(rows: Sequence[R], columns: Sequence[Column[R]], now_ms: int, out: Console) -> Table:
    """A table of rows with as many of its columns as the terminal has room for."""
    shown = list(columns)
    while True:
        table = make_table(rows, shown, now_ms)
        droppable = [column for column in shown if column.drop]
        if not droppable or not out.is_terminal or _smallest_width(table, out) <= out.width:
            return table
        shown.remove(max(droppable, key=lambda column: column.drop))


def _smallest_width(table: Table, out: Console) -> int:
    return Measurement.get(out, out.options.update(max_width=_UNBOUNDED), table).minimum


def make_fields(fields: Iterable[tuple[str, Text]]) -> Table:
    """A table of names and values; what is missing is left out."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        if value is not MISSING:
            table.add_row(name, value)
    return table


def print_table(table: Table, out: Console | None = None) -> None:
    """Print a table so that nothing in it is cut, however narrow the terminal is."""
    out = out or console()
    if out.is_terminal:
        out.width = max(out.width, _smallest_width(table, out))
    else:
        out.width = _UNBOUNDED
    out.print(table, crop=False)


def as_dict(row: Any) -> dict[str, Any]:
    """A row of the client as the fields of a JSON object."""
    fields = asdict(row) if is_dataclass(row) and not isinstance(row, type) else dict(row)
    fields.pop("has_more", None)
    fields.pop("next_after", None)
    return cast("dict[str, Any]", json.loads(json.dumps(fields, default=_as_json)))


def print_json_line(fields: Mapping[str, object]) -> None:
    """Print the next object of a stream at once, whoever reads it."""
    click.echo(json.dumps(fields, default=_as_json))


def _as_json(value: object) -> object:
    return readable(value) if isinstance(value, bytes) else str(value)
