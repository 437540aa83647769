"""Wide flows and large ones: a call does a bounded amount, and what it leaves is done in bounded slices."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from tests.flow.flows import Row, SubmittedFlow, call, call_all, column, quorum, submit
from tests.flow.model import ENDED
from tests.support.cluster import Connection

WIDE = 1000
LARGE = 10_000
#: The default of max_sync_edges.
EDGES_PER_CALL = 256


def claim_all(connection: Connection, flow: SubmittedFlow, names: list[str]) -> list[tuple[Any, ...]]:
    """Claim many members; return id, lease id, epoch and attempt id of each."""
    return connection.execute(
        """
        select c.execution_id, c.lease_id, c.lease_epoch, c.attempt_id
        from unnest(%s::text[]) as e (execution_id)
        cross join lateral flowfabric.ff_issue_grant_and_claim(e.execution_id, 3600000) as c""",
        [[flow.ids[name] for name in names]],
    ).fetchall()


def complete_all(connection: Connection, held: list[tuple[Any, ...]]) -> Counter[str]:
    execution_ids, lease_ids, epochs, attempt_ids = (list(field) for field in zip(*held, strict=True))
    items = call_all(
        connection,
        "ff_complete_executions",
        execution_ids=execution_ids,
        lease_ids=lease_ids,
        lease_epochs=epochs,
        attempt_ids=attempt_ids,
    )
    return Counter(item["outcome"] for item in items)


def resolved_edges(connection: Connection) -> int:
    (count,) = column(connection, "select count(*) from flowfabric.ff_edge where dep_state <> 'unsatisfied'")
    return int(count)


def test_a_thousand_upstreams_of_one_child(db: Connection) -> None:
    names = [f"up{n}" for n in range(WIDE)]
    flow = submit(db, [*names, "child"], [(name, "child") for name in names])
    held = claim_all(db, flow, names)
    for start in range(0, WIDE, 200):
        assert flow.states(db)["child"] == "waiting_children"
        assert complete_all(db, held[start : start + 200]) == {"completed": 200}
        assert resolved_edges(db) == start + 200, "each batch resolves the edges of its members"
    assert flow.states(db)["child"] == "waiting"
    assert flow.joins(db)["child"] == (WIDE, WIDE, 0, 0, "satisfied")
    flow.assert_sound(db)


def test_a_batch_of_a_thousand_members_resolves_no_more_edges_than_one_call_may(db: Connection) -> None:
    names = [f"up{n}" for n in range(WIDE)]
    flow = submit(db, [*names, "child"], [(name, "child") for name in names])
    assert complete_all(db, claim_all(db, flow, names)) == {"completed": WIDE}
    assert resolved_edges(db) == EDGES_PER_CALL
    assert call(db, "ff_dispatch_dependencies", limit=WIDE) == {
        "flow_id": column(db, "select flow_id from flowfabric.ff_flow_core")[0],
        "outbox_done": WIDE - EDGES_PER_CALL,
        "edges_resolved": WIDE - EDGES_PER_CALL,
        "children_eligible": 1,
        "children_skipped": 0,
        "more": False,
    }
    assert flow.states(db)["child"] == "waiting"
    flow.assert_sound(db)


@pytest.mark.parametrize(("outcome", "left"), [("success", "waiting"), ("failed", "skipped")])
def test_a_thousand_children_of_one_upstream(outcome: str, left: str, db: Connection) -> None:
    names = [f"child{n}" for n in range(WIDE)]
    flow = submit(db, ["root", *names], [("root", name) for name in names])
    flow.end(db, "root", outcome)
    assert resolved_edges(db) == 0, "a fan-out above the limit is left as a whole"
    slices = [row["edges_resolved"] for row in iter_dispatch(db, limit=400)]
    assert slices == [400, 400, 200]
    assert Counter(flow.states(db).values()) == Counter({left: WIDE}) + Counter([ENDED[outcome]])
    flow.assert_sound(db)


def iter_dispatch(connection: Connection, limit: int) -> list[Row]:
    done: list[Row] = []
    while rows := call_all(connection, "ff_dispatch_dependencies", limit=limit):
        done += rows
    return done


def test_as_many_children_as_a_call_may_handle_can_be_claimed_at_once(db: Connection) -> None:
    names = [f"child{n}" for n in range(EDGES_PER_CALL)]
    flow = submit(db, ["root", *names], [("root", name) for name in names])
    flow.end(db, "root", "success")
    assert Counter(flow.states(db).values()) == {"completed": 1, "waiting": EDGES_PER_CALL}


def test_a_quorum_of_a_hundred_cancels_the_rest_at_once(db: Connection) -> None:
    names = [f"up{n}" for n in range(100)]
    flow = submit(
        db, [*names, "child"], [(name, "child") for name in names], {"child": quorum(60, "cancel_remaining")}
    )
    held = claim_all(db, flow, names[:60])
    assert complete_all(db, held) == {"completed": 60}
    assert Counter(flow.states(db).values()) == {"completed": 60, "cancelled": 40, "waiting": 1}
    flow.assert_sound(db)


def test_a_skip_goes_down_a_long_chain_level_by_level_and_stops_at_the_depth_of_a_call(
    db: Connection,
) -> None:
    names = [f"n{n:03}" for n in range(200)]
    flow = submit(db, names, pairwise(names))
    flow.end(db, names[0], "failed")
    states = flow.states(db)
    assert [states[name] for name in names[:52]] == ["failed", *["skipped"] * 51]
    assert {states[name] for name in names[52:]} == {"waiting_children"}
    assert [row["children_skipped"] for row in iter_dispatch(db, limit=1000)] == [148]
    flow.assert_sound(db)


def test_a_flow_of_ten_thousand_is_unclaimable_at_once_and_ends_in_bounded_batches(db: Connection) -> None:
    names = [f"n{n}" for n in range(LARGE)]
    flow = submit(db, names, [(up, down) for up, down in zip(names[::4], names[1::4], strict=True)])
    (running,) = claim_all(db, flow, [names[2]])
    answer = call(
        db,
        "ff_cancel_flow",
        flow_id=flow.flow_id,
        reason="stop",
        cancellation_policy="cancel_all",
        grace_ms=0,
    )
    assert (answer["member_count"], answer["cancelled_count"]) == (LARGE, 500)
    assert column(
        db, "select count(*) from flowfabric.ff_exec_core where eligibility_state = 'eligible_now'"
    ) == [0], "nobody can be claimed any more"
    with pytest.raises(psycopg.Error, match="execution_not_"):
        flow.claim(db, names[-1])

    batches = []
    while rows := call_all(db, "ff_drain_cancel_backlog"):
        batches += rows
    assert max(row["cancelled"] for row in batches) <= 500
    iter_dispatch(db, limit=1000)
    assert Counter(flow.states(db).values()) == {"cancelled": LARGE}
    with pytest.raises(psycopg.Error, match="execution_not_active"):
        call(
            db,
            "ff_complete_execution",
            **dict(zip(("execution_id", "lease_id", "lease_epoch", "attempt_id"), running, strict=True)),
        )
    flow.assert_sound(db)


def test_a_document_of_the_largest_size_is_taken(db: Connection) -> None:
    names = [f"n{n}" for n in range(LARGE)]
    edges = [(names[n], names[n + step]) for step in (1, 2, 3) for n in range(LARGE - step)]
    flow = submit(db, names, edges)
    described = call(db, "ff_describe_flow", flow_id=flow.flow_id)
    assert (described["node_count"], described["edge_count"]) == (LARGE, len(edges))
    with pytest.raises(psycopg.Error, match="cycle_detected") as refused:
        submit(db, names, [*edges, (names[-1], names[0])])
    assert len(refused.value.diag.message_detail or "") > LARGE, "every member of the cycle is named"
