"""Flows for tests: submitted from a few words, driven by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.support.cluster import Connection
from tests.support.concurrency import Background

Row = dict[str, Any]
Fence = dict[str, Any]

#: Ends that a member can have by itself; `skipped` is what others do to it.
OUTCOMES = ("success", "failed", "cancelled", "expired")


def call(connection: Connection, function: str, **arguments: Any) -> Row:
    """Call a function of the engine by the names of its parameters and return its row."""
    rows = call_all(connection, function, **arguments)
    assert len(rows) == 1, rows
    return rows[0]


def call_all(connection: Connection, function: str, **arguments: Any) -> list[Row]:
    """The same for a function that returns any number of rows."""
    named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"select r.* from flowfabric.{function}({named}) as r", arguments).fetchall()


def code_of(error: psycopg.Error) -> str:
    """The code with which the engine refused a call."""
    return error.diag.message_primary or ""


def refusal(waiting: Background[Any]) -> Row:
    """The detail with which the engine refused a call in the background."""
    with pytest.raises(psycopg.Error) as refused:
        waiting.result()
    detail = refused.value.diag.message_detail
    assert detail is not None, refused.value
    return dict(json.loads(detail))


@dataclass(frozen=True)
class SubmittedFlow:
    """A flow and the execution ids of its members, by name."""

    flow_id: str
    ids: Mapping[str, str]

    def uuid(self, name: str) -> str:
        """The uuid inside the id of a member."""
        return self.ids[name][-36:]

    def claim(self, connection: Connection, name: str) -> Fence:
        """Claim a member; return its fence."""
        claim = call(
            connection, "ff_issue_grant_and_claim", execution_id=self.ids[name], lease_ttl_ms=3_600_000
        )
        return {field: claim[field] for field in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}

    def end(self, connection: Connection, name: str, outcome: str) -> None:
        """End a member: claimed first if that needs a worker, by an operator otherwise."""
        match outcome:
            case "success":
                call(connection, "ff_complete_execution", **self.claim(connection, name))
            case "failed":
                call(connection, "ff_fail_execution", **self.claim(connection, name))
            case "cancelled":
                cancel(connection, self.ids[name])
            case "expired":
                call(connection, "ff_expire_execution", execution_id=self.ids[name])
            case _:
                raise ValueError(outcome)

    def states(self, connection: Connection) -> dict[str, str]:
        """The public state of every member, by name."""
        rows = connection.execute(
            """
            select e.execution_id, e.state::text
            from flowfabric.ff_v_execution as e
            where e.flow_id = %(flow)s""",
            {"flow": self.flow_id},
        )
        by_id: dict[str, str] = dict(rows.fetchall())
        return {name: by_id[execution_id] for name, execution_id in self.ids.items()}

    def edges(self, connection: Connection) -> dict[tuple[str, str], str]:
        """The state of every edge, by the names of its ends."""
        names = {execution_id[-36:]: name for name, execution_id in self.ids.items()}
        rows = connection.execute(
            """
            select d.upstream_eid::text, d.downstream_eid::text,
                concat_ws('/', d.dep_state, d.resolved_outcome)
            from flowfabric.ff_edge as d where d.flow_id = %s""",
            [self.flow_id],
        )
        return {(names[up], names[down]): state for up, down, state in rows.fetchall()}

    def joins(self, connection: Connection) -> dict[str, tuple[int, int, int, int, str]]:
        """Of every child: edges, successes, losses, skips and verdict."""
        names = {execution_id: name for name, execution_id in self.ids.items()}
        return {
            names[row["execution_id"]]: (
                row["total_deps"],
                row["satisfied_count"],
                row["failed_count"],
                row["skipped_count"],
                row["group_state"],
            )
            for row in call_all(connection, "ff_list_flow_edge_groups", flow_id=self.flow_id)
        }

    def assert_sound(self, connection: Connection) -> None:
        """Joins, edges and members agree with each other, and nothing stored breaks a rule."""
        connection.execute("select flowfabric._ff_assert_edge_group(%s)", [self.flow_id])
        assert call_all(connection, "ff_check_invariants") == []


def submit(
    connection: Connection,
    members: Iterable[str],
    edges: Iterable[tuple[str, str]] = (),
    joins: Mapping[str, Row] | None = None,
    **defaults: Any,
) -> SubmittedFlow:
    """Submit a graph whose members differ in nothing but their names."""
    document = {
        "flow_id": str(uuid4()),
        "namespace": "test",
        "defaults": {"lane_id": "default", "execution_kind": "test", **defaults},
        "members": [{"name": name} for name in members],
        "edges": [{"upstream": up, "downstream": down} for up, down in edges],
        "joins": dict(joins or {}),
    }
    rows = call_all(connection, "ff_submit_flow", flow=json.dumps(document))
    return SubmittedFlow(str(document["flow_id"]), {row["name"]: row["execution_id"] for row in rows})


def cancel(connection: Connection, execution_id: str) -> Row:
    """Cancel an execution as an operator."""
    return call(
        connection,
        "ff_cancel_execution",
        execution_id=execution_id,
        reason="unwanted",
        source="operator_override",
    )


def drain(connection: Connection) -> None:
    """Let the scanners of flows do all that calls have left to them."""
    while call_all(connection, "ff_dispatch_dependencies") or call_all(
        connection, "ff_dispatch_sibling_cancels"
    ):
        pass


def any_of(on_satisfied: str) -> Row:
    """A join that one success satisfies."""
    return {"kind": "any_of", "on_satisfied": on_satisfied}


def quorum(k: int, on_satisfied: str) -> Row:
    """A join that k successes satisfy."""
    return {"kind": "quorum", "k": k, "on_satisfied": on_satisfied}


def column(connection: Connection, statement: str, arguments: Sequence[Any] = ()) -> list[Any]:
    """The first column of a query."""
    return [row[0] for row in connection.execute(statement, arguments).fetchall()]
