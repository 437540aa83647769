"""Closed lists of values: a function accepts what its list says, and refuses everything else."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg import sql

from tests.support.cluster import Connection

PARAMETERS = """
    select p.proname, substr(a.name, 3), v.legal_values,
        array(
            select array[substr(n.name, 3), format_type(p.proargtypes[n.number - 1], null)]
            from unnest(p.proargnames) with ordinality as n (name, number)
            where n.number <= p.pronargs - p.pronargdefaults)
    from pg_proc as p
    cross join lateral unnest(p.proargnames, p.proargtypes::oid[]) as a (name, type)
    cross join lateral flowfabric._ff_parameter_values(p.proname, substr(a.name, 3)) as v (legal_values)
    where p.pronamespace = 'flowfabric'::regnamespace and p.proname like 'ff\\_%'
        and a.type = 'text'::regtype and v.legal_values is not null
    order by 1, 2"""
A_UUID = "00000000-0000-4000-8000-000000000001"

# Arguments that no check before that of the list refuses; those of the fence come from a lease.
SAMPLES: dict[str, str] = {
    "amounts": "{1}",
    "budget_id": "budget",
    "count": "1",
    "cursor": "0:0:0",
    "consumer": "consumer",
    "delay_until_ms": "1",
    "deltas": "{1}",
    "dimensions": "{tokens}",
    "direction": "incoming",
    "edge_id": A_UUID,
    "expected_graph_revision": "0",
    "flow_id": A_UUID,
    "frame_type": "text",
    "k": "1",
    "lane_id": "default",
    "lanes": "{default}",
    "lease_ttl_ms": "1000",
    "ms": "0",
    "on_satisfied": "let_run",
    "policy_kind": "any_of",
    "reason": "because",
    "reason_code": "waiting_for_signal",
    "reservation_key": "key",
    "resume_condition": '{"Single": {"waitpoint_key": "wpk:a", "matcher": "Wildcard"}}',
    "signal_name": "approved",
    "stream": "lease",
    "upstream_execution_id": "{fp:86}:00000000-0000-4000-8000-000000000003",
    "waitpoint_id": A_UUID,
    "waitpoint_token": "token",
    "worker_id": "worker",
    "worker_instance_id": "worker-1",
}
# What a check needs beside the required arguments: a patch is applied in one mode only.
MORE: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("ff_append_frame", "patch_kind"): {"stream_mode": ("text", "summary"), "payload": ("bytea", "{}")},
}
# A value that is refused by a code of its own, whose detail has no field.
OWN_CODES = {"blocking_reason": "invalid_blocking_reason"}


def refused_for(connection: Connection, call: sql.Composed, arguments: dict[str, str]) -> str | None:
    """The field, or the code without one, for which a call is refused; None if it is not."""
    with connection.transaction(force_rollback=True):
        try:
            with connection.transaction():
                connection.execute(call, arguments)
        except psycopg.Error as error:
            detail: dict[str, Any] = json.loads(error.diag.message_detail or "{}")
            return str(detail.get("field") or error.diag.message_primary)
    return None


def test_every_closed_list_is_what_its_function_accepts(db: Connection) -> None:
    parameters = db.execute(PARAMETERS).fetchall()
    db.execute("select flowfabric.ff_create_execution('test')")
    lease = db.execute(
        "select execution_id, lease_id::text, lease_epoch::text, attempt_id::text"
        " from flowfabric.ff_claim_next('{default}', 'worker', 'worker-1')"
    ).fetchone()
    made = db.execute(
        """select (flowfabric.ff_create_execution('test')).execution_id,
            (flowfabric.ff_create_flow(%(flow)s, 'dag', 'default')).outcome,
            flowfabric.ff_mint_execution_id(%(flow)s)""",
        {"flow": A_UUID},
    ).fetchone()
    assert lease is not None
    assert made is not None
    fence = dict(zip(("execution_id", "lease_id", "lease_epoch", "attempt_id"), lease, strict=True))
    samples = {**SAMPLES, **fence, "attempt_index": "0", "downstream_execution_id": made[2]}
    waiting = {"ff_block_execution_for_admission": {"execution_id": made[0]}}
    wrong = []
    for function, parameter, legal, required in parameters:
        more = MORE.get((function, parameter), {})
        types = {**dict(required), parameter: "text", **{name: given[0] for name, given in more.items()}}
        call = sql.SQL("select flowfabric.{}({})").format(
            sql.Identifier(function),
            sql.SQL(", ").join(
                sql.SQL("{} => {}::{}").format(
                    sql.Identifier(f"p_{name}"), sql.Placeholder(name), sql.SQL(sql_type)
                )
                for name, sql_type in types.items()
            ),
        )
        arguments = {name: samples[name] for name, _ in required if name != parameter}
        arguments |= {name: given[1] for name, given in more.items()} | waiting.get(function, {})
        refusal = OWN_CODES.get(parameter, parameter)
        for value in [*legal, "bogus", legal[0].upper()]:
            answer = refused_for(db, call, arguments | {parameter: value})
            if (answer == refusal) != (value not in legal):
                wrong.append((function, parameter, value, answer))
    assert wrong == []
    assert len(parameters) > 30
