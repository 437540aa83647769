"""Suspended executions for tests, and calls of the engine by the names of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.support.cluster import Connection
from tests.support.concurrency import Background

Row = dict[str, Any]
Condition = str | dict[str, Any]

#: The secret of the signing key that `install_key` installs.
SECRET = bytes.fromhex("ab" * 32)
KID = "kid-1"


def execution_id(number: int = 1) -> str:
    return f"{{fp:86}}:00000000-0000-4000-8000-{number:012d}"


def calls(connection: Connection, function: str, **arguments: Any) -> list[Row]:
    """Call a function of the engine and return its rows."""
    named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"select r.* from flowfabric.{function}({named}) as r", arguments).fetchall()


def call(connection: Connection, function: str, **arguments: Any) -> Row:
    """Call a function of the engine that answers with one row."""
    (row,) = calls(connection, function, **arguments)
    return row


def value(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> Any:
    row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row[0]


def refusal_of(error: psycopg.Error) -> str:
    """The code of a refusal of the engine."""
    assert error.diag.message_primary is not None
    return error.diag.message_primary


def refused(background: Background[Any]) -> str:
    """The code with which the engine refused a call in the background."""
    with pytest.raises(psycopg.Error) as caught:
        background.result()
    return refusal_of(caught.value)


def refusal(connection: Connection, function: str, **arguments: Any) -> str:
    """The code with which the engine refuses a call."""
    with pytest.raises(psycopg.Error) as caught:
        calls(connection, function, **arguments)
    return refusal_of(caught.value)


def install_key(connection: Connection, kid: str = KID, grace_ms: int = 60_000) -> None:
    call(
        connection,
        "ff_rotate_waitpoint_hmac_secret",
        new_kid=kid,
        new_secret_hex=SECRET.hex(),
        grace_ms=grace_ms,
    )


def lease(connection: Connection, number: int = 1) -> Row:
    """Create an execution and claim it; return its fence and its id, as the functions take them."""
    call(connection, "ff_create_execution", execution_kind="test", execution_id=execution_id(number))
    return claim(connection, number)


def claim(connection: Connection, number: int = 1) -> Row:
    """Claim an execution that waits, fresh or resumed."""
    claimed = call(
        connection,
        "ff_issue_grant_and_claim",
        execution_id=execution_id(number),
        lease_ttl_ms=600_000,
        worker_id="worker",
        worker_instance_id="worker-1",
    )
    return {name: claimed[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


@dataclass(frozen=True)
class Waitpoint:
    """Everything that its holder needs to signal a waitpoint."""

    execution_id: str
    waitpoint_id: UUID
    waitpoint_key: str
    waitpoint_token: str

    @property
    def address(self) -> Row:
        return {
            "execution_id": self.execution_id,
            "waitpoint_id": self.waitpoint_id,
            "waitpoint_token": self.waitpoint_token,
        }


def suspend(
    connection: Connection, fence: Mapping[str, Any], condition: Condition, **arguments: Any
) -> list[Waitpoint]:
    """Suspend as the holder of a lease; return the waitpoints in their order."""
    rows = calls(
        connection,
        "ff_suspend_execution",
        **fence,
        resume_condition=Jsonb(condition),
        reason_code="waiting_for_approval",
        **arguments,
    )
    return [
        Waitpoint(fence["execution_id"], row["waitpoint_id"], row["waitpoint_key"], row["waitpoint_token"])
        for row in rows
    ]


def open_pending(connection: Connection, fence: Mapping[str, Any], key: str) -> Waitpoint:
    """Open a waitpoint before the suspension that will use it."""
    row = call(connection, "ff_create_pending_waitpoint", **fence, waitpoint_key=key, expires_in_ms=600_000)
    return Waitpoint(fence["execution_id"], row["waitpoint_id"], key, row["waitpoint_token"])


def deliver(connection: Connection, waitpoint: Waitpoint, name: str = "approved", **arguments: Any) -> Row:
    return call(connection, "ff_deliver_signal", **waitpoint.address, signal_name=name, **arguments)


def buffer(connection: Connection, waitpoint: Waitpoint, name: str = "approved", **arguments: Any) -> Row:
    return call(
        connection,
        "ff_buffer_signal_for_pending_waitpoint",
        **waitpoint.address,
        signal_name=name,
        **arguments,
    )


def public_state(connection: Connection, number: int = 1) -> str:
    state = value(connection, "select flowfabric.ff_read_execution_state(%s)", [execution_id(number)])
    assert isinstance(state, str)
    return state


def single(name: str | None = "approved", key: str = "wpk:approval") -> Condition:
    matcher: Condition = "Wildcard" if name is None else {"ByName": name}
    return {"Single": {"waitpoint_key": key, "matcher": matcher}}


def count(n: int, kind: str, keys: Sequence[str] = ("wpk:approval",)) -> Condition:
    return {"Composite": {"kind": "Count", "n": n, "count_kind": kind, "waitpoints": list(keys)}}
