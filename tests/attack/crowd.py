"""Calls over so much input that a short timeout ends them somewhere in the middle."""

from __future__ import annotations

from typing import Any

from psycopg.rows import dict_row

from tests.attack.calling import Call
from tests.attack.catalogue import public_functions
from tests.attack.values import to_text
from tests.attack.world import POLICY
from tests.support.cluster import Connection

SIZE = 200
#: As many as one call claims at most.
_CLAIM_MAX = 100
_WORKER = {"worker_id": "worker", "worker_instance_id": "worker-1"}
_CLAIM = """
    select * from flowfabric.ff_claim_next(
        array['default'], 'worker', 'worker-1', p_max => %s, p_lease_ttl_ms => %s)
"""


def crowded_calls(connection: Connection) -> list[Call]:
    """Fill a world with executions, some of whose leases have run out, and return calls about all of them.

    Many an item of a batch has something wrong with it, so that blocks with a handler run too.
    """
    connection.execute(
        "select flowfabric.ff_create_executions(array_fill('kind'::text, array[%s]))", [2 * SIZE]
    )
    with connection.cursor(row_factory=dict_row) as cursor:
        claimed = [lease for ttl_ms in (1, 600_000) for lease in cursor.execute(_CLAIM, [_CLAIM_MAX, ttl_ms])]
    connection.execute("select flowfabric.ff_test_set_clock('advance', 1)")
    fences = {
        f"{name}s": [lease[name] for lease in claimed]
        for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")
    }
    names = [f"member-{number}" for number in range(SIZE)]
    flow = {
        "namespace": "default",
        "defaults": {"lane_id": "default"},
        "members": [{"name": name, "execution_kind": "kind"} for name in names],
        "edges": [{"upstream": names[0], "downstream": name} for name in names[1:]],
    }
    arguments: dict[str, dict[str, Any]] = {
        "ff_create_executions": {
            "execution_kinds": ["kind", "", "kind", "kind"] * (SIZE // 4),
            "policies": [POLICY, POLICY, {"max_replay_count": "many"}, POLICY] * (SIZE // 4),
            "tags": [{"team.name": "x"}, {}, {}, {"Team": "x"}] * (SIZE // 4),
        },
        "ff_renew_leases": fences,
        "ff_complete_executions": fences,
        "ff_fail_executions": {
            **fences,
            "retry_policies": [POLICY["retry_policy"], {"max_retries": "many"}] * (len(claimed) // 2),
        },
        "ff_submit_flow": {"flow": flow},
        "ff_claim_next": {**_WORKER, "lanes": ["default"], "max": _CLAIM_MAX},
        "ff_reclaim_next": {**_WORKER, "lanes": ["default"], "max": _CLAIM_MAX},
        "ff_scan_expired_leases": {"limit": SIZE},
        "ff_tick": {"force": True, "max_ms": 2**31 - 1},
    }
    functions = {function.name: function for function in public_functions(connection)}
    calls = []
    for name, given in arguments.items():
        types = {parameter.name: parameter.sql_type for parameter in functions[name].parameters}
        calls.append(Call(functions[name], {key: to_text(value, types[key]) for key, value in given.items()}))
    return calls
