"""A small model of specification 10: executions, attempts, leases, grants and counters as plain values.

It is written from the text of the specification (10, with 40 sections 1.9 to 4.5, 30 section 4.14 and 50
sections 3.7 and 3.9), not from the SQL, and it knows nothing of locks, indexes or set-based statements. Each
operation is a method of `World` with the parameters of its function; it returns the rows that the function
must return, or raises the refusal. What the specification leaves free, the model calls `ANYTHING`.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import Any
from uuid import UUID

Row = dict[str, Any]

#: 01-errors section 3: the codes of this area.
SQLSTATES = {
    "execution_not_found": "ZN001",
    "invalid_input": "ZV001",
    "invalid_policy_json": "ZV004",
    "invalid_tag_key": "ZV005",
    "invalid_blocking_reason": "ZV015",
    "unauthorized": "ZV017",
    "fence_required": "ZV026",
    "partial_fence_triple": "ZV027",
    "use_claim_resumed_execution": "ZC001",
    "not_a_resumed_execution": "ZC002",
    "execution_not_leaseable": "ZC003",
    "invalid_claim_grant": "ZC005",
    "claim_grant_expired": "ZC006",
    "execution_not_active": "ZC011",
    "execution_not_eligible": "ZC012",
    "execution_not_in_eligible_set": "ZC013",
    "execution_not_reclaimable": "ZC014",
    "stale_lease": "ZS001",
    "lease_expired": "ZS002",
    "lease_revoked": "ZS003",
    "execution_not_terminal": "ZS013",
    "max_replays_exhausted": "ZS014",
    "grant_already_exists": "ZS017",
    "replay_needs_force": "ZS037",
}

NUM_FLOW_PARTITIONS = 256
DEFAULT_DEDUP_MS = 86_400_000
DEFAULT_RECLAIM_CAP = 5
DEFAULT_REPLAY_LIMIT = 10

ADMISSION_BLOCKS = {
    "waiting_for_budget": "blocked_by_budget",
    "waiting_for_quota": "blocked_by_quota",
    "waiting_for_capable_worker": "blocked_by_route",
    "paused_by_operator": "blocked_by_operator",
    "paused_by_policy": "blocked_by_lane_state",
}
TAG_KEY = re.compile(r"[a-z][a-z0-9_]*\.[a-z0-9_][a-z0-9_.]*")
WIRE_ID = re.compile(r"\{fp:(0|[1-9][0-9]*)\}:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Anything:
    """Equal to whatever it is compared with: a value that the specification leaves free."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING: Any = Anything()


class RefusedError(Exception):
    """The call is refused and nothing is written; `detail` is what the specification promises to say."""

    def __init__(self, code: str, **detail: Any) -> None:
        super().__init__(code)
        self.code = code
        self.sqlstate = SQLSTATES[code]
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.sqlstate} {self.code} {self.detail}"


@dataclass(frozen=True, slots=True)
class Fence:
    """What a worker shows of its lease."""

    lease_id: str | None
    lease_epoch: int | None
    attempt_id: str | None

    @property
    def missing(self) -> list[str]:
        """The names of the fields that are not given."""
        return [f.name for f in fields(self) if getattr(self, f.name) is None]


@dataclass
class Attempt:
    """A row of `ff_attempt`, by the names of its columns."""

    attempt_index: int
    attempt_type: str
    attempt_id: str
    lease_id: str
    lease_epoch: int
    worker_id: str
    worker_instance_id: str
    created_at_ms: int
    started_at_ms: int
    attempt_state: str = "started"
    suspended_at_ms: int | None = None
    resumed_at_ms: int | None = None
    ended_at_ms: int | None = None
    suspension_id: str | None = None
    timeout_remaining_ms: int | None = None
    failure_reason: str | None = None
    failure_category: str | None = None
    retry_reason: str | None = None
    reclaim_reason: str | None = None
    replay_reason: str | None = None
    replay_requested_by: str | None = None
    previous_attempt_index: int | None = None
    replayed_from_attempt_index: int | None = None
    policy: Row | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether it runs or is paused."""
        return self.attempt_state in {"started", "suspended"}


@dataclass(frozen=True, slots=True)
class Grant:
    """A row of `ff_claim_grant`."""

    kind: str
    worker_id: str
    worker_instance_id: str
    lane_id: str | None
    grant_ttl_ms: int
    issued_at_ms: int
    expires_at_ms: int
    grant_id: str
    worker_capabilities: list[str]

    def is_live(self, now_ms: int) -> bool:
        """Still good in the millisecond in which it expires."""
        return self.expires_at_ms >= now_ms


@dataclass
class Execution:
    """An execution with everything that belongs to it; state and times by the names of their columns."""

    execution_id: str
    namespace: str
    lane_id: str
    execution_kind: str
    priority: int
    policy: Row
    tags: dict[str, str]
    created_at_ms: int
    last_transition_at_ms: int
    last_mutation_at_ms: int

    lifecycle_phase: str = "runnable"
    ownership_state: str = "unowned"
    eligibility_state: str = "eligible_now"
    blocking_reason: str = "waiting_for_worker"
    blocking_detail: str | None = None
    terminal_outcome: str = "none"
    attempt_state: str = "pending_first_attempt"

    total_attempt_count: int = 0
    retry_count: int = 0
    replay_count: int = 0
    lease_reclaim_count: int = 0

    current_lease_epoch: int = 0
    current_attempt_id: str | None = None
    current_lease_id: str | None = None
    current_worker_id: str | None = None
    current_worker_instance_id: str | None = None
    lease_acquired_at_ms: int | None = None
    lease_last_renewed_at_ms: int | None = None
    lease_expires_at_ms: int | None = None
    lease_expired_at_ms: int | None = None
    lease_revoked_at_ms: int | None = None

    started_at_ms: int | None = None
    terminal_at_ms: int | None = None
    purge_after_ms: int | None = None
    ended_lease_id: str | None = None
    ended_worker_id: str | None = None
    ended_worker_instance_id: str | None = None
    delay_until_ms: int | None = None
    deadline_at_ms: int | None = None
    attempt_timeout_at_ms: int | None = None
    blocked_at_ms: int | None = None

    lease_revoke_reason: str | None = None
    failure_reason: str | None = None
    cancellation_reason: str | None = None
    cancelled_by: str | None = None
    pending_retry_reason: str | None = None
    pending_replay_reason: str | None = None
    pending_replay_requested_by: str | None = None
    pending_previous_attempt_index: int | None = None
    progress_pct: int | None = None
    progress_message: str | None = None
    progress_updated_at_ms: int | None = None
    last_capability_mismatch_at_ms: int | None = None

    payload: bytes | None = None
    result: bytes | None = None
    result_encoding: str | None = None
    grant: Grant | None = None
    attempts: list[Attempt] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    lease_events: list[Row] = field(default_factory=list)
    completion_events: list[Row] = field(default_factory=list)
    operator_events: list[Row] = field(default_factory=list)

    @property
    def public_state(self) -> str:
        """The one label for users (section 2.2)."""
        if self.lifecycle_phase == "terminal":
            return "completed" if self.terminal_outcome == "success" else self.terminal_outcome
        if self.lifecycle_phase != "runnable":
            return self.lifecycle_phase
        return {
            "not_eligible_until_time": "delayed",
            "blocked_by_dependencies": "waiting_children",
            "blocked_by_budget": "rate_limited",
            "blocked_by_quota": "rate_limited",
        }.get(self.eligibility_state, "waiting")

    @property
    def current_attempt_index(self) -> int | None:
        """NULL before the first claim."""
        return self.total_attempt_count - 1 if self.total_attempt_count else None

    @property
    def current_attempt(self) -> Attempt:
        """The attempt at that index."""
        return self.attempts[-1]

    @property
    def required_capabilities(self) -> list[str]:
        """What a worker must offer, sorted and without duplicates."""
        return sorted(set(_read(self.policy, "routing_requirements", "required_capabilities") or []))

    @property
    def attempt_timeout_ms(self) -> int | None:
        """The policy's; 0 means none."""
        timeout_ms: int | None = _read(self.policy, "timeout_policy", "attempt_timeout_ms")
        return timeout_ms or None

    @property
    def instance_tag(self) -> str | None:
        """The tag that events carry."""
        return self.tags.get("ff.instance_id")

    def is_reclaimable(self, now_ms: int) -> bool:
        """Whether its lease is lost, marked or not."""
        return self.lifecycle_phase == "active" and (
            self.ownership_state != "leased" or _known(self.lease_expires_at_ms) <= now_ms
        )

    @property
    def losses_in_a_row(self) -> int:
        """Leases lost since the last progress, the present one included; a revocation is none."""
        return self.lease_reclaim_count + (self.ownership_state != "lease_revoked")

    def reclaim_cap(self, argument: int | None) -> int:
        """How many takeovers in a row it may have."""
        cap: int = self.policy.get("max_reclaim_count", DEFAULT_RECLAIM_CAP if argument is None else argument)
        return cap

    def takeover_at_ms(self, max_reclaim_count: int | None = None) -> int:
        """From when on a lost lease may be taken over."""
        if self.ownership_state == "lease_revoked":
            return _known(self.lease_revoked_at_ms)
        expired_at_ms = _known(self.lease_expires_at_ms)
        if self.lease_reclaim_count in range(1, self.reclaim_cap(max_reclaim_count)):
            return expired_at_ms + takeover_backoff_ms(
                self.execution_id, self.current_lease_epoch, self.losses_in_a_row
            )
        return expired_at_ms


def _read(document: Any, *path: str) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _known(value: int | None) -> int:
    assert value is not None
    return value


def solo_partition(lane_id: str) -> int:
    """The partition of an execution without a flow (section 1.2)."""
    return binascii.crc_hqx(lane_id.encode(), 0) % NUM_FLOW_PARTITIONS


def takeover_backoff_ms(execution_id: str, lease_epoch: int, losses: int) -> int:
    """How long a lease that is not the first to be lost waits for its takeover."""
    key = UUID(execution_id.rpartition(":")[2]).bytes + lease_epoch.to_bytes(8, "big")
    jitter = int.from_bytes(hashlib.sha256(key).digest()[:2], "big")
    least_ms = min(1000 << min(losses - 2, 8), 150_000)
    return least_ms + least_ms * jitter // 65536


def backoff_ms(retry_policy: Row, retry_count: int) -> int:
    """How long a retry waits (section 3.8), by exact arithmetic."""
    backoff = retry_policy.get("backoff") or {}
    if backoff.get("type") == "fixed":
        return int(Fraction(backoff.get("delay_ms", 1000)))
    if backoff.get("type") != "exponential":
        return 1000
    delay = (
        Fraction(backoff.get("initial_delay_ms", 1000))
        * Fraction(backoff.get("multiplier", 2)) ** retry_count
    )
    return int(min(delay, Fraction(backoff.get("max_delay_ms", 60_000))))


def is_retryable(retry_policy: Row, retry_count: int, category: str | None) -> bool:
    """Whether a failed attempt gets another one (section 4.5)."""
    categories = retry_policy.get("retryable_categories") or []
    return (
        retry_count < retry_policy.get("max_retries", 0)
        and category != "permanent"
        and (not categories or category in categories)
    )


_BACKOFF_KEYS = {
    "exponential": {"type", "initial_delay_ms", "max_delay_ms", "multiplier", "jitter"},
    "fixed": {"type", "delay_ms", "jitter"},
}


def _check_retry_policy(retry_policy: Any) -> None:
    if retry_policy is None:
        return
    if not isinstance(retry_policy, dict):
        raise RefusedError("invalid_policy_json")
    numbers = [retry_policy.get("max_retries")]
    if isinstance(backoff := retry_policy.get("backoff"), dict):
        numbers += [
            backoff.get(name) for name in ("initial_delay_ms", "max_delay_ms", "multiplier", "delay_ms")
        ]
    if not all(number is None or isinstance(number, int | float) for number in numbers):
        raise RefusedError("invalid_policy_json", reason="not_number")
    if backoff and backoff.get("type") not in _BACKOFF_KEYS:
        raise RefusedError("invalid_policy_json", path="backoff.type")
    legal = {"max_retries", "backoff", "retryable_categories"}
    legal_in_backoff = _BACKOFF_KEYS[backoff["type"]] if backoff else set()
    if retry_policy.keys() - legal or (backoff or {}).keys() - legal_in_backoff:
        raise RefusedError("invalid_policy_json", reason="unknown_key")


def _check_name(field_name: str, value: str) -> None:
    if not 1 <= len(value.encode()) <= 256 or re.search(r"[\s\x00-\x1f\x7f]", value):
        raise RefusedError("invalid_input", field=field_name)


def _check_range(field_name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise RefusedError("invalid_input", field=field_name)


def _check_tag_keys(tags: dict[str, str]) -> None:
    for key in sorted(tags):
        if not TAG_KEY.fullmatch(key):
            raise RefusedError("invalid_tag_key", key=key)


def _check_lease_ttl(lease_ttl_ms: int) -> None:
    _check_range("lease_ttl_ms", lease_ttl_ms, 1, 86_400_000)


def _check_source(source: str | None) -> None:
    if source not in {None, "operator_override"}:
        raise RefusedError("invalid_input", field="source")


@dataclass
class World:
    """Everything that the engine stores about executions, and its clock."""

    now_ms: int
    #: Who calls; a privileged source is an operator's alone.
    role: str = "operator"
    #: What the engine answered to the present call: the source of ids that it mints.
    minted: Row = field(default_factory=dict)
    executions: dict[str, Execution] = field(default_factory=dict)
    idempotency: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    #: Executions that retention removed; their events stay.
    removed: dict[str, Execution] = field(default_factory=dict)

    # Creation (10 section 4.1)

    def create_execution(
        self,
        *,
        execution_id: str,
        execution_kind: str,
        namespace: str,
        lane_id: str,
        priority: int = 0,
        policy: Row | None = None,
        tags: dict[str, str] | None = None,
        delay_until_ms: int | None = None,
        execution_deadline_at_ms: int | None = None,
        idempotency_key: str | None = None,
        dedup_ttl_ms: int | None = None,
        payload: bytes | None = None,
    ) -> Row:
        key = (namespace, idempotency_key) if idempotency_key else None
        recorded_id, record_expires_at_ms = self.idempotency.get(key, ("", 0)) if key else ("", 0)
        duplicate_of = recorded_id if record_expires_at_ms > self.now_ms else execution_id
        existing = self.executions.get(duplicate_of)
        # A key outlives its execution.
        if existing is not None or record_expires_at_ms > self.now_ms:
            return {
                "outcome": "duplicate",
                "execution_id": duplicate_of,
                "public_state": existing and existing.public_state,
            }
        if policy is not None and not isinstance(policy, dict):
            raise RefusedError("invalid_policy_json", path="$", reason="not_object")
        _check_tag_keys(tags or {})
        execution = Execution(
            execution_id=execution_id,
            namespace=namespace,
            lane_id=lane_id,
            execution_kind=execution_kind,
            priority=_clamped(priority),
            policy=policy or {},
            tags=dict(tags or {}),
            created_at_ms=self.now_ms,
            last_transition_at_ms=self.now_ms,
            last_mutation_at_ms=self.now_ms,
            deadline_at_ms=execution_deadline_at_ms,
            payload=payload or None,
        )
        if delay_until_ms is not None and delay_until_ms > self.now_ms:
            execution.eligibility_state = "not_eligible_until_time"
            execution.blocking_reason = "waiting_for_delay"
            execution.blocking_detail = ANYTHING
            execution.delay_until_ms = delay_until_ms
        if key:
            default_ttl_ms = execution.policy.get("dedup_window_ms", DEFAULT_DEDUP_MS)
            ttl_ms = default_ttl_ms if dedup_ttl_ms is None else dedup_ttl_ms
            if ttl_ms > 0:
                self.idempotency[key] = (execution_id, self.now_ms + ttl_ms)
        if predecessor := self.removed.get(execution_id):
            execution.lease_events = predecessor.lease_events
            execution.completion_events = predecessor.completion_events
            execution.operator_events = predecessor.operator_events
        self.executions[execution_id] = execution
        return {"outcome": "created", "execution_id": execution_id, "public_state": execution.public_state}

    # Grants (40 sections 1.9, 2.1, 2.4, 2.8)

    def issue_claim_grant(
        self,
        *,
        execution_id: str,
        worker_id: str,
        worker_instance_id: str,
        lane_id: str,
        worker_capabilities: Sequence[str] = (),
        grant_ttl_ms: int = 5000,
    ) -> Row:
        _check_name("worker_id", worker_id)
        _check_range("grant_ttl_ms", grant_ttl_ms, 1, 60_000)
        e = self._find(execution_id)
        if e.lifecycle_phase != "runnable" or e.eligibility_state != "eligible_now":
            raise _not_eligible(e)
        self._refuse_live_grant(e)
        if lane_id != e.lane_id:
            raise RefusedError("execution_not_in_eligible_set", execution_id=e.execution_id)
        return self._grant(
            e, "claim", worker_id, worker_instance_id, lane_id, worker_capabilities, grant_ttl_ms
        )

    def issue_reclaim_grant(
        self,
        *,
        execution_id: str,
        worker_id: str,
        worker_instance_id: str,
        lane_id: str | None = None,
        worker_capabilities: Sequence[str] = (),
        grant_ttl_ms: int = 5000,
    ) -> Row:
        _check_name("worker_id", worker_id)
        _check_range("grant_ttl_ms", grant_ttl_ms, 1, 60_000)
        e = self._find(execution_id)
        _check_lane(e, lane_id)
        self._check_reclaimable(e)
        self._refuse_live_grant(e)
        self._mark_expired_if_unmarked(e)
        return self._grant(
            e, "reclaim", worker_id, worker_instance_id, ANYTHING, worker_capabilities, grant_ttl_ms
        )

    def sweep_expired_grants(self) -> Row:
        expired = [e for e in self.executions.values() if e.grant and not e.grant.is_live(self.now_ms)]
        for e in expired:
            e.grant = None
        return {"r": len(expired)}

    def _grant(
        self,
        e: Execution,
        kind: str,
        worker_id: str,
        worker_instance_id: str,
        lane_id: str | None,
        worker_capabilities: Sequence[str],
        grant_ttl_ms: int,
    ) -> Row:
        row = {"execution_id": e.execution_id, "lane_id": ANYTHING if kind == "claim" else e.lane_id}
        missing = sorted(set(e.required_capabilities) - set(worker_capabilities))
        if missing:
            e.last_capability_mismatch_at_ms = self.now_ms
            nothing = {"grant_key": None, "grant_id": None, "expires_at_ms": None}
            return {**row, **nothing, "outcome": "capability_mismatch", "missing_capabilities": missing}
        expires_at_ms = self.now_ms + grant_ttl_ms
        grant_key = str(self.minted.get("grant_key"))
        shape = re.escape(f"ffg1:{kind}:{e.execution_id}:{expires_at_ms}:") + "[0-9a-f]{32}"
        assert re.fullmatch(shape, grant_key), f"a grant key looks like {shape}, not like {grant_key}"
        grant_id = hashlib.sha256(grant_key.encode()).digest()
        e.grant = Grant(
            kind=kind,
            worker_id=worker_id,
            worker_instance_id=worker_instance_id,
            lane_id=lane_id,
            grant_ttl_ms=grant_ttl_ms,
            issued_at_ms=self.now_ms,
            expires_at_ms=expires_at_ms,
            grant_id="\\x" + grant_id.hex(),
            worker_capabilities=sorted(set(worker_capabilities)),
        )
        return {
            **row,
            "outcome": "granted",
            "grant_key": grant_key,
            "grant_id": grant_id,
            "expires_at_ms": expires_at_ms,
            "missing_capabilities": ANYTHING,
        }

    def _refuse_live_grant(self, e: Execution) -> None:
        if e.grant and e.grant.is_live(self.now_ms):
            raise RefusedError(
                "grant_already_exists",
                execution_id=e.execution_id,
                kind=e.grant.kind,
                grant_expires_at_ms=e.grant.expires_at_ms,
            )

    def _check_grant(self, e: Execution, kind: str, worker_id: str, grant_key: str | None) -> None:
        grant = e.grant
        reason = None
        if grant is None:
            reason = "missing"
        elif grant.kind != kind:
            reason = "other_kind"
        elif grant.worker_id != worker_id:
            reason = "other_worker"
        elif grant_key and grant.grant_id != "\\x" + hashlib.sha256(grant_key.encode()).hexdigest():
            reason = "other_key"
        if grant is None or reason:
            raise RefusedError("invalid_claim_grant", execution_id=e.execution_id, reason=reason)
        if not grant.is_live(self.now_ms):
            raise RefusedError(
                "claim_grant_expired",
                execution_id=e.execution_id,
                grant_expires_at_ms=grant.expires_at_ms,
                now_ms=self.now_ms,
            )

    # Claims (10 sections 3.4, 4.2, 4.11; 40 sections 1.10, 2.3, 2.6)

    def claim_execution(
        self,
        *,
        execution_id: str,
        worker_id: str,
        worker_instance_id: str,
        lease_ttl_ms: int = 30_000,
        lane_id: str | None = None,
        lease_id: str | None = None,
        attempt_id: str | None = None,
        attempt_timeout_ms: int | None = None,
        execution_deadline_at_ms: int | None = None,
        grant_key: str | None = None,
    ) -> Row:
        _check_name("worker_id", worker_id)
        _check_lease_ttl(lease_ttl_ms)
        e = self._find(execution_id)
        if e.lifecycle_phase != "runnable" or e.eligibility_state != "eligible_now":
            raise _not_leaseable(e)
        if e.attempt_state == "attempt_interrupted":
            raise RefusedError("use_claim_resumed_execution", execution_id=e.execution_id)
        self._check_grant(e, "claim", worker_id, grant_key)
        _check_lane(e, lane_id)
        return self._start_attempt(
            e,
            "claim",
            worker=(worker_id, worker_instance_id),
            lease_ttl_ms=lease_ttl_ms,
            ids=(lease_id, attempt_id),
            attempt_timeout_ms=attempt_timeout_ms,
            deadline_at_ms=execution_deadline_at_ms,
        )

    def claim_resumed_execution(
        self,
        *,
        execution_id: str,
        worker_id: str,
        worker_instance_id: str,
        lease_ttl_ms: int = 30_000,
        lane_id: str | None = None,
        lease_id: str | None = None,
        remaining_attempt_timeout_ms: int | None = None,
        execution_deadline_at_ms: int | None = None,
        grant_key: str | None = None,
    ) -> Row:
        _check_name("worker_id", worker_id)
        _check_lease_ttl(lease_ttl_ms)
        e = self._find(execution_id)
        if e.lifecycle_phase != "runnable":
            raise _not_leaseable(e)
        if e.attempt_state != "attempt_interrupted":
            raise RefusedError(
                "not_a_resumed_execution", execution_id=e.execution_id, attempt_state=e.attempt_state
            )
        if e.eligibility_state != "eligible_now":
            raise _not_leaseable(e)
        self._check_grant(e, "claim", worker_id, grant_key)
        _check_lane(e, lane_id)
        return self._resume_attempt(
            e,
            "claim_resumed",
            worker=(worker_id, worker_instance_id),
            lease_ttl_ms=lease_ttl_ms,
            lease_id=lease_id,
            remaining_ms=remaining_attempt_timeout_ms,
            deadline_at_ms=execution_deadline_at_ms,
        )

    def issue_grant_and_claim(
        self,
        *,
        execution_id: str,
        lease_ttl_ms: int,
        lane_id: str | None = None,
        worker_id: str = "operator",
        worker_instance_id: str = "operator",
        lease_id: str | None = None,
        attempt_id: str | None = None,
        attempt_timeout_ms: int | None = None,
        execution_deadline_at_ms: int | None = None,
    ) -> Row:
        _check_lease_ttl(lease_ttl_ms)
        e = self._find(execution_id)
        if e.lifecycle_phase != "runnable":
            raise _not_eligible(e)
        self._refuse_live_grant(e)
        worker = (worker_id, worker_instance_id)
        if e.attempt_state == "attempt_interrupted":
            return self._resume_attempt(
                e,
                "issue_grant_and_claim_resumed",
                worker=worker,
                lease_ttl_ms=lease_ttl_ms,
                lease_id=lease_id,
                remaining_ms=attempt_timeout_ms,
                deadline_at_ms=execution_deadline_at_ms,
            )
        if e.eligibility_state != "eligible_now" or lane_id not in {None, e.lane_id}:
            raise RefusedError("execution_not_in_eligible_set", execution_id=e.execution_id)
        return self._start_attempt(
            e,
            "issue_grant_and_claim",
            worker=worker,
            lease_ttl_ms=lease_ttl_ms,
            ids=(lease_id, attempt_id),
            attempt_timeout_ms=attempt_timeout_ms,
            deadline_at_ms=execution_deadline_at_ms,
        )

    def reclaim_execution(
        self,
        *,
        execution_id: str,
        worker_id: str,
        worker_instance_id: str,
        lease_ttl_ms: int = 30_000,
        lane_id: str | None = None,
        lease_id: str | None = None,
        attempt_id: str | None = None,
        attempt_timeout_ms: int | None = None,
        max_reclaim_count: int | None = None,
        grant_key: str | None = None,
    ) -> Row:
        _check_name("worker_id", worker_id)
        _check_lease_ttl(lease_ttl_ms)
        e = self._find(execution_id)
        _check_lane(e, lane_id)
        self._check_reclaimable(e, max_reclaim_count)
        cap = e.reclaim_cap(max_reclaim_count)
        losses = e.losses_in_a_row
        if e.lease_reclaim_count >= cap:
            reason = (
                f"max_reclaims_exceeded: {losses} leases lost in a row without recorded progress,"
                f" {cap} takeovers allowed"
            )
            self._mark_expired_if_unmarked(e)
            self._end_attempt(e, "interrupted_reclaimed", reason)
            e.failure_reason = reason
            self._become_terminal(e, "failed", ("revoked", "reclaim_cap_exceeded"))
            nothing = dict.fromkeys(_CLAIM_COLUMNS, None)
            return {
                **nothing,
                "outcome": "reclaim_cap_exceeded",
                "execution_id": e.execution_id,
                "lane_id": ANYTHING,
                "reclaim_count": e.lease_reclaim_count,
                "max_reclaim_count": cap,
            }
        self._check_grant(e, "reclaim", worker_id, grant_key)
        self._mark_expired_if_unmarked(e)
        reason = "lease_revoked" if e.ownership_state == "lease_revoked" else "lease_expired"
        self._end_attempt(e, "interrupted_reclaimed", reason)
        e.lease_reclaim_count = losses
        attempt = self._new_attempt(
            e, "reclaim", worker=(worker_id, worker_instance_id), ids=(lease_id, attempt_id)
        )
        attempt.previous_attempt_index = attempt.attempt_index - 1
        attempt.reclaim_reason = reason
        self._issue_lease(e, "reclaimed", ANYTHING, lease_ttl_ms)
        self._arm_timeout(e, e.attempt_timeout_ms if attempt_timeout_ms is None else attempt_timeout_ms)
        return {
            **_claim_row(e, "reclaimed", "reclaimed", lease_ttl_ms),
            "reclaim_count": e.lease_reclaim_count,
            "max_reclaim_count": cap,
        }

    def _start_attempt(
        self,
        e: Execution,
        reason: str,
        *,
        worker: tuple[str, str],
        lease_ttl_ms: int,
        ids: tuple[str | None, str | None],
        attempt_timeout_ms: int | None,
        deadline_at_ms: int | None,
    ) -> Row:
        kind = {"pending_retry_attempt": "retry", "pending_replay_attempt": "replay"}.get(
            e.attempt_state, "initial"
        )
        attempt = self._new_attempt(e, kind, worker=worker, ids=ids)
        if kind == "retry":
            attempt.retry_reason = e.pending_retry_reason
            attempt.previous_attempt_index = e.pending_previous_attempt_index
        if kind == "replay":
            attempt.replay_reason = e.pending_replay_reason
            attempt.replay_requested_by = e.pending_replay_requested_by
            attempt.replayed_from_attempt_index = e.pending_previous_attempt_index
        e.pending_retry_reason = e.pending_replay_reason = e.pending_replay_requested_by = None
        e.pending_previous_attempt_index = None
        if e.started_at_ms is None:
            e.started_at_ms = self.now_ms
        e.deadline_at_ms = deadline_at_ms or e.deadline_at_ms
        self._issue_lease(e, "acquired", reason, lease_ttl_ms)
        self._arm_timeout(e, e.attempt_timeout_ms if attempt_timeout_ms is None else attempt_timeout_ms)
        return _claim_row(e, "claimed", "fresh", lease_ttl_ms)

    def _resume_attempt(
        self,
        e: Execution,
        reason: str,
        *,
        worker: tuple[str, str],
        lease_ttl_ms: int,
        lease_id: str | None,
        remaining_ms: int | None,
        deadline_at_ms: int | None,
    ) -> Row:
        attempt = e.current_attempt
        timeouts = (remaining_ms, attempt.timeout_remaining_ms, e.attempt_timeout_ms)
        attempt.attempt_state = "started"
        attempt.resumed_at_ms = self.now_ms
        attempt.suspended_at_ms = attempt.suspension_id = attempt.timeout_remaining_ms = None
        attempt.lease_id = lease_id or self._minted_id("lease_id")
        attempt.lease_epoch = e.current_lease_epoch + 1
        attempt.worker_id, attempt.worker_instance_id = worker
        e.deadline_at_ms = deadline_at_ms or e.deadline_at_ms
        self._issue_lease(e, "acquired", reason, lease_ttl_ms)
        self._arm_timeout(e, next((ms for ms in timeouts if ms is not None), None))
        return _claim_row(e, "claimed", "resumed", lease_ttl_ms)

    def _new_attempt(
        self, e: Execution, kind: str, *, worker: tuple[str, str], ids: tuple[str | None, str | None]
    ) -> Attempt:
        lease_id, attempt_id = ids
        attempt = Attempt(
            attempt_index=e.total_attempt_count,
            attempt_type=kind,
            attempt_id=attempt_id or self._minted_id("attempt_id"),
            lease_id=lease_id or self._minted_id("lease_id"),
            lease_epoch=e.current_lease_epoch + 1,
            worker_id=worker[0],
            worker_instance_id=worker[1],
            created_at_ms=self.now_ms,
            started_at_ms=self.now_ms,
        )
        e.attempts.append(attempt)
        e.total_attempt_count += 1
        e.current_attempt_id = attempt.attempt_id
        return attempt

    def _minted_id(self, name: str) -> str:
        minted = str(self.minted.get(name))
        used = {f.lease_id for e in self.executions.values() for f in e.fences}
        used |= {f.attempt_id for e in self.executions.values() for f in e.fences}
        assert minted not in used, f"a minted {name} is new, but {minted} was in use"
        return minted

    def _issue_lease(self, e: Execution, event_type: str, reason: str, lease_ttl_ms: int) -> None:
        attempt = e.current_attempt
        old_lease_epoch = e.current_lease_epoch if event_type == "reclaimed" else None
        e.lifecycle_phase, e.ownership_state, e.eligibility_state = "active", "leased", "not_applicable"
        e.blocking_reason, e.blocking_detail, e.attempt_state = "none", None, "running_attempt"
        e.current_lease_epoch += 1
        e.current_lease_id = attempt.lease_id
        e.current_worker_id, e.current_worker_instance_id = attempt.worker_id, attempt.worker_instance_id
        e.lease_acquired_at_ms = e.lease_last_renewed_at_ms = self.now_ms
        e.lease_expires_at_ms = self.now_ms + lease_ttl_ms
        e.lease_expired_at_ms = e.lease_revoked_at_ms = e.lease_revoke_reason = None
        e.delay_until_ms = e.blocked_at_ms = e.grant = None
        e.last_transition_at_ms = e.last_mutation_at_ms = self.now_ms
        e.fences.append(Fence(attempt.lease_id, e.current_lease_epoch, attempt.attempt_id))
        self._emit_lease(e, event_type, reason, old_lease_epoch)

    def _arm_timeout(self, e: Execution, timeout_ms: int | None) -> None:
        e.attempt_timeout_at_ms = self.now_ms + timeout_ms if timeout_ms else None

    # What the holder of a lease does (10 sections 3.2, 4.3 to 4.7; 40 section 4.2)

    def renew_lease(
        self,
        *,
        execution_id: str,
        lease_id: str | None,
        lease_epoch: int | None,
        attempt_id: str | None,
        lease_ttl_ms: int = 30_000,
        attempt_index: int | None = None,
    ) -> Row:
        _check_lease_ttl(lease_ttl_ms)
        e = self._find(execution_id)
        self._check_fence(e, Fence(lease_id, lease_epoch, attempt_id), attempt_index=attempt_index)
        e.lease_last_renewed_at_ms = e.last_mutation_at_ms = self.now_ms
        e.lease_expires_at_ms = self.now_ms + lease_ttl_ms
        return {
            "outcome": "renewed",
            "execution_id": e.execution_id,
            "lease_expires_at_ms": e.lease_expires_at_ms,
            "lease_renewal_deadline_ms": self.now_ms + lease_ttl_ms * 2 // 3,
            "lease_epoch": e.current_lease_epoch,
        }

    def update_progress(
        self,
        *,
        execution_id: str,
        lease_id: str | None,
        lease_epoch: int | None,
        attempt_id: str | None,
        progress_pct: int | None = None,
        progress_message: str | None = None,
    ) -> Row:
        if progress_pct is not None:
            _check_range("progress_pct", progress_pct, 0, 100)
        e = self._find(execution_id)
        self._check_fence(e, Fence(lease_id, lease_epoch, attempt_id))
        e.progress_updated_at_ms = e.last_mutation_at_ms = self.now_ms
        e.progress_pct = e.progress_pct if progress_pct is None else progress_pct
        e.progress_message = progress_message or e.progress_message
        return {"outcome": "updated", "execution_id": e.execution_id}

    def complete_execution(
        self,
        *,
        execution_id: str,
        lease_id: str | None = None,
        lease_epoch: int | None = None,
        attempt_id: str | None = None,
        result: bytes | None = None,
        result_encoding: str | None = None,
        source: str | None = None,
    ) -> Row:
        _check_source(source)
        e = self._find(execution_id)
        self._check_fence(e, Fence(lease_id, lease_epoch, attempt_id), source=source)
        self._end_attempt(e, "ended_success")
        e.result, e.result_encoding = (result, result_encoding) if result else (None, None)
        self._become_terminal(e, "success", ("released", "completed"))
        return {"outcome": "completed", "execution_id": e.execution_id, "public_state": e.public_state}

    def fail_execution(
        self,
        *,
        execution_id: str,
        lease_id: str | None = None,
        lease_epoch: int | None = None,
        attempt_id: str | None = None,
        failure_reason: str = "",
        failure_category: str | None = None,
        retry_policy: Any = None,
        source: str | None = None,
    ) -> Row:
        _check_source(source)
        _check_retry_policy(retry_policy)
        e = self._find(execution_id)
        self._check_fence(e, Fence(lease_id, lease_epoch, attempt_id), source=source)
        policy = e.policy.get("retry_policy", {}) if retry_policy is None else retry_policy
        self._end_attempt(e, "ended_failure", failure_reason or None, failure_category)
        e.failure_reason = failure_reason or None
        if not is_retryable(policy, e.retry_count, failure_category):
            self._become_terminal(e, "failed", ("released", "failed_terminal"))
            outcome = "terminal_failed"
        else:
            self._release_lease(e, "released", "failed_retry_scheduled")
            self._become_delayed(
                e, self.now_ms + backoff_ms(policy, e.retry_count), "waiting_for_retry_backoff"
            )
            e.attempt_state = "pending_retry_attempt"
            e.retry_count += 1
            e.pending_retry_reason = failure_reason or None
            e.pending_previous_attempt_index = e.current_attempt_index
            e.current_attempt_id = None
            outcome = "retry_scheduled"
        is_retry = outcome == "retry_scheduled"
        return {
            "outcome": outcome,
            "execution_id": e.execution_id,
            "public_state": e.public_state,
            "delay_until_ms": e.delay_until_ms,
            "next_attempt_index": e.total_attempt_count if is_retry else None,
        }

    def delay_execution(
        self,
        *,
        execution_id: str,
        delay_until_ms: int | None,
        lease_id: str | None = None,
        lease_epoch: int | None = None,
        attempt_id: str | None = None,
        source: str | None = None,
    ) -> Row:
        _check_source(source)
        if delay_until_ms is None:
            raise RefusedError("invalid_input", field="delay_until_ms")
        e = self._find(execution_id)
        self._check_fence(e, Fence(lease_id, lease_epoch, attempt_id), source=source)
        self._pause_attempt(e, "worker_delay")
        self._release_lease(e, "released", "worker_delay")
        self._become_delayed(e, delay_until_ms, "waiting_for_delay")
        e.attempt_state = "attempt_interrupted"
        return {
            "outcome": "delayed",
            "execution_id": e.execution_id,
            "delay_until_ms": delay_until_ms,
            "public_state": e.public_state,
        }

    def move_to_waiting_children(
        self,
        *,
        execution_id: str,
        lease_id: str | None = None,
        lease_epoch: int | None = None,
        attempt_id: str | None = None,
        source: str | None = None,
    ) -> Row:
        """Without a flow there is nothing to wait for."""
        _check_source(source)
        e = self._find(execution_id)
        self._check_fence(e, Fence(lease_id, lease_epoch, attempt_id), source=source)
        self._pause_attempt(e, "waiting_children")
        self._release_lease(e, "released", "waiting_children")
        self._become_eligible(e)
        e.attempt_state = "attempt_interrupted"
        return {
            "outcome": "nothing_to_wait_for",
            "execution_id": e.execution_id,
            "public_state": e.public_state,
        }

    def _check_fence(
        self, e: Execution, fence: Fence, *, source: str | None = None, attempt_index: int | None = None
    ) -> None:
        """F2 to F7, in this order."""
        missing = fence.missing
        if len(missing) in {1, 2}:
            raise RefusedError("partial_fence_triple", execution_id=e.execution_id, missing=missing)
        if missing and source is None:
            raise RefusedError("fence_required", execution_id=e.execution_id)
        if source is not None and self.role != "operator":
            raise RefusedError("unauthorized")
        if e.lifecycle_phase != "active":
            raise _not_active(e)
        if e.ownership_state == "lease_revoked":
            raise RefusedError(
                "lease_revoked",
                execution_id=e.execution_id,
                lease_epoch=e.current_lease_epoch,
                lease_revoked_at_ms=e.lease_revoked_at_ms,
                lease_revoke_reason=e.lease_revoke_reason,
            )
        if _known(e.lease_expires_at_ms) <= self.now_ms:
            raise RefusedError(
                "lease_expired",
                execution_id=e.execution_id,
                lease_epoch=e.current_lease_epoch,
                lease_expires_at_ms=e.lease_expires_at_ms,
                now_ms=self.now_ms,
            )
        compared = [
            ("lease_id", fence.lease_id, e.current_lease_id),
            ("lease_epoch", fence.lease_epoch, e.current_lease_epoch),
            ("attempt_id", fence.attempt_id, e.current_attempt_id),
            ("attempt_index", attempt_index, e.current_attempt_index),
        ]
        mismatch = [name for name, shown, stored in compared if shown is not None and shown != stored]
        if mismatch:
            raise RefusedError(
                "stale_lease",
                execution_id=e.execution_id,
                mismatch=mismatch,
                lease_epoch=e.current_lease_epoch,
            )

    def _end_attempt(
        self, e: Execution, state: str, reason: str | None = None, category: str | None = None
    ) -> None:
        if not e.attempts or not e.current_attempt.is_unfinished:
            return
        attempt = e.current_attempt
        attempt.attempt_state = state
        attempt.ended_at_ms = self.now_ms
        attempt.failure_reason, attempt.failure_category = reason, category
        attempt.suspended_at_ms = attempt.suspension_id = None

    def _pause_attempt(self, e: Execution, suspension_id: str) -> None:
        attempt = e.current_attempt
        attempt.attempt_state = "suspended"
        attempt.suspended_at_ms = self.now_ms
        attempt.suspension_id = suspension_id
        if e.attempt_timeout_at_ms is not None:
            attempt.timeout_remaining_ms = max(e.attempt_timeout_at_ms - self.now_ms, 1)

    def _release_lease(self, e: Execution, event_type: str, reason: str) -> None:
        if e.lifecycle_phase == "active":
            self._emit_lease(e, event_type, reason)
        e.ownership_state = "unowned"
        e.current_lease_id = e.current_worker_id = e.current_worker_instance_id = None
        e.lease_acquired_at_ms = e.lease_last_renewed_at_ms = e.lease_expires_at_ms = None
        e.lease_expired_at_ms = e.lease_revoked_at_ms = e.lease_revoke_reason = None
        e.attempt_timeout_at_ms = None

    def _become_eligible(self, e: Execution) -> None:
        e.lifecycle_phase, e.ownership_state, e.eligibility_state = "runnable", "unowned", "eligible_now"
        e.blocking_reason, e.blocking_detail = "waiting_for_worker", None
        e.delay_until_ms = e.blocked_at_ms = None
        e.lease_reclaim_count = 0
        e.last_transition_at_ms = e.last_mutation_at_ms = self.now_ms

    def _become_delayed(self, e: Execution, delay_until_ms: int, blocking_reason: str) -> None:
        e.lifecycle_phase, e.eligibility_state = "runnable", "not_eligible_until_time"
        e.blocking_reason, e.blocking_detail = blocking_reason, ANYTHING
        e.delay_until_ms = delay_until_ms
        e.lease_reclaim_count = 0
        e.last_transition_at_ms = e.last_mutation_at_ms = self.now_ms

    def _become_terminal(self, e: Execution, outcome: str, lease_event: tuple[str, str]) -> None:
        e.ended_lease_id, e.ended_worker_id = e.current_lease_id, e.current_worker_id
        e.ended_worker_instance_id = e.current_worker_instance_id
        self._release_lease(e, *lease_event)
        e.lifecycle_phase, e.eligibility_state = "terminal", "not_applicable"
        e.blocking_reason, e.blocking_detail, e.terminal_outcome = "none", None, outcome
        if e.current_attempt_index is not None:
            e.attempt_state = "attempt_terminal"
        e.terminal_at_ms = e.last_transition_at_ms = e.last_mutation_at_ms = self.now_ms
        e.delay_until_ms = e.blocked_at_ms = e.deadline_at_ms = None
        retention_ms = _read(e.policy, "stream_policy", "retention_ttl_ms")
        e.purge_after_ms = None if retention_ms is None else self.now_ms + retention_ms
        e.grant = None
        e.completion_events.append(
            {
                "occurred_at_ms": self.now_ms,
                "outcome": outcome,
                "attempt_index": e.current_attempt_index,
                "flow_id": None,
                "lane_id": e.lane_id,
                "namespace": e.namespace,
                "instance_tag": e.instance_tag,
            }
        )

    def _emit_lease(
        self, e: Execution, event_type: str, reason: str | None, old_lease_epoch: int | None = None
    ) -> None:
        attempt = e.current_attempt
        e.lease_events.append(
            {
                "occurred_at_ms": self.now_ms,
                "event_type": event_type,
                "reason": reason,
                "lease_id": attempt.lease_id,
                "lease_epoch": attempt.lease_epoch,
                "old_lease_epoch": old_lease_epoch,
                "attempt_index": attempt.attempt_index,
                "attempt_id": attempt.attempt_id,
                "worker_id": attempt.worker_id,
                "worker_instance_id": attempt.worker_instance_id,
                "namespace": e.namespace,
                "instance_tag": e.instance_tag,
            }
        )

    # Losing a lease and ending from outside (10 sections 4.8 to 4.10, 4.12)

    def cancel_execution(
        self,
        *,
        execution_id: str,
        reason: str | None,
        source: str = "lease_holder",
        lease_id: str | None = None,
        lease_epoch: int | None = None,
        attempt_id: str | None = None,
    ) -> Row:
        if reason is None:
            raise RefusedError("invalid_input", field="reason")
        if source not in {"lease_holder", "operator_override", "flow_cascade", "system_timeout"}:
            raise RefusedError("invalid_input", field="source")
        if source != "lease_holder" and self.role != "operator":
            raise RefusedError("unauthorized")
        e = self._find(execution_id)
        if e.lifecycle_phase == "terminal":
            raise _not_active(e)
        if source == "lease_holder":
            self._check_fence(e, Fence(lease_id, lease_epoch, attempt_id))
        cancelled_from = e.lifecycle_phase
        self._end_attempt(e, "ended_cancelled", f"cancelled: {reason}")
        e.cancellation_reason, e.cancelled_by = reason, source
        self._become_terminal(e, "cancelled", ("released", "cancelled"))
        if source != "lease_holder":
            self._emit_operator(
                e,
                "cancelled",
                {"source": source, "cancelled_from": cancelled_from, "reason": reason or None},
            )
        return {
            "outcome": "cancelled",
            "execution_id": e.execution_id,
            "cancelled_from": cancelled_from,
            "public_state": e.public_state,
        }

    def revoke_lease(
        self,
        *,
        execution_id: str,
        expected_lease_id: str | None = None,
        worker_instance_id: str | None = None,
        reason: str = "operator",
    ) -> Row:
        e = self._find(execution_id)
        if e.lifecycle_phase != "active":
            raise _not_active(e)
        satisfied = {"outcome": "already_satisfied", "lease_id": ANYTHING, "lease_epoch": ANYTHING}
        if e.ownership_state != "leased":
            is_revoked = e.ownership_state == "lease_revoked"
            return {**satisfied, "reason": "already_revoked" if is_revoked else "already_expired"}
        if expected_lease_id not in {None, e.current_lease_id}:
            raise RefusedError(
                "stale_lease",
                execution_id=e.execution_id,
                expected_lease_id=expected_lease_id,
                lease_id=e.current_lease_id,
            )
        if worker_instance_id not in {None, e.current_worker_instance_id}:
            return {**satisfied, "reason": "different_worker_instance_id"}
        self._lose_lease(e, "lease_revoked")
        e.lease_revoked_at_ms, e.lease_revoke_reason = self.now_ms, reason
        self._emit_lease(e, "revoked", reason)
        self._emit_operator(
            e,
            "lease_revoked",
            {
                "lease_epoch": e.current_lease_epoch,
                "worker_id": e.current_worker_id,
                "worker_instance_id": e.current_worker_instance_id,
                "reason": reason,
            },
        )
        return {
            "outcome": "revoked",
            "reason": None,
            "lease_id": e.current_lease_id,
            "lease_epoch": e.current_lease_epoch,
        }

    def mark_lease_expired_if_due(self, *, execution_id: str) -> Row:
        reason = self._why_not_expired(execution_id)
        if reason:
            return {"outcome": "already_satisfied", "reason": reason}
        self._mark_expired_if_unmarked(self.executions[execution_id])
        return {"outcome": "marked_expired", "reason": None}

    def _check_reclaimable(self, e: Execution, max_reclaim_count: int | None = None) -> None:
        if not e.is_reclaimable(self.now_ms):
            raise _not_reclaimable(e)
        if e.lease_reclaim_count and e.takeover_at_ms(max_reclaim_count) > self.now_ms:
            raise _not_reclaimable(e, e.takeover_at_ms(max_reclaim_count))

    def _why_not_expired(self, execution_id: str) -> str | None:
        e = self.executions.get(execution_id)
        if e is None:
            return "execution_not_found"
        if e.lifecycle_phase != "active":
            return "not_active"
        if e.ownership_state != "leased":
            return "already_revoked" if e.ownership_state == "lease_revoked" else "already_expired"
        return "not_yet_expired" if _known(e.lease_expires_at_ms) > self.now_ms else None

    def _mark_expired_if_unmarked(self, e: Execution) -> None:
        if e.ownership_state == "leased":
            self._lose_lease(e, "lease_expired_reclaimable")
            e.lease_expired_at_ms = self.now_ms
            self._emit_lease(e, "expired", ANYTHING)

    def _lose_lease(self, e: Execution, ownership_state: str) -> None:
        e.delay_until_ms = self.now_ms if ownership_state == "lease_revoked" else e.takeover_at_ms()
        e.ownership_state = ownership_state
        e.blocking_reason, e.blocking_detail = "waiting_for_worker", ANYTHING
        e.attempt_state = "attempt_interrupted"
        e.last_mutation_at_ms = self.now_ms

    def expire_execution(
        self, *, execution_id: str, expire_reason: str = "attempt_timeout", require_due: bool = False
    ) -> Row:
        e = self.executions.get(execution_id)
        if e is None:
            return {"outcome": "not_found_cleaned", "expired_from": None, "public_state": None}
        outcome, expired_from = "expired", None
        if e.lifecycle_phase == "terminal":
            outcome = "already_terminal"
        elif require_due and not self._is_due(e, expire_reason):
            outcome = "not_due"
        else:
            expired_from = e.lifecycle_phase
            self._end_attempt(e, "ended_failure", expire_reason)
            e.failure_reason = expire_reason
            self._become_terminal(e, "expired", ("released", f"expired:{expire_reason}"))
        return {"outcome": outcome, "expired_from": expired_from, "public_state": e.public_state}

    def _is_due(self, e: Execution, expire_reason: str) -> bool:
        if expire_reason == "attempt_timeout":
            due_at_ms = e.attempt_timeout_at_ms if e.lifecycle_phase == "active" else None
        else:
            due_at_ms = e.deadline_at_ms if e.lifecycle_phase != "terminal" else None
        return due_at_ms is not None and due_at_ms <= self.now_ms

    # Queue and bookkeeping (10 section 4.13; 30 section 4.14; 40 sections 4.1 to 4.5)

    def change_priority(self, *, execution_id: str, new_priority: int) -> Row:
        e = self._find(execution_id)
        if e.eligibility_state != "eligible_now":
            raise _not_eligible(e)
        change = {"old_priority": e.priority, "new_priority": _clamped(new_priority)}
        e.priority = change["new_priority"]
        e.last_mutation_at_ms = self.now_ms
        self._emit_operator(e, "priority_changed", change)
        return change

    def promote_delayed(self, *, execution_id: str) -> Row:
        e = self.executions.get(execution_id)
        if e is None:
            return {"outcome": "not_found_cleaned", "public_state": None}
        if e.lifecycle_phase != "runnable":
            outcome = "not_runnable_cleaned"
        elif e.eligibility_state != "not_eligible_until_time":
            outcome = "not_delayed_cleaned"
        elif _known(e.delay_until_ms) > self.now_ms:
            outcome = "not_yet_due"
        else:
            outcome = "promoted"
            self._become_eligible(e)
        return {"outcome": outcome, "public_state": e.public_state}

    def block_execution_for_admission(
        self, *, execution_id: str, blocking_reason: str, blocking_detail: str | None = None
    ) -> Row:
        e = self._find(execution_id)
        if e.lifecycle_phase == "terminal":
            raise _not_active(e)
        if e.lifecycle_phase != "runnable":
            raise _not_eligible(e)
        if blocking_reason not in ADMISSION_BLOCKS:
            raise RefusedError("invalid_blocking_reason", blocking_reason=blocking_reason)
        if e.blocking_reason == blocking_reason:
            return {"outcome": "already_blocked", "eligibility_state": e.eligibility_state}
        if e.eligibility_state != "eligible_now":
            raise _not_eligible(e)
        e.eligibility_state = ADMISSION_BLOCKS[blocking_reason]
        e.blocking_reason, e.blocking_detail = blocking_reason, blocking_detail or None
        e.blocked_at_ms = e.last_transition_at_ms = e.last_mutation_at_ms = self.now_ms
        return {"outcome": "blocked", "eligibility_state": e.eligibility_state}

    def unblock_execution(self, *, execution_id: str, expected_blocking_reason: str | None = None) -> Row:
        e = self._find(execution_id)
        if e.lifecycle_phase != "runnable" or e.eligibility_state not in ADMISSION_BLOCKS.values():
            raise _not_eligible(e)
        if expected_blocking_reason not in {None, e.blocking_reason}:
            raise _not_eligible(e)
        self._become_eligible(e)
        return {"outcome": "unblocked", "public_state": e.public_state}

    def replay_execution(
        self,
        *,
        execution_id: str,
        reason: str | None = None,
        requested_by: str | None = None,
        force: bool = False,
    ) -> Row:
        e = self._find(execution_id)
        if e.lifecycle_phase != "terminal":
            raise RefusedError(
                "execution_not_terminal", execution_id=e.execution_id, lifecycle_phase=e.lifecycle_phase
            )
        limit = e.policy.get("max_replay_count", DEFAULT_REPLAY_LIMIT)
        if e.replay_count >= limit:
            raise RefusedError(
                "max_replays_exhausted",
                execution_id=e.execution_id,
                replay_count=e.replay_count,
                max_replay_count=limit,
            )
        previous_outcome = e.terminal_outcome
        if previous_outcome == "success" and not force:
            raise RefusedError(
                "replay_needs_force", execution_id=e.execution_id, terminal_outcome=previous_outcome
            )
        result_given_up = e.result is not None or e.result_encoding is not None
        self._become_eligible(e)
        e.terminal_outcome, e.attempt_state = "none", "pending_replay_attempt"
        e.replay_count += 1
        e.retry_count = e.lease_reclaim_count = 0
        e.terminal_at_ms = e.purge_after_ms = e.deadline_at_ms = None
        e.ended_lease_id = e.ended_worker_id = e.ended_worker_instance_id = None
        e.result = e.result_encoding = None
        e.failure_reason = e.cancellation_reason = e.cancelled_by = None
        e.pending_previous_attempt_index = e.current_attempt_index
        e.pending_replay_reason, e.pending_replay_requested_by = reason or None, requested_by or None
        # An execution that ended with a retry ahead of it waits for its replay now.
        e.pending_retry_reason = None
        self._emit_operator(
            e,
            "replayed",
            {
                "branch": "normal",
                "replay_count": e.replay_count,
                "unsatisfied": 0,
                "previous_outcome": previous_outcome,
                "result_given_up": result_given_up,
                "reason": reason or None,
                "requested_by": requested_by or None,
            },
        )
        return {
            "outcome": "replayed",
            "public_state": e.public_state,
            "branch": "normal",
            "replay_count": e.replay_count,
            "unsatisfied_count": 0,
            "stale_upstream_count": 0,
            "result_given_up": result_given_up,
        }

    def set_execution_tags(self, *, execution_id: str, tags: dict[str, str]) -> Row:
        if not tags or not all(isinstance(value, str) for value in tags.values()):
            raise RefusedError("invalid_input", field="tags")
        e = self._find(execution_id)
        _check_tag_keys(tags)
        e.tags |= tags
        e.last_mutation_at_ms = self.now_ms
        return {"outcome": "ok", "tag_count": len(tags)}

    def _emit_operator(self, e: Execution, event_type: str, details: Row) -> None:
        e.operator_events.append(
            {
                "occurred_at_ms": self.now_ms,
                "event_type": event_type,
                "details": {name: value for name, value in details.items() if value is not None},
                "flow_id": None,
                "namespace": e.namespace,
                "instance_tag": e.instance_tag,
            }
        )

    # Batches (10 sections 4.16 to 4.19): as if the calls had been made one after another

    def create_executions(
        self,
        *,
        execution_ids: list[str],
        execution_kinds: list[str],
        lane_ids: list[str],
        policies: list[Any],
        tags: list[dict[str, str] | None],
        delay_until_ms: list[int | None],
        idempotency_keys: list[str | None],
        payloads: list[bytes | None],
        namespace: str,
        dedup_ttl_ms: int | None,
    ) -> list[Row]:
        return [
            self._batch_row(
                item,
                # What a refused item says here is left open: there is no execution.
                ANYTHING,
                ("public_state",),
                partial(
                    self.create_execution,
                    execution_id=execution_id,
                    execution_kind=execution_kinds[item],
                    namespace=namespace,
                    lane_id=lane_ids[item],
                    policy=policies[item],
                    tags=tags[item],
                    delay_until_ms=delay_until_ms[item],
                    idempotency_key=idempotency_keys[item],
                    dedup_ttl_ms=dedup_ttl_ms,
                    payload=payloads[item],
                ),
            )
            for item, execution_id in enumerate(execution_ids)
        ]

    def complete_executions(
        self,
        *,
        execution_ids: list[str | None],
        lease_ids: list[str | None],
        lease_epochs: list[int | None],
        attempt_ids: list[str | None],
        results: list[bytes | None],
    ) -> list[Row]:
        return self._batch(
            execution_ids,
            ("public_state",),
            lambda item, execution_id: self.complete_execution(
                execution_id=execution_id,
                lease_id=lease_ids[item],
                lease_epoch=lease_epochs[item],
                attempt_id=attempt_ids[item],
                result=results[item],
            ),
        )

    def fail_executions(
        self,
        *,
        execution_ids: list[str | None],
        lease_ids: list[str | None],
        lease_epochs: list[int | None],
        attempt_ids: list[str | None],
        failure_reasons: list[str | None],
        failure_categories: list[str | None],
        retry_policies: list[Any],
    ) -> list[Row]:
        return self._batch(
            execution_ids,
            ("public_state", "delay_until_ms", "next_attempt_index"),
            lambda item, execution_id: self.fail_execution(
                execution_id=execution_id,
                lease_id=lease_ids[item],
                lease_epoch=lease_epochs[item],
                attempt_id=attempt_ids[item],
                failure_reason=failure_reasons[item] or "",
                failure_category=failure_categories[item],
                retry_policy=retry_policies[item],
            ),
        )

    def renew_leases(
        self,
        *,
        execution_ids: list[str | None],
        lease_ids: list[str | None],
        lease_epochs: list[int | None],
        attempt_ids: list[str | None],
        lease_ttl_ms: int,
    ) -> list[Row]:
        _check_lease_ttl(lease_ttl_ms)
        return self._batch(
            execution_ids,
            ("lease_expires_at_ms", "lease_renewal_deadline_ms", "lease_epoch"),
            lambda item, execution_id: self.renew_lease(
                execution_id=execution_id,
                lease_id=lease_ids[item],
                lease_epoch=lease_epochs[item],
                attempt_id=attempt_ids[item],
                lease_ttl_ms=lease_ttl_ms,
            ),
        )

    def _batch(
        self, given_ids: list[str | None], columns: tuple[str, ...], call: Callable[[int, str], Row]
    ) -> list[Row]:
        rows: list[Row] = []
        seen: set[str] = set()
        for item, given_id in enumerate(given_ids):
            wire_id = given_id.lower() if given_id and WIRE_ID.fullmatch(given_id) else None
            make_call = partial(_call_unless_repeated, call, item, wire_id, seen)
            rows.append(self._batch_row(item, wire_id or given_id, columns, make_call))
        return rows

    def _batch_row(
        self, item: int, execution_id: str | None, columns: tuple[str, ...], call: Callable[[], Row]
    ) -> Row:
        nothing: Row = {"code": None, "sqlstate": None, "detail": None} | dict.fromkeys(columns)
        try:
            row = call()
        except RefusedError as refused:
            row = {
                "execution_id": execution_id,
                "outcome": "refused",
                "code": refused.code,
                "sqlstate": refused.sqlstate,
                "detail": refused.detail,
            }
        return {"item": item + 1, **nothing, **row}

    # Scanners (40 section 4.3; 50 sections 3.7, 3.9): the same moves for everything that is due

    def promote_due(self) -> Row:
        return self._scan(
            lambda e: self.promote_delayed(execution_id=e.execution_id)["outcome"] == "promoted"
        )

    def scan_expired_leases(self) -> Row:
        return self._scan(
            lambda e: (
                self.mark_lease_expired_if_due(execution_id=e.execution_id)["outcome"] == "marked_expired"
            )
        )

    def scan_attempt_timeouts(self) -> Row:
        return self._scan_limits("attempt_timeout")

    def scan_execution_deadlines(self) -> Row:
        return self._scan_limits("execution_deadline")

    def trim_retention(self, *, retention_ms: int) -> Row:
        due = [
            e
            for e in self.executions.values()
            if e.terminal_at_ms is not None
            and (e.terminal_at_ms + retention_ms if e.purge_after_ms is None else e.purge_after_ms)
            <= self.now_ms
        ]
        for e in due:
            self.removed[e.execution_id] = self.executions.pop(e.execution_id)
        return {"processed": len(due), "flows_purged": 0, "skipped": 0, "errors": 0, "more": False}

    def _scan_limits(self, reason: str) -> Row:
        def is_expired(e: Execution) -> bool:
            expiry = self.expire_execution(
                execution_id=e.execution_id, expire_reason=reason, require_due=True
            )
            return bool(expiry["outcome"] == "expired")

        return self._scan(is_expired)

    def _scan(self, act: Callable[[Execution], bool]) -> Row:
        processed = sum([act(e) for e in self.executions.values()])
        return {"processed": processed, "skipped": 0, "errors": 0, "more": False}

    def _find(self, execution_id: str) -> Execution:
        if execution_id not in self.executions:
            raise RefusedError("execution_not_found", execution_id=execution_id)
        return self.executions[execution_id]


_CLAIM_COLUMNS = (
    "lease_id",
    "lease_epoch",
    "lease_expires_at_ms",
    "lease_renewal_deadline_ms",
    "attempt_id",
    "attempt_index",
    "attempt_type",
    "worker_instance_id",
    "lease_ttl_ms",
    "handle_kind",
)


def _claim_row(e: Execution, outcome: str, handle_kind: str, lease_ttl_ms: int) -> Row:
    attempt = e.current_attempt
    return {
        "outcome": outcome,
        "execution_id": e.execution_id,
        "lease_id": attempt.lease_id,
        "lease_epoch": attempt.lease_epoch,
        "lease_expires_at_ms": e.lease_expires_at_ms,
        "lease_renewal_deadline_ms": _known(e.lease_acquired_at_ms) + lease_ttl_ms * 2 // 3,
        "attempt_id": attempt.attempt_id,
        "attempt_index": attempt.attempt_index,
        "attempt_type": attempt.attempt_type,
        "lane_id": e.lane_id,
        "worker_instance_id": attempt.worker_instance_id,
        "lease_ttl_ms": lease_ttl_ms,
        "handle_kind": handle_kind,
    }


def _call_unless_repeated(
    call: Callable[[int, str], Row], item: int, wire_id: str | None, seen: set[str]
) -> Row:
    if wire_id is None:
        raise RefusedError("invalid_input")
    if wire_id in seen:
        raise RefusedError("invalid_input", field="execution_ids", reason="duplicate_in_batch")
    seen.add(wire_id)
    return call(item, wire_id)


def _clamped(priority: int) -> int:
    return max(0, min(priority, 9000))


def _check_lane(e: Execution, lane_id: str | None) -> None:
    if lane_id not in {None, e.lane_id}:
        raise RefusedError("invalid_input", field="lane_id")


def _not_active(e: Execution) -> RefusedError:
    return RefusedError(
        "execution_not_active",
        execution_id=e.execution_id,
        lifecycle_phase=e.lifecycle_phase,
        terminal_outcome=e.terminal_outcome,
        lease_epoch=e.current_lease_epoch,
        attempt_id=e.current_attempt_id,
        attempt_state=e.attempt_state,
        delay_until_ms=e.delay_until_ms,
    )


def _not_eligible(e: Execution) -> RefusedError:
    return RefusedError(
        "execution_not_eligible",
        execution_id=e.execution_id,
        lifecycle_phase=e.lifecycle_phase,
        eligibility_state=e.eligibility_state,
        blocking_reason=e.blocking_reason,
    )


def _not_leaseable(e: Execution) -> RefusedError:
    return RefusedError(
        "execution_not_leaseable",
        execution_id=e.execution_id,
        lifecycle_phase=e.lifecycle_phase,
        eligibility_state=e.eligibility_state,
        terminal_outcome=e.terminal_outcome,
    )


def _not_reclaimable(e: Execution, takeover_at_ms: int | None = None) -> RefusedError:
    return RefusedError(
        "execution_not_reclaimable",
        execution_id=e.execution_id,
        lifecycle_phase=e.lifecycle_phase,
        ownership_state=e.ownership_state,
        lease_expires_at_ms=e.lease_expires_at_ms,
        takeover_at_ms=takeover_at_ms,
    )
