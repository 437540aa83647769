-- Pausing an execution until somebody answers: suspensions, waitpoints, signals, what satisfied a condition,
-- the keys that make deliveries and suspends repeatable, and the signing keys of waitpoint tokens.
--
-- Locks:  nothing that exists; every table is new.
-- Beside: there is no previous release.
--
-- Tokens are nowhere in these tables: a token is a function of its waitpoint's row and a signing key.
--
-- depends: 0003.scheduling

-- Suspensions ---------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_suspension_current (
    partition_key smallint not null,
    execution_id uuid not null,
    suspension_id uuid not null,
    attempt_index integer not null,
    suspended_at_ms bigint not null,
    reason_code text not null,
    requested_by text not null,
    condition jsonb not null,
    timeout_at_ms bigint,
    timeout_behavior text,
    resume_delay_ms bigint not null default 0,
    consume_matched_signals boolean not null,
    retain_signal_buffer_until_closed boolean not null,
    close_waitpoint_on_resume boolean not null,
    resume_target text not null,
    continuation_metadata_pointer text,
    last_signal_at_ms bigint,
    satisfied_at_ms bigint,
    closed_at_ms bigint,
    close_reason text,
    resume_trigger text,
    closer_signal_id uuid,
    satisfier_signal_ids uuid[] not null default '{}',
    constraint ff_suspension_current_pkey primary key (partition_key, execution_id),
    constraint ff_suspension_current_reason_code_is_known check (
        reason_code in (
            'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback', 'waiting_for_tool_result',
            'waiting_for_operator_review', 'paused_by_policy', 'paused_by_budget', 'step_boundary', 'manual_pause'
        )
    ),
    constraint ff_suspension_current_requested_by_is_known
    check (requested_by in ('worker', 'operator', 'policy', 'system_timeout_policy')),
    constraint ff_suspension_current_timeout_behavior_is_known
    check (timeout_behavior in ('fail', 'cancel', 'expire', 'auto_resume_with_timeout_signal', 'escalate')),
    constraint ff_suspension_current_resume_target_is_known check (resume_target in ('runnable')),
    constraint ff_suspension_current_resume_trigger_is_known
    check (resume_trigger in ('signal', 'operator', 'timeout', 'auto_resume')),
    constraint ff_suspension_current_closed_iff_close_reason
    check ((closed_at_ms is null) = (close_reason is null))
);

-- serves ff_list_suspended: open suspensions by age
create index if not exists ff_suspension_current_open_idx
on flowfabric.ff_suspension_current (suspended_at_ms, partition_key, execution_id)
where closed_at_ms is null;
-- serves ff_scan_suspension_timeouts: open suspensions whose timeout is due, longest due first
create index if not exists ff_suspension_current_timeout_idx
on flowfabric.ff_suspension_current (timeout_at_ms)
where closed_at_ms is null and timeout_at_ms is not null;

comment on table flowfabric.ff_suspension_current is
'The latest pause of each execution, open until closed_at_ms is set; the next suspension replaces it.';
comment on column flowfabric.ff_suspension_current.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_suspension_current.execution_id is
'Execution that is or was paused.';
comment on column flowfabric.ff_suspension_current.suspension_id is
'Identity of this pause.';
comment on column flowfabric.ff_suspension_current.attempt_index is
'Attempt that paused and goes on after the resume; only it may read the signals that woke it.';
comment on column flowfabric.ff_suspension_current.suspended_at_ms is
'When the pause began.';
comment on column flowfabric.ff_suspension_current.reason_code is
'What the execution waits for; decides the blocking reason it shows.';
comment on column flowfabric.ff_suspension_current.requested_by is
'Who wanted the pause.';
comment on column flowfabric.ff_suspension_current.condition is
'Resume condition over the signals of its waitpoints, in the public JSON form (Single, Composite, OperatorOnly, ...).';
comment on column flowfabric.ff_suspension_current.timeout_at_ms is
'When timeout_behavior applies; null means never.';
comment on column flowfabric.ff_suspension_current.timeout_behavior is
'What the timeout does: end the execution, resume it, or hand it to an operator; null after an escalation.';
comment on column flowfabric.ff_suspension_current.resume_delay_ms is
'Delay between the signal that satisfies the condition and eligibility; the worker chose it, no signaller can.';
comment on column flowfabric.ff_suspension_current.consume_matched_signals is
'Part of the resume policy as given; kept for readers, not interpreted.';
comment on column flowfabric.ff_suspension_current.retain_signal_buffer_until_closed is
'Part of the resume policy as given; kept for readers, not interpreted.';
comment on column flowfabric.ff_suspension_current.close_waitpoint_on_resume is
'Part of the resume policy; always true, because a resume closes every waitpoint of the suspension.';
comment on column flowfabric.ff_suspension_current.resume_target is
'Where a resume leads: runnable is the only place.';
comment on column flowfabric.ff_suspension_current.continuation_metadata_pointer is
'Opaque reference by which the worker finds its own saved state.';
comment on column flowfabric.ff_suspension_current.last_signal_at_ms is
'When a signal for one of its waitpoints was last accepted, matching or not.';
comment on column flowfabric.ff_suspension_current.satisfied_at_ms is
'When signals satisfied the condition; null for a pause that ended in any other way.';
comment on column flowfabric.ff_suspension_current.closed_at_ms is
'When the pause ended; null while it is open.';
comment on column flowfabric.ff_suspension_current.close_reason is
'How it ended, such as resumed, timed_out_fail, cancelled or expired:<reason>; null while open.';
comment on column flowfabric.ff_suspension_current.resume_trigger is
'What resumed the execution; null while open and when it ended without a resume.';
comment on column flowfabric.ff_suspension_current.closer_signal_id is
'Signal that made the condition true.';
comment on column flowfabric.ff_suspension_current.satisfier_signal_ids is
'All signals that counted towards the condition, in acceptance order; what ff_observe_signals returns.';

create table if not exists flowfabric.ff_waitpoint_pending (
    partition_key smallint not null,
    waitpoint_id uuid not null,
    execution_id uuid not null,
    attempt_index integer not null,
    waitpoint_key text collate "C" not null,
    state text not null,
    suspension_id uuid,
    ordinal integer,
    token_kid text collate "C" not null,
    token_fingerprint text not null,
    created_at_ms bigint not null,
    activated_at_ms bigint,
    expires_at_ms bigint,
    satisfied_at_ms bigint,
    closed_at_ms bigint,
    close_reason text,
    required_signal_names text[] not null default '{}',
    signal_count integer not null default 0,
    matched_signal_count integer not null default 0,
    last_signal_at_ms bigint,
    constraint ff_waitpoint_pending_pkey primary key (partition_key, waitpoint_id),
    constraint ff_waitpoint_pending_state_is_known check (state in ('pending', 'active', 'closed')),
    constraint ff_waitpoint_pending_active_has_suspension check (state <> 'active' or suspension_id is not null),
    constraint ff_waitpoint_pending_closed_iff_closed_at check ((state = 'closed') = (closed_at_ms is not null)),
    constraint ff_waitpoint_pending_token_fingerprint_is_16_hex check (token_fingerprint ~ '^[0-9a-f]{16}$')
);

-- serves ff_scan_pending_waitpoint_expiry: pending waitpoints whose time is over, longest over first
create index if not exists ff_waitpoint_pending_expiry_idx
on flowfabric.ff_waitpoint_pending (expires_at_ms) where state = 'pending';
-- serves ff_list_pending_waitpoints (cursor order), ff_trim_retention
create index if not exists ff_waitpoint_pending_execution_idx
on flowfabric.ff_waitpoint_pending (partition_key, execution_id, waitpoint_id);
-- serves _ff_close_suspension, ff_deliver_signal: waitpoints of a suspension in order; one per position
create unique index if not exists ff_waitpoint_pending_suspension_idx
on flowfabric.ff_waitpoint_pending (partition_key, suspension_id, ordinal) where suspension_id is not null;

comment on table flowfabric.ff_waitpoint_pending is
'Waitpoints, in every state: addresses that signals are delivered to. A closed one never reopens.';
comment on column flowfabric.ff_waitpoint_pending.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_waitpoint_pending.waitpoint_id is
'Address a signaller uses; never used again.';
comment on column flowfabric.ff_waitpoint_pending.execution_id is
'Execution it belongs to for ever; part of what the token signs.';
comment on column flowfabric.ff_waitpoint_pending.attempt_index is
'Attempt that opened it; a later attempt cannot use it.';
comment on column flowfabric.ff_waitpoint_pending.waitpoint_key is
'Name the worker gave it, which the resume condition refers to.';
comment on column flowfabric.ff_waitpoint_pending.state is
'pending: signals are only buffered. active: signals are evaluated. closed: signals are refused.';
comment on column flowfabric.ff_waitpoint_pending.suspension_id is
'Suspension it is or was part of; null while pending and when it was closed unused.';
comment on column flowfabric.ff_waitpoint_pending.ordinal is
'Position among the waitpoints of its suspension; 0 is the primary one.';
comment on column flowfabric.ff_waitpoint_pending.token_kid is
'Signing key its token was minted under; a token is recomputed under it while that key is usable.';
comment on column flowfabric.ff_waitpoint_pending.token_fingerprint is
'First 16 hex digits of the token''s digest, to recognise it in logs; cannot stand in for the token.';
comment on column flowfabric.ff_waitpoint_pending.created_at_ms is
'When it was opened; part of what the token signs, so it never changes.';
comment on column flowfabric.ff_waitpoint_pending.activated_at_ms is
'When a suspension took it into use.';
comment on column flowfabric.ff_waitpoint_pending.expires_at_ms is
'While pending: from then on it counts as closed. While active: the suspension''s timeout, for information.';
comment on column flowfabric.ff_waitpoint_pending.satisfied_at_ms is
'When its suspension''s condition was satisfied; null if it closed in any other way.';
comment on column flowfabric.ff_waitpoint_pending.closed_at_ms is
'When it closed; null while it is open.';
comment on column flowfabric.ff_waitpoint_pending.close_reason is
'Why it closed: that of its suspension, never_committed, proactive_close, or a text given to ff_close_waitpoint.';
comment on column flowfabric.ff_waitpoint_pending.required_signal_names is
'Names the condition asks for here, for display only; empty means any signal.';
comment on column flowfabric.ff_waitpoint_pending.signal_count is
'Signals accepted, buffered ones included.';
comment on column flowfabric.ff_waitpoint_pending.matched_signal_count is
'Those of them that some part of the condition accepted.';
comment on column flowfabric.ff_waitpoint_pending.last_signal_at_ms is
'When a signal was last accepted.';

-- Signals -------------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_signal (
    partition_key smallint not null,
    execution_id uuid not null,
    signal_id uuid not null,
    seq bigint not null,
    waitpoint_id uuid not null,
    signal_name text not null,
    signal_category text,
    source_type text,
    source_identity text,
    correlation_id text,
    idempotency_key text collate "C",
    target_scope text,
    payload bytea,
    payload_encoding text,
    created_at_ms bigint not null,
    accepted_at_ms bigint not null,
    observed_effect text not null,
    is_satisfier boolean not null default false,
    constraint ff_signal_pkey primary key (partition_key, execution_id, signal_id),
    constraint ff_signal_target_scope_is_known check (target_scope in ('waitpoint', 'execution')),
    constraint ff_signal_observed_effect_is_known check (
        observed_effect in (
            'resume_condition_satisfied', 'appended_to_waitpoint', 'appended_to_waitpoint_duplicate', 'no_op',
            'signal_ignored_not_in_condition', 'signal_ignored_matcher_failed', 'buffered_for_pending_waitpoint'
        )
    )
);

-- serves ff_deliver_signal: highest seq of an execution, which is also its number of signals
create unique index if not exists ff_signal_seq_idx
on flowfabric.ff_signal (partition_key, execution_id, seq);
-- serves ff_suspend_execution: buffered signals of a pending waitpoint in acceptance order
create index if not exists ff_signal_waitpoint_idx
on flowfabric.ff_signal (partition_key, waitpoint_id, seq);

comment on table flowfabric.ff_signal is
'Accepted signals, kept as long as their execution.';
comment on column flowfabric.ff_signal.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_signal.execution_id is
'Execution the signal was meant for.';
comment on column flowfabric.ff_signal.signal_id is
'Identity of the delivery; the same id again is a duplicate.';
comment on column flowfabric.ff_signal.seq is
'Position in the order of acceptance within the execution, from 1 without gaps.';
comment on column flowfabric.ff_signal.waitpoint_id is
'Waitpoint it was delivered to.';
comment on column flowfabric.ff_signal.signal_name is
'Name that the matchers of the resume condition compare.';
comment on column flowfabric.ff_signal.signal_category is
'Kind of signal, such as external or approval; not interpreted.';
comment on column flowfabric.ff_signal.source_type is
'Kind of sender; together with source_identity it tells distinct sources apart.';
comment on column flowfabric.ff_signal.source_identity is
'Which sender of that kind.';
comment on column flowfabric.ff_signal.correlation_id is
'The sender''s own reference.';
comment on column flowfabric.ff_signal.idempotency_key is
'Key under which a repeated delivery is recognised, if one was given.';
comment on column flowfabric.ff_signal.target_scope is
'Whom the sender addressed, the waitpoint or the execution as a whole; not interpreted.';
comment on column flowfabric.ff_signal.payload is
'Content for the worker, at most 65536 bytes; null if there is none.';
comment on column flowfabric.ff_signal.payload_encoding is
'How the worker should read the payload.';
comment on column flowfabric.ff_signal.created_at_ms is
'The sender''s own time, for information.';
comment on column flowfabric.ff_signal.accepted_at_ms is
'When the engine accepted it.';
comment on column flowfabric.ff_signal.observed_effect is
'What it did when it arrived; stays buffered_for_pending_waitpoint even if it was evaluated later.';
comment on column flowfabric.ff_signal.is_satisfier is
'True when it added something new towards the resume condition.';

create table if not exists flowfabric.ff_signal_dedup (
    partition_key smallint not null,
    waitpoint_id uuid not null,
    idempotency_key text collate "C" not null,
    signal_id uuid not null,
    expires_at_ms bigint not null,
    constraint ff_signal_dedup_pkey primary key (partition_key, waitpoint_id, idempotency_key)
);

-- serves ff_sweep_dedup: expired keys
create index if not exists ff_signal_dedup_expiry_idx
on flowfabric.ff_signal_dedup (expires_at_ms);

comment on table flowfabric.ff_signal_dedup is
'Idempotency keys of deliveries, per waitpoint: a repeat gets the first signal''s id and writes nothing.';
comment on column flowfabric.ff_signal_dedup.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_signal_dedup.waitpoint_id is
'Waitpoint the key is scoped to.';
comment on column flowfabric.ff_signal_dedup.idempotency_key is
'Key the sender gave.';
comment on column flowfabric.ff_signal_dedup.signal_id is
'Signal of the first delivery with this key.';
comment on column flowfabric.ff_signal_dedup.expires_at_ms is
'From then on the key counts as unknown.';

create table if not exists flowfabric.ff_suspension_satisfier (
    partition_key smallint not null,
    suspension_id uuid not null,
    node_path text collate "C" not null,
    token text collate "C" not null,
    execution_id uuid not null,
    signal_id uuid not null,
    constraint ff_suspension_satisfier_pkey primary key (partition_key, suspension_id, node_path, token)
);

-- serves ff_trim_retention: satisfiers of one execution
create index if not exists ff_suspension_satisfier_execution_idx
on flowfabric.ff_suspension_satisfier (partition_key, execution_id);

comment on table flowfabric.ff_suspension_satisfier is
'What each part of an open resume condition has received so far; deleted when the suspension closes.';
comment on column flowfabric.ff_suspension_satisfier.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_suspension_satisfier.suspension_id is
'Suspension whose condition it counts for.';
comment on column flowfabric.ff_suspension_satisfier.node_path is
'Node of the condition it counts for, such as members[0].members[2]; the root is the empty text.';
comment on column flowfabric.ff_suspension_satisfier.token is
'What makes it distinct within the node: leaf, or the waitpoint, signal or source it came from.';
comment on column flowfabric.ff_suspension_satisfier.execution_id is
'Execution that is suspended.';
comment on column flowfabric.ff_suspension_satisfier.signal_id is
'Signal that brought it.';

create table if not exists flowfabric.ff_suspend_dedup (
    partition_key smallint not null,
    execution_id uuid not null,
    idempotency_key text collate "C" not null,
    outcome text not null,
    suspension_id uuid,
    created_at_ms bigint not null,
    expires_at_ms bigint not null,
    constraint ff_suspend_dedup_pkey primary key (partition_key, execution_id, idempotency_key),
    constraint ff_suspend_dedup_outcome_is_known check (outcome in ('suspended', 'already_satisfied'))
);

-- serves ff_sweep_dedup: expired keys
create index if not exists ff_suspend_dedup_expiry_idx
on flowfabric.ff_suspend_dedup (expires_at_ms);

comment on table flowfabric.ff_suspend_dedup is
'Idempotency keys of suspends, per execution: a repeat gets the first answer, although its lease is gone.';
comment on column flowfabric.ff_suspend_dedup.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_suspend_dedup.execution_id is
'Execution the key is scoped to.';
comment on column flowfabric.ff_suspend_dedup.idempotency_key is
'Key the worker gave to ff_suspend_execution.';
comment on column flowfabric.ff_suspend_dedup.outcome is
'What the first call answered.';
comment on column flowfabric.ff_suspend_dedup.suspension_id is
'Suspension of the first call, through which a repeat finds its waitpoints.';
comment on column flowfabric.ff_suspend_dedup.created_at_ms is
'When the first call was made.';
comment on column flowfabric.ff_suspend_dedup.expires_at_ms is
'From then on the key counts as unknown.';

-- Signing keys --------------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_waitpoint_hmac (
    kid text collate "C" not null,
    inner_pad bytea not null,
    outer_pad bytea not null,
    installed_at_ms bigint not null,
    is_current boolean not null,
    expires_at_ms bigint,
    constraint ff_waitpoint_hmac_pkey primary key (kid),
    constraint ff_waitpoint_hmac_inner_pad_has_64_bytes check (octet_length(inner_pad) = 64),
    constraint ff_waitpoint_hmac_outer_pad_has_64_bytes check (octet_length(outer_pad) = 64),
    constraint ff_waitpoint_hmac_current_iff_no_expiry check (is_current = (expires_at_ms is null))
);

-- serves ff_rotate_waitpoint_hmac_secret, ff_seed_waitpoint_hmac_secret: never two current keys
create unique index if not exists ff_waitpoint_hmac_current_idx
on flowfabric.ff_waitpoint_hmac (is_current) where is_current;

comment on table flowfabric.ff_waitpoint_hmac is
'Signing keys of waitpoint tokens. Secret: only the owner of the schema reads it, and no function returns a pad.';
comment on column flowfabric.ff_waitpoint_hmac.kid is
'Name of the key, the part of a token before the colon.';
comment on column flowfabric.ff_waitpoint_hmac.inner_pad is
'Secret: the padded key XOR 0x36, as HMAC-SHA-256 uses it inside; the secret itself is not stored.';
comment on column flowfabric.ff_waitpoint_hmac.outer_pad is
'Secret: the padded key XOR 0x5c, as HMAC-SHA-256 uses it outside.';
comment on column flowfabric.ff_waitpoint_hmac.installed_at_ms is
'When the key was installed.';
comment on column flowfabric.ff_waitpoint_hmac.is_current is
'True for the one key that new tokens are minted under.';
comment on column flowfabric.ff_waitpoint_hmac.expires_at_ms is
'Last instant at which a rotated key still verifies tokens; null for the current one.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (4, 'suspension', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
