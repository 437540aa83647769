"""Rows: a frozen dataclass per result, with the field names of its SQL type.

Generated from the catalogue by `python tools/generate_client.py`; a change made here is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

AttemptRowState = Literal[
    "created",
    "started",
    "suspended",
    "ended_success",
    "ended_failure",
    "ended_cancelled",
    "interrupted_reclaimed",
]


AttemptState = Literal[
    "none",
    "pending_first_attempt",
    "running_attempt",
    "attempt_interrupted",
    "pending_retry_attempt",
    "pending_replay_attempt",
    "attempt_terminal",
]


AttemptType = Literal["initial", "retry", "reclaim", "replay", "fallback"]


BlockingReason = Literal[
    "none",
    "waiting_for_worker",
    "waiting_for_retry_backoff",
    "waiting_for_resume_delay",
    "waiting_for_delay",
    "waiting_for_signal",
    "waiting_for_approval",
    "waiting_for_callback",
    "waiting_for_tool_result",
    "waiting_for_children",
    "waiting_for_budget",
    "waiting_for_quota",
    "waiting_for_capable_worker",
    "waiting_for_locality_match",
    "paused_by_operator",
    "paused_by_policy",
    "paused_by_flow_cancel",
]


EligibilityState = Literal[
    "eligible_now",
    "not_eligible_until_time",
    "blocked_by_dependencies",
    "blocked_by_budget",
    "blocked_by_quota",
    "blocked_by_route",
    "blocked_by_lane_state",
    "blocked_by_operator",
    "not_applicable",
]


LifecyclePhase = Literal["runnable", "active", "suspended", "terminal"]


OwnershipState = Literal["unowned", "leased", "lease_expired_reclaimable", "lease_revoked"]


PublicState = Literal[
    "waiting",
    "delayed",
    "rate_limited",
    "waiting_children",
    "active",
    "suspended",
    "completed",
    "failed",
    "cancelled",
    "expired",
    "skipped",
]


TerminalOutcome = Literal["none", "success", "failed", "cancelled", "expired", "skipped"]


@dataclass(frozen=True, slots=True)
class AdmissionBlock:
    """Whether admission took an execution off the queue."""

    outcome: str
    eligibility_state: EligibilityState


@dataclass(frozen=True, slots=True)
class AttemptListing:
    """One attempt of a list, with the end of its stream."""

    attempt_index: int
    attempt_id: UUID
    attempt_type: AttemptType
    attempt_state: AttemptRowState
    created_at_ms: int
    started_at_ms: int
    suspended_at_ms: int | None
    resumed_at_ms: int | None
    ended_at_ms: int | None
    lease_id: UUID
    lease_epoch: int
    worker_id: str
    worker_instance_id: str
    failure_reason: str | None
    failure_category: str | None
    retry_reason: str | None
    reclaim_reason: str | None
    replay_reason: str | None
    replay_requested_by: str | None
    previous_attempt_index: int | None
    replayed_from_attempt_index: int | None
    stream_closed_at_ms: int | None
    stream_closed_reason: str | None
    frame_count: int | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class BootReport:
    """What a client process finds at its first call."""

    schema_version: int
    library_version: str
    num_flow_partitions: int
    event_epoch: int
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A cancelled execution and the phase it was taken from."""

    outcome: str
    execution_id: str
    cancelled_from: LifecyclePhase | None
    public_state: PublicState


@dataclass(frozen=True, slots=True)
class Claim:
    """A new lease with everything a handle needs."""

    outcome: str
    execution_id: str
    lease_id: UUID
    lease_epoch: int
    lease_expires_at_ms: int
    lease_renewal_deadline_ms: int
    attempt_id: UUID
    attempt_index: int
    attempt_type: AttemptType
    lane_id: str
    worker_instance_id: str
    lease_ttl_ms: int
    handle_kind: str


@dataclass(frozen=True, slots=True)
class ClockState:
    """The engine's clock after ff_test_set_clock."""

    mode: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Delay:
    """An execution given back until a time."""

    outcome: str
    execution_id: str
    delay_until_ms: int
    public_state: PublicState


@dataclass(frozen=True, slots=True)
class ErrorCodeRow:
    """One typed error of the catalogue."""

    code: str
    sqlstate: str
    category: str
    retry_class: str
    hint: str


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What a worker needs to run an execution."""

    input_payload: bytes
    payload_encoding: str | None
    execution_kind: str
    tags: dict[str, Any]
    policy: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """The state of an execution in upstream's shape."""

    execution_id: str
    namespace: str
    lane_id: str
    priority: int
    execution_kind: str
    lifecycle_phase: LifecyclePhase
    ownership_state: OwnershipState
    eligibility_state: EligibilityState
    blocking_reason: BlockingReason
    terminal_outcome: TerminalOutcome
    attempt_state: AttemptState
    public_state: PublicState
    created_at_ms: int
    started_at_ms: int | None
    terminal_at_ms: int | None
    current_attempt_index: int | None
    flow_id: UUID | None
    blocking_detail: str | None
    total_attempt_count: int
    retry_count: int
    replay_count: int
    lease_reclaim_count: int
    failure_reason: str | None
    cancellation_reason: str | None
    cancelled_by: str | None


@dataclass(frozen=True, slots=True)
class ExecutionItem:
    """What became of one item of a batch; code, sqlstate and detail only when it was refused."""

    item: int
    execution_id: str
    outcome: str
    code: str | None
    sqlstate: str | None
    detail: dict[str, Any] | None
    public_state: PublicState | None


@dataclass(frozen=True, slots=True)
class ExecutionKey:
    """An execution id as the tables hold it."""

    partition_key: int
    execution_id: UUID


@dataclass(frozen=True, slots=True)
class ExecutionListing:
    """One execution of a list."""

    execution_id: str
    namespace: str
    lane_id: str
    execution_kind: str
    public_state: PublicState
    priority: int
    created_at_ms: int
    flow_id: UUID | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class ExecutionOutcome:
    """What became of one execution: create, complete, wait for children."""

    outcome: str
    execution_id: str
    public_state: PublicState | None


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The bytes of the last successful completion."""

    result: bytes | None
    result_encoding: str | None


@dataclass(frozen=True, slots=True)
class ExecutionSnapshot:
    """Everything about an execution but its bytes."""

    execution_id: str
    partition_key: int
    flow_id: UUID | None
    namespace: str
    lane_id: str
    execution_kind: str
    creator_identity: str | None
    priority: int
    required_capabilities: list[str]
    budget_ids: list[str]
    quota_policy_id: str | None
    lifecycle_phase: LifecyclePhase
    ownership_state: OwnershipState
    eligibility_state: EligibilityState
    blocking_reason: BlockingReason
    blocking_detail: str | None
    terminal_outcome: TerminalOutcome
    attempt_state: AttemptState
    public_state: PublicState
    created_at_ms: int
    started_at_ms: int | None
    terminal_at_ms: int | None
    last_transition_at_ms: int
    last_mutation_at_ms: int
    delay_until_ms: int | None
    deadline_at_ms: int | None
    attempt_timeout_at_ms: int | None
    total_attempt_count: int
    retry_count: int
    replay_count: int
    lease_reclaim_count: int
    current_attempt_id: UUID | None
    current_attempt_index: int | None
    lease_id: UUID | None
    lease_epoch: int
    worker_id: str | None
    worker_instance_id: str | None
    lease_acquired_at_ms: int | None
    lease_expires_at_ms: int | None
    lease_last_renewed_at_ms: int | None
    lease_is_expired: bool | None
    lease_expired_at_ms: int | None
    lease_revoked_at_ms: int | None
    lease_revoke_reason: str | None
    current_suspension_id: UUID | None
    current_waitpoint_id: UUID | None
    progress_pct: int | None
    progress_message: str | None
    progress_updated_at_ms: int | None
    failure_reason: str | None
    cancellation_reason: str | None
    cancelled_by: str | None
    last_capability_mismatch_at_ms: int | None
    tags: dict[str, Any]
    has_result: bool


@dataclass(frozen=True, slots=True)
class Expiry:
    """Whether an execution was ended by a time limit."""

    outcome: str
    expired_from: LifecyclePhase | None
    public_state: PublicState | None


@dataclass(frozen=True, slots=True)
class ExpiryMark:
    """Whether a lease was marked expired, and if not why."""

    outcome: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Failure:
    """What became of a failed attempt: a retry or the end."""

    outcome: str
    execution_id: str
    public_state: PublicState
    delay_until_ms: int | None
    next_attempt_index: int | None


@dataclass(frozen=True, slots=True)
class FailureItem:
    """What became of a failed attempt of a batch."""

    item: int
    execution_id: str
    outcome: str
    code: str | None
    sqlstate: str | None
    detail: dict[str, Any] | None
    public_state: PublicState | None
    delay_until_ms: int | None
    next_attempt_index: int | None


@dataclass(frozen=True, slots=True)
class Grant:
    """A short reservation for one worker, or the capabilities it lacks."""

    outcome: str
    execution_id: str
    lane_id: str
    grant_key: str | None
    grant_id: bytes | None
    expires_at_ms: int | None
    missing_capabilities: list[str]


@dataclass(frozen=True, slots=True)
class InvariantFinding:
    """A stored row that breaks a rule of the state model."""

    check_name: str
    execution_id: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseHistoryRow:
    """One lease event of an execution."""

    event_id: int
    occurred_at_ms: int
    event_type: str
    lease_id: UUID | None
    lease_epoch: int | None
    old_lease_epoch: int | None
    attempt_index: int | None
    attempt_id: UUID | None
    worker_id: str | None
    worker_instance_id: str | None
    reason: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome with nothing beside it."""

    outcome: str


@dataclass(frozen=True, slots=True)
class PriorityChange:
    """A priority before and after, both within range."""

    old_priority: int
    new_priority: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Acknowledges a progress report."""

    outcome: str
    execution_id: str


@dataclass(frozen=True, slots=True)
class Reclaim:
    """A lease taken over, or the end of an execution that was taken over too often."""

    outcome: str
    execution_id: str
    lease_id: UUID | None
    lease_epoch: int | None
    lease_expires_at_ms: int | None
    lease_renewal_deadline_ms: int | None
    attempt_id: UUID | None
    attempt_index: int | None
    attempt_type: AttemptType | None
    lane_id: str
    worker_instance_id: str | None
    lease_ttl_ms: int | None
    handle_kind: str | None
    reclaim_count: int
    max_reclaim_count: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """A lease with its new expiry."""

    outcome: str
    execution_id: str
    lease_expires_at_ms: int
    lease_renewal_deadline_ms: int
    lease_epoch: int


@dataclass(frozen=True, slots=True)
class RenewalItem:
    """A lease of a batch with its new expiry, or why it has none."""

    item: int
    execution_id: str
    outcome: str
    code: str | None
    sqlstate: str | None
    detail: dict[str, Any] | None
    lease_expires_at_ms: int | None
    lease_renewal_deadline_ms: int | None
    lease_epoch: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """An ended execution re-opened for another attempt."""

    outcome: str
    public_state: PublicState
    branch: str
    replay_count: int
    unsatisfied_count: int
    stale_upstream_count: int


@dataclass(frozen=True, slots=True)
class RetentionScan:
    """What one run of the retention scanner removed."""

    processed: int
    flows_purged: int
    skipped: int
    errors: int
    more: bool


@dataclass(frozen=True, slots=True)
class Revocation:
    """A lease taken away, or why there was nothing to take."""

    outcome: str
    reason: str | None
    lease_id: UUID | None
    lease_epoch: int | None


@dataclass(frozen=True, slots=True)
class Scan:
    """What one run of a scanner did."""

    processed: int
    skipped: int
    errors: int
    more: bool


@dataclass(frozen=True, slots=True)
class SettingChange:
    """Outcome of ff_set_setting."""

    outcome: str
    previous_value: int | None


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting with its default."""

    name: str
    value: int
    default_value: int
    is_default: bool


@dataclass(frozen=True, slots=True)
class StateOutcome:
    """What a move between queue states did."""

    outcome: str
    public_state: PublicState | None


@dataclass(frozen=True, slots=True)
class Tagging:
    """How many tags were set."""

    outcome: str
    tag_count: int
