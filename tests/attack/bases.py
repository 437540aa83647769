"""A call of each function that is accepted, to begin with when one argument after the other is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.attack.calling import Call
from tests.attack.catalogue import Function
from tests.attack.effects import effect_of
from tests.attack.values import Values
from tests.attack.world import World
from tests.support.cluster import Connection

#: How many sensible calls are tried out, and how many of them may be accepted without writing anything.
_TRIALS = 60
_READS = 5

#: What makes a call one that stores something, where an id that there is already would make it a repeat.
_NEW: Mapping[str, Mapping[str, str | None]] = {
    "ff_create_budget": {"budget_id": "new"},
    "ff_create_quota_policy": {"quota_policy_id": "new"},
    "ff_create_execution": {"execution_id": None, "idempotency_key": "new"},
    "ff_create_executions": {"execution_ids": None, "idempotency_keys": "{new,newer}"},
    "ff_complete_execution": {"result": "\\x61", "result_encoding": "json"},
    "ff_complete_executions": {"results": '{"\\\\x61","\\\\x61"}', "result_encodings": "{json,json}"},
    "ff_create_flow": {"flow_id": "00000000-0000-4000-8000-0000000000f7"},
    "ff_stage_dependency_edge": {"edge_id": "00000000-0000-4000-8000-0000000000e7", "dependency_kind": None},
    "ff_suspend_execution": {"suspension_id": None},
    "ff_list_suspended": {
        "partition_key": "86",
        "after_suspended_at_ms": "1",
        "after_execution_id": "{fp:86}:00000000-0000-4000-8000-000000000001",
    },
    "ff_list_expired_leases": {
        "after_expires_at_ms": "1",
        "after_partition_key": "1",
        "after_execution_id": "00000000-0000-4000-8000-000000000001",
    },
    "ff_scan_eligible": {
        "after_priority": "0",
        "after_created_at_ms": "1",
        "after_execution_id": "{fp:86}:00000000-0000-4000-8000-000000000001",
    },
    "ff_test_set_clock": {"mode": "freeze"},
}


def accepted_call(connection: Connection, world: World, function: Function) -> Call:
    """A sensible call: if possible one that writes, or at least is accepted."""
    # By name, so that a call is the same whichever functions were called before.
    values = Values(Random(function.name))
    best: tuple[tuple[bool, int], Call] | None = None
    reads = 0
    for _ in range(_TRIALS):
        arguments = world.arguments(function, values) | dict(_NEW.get(function.name, {}))
        call = Call(function, {name: value for name, value in arguments.items() if value is not None})
        outcome, effect = effect_of(connection, call)
        is_accepted = effect.is_accepted and not outcome.refuses_every_item
        rank = (is_accepted, sum(effect.written) if is_accepted else 0)
        reads += is_accepted
        if best is None or rank > best[0]:
            best = rank, call
        if best[0] > (True, 0) or reads > _READS:
            break
    assert best is not None
    return best[1]
