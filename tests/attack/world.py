"""A database with something of every kind in it, and sensible arguments for every function.

A call with random arguments rarely gets past the first check. So a fuzzed call begins as one that makes sense
here, and only some of its arguments are then replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tests.attack.catalogue import Function
from tests.attack.values import Values, fits, to_text
from tests.support.cluster import Connection
from tests.support.engine import Row, call

NOW_MS = 1_700_000_000_000
LEASE_TTL_MS = 600_000
KID = "key-1"
SECRET_HEX = "ab" * 32
_HOW_OFTEN_OPTIONAL = 0.3

#: Every field of a policy that the engine reads.
POLICY: dict[str, Any] = {
    "retry_policy": {
        "max_retries": 3,
        "backoff": {
            "type": "exponential",
            "initial_delay_ms": 10,
            "max_delay_ms": 1000,
            "multiplier": 2,
            "jitter": 0.2,
        },
        "retryable_categories": ["timeout"],
    },
    "timeout_policy": {"attempt_timeout_ms": 60_000},
    "max_reclaim_count": 3,
    "max_replay_count": 3,
    "max_signals_per_execution": 3,
    "dedup_window_ms": 1000,
    "stream_policy": {"retention_ttl_ms": 1000},
    "budget_ids": ["budget"],
    "quota_policy_id": "quota",
    "routing_requirements": {"required_capabilities": ["gpu"]},
}

#: Arguments that make sense for any subject, by parameter. What is in neither place is left to its default.
VOCABULARY: dict[str, list[Any]] = {
    "actuals": [[1]],
    "after": [None],
    "amounts": [[1]],
    "as_of_ms": [NOW_MS],
    "blocking_reason": ["waiting_for_budget", "waiting_for_quota", "paused_by_operator"],
    "budget_id": ["budget"],
    "cancellation_policy": ["cancel_all", "cancel_pending", "flow_only"],
    "capabilities": [[], ["gpu"]],
    "consumer": ["consumer"],
    "deltas": [[1]],
    "delay_until_ms": [NOW_MS + 1000],
    "dimensions": [["tokens"]],
    "direction": ["incoming", "outgoing"],
    "duration_ms": [1],
    "execution_kind": ["kind"],
    "execution_kinds": [["kind", "kind"]],
    "expire_reason": ["attempt_timeout", "execution_deadline"],
    "expires_in_ms": [1000],
    "failure_category": ["timeout", "user_error"],
    "failure_reason": ["because"],
    "flow": [
        {
            "namespace": "default",
            "members": [
                {
                    "name": "a",
                    "execution_kind": "kind",
                    "priority": 5,
                    "policy": POLICY,
                    "tags": {"team.name": "x"},
                    "payload": {"a": 1},
                    "delay_until_ms": NOW_MS + 1000,
                    "execution_deadline_at_ms": NOW_MS + 60_000,
                },
                {"name": "b", "execution_kind": "kind", "payload_base64": "AAEC", "payload_encoding": "raw"},
                {"name": "c", "execution_kind": "kind", "creator_identity": "somebody"},
            ],
            "defaults": {"lane_id": "default"},
            "tags": {"team.name": "x"},
            "edges": [
                {"upstream": "a", "downstream": "c", "data_passing_ref": "ref"},
                {"upstream": "b", "downstream": "c"},
            ],
            "joins": {"c": {"kind": "any_of", "on_satisfied": "let_run"}},
        }
    ],
    "flow_kind": ["kind"],
    "frame_type": ["stdout"],
    "hard_limits": [[10]],
    "idempotency_suffix": ["suffix"],
    "interval_ms": [1000],
    "key": ["team.name"],
    "k": [1],
    "kid": ["key-2", KID],
    "lane": ["default"],
    "lane_id": ["default"],
    "lane_state": ["active", "paused", "draining", "disabled"],
    "lanes": [["default"]],
    "lease_ttl_ms": [1000],
    "max_concurrent": [1],
    "max_requests_per_window": [1],
    "mode": ["freeze", "advance", "offset", "reset"],
    "ms": [NOW_MS],
    "n": [256],
    "name": ["lease_events", "claim_floor_lag_ms"],
    "new_kid": ["key-3"],
    "new_priority": [5],
    "new_secret_hex": [SECRET_HEX],
    "payload": [b'{"a": 1}'],
    "policy": [POLICY],
    "policies": [[POLICY, POLICY]],
    "attempt_policy": [POLICY],
    "on_satisfied": ["cancel_remaining", "let_run"],
    "policy_kind": ["all_of", "any_of", "quorum"],
    "progress_pct": [50],
    "quota_policy_id": ["quota"],
    "reason": ["because"],
    "reason_code": ["waiting_for_signal"],
    "required_version": [1],
    "reservation_key": ["reservation", "reservation-2"],
    "resume_condition": [
        {"Single": {"waitpoint_key": "wpk:a", "matcher": "Wildcard"}},
        {"Composite": {"kind": "Count", "n": 1, "count_kind": "DistinctSignals", "waitpoints": ["wpk:a"]}},
    ],
    "retry_policy": [POLICY["retry_policy"]],
    "retry_policies": [[POLICY["retry_policy"], None]],
    "scanner": ["lease_expiry"],
    "scanners": [["lease_expiry"], []],
    "scope_id": ["default"],
    "scope_type": ["lane"],
    "signal_name": ["approved"],
    "soft_limits": [[5]],
    "source": ["operator_override", None, ""],
    "stream": ["completion", "lease", "signal", "operator", "worker"],
    "stream_mode": ["durable", "summary", "best_effort"],
    "streams": [["completion"]],
    "tags": [{"team.name": "x"}],
    "timeout_in_ms": [1000],
    "timeout_behavior": ["fail", "cancel", "expire", "auto_resume_with_timeout_signal", "escalate"],
    "trigger": ["operator"],
    "upstream_outcome": ["success", "failed"],
    "value": [1],
    "waiter_id": ["waiter"],
    "wait_ms": [1000],
    "waitpoint_key": ["wpk:new"],
    "window_seconds": [60],
    "worker_id": ["worker"],
    "worker_instance_id": ["worker-1"],
}


@dataclass(frozen=True)
class World:
    """What there is: one mapping of arguments per execution, by the names of the parameters."""

    subjects: tuple[Mapping[str, Any], ...]

    def arguments(self, function: Function, values: Values) -> dict[str, str | None]:
        """The arguments of a sensible call, as text; what nothing is known about is random or left out."""
        random = values.random
        names = {parameter.name for parameter in function.parameters}
        most = max(len(names & subject.keys()) for subject in self.subjects)
        apt = [subject for subject in self.subjects if len(names & subject.keys()) == most]
        subject = random.choice(apt if random.random() < 0.5 else self.subjects)
        other = random.choice(self.subjects)
        arguments: dict[str, str | None] = {}
        for parameter in function.parameters:
            name, sql_type = parameter.name, parameter.sql_type
            singular = name.removesuffix("s")
            if name in subject and fits(subject[name], sql_type):
                arguments[name] = to_text(subject[name], sql_type)
            elif singular in subject and sql_type.endswith("[]"):
                arguments[name] = to_text([subject[singular], other.get(singular)], sql_type)
            elif not parameter.is_optional or random.random() < _HOW_OFTEN_OPTIONAL:
                sensible = [value for value in VOCABULARY.get(name, []) if fits(value, sql_type)]
                if sensible:
                    arguments[name] = to_text(random.choice(sensible), sql_type)
                elif not parameter.is_optional:
                    arguments[name] = values.draw(sql_type)
        return arguments


class _Builder:
    """Makes executions in one state each."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._number = 0

    def call(self, function: str, **arguments: Any) -> Row:
        return call(self.connection, function, **arguments)

    def create(self, **arguments: Any) -> str:
        self._number += 1
        execution_id = f"{{fp:86}}:00000000-0000-4000-8000-{self._number:012d}"
        self.call("ff_create_execution", execution_kind="kind", execution_id=execution_id, **arguments)
        return execution_id

    def claim(self, execution_id: str, lease_ttl_ms: int = LEASE_TTL_MS) -> Row:
        claimed = self.call(
            "ff_issue_grant_and_claim",
            execution_id=execution_id,
            lease_ttl_ms=lease_ttl_ms,
            worker_id="worker",
            worker_instance_id="worker-1",
        )
        names = ("execution_id", "lease_id", "lease_epoch", "attempt_id", "attempt_index")
        return {name: claimed[name] for name in names}

    def leased(self, lease_ttl_ms: int = LEASE_TTL_MS, **arguments: Any) -> Row:
        return self.claim(self.create(**arguments), lease_ttl_ms)


def _fence(subject: Row) -> Row:
    return {name: subject[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


def _suspended(make: _Builder, waitpoint_key: str) -> Row:
    subject = make.leased()
    waitpoint = make.call(
        "ff_suspend_execution",
        **_fence(subject),
        resume_condition=Jsonb({"Single": {"waitpoint_key": waitpoint_key, "matcher": "Wildcard"}}),
        reason_code="waiting_for_signal",
        timeout_in_ms=60_000,
    )
    return {
        **subject,
        "waitpoint_id": waitpoint["waitpoint_id"],
        "waitpoint_token": waitpoint["waitpoint_token"],
    }


def _with_pending_waitpoint(make: _Builder) -> Row:
    subject = make.leased()
    waitpoint = make.call(
        "ff_create_pending_waitpoint", **_fence(subject), waitpoint_key="wpk:pending", expires_in_ms=60_000
    )
    return {
        **subject,
        "waitpoint_key": "wpk:pending",
        "waitpoint_id": waitpoint["waitpoint_id"],
        "waitpoint_token": waitpoint["waitpoint_token"],
    }


def _spender(make: _Builder) -> Row:
    subject = make.leased()
    money = {"budget_id": "budget", "dimensions": ["tokens"]}
    make.call("ff_reserve_budget", **_fence(subject), **money, amounts=[7], reservation_key="reservation")
    make.call("ff_record_spend", **_fence(subject), **money, deltas=[3])
    return {**subject, "reservation_key": "reservation"}


def _streamer(make: _Builder) -> Row:
    subject = make.leased()
    for mode in ("durable", "summary", "best_effort"):
        make.call("ff_append_frame", **subject, frame_type="json", payload=b'{"a": 1}', stream_mode=mode)
    return subject


def _granted(make: _Builder, execution_id: str) -> Row:
    grant = make.call(
        "ff_issue_claim_grant",
        execution_id=execution_id,
        worker_id="worker",
        worker_instance_id="worker-1",
        lane_id="default",
        grant_ttl_ms=60_000,
    )
    return {"execution_id": execution_id, "grant_key": grant["grant_key"]}


def _lost(make: _Builder) -> Row:
    subject = make.leased()
    make.call("ff_revoke_lease", execution_id=subject["execution_id"], reason="because")
    grant = make.call(
        "ff_issue_reclaim_grant",
        execution_id=subject["execution_id"],
        worker_id="worker",
        worker_instance_id="worker-1",
        grant_ttl_ms=60_000,
    )
    return {**subject, "grant_key": grant["grant_key"]}


def _flow(make: _Builder, flow_id: UUID) -> list[Row]:
    """Four members: one runs, one waits for it, one has a dependency that is not applied, one has none."""
    make.call("ff_create_flow", flow_id=flow_id, flow_kind="kind", namespace="default")
    members: list[str] = []
    for _ in range(4):
        minted = make.connection.execute(
            "select flowfabric.ff_mint_execution_id(p_flow_id => %s)", [flow_id]
        ).fetchone()
        assert minted is not None
        make.call("ff_create_execution", execution_kind="kind", execution_id=minted[0])
        make.call("ff_add_execution_to_flow", flow_id=flow_id, execution_id=minted[0])
        members.append(minted[0])
    edges = []
    for number, downstream in enumerate(members[1:3]):
        edge_id = UUID(int=flow_id.int + number + 1)
        described = make.call("ff_describe_flow", flow_id=flow_id)
        edge = {
            "flow_id": flow_id,
            "edge_id": edge_id,
            "upstream_execution_id": members[0],
            "downstream_execution_id": downstream,
        }
        make.call("ff_stage_dependency_edge", **edge, expected_graph_revision=described["graph_revision"])
        edges.append(edge)
    make.call("ff_apply_dependency_to_child", **edges[0])
    revision = make.call("ff_describe_flow", flow_id=flow_id)["graph_revision"]
    facts = {"expected_graph_revision": revision, "graph_revision": revision}
    return [
        {**edges[0], **facts, **make.claim(members[0])},
        {**edges[0], **facts, "execution_id": members[1]},
        {**edges[1], **facts, "execution_id": members[2]},
        {**facts, "flow_id": flow_id, "execution_id": members[3], "downstream_execution_id": members[3]},
    ]


def build_world(connection: Connection) -> World:
    """Fill an empty installation with test clock; afterwards its clock stands at NOW_MS."""
    connection.execute("select flowfabric.ff_test_set_clock('freeze', %s)", [NOW_MS])
    make = _Builder(connection)
    make.call("ff_seed_waitpoint_hmac_secret", kid=KID, secret_hex=SECRET_HEX)
    make.call("ff_register_lane", lane_id="other")
    make.call(
        "ff_register_worker",
        worker_id="worker",
        worker_instance_id="worker-1",
        lanes=["default"],
        capabilities=["gpu"],
    )
    make.call(
        "ff_create_budget",
        budget_id="budget",
        scope_type="lane",
        scope_id="default",
        dimensions=["tokens"],
        hard_limits=[1000],
        soft_limits=[500],
        reset_interval_ms=3_600_000,
    )
    make.call(
        "ff_create_quota_policy",
        quota_policy_id="quota",
        window_seconds=60,
        max_requests_per_window=10,
        max_concurrent=5,
    )
    expired = make.leased(lease_ttl_ms=1)
    make.connection.execute("select flowfabric.ff_test_set_clock('advance', 1)")
    ended = make.leased()
    make.call("ff_complete_execution", **_fence(ended), result=b"done")
    retried = make.leased(policy=Jsonb({"retry_policy": POLICY["retry_policy"]}))
    make.call("ff_fail_execution", **_fence(retried), failure_reason="because", failure_category="timeout")
    failed = make.leased()
    make.call("ff_fail_execution", **_fence(failed), failure_reason="because")
    resumed = _suspended(make, "wpk:resumed")
    make.call("ff_resume_execution", execution_id=resumed["execution_id"])
    blocked = {"execution_id": make.create()}
    make.call("ff_block_execution_for_admission", **blocked, blocking_reason="paused_by_operator")
    subjects: list[Row] = [
        {"execution_id": make.create()},
        {"execution_id": make.create(delay_until_ms=NOW_MS + 60_000)},
        {"execution_id": make.create(policy=Jsonb({"routing_requirements": POLICY["routing_requirements"]}))},
        make.leased(policy=Jsonb({"retry_policy": POLICY["retry_policy"]}), tags=Jsonb({"team.name": "x"})),
        make.leased(policy=Jsonb({"budget_ids": ["budget"], "quota_policy_id": "quota"})),
        expired,
        ended,
        retried,
        failed,
        resumed,
        blocked,
        _suspended(make, "wpk:a"),
        _with_pending_waitpoint(make),
        _spender(make),
        _streamer(make),
        _granted(make, make.create()),
        _granted(make, resumed["execution_id"]),
        _lost(make),
        *_flow(make, UUID("00000000-0000-4000-8000-0000000f0000")),
    ]
    cancelled = UUID("00000000-0000-4000-8000-0000000f1000")
    _flow(make, cancelled)
    make.call(
        "ff_cancel_flow", flow_id=cancelled, reason="because", cancellation_policy="cancel_all", sync_limit=1
    )
    subjects.append({"flow_id": cancelled})
    position = connection.execute("select flowfabric.ff_event_position('lease', 'start')").fetchone()
    assert position is not None
    return World(tuple({**subject, "cursor": position[0]} for subject in subjects))
