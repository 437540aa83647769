"""An installation in the middle of everything: data of every kind, and what becomes of it later.

`World.build` calls nothing but public functions, with the parameters that the first released schema has. So
it is also a recording of how a client of that release calls the engine: it must run on every later schema.
`World.finish` goes on from there with what the old world had handed out (leases, tokens, grants, cursors)
until every execution has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tests.event.support import START, Reader
from tests.flow.flows import SubmittedFlow, submit
from tests.support.cluster import Connection
from tests.suspension.support import (
    Row,
    Waitpoint,
    call,
    calls,
    deliver,
    execution_id,
    install_key,
    open_pending,
    refusal,
    single,
    suspend,
)

NOW_MS = 1_900_000_000_000
HOUR_MS = 3_600_000
QUOTA = "one-at-a-time"
BUDGET = "tokens-of-acme"
CONSUMER = "billing"

#: Rows that no public function leaves behind at will: an item at which a scanner failed is an accident.
SCANNER_FAILURE = """
    insert into flowfabric.ff_scanner_failure (scanner, item_key, failures, last_error, last_failed_at_ms)
    select s.scanner, 'an item', 1, 'an error', 1 from flowfabric.ff_scanner as s limit 1"""


def fence_of(claim: Row) -> Row:
    """What a worker shows of its lease."""
    return {column: claim[column] for column in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


@dataclass
class World:
    """What clients of the old world hold in their hands, by name."""

    ids: dict[str, str] = field(default_factory=dict)
    fences: dict[str, Row] = field(default_factory=dict)
    waitpoints: dict[str, Waitpoint] = field(default_factory=dict)
    flows: dict[str, SubmittedFlow] = field(default_factory=dict)
    grant_key: str = ""
    cursors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def build(cls, db: Connection) -> World:
        """Fill an installation that has the test clock; the clock stands at `NOW_MS` afterwards."""
        world = cls()
        db.execute("select flowfabric.ff_test_set_clock('freeze', %s)", [NOW_MS])
        calls(db, "ff_initialize", lanes=["default", "batch", "closed"])
        install_key(db, "kid-1")
        install_key(db, "kid-2", grace_ms=HOUR_MS)
        call(db, "ff_set_setting", name="emit_lease_renewed", value=1)
        world._register_workers(db)
        world._define_limits(db)
        world._fill_queues(db)
        world._run(db)
        world._suspend(db)
        world._end(db)
        world._submit_flows(db)
        world._consume(db)
        call(db, "ff_set_lane_state", lane_id="closed", lane_state="paused", reason="repairs")
        call(db, "ff_wait_for_work", lanes=["batch"], waiter_id="idle-1")
        db.execute(SCANNER_FAILURE)
        return world

    def finish(self, db: Connection) -> None:
        """Go on with everything that the old world has left open, and end it."""
        self._finish_leased(db)
        self._finish_suspended(db)
        self._finish_flows(db)
        self._repeat_what_was_said(db)
        call(db, "ff_set_lane_state", lane_id="closed", lane_state="active")
        self._drive_to_the_end(db)
        self._read_on(db)

    # Building

    def _create(self, db: Connection, name: str, **arguments: Any) -> str:
        number = len(self.ids) + 1
        self.ids[name] = execution_id(number)
        call(
            db,
            "ff_create_execution",
            execution_kind="test",
            execution_id=self.ids[name],
            payload=name.encode(),
            tags=Jsonb({"test.name": name, "ff.instance_id": "blue"}),
            **{key: Jsonb(value) if key == "policy" else value for key, value in arguments.items()},
        )
        return self.ids[name]

    def _lease(self, db: Connection, name: str, *, ttl_ms: int = HOUR_MS, **arguments: Any) -> Row:
        """Create an execution and claim it."""
        if name not in self.ids:
            self._create(db, name, **arguments)
        claim = call(
            db,
            "ff_issue_grant_and_claim",
            execution_id=self.ids[name],
            lease_ttl_ms=ttl_ms,
            worker_id="worker",
            worker_instance_id="worker-1",
        )
        self.fences[name] = fence_of(claim)
        return self.fences[name]

    def _register_workers(self, db: Connection) -> None:
        for instance in ("worker-1", "worker-2"):
            call(
                db,
                "ff_register_worker",
                worker_id="worker",
                worker_instance_id=instance,
                lanes=["default", "batch"],
                capabilities=["gpu"],
                liveness_ttl_ms=HOUR_MS,
            )
        call(db, "ff_drain_worker", worker_instance_id="worker-2", reason="rolling restart")

    def _define_limits(self, db: Connection) -> None:
        call(
            db,
            "ff_create_quota_policy",
            quota_policy_id=QUOTA,
            window_seconds=60,
            max_requests_per_window=100,
            max_concurrent=1,
        )
        call(
            db,
            "ff_create_budget",
            budget_id=BUDGET,
            scope_type="tenant",
            scope_id="acme",
            dimensions=["tokens"],
            hard_limits=[1000],
            soft_limits=[500],
            on_hard_limit="block",
        )

    def _fill_queues(self, db: Connection) -> None:
        gpu = {"routing_requirements": {"required_capabilities": ["gpu"]}}
        self._create(db, "waiting", priority=3, idempotency_key="order-1", dedup_ttl_ms=HOUR_MS)
        self._create(db, "waiting for a gpu", lane_id="batch", policy=gpu)
        self._create(db, "in a closed lane", lane_id="closed")
        self._create(db, "delayed", delay_until_ms=NOW_MS + HOUR_MS)
        self._create(db, "to be late", execution_deadline_at_ms=NOW_MS + 2 * HOUR_MS)
        call(db, "ff_change_priority", execution_id=self.ids["waiting"], new_priority=5)
        for name in ("quota holder", "over quota"):
            self._create(db, name, lane_id="limited", policy={"quota_policy_id": QUOTA})
        # The first is admitted; the second is blocked; the third call finds nothing and leaves a floor.
        for _ in range(3):
            for claim in self._take(db, "ff_claim_next", ["limited"]):
                self.fences["quota holder"] = fence_of(claim)
        self._create(db, "granted", lane_id="granted")
        (grant,) = calls(
            db, "ff_grant_next", lanes=["granted"], worker_id="worker", worker_instance_id="worker-1"
        )
        self.grant_key = grant["grant_key"]
        self._create(db, "blocked by an operator")
        call(
            db,
            "ff_block_execution_for_admission",
            execution_id=self.ids["blocked by an operator"],
            blocking_reason="waiting_for_budget",
            blocking_detail="spent",
        )

    def _take(self, db: Connection, function: str, lanes: list[str]) -> list[Row]:
        return calls(
            db,
            function,
            lanes=lanes,
            worker_id="worker",
            worker_instance_id="worker-1",
            capabilities=["gpu"],
            max=10,
            lease_ttl_ms=HOUR_MS,
        )

    def _run(self, db: Connection) -> None:
        fence = self._lease(db, "active", policy={"timeout_policy": {"attempt_timeout_ms": 5 * HOUR_MS}})
        call(db, "ff_update_progress", **fence, progress_pct=40, progress_message="halfway")
        call(db, "ff_renew_lease", **fence, lease_ttl_ms=HOUR_MS)
        for mode, payload in (("durable", b"a line"), ("summary", b'{"lines": 1}')):
            call(
                db,
                "ff_append_frame",
                **fence,
                attempt_index=0,
                frame_type="stdout",
                stream_mode=mode,
                payload=payload,
            )
        spending = self._lease(db, "spending", policy={"budget_ids": [BUDGET]})
        self._report_usage(db)
        spend = {"budget_id": BUDGET, "dimensions": ["tokens"], "deltas": [3]}
        call(db, "ff_record_spend", **spend, idempotency_key="call-2", **spending)
        call(
            db,
            "ff_reserve_budget",
            budget_id=BUDGET,
            dimensions=["tokens"],
            amounts=[100],
            reservation_key="next call",
            **spending,
        )
        self._lease(db, "expired lease", ttl_ms=1)
        db.execute("select flowfabric.ff_test_set_clock('advance', 1)")
        call(db, "ff_mark_lease_expired_if_due", execution_id=self.ids["expired lease"])
        self._lease(db, "revoked lease")
        call(db, "ff_revoke_lease", execution_id=self.ids["revoked lease"], reason="stuck")
        self._lease(
            db,
            "retrying",
            policy={"retry_policy": {"max_retries": 2, "backoff": {"type": "fixed", "delay_ms": 1000}}},
        )
        call(db, "ff_fail_execution", **self.fences["retrying"], failure_reason="no answer")

    def _report_usage(self, db: Connection) -> Row:
        return call(
            db,
            "ff_report_usage_and_check",
            budget_id=BUDGET,
            dimensions=["tokens"],
            deltas=[7],
            dedup_key="call-1",
            **self.fences["spending"],
        )

    def _suspend(self, db: Connection) -> None:
        (self.waitpoints["suspended"],) = suspend(
            db, self._lease(db, "suspended"), single(), timeout_in_ms=HOUR_MS, idempotency_key="suspend-1"
        )
        keys = ["wpk:one", "wpk:two"]
        both = {
            "Composite": {"kind": "Count", "n": 2, "count_kind": "DistinctWaitpoints", "waitpoints": keys}
        }
        one, two = suspend(db, self._lease(db, "half satisfied"), both, waitpoint_keys=keys)
        deliver(db, one, idempotency_key="signal-1", payload=b"{}")
        self.waitpoints["half satisfied"] = two
        (resumed,) = suspend(db, self._lease(db, "resumed"), single())
        deliver(db, resumed)
        self.waitpoints["pending"] = open_pending(db, self._lease(db, "about to suspend"), "wpk:approval")

    def _end(self, db: Connection) -> None:
        result = {"result": b"done", "result_encoding": "text"}
        call(db, "ff_complete_execution", **self._lease(db, "completed"), **result)
        call(db, "ff_fail_execution", **self._lease(db, "failed"), failure_reason="broken")
        for name in ("cancelled", "replayed"):
            call(
                db,
                "ff_cancel_execution",
                execution_id=self._create(db, name),
                reason="not needed",
                source="operator_override",
            )
        call(db, "ff_expire_execution", execution_id=self._create(db, "expired"))
        call(db, "ff_replay_execution", execution_id=self.ids["replayed"], reason="needed after all")

    def _submit_flows(self, db: Connection) -> None:
        diamond = [("root", "left"), ("root", "right"), ("left", "join"), ("right", "join")]
        going = submit(db, ["root", "left", "right", "join"], diamond)
        going.end(db, "root", "success")
        self.fences["left"] = going.claim(db, "left")
        call(db, "ff_set_flow_tags", flow_id=going.flow_id, tags=Jsonb({"test.name": "going"}))
        tags = Jsonb({"test.late": "yes"})
        call(db, "ff_set_execution_tags", execution_id=going.ids["join"], tags=tags)
        call(db, "ff_project_flow_summary", flow_id=going.flow_id)
        skipped = submit(db, ["root", "leaf"], [("root", "leaf")])
        skipped.end(db, "root", "failed")
        self.flows = {"going": going, "skipped": skipped}
        self.flows["waiting for children"] = self._wait_for_children(db)

        # What a big flow leaves to the scanners, forced on small ones.
        for setting in ("max_sync_edges", "max_sync_cancels"):
            call(db, "ff_set_setting", name=setting, value=1)
        wide = submit(db, ["root", *"abc"], [("root", leaf) for leaf in "abc"])
        wide.end(db, "root", "success")
        raced = submit(
            db,
            ["a", "b", "c", "first"],
            [(name, "first") for name in "abc"],
            joins={"first": {"kind": "any_of", "on_satisfied": "cancel_remaining"}},
        )
        raced.end(db, "a", "success")
        given_up = submit(db, "abc")
        call(
            db,
            "ff_cancel_flow",
            flow_id=given_up.flow_id,
            reason="changed plans",
            cancellation_policy="cancel_all",
            sync_limit=1,
        )
        self.flows |= {"wide": wide, "raced": raced, "given up": given_up}

    def _wait_for_children(self, db: Connection) -> SubmittedFlow:
        """A member that adds a dependency of its own while it runs, and waits for it."""
        flow = submit(db, ["child", "parent"])
        parent = flow.claim(db, "parent")
        ends = {
            "flow_id": flow.flow_id,
            "edge_id": UUID(int=1),
            "upstream_execution_id": flow.ids["child"],
            "downstream_execution_id": flow.ids["parent"],
        }
        (snapshot,) = calls(db, "ff_describe_flow", flow_id=flow.flow_id)
        call(db, "ff_stage_dependency_edge", **ends, expected_graph_revision=snapshot["graph_revision"])
        call(db, "ff_apply_dependency_to_child", **ends)
        call(db, "ff_move_to_waiting_children", **parent)
        return flow

    def _consume(self, db: Connection) -> None:
        for stream in ("completion", "lease"):
            events = calls(db, "ff_read_events", stream=stream, cursor=START, limit=3)
            self.cursors[stream] = events[-1]["cursor"]
            call(db, "ff_commit_event_cursor", consumer=CONSUMER, stream=stream, cursor=self.cursors[stream])

    # Going on

    def _finish_leased(self, db: Connection) -> None:
        active = self.fences["active"]
        assert call(db, "ff_renew_lease", **active, lease_ttl_ms=HOUR_MS)["outcome"] == "renewed"
        frame = call(
            db, "ff_append_frame", **active, attempt_index=0, frame_type="stdout", payload=b"another line"
        )
        assert frame["frame_count"] == 3
        call(
            db,
            "ff_buffer_signal_for_pending_waitpoint",
            **self.waitpoints["pending"].address,
            signal_name="approved",
        )
        assert self._report_usage(db)["outcome"] == "already_applied"
        call(
            db,
            "ff_settle_reservation",
            budget_id=BUDGET,
            reservation_key="next call",
            dimensions=["tokens"],
            actuals=[90],
            **self.fences["spending"],
        )
        (budget,) = calls(db, "ff_get_budget_usage", budget_id=BUDGET)
        assert (budget["current_value"], budget["reserved_value"]) == (7 + 3 + 90, 0)
        for name in ("active", "about to suspend", "left", "spending", "quota holder"):
            call(db, "ff_complete_execution", **self.fences[name])
        call(
            db,
            "ff_claim_execution",
            execution_id=self.ids["granted"],
            worker_id="worker",
            worker_instance_id="worker-1",
            grant_key=self.grant_key,
        )
        for name in ("expired lease", "revoked lease", "retrying", "failed"):
            assert refusal(db, "ff_complete_execution", **self.fences[name]) in {
                "lease_expired",
                "lease_revoked",
                "execution_not_active",
            }

    def _finish_suspended(self, db: Connection) -> None:
        for name in ("suspended", "half satisfied"):
            assert deliver(db, self.waitpoints[name])["effect"] == "resume_condition_satisfied"
            assert self._state(db, name) == "waiting"

    def _finish_flows(self, db: Connection) -> None:
        self.flows["going"].end(db, "right", "success")
        assert self.flows["going"].states(db)["join"] == "waiting"

    def _repeat_what_was_said(self, db: Connection) -> None:
        again = call(
            db, "ff_create_execution", execution_kind="test", idempotency_key="order-1", dedup_ttl_ms=HOUR_MS
        )
        assert (again["outcome"], again["execution_id"]) == ("duplicate", self.ids["waiting"])

    def _drive_to_the_end(self, db: Connection) -> None:
        """Work as one worker that has all the time in the world."""
        lanes = ["default", "batch", "closed", "limited", "granted"]
        for _ in range(20):
            for function in ("ff_claim_next", "ff_reclaim_next"):
                for claim in self._take(db, function, lanes):
                    call(db, "ff_complete_execution", **fence_of(claim))
            calls(db, "ff_tick", force=True)
            db.execute("select flowfabric.ff_test_set_clock('advance', %s)", [HOUR_MS // 10])
            if not self._unfinished(db):
                break
        assert self._unfinished(db) == []
        assert calls(db, "ff_check_invariants") == []

    def _unfinished(self, db: Connection) -> list[Row]:
        return [
            row
            for phase in ("runnable", "active", "suspended")
            for row in calls(db, "ff_list_executions", lifecycle_phase=phase)
        ]

    def _read_on(self, db: Connection) -> None:
        """A consumer that goes on where it was gets the rest, and with what it had it has everything."""
        for stream, cursor in self.cursors.items():
            everything = Reader(db, stream)
            everything.read()
            rest = Reader(db, stream, cursor)
            rest.read()
            assert rest.ids() == everything.ids()[3:]

    def _state(self, db: Connection, name: str) -> str:
        row = call(db, "ff_read_execution_info", execution_id=self.ids[name])
        return str(row["public_state"])
