-- What decides which execution runs next, who may run it and how much may run: interned capability sets,
-- lanes and their claim floors, quotas, budgets with reservations, and the registry of workers.
--
-- Locks:  nothing that exists; every table is new.
-- Beside: there is no previous release.
--
-- Lanes, quotas, budgets and workers are not bound to a partition and carry no partition key;
-- rows about an execution keep (partition_key, execution_id).
--
-- depends: 0002.execution

-- Capability sets -----------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_capability_set (
    capability_set_id integer not null generated always as identity (start with 2),
    tokens text[] collate "C" not null,
    created_at_ms bigint not null,
    constraint ff_capability_set_pkey primary key (capability_set_id),
    -- serves ff_create_execution. Unique by hash: a set may have 4096 bytes, a btree entry 2704. An exclusion
    -- constraint is no target for `on conflict (tokens)`; `on conflict do nothing` without a target honours it.
    constraint ff_capability_set_tokens_are_unique exclude using hash (tokens with =)
);

comment on table flowfabric.ff_capability_set is
'Every distinct set of required capabilities, once: claims look for sets a worker covers, not for executions.';
comment on column flowfabric.ff_capability_set.capability_set_id is
'Number that executions and claim floors refer to; 1 is the empty set, which every worker covers.';
comment on column flowfabric.ff_capability_set.tokens is
'The required capabilities in byte order without duplicates; a worker qualifies when it offers all of them.';
comment on column flowfabric.ff_capability_set.created_at_ms is
'When an execution first required this set.';

insert into flowfabric.ff_capability_set (capability_set_id, tokens, created_at_ms)
overriding system value
values (1, '{}', floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
on conflict do nothing;

-- Lanes ---------------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_lane_registry (
    lane_id text collate "C" not null,
    lane_state text not null default 'active',
    lane_crc integer not null,
    registered_at_ms bigint not null,
    registered_by text not null,
    state_changed_at_ms bigint,
    state_reason text,
    constraint ff_lane_registry_pkey primary key (lane_id),
    constraint ff_lane_registry_lane_state_is_known
    check (lane_state in ('active', 'paused', 'draining', 'disabled'))
);

comment on table flowfabric.ff_lane_registry is
'The lanes (named queues) that exist, and whether each accepts and hands out work.';
comment on column flowfabric.ff_lane_registry.lane_id is
'Name of the lane: 1 to 64 bytes of printable ASCII.';
comment on column flowfabric.ff_lane_registry.lane_state is
'active: accepts and serves. paused: accepts only. draining: serves only. disabled: neither.';
comment on column flowfabric.ff_lane_registry.lane_crc is
'CRC-16 of the lane id, from which its partition follows; kept here because a creation reads the row anyway.';
comment on column flowfabric.ff_lane_registry.registered_at_ms is
'When the lane was first used or registered.';
comment on column flowfabric.ff_lane_registry.registered_by is
'What registered it: create_execution, initialize, operator, or the name that the operator gave.';
comment on column flowfabric.ff_lane_registry.state_changed_at_ms is
'When lane_state last changed; null while it never did.';
comment on column flowfabric.ff_lane_registry.state_reason is
'Why the operator put the lane into its state.';

-- Unlogged: a floor is a hint where to start reading, and losing it costs time, never an execution.
create unlogged table if not exists flowfabric.ff_lane_floor (
    lane_id text collate "C" not null,
    capability_set_id integer not null,
    priority integer not null,
    floor_ms bigint not null default 0,
    checked_at_ms bigint not null,
    raised_at_ms bigint not null,
    constraint ff_lane_floor_pkey primary key (lane_id, capability_set_id, priority)
) with (autovacuum_vacuum_scale_factor = 0.02);

comment on table flowfabric.ff_lane_floor is
'Per queue segment, where a claim starts to read, so that it does not walk over the dead entries of claimed rows.';
comment on column flowfabric.ff_lane_floor.lane_id is
'Lane of the segment.';
comment on column flowfabric.ff_lane_floor.capability_set_id is
'Required capabilities of the executions in the segment.';
comment on column flowfabric.ff_lane_floor.priority is
'Priority of the executions in the segment.';
comment on column flowfabric.ff_lane_floor.floor_ms is
'No eligible execution created before this was visible when the segment was last read from its beginning.';
comment on column flowfabric.ff_lane_floor.checked_at_ms is
'When that was; 0 asks the next claim to look below the floor.';
comment on column flowfabric.ff_lane_floor.raised_at_ms is
'When the floor last grew; an idle segment is forgotten an hour later.';

-- Quotas --------------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_quota_policy (
    quota_policy_id text collate "C" not null,
    requests_per_window_seconds bigint not null,
    max_requests_per_window bigint not null,
    active_concurrency_cap bigint not null,
    jitter_ms bigint not null default 0,
    created_at_ms bigint not null,
    updated_at_ms bigint not null,
    constraint ff_quota_policy_pkey primary key (quota_policy_id),
    constraint ff_quota_policy_requests_per_window_seconds_is_not_negative
    check (requests_per_window_seconds >= 0),
    constraint ff_quota_policy_max_requests_per_window_is_not_negative
    check (max_requests_per_window >= 0),
    constraint ff_quota_policy_active_concurrency_cap_is_not_negative
    check (active_concurrency_cap >= 0),
    constraint ff_quota_policy_jitter_is_not_negative
    check (jitter_ms >= 0)
);

comment on table flowfabric.ff_quota_policy is
'How many executions may start per sliding window and be active at once; its row lock serialises admissions.';
comment on column flowfabric.ff_quota_policy.quota_policy_id is
'Name the operator chose; executions refer to it.';
comment on column flowfabric.ff_quota_policy.requests_per_window_seconds is
'Length of the sliding window in seconds.';
comment on column flowfabric.ff_quota_policy.max_requests_per_window is
'Starts allowed inside the window; 0 means no rate limit.';
comment on column flowfabric.ff_quota_policy.active_concurrency_cap is
'Executions that may hold a slot at once; 0 means no cap.';
comment on column flowfabric.ff_quota_policy.jitter_ms is
'Upper end of the random wait added to the retry hint of a rate-limited caller, so that they do not return together.';
comment on column flowfabric.ff_quota_policy.created_at_ms is
'When the policy was defined.';
comment on column flowfabric.ff_quota_policy.updated_at_ms is
'When the row last changed; policies are immutable, so this is the creation.';

create table if not exists flowfabric.ff_quota_window (
    quota_policy_id text collate "C" not null,
    partition_key smallint not null,
    execution_id uuid not null,
    admitted_at_ms bigint not null,
    constraint ff_quota_window_pkey primary key (quota_policy_id, partition_key, execution_id)
);

-- serves ff_check_admission_and_record: slide the window, count what is left, find when the oldest leaves
create index if not exists ff_quota_window_admitted_at_idx
on flowfabric.ff_quota_window (quota_policy_id, admitted_at_ms);
-- serves ff_trim_retention: rows of one execution
create index if not exists ff_quota_window_execution_idx
on flowfabric.ff_quota_window (partition_key, execution_id);

comment on table flowfabric.ff_quota_window is
'Rate tokens spent: one per policy and execution, counted while it lies inside the sliding window.';
comment on column flowfabric.ff_quota_window.quota_policy_id is
'Policy whose token was spent.';
comment on column flowfabric.ff_quota_window.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_quota_window.execution_id is
'Execution that was allowed to start.';
comment on column flowfabric.ff_quota_window.admitted_at_ms is
'When it last spent a token; the entry counts until this is one window ago.';

create table if not exists flowfabric.ff_quota_admitted (
    quota_policy_id text collate "C" not null,
    partition_key smallint not null,
    execution_id uuid not null,
    admitted_at_ms bigint not null,
    expires_at_ms bigint not null,
    slot_held boolean not null,
    constraint ff_quota_admitted_pkey primary key (quota_policy_id, partition_key, execution_id)
);

-- serves ff_check_admission_and_record, ff_get_quota_policy: slots of a policy in use
create index if not exists ff_quota_admitted_slot_idx
on flowfabric.ff_quota_admitted (quota_policy_id) where slot_held;
-- serves _ff_release_quota_slot, ff_trim_retention: rows of one execution
create index if not exists ff_quota_admitted_execution_idx
on flowfabric.ff_quota_admitted (partition_key, execution_id);
-- serves ff_reconcile_quota: rows whose guard has lapsed
create index if not exists ff_quota_admitted_expiry_idx
on flowfabric.ff_quota_admitted (expires_at_ms);

comment on table flowfabric.ff_quota_admitted is
'Executions admitted under a policy: whether the start is already paid for, and whether a slot is in use.';
comment on column flowfabric.ff_quota_admitted.quota_policy_id is
'Policy that admitted the execution.';
comment on column flowfabric.ff_quota_admitted.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_quota_admitted.execution_id is
'Execution that was admitted.';
comment on column flowfabric.ff_quota_admitted.admitted_at_ms is
'When it was last admitted.';
comment on column flowfabric.ff_quota_admitted.expires_at_ms is
'Until then another start of this execution spends no further rate token.';
comment on column flowfabric.ff_quota_admitted.slot_held is
'True from admission until the execution stops being active; the cap counts these rows, so no counter can drift.';

-- Budgets -------------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_budget_policy (
    budget_id text collate "C" not null,
    scope_type text not null,
    scope_id text not null,
    enforcement_mode text not null,
    on_hard_limit text not null,
    on_soft_limit text not null,
    reset_interval_ms bigint,
    breach_count bigint not null default 0,
    soft_breach_count bigint not null default 0,
    reset_count bigint not null default 0,
    last_breach_at_ms bigint,
    last_breach_dim text,
    last_reset_at_ms bigint,
    next_reset_at_ms bigint,
    created_at_ms bigint not null,
    updated_at_ms bigint not null,
    constraint ff_budget_policy_pkey primary key (budget_id)
);

-- serves ff_scan_budget_resets: due budgets, longest due first
create index if not exists ff_budget_policy_next_reset_idx
on flowfabric.ff_budget_policy (next_reset_at_ms) where next_reset_at_ms is not null;

comment on table flowfabric.ff_budget_policy is
'Budgets and their breach and reset history; its row lock serialises every change of the budget''s usage.';
comment on column flowfabric.ff_budget_policy.budget_id is
'Name the operator chose; executions refer to it.';
comment on column flowfabric.ff_budget_policy.scope_type is
'What the budget is about, such as flow, lane, namespace or tenant; a label, there is no roll-up.';
comment on column flowfabric.ff_budget_policy.scope_id is
'Which one of that kind; a label.';
comment on column flowfabric.ff_budget_policy.enforcement_mode is
'Label (strict, warn) for the client; the engine treats every budget as strict.';
comment on column flowfabric.ff_budget_policy.on_hard_limit is
'Action label handed to the worker with a hard breach.';
comment on column flowfabric.ff_budget_policy.on_soft_limit is
'Action label handed to the worker with a soft breach.';
comment on column flowfabric.ff_budget_policy.reset_interval_ms is
'Time from one reset to the next; null or 0 means that usage is never reset by time.';
comment on column flowfabric.ff_budget_policy.breach_count is
'Reports, reservations and settlements that met a hard limit, over all periods.';
comment on column flowfabric.ff_budget_policy.soft_breach_count is
'Reports and settlements that ended above a soft limit, over all periods.';
comment on column flowfabric.ff_budget_policy.reset_count is
'How often usage was set back to zero.';
comment on column flowfabric.ff_budget_policy.last_breach_at_ms is
'When a hard limit was last met in this period; cleared by a reset.';
comment on column flowfabric.ff_budget_policy.last_breach_dim is
'Dimension of that breach; cleared by a reset.';
comment on column flowfabric.ff_budget_policy.last_reset_at_ms is
'When usage was last set back to zero.';
comment on column flowfabric.ff_budget_policy.next_reset_at_ms is
'When the next reset is due, counted from the actual last one; null means never.';
comment on column flowfabric.ff_budget_policy.created_at_ms is
'When the budget was defined.';
comment on column flowfabric.ff_budget_policy.updated_at_ms is
'When usage, reservations, breaches or the period last changed.';

create table if not exists flowfabric.ff_budget_limit (
    budget_id text collate "C" not null,
    dimension text collate "C" not null,
    hard_limit bigint not null,
    soft_limit bigint not null,
    constraint ff_budget_limit_pkey primary key (budget_id, dimension),
    constraint ff_budget_limit_hard_limit_is_not_negative check (hard_limit >= 0),
    constraint ff_budget_limit_soft_limit_is_not_negative check (soft_limit >= 0)
);

comment on table flowfabric.ff_budget_limit is
'Limits of a budget per dimension; a dimension without a row is counted without limit.';
comment on column flowfabric.ff_budget_limit.budget_id is
'Budget the limit belongs to.';
comment on column flowfabric.ff_budget_limit.dimension is
'What is counted, such as tokens or cost.';
comment on column flowfabric.ff_budget_limit.hard_limit is
'Usage plus reservations may reach but not pass this; 0 means no limit.';
comment on column flowfabric.ff_budget_limit.soft_limit is
'Usage above this is reported as a soft breach and booked; 0 means no limit.';

create table if not exists flowfabric.ff_budget_usage (
    budget_id text collate "C" not null,
    dimension text collate "C" not null,
    current_value bigint not null default 0,
    reserved_value bigint not null default 0,
    last_reset_at_ms bigint,
    updated_at_ms bigint not null,
    constraint ff_budget_usage_pkey primary key (budget_id, dimension),
    constraint ff_budget_usage_current_value_is_not_negative check (current_value >= 0),
    constraint ff_budget_usage_reserved_value_is_not_negative check (reserved_value >= 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

comment on table flowfabric.ff_budget_usage is
'What a budget has used and set aside per dimension in the current period; a row appears with the first use.';
comment on column flowfabric.ff_budget_usage.budget_id is
'Budget that is charged.';
comment on column flowfabric.ff_budget_usage.dimension is
'What is counted, with or without a limit.';
comment on column flowfabric.ff_budget_usage.current_value is
'Usage booked since the last reset.';
comment on column flowfabric.ff_budget_usage.reserved_value is
'Sum over the open reservations; counts against the hard limit and survives a reset.';
comment on column flowfabric.ff_budget_usage.last_reset_at_ms is
'When current_value was last set to zero; null while it never was.';
comment on column flowfabric.ff_budget_usage.updated_at_ms is
'When one of the two values last changed.';

create table if not exists flowfabric.ff_budget_reservation (
    budget_id text collate "C" not null,
    reservation_key text collate "C" not null,
    partition_key smallint not null,
    execution_id uuid not null,
    attempt_id uuid not null,
    lease_epoch bigint not null,
    dimensions text[] collate "C" not null,
    amounts bigint[] not null,
    state text not null default 'open',
    reserved_at_ms bigint not null,
    closed_at_ms bigint,
    close_reason text,
    expires_at_ms bigint,
    constraint ff_budget_reservation_pkey primary key (budget_id, reservation_key),
    constraint ff_budget_reservation_state_is_known check (state in ('open', 'settled', 'released')),
    constraint ff_budget_reservation_has_one_amount_per_dimension
    check (cardinality(dimensions) = cardinality(amounts)),
    constraint ff_budget_reservation_open_iff_never_closed check (
        (state = 'open' and num_nonnulls(closed_at_ms, close_reason, expires_at_ms) = 0)
        or (state <> 'open' and num_nulls(closed_at_ms, close_reason, expires_at_ms) = 0)
    )
);

-- serves _ff_return_reservations, ff_trim_retention: reservations of one execution
create index if not exists ff_budget_reservation_execution_idx
on flowfabric.ff_budget_reservation (partition_key, execution_id);
-- serves ff_sweep_dedup: closed reservations whose key may be forgotten
create index if not exists ff_budget_reservation_expiry_idx
on flowfabric.ff_budget_reservation (expires_at_ms) where expires_at_ms is not null;

comment on table flowfabric.ff_budget_reservation is
'Amounts that workers set aside before an expensive call; each lives as long as the lease it was made under.';
comment on column flowfabric.ff_budget_reservation.budget_id is
'Budget the amounts count against.';
comment on column flowfabric.ff_budget_reservation.reservation_key is
'Name of the reservation within its budget; makes reserving and settling repeatable.';
comment on column flowfabric.ff_budget_reservation.partition_key is
'Partition of the execution that holds it.';
comment on column flowfabric.ff_budget_reservation.execution_id is
'Execution that holds it.';
comment on column flowfabric.ff_budget_reservation.attempt_id is
'Attempt that made it; only the same attempt may settle it.';
comment on column flowfabric.ff_budget_reservation.lease_epoch is
'Lease epoch it was made under; a later lease cannot settle it.';
comment on column flowfabric.ff_budget_reservation.dimensions is
'What is set aside, in the order the worker gave.';
comment on column flowfabric.ff_budget_reservation.amounts is
'How much of each dimension, position by position.';
comment on column flowfabric.ff_budget_reservation.state is
'open: counts as reserved. settled: replaced by real usage. released: given back unused.';
comment on column flowfabric.ff_budget_reservation.reserved_at_ms is
'When the amounts were set aside.';
comment on column flowfabric.ff_budget_reservation.closed_at_ms is
'When it was settled or released; null while open.';
comment on column flowfabric.ff_budget_reservation.close_reason is
'settled, released, lease_released, lease_expired or lease_revoked; null while open.';
comment on column flowfabric.ff_budget_reservation.expires_at_ms is
'When a closed reservation may be deleted and a repeat is no longer recognised; null while open.';

create table if not exists flowfabric.ff_budget_usage_by_exec (
    budget_id text collate "C" not null,
    partition_key smallint not null,
    execution_id uuid not null,
    dimension text collate "C" not null,
    delta_total bigint not null,
    updated_at_ms bigint not null,
    constraint ff_budget_usage_by_exec_pkey primary key (budget_id, partition_key, execution_id, dimension)
);

-- serves ff_trim_retention: ledger of one execution
create index if not exists ff_budget_usage_by_exec_execution_idx
on flowfabric.ff_budget_usage_by_exec (partition_key, execution_id);

comment on table flowfabric.ff_budget_usage_by_exec is
'Ledger of what each execution spent in the current period, so that ff_release_budget can give it back.';
comment on column flowfabric.ff_budget_usage_by_exec.budget_id is
'Budget that was charged.';
comment on column flowfabric.ff_budget_usage_by_exec.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_budget_usage_by_exec.execution_id is
'Execution that spent.';
comment on column flowfabric.ff_budget_usage_by_exec.dimension is
'What it spent.';
comment on column flowfabric.ff_budget_usage_by_exec.delta_total is
'Sum of its recorded spends and settlements since the last reset.';
comment on column flowfabric.ff_budget_usage_by_exec.updated_at_ms is
'When it last spent.';

create table if not exists flowfabric.ff_budget_usage_dedup (
    budget_id text collate "C" not null,
    dedup_key text collate "C" not null,
    applied_at_ms bigint not null,
    expires_at_ms bigint not null,
    constraint ff_budget_usage_dedup_pkey primary key (budget_id, dedup_key)
);

-- serves ff_sweep_dedup: expired keys
create index if not exists ff_budget_usage_dedup_expiry_idx
on flowfabric.ff_budget_usage_dedup (expires_at_ms);

comment on table flowfabric.ff_budget_usage_dedup is
'Keys of usage reports that were booked, so that a repeated report is not booked twice; a refused one leaves none.';
comment on column flowfabric.ff_budget_usage_dedup.budget_id is
'Budget the key is scoped to.';
comment on column flowfabric.ff_budget_usage_dedup.dedup_key is
'Key the caller gave to ff_report_usage_and_check or ff_record_spend.';
comment on column flowfabric.ff_budget_usage_dedup.applied_at_ms is
'When the report was booked.';
comment on column flowfabric.ff_budget_usage_dedup.expires_at_ms is
'From then on the key counts as unknown.';

-- Workers -------------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_worker_registry (
    namespace text collate "C" not null,
    worker_instance_id text collate "C" not null,
    worker_id text collate "C" not null,
    lanes text[] collate "C" not null,
    capabilities text[] collate "C" not null,
    last_heartbeat_ms bigint not null,
    liveness_ttl_ms bigint not null,
    registered_at_ms bigint not null,
    draining boolean not null default false,
    drain_requested_at_ms bigint,
    drain_reason text,
    constraint ff_worker_registry_pkey primary key (namespace, worker_instance_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

comment on table flowfabric.ff_worker_registry is
'Worker processes that announced themselves: for operators, drains and unblocking; a claim needs no registration.';
comment on column flowfabric.ff_worker_registry.namespace is
'Namespace the worker serves.';
comment on column flowfabric.ff_worker_registry.worker_instance_id is
'Identity of the process, new with every boot.';
comment on column flowfabric.ff_worker_registry.worker_id is
'Identity of the pool, stable over restarts and shared by its processes.';
comment on column flowfabric.ff_worker_registry.lanes is
'Lanes it takes work from, in byte order without duplicates.';
comment on column flowfabric.ff_worker_registry.capabilities is
'Capabilities it offers, in byte order without duplicates.';
comment on column flowfabric.ff_worker_registry.last_heartbeat_ms is
'When it last registered or sent a heartbeat.';
comment on column flowfabric.ff_worker_registry.liveness_ttl_ms is
'How long after a heartbeat it counts as live; a lapsed worker must register again.';
comment on column flowfabric.ff_worker_registry.registered_at_ms is
'When its present registration began; a refresh keeps it.';
comment on column flowfabric.ff_worker_registry.draining is
'True when an operator asked it to take no new work; running leases stay.';
comment on column flowfabric.ff_worker_registry.drain_requested_at_ms is
'When the drain was asked for.';
comment on column flowfabric.ff_worker_registry.drain_reason is
'Why; the worker learns it with its heartbeat.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (3, 'scheduling', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
