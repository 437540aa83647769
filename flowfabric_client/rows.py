"""Rows: a frozen dataclass per result, with the field names of its SQL type.

Generated from the catalogue by `python tools/generate_client.py`; a change made here is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
class Admission:
    """Whether an execution may start under a quota policy; a denial is an outcome."""

    execution_id: str
    quota_policy_id: str
    outcome: str
    retry_after_ms: int | None


@dataclass(frozen=True, slots=True)
class AdmissionBlock:
    """Whether admission took an execution off the queue."""

    outcome: str
    eligibility_state: EligibilityState


@dataclass(frozen=True, slots=True)
class AppendedFrame:
    """The id that a frame got, and what the stream counts now."""

    entry_id: str
    frame_count: int
    summary_version: int | None


@dataclass(frozen=True, slots=True)
class AppliedEdge:
    """An edge that counts for its child, and how the child stands."""

    outcome: str
    unsatisfied_count: int
    group_state: str | None
    child_public_state: PublicState | None


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
class BacklogDrain:
    """Members of one cancelled flow that one run took from its backlog."""

    flow_id: UUID | None
    cancelled: int
    already_terminal: int
    remaining: int


@dataclass(frozen=True, slots=True)
class BootReport:
    """What a client process finds at its first call."""

    schema_version: int
    library_version: str
    num_flow_partitions: int
    event_epoch: int
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class BudgetCreation:
    """Whether a budget was defined or was there before."""

    outcome: str
    budget_id: str


@dataclass(frozen=True, slots=True)
class BudgetDimension:
    """Usage, reservations and limits of a budget in one dimension."""

    dimension: str
    current_value: int
    reserved_value: int
    hard_limit: int | None
    soft_limit: int | None
    hard_reached: bool


@dataclass(frozen=True, slots=True)
class BudgetReset:
    """A budget after its usage was set to zero."""

    next_reset_at_ms: int
    reset_count: int


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget with its breaches and resets."""

    budget_id: str
    scope_type: str
    scope_id: str
    enforcement_mode: str
    on_hard_limit: str
    on_soft_limit: str
    reset_interval_ms: int | None
    breach_count: int
    soft_breach_count: int
    reset_count: int
    last_breach_at_ms: int | None
    last_breach_dim: str | None
    last_reset_at_ms: int | None
    next_reset_at_ms: int | None
    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class CancelAcknowledgement:
    """Whether a member was waiting to be cancelled, and how many still are."""

    outcome: str
    remaining: int


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A cancelled execution and the phase it was taken from."""

    outcome: str
    execution_id: str
    cancelled_from: LifecyclePhase | None
    public_state: PublicState


@dataclass(frozen=True, slots=True)
class CapabilityFlag:
    """Whether this engine supports a named capability."""

    capability: str
    supported: bool
    note: str | None


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
class ClaimedExecution:
    """An execution under a new lease, with everything needed to run it."""

    execution_id: str
    lane_id: str
    namespace: str
    execution_kind: str
    priority: int
    lease_id: UUID
    lease_epoch: int
    lease_expires_at_ms: int
    lease_renewal_deadline_ms: int
    attempt_id: UUID
    attempt_index: int
    attempt_type: AttemptType
    handle_kind: str
    worker_instance_id: str
    lease_ttl_ms: int
    payload: bytes | None
    payload_encoding: str | None
    tags: dict[str, Any]
    policy: dict[str, Any] | None
    flow_id: UUID | None
    required_capabilities: list[str]
    created_at_ms: int
    started_at_ms: int
    deadline_at_ms: int | None
    attempt_timeout_at_ms: int | None
    total_attempt_count: int


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
class DependencyDispatch:
    """Deferred edge resolutions of one flow that one run of the dispatcher did."""

    flow_id: UUID | None
    outbox_done: int
    edges_resolved: int
    children_eligible: int
    children_skipped: int
    more: bool


@dataclass(frozen=True, slots=True)
class DependencyReconciliation:
    """What the safety net behind edge resolution had to repair; nothing in a sound database."""

    rearmed: int
    promoted: int
    skipped_children: int
    skipped: int
    errors: int


@dataclass(frozen=True, slots=True)
class EdgeGroupListing:
    """The join of one child: its policy, its counts and its verdict."""

    execution_id: str
    policy_kind: str
    k: int | None
    on_satisfied: str | None
    total_deps: int
    satisfied_count: int
    failed_count: int
    skipped_count: int
    running_count: int
    group_state: str
    satisfied_at_ms: int | None
    impossible_at_ms: int | None
    cancel_siblings_pending: bool


@dataclass(frozen=True, slots=True)
class EdgeResolution:
    """What the resolution of one edge did to the join and to the child."""

    outcome: str
    group_state: str | None
    child_eligible: bool
    child_skipped: bool
    data_injected: bool


@dataclass(frozen=True, slots=True)
class EdgeSnapshot:
    """Everything about an edge."""

    edge_id: UUID
    flow_id: UUID
    upstream_execution_id: str
    downstream_execution_id: str
    dependency_kind: str
    satisfaction_condition: str
    data_passing_ref: str | None
    dep_state: str
    resolved_outcome: TerminalOutcome | None
    created_at_ms: int
    applied_at_ms: int | None
    resolved_at_ms: int | None
    created_by: str


@dataclass(frozen=True, slots=True)
class EligibleListing:
    """One execution of a lane's queue."""

    execution_id: str
    priority: int
    created_at_ms: int
    attempt_state: AttemptState
    required_capabilities: list[str]
    has_more: bool


@dataclass(frozen=True, slots=True)
class EndedSuspension:
    """A waitpoint of a pause that is over, with one of the signals that ended the pause if there were any."""

    suspension_id: UUID
    attempt_index: int
    ended_by: str
    waitpoint_id: UUID
    waitpoint_key: str
    signal_id: UUID | None
    signal_name: str | None
    signal_category: str | None
    source_type: str | None
    source_identity: str | None
    correlation_id: str | None
    payload: bytes | None
    payload_encoding: str | None
    accepted_at_ms: int | None


@dataclass(frozen=True, slots=True)
class ErrorCodeRow:
    """One typed error of the catalogue."""

    code: str
    sqlstate: str
    category: str
    retry_class: str
    hint: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream or, without an event id, the position at which to read on."""

    cursor: str
    more: bool | None
    stream: str | None
    event_id: int | None
    partition_key: int | None
    occurred_at_ms: int | None
    namespace: str | None
    instance_tag: str | None
    execution_id: str | None
    flow_id: UUID | None
    event_type: str | None
    outcome: TerminalOutcome | None
    lane_id: str | None
    attempt_index: int | None
    attempt_id: UUID | None
    lease_id: UUID | None
    lease_epoch: int | None
    old_lease_epoch: int | None
    worker_id: str | None
    worker_instance_id: str | None
    reason: str | None
    signal_id: UUID | None
    signal_name: str | None
    waitpoint_id: UUID | None
    source_type: str | None
    source_identity: str | None
    effect: str | None
    details: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class EventStreamLag:
    """What readers of an event stream can have, what they must wait for, and who makes them wait."""

    stream: str
    newest_occurred_at_ms: int | None
    deliverable_rows: int
    held_back_rows: int
    oldest_running_xact: str | None
    oldest_running_pid: int | None
    oldest_running_since_ms: int | None
    prepared_xact_count: int
    consumers: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class EventWait:
    """Until when a reader is woken, on which channels, and whether at all."""

    until_ms: int | None
    channels: list[str]
    notify: bool


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
    execution_id: str | None
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
    """One execution of a list; a row without an execution id says only where the search continues."""

    execution_id: str | None
    namespace: str | None
    lane_id: str | None
    execution_kind: str | None
    public_state: PublicState | None
    priority: int | None
    created_at_ms: int | None
    flow_id: UUID | None
    has_more: bool
    next_after: str | None


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
class ExpiredLeaseListing:
    """One lease that has run out, and who held it; a row without an execution id says only where the list
    continues.
    """

    execution_id: str | None
    lease_id: UUID | None
    lease_epoch: int | None
    attempt_id: UUID | None
    attempt_index: int | None
    worker_id: str | None
    worker_instance_id: str | None
    lease_expires_at_ms: int | None
    ownership_state: OwnershipState | None
    has_more: bool
    next_after_expires_at_ms: int | None
    next_after_partition_key: int | None
    next_after_execution_id: UUID | None
    takeover_at_ms: int


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
class Explanation:
    """Why an execution is where it is, until when, and what to do about it."""

    execution_id: str
    public_state: PublicState | None
    verdict: str
    summary: str
    since_ms: int | None
    until_ms: int | None
    what_to_do: str | None
    detail: dict[str, Any] | None


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
class Finding:
    """Something about the installation that deserves attention, and what to do."""

    check_name: str
    severity: str
    finding: str
    what_to_do: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FloorScan:
    """What one run of the scanner of claim floors did."""

    processed: int
    skipped: int
    errors: int
    more: bool
    deleted: int


@dataclass(frozen=True, slots=True)
class FlowCancellation:
    """A cancelled flow: what became of its members at once, and how many are left to the backlog."""

    outcome: str
    cancellation_policy: str
    cancel_reason: str | None
    public_flow_state: str
    member_execution_ids: list[str]
    member_count: int
    cancelled_count: int
    pending_count: int


@dataclass(frozen=True, slots=True)
class FlowCreation:
    """Whether a flow was created or was there before."""

    flow_id: UUID
    outcome: str


@dataclass(frozen=True, slots=True)
class FlowEligibility:
    """Whether an execution could run as far as its dependencies go."""

    status: str


@dataclass(frozen=True, slots=True)
class FlowListing:
    """One flow of a list."""

    flow_id: UUID
    created_at_ms: int
    status: str
    has_more: bool


@dataclass(frozen=True, slots=True)
class FlowMembership:
    """An execution that is a member of a flow, and the flow's counts then."""

    execution_id: str
    node_count: int
    graph_revision: int
    outcome: str


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """Everything about a flow but its members."""

    flow_id: UUID
    partition_key: int
    flow_kind: str
    namespace: str
    public_flow_state: str
    graph_revision: int
    node_count: int
    edge_count: int
    created_at_ms: int
    last_mutation_at_ms: int
    cancelled_at_ms: int | None
    terminal_at_ms: int | None
    cancel_reason: str | None
    cancellation_policy: str | None
    tags: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FlowSummarySnapshot:
    """How the members of a flow fare, by state."""

    flow_id: UUID
    total_members: int
    sampled_members: int
    members_completed: int
    members_failed: int
    members_cancelled: int
    members_expired: int
    members_skipped: int
    members_active: int
    members_suspended: int
    members_waiting: int
    members_delayed: int
    members_rate_limited: int
    members_waiting_children: int
    public_flow_state: str
    status: str
    last_summary_update_at: int


@dataclass(frozen=True, slots=True)
class FlowTagging:
    """How many tags of a flow were set."""

    count: int


@dataclass(frozen=True, slots=True)
class Grant:
    """A short reservation for one worker, or the capabilities it lacks."""

    outcome: str
    execution_id: str
    lane_id: str
    grant_key: str | None = field(repr=False)
    grant_id: bytes | None
    expires_at_ms: int | None
    missing_capabilities: list[str]


@dataclass(frozen=True, slots=True)
class GrantedExecution:
    """A short reservation of the next execution for one worker."""

    execution_id: str
    lane_id: str
    resumed: bool
    grant_key: str = field(repr=False)
    grant_id: bytes
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class InitializeStep:
    """One step of ff_initialize."""

    step: str
    outcome: str


@dataclass(frozen=True, slots=True)
class InvariantFinding:
    """A stored row that breaks a rule of the state model."""

    check_name: str
    execution_id: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """Whether a signing key was installed, and which one signs now."""

    outcome: str
    previous_kid: str | None
    new_kid: str
    current_kid: str
    gc_count: int


@dataclass(frozen=True, slots=True)
class KeySeeding:
    """Whether the first signing key was installed; same_secret compares a secret given for a key that is
    there.
    """

    outcome: str
    kid: str
    same_secret: bool | None


@dataclass(frozen=True, slots=True)
class KidListing:
    """One signing key that verifies tokens now, by name."""

    kid: str
    status: str
    expires_at_ms: int | None
    installed_at_ms: int


@dataclass(frozen=True, slots=True)
class LaneListing:
    """One lane of a list."""

    lane_id: str
    lane_state: str
    registered_at_ms: int
    registered_by: str
    state_changed_at_ms: int | None
    state_reason: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class LaneStateChange:
    """Outcome of ff_set_lane_state."""

    outcome: str
    previous_state: str | None


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
class Metric:
    """One measurement; capped says that the true value is at least this."""

    metric: str
    labels: dict[str, Any]
    value: float
    unit: str
    capped: bool


@dataclass(frozen=True, slots=True)
class MintedWaitpoint:
    """A waitpoint opened before its suspension, with its token."""

    waitpoint_id: UUID
    waitpoint_key: str
    waitpoint_token: str = field(repr=False)
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class ObservedSignal:
    """One of the signals that satisfied a resume condition."""

    signal_id: UUID
    waitpoint_id: UUID
    waitpoint_key: str
    signal_name: str
    signal_category: str | None
    source_type: str | None
    source_identity: str | None
    correlation_id: str | None
    payload: bytes | None
    payload_encoding: str | None
    accepted_at_ms: int


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
class QueueStat:
    """One lane: its executions that have not ended, by state."""

    lane_id: str
    waiting: int
    delayed: int
    rate_limited: int
    waiting_children: int
    active: int
    suspended: int
    oldest_eligible_created_at_ms: int | None
    expired_leases: int


@dataclass(frozen=True, slots=True)
class QuotaCreation:
    """Whether a quota policy was defined or was there before."""

    outcome: str
    quota_policy_id: str


@dataclass(frozen=True, slots=True)
class QuotaReconciliation:
    """What one run of the quota scanner repaired and removed."""

    processed: int
    skipped: int
    errors: int
    more: bool
    slots_released: int
    window_entries_deleted: int
    admissions_deleted: int


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """The limits of a quota policy and what of them is in use."""

    quota_policy_id: str
    requests_per_window_seconds: int
    max_requests_per_window: int
    active_concurrency_cap: int
    jitter_ms: int
    entries_in_window: int
    active_concurrency: int
    is_unlimited: bool
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class ReadableToken:
    """A token handed out again, and the key it was minted under."""

    waitpoint_token: str = field(repr=False)
    token_kid: str


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
class ReclaimedExecution:
    """An execution taken over under a new lease, or one that was ended because that had happened too
    often.
    """

    outcome: str
    execution_id: str
    lane_id: str
    namespace: str
    execution_kind: str
    priority: int
    lease_id: UUID | None
    lease_epoch: int | None
    lease_expires_at_ms: int | None
    lease_renewal_deadline_ms: int | None
    attempt_id: UUID | None
    attempt_index: int | None
    attempt_type: AttemptType | None
    handle_kind: str | None
    worker_instance_id: str | None
    lease_ttl_ms: int | None
    payload: bytes | None
    payload_encoding: str | None
    tags: dict[str, Any] | None
    policy: dict[str, Any] | None
    flow_id: UUID | None
    required_capabilities: list[str]
    created_at_ms: int
    started_at_ms: int | None
    deadline_at_ms: int | None
    attempt_timeout_at_ms: int | None
    total_attempt_count: int
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
    result_given_up: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """Amounts set aside, or the limit they would pass."""

    outcome: str
    budget_id: str
    reservation_key: str | None
    dimensions: list[str] | None
    amounts: list[int] | None
    dimension: str | None
    current_usage: int | None
    reserved_usage: int | None
    limit_value: int | None
    action: str | None


@dataclass(frozen=True, slots=True)
class Resumption:
    """A resumed execution: waiting, or delayed until a time."""

    public_state: PublicState
    delay_until_ms: int | None


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
class ScannerFailureListing:
    """An item at which a scanner keeps failing."""

    scanner: str
    item_key: str
    failures: int
    skip_until_ms: int | None
    last_error: str | None
    last_failed_at_ms: int
    has_more: bool


@dataclass(frozen=True, slots=True)
class ScannerListing:
    """A scanner: its schedule, its last run and by how much it is late."""

    scanner: str
    function_name: str
    run_order: int
    enabled: bool
    interval_ms: int
    batch_limit: int
    next_due_at_ms: int
    last_run_at_ms: int | None
    last_duration_ms: int | None
    last_processed: int | None
    last_skipped: int | None
    last_errors: int | None
    total_processed: int
    consecutive_failures: int
    last_error: str | None
    overdue_ms: int | None


@dataclass(frozen=True, slots=True)
class ScannerRun:
    """What became of one scanner in a tick, and what it did if it ran."""

    scanner: str
    status: str
    processed: int | None
    skipped: int | None
    errors: int | None
    more: bool | None
    duration_ms: int | None
    last_error: str | None


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
class SiblingDispatch:
    """Deferred sibling cancels of one join that one run of the dispatcher did."""

    flow_id: UUID | None
    downstream_execution_id: str | None
    cancelled: int
    already_terminal: int
    not_found: int
    drained: bool


@dataclass(frozen=True, slots=True)
class SiblingReconcileScan:
    """What one run over pending sibling cancels found."""

    sremmed_stale: int
    completed_drain: int
    no_op: int


@dataclass(frozen=True, slots=True)
class SiblingReconciliation:
    """What a pending sibling cancel turned out to need."""

    action: str
    detail: str


@dataclass(frozen=True, slots=True)
class SignalDelivery:
    """What became of a signal; a duplicate has no effect."""

    outcome: str
    signal_id: UUID
    effect: str | None


@dataclass(frozen=True, slots=True)
class StagedEdge:
    """An edge that is part of the graph, and the revision to use for the next one."""

    edge_id: UUID
    new_graph_revision: int


@dataclass(frozen=True, slots=True)
class StateOutcome:
    """What a move between queue states did."""

    outcome: str
    public_state: PublicState | None


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One frame of a stream, or none, with the end of the stream if it has ended."""

    entry_id: str | None
    frame_type: str | None
    frame_ts_ms: int | None
    payload: bytes | None
    encoding: str | None
    source: str | None
    mode: str | None
    correlation_id: str | None
    summary_version: int | None
    ttl_ms: int | None
    closed_at_ms: int | None
    closed_reason: str | None


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """What is known of a stream without its frames."""

    attempt_id: UUID | None
    created_at_ms: int
    closed_at_ms: int | None
    closed_reason: str | None
    last_entry_id: str | None
    frame_count: int
    retained_count: int
    total_bytes: int
    last_frame_at_ms: int | None
    has_durable_frame: bool
    expires_at_ms: int | None
    ema_rate_hz: float | None
    maxlen_applied_last: int | None


@dataclass(frozen=True, slots=True)
class SubmittedMember:
    """One member of a submitted flow, in the order of the document."""

    flow_id: UUID
    outcome: str
    graph_revision: int
    name: str
    execution_id: str
    public_state: PublicState | None


@dataclass(frozen=True, slots=True)
class SummaryDocument:
    """The document that the summary frames of an attempt add up to."""

    document_json: dict[str, Any]
    version: int
    patch_kind: str
    last_updated_ms: int
    first_applied_ms: int


@dataclass(frozen=True, slots=True)
class SuspendedWaitpoint:
    """One waitpoint of a suspension with its token, and whether the execution is suspended or goes on."""

    outcome: str
    suspension_id: UUID | None
    ordinal: int | None
    waitpoint_id: UUID | None
    waitpoint_key: str | None
    waitpoint_token: str | None = field(repr=False)
    replayed: bool


@dataclass(frozen=True, slots=True)
class SuspensionListing:
    """One open suspension of a list."""

    execution_id: str
    suspended_at_ms: int
    reason_code: str
    timeout_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Tagging:
    """How many tags were set."""

    outcome: str
    tag_count: int


@dataclass(frozen=True, slots=True)
class UnblockScan:
    """What one run of the unblock scanner let go, in all and by cause."""

    processed: int
    skipped: int
    errors: int
    more: bool
    budget: int
    quota: int
    route: int
    lane: int


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Whether usage was booked, and the limit it met."""

    outcome: str
    dimension: str | None
    current_usage: int | None
    limit_value: int | None
    action: str | None


@dataclass(frozen=True, slots=True)
class WaitpointListing:
    """One open waitpoint of a list; next_cursor is on the last row of a page that has a next one."""

    waitpoint_id: UUID
    waitpoint_key: str
    state: str
    required_signal_names: list[str]
    created_at_ms: int
    activated_at_ms: int | None
    expires_at_ms: int | None
    execution_id: str
    token_kid: str
    token_fingerprint: str
    next_cursor: UUID | None


@dataclass(frozen=True, slots=True)
class WorkWait:
    """Until when a worker is woken for new work, and whether at all."""

    until_ms: int | None
    notify: bool


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """Whether a worker process is still known, and whether it should stop taking work."""

    outcome: str
    next_expiry_ms: int | None
    draining: bool | None
    drain_reason: str | None


@dataclass(frozen=True, slots=True)
class WorkerLeaseListing:
    """One lease of a worker, with the whole fence."""

    execution_id: str
    lease_id: UUID
    lease_epoch: int
    attempt_id: UUID
    attempt_index: int
    lease_expires_at_ms: int
    lane_id: str
    ownership_state: OwnershipState
    has_more: bool


@dataclass(frozen=True, slots=True)
class WorkerListing:
    """One worker process of a list."""

    namespace: str
    worker_instance_id: str
    worker_id: str
    lanes: list[str]
    capabilities: list[str]
    last_heartbeat_ms: int
    liveness_ttl_ms: int
    expires_at_ms: int
    registered_at_ms: int
    draining: bool
    drain_reason: str | None
    live: bool
    has_more: bool


@dataclass(frozen=True, slots=True)
class WorkerRegistration:
    """A worker process that is known until its time runs out."""

    outcome: str
    next_expiry_ms: int
    draining: bool
