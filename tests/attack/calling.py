"""One call of a public function and what came of it, judged by what is documented."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from flowfabric_client._error_codes import ERROR_CODES
from tests.attack.catalogue import Function
from tests.support.cluster import Connection

SQLSTATES = {row.code: row.sqlstate for row in ERROR_CODES}
#: Stored data that contradict themselves, branches that cannot be reached: documented and never expected.
ALARMS = ("ZX", "ZB")
_LONGEST_SHOWN = 120


@dataclass(frozen=True)
class Call:
    """A function with the text form of its arguments."""

    function: Function
    arguments: Mapping[str, str | None]

    def __str__(self) -> str:
        shown = (
            f"p_{name} => {'NULL' if value is None else repr(value[:_LONGEST_SHOWN])}"
            for name, value in self.arguments.items()
        )
        return f"{self.function.name}({', '.join(shown)})"


@dataclass(frozen=True)
class Outcome:
    """The rows of a call that was accepted, or the error of one that was not."""

    rows: list[dict[str, Any]]
    error: psycopg.Error | None = None

    @property
    def item_refusals(self) -> list[dict[str, Any]]:
        """The rows of a batch that refuse their item."""
        return [row for row in self.rows if "item" in row and row["sqlstate"] is not None]

    @property
    def refuses_every_item(self) -> bool:
        return bool(self.rows) and len(self.item_refusals) == len(self.rows)


def perform(connection: Connection, call: Call, *, keep: bool) -> Outcome:
    """Make a call in a savepoint; what it did is undone unless it is to be kept."""
    statement, arguments = call.function.statement(call.arguments)
    connection.execute("savepoint before_call")
    try:
        with connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement, arguments)
            outcome = Outcome(cursor.fetchall())
    except psycopg.Error as error:
        outcome = Outcome([], error)
    if outcome.error is not None or not keep:
        connection.execute("rollback to savepoint before_call")
    connection.execute("release savepoint before_call")
    return outcome


def objections(call: Call, outcome: Outcome, documented: Mapping[str, frozenset[str]]) -> list[str]:
    """Whatever is wrong with an outcome: an error that is not documented, or is not told as documented."""
    allowed = documented[call.function.name]
    found = [
        f"{call}: item refused with {row['sqlstate']} {row['code']}"
        for row in outcome.item_refusals
        if row["code"] not in allowed or SQLSTATES[row["code"]] != row["sqlstate"]
    ]
    error = outcome.error
    if error is None:
        return found
    code, state = error.diag.message_primary or "", error.diag.sqlstate or "no connection"
    if code not in allowed or SQLSTATES[code] != state or state.startswith(ALARMS):
        return [*found, f"{call}: {state} {code} {error.diag.message_detail}"]
    detail = json.loads(error.diag.message_detail or "null")
    # One public function may call another, as ff_initialize does; a helper is never named.
    if detail["code"] != code or detail["fn"] not in documented:
        found.append(f"{call}: {code} with the detail {detail}")
    return found
