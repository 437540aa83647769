"""Leases to finish in batches, and the batch functions as Python calls."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.support.cluster import Connection
from tests.support.engine import Row, call

#: PostgreSQL must be told the type of an array that holds nothing but nulls.
ARRAY_TYPES = {
    "execution_ids": "text[]",
    "lease_ids": "uuid[]",
    "lease_epochs": "bigint[]",
    "attempt_ids": "uuid[]",
    "results": "bytea[]",
    "result_encodings": "text[]",
    "failure_reasons": "text[]",
    "failure_categories": "text[]",
    "retry_policies": "jsonb[]",
    "lease_ttl_ms": "bigint",
}


LEASE_ID = UUID(int=0x1EA5E)
ATTEMPT_ID = UUID(int=0xA77)


@dataclass(frozen=True)
class Lease:
    """What a worker shows of a lease: any part of it may be wrong or missing."""

    execution_id: str | None
    lease_id: UUID | None = LEASE_ID
    lease_epoch: int | None = 1
    attempt_id: UUID | None = ATTEMPT_ID

    @property
    def uuid(self) -> UUID:
        """The uuid of its execution, which the tables know it by."""
        assert self.execution_id is not None
        return UUID(self.execution_id[-36:])


def wire_id(uuid: UUID) -> str:
    """The id of an execution in partition 86."""
    return f"{{fp:86}}:{uuid}"


def execution_id(number: int) -> str:
    """The id of an execution; ids ascend with their numbers."""
    return wire_id(UUID(int=number))


def rows(connection: Connection, statement: str, parameters: Sequence[Any] | Row = ()) -> list[Row]:
    """What a statement returns, by column names."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, parameters).fetchall()


def call_batch(connection: Connection, function: str, leases: Sequence[Lease], **arguments: Any) -> list[Row]:
    """The rows of a batch function, in the order in which it returns them."""
    everything = {
        "execution_ids": [lease.execution_id for lease in leases],
        "lease_ids": [lease.lease_id for lease in leases],
        "lease_epochs": [lease.lease_epoch for lease in leases],
        "attempt_ids": [lease.attempt_id for lease in leases],
        **arguments,
    }
    named = ", ".join(f"p_{name} => %({name})s::{ARRAY_TYPES[name]}" for name in everything)
    return rows(connection, f"select r.* from flowfabric.{function}({named}) as r", everything)


def complete(connection: Connection, leases: Sequence[Lease], **arguments: Any) -> list[Row]:
    return call_batch(connection, "ff_complete_executions", leases, **arguments)


def fail(connection: Connection, leases: Sequence[Lease], **arguments: Any) -> list[Row]:
    return call_batch(connection, "ff_fail_executions", leases, **arguments)


def renew(connection: Connection, leases: Sequence[Lease], **arguments: Any) -> list[Row]:
    return call_batch(connection, "ff_renew_leases", leases, **arguments)


def outcomes(answers: Iterable[Row]) -> list[str]:
    """The outcome of each item, or the code of its refusal."""
    return [answer["code"] or answer["outcome"] for answer in answers]


def create(connection: Connection, lease: Lease, policy: Row | None = None, **arguments: Any) -> None:
    call(
        connection,
        "ff_create_execution",
        execution_kind="test",
        execution_id=lease.execution_id,
        policy=None if policy is None else Jsonb(policy),
        **arguments,
    )


def claim(connection: Connection, lease: Lease, ttl_ms: int = 30_000, **arguments: Any) -> None:
    call(
        connection,
        "ff_issue_grant_and_claim",
        execution_id=lease.execution_id,
        lease_ttl_ms=ttl_ms,
        worker_id="worker",
        worker_instance_id="worker-1",
        lease_id=lease.lease_id,
        attempt_id=lease.attempt_id,
        **arguments,
    )


def leased(connection: Connection, *numbers: int, ttl_ms: int = 30_000) -> list[Lease]:
    """Executions that a worker holds, one per number."""
    leases = [Lease(execution_id(number)) for number in numbers]
    for lease in leases:
        create(connection, lease)
        claim(connection, lease, ttl_ms)
    return leases


def create_flow(connection: Connection, flow_id: UUID) -> None:
    connection.execute(
        """
        insert into flowfabric.ff_flow_core (
            partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms,
            last_mutation_at_ms)
        values (86, %s, 'test', 'default', 'open', 0, 0)
        """,
        [flow_id],
    )


def join_flow(connection: Connection, flow_id: UUID, *leases: Lease) -> None:
    connection.execute(
        "update flowfabric.ff_exec_core set flow_id = %s where execution_id = any(%s)",
        [flow_id, [lease.uuid for lease in leases]],
    )


def reserve(connection: Connection, lease: Lease, *budget_ids: str) -> None:
    """Give a leased execution an open reservation of 10 tokens in each budget."""
    for budget_id in budget_ids:
        connection.execute(
            """
            insert into flowfabric.ff_budget_policy (
                budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit,
                created_at_ms, updated_at_ms)
            values (%s, 'lane', 'default', 'strict', 'fail', 'warn', 0, 0)
            on conflict do nothing
            """,
            [budget_id],
        )
        connection.execute(
            """
            insert into flowfabric.ff_budget_usage as u (budget_id, dimension, reserved_value, updated_at_ms)
            values (%s, 'tokens', 10, 0)
            on conflict (budget_id, dimension) do update set reserved_value = u.reserved_value + 10
            """,
            [budget_id],
        )
        connection.execute(
            """
            insert into flowfabric.ff_budget_reservation (
                budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch,
                dimensions, amounts, reserved_at_ms)
            values (%s, %s, 86, %s, %s, %s, '{tokens}', '{10}', 0)
            """,
            [budget_id, str(lease.uuid), lease.uuid, lease.attempt_id, lease.lease_epoch],
        )
    connection.execute(
        "update flowfabric.ff_exec_core set open_reservation_count = %s where execution_id = %s",
        [len(budget_ids), lease.uuid],
    )


def tables_of_executions(connection: Connection) -> list[str]:
    """Every table that knows an execution by its key."""
    found = connection.execute(
        """
        select c.relname
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid and a.attname = 'execution_id' and not a.attisdropped
        where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r'
        order by c.relname
        """
    )
    return [name for (name,) in found.fetchall()]


def traces(connection: Connection) -> dict[UUID, list[Row]]:
    """Every row about each execution, without what differs by nature: its own id, and the ids of events."""
    found: dict[UUID, list[Row]] = defaultdict(list)
    for table in tables_of_executions(connection):
        statement = sql.SQL(
            "select t.execution_id, to_jsonb(t) - array['event_id', 'xact_id'] from flowfabric.{} as t "
            "order by (to_jsonb(t) ->> 'event_id')::bigint, to_jsonb(t)::text"
        ).format(sql.Identifier(table))
        for uuid, row in connection.execute(statement).fetchall():
            anonymous = json.loads(json.dumps(row).replace(str(uuid), "itself"))
            found[uuid].append({"table": table, **anonymous})
    return found
