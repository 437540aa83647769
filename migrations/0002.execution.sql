-- Executions, their attempts, grants and idempotency keys: the tables that every operation touches.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0001.engine

-- The two functions below are part of the table: changing one means re-validating stored rows, which is a
-- migration's business, so they live here and not in plpgsql/.

-- In PL/pgSQL on purpose: the planner would inline an SQL function, and an inlined nested CASE costs 45-70 us per
-- statement because generated columns are initialised anew by each (HOTPATH 2).
create or replace function flowfabric._ff_public_state(
    p_phase flowfabric.ff_lifecycle_phase,
    p_outcome flowfabric.ff_terminal_outcome,
    p_eligibility flowfabric.ff_eligibility_state
)
returns flowfabric.ff_public_state
language plpgsql immutable parallel safe
as $$
begin
    if p_phase = 'runnable' then
        case p_eligibility
            when 'eligible_now' then return 'waiting'::flowfabric.ff_public_state;
            when 'not_eligible_until_time' then return 'delayed'::flowfabric.ff_public_state;
            when 'blocked_by_dependencies' then return 'waiting_children'::flowfabric.ff_public_state;
            when 'blocked_by_budget', 'blocked_by_quota' then return 'rate_limited'::flowfabric.ff_public_state;
            else return 'waiting'::flowfabric.ff_public_state;
        end case;
    elsif p_phase = 'active' then
        return 'active'::flowfabric.ff_public_state;
    elsif p_phase = 'suspended' then
        return 'suspended'::flowfabric.ff_public_state;
    elsif p_outcome = 'success' then
        return 'completed'::flowfabric.ff_public_state;
    end if;
    return p_outcome::text::flowfabric.ff_public_state;
end;
$$;
comment on function flowfabric._ff_public_state(
    flowfabric.ff_lifecycle_phase, flowfabric.ff_terminal_outcome, flowfabric.ff_eligibility_state) is
'Internal: the one label for users. Body of the generated column ff_exec_core.public_state.';

-- The first rule of the state model that a vector breaks, or NULL. Each rule stands here once, by name; the
-- constraint below asks only after its own quick test has failed.
create or replace function flowfabric._ff_broken_state_rule(
    p_phase flowfabric.ff_lifecycle_phase,
    p_ownership flowfabric.ff_ownership_state,
    p_eligibility flowfabric.ff_eligibility_state,
    p_blocking flowfabric.ff_blocking_reason,
    p_outcome flowfabric.ff_terminal_outcome,
    p_attempt_state flowfabric.ff_attempt_state,
    p_lease_id uuid,
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_expires_at_ms bigint,
    p_terminal_at_ms bigint,
    p_delay_until_ms bigint,
    p_suspension_id uuid,
    p_priority integer,
    p_lease_epoch bigint,
    p_total_attempts integer,
    p_retries integer,
    p_replays integer,
    p_reclaims integer,
    p_open_reservations integer
)
returns text
language sql immutable parallel safe
as $$
    select rule.name
    from (values
        (2, 'terminal_iff_outcome',
            (p_phase = 'terminal') = (p_outcome <> 'none') and (p_phase = 'terminal') = (p_terminal_at_ms is not null)),
        (3, 'active_iff_owned', (p_phase = 'active') = (p_ownership <> 'unowned')),
        (4, 'runnable_iff_eligibility_applies', (p_phase = 'runnable') = (p_eligibility <> 'not_applicable')),
        (5, 'blocking_reason_fits', case p_phase
            when 'terminal' then p_blocking = 'none'
            when 'active' then p_blocking = case p_ownership
                when 'leased' then 'none'::flowfabric.ff_blocking_reason else 'waiting_for_worker' end
            when 'suspended' then p_blocking in (
                'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback', 'waiting_for_tool_result',
                'waiting_for_budget', 'paused_by_operator', 'paused_by_policy')
            else case p_eligibility
                when 'eligible_now' then p_blocking = 'waiting_for_worker'
                when 'not_eligible_until_time' then p_blocking in (
                    'waiting_for_delay', 'waiting_for_retry_backoff', 'waiting_for_resume_delay')
                when 'blocked_by_dependencies' then p_blocking = 'waiting_for_children'
                when 'blocked_by_budget' then p_blocking = 'waiting_for_budget'
                when 'blocked_by_quota' then p_blocking = 'waiting_for_quota'
                when 'blocked_by_route' then p_blocking in ('waiting_for_capable_worker', 'waiting_for_locality_match')
                when 'blocked_by_lane_state' then p_blocking = 'paused_by_policy'
                when 'blocked_by_operator' then p_blocking in ('paused_by_operator', 'paused_by_flow_cancel')
                else false end
            end),
        (6, 'attempt_state_fits', case p_phase
            when 'active' then p_attempt_state = case p_ownership
                when 'leased' then 'running_attempt'::flowfabric.ff_attempt_state else 'attempt_interrupted' end
            when 'suspended' then p_attempt_state = 'attempt_interrupted'
            when 'runnable' then p_attempt_state in (
                'pending_first_attempt', 'pending_retry_attempt', 'pending_replay_attempt', 'attempt_interrupted')
            else p_attempt_state in ('attempt_terminal', 'pending_first_attempt', 'pending_replay_attempt', 'none')
            end),
        (7, 'lease_iff_active',
            num_nulls(p_lease_id, p_worker_id, p_worker_instance_id, p_lease_expires_at_ms)
            = case p_phase when 'active' then 0 else 4 end),
        (9, 'delayed_has_time', p_eligibility <> 'not_eligible_until_time' or p_delay_until_ms is not null),
        (10, 'suspended_iff_suspension', (p_phase = 'suspended') = (p_suspension_id is not null)),
        (11, 'numbers_in_range',
            p_priority between 0 and 9000
            and least(p_lease_epoch, p_total_attempts, p_retries, p_replays, p_reclaims, p_open_reservations) >= 0
            and (p_lease_epoch = 0) = (p_total_attempts = 0)
            and (p_open_reservations = 0 or p_ownership = 'leased'))
    ) as rule (number, name, holds)
    where rule.holds is not true
    order by rule.number
    limit 1
$$;
comment on function flowfabric._ff_broken_state_rule(
    flowfabric.ff_lifecycle_phase, flowfabric.ff_ownership_state, flowfabric.ff_eligibility_state,
    flowfabric.ff_blocking_reason, flowfabric.ff_terminal_outcome, flowfabric.ff_attempt_state, uuid, text, text,
    bigint, bigint, bigint, uuid, integer, bigint, integer, integer, integer, integer, integer) is
'Internal: the name of the first rule V2-V11 that a state vector breaks, NULL when it is legal.';

-- The quick form of the same rules, and the constraint. Native CHECKs cost 140-165 us per statement, this about 30
-- (HOTPATH 2): PL/pgSQL initialises only the branch that it enters. A property test holds the two forms together.
create or replace function flowfabric._ff_state_is_legal(
    p_phase flowfabric.ff_lifecycle_phase,
    p_ownership flowfabric.ff_ownership_state,
    p_eligibility flowfabric.ff_eligibility_state,
    p_blocking flowfabric.ff_blocking_reason,
    p_outcome flowfabric.ff_terminal_outcome,
    p_attempt_state flowfabric.ff_attempt_state,
    p_lease_id uuid,
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_expires_at_ms bigint,
    p_terminal_at_ms bigint,
    p_delay_until_ms bigint,
    p_suspension_id uuid,
    p_priority integer,
    p_lease_epoch bigint,
    p_total_attempts integer,
    p_retries integer,
    p_replays integer,
    p_reclaims integer,
    p_open_reservations integer
)
returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if p_priority between 0 and 9000
        and least(p_lease_epoch, p_total_attempts, p_retries, p_replays, p_reclaims, p_open_reservations) >= 0
        and (p_lease_epoch = 0) = (p_total_attempts = 0)
    then
        if p_phase = 'active' then
            if p_eligibility = 'not_applicable' and p_outcome = 'none' and p_terminal_at_ms is null
                and p_suspension_id is null
                and num_nulls(p_lease_id, p_worker_id, p_worker_instance_id, p_lease_expires_at_ms) = 0
                and (
                    (p_ownership = 'leased' and p_blocking = 'none' and p_attempt_state = 'running_attempt')
                    or (p_ownership in ('lease_expired_reclaimable', 'lease_revoked')
                        and p_blocking = 'waiting_for_worker' and p_attempt_state = 'attempt_interrupted'
                        and p_open_reservations = 0)
                )
            then
                return true;
            end if;
        elsif p_ownership = 'unowned' and p_open_reservations = 0
            and num_nulls(p_lease_id, p_worker_id, p_worker_instance_id, p_lease_expires_at_ms) = 4
        then
            if p_phase = 'terminal' then
                if p_outcome <> 'none' and p_terminal_at_ms is not null and p_eligibility = 'not_applicable'
                    and p_blocking = 'none' and p_suspension_id is null
                    and p_attempt_state in (
                        'attempt_terminal', 'pending_first_attempt', 'pending_replay_attempt', 'none')
                then
                    return true;
                end if;
            elsif p_phase = 'runnable' then
                if p_outcome = 'none' and p_terminal_at_ms is null and p_suspension_id is null
                    and p_attempt_state in (
                        'pending_first_attempt', 'pending_retry_attempt', 'pending_replay_attempt',
                        'attempt_interrupted')
                    and (case p_eligibility
                        when 'eligible_now' then p_blocking = 'waiting_for_worker'
                        when 'not_eligible_until_time' then p_delay_until_ms is not null and p_blocking in (
                            'waiting_for_delay', 'waiting_for_retry_backoff', 'waiting_for_resume_delay')
                        when 'blocked_by_dependencies' then p_blocking = 'waiting_for_children'
                        when 'blocked_by_budget' then p_blocking = 'waiting_for_budget'
                        when 'blocked_by_quota' then p_blocking = 'waiting_for_quota'
                        when 'blocked_by_route' then
                            p_blocking in ('waiting_for_capable_worker', 'waiting_for_locality_match')
                        when 'blocked_by_lane_state' then p_blocking = 'paused_by_policy'
                        when 'blocked_by_operator' then p_blocking in ('paused_by_operator', 'paused_by_flow_cancel')
                        else false
                    end)
                then
                    return true;
                end if;
            elsif p_outcome = 'none' and p_terminal_at_ms is null and p_eligibility = 'not_applicable'
                and p_suspension_id is not null and p_attempt_state = 'attempt_interrupted'
                and p_blocking in (
                    'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback', 'waiting_for_tool_result',
                    'waiting_for_budget', 'paused_by_operator', 'paused_by_policy')
            then
                return true;
            end if;
        end if;
    end if;

    perform flowfabric._ff_raise(
        'invariant_violation', 'ff_exec_core',
        jsonb_build_object(
            'invariant', flowfabric._ff_broken_state_rule(
                p_phase, p_ownership, p_eligibility, p_blocking, p_outcome, p_attempt_state, p_lease_id, p_worker_id,
                p_worker_instance_id, p_lease_expires_at_ms, p_terminal_at_ms, p_delay_until_ms, p_suspension_id,
                p_priority, p_lease_epoch, p_total_attempts, p_retries, p_replays, p_reclaims, p_open_reservations),
            'values', jsonb_build_object(
                'lifecycle_phase', p_phase, 'ownership_state', p_ownership, 'eligibility_state', p_eligibility,
                'blocking_reason', p_blocking, 'terminal_outcome', p_outcome, 'attempt_state', p_attempt_state,
                'priority', p_priority, 'lease_epoch', p_lease_epoch, 'total_attempt_count', p_total_attempts)));
    return false;
end;
$$;
comment on function flowfabric._ff_state_is_legal(
    flowfabric.ff_lifecycle_phase, flowfabric.ff_ownership_state, flowfabric.ff_eligibility_state,
    flowfabric.ff_blocking_reason, flowfabric.ff_terminal_outcome, flowfabric.ff_attempt_state, uuid, text, text,
    bigint, bigint, bigint, uuid, integer, bigint, integer, integer, integer, integer, integer) is
'Internal: the state model as one constraint; raises invariant_violation with the name of the broken rule.';

-- The hot row. Columns are ordered by alignment, so that it stays narrow; what changes rarely lives in
-- ff_exec_payload (given once) and ff_exec_note (only when there is something to note).
create table if not exists flowfabric.ff_exec_core (
    partition_key smallint not null,
    execution_id uuid not null,
    priority integer not null default 0,
    capability_set_id integer not null default 1,
    total_attempt_count integer not null default 0,
    retry_count integer not null default 0,
    replay_count integer not null default 0,
    lease_reclaim_count integer not null default 0,
    open_reservation_count integer not null default 0,
    lifecycle_phase flowfabric.ff_lifecycle_phase not null,
    ownership_state flowfabric.ff_ownership_state not null,
    eligibility_state flowfabric.ff_eligibility_state not null,
    blocking_reason flowfabric.ff_blocking_reason not null,
    terminal_outcome flowfabric.ff_terminal_outcome not null default 'none',
    attempt_state flowfabric.ff_attempt_state not null,
    public_state flowfabric.ff_public_state generated always as (
        flowfabric._ff_public_state(lifecycle_phase, terminal_outcome, eligibility_state)) stored,
    current_lease_epoch bigint not null default 0,
    created_at_ms bigint not null,
    last_transition_at_ms bigint not null,
    last_mutation_at_ms bigint not null,
    started_at_ms bigint,
    terminal_at_ms bigint,
    lease_acquired_at_ms bigint,
    lease_expires_at_ms bigint,
    lease_last_renewed_at_ms bigint,
    lease_expired_at_ms bigint,
    lease_revoked_at_ms bigint,
    delay_until_ms bigint,
    deadline_at_ms bigint,
    attempt_timeout_at_ms bigint,
    blocked_at_ms bigint,
    attempt_timeout_ms bigint,
    retention_ms bigint,
    purge_after_ms bigint,
    flow_id uuid,
    current_attempt_id uuid,
    current_lease_id uuid,
    current_suspension_id uuid,
    current_waitpoint_id uuid,
    namespace text collate "C" not null,
    lane_id text collate "C" not null,
    execution_kind text not null,
    current_worker_id text collate "C",
    current_worker_instance_id text collate "C",
    quota_policy_id text collate "C",
    budget_ids text[],
    instance_tag text,
    blocking_detail text,
    constraint ff_exec_core_pkey primary key (partition_key, execution_id),
    constraint ff_exec_core_state_is_legal check (flowfabric._ff_state_is_legal(
        lifecycle_phase, ownership_state, eligibility_state, blocking_reason, terminal_outcome, attempt_state,
        current_lease_id, current_worker_id, current_worker_instance_id, lease_expires_at_ms, terminal_at_ms,
        delay_until_ms, current_suspension_id, priority, current_lease_epoch, total_attempt_count, retry_count,
        replay_count, lease_reclaim_count, open_reservation_count))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table flowfabric.ff_exec_core is
'One row per execution: identity, state vector, current lease, timers. The row every operation locks.';
comment on column flowfabric.ff_exec_core.partition_key is 'N of the wire id {fp:N}:<uuid>.';
comment on column flowfabric.ff_exec_core.execution_id is 'The uuid of the wire id.';
comment on column flowfabric.ff_exec_core.priority is '0 to 9000, the higher first.';
comment on column flowfabric.ff_exec_core.capability_set_id is
'The interned set of capabilities that a worker must offer; 1 is the empty set.';
comment on column flowfabric.ff_exec_core.total_attempt_count is
'Attempts started. The current attempt has this minus one as its index; the next one gets it.';
comment on column flowfabric.ff_exec_core.retry_count is
'Failures that led to a retry; a replay does not reset it.';
comment on column flowfabric.ff_exec_core.replay_count is 'Times the execution was replayed after its end.';
comment on column flowfabric.ff_exec_core.lease_reclaim_count is
'Times a lost lease was taken over by another worker.';
comment on column flowfabric.ff_exec_core.open_reservation_count is
'Open budget reservations of the current lease.';
comment on column flowfabric.ff_exec_core.lifecycle_phase is 'What phase of life it is in.';
comment on column flowfabric.ff_exec_core.ownership_state is 'Who may change it.';
comment on column flowfabric.ff_exec_core.eligibility_state is 'Whether it can be claimed now.';
comment on column flowfabric.ff_exec_core.blocking_reason is
'The most specific reason why it makes no progress.';
comment on column flowfabric.ff_exec_core.terminal_outcome is 'How it ended.';
comment on column flowfabric.ff_exec_core.attempt_state is
'What happens at the attempt layer; tells the next claim what to do.';
comment on column flowfabric.ff_exec_core.public_state is 'The one label for users; derived, never written.';
comment on column flowfabric.ff_exec_core.current_lease_epoch is
'Grows by one with each lease of the execution, over all attempts, and never goes back: the heart of the fence.';
comment on column flowfabric.ff_exec_core.created_at_ms is
'Creation; stays the second sort key of the queue for life.';
comment on column flowfabric.ff_exec_core.last_transition_at_ms is 'Last change of phase or eligibility.';
comment on column flowfabric.ff_exec_core.last_mutation_at_ms is 'Last write of any kind.';
comment on column flowfabric.ff_exec_core.started_at_ms is
'First claim of its life; kept by retries, reclaims and replays.';
comment on column flowfabric.ff_exec_core.terminal_at_ms is 'When it ended; a replay clears it.';
comment on column flowfabric.ff_exec_core.lease_acquired_at_ms is 'When the current lease was issued.';
comment on column flowfabric.ff_exec_core.lease_expires_at_ms is
'The lease is over at this instant, whether or not a scanner has noticed.';
comment on column flowfabric.ff_exec_core.lease_last_renewed_at_ms is 'Last renewal, or the issue.';
comment on column flowfabric.ff_exec_core.lease_expired_at_ms is 'When the expiry was made durable.';
comment on column flowfabric.ff_exec_core.lease_revoked_at_ms is 'When an operator took the lease away.';
comment on column flowfabric.ff_exec_core.delay_until_ms is 'Earliest start while delayed.';
comment on column flowfabric.ff_exec_core.deadline_at_ms is
'End of the whole execution; NULL once it has ended.';
comment on column flowfabric.ff_exec_core.attempt_timeout_at_ms is
'End of the running attempt; set only while active.';
comment on column flowfabric.ff_exec_core.blocked_at_ms is 'When admission blocked it.';
comment on column flowfabric.ff_exec_core.attempt_timeout_ms is
'Attempt timeout of the policy; here so that a claim need not read the policy.';
comment on column flowfabric.ff_exec_core.retention_ms is
'Retention of the policy, if it differs from the default; here so that an end need not read the policy.';
comment on column flowfabric.ff_exec_core.purge_after_ms is
'When an ended execution with a retention of its own may be deleted.';
comment on column flowfabric.ff_exec_core.flow_id is 'The flow it belongs to; at most one, written once.';
comment on column flowfabric.ff_exec_core.current_attempt_id is
'Identity of the current attempt; part of the fence. NULL between a failed attempt and its retry.';
comment on column flowfabric.ff_exec_core.current_lease_id is
'Identity of the current lease; part of the fence.';
comment on column flowfabric.ff_exec_core.current_suspension_id is 'The open suspension.';
comment on column flowfabric.ff_exec_core.current_waitpoint_id is
'The first waitpoint of the open suspension.';
comment on column flowfabric.ff_exec_core.namespace is
'Tenant scope of idempotency keys and event filters; never changes.';
comment on column flowfabric.ff_exec_core.lane_id is 'The queue it waits in.';
comment on column flowfabric.ff_exec_core.execution_kind is 'Tells the worker which handler to run.';
comment on column flowfabric.ff_exec_core.current_worker_id is 'Logical worker that holds the lease.';
comment on column flowfabric.ff_exec_core.current_worker_instance_id is 'Process that holds the lease.';
comment on column flowfabric.ff_exec_core.quota_policy_id is 'Quota that admits it; NULL for none.';
comment on column flowfabric.ff_exec_core.budget_ids is
'Budgets that must have room before it starts; NULL for none.';
comment on column flowfabric.ff_exec_core.instance_tag is
'Value of the configured instance tag, kept in step with the tags; copied to its events.';
comment on column flowfabric.ff_exec_core.blocking_detail is 'Free text beside blocking_reason, for people.';

-- Each index is partial and serves the query named beside it. Predicates are single terms on purpose: they are read
-- and initialised by every statement that writes the row. The state model makes them exact: only a runnable row has
-- an eligibility other than not_applicable, only an active one is owned.

-- ff_claim_next, ff_grant_next, ff_scan_eligible: the queue itself, in queue order per lane and capability set.
create index if not exists ff_exec_core_claim_idx on flowfabric.ff_exec_core (
    lane_id, capability_set_id, priority desc, created_at_ms, execution_id)
where eligibility_state = 'eligible_now';
-- ff_promote_due and the lazy promotion of a claim, lane by lane (reading 15).
create index if not exists ff_exec_core_delayed_idx on flowfabric.ff_exec_core (lane_id, delay_until_ms)
where eligibility_state = 'not_eligible_until_time';
-- ff_scan_unblock: by reason, and the quota-blocked ones by policy in queue order; ff_metrics counts all of them.
create index if not exists ff_exec_core_blocked_idx on flowfabric.ff_exec_core (
    eligibility_state, quota_policy_id, priority desc, created_at_ms)
where eligibility_state in (
    'blocked_by_budget', 'blocked_by_quota', 'blocked_by_route', 'blocked_by_lane_state', 'blocked_by_operator');
-- ff_reconcile_dependencies.
create index if not exists ff_exec_core_waiting_children_idx on flowfabric.ff_exec_core (last_transition_at_ms)
where eligibility_state = 'blocked_by_dependencies';
-- ff_scan_expired_leases, ff_list_expired_leases, ff_list_worker_leases. Marked leases are not in it, so that
-- leases that nobody reclaims do not pile up at its head.
create index if not exists ff_exec_core_lease_expiry_idx on flowfabric.ff_exec_core (
    lease_expires_at_ms, partition_key, execution_id)
where ownership_state = 'leased';
-- ff_reclaim_next, ff_list_expired_leases, ff_list_worker_leases.
create index if not exists ff_exec_core_reclaimable_idx on flowfabric.ff_exec_core (
    lane_id, lease_expires_at_ms, partition_key, execution_id)
where ownership_state in ('lease_expired_reclaimable', 'lease_revoked');
-- ff_queue_stats, ff_metrics: suspended executions per lane.
create index if not exists ff_exec_core_suspended_idx on flowfabric.ff_exec_core (lane_id)
where lifecycle_phase = 'suspended';
-- ff_scan_attempt_timeouts.
create index if not exists ff_exec_core_attempt_timeout_idx on flowfabric.ff_exec_core (attempt_timeout_at_ms)
where attempt_timeout_at_ms is not null;
-- ff_scan_execution_deadlines.
create index if not exists ff_exec_core_deadline_idx on flowfabric.ff_exec_core (deadline_at_ms)
where deadline_at_ms is not null;
-- ff_trim_retention: ended executions under the default retention, and those with one of their own.
create index if not exists ff_exec_core_purge_default_idx on flowfabric.ff_exec_core (terminal_at_ms)
where terminal_at_ms is not null and purge_after_ms is null;
create index if not exists ff_exec_core_purge_override_idx on flowfabric.ff_exec_core (purge_after_ms)
where purge_after_ms is not null;
-- The members of a flow, for every flow function and ff_list_executions.
create index if not exists ff_exec_core_flow_members_idx on flowfabric.ff_exec_core (
    partition_key, flow_id, execution_id)
where flow_id is not null;

create table if not exists flowfabric.ff_exec_payload (
    partition_key smallint not null,
    execution_id uuid not null,
    payload bytea,
    payload_encoding text,
    result bytea,
    result_encoding text,
    policy jsonb,
    tags jsonb not null default '{}',
    creator_identity text,
    constraint ff_exec_payload_pkey primary key (partition_key, execution_id)
);
comment on table flowfabric.ff_exec_payload is
'What a caller gave with an execution, and its result. Changed only under the lock of its ff_exec_core row.';
comment on column flowfabric.ff_exec_payload.partition_key is 'As in ff_exec_core.';
comment on column flowfabric.ff_exec_payload.execution_id is 'As in ff_exec_core.';
comment on column flowfabric.ff_exec_payload.payload is 'Input bytes as given; NULL for none.';
comment on column flowfabric.ff_exec_payload.payload_encoding is
'A hint how to read them; json by convention when NULL.';
comment on column flowfabric.ff_exec_payload.result is
'Bytes of the last successful completion; a replay clears them.';
comment on column flowfabric.ff_exec_payload.result_encoding is 'A hint how to read them.';
comment on column flowfabric.ff_exec_payload.policy is 'Policy document as given, frozen at creation.';
comment on column flowfabric.ff_exec_payload.tags is 'Object of strings; keys have the form owner.field.';
comment on column flowfabric.ff_exec_payload.creator_identity is 'Who created it, as the creator says.';

create table if not exists flowfabric.ff_exec_note (
    partition_key smallint not null,
    execution_id uuid not null,
    progress_pct smallint,
    pending_previous_attempt_index integer,
    progress_updated_at_ms bigint,
    last_capability_mismatch_at_ms bigint,
    last_hmac_validation_failed_at_ms bigint,
    progress_message text,
    failure_reason text,
    cancellation_reason text,
    cancelled_by text,
    lease_revoke_reason text,
    pending_retry_reason text,
    pending_replay_reason text,
    pending_replay_requested_by text,
    constraint ff_exec_note_pkey primary key (partition_key, execution_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table flowfabric.ff_exec_note is
'What is worth noting of an execution; no row, nothing noted. Changed only under the lock of its ff_exec_core row.';
comment on column flowfabric.ff_exec_note.partition_key is 'As in ff_exec_core.';
comment on column flowfabric.ff_exec_note.execution_id is 'As in ff_exec_core.';
comment on column flowfabric.ff_exec_note.progress_pct is 'Last reported progress, 0 to 100.';
comment on column flowfabric.ff_exec_note.pending_previous_attempt_index is
'Attempt that the pending retry or replay follows; consumed by the next claim.';
comment on column flowfabric.ff_exec_note.progress_updated_at_ms is 'Last progress report.';
comment on column flowfabric.ff_exec_note.last_capability_mismatch_at_ms is
'Last time a grant was refused because the worker lacked a capability.';
comment on column flowfabric.ff_exec_note.last_hmac_validation_failed_at_ms is
'Last time somebody reported a signal with a bad token.';
comment on column flowfabric.ff_exec_note.progress_message is 'Last reported message.';
comment on column flowfabric.ff_exec_note.failure_reason is
'Why the last failure happened, or why it expired.';
comment on column flowfabric.ff_exec_note.cancellation_reason is 'Why it was cancelled.';
comment on column flowfabric.ff_exec_note.cancelled_by is 'Source of the cancellation.';
comment on column flowfabric.ff_exec_note.lease_revoke_reason is
'Why an operator took the current lease away.';
comment on column flowfabric.ff_exec_note.pending_retry_reason is 'Becomes retry_reason of the next attempt.';
comment on column flowfabric.ff_exec_note.pending_replay_reason is
'Becomes replay_reason of the next attempt.';
comment on column flowfabric.ff_exec_note.pending_replay_requested_by is
'Becomes replay_requested_by of the next attempt.';

-- Without an index on the open attempt, and with room on the page, the final update of an attempt stays heap-only
-- (HOTPATH 3). That there is at most one open attempt follows from the row lock; ff_check_invariants verifies it.
create table if not exists flowfabric.ff_attempt (
    partition_key smallint not null,
    execution_id uuid not null,
    attempt_index integer not null,
    attempt_type flowfabric.ff_attempt_type not null,
    attempt_state flowfabric.ff_attempt_row_state not null,
    previous_attempt_index integer,
    replayed_from_attempt_index integer,
    attempt_id uuid not null,
    lease_id uuid not null,
    lease_epoch bigint not null,
    created_at_ms bigint not null,
    started_at_ms bigint not null,
    last_usage_report_seq bigint not null default 0,
    suspended_at_ms bigint,
    resumed_at_ms bigint,
    ended_at_ms bigint,
    timeout_remaining_ms bigint,
    worker_id text collate "C" not null,
    worker_instance_id text collate "C" not null,
    suspension_id text,
    failure_reason text,
    failure_category text,
    retry_reason text,
    reclaim_reason text,
    replay_reason text,
    replay_requested_by text,
    policy jsonb,
    usage jsonb,
    constraint ff_attempt_pkey primary key (partition_key, execution_id, attempt_index),
    constraint ff_attempt_index_is_not_negative check (attempt_index >= 0)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
comment on table flowfabric.ff_attempt is
'One row per concrete run of an execution. A finished row never changes again.';
comment on column flowfabric.ff_attempt.partition_key is 'As in ff_exec_core.';
comment on column flowfabric.ff_attempt.execution_id is 'As in ff_exec_core.';
comment on column flowfabric.ff_attempt.attempt_index is '0, 1, 2 … without gaps.';
comment on column flowfabric.ff_attempt.attempt_type is 'Why it exists.';
comment on column flowfabric.ff_attempt.attempt_state is 'Running, paused, or how it ended.';
comment on column flowfabric.ff_attempt.previous_attempt_index is
'The attempt that it retries or takes over.';
comment on column flowfabric.ff_attempt.replayed_from_attempt_index is 'The attempt that it replays.';
comment on column flowfabric.ff_attempt.attempt_id is 'Random identity; part of the fence.';
comment on column flowfabric.ff_attempt.lease_id is 'Its latest lease.';
comment on column flowfabric.ff_attempt.lease_epoch is 'Epoch of its latest lease.';
comment on column flowfabric.ff_attempt.created_at_ms is 'When the row was made.';
comment on column flowfabric.ff_attempt.started_at_ms is 'When it first ran.';
comment on column flowfabric.ff_attempt.last_usage_report_seq is
'Of data brought over from upstream; no function writes it.';
comment on column flowfabric.ff_attempt.suspended_at_ms is 'Since when it is paused.';
comment on column flowfabric.ff_attempt.resumed_at_ms is 'When it was last taken up again.';
comment on column flowfabric.ff_attempt.ended_at_ms is 'When it ended.';
comment on column flowfabric.ff_attempt.timeout_remaining_ms is
'Rest of the attempt timeout while it is paused.';
comment on column flowfabric.ff_attempt.worker_id is 'Logical worker of its latest lease.';
comment on column flowfabric.ff_attempt.worker_instance_id is 'Process of its latest lease.';
comment on column flowfabric.ff_attempt.suspension_id is
'What paused it: a suspension id, worker_delay or waiting_children.';
comment on column flowfabric.ff_attempt.failure_reason is 'Why it failed, was cancelled or was taken over.';
comment on column flowfabric.ff_attempt.failure_category is 'Category given with the failure.';
comment on column flowfabric.ff_attempt.retry_reason is 'Failure that led to this retry.';
comment on column flowfabric.ff_attempt.reclaim_reason is 'lease_expired or lease_revoked.';
comment on column flowfabric.ff_attempt.replay_reason is 'Why it was replayed.';
comment on column flowfabric.ff_attempt.replay_requested_by is 'Who asked for the replay.';
comment on column flowfabric.ff_attempt.policy is 'Policy snapshot given at the claim.';
comment on column flowfabric.ff_attempt.usage is 'Of data brought over from upstream; no function writes it.';

create table if not exists flowfabric.ff_claim_grant (
    partition_key smallint not null,
    execution_id uuid not null,
    grant_ttl_ms bigint not null,
    issued_at_ms bigint not null,
    expires_at_ms bigint not null,
    grant_id bytea not null,
    kind text not null,
    worker_id text collate "C" not null,
    worker_instance_id text collate "C" not null,
    lane_id text collate "C",
    capability_hash text,
    worker_capabilities text[] not null default '{}',
    route_snapshot jsonb,
    admission_summary text,
    constraint ff_claim_grant_pkey primary key (partition_key, execution_id),
    constraint ff_claim_grant_kind_is_known check (kind in ('claim', 'reclaim'))
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table flowfabric.ff_claim_grant is
'A short reservation of one execution for one worker; at most one per execution. An expired row counts as absent.';
comment on column flowfabric.ff_claim_grant.partition_key is 'As in ff_exec_core.';
comment on column flowfabric.ff_claim_grant.execution_id is 'As in ff_exec_core.';
comment on column flowfabric.ff_claim_grant.grant_ttl_ms is 'How long it was issued for.';
comment on column flowfabric.ff_claim_grant.issued_at_ms is 'When it was issued.';
comment on column flowfabric.ff_claim_grant.expires_at_ms is 'It is still good in this millisecond.';
comment on column flowfabric.ff_claim_grant.grant_id is
'SHA-256 of the grant key; the key itself is not stored.';
comment on column flowfabric.ff_claim_grant.kind is
'claim: of an eligible execution; reclaim: of one whose lease was lost.';
comment on column flowfabric.ff_claim_grant.worker_id is 'Who may consume it.';
comment on column flowfabric.ff_claim_grant.worker_instance_id is
'Process it was issued to; information only.';
comment on column flowfabric.ff_claim_grant.lane_id is 'Lane given at the issue; information only.';
comment on column flowfabric.ff_claim_grant.capability_hash is 'Audit label of the scheduler, as given.';
comment on column flowfabric.ff_claim_grant.worker_capabilities is 'Capabilities the worker offered.';
comment on column flowfabric.ff_claim_grant.route_snapshot is 'Route chosen by the scheduler, as given.';
comment on column flowfabric.ff_claim_grant.admission_summary is
'Admission decision of the scheduler, as given.';
-- ff_sweep_expired_grants.
create index if not exists ff_claim_grant_expiry_idx on flowfabric.ff_claim_grant (expires_at_ms);

create table if not exists flowfabric.ff_execution_idempotency (
    namespace text collate "C" not null,
    idempotency_key text collate "C" not null,
    partition_key smallint not null,
    execution_id uuid not null,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    constraint ff_execution_idempotency_pkey primary key (namespace, idempotency_key)
);
comment on table flowfabric.ff_execution_idempotency is
'Idempotency keys of creations; an expired row counts as absent.';
comment on column flowfabric.ff_execution_idempotency.namespace is 'Scope of the key.';
comment on column flowfabric.ff_execution_idempotency.idempotency_key is 'The key as given.';
comment on column flowfabric.ff_execution_idempotency.partition_key is 'Of the execution that the key made.';
comment on column flowfabric.ff_execution_idempotency.execution_id is 'The execution that the key made.';
comment on column flowfabric.ff_execution_idempotency.created_at_ms is 'When the key was first used.';
comment on column flowfabric.ff_execution_idempotency.expires_at_ms is
'The key may be used anew from then on.';
-- ff_sweep_dedup.
create index if not exists ff_execution_idempotency_expiry_idx on flowfabric.ff_execution_idempotency (expires_at_ms);
-- ff_trim_retention deletes the keys of an execution with it.
create index if not exists ff_execution_idempotency_execution_idx on flowfabric.ff_execution_idempotency (
    partition_key, execution_id);

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (2, 'execution', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
