"""Readers of event streams, and executions whose life makes events."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from tests.support.cluster import Connection
from tests.support.engine import Row, call

START = "v1:0:0:0"

_numbers = count(1)


def read_events(
    connection: Connection, stream: str, cursor: str, limit: int = 256, **filters: Any
) -> tuple[list[Row], Row]:
    """The events after a cursor, and the position row that follows them."""
    arguments = {"stream": stream, "cursor": cursor, "limit": limit, **filters}
    named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
    with connection.cursor(row_factory=dict_row) as rows:
        *events, position = rows.execute(
            f"select r.* from flowfabric.ff_read_events({named}) as r", arguments
        ).fetchall()
    assert position["event_id"] is None
    assert all(event["event_id"] is not None for event in events)
    return events, position


@dataclass
class Reader:
    """A consumer that keeps its cursor and everything that it was given."""

    connection: Connection
    stream: str = "completion"
    cursor: str = START
    events: list[Row] = field(default_factory=list)

    def read(self, limit: int = 256, **filters: Any) -> list[Row]:
        """Read until nothing is left, and return what was new."""
        new: list[Row] = []
        while True:
            events, position = read_events(self.connection, self.stream, self.cursor, limit, **filters)
            new += events
            self.cursor = position["cursor"]
            if not position["more"]:
                self.events += new
                return new

    def ids(self) -> list[int]:
        return [event["event_id"] for event in self.events]


def new_execution_id() -> str:
    return f"{{fp:86}}:{UUID(int=next(_numbers))}"


def complete_one(connection: Connection, *, namespace: str = "default") -> str:
    """Create, claim and complete an execution: two lease events and a completion."""
    execution_id = new_execution_id()
    start(connection, execution_id, namespace=namespace)
    finish(connection, execution_id)
    return execution_id


def start(connection: Connection, execution_id: str, *, namespace: str = "default") -> None:
    call(
        connection,
        "ff_create_execution",
        execution_kind="test",
        execution_id=execution_id,
        namespace=namespace,
    )
    call(
        connection,
        "ff_issue_grant_and_claim",
        execution_id=execution_id,
        lease_ttl_ms=86_400_000,
        lease_id=UUID(int=1),
        attempt_id=UUID(int=2),
    )


def finish(connection: Connection, execution_id: str) -> None:
    call(
        connection,
        "ff_complete_execution",
        execution_id=execution_id,
        lease_id=UUID(int=1),
        lease_epoch=1,
        attempt_id=UUID(int=2),
    )


def executions(events: list[Row]) -> list[str]:
    return [event["execution_id"] for event in events]
