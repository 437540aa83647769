"""Budgets come last in the lock order, also when the end of a member ends others."""

from __future__ import annotations

from typing import Any

from tests.conftest import Connect
from tests.flow.flows import any_of, call, column, submit
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked


def test_a_member_that_gives_back_reservations_does_not_deadlock_with_a_sibling_that_makes_one(
    db: Connection, connect: Connect
) -> None:
    call(
        db,
        "ff_create_budget",
        budget_id="tokens",
        scope_type="lane",
        scope_id="default",
        dimensions=["t"],
        hard_limits=[100],
        soft_limits=[0],
    )
    flow = submit(db, "abc", [("a", "c"), ("b", "c")], {"c": any_of("cancel_remaining")})
    held = {name: flow.claim(db, name) for name in "ab"}

    def reserve(connection: Connection, name: str) -> Any:
        return call(
            connection, "ff_reserve_budget", budget_id="tokens", dimensions=["t"], amounts=[5], **held[name]
        )

    reserve(db, "a")
    sibling, worker = connect(autocommit=False), connect()
    sibling.execute(
        "select from flowfabric.ff_exec_core where execution_id = %s for no key update", [flow.uuid("b")]
    )
    waiting = in_background(lambda: call(worker, "ff_complete_execution", **held["a"]))
    wait_until_blocked(db, worker, by=sibling)
    assert reserve(sibling, "b")["outcome"] == "reserved"
    sibling.commit()
    waiting.result()
    assert flow.states(db) == {"a": "completed", "b": "cancelled", "c": "waiting"}
    assert column(db, "select reserved_value from flowfabric.ff_budget_usage") == [0]
    flow.assert_sound(db)
