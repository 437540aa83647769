"""Signals without tokens: whoever waits for one gets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric_client import Handle
from flowfabric_client.testing import FlowFabric

APPROVAL = {"Single": {"waitpoint_key": "approval", "matcher": {"ByName": "decided"}}}
TWO_VOTES = {
    "Composite": {
        "kind": "Count",
        "n": 2,
        "count_kind": "DistinctWaitpoints",
        "waitpoints": ["ada", "grace"],
    }
}


def claimed(flowfabric: FlowFabric) -> Handle:
    flowfabric.client.create_execution("order")
    (claim,) = flowfabric.client.claim_next(["default"], "shop", "shop-1")
    return Handle.of(claim)


def suspended(flowfabric: FlowFabric, condition: Any = APPROVAL, *keys: str) -> Handle:
    handle = claimed(flowfabric)
    flowfabric.client.suspend_execution(
        **handle.arguments(),
        resume_condition=condition,
        reason_code="waiting_for_approval",
        waitpoint_keys=keys or ("approval",),
    )
    return handle


def test_an_execution_gets_the_signal_that_it_waits_for(flowfabric: FlowFabric) -> None:
    handle = suspended(flowfabric)
    delivery = flowfabric.deliver(handle.execution_id, "decided", {"by": "grace"})
    assert delivery.effect == "resume_condition_satisfied"
    (signal,) = flowfabric.client.observe_signals(handle.execution_id, handle.attempt_index)
    assert signal.payload is not None
    assert json.loads(signal.payload) == {"by": "grace"}
    (again,) = flowfabric.client.claim_next(["default"], "shop", "shop-1")
    assert again.execution_id == handle.execution_id


@pytest.mark.parametrize("form", [UUID, str])
def test_a_waitpoint_is_a_target_too(flowfabric: FlowFabric, form: Callable[[str], str | UUID]) -> None:
    handle = suspended(flowfabric)
    (waitpoint,) = flowfabric.client.list_pending_waitpoints(handle.execution_id)
    delivery = flowfabric.deliver(form(str(waitpoint.waitpoint_id)), "decided")
    assert delivery.effect == "resume_condition_satisfied"


def test_one_of_several_waitpoints_is_chosen_by_its_key(flowfabric: FlowFabric) -> None:
    handle = suspended(flowfabric, TWO_VOTES, "ada", "grace")
    with pytest.raises(LookupError, match=r"say which waitpoint_key \((ada, grace|grace, ada)\)"):
        flowfabric.deliver(handle.execution_id, "yes")
    for key in ("ada", "grace"):
        delivery = flowfabric.deliver(handle.execution_id, "yes", waitpoint_key=key)
    assert delivery.effect == "resume_condition_satisfied"


def test_a_signal_that_comes_early_waits_for_the_suspension(flowfabric: FlowFabric) -> None:
    handle = claimed(flowfabric)
    flowfabric.client.create_pending_waitpoint(
        **handle.arguments(), waitpoint_key="approval", expires_in_ms=60_000
    )
    assert (
        flowfabric.deliver(handle.execution_id, "decided", b"raw").effect == "buffered_for_pending_waitpoint"
    )


def test_a_signal_that_nobody_waits_for_is_refused(flowfabric: FlowFabric) -> None:
    handle = claimed(flowfabric)
    with pytest.raises(LookupError, match="the execution is active"):
        flowfabric.deliver(handle.execution_id, "decided")
    with pytest.raises(LookupError, match="There is no waitpoint"):
        flowfabric.deliver(uuid4(), "decided")
