"""What the tests of claims share: calls by name, and queues that are filled by one statement."""

from __future__ import annotations

from itertools import count
from typing import Any

from psycopg.rows import dict_row

from tests.conftest import Clock
from tests.support.cluster import Connection

Row = dict[str, Any]

_numbers = count(1)


def call(connection: Connection, function: str, **arguments: Any) -> list[Row]:
    """Call a function of the engine by the names of its parameters and return its rows."""
    named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"select r.* from flowfabric.{function}({named}) as r", arguments).fetchall()


def claim(connection: Connection, **arguments: Any) -> list[Row]:
    """Claim as worker w-1, from lane `default` unless the arguments say otherwise."""
    defaults = {"lanes": ["default"], "worker_id": "w", "worker_instance_id": "w-1"}
    return call(connection, "ff_claim_next", **{**defaults, **arguments})


def names(rows: list[Row]) -> list[str]:
    """The payloads of claimed executions, which the tests use as their names."""
    return [row["payload"].decode() for row in rows]


def create(connection: Connection, *payloads: str, **arguments: Any) -> list[str]:
    """Create one execution per name, the first to stand first in the queue; return their ids.

    The ids ascend: executions of one millisecond are ordered by them.
    """
    ids = [f"{{fp:1}}:00000000-0000-4000-8000-{next(_numbers):012}" for _ in payloads]
    for execution_id, payload in zip(ids, payloads, strict=True):
        call(
            connection,
            "ff_create_execution",
            execution_kind="test",
            execution_id=execution_id,
            payload=payload.encode(),
            **arguments,
        )
    return ids


def fence(row: Row) -> Row:
    """The fence of a claimed execution."""
    return {name: row[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


def complete(connection: Connection, row: Row) -> None:
    """Complete a claimed execution."""
    call(connection, "ff_complete_execution", **fence(row))


def value(connection: Connection, query: str, *parameters: Any) -> Any:
    """The one value that a query returns."""
    row = connection.execute(query, parameters).fetchone()
    assert row is not None
    return row[0]


def raise_floors(connection: Connection, clock: Clock) -> int:
    """Let the scanner move both floors of each segment, two seconds of the clock; the lowest floor."""
    for _ in range(2):
        clock.advance(1_000)
        call(connection, "ff_scan_claim_floors")
    return lowest_floor(connection)


def lowest_floor(connection: Connection) -> int:
    """Where claims from lane `default` begin to read, if it has one segment."""
    floor: int = value(
        connection,
        "select min(floor_ms) from flowfabric.ff_lane_floor where side > 0 and capability_set_id > 0",
    )
    return floor


def fill(
    connection: Connection,
    size: int,
    *,
    state: str = "eligible",
    created_at_ms: int = 1,
    lane: str = "default",
    namespace: str = "default",
    capability_set_id: int = 1,
) -> None:
    """Insert executions by plain SQL: through the engine it would take minutes."""
    vectors = {
        "eligible": "'runnable', 'unowned', 'eligible_now', 'waiting_for_worker', 'none',"
        " 'pending_first_attempt', null, null, null, null, null, 0, 0",
        "finished": "'terminal', 'unowned', 'not_applicable', 'none', 'success', 'attempt_terminal', 1,"
        " null, null, null, null, 1, 1",
        "leased": "'active', 'leased', 'not_applicable', 'none', 'none', 'running_attempt', null,"
        " gen_random_uuid(), 'other', 'other-1', 9007199254740991, 1, 1",
    }
    connection.execute(
        "with e as (insert into flowfabric.ff_exec_core (partition_key, execution_id, lifecycle_phase,"
        " ownership_state, eligibility_state, blocking_reason, terminal_outcome, attempt_state,"
        " terminal_at_ms, current_lease_id, current_worker_id, current_worker_instance_id,"
        " lease_expires_at_ms, total_attempt_count, current_lease_epoch, created_at_ms,"
        " last_transition_at_ms, last_mutation_at_ms, namespace, lane_id, execution_kind, capability_set_id)"
        f" select n %% 256, gen_random_uuid(), {vectors[state]}, %(created)s + n, 1, 1, %(namespace)s,"
        " %(lane)s, 'test', %(set)s from generate_series(1, %(size)s) as n"
        " returning partition_key, execution_id)"
        " insert into flowfabric.ff_exec_payload (partition_key, execution_id, payload)"
        " select e.partition_key, e.execution_id, 'filler' from e",
        {
            "created": created_at_ms,
            "size": size,
            "lane": lane,
            "namespace": namespace,
            "set": capability_set_id,
        },
    )
    connection.execute(
        "insert into flowfabric.ff_lane_registry (lane_id, lane_crc, registered_at_ms, registered_by)"
        " values (%s, 0, 1, 'test') on conflict do nothing",
        [lane],
    )


def intern(connection: Connection, *tokens: str) -> int:
    """The id of a set of capabilities."""
    set_id: int = value(
        connection,
        "insert into flowfabric.ff_capability_set (tokens, created_at_ms) values (%s, 1)"
        " returning capability_set_id",
        sorted(tokens),
    )
    return set_id
