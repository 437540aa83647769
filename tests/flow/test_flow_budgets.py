"""Budgets come last in the lock order, also when the end of a member ends others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Connect
from tests.flow.flows import Fence, Row, any_of, call, call_all, column, quorum, submit
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked


def create_budget(connection: Connection) -> None:
    call(
        connection,
        "ff_create_budget",
        budget_id="tokens",
        scope_type="lane",
        scope_id="default",
        dimensions=["t"],
        hard_limits=[100],
        soft_limits=[0],
    )


def reserve(connection: Connection, fence: Fence) -> Row:
    return call(connection, "ff_reserve_budget", budget_id="tokens", dimensions=["t"], amounts=[5], **fence)


def test_a_member_that_gives_back_reservations_does_not_deadlock_with_a_sibling_that_makes_one(
    db: Connection, connect: Connect
) -> None:
    create_budget(db)
    flow = submit(db, "abc", [("a", "c"), ("b", "c")], {"c": any_of("cancel_remaining")})
    held = {name: flow.claim(db, name) for name in "ab"}
    reserve(db, held["a"])
    sibling, worker = connect(autocommit=False), connect()
    sibling.execute(
        "select from flowfabric.ff_exec_core where execution_id = %s for no key update", [flow.uuid("b")]
    )
    waiting = in_background(lambda: call(worker, "ff_complete_execution", **held["a"]))
    wait_until_blocked(db, worker, by=sibling)
    assert reserve(sibling, held["b"])["outcome"] == "reserved"
    sibling.commit()
    waiting.result()
    assert flow.states(db) == {"a": "completed", "b": "cancelled", "c": "waiting"}
    assert column(db, "select reserved_value from flowfabric.ff_budget_usage") == [0]
    flow.assert_sound(db)


@pytest.mark.parametrize(
    ("function", "join", "states"),
    [
        (
            "ff_complete_executions",
            any_of("cancel_remaining"),
            {"a": "completed", "b": "cancelled", "c": "waiting"},
        ),
        (
            "ff_fail_executions",
            quorum(2, "cancel_remaining"),
            {"a": "failed", "b": "cancelled", "c": "skipped"},
        ),
    ],
)
def test_a_batch_leaves_a_member_whose_sibling_is_held_and_gives_back_what_the_others_had_reserved(
    db: Connection, connect: Connect, function: str, join: Row, states: dict[str, str]
) -> None:
    create_budget(db)
    flows = sorted(
        (submit(db, "abc", [("a", "c"), ("b", "c")], {"c": join}) for _ in range(2)),
        key=lambda flow: flow.ids["a"],
    )
    first, second = flows
    ends = [flow.claim(db, "a") for flow in flows]
    reserve(db, first.claim(db, "b"))
    siblings_fence = second.claim(db, "b")
    sibling, worker = connect(autocommit=False), connect()
    sibling.execute(
        "select from flowfabric.ff_exec_core where execution_id = %s for no key update", [second.uuid("b")]
    )
    batch: dict[str, Any] = {f"{field}s": [fence[field] for fence in ends] for field in ends[0]}
    assert [item["outcome"] == "busy" for item in call_all(worker, function, **batch)] == [False, True]
    assert first.states(db) == states
    assert second.states(db) == {"a": "active", "b": "active", "c": "waiting_children"}
    assert column(db, "select reserved_value from flowfabric.ff_budget_usage") == [0]
    assert reserve(sibling, siblings_fence)["outcome"] == "reserved"
    sibling.commit()
    assert [item["code"] for item in call_all(worker, function, **batch)] == ["execution_not_active", None]
    for flow in flows:
        assert flow.states(db) == states
        flow.assert_sound(db)
    assert column(db, "select reserved_value from flowfabric.ff_budget_usage") == [0]
