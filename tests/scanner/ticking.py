"""What the tests of the tick share: calls by name, executions with something due, the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row

from tests.conftest import Clock
from tests.support.cluster import Connection

Row = dict[str, Any]


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def wire_id(number: int) -> str:
    return f"{{fp:86}}:{uuid(number)}"


def rows(connection: Connection, function: str, **arguments: Any) -> list[Row]:
    """Call a function of the engine by the names of its parameters and return its rows."""
    named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"select r.* from flowfabric.{function}({named}) as r", arguments).fetchall()


def call(connection: Connection, function: str, **arguments: Any) -> Row:
    """Call a function of the engine that answers with one row."""
    (row,) = rows(connection, function, **arguments)
    return row


def value(connection: Connection, statement: str, arguments: list[Any] | None = None) -> Any:
    row = connection.execute(statement, arguments).fetchone()
    assert row is not None
    return row[0]


def tick(connection: Connection, *scanners: str, limit: int = 100, max_ms: int = 60_000) -> dict[str, Row]:
    """Tick, and return what became of each scanner that the answer mentions."""
    runs = rows(connection, "ff_tick", limit=limit, scanners=list(scanners) or None, max_ms=max_ms)
    return {run["scanner"]: run for run in runs}


def statuses(runs: dict[str, Row]) -> dict[str, str]:
    return {name: run["status"] for name, run in runs.items()}


@dataclass
class Engine:
    """An installation whose clock stands still."""

    db: Connection
    clock: Clock

    def create(self, number: int, **arguments: Any) -> None:
        call(
            self.db,
            "ff_create_execution",
            execution_kind="test",
            execution_id=wire_id(number),
            **arguments,
        )

    def lease(self, *numbers: int, ttl_ms: int = 1000, timeout_ms: int | None = None) -> None:
        for number in numbers:
            self.create(number)
            call(
                self.db,
                "ff_issue_grant_and_claim",
                execution_id=wire_id(number),
                lease_ttl_ms=ttl_ms,
                attempt_timeout_ms=timeout_ms,
            )

    def due(self) -> list[str]:
        return [name for (name,) in self.db.execute("select flowfabric.ff_due_scanners()")]

    def schedule(self, scanner: str) -> Row:
        (row,) = [row for row in rows(self.db, "ff_list_scanners") if row["scanner"] == scanner]
        return row

    def events(self, table: str, kind: str) -> dict[int, int]:
        """How often something happened to each execution, by its number."""
        column = "outcome::text" if table == "ff_completion_event" else "event_type"
        found = self.db.execute(
            f"""select right(execution_id::text, 12)::integer, count(*) from flowfabric.{table}
                where {column} = %s group by 1""",
            [kind],
        )
        return dict(found.fetchall())

    def count(self, condition: str) -> int:
        return int(value(self.db, f"select count(*) from flowfabric.ff_exec_core where {condition}"))

    def stop_at(self, number: int) -> None:
        """Let every change of one execution wait for advisory lock 1, whatever lock timeout is set."""
        self.db.execute(
            f"""create function flowfabric.stop() returns trigger language plpgsql set lock_timeout = 0
                as $$ begin perform pg_advisory_xact_lock(1); return new; end $$;
                create trigger stop before update on flowfabric.ff_exec_core for each row
                when (old.execution_id = '{uuid(number)}') execute function flowfabric.stop()"""
        )
