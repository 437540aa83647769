"""The lock of a flow: who waits for it before it holds a member, who does not, and what scanners do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.conftest import Clock, Connect
from tests.flow.flows import Fence, Row, SubmittedFlow, call, call_all, cancel, column, submit
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked

Ask = Callable[[Connection], Any]


@dataclass(frozen=True)
class Scene:
    """A -> B -> C; D runs, E has lost its lease, F was cancelled, G waits alone."""

    flow: SubmittedFlow
    held: Fence
    """The fence of D."""
    edge_id: str
    """The edge from A to B."""
    revision: int
    stranger: str
    """An execution on the partition of the flow that is no member of it."""

    def ask(self, function: str, **arguments: Any) -> Ask:
        return partial(call_all, function=function, **arguments)

    def ask_flow(self, function: str, **arguments: Any) -> Ask:
        return self.ask(function, flow_id=self.flow.flow_id, **arguments)

    @property
    def held_batch(self) -> Row:
        return {f"{field}s": [value] for field, value in self.held.items()}


@pytest.fixture
def scene(db: Connection, clock: Clock) -> Scene:
    clock.freeze(1_000)
    flow = submit(db, "abcdefg", [("a", "b"), ("b", "c")])
    held = flow.claim(db, "d")
    call(db, "ff_issue_grant_and_claim", execution_id=flow.ids["e"], lease_ttl_ms=1)
    cancel(db, flow.ids["f"])
    stranger = call(
        db,
        "ff_create_execution",
        execution_kind="test",
        execution_id=flow.ids["a"][:-36] + "00000000-0000-4000-8000-000000000001",
    )
    clock.freeze(2_000)
    (edge_id,) = column(
        db, "select edge_id::text from flowfabric.ff_edge where upstream_eid = %s", [flow.uuid("a")]
    )
    revision = call(db, "ff_describe_flow", flow_id=flow.flow_id)["graph_revision"]
    return Scene(flow, held, edge_id, revision, stranger["execution_id"])


WAITING: dict[str, Callable[[Scene], Ask]] = {
    "complete": lambda s: s.ask("ff_complete_execution", **s.held),
    "fail": lambda s: s.ask("ff_fail_execution", **s.held),
    "cancel": lambda s: s.ask("ff_cancel_execution", reason="stop", **s.held),
    "cancel as operator": lambda s: partial(cancel, execution_id=s.flow.ids["a"]),
    "expire": lambda s: s.ask("ff_expire_execution", execution_id=s.flow.ids["a"]),
    "wait for children": lambda s: s.ask("ff_move_to_waiting_children", **s.held),
    "replay": lambda s: s.ask("ff_replay_execution", execution_id=s.flow.ids["f"]),
    "add": lambda s: s.ask_flow("ff_add_execution_to_flow", execution_id=s.stranger),
    "stage": lambda s: s.ask_flow(
        "ff_stage_dependency_edge",
        edge_id="00000000-0000-4000-8000-000000000002",
        upstream_execution_id=s.flow.ids["a"],
        downstream_execution_id=s.flow.ids["c"],
        expected_graph_revision=s.revision,
    ),
    "apply": lambda s: s.ask_flow(
        "ff_apply_dependency_to_child",
        edge_id=s.edge_id,
        downstream_execution_id=s.flow.ids["b"],
        upstream_execution_id=s.flow.ids["a"],
    ),
    "set a policy": lambda s: s.ask_flow(
        "ff_set_edge_group_policy", downstream_execution_id=s.flow.ids["g"], policy_kind="all_of"
    ),
    "resolve": lambda s: s.ask_flow("ff_resolve_dependency", edge_id=s.edge_id, upstream_outcome="success"),
    "cancel the flow": lambda s: s.ask_flow(
        "ff_cancel_flow", reason="stop", cancellation_policy="cancel_all"
    ),
    "acknowledge": lambda s: s.ask_flow("ff_ack_cancel_member", execution_id=s.flow.ids["a"]),
    "drain siblings": lambda s: s.ask_flow(
        "ff_drain_sibling_cancel_group", downstream_execution_id=s.flow.ids["b"]
    ),
    "reconcile siblings": lambda s: s.ask_flow(
        "ff_reconcile_sibling_cancel_group", downstream_execution_id=s.flow.ids["b"]
    ),
    "drain the backlog": lambda s: s.ask_flow("ff_drain_cancel_backlog"),
}


@pytest.mark.parametrize("what", WAITING)
def test_a_call_that_ends_members_or_changes_the_graph_waits_for_the_flow_first(
    what: str, scene: Scene, db: Connection, connect: Connect
) -> None:
    holder, caller = connect(autocommit=False), connect()
    holder.execute("select from flowfabric.ff_flow_core for no key update")
    ask = WAITING[what](scene)
    waiting = in_background(lambda: ask(caller))
    wait_until_blocked(db, caller, by=holder)
    # Whoever holds the flow may change any member: the caller has not locked one yet.
    holder.execute("select from flowfabric.ff_exec_core for no key update nowait")
    holder.rollback()
    waiting.result()
    scene.flow.assert_sound(db)


FREE: dict[str, Callable[[Scene], Ask]] = {
    "claim": lambda s: s.ask("ff_issue_grant_and_claim", execution_id=s.flow.ids["a"], lease_ttl_ms=1_000),
    "renew": lambda s: s.ask("ff_renew_lease", **s.held),
    "complete a batch": lambda s: s.ask("ff_complete_executions", **s.held_batch),
    "fail a batch": lambda s: s.ask("ff_fail_executions", **s.held_batch),
    "revoke": lambda s: s.ask("ff_revoke_lease", execution_id=s.flow.ids["d"], reason="stop"),
    "mark a lease expired": lambda s: s.ask("ff_mark_lease_expired_if_due", execution_id=s.flow.ids["e"]),
    "report progress": lambda s: s.ask("ff_update_progress", progress_pct=50, **s.held),
    "tag a member": lambda s: s.ask(
        "ff_set_execution_tags", execution_id=s.flow.ids["a"], tags='{"app.x": "y"}'
    ),
    "tag": lambda s: s.ask_flow("ff_set_flow_tags", tags='{"app.x": "y"}'),
    "describe": lambda s: s.ask_flow("ff_describe_flow"),
    "list joins": lambda s: s.ask_flow("ff_list_flow_edge_groups"),
    "summarise": lambda s: s.ask("ff_project_flow_summaries"),
}


@pytest.mark.parametrize("what", FREE)
def test_other_calls_do_not_mind_that_the_flow_is_locked(what: str, scene: Scene, connect: Connect) -> None:
    holder, caller = connect(autocommit=False), connect(options="-c lock_timeout=100")
    holder.execute("select from flowfabric.ff_flow_core for no key update")
    assert FREE[what](scene)(caller)


def test_scanners_pass_over_a_flow_that_is_locked(scene: Scene, db: Connection, connect: Connect) -> None:
    """Every queue has something of the flow in it, and none of it is touched."""
    call(db, "ff_set_setting", name="max_sync_edges", value=0)
    cancel(db, scene.flow.ids["a"])
    call(
        db,
        "ff_cancel_flow",
        flow_id=scene.flow.flow_id,
        reason="stop",
        cancellation_policy="cancel_all",
        grace_ms=0,
        sync_limit=0,
    )
    db.execute(
        "insert into flowfabric.ff_pending_cancel_groups"
        " select partition_key, flow_id, downstream_eid, 0 from flowfabric.ff_edge_group limit 1"
    )
    holder, scanner = connect(autocommit=False), connect()
    holder.execute("select from flowfabric.ff_flow_core for no key update")
    assert call_all(scanner, "ff_dispatch_dependencies") == []
    assert call_all(scanner, "ff_dispatch_sibling_cancels") == []
    assert call_all(scanner, "ff_drain_cancel_backlog") == []
    assert call(scanner, "ff_reconcile_sibling_cancels") == {
        "sremmed_stale": 0,
        "completed_drain": 0,
        "no_op": 0,
    }
    holder.rollback()
    assert len(call_all(scanner, "ff_dispatch_dependencies")) == 1
    assert call(scanner, "ff_reconcile_sibling_cancels")["sremmed_stale"] == 1
    assert len(call_all(scanner, "ff_drain_cancel_backlog")) == 1
    scene.flow.assert_sound(db)


def test_a_scanner_gives_up_on_a_flow_whose_member_somebody_holds_and_takes_the_next_one(
    db: Connection, connect: Connect
) -> None:
    call(db, "ff_set_setting", name="max_sync_edges", value=0)
    first = submit(db, "ab", [("a", "b")])
    second = submit(db, "ab", [("a", "b")])
    first.end(db, "a", "success")
    second.end(db, "a", "success")
    holder, scanner = connect(autocommit=False), connect()
    holder.execute(
        "select from flowfabric.ff_exec_core where execution_id = %s for no key update", [first.uuid("b")]
    )
    assert [row["flow_id"] for row in call_all(scanner, "ff_dispatch_dependencies")] == [UUID(second.flow_id)]
    assert first.states(db)["b"] == "waiting_children"
    assert column(db, "select count(*) from flowfabric.ff_scanner_failure") == [0]
    holder.rollback()
    assert len(call_all(scanner, "ff_dispatch_dependencies")) == 1
    assert first.states(db)["b"] == "waiting"


def test_two_dispatchers_never_work_on_one_flow_at_the_same_time(db: Connection, connect: Connect) -> None:
    call(db, "ff_set_setting", name="max_sync_edges", value=0)
    flow = submit(db, "abc", [("a", "b"), ("a", "c")])
    flow.end(db, "a", "success")
    first, second = connect(autocommit=False), connect()
    assert call(first, "ff_dispatch_dependencies", limit=1)["edges_resolved"] == 1
    assert call_all(second, "ff_dispatch_dependencies") == []
    first.commit()
    assert call(second, "ff_dispatch_dependencies", limit=1)["edges_resolved"] == 1
    assert call_all(second, "ff_dispatch_dependencies") == []


def test_an_execution_that_joins_a_locked_flow_under_the_hands_of_its_worker_is_not_waited_for(
    db: Connection, connect: Connect
) -> None:
    """Waiting for the flow while holding the member is how deadlocks are made."""
    flow = submit(db, "a")
    stranger = flow.ids["a"][:-36] + "00000000-0000-4000-8000-000000000001"
    call(db, "ff_create_execution", execution_kind="test", execution_id=stranger)
    outsider = SubmittedFlow(flow.flow_id, {"x": stranger})
    held = outsider.claim(db, "x")
    joiner, holder, worker = connect(autocommit=False), connect(autocommit=False), connect()
    holder.execute("select from flowfabric.ff_flow_core for no key update")
    # The end of ff_add_execution_to_flow, without the lock of the flow, which somebody else has got by now.
    joiner.execute(
        "update flowfabric.ff_exec_core set flow_id = %s where execution_id = %s",
        [flow.flow_id, outsider.uuid("x")],
    )
    waiting = in_background(lambda: call(worker, "ff_complete_execution", **held))
    wait_until_blocked(db, worker, by=joiner)
    joiner.commit()
    with pytest.raises(psycopg.Error, match="flow_membership_changed"):
        waiting.result()
    holder.rollback()
    call(db, "ff_complete_execution", **held)
