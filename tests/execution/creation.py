"""Creations as Python calls, single and in batches, and what they leave in the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.support.cluster import Connection

Row = dict[str, Any]

#: The parameter of the single form, that of the batch, and the type of an element.
PARAMETERS = (
    ("execution_kind", "execution_kinds", "text"),
    ("payload", "payloads", "bytea"),
    ("lane_id", "lane_ids", "text"),
    ("execution_id", "execution_ids", "text"),
    ("payload_encoding", "payload_encodings", "text"),
    ("priority", "priorities", "integer"),
    ("policy", "policies", "jsonb"),
    ("tags", "tags", "jsonb"),
    ("delay_until_ms", "delay_until_ms", "bigint"),
    ("execution_deadline_at_ms", "execution_deadlines_at_ms", "bigint"),
    ("idempotency_key", "idempotency_keys", "text"),
)


@dataclass(frozen=True)
class Item:
    """One creation. Policy and tags are JSON documents of any shape; None leaves an argument out."""

    execution_kind: str | None = "test"
    payload: bytes | None = None
    lane_id: str | None = None
    execution_id: str | None = None
    payload_encoding: str | None = None
    priority: int | None = None
    policy: Jsonb | None = None
    tags: Jsonb | None = None
    delay_until_ms: int | None = None
    execution_deadline_at_ms: int | None = None
    idempotency_key: str | None = None


def create(connection: Connection, item: Item, *, dedup_ttl_ms: int | None = None) -> Row:
    """Call ff_create_execution."""
    arguments = {single: getattr(item, single) for single, _, _ in PARAMETERS}
    named = ", ".join(f"p_{single} => %({single})s::{kind}" for single, _, kind in PARAMETERS)
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(
            f"select c.* from flowfabric.ff_create_execution({named}, p_dedup_ttl_ms => %(ttl)s) as c",
            {**arguments, "ttl": dedup_ttl_ms},
        ).fetchone()
    assert row is not None
    return row


def create_batch(
    connection: Connection, items: Sequence[Item], *, dedup_ttl_ms: int | None = None
) -> list[Row]:
    """Call ff_create_executions, with every array that any item needs."""
    arrays: dict[str, list[Any]] = {}
    named = ["p_dedup_ttl_ms => %(ttl)s"]
    for single, plural, kind in PARAMETERS:
        values = [getattr(item, single) for item in items]
        if single == "execution_kind" or any(value is not None for value in values):
            arrays[plural] = values
            named.append(f"p_{plural} => %({plural})s::{kind}[]")
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            f"select b.* from flowfabric.ff_create_executions({', '.join(named)}) as b",
            {**arrays, "ttl": dedup_ttl_ms},
        ).fetchall()


def outcomes(rows: Sequence[Row]) -> list[tuple[str, str | None]]:
    """What became of each item, and of which execution."""
    return [(row["outcome"], row["execution_id"]) for row in rows]


def stored_ids(connection: Connection) -> list[str]:
    """The executions that are there with their payloads, by id."""
    rows = connection.execute(
        """
        select flowfabric.ff_format_execution_id(e.partition_key, e.execution_id)
        from flowfabric.ff_exec_core as e
        left join flowfabric.ff_exec_payload as p
            on p.partition_key = e.partition_key and p.execution_id = e.execution_id
        where e.small_payload is not null or p.execution_id is not null
        order by 1
        """
    )
    return [execution_id for (execution_id,) in rows]


def stored_keys(connection: Connection) -> dict[str, str]:
    """The idempotency keys that are recorded, and the execution that each one names."""
    rows = connection.execute(
        """
        select k.idempotency_key, flowfabric.ff_format_execution_id(k.partition_key, k.execution_id)
        from flowfabric.ff_execution_idempotency as k
        """
    )
    return dict(rows.fetchall())


def wire_id(number: int) -> str:
    """An id of partition 86; ids sort like their numbers."""
    return f"{{fp:86}}:00000000-0000-4000-8000-{number:012x}"
