"""One call of a public function and what came of it, judged by what is documented."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
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
#: Readers; the cursor of ff_read_events moves with every transaction.
_SAME_ANSWER = re.compile(r"ff_(list|describe|get|read(?!_events)|parse|format|solo|flow)_")


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


def perform(connection: Connection, call: Call, *, keep: bool, settings: str | None = None) -> Outcome:
    """Make a call in a savepoint; what it did is undone unless it is to be kept.

    `settings` is a statement that makes settings for the call alone, and then nothing can be kept.
    """
    statement, arguments = call.function.statement(call.arguments)
    connection.execute("savepoint before_call")
    if settings is not None:
        assert not keep
        connection.execute(settings.encode())
    try:
        with connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement, arguments)
            outcome = Outcome(cursor.fetchall())
    except psycopg.Error as error:
        outcome = Outcome([], error)
    if outcome.error is not None or not keep:
        _undo(connection)
    connection.execute("release savepoint before_call")
    return outcome


def _undo(connection: Connection) -> None:
    """Go back to before the call, and to the settings of then."""
    try:
        connection.execute("rollback to savepoint before_call")
    except psycopg.errors.QueryCanceled:
        # After a call that succeeded its timeout is still set; with this error it is gone.
        connection.execute("rollback to savepoint before_call")


def answer(connection: Connection, call: Call) -> str | None:
    """What a call comes to: its SQLSTATE, or what it answers where that is the same every time."""
    outcome = perform(connection, call, keep=False)
    if outcome.error is not None:
        return outcome.error.diag.sqlstate
    return repr(outcome.rows) if _SAME_ANSWER.match(call.function.name) else "accepted"


def objections(
    call: Call,
    outcome: Outcome,
    documented: Mapping[str, frozenset[str]],
    circumstances: Collection[str] = (),
) -> list[str]:
    """Whatever is wrong with an outcome: an error that is not documented, or is not told as documented.

    `circumstances` are the SQLSTATEs of the server itself that the situation of the call explains.
    """
    allowed = documented[call.function.name]
    found = [
        f"{call}: item refused with {row['sqlstate']} {row['code']}"
        for row in outcome.item_refusals
        if row["code"] not in allowed or SQLSTATES[row["code"]] != row["sqlstate"]
    ]
    found += [
        f"{call}: a scanner failed: {row}"
        for row in outcome.rows
        if row.get("errors") or ("scanner" in row and row.get("status") == "failed")
    ]
    error = outcome.error
    if error is None or error.diag.sqlstate in circumstances:
        return found
    code, state = error.diag.message_primary or "", error.diag.sqlstate or "no connection"
    if code not in allowed or SQLSTATES[code] != state or state.startswith(ALARMS):
        return [*found, f"{call}: {state} {code} {error.diag.message_detail}"]
    detail = json.loads(error.diag.message_detail or "null")
    # One public function may call another, as ff_initialize does; a helper is never named.
    if detail["code"] != code or detail["fn"] not in documented:
        found.append(f"{call}: {code} with the detail {detail}")
    return found
