"""Two sessions at one flow, in either order: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.conftest import Connect
from tests.flow.flows import SubmittedFlow, any_of, call, call_all, column, refusal, submit
from tests.support.cluster import Connection
from tests.support.concurrency import Background, in_background, wait_until_blocked

Ask = Callable[[Connection], Any]


@pytest.fixture
def leader(connect: Connect) -> Connection:
    """A session whose transaction stays open until it is ended."""
    return connect(autocommit=False)


@pytest.fixture
def follower(connect: Connect) -> Connection:
    return connect()


@pytest.fixture
def follow(db: Connection, leader: Connection, follower: Connection) -> Callable[[Ask], Background[Any]]:
    """Let the follower ask, and return once it waits for the leader."""

    def start(ask: Ask) -> Background[Any]:
        waiting = in_background(lambda: ask(follower))
        wait_until_blocked(db, follower, by=leader)
        return waiting

    return start


Follow = Callable[[Ask], Background[Any]]


# A join and its upstreams


def test_two_upstreams_that_finish_at_once_are_both_counted(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "abc", [("a", "c"), ("b", "c")])
    first, second = flow.claim(db, "a"), flow.claim(db, "b")
    call(leader, "ff_complete_execution", **first)
    waiting = follow(lambda connection: call(connection, "ff_complete_execution", **second))
    leader.commit()
    waiting.result()
    assert flow.joins(db)["c"] == (2, 2, 0, 0, "satisfied")
    assert flow.states(db)["c"] == "waiting"


def test_the_child_can_be_claimed_in_the_transaction_that_completes_its_last_upstream(
    db: Connection, leader: Connection, follower: Connection
) -> None:
    flow = submit(db, "ab", [("a", "b")])
    held = flow.claim(db, "a")
    call(leader, "ff_complete_execution", **held)
    flow.claim(leader, "b")
    assert flow.states(follower) == {"a": "active", "b": "waiting_children"}
    leader.commit()
    assert flow.states(follower) == {"a": "completed", "b": "active"}


def test_a_completion_that_is_rolled_back_leaves_the_child_waiting(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "abc", [("a", "c"), ("b", "c")], {"c": any_of("cancel_remaining")})
    first, second = flow.claim(db, "a"), flow.claim(db, "b")
    call(leader, "ff_complete_execution", **first)
    waiting = follow(lambda connection: call(connection, "ff_complete_execution", **second))
    leader.rollback()
    waiting.result()
    assert flow.states(db) == {"a": "cancelled", "b": "completed", "c": "waiting"}
    assert flow.joins(db)["c"] == (2, 1, 1, 0, "satisfied")


def test_of_two_upstreams_of_an_any_of_one_wins_and_the_other_learns_that_it_was_cancelled(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "abc", [("a", "c"), ("b", "c")], {"c": any_of("cancel_remaining")})
    first, second = flow.claim(db, "a"), flow.claim(db, "b")
    call(leader, "ff_complete_execution", **first)
    waiting = follow(lambda connection: call(connection, "ff_complete_execution", **second))
    leader.commit()
    detail = refusal(waiting)
    assert (detail["code"], detail["terminal_outcome"]) == ("execution_not_active", "cancelled")
    assert flow.states(db) == {"a": "completed", "b": "cancelled", "c": "waiting"}
    assert flow.joins(db)["c"] == (2, 1, 1, 0, "satisfied")


def test_with_let_run_both_are_counted_and_the_join_fires_once(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "abc", [("a", "c"), ("b", "c")], {"c": any_of("let_run")})
    first, second = flow.claim(db, "a"), flow.claim(db, "b")
    call(leader, "ff_complete_execution", **first)
    waiting = follow(lambda connection: call(connection, "ff_complete_execution", **second))
    leader.commit()
    waiting.result()
    assert flow.joins(db)["c"] == (2, 2, 0, 0, "satisfied")


# Applying an edge while its upstream ends


class Staged:
    """A flow of two members with a staged edge between them."""

    def __init__(self, db: Connection, policy: str | None) -> None:
        self.flow = submit(db, "ab")
        self.edge_id = str(uuid4())
        self.held = self.flow.claim(db, "a")
        if policy is not None:
            call(
                db,
                "ff_set_edge_group_policy",
                flow_id=self.flow.flow_id,
                downstream_execution_id=self.flow.ids["b"],
                policy_kind=policy,
                on_satisfied="let_run",
            )
        call(
            db,
            "ff_stage_dependency_edge",
            flow_id=self.flow.flow_id,
            edge_id=self.edge_id,
            upstream_execution_id=self.flow.ids["a"],
            downstream_execution_id=self.flow.ids["b"],
            expected_graph_revision=2,
        )

    def complete(self, connection: Connection) -> Any:
        return call(connection, "ff_complete_execution", **self.held)

    def apply(self, connection: Connection) -> Any:
        return call(
            connection,
            "ff_apply_dependency_to_child",
            flow_id=self.flow.flow_id,
            edge_id=self.edge_id,
            downstream_execution_id=self.flow.ids["b"],
            upstream_execution_id=self.flow.ids["a"],
        )


@pytest.mark.parametrize("policy", [None, "any_of"])
@pytest.mark.parametrize("apply_leads", [True, False])
def test_an_edge_that_is_applied_while_its_upstream_ends_is_always_resolved(
    policy: str | None, apply_leads: bool, db: Connection, leader: Connection, follow: Follow
) -> None:
    staged = Staged(db, policy)
    first, second = (staged.apply, staged.complete) if apply_leads else (staged.complete, staged.apply)
    first(leader)
    waiting = follow(second)
    leader.commit()
    waiting.result()
    call_all(db, "ff_dispatch_dependencies")
    assert staged.flow.edges(db) == {("a", "b"): "satisfied/success"}
    assert staged.flow.states(db) == {"a": "completed", "b": "waiting"}
    staged.flow.assert_sound(db)


# Cancelling a flow


def cancel_flow(connection: Connection, flow: SubmittedFlow, **arguments: Any) -> Any:
    chosen = {"reason": "stop", "cancellation_policy": "cancel_all", **arguments}
    return call(connection, "ff_cancel_flow", flow_id=flow.flow_id, **chosen)


def test_a_worker_that_finishes_after_the_cancel_of_its_flow_learns_of_it(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "ab", [("a", "b")])
    held = flow.claim(db, "a")
    cancel_flow(leader, flow)
    waiting = follow(lambda connection: call(connection, "ff_complete_execution", **held))
    leader.commit()
    assert refusal(waiting)["terminal_outcome"] == "cancelled"
    assert flow.states(db) == {"a": "cancelled", "b": "cancelled"}


def test_a_worker_that_finishes_before_the_cancel_of_its_flow_has_finished(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "ab", [("a", "b")])
    held = flow.claim(db, "a")
    call(leader, "ff_complete_execution", **held)
    waiting = follow(lambda connection: cancel_flow(connection, flow))
    leader.commit()
    assert waiting.result()["cancelled_count"] == 1
    assert flow.states(db) == {"a": "completed", "b": "cancelled"}


@pytest.mark.parametrize("sync_limit", [500, 0])
def test_a_member_that_is_claimed_during_the_cancel_is_cancelled_with_the_rest(
    sync_limit: int, db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "ab")
    flow.claim(leader, "a")
    waiting = follow(lambda connection: cancel_flow(connection, flow, sync_limit=sync_limit))
    leader.commit()
    waiting.result()
    call(db, "ff_drain_cancel_backlog", flow_id=flow.flow_id)
    assert flow.states(db) == {"a": "cancelled", "b": "cancelled"}


def test_a_member_that_is_claimed_during_a_cancel_of_what_waits_goes_on(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "ab")
    flow.claim(leader, "a")
    waiting = follow(
        lambda connection: cancel_flow(connection, flow, cancellation_policy="cancel_pending", sync_limit=0)
    )
    leader.commit()
    assert waiting.result()["pending_count"] == 1
    call(db, "ff_drain_cancel_backlog", flow_id=flow.flow_id)
    assert flow.states(db) == {"a": "active", "b": "cancelled"}


def test_of_two_cancels_of_one_flow_the_second_learns_what_the_first_decided(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "ab")
    cancel_flow(leader, flow)
    waiting = follow(
        lambda connection: cancel_flow(connection, flow, reason="mine", cancellation_policy="flow_only")
    )
    leader.commit()
    detail = refusal(waiting)
    assert (detail["code"], detail["cancellation_policy"], detail["cancel_reason"]) == (
        "flow_already_terminal",
        "cancel_all",
        "stop",
    )
    assert column(db, "select count(*) from flowfabric.ff_operator_event") == [1]


def test_two_acknowledgements_of_the_last_two_members_leave_no_backlog(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "ab")
    cancel_flow(db, flow, sync_limit=0)

    def acknowledge(connection: Connection, name: str) -> Any:
        return call(connection, "ff_ack_cancel_member", flow_id=flow.flow_id, execution_id=flow.ids[name])

    acknowledge(leader, "a")
    waiting = follow(lambda connection: acknowledge(connection, "b"))
    leader.commit()
    assert waiting.result() == {"outcome": "acked", "remaining": 0}
    assert column(db, "select count(*) from flowfabric.ff_cancel_backlog") == [0]


# The graph


def add(connection: Connection, flow_id: str, execution_id: str) -> Any:
    return call(connection, "ff_add_execution_to_flow", flow_id=flow_id, execution_id=execution_id)


def test_of_two_creations_of_one_flow_one_creates_it(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow_id = str(uuid4())

    def create(connection: Connection) -> Any:
        return call(connection, "ff_create_flow", flow_id=flow_id, flow_kind="dag")

    assert create(leader)["outcome"] == "created"
    waiting = follow(create)
    leader.commit()
    assert waiting.result()["outcome"] == "already_satisfied"


def test_members_that_join_at_once_are_both_counted(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "a")
    prefix = flow.ids["a"][:-36] + "00000000-0000-4000-8000-00000000000"
    for number in "12":
        call(db, "ff_create_execution", execution_kind="test", execution_id=prefix + number)
    assert add(leader, flow.flow_id, prefix + "1")["node_count"] == 2
    waiting = follow(lambda connection: add(connection, flow.flow_id, prefix + "2"))
    leader.commit()
    assert waiting.result() == {
        "execution_id": prefix + "2",
        "node_count": 3,
        "graph_revision": 3,
        "outcome": "added",
    }


@pytest.mark.parametrize("join_leads", [True, False])
def test_an_execution_may_end_while_it_joins_a_flow(
    join_leads: bool, db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "a")
    execution_id = flow.ids["a"][:-36] + "00000000-0000-4000-8000-000000000001"
    call(db, "ff_create_execution", execution_kind="test", execution_id=execution_id)
    held = SubmittedFlow(flow.flow_id, {"x": execution_id}).claim(db, "x")

    def join(connection: Connection) -> Any:
        return add(connection, flow.flow_id, execution_id)

    def complete(connection: Connection) -> Any:
        return call(connection, "ff_complete_execution", **held)

    first, second = (join, complete) if join_leads else (complete, join)
    first(leader)
    waiting = follow(second)
    leader.commit()
    waiting.result()
    assert call(db, "ff_describe_execution", execution_id=execution_id)["public_state"] == "completed"
    assert call(db, "ff_describe_flow", flow_id=flow.flow_id)["node_count"] == 2


def test_two_edges_that_close_a_cycle_together_are_not_both_staged(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "ab")

    def stage(connection: Connection, up: str, down: str, revision: int) -> Any:
        return call(
            connection,
            "ff_stage_dependency_edge",
            flow_id=flow.flow_id,
            edge_id=str(uuid4()),
            upstream_execution_id=flow.ids[up],
            downstream_execution_id=flow.ids[down],
            expected_graph_revision=revision,
        )

    stage(leader, "a", "b", 2)
    waiting = follow(lambda connection: stage(connection, "b", "a", 2))
    leader.commit()
    assert refusal(waiting)["code"] == "stale_graph_revision"
    with pytest.raises(psycopg.Error, match="cycle_detected"):
        stage(db, "b", "a", 3)
    assert call(db, "ff_describe_flow", flow_id=flow.flow_id)["edge_count"] == 1


@pytest.mark.parametrize("replay_leads", [True, False])
def test_a_child_that_is_replayed_while_its_upstream_ends_is_told_once(
    replay_leads: bool, db: Connection, leader: Connection, follow: Follow
) -> None:
    flow = submit(db, "abc", [("a", "c"), ("b", "c")])
    flow.end(db, "a", "failed")
    call(db, "ff_replay_execution", execution_id=flow.ids["a"])
    held = flow.claim(db, "a")
    flow.end(db, "b", "success")

    def replay(connection: Connection) -> Any:
        return call(connection, "ff_replay_execution", execution_id=flow.ids["c"])

    def complete(connection: Connection) -> Any:
        return call(connection, "ff_complete_execution", **held)

    first, second = (replay, complete) if replay_leads else (complete, replay)
    first(leader)
    waiting = follow(second)
    leader.commit()
    waiting.result()
    assert flow.states(db) == {"a": "completed", "b": "completed", "c": "waiting"}
    assert flow.joins(db)["c"] == (2, 2, 0, 0, "satisfied")
    flow.assert_sound(db)


# Submitting


def test_of_two_submissions_of_one_flow_one_creates_it(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    document = json.dumps(
        {
            "flow_id": str(uuid4()),
            "namespace": "test",
            "defaults": {"lane_id": "default", "execution_kind": "test"},
            "members": [{"name": "a"}, {"name": "b"}],
            "edges": [{"upstream": "a", "downstream": "b"}],
        }
    )

    def ask(connection: Connection) -> list[Any]:
        return call_all(connection, "ff_submit_flow", flow=document)

    created = ask(leader)
    waiting = follow(ask)
    leader.commit()
    repeated = waiting.result()
    assert [row["outcome"] for row in created] == ["created"] * 2
    assert [row["outcome"] for row in repeated] == ["already_satisfied"] * 2
    assert [row["execution_id"] for row in created] == [row["execution_id"] for row in repeated]
    assert column(db, "select count(*) from flowfabric.ff_exec_core") == [2]


def test_a_submission_that_is_rolled_back_leaves_nothing_and_lets_the_next_one_create(
    db: Connection, leader: Connection, follow: Follow
) -> None:
    document = json.dumps(
        {
            "flow_id": str(uuid4()),
            "namespace": "test",
            "members": [{"name": "a", "lane_id": "new", "execution_kind": "test"}],
        }
    )

    def ask(connection: Connection) -> Any:
        return call(connection, "ff_submit_flow", flow=document)

    ask(leader)
    waiting = follow(ask)
    leader.rollback()
    assert waiting.result()["outcome"] == "created"


# Waking


def test_whoever_waits_for_deferred_work_is_woken_by_the_commit_that_leaves_some(
    db: Connection, connect: Connect
) -> None:
    listener = connect()
    listener.execute("listen ff_dispatch")
    db.execute(
        "insert into flowfabric.ff_waiter (channel, key, waiter_id, until_ms)"
        " values ('ff_dispatch', '*', 'tick', flowfabric.ff_now_ms() + 600000)"
    )
    flow = submit(db, "abcde", [("a", "b"), ("a", "c")], {"c": any_of("let_run")})
    flow.end(db, "d", "success")
    assert list(listener.notifies(timeout=0.1)) == [], "nothing was left"

    call(db, "ff_set_setting", name="max_sync_edges", value=0)
    flow.end(db, "a", "success")
    assert [woken.payload for woken in listener.notifies(timeout=5, stop_after=1)] == ["*"]
    call_all(db, "ff_dispatch_dependencies")
    call(
        db,
        "ff_cancel_flow",
        flow_id=flow.flow_id,
        reason="stop",
        cancellation_policy="cancel_all",
        sync_limit=0,
    )
    assert len(list(listener.notifies(timeout=5, stop_after=1))) == 1
