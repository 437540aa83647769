-- The error catalogue, and the one way to raise an error of it.
--
-- Every refusal of the engine is a row of this list: its code, its SQLSTATE, what a client should do about
-- it, and one sentence for people. The Python constants, the Python exceptions and docs/errors.md are
-- generated from here by tools/generate_docs.py; run it after a change.
--
-- Numbers are stable forever: a code that falls out of use keeps its number, a new code takes the next
-- free one of its category. 000 is the category itself and never a code, so that a handler for 'ZS000'
-- catches every State error. A number that moves to another code stops the installation: rows that are no
-- longer listed go after the insert (PostgreSQL runs an unreferenced CTE last; a test asserts the effect), so
-- the old row still holds the number and the unique constraint on sqlstate refuses it.

-- Only the difference is written: loading an unchanged list again touches and locks no row.
with catalogue (code, sqlstate, category, retry_class, hint) as (
    values
    -- ZN, NotFound: the addressed thing does not exist.
    (
        'execution_not_found', 'ZN001', 'NotFound', 'terminal',
        'Check the id with `flowfabric executions list`; ended executions are deleted after their retention.'
    ),
    (
        'flow_not_found', 'ZN002', 'NotFound', 'terminal',
        'Check the id with `flowfabric flows list`, or create the flow first.'
    ),
    (
        'attempt_not_found', 'ZN003', 'NotFound', 'terminal',
        'Check the attempt index with `flowfabric executions show`.'
    ),
    (
        'budget_not_found', 'ZN004', 'NotFound', 'terminal',
        'Check the name with `flowfabric budgets list`, or create it with `flowfabric budgets create`.'
    ),
    (
        'quota_policy_not_found', 'ZN005', 'NotFound', 'terminal',
        'Check the name with `flowfabric quotas list`, or create it with `flowfabric quotas create`.'
    ),
    (
        'stream_not_found', 'ZN006', 'NotFound', 'expected',
        'This is normal for an attempt that has not written a frame; treat the stream as empty.'
    ),
    ('reservation_not_found', 'ZN007', 'NotFound', 'terminal', 'Reserve first; a lost lease returns its reservations.'),
    -- ZV, Validation: the arguments, or a presented credential, are wrong.
    (
        'invalid_input', 'ZV001', 'Validation', 'terminal',
        'Correct the argument that the field of DETAIL names; the same call fails again.'
    ),
    (
        'capability_mismatch', 'ZV002', 'Validation', 'retryable',
        'Offer the execution to a worker that has the missing capabilities; `flowfabric why` names them.'
    ),
    (
        'invalid_capabilities', 'ZV003', 'Validation', 'terminal',
        'Fix the capability list: at most 256 tokens and 4096 bytes joined with commas.'
    ),
    (
        'invalid_policy_json', 'ZV004', 'Validation', 'terminal',
        'Correct the field at the path; the detail lists what is legal there, docs/policies.md every field.'
    ),
    ('invalid_tag_key', 'ZV005', 'Validation', 'terminal', 'Prefix the tag with a lower-case owner name and a dot.'),
    ('payload_too_large', 'ZV006', 'Validation', 'terminal', 'Store the payload elsewhere and pass a reference.'),
    (
        'signal_limit_exceeded', 'ZV007', 'Validation', 'terminal',
        'Stop sending; use idempotency keys for repeated signals.'
    ),
    (
        'invalid_waitpoint_key', 'ZV008', 'Validation', 'terminal',
        'Use the key returned when the waitpoint was created.'
    ),
    (
        'invalid_token', 'ZV009', 'Validation', 'terminal',
        'Present the token of this waitpoint; operators use `flowfabric signal --as-operator`.'
    ),
    ('waitpoint_not_token_bound', 'ZV010', 'Validation', 'terminal', 'Create a fresh pending waitpoint.'),
    ('retention_limit_exceeded', 'ZV011', 'Validation', 'terminal', 'Split the frame or store it elsewhere.'),
    (
        'invalid_lease_for_suspend', 'ZV012', 'Validation', 'terminal',
        'Use the handle of the attempt that is running now.'
    ),
    ('invalid_dependency', 'ZV013', 'Validation', 'terminal', 'Apply the dependency to the child before resolving it.'),
    (
        'invalid_waitpoint_for_execution', 'ZV014', 'Validation', 'terminal',
        'Use a waitpoint of the same execution and attempt.'
    ),
    (
        'invalid_blocking_reason', 'ZV015', 'Validation', 'terminal',
        'Use one of the five admission reasons, such as paused_by_operator.'
    ),
    ('invalid_offset', 'ZV016', 'Validation', 'retryable', 'Correct the offset and call again.'),
    (
        'unauthorized', 'ZV017', 'Validation', 'terminal',
        'Connect as a member of the role in DETAIL, or let an administrator grant it to your login.'
    ),
    (
        'invalid_budget_scope', 'ZV018', 'Validation', 'terminal',
        'Give a scope type of 1 to 64 bytes and a scope id of 1 to 256 bytes.'
    ),
    (
        'budget_override_not_allowed', 'ZV019', 'Validation', 'terminal',
        'Ask an operator to reset the budget: `flowfabric budgets reset`.'
    ),
    (
        'invalid_quota_spec', 'ZV020', 'Validation', 'terminal',
        'Correct the field in DETAIL: limits are 0 (none) or more, and a rate needs a window of 1 s or more.'
    ),
    ('invalid_kid', 'ZV021', 'Validation', 'terminal', 'The key id must be non-empty and contain no colon.'),
    (
        'invalid_secret_hex', 'ZV022', 'Validation', 'terminal',
        'The secret must be a non-empty hex string of even length.'
    ),
    ('invalid_grace_ms', 'ZV023', 'Validation', 'terminal', 'Use an integer from 0 to 31536000000000.'),
    (
        'invalid_frame_type', 'ZV024', 'Validation', 'soft_error',
        'Use a frame type that the readers of the stream know.'
    ),
    ('handle_from_other_backend', 'ZV025', 'Validation', 'terminal', 'Use the handle with the backend that minted it.'),
    (
        'fence_required', 'ZV026', 'Validation', 'terminal',
        'Pass the lease id, lease epoch and attempt id of the handle.'
    ),
    ('partial_fence_triple', 'ZV027', 'Validation', 'terminal', 'Pass all three fence fields or none.'),
    ('invalid_args', 'ZV028', 'Validation', 'terminal', 'Pass the flow id and the downstream execution id.'),
    (
        'missing_token', 'ZV029', 'Validation', 'terminal',
        'Present the waitpoint token: `flowfabric signal --token @FILE`.'
    ),
    (
        'token_expired', 'ZV030', 'Validation', 'terminal',
        'Obtain a fresh token; the signing key''s grace period is over.'
    ),
    (
        'additional_waitpoint_binding_malformed', 'ZV031', 'Validation', 'terminal',
        'Give every additional waitpoint an id and a key.'
    ),
    (
        'use_pending_with_extras_unsupported', 'ZV032', 'Validation', 'terminal',
        'Use fresh waitpoints when binding more than one.'
    ),
    ('invalid_resume_condition', 'ZV033', 'Validation', 'terminal', 'Correct the condition at the path in DETAIL.'),
    -- ZC, Contention: somebody else moved first, or this is the wrong door for the state.
    (
        'use_claim_resumed_execution', 'ZC001', 'Contention', 'retryable',
        'Call ff_claim_resumed_execution with the same grant.'
    ),
    ('not_a_resumed_execution', 'ZC002', 'Contention', 'retryable', 'Call ff_claim_execution with the same grant.'),
    (
        'execution_not_leaseable', 'ZC003', 'Contention', 'retryable',
        'The state changed since the grant; ask for other work.'
    ),
    ('lease_conflict', 'ZC004', 'Contention', 'retryable', 'A worker owns the execution; ask for other work.'),
    ('invalid_claim_grant', 'ZC005', 'Contention', 'retryable', 'Ask the scheduler for a new grant.'),
    ('claim_grant_expired', 'ZC006', 'Contention', 'retryable', 'Ask the scheduler for a new grant.'),
    (
        'no_eligible_execution', 'ZC007', 'Contention', 'retryable',
        'Wait 100 ms to 1 s with back-off and ask again; `flowfabric why` says what an execution waits for.'
    ),
    (
        'waitpoint_not_found', 'ZC008', 'Contention', 'retryable',
        'The waitpoint may not be committed yet; retry with back-off.'
    ),
    (
        'waitpoint_pending_use_buffer_script', 'ZC009', 'Contention', 'retryable',
        'Call ff_buffer_signal_for_pending_waitpoint with the same signal.'
    ),
    (
        'stale_graph_revision', 'ZC010', 'Contention', 'retryable',
        'Read the flow again and retry with the new revision.'
    ),
    (
        'execution_not_active', 'ZC011', 'Contention', 'terminal',
        'Compare the details with your handle: a match means that your earlier call won; otherwise stop.'
    ),
    (
        'execution_not_eligible', 'ZC012', 'Contention', 'informational',
        'The state changed; skip this execution, or ask `flowfabric why` what it waits for.'
    ),
    (
        'execution_not_in_eligible_set', 'ZC013', 'Contention', 'informational',
        'Skip this execution; `flowfabric why` says what it waits for.'
    ),
    (
        'execution_not_reclaimable', 'ZC014', 'Contention', 'informational',
        'Skip it: another call dealt with the execution, or the details say when its takeover is due.'
    ),
    (
        'no_active_lease', 'ZC015', 'Contention', 'informational',
        'There is nothing to do, or the execution must be claimed first.'
    ),
    (
        'rate_limit_exceeded', 'ZC016', 'Contention', 'retryable',
        'Wait for the retry_after_ms of DETAIL and ask again; `flowfabric quotas show` says what is in use.'
    ),
    (
        'concurrency_limit_exceeded', 'ZC017', 'Contention', 'retryable',
        'Back off and retry; `flowfabric quotas show` says what is in use.'
    ),
    (
        'retry_exhausted', 'ZC018', 'Contention', 'retryable',
        'Retry later; a reconciler will finish the work if one exists.'
    ),
    (
        'completion_dispatch_pending', 'ZC019', 'Contention', 'retryable',
        'Wait a moment and replay again; if it stays so, run `flowfabric tick`.'
    ),
    ('flow_membership_changed', 'ZC020', 'Contention', 'retryable', 'Repeat the call.'),
    -- ZK, Conflict: the request contradicts an existing record.
    (
        'dependency_already_exists', 'ZK001', 'Conflict', 'terminal',
        'Compare your edge with the existing one in the details.'
    ),
    (
        'cycle_detected', 'ZK002', 'Conflict', 'terminal',
        'Remove an edge; a search that visits more than 1000 nodes is refused too.'
    ),
    ('self_referencing_edge', 'ZK003', 'Conflict', 'terminal', 'Use two different executions.'),
    ('execution_already_in_flow', 'ZK004', 'Conflict', 'terminal', 'Use the execution''s own flow.'),
    ('waitpoint_already_exists', 'ZK005', 'Conflict', 'informational', 'Use the existing waitpoint or mint a new id.'),
    ('budget_attach_conflict', 'ZK006', 'Conflict', 'terminal', 'Detach the other budget first.'),
    ('quota_attach_conflict', 'ZK007', 'Conflict', 'terminal', 'Detach the other policy first.'),
    (
        'rotation_conflict', 'ZK008', 'Conflict', 'terminal',
        'Choose a fresh key id: `flowfabric keys rotate` makes one of the time.'
    ),
    (
        'active_attempt_exists', 'ZK009', 'Conflict', 'bug',
        'Report it with DETAIL and `flowfabric doctor`: the stored state is inconsistent.'
    ),
    ('already_member_of_different_flow', 'ZK010', 'Conflict', 'terminal', 'An execution belongs to at most one flow.'),
    -- ZS, State: a legal but surprising state.
    ('stale_lease', 'ZS001', 'State', 'terminal', 'Stop: the work belongs to another worker now.'),
    ('lease_expired', 'ZS002', 'State', 'terminal', 'Stop: do not complete or fail; the execution will be reclaimed.'),
    (
        'lease_revoked', 'ZS003', 'State', 'terminal',
        'Stop: an operator took the lease away; `flowfabric events operator` says who and why.'
    ),
    (
        'execution_not_suspended', 'ZS004', 'State', 'informational',
        'The execution was resumed or has ended: look at it with `flowfabric executions show`.'
    ),
    ('already_suspended', 'ZS005', 'State', 'informational', 'The suspension is already open.'),
    ('waitpoint_closed', 'ZS006', 'State', 'informational', 'The signal came too late.'),
    (
        'target_not_signalable', 'ZS007', 'State', 'terminal',
        'Nothing waits for this signal; `flowfabric executions show` lists the open waitpoints.'
    ),
    ('duplicate_signal', 'ZS008', 'State', 'informational', 'Use the signal id in the details.'),
    (
        'resume_condition_not_met', 'ZS009', 'State', 'terminal',
        'Deliver the missing signals (`flowfabric why` names them), or run `flowfabric executions resume`.'
    ),
    ('waitpoint_not_pending', 'ZS010', 'State', 'informational', 'Create a new pending waitpoint.'),
    ('pending_waitpoint_expired', 'ZS011', 'State', 'informational', 'Create a new pending waitpoint.'),
    ('waitpoint_not_open', 'ZS012', 'State', 'informational', 'There is nothing to close.'),
    (
        'execution_not_terminal', 'ZS013', 'State', 'terminal',
        'Wait for its end (`flowfabric why` says what it waits for), or end it: `flowfabric cancel`.'
    ),
    (
        'max_replays_exhausted', 'ZS014', 'State', 'terminal',
        'The limit is part of the policy; create a new execution with a higher one.'
    ),
    ('stream_closed', 'ZS015', 'State', 'terminal', 'Stop appending.'),
    ('stale_owner_cannot_append', 'ZS016', 'State', 'terminal', 'Stop: the lease is not yours any more.'),
    ('grant_already_exists', 'ZS017', 'State', 'informational', 'Skip the execution; a live grant for it is out.'),
    ('execution_not_in_flow', 'ZS018', 'State', 'terminal', 'Add the execution to the flow first.'),
    (
        'flow_already_terminal', 'ZS019', 'State', 'terminal',
        'The flow no longer changes; look at it with `flowfabric flows show`.'
    ),
    ('deps_not_satisfied', 'ZS020', 'State', 'informational', 'Wait for the dependencies.'),
    ('not_blocked_by_deps', 'ZS021', 'State', 'informational', 'There is nothing to promote.'),
    (
        'not_runnable', 'ZS022', 'State', 'terminal',
        'The execution left the runnable phase; look at it with `flowfabric executions show`.'
    ),
    ('terminal', 'ZS023', 'State', 'terminal', 'The execution has ended; `flowfabric replay` runs it once more.'),
    (
        'budget_exceeded', 'ZS024', 'State', 'cooperative',
        'Stop using resources, then fail the execution with category budget_exceeded.'
    ),
    ('budget_soft_exceeded', 'ZS025', 'State', 'informational', 'Log and continue.'),
    ('ok_already_applied', 'ZS026', 'State', 'informational', 'There is nothing to do.'),
    ('attempt_not_started', 'ZS027', 'State', 'terminal', 'The attempt is not running.'),
    ('attempt_already_terminal', 'ZS028', 'State', 'informational', 'The attempt has ended.'),
    (
        'execution_not_eligible_for_attempt', 'ZS029', 'State', 'terminal',
        'The execution is in the wrong state for a new attempt.'
    ),
    ('replay_not_allowed', 'ZS030', 'State', 'terminal', 'See max_replays_exhausted and execution_not_terminal.'),
    (
        'max_retries_exhausted', 'ZS031', 'State', 'terminal',
        'The execution has been failed; `flowfabric replay` runs it once more, with its full retries.'
    ),
    ('stream_already_closed', 'ZS032', 'State', 'informational', 'There is nothing to do.'),
    (
        'already_satisfied', 'ZS033', 'State', 'informational',
        'The condition was met before the suspension; continue to work.'
    ),
    (
        'lane_not_accepting', 'ZS034', 'State', 'terminal',
        'Use another lane, or open this one: `flowfabric lanes resume`.'
    ),
    (
        'event_cursor_expired', 'ZS035', 'State', 'terminal',
        'Events after the cursor have been pruned; start again from oldest_cursor and reconcile.'
    ),
    ('reservation_not_open', 'ZS036', 'State', 'terminal', 'The reservation was settled or given back; use a new key.'),
    (
        'replay_needs_force', 'ZS037', 'State', 'terminal',
        'A replay gives up the result: run `flowfabric replay --force`, or pass p_force => true.'
    ),
    -- ZX, Corruption: stored data breaks an invariant.
    (
        'corruption', 'ZX001', 'Corruption', 'terminal',
        'Do not retry; run `flowfabric doctor`, and show it and DETAIL to an operator.'
    ),
    (
        'invariant_violation', 'ZX002', 'Corruption', 'terminal',
        'Do not retry; run `flowfabric doctor`, and show it and DETAIL to an operator.'
    ),
    ('invalid_secret', 'ZX003', 'Corruption', 'terminal', 'Install another signing key: `flowfabric keys rotate`.'),
    -- ZU, Unavailable: the deployment cannot serve this call now.
    ('unavailable', 'ZU001', 'Unavailable', 'terminal', 'Use another call or enable the feature.'),
    (
        'hmac_secret_not_initialized', 'ZU002', 'Unavailable', 'terminal',
        'Install a signing key: `flowfabric keys rotate`.'
    ),
    (
        'schema_version_mismatch', 'ZU003', 'Unavailable', 'terminal',
        'Run `flowfabric migrate`, or use a client of the installed version; `flowfabric status` shows both.'
    ),
    (
        'partition_config_mismatch', 'ZU004', 'Unavailable', 'terminal',
        'Use the partition count that the schema was installed with; DETAIL has it.'
    ),
    (
        'read_only_server', 'ZU005', 'Unavailable', 'terminal',
        'Connect to the primary: this server is a standby, or this session is read-only.'
    ),
    -- ZB, Bug: cannot happen in a correct engine.
    (
        'attempt_not_in_created_state', 'ZB001', 'Bug', 'bug',
        'Report it with DETAIL and `flowfabric doctor`: a correct engine does not raise this.'
    ),
    (
        'invalid_keys_missing_hmac', 'ZB002', 'Bug', 'bug',
        'Report it with DETAIL and `flowfabric doctor`: a correct engine does not raise this.'
    ),
    (
        'internal_error', 'ZB003', 'Bug', 'bug',
        'Report it with DETAIL and `flowfabric doctor`: a correct engine does not raise this.'
    )
),

unlisted as (
    delete from flowfabric.ff_error_code as c
    where not exists (
        select from catalogue as k
        where k.code = c.code
    )
)

insert into flowfabric.ff_error_code (code, sqlstate, category, retry_class, hint)
select
    k.code,
    k.sqlstate,
    k.category,
    k.retry_class,
    k.hint
from catalogue as k
except
select
    c.code,
    c.sqlstate,
    c.category,
    c.retry_class,
    c.hint
from flowfabric.ff_error_code as c
on conflict (code) do update
    set
        sqlstate = excluded.sqlstate,
        category = excluded.category,
        retry_class = excluded.retry_class,
        hint = excluded.hint;

-- _ff_error_detail: the DETAIL object of an error, also for the `detail` column of a batch item.
--
-- `code` and `fn` go in last, so that no field of the caller can replace them. Nulls go out at every depth:
-- a field that is not known is left out. A code that is not in the catalogue is a mistake of the engine
-- and becomes internal_error with that code as its reason; its fields belong to no contract and are dropped.
create or replace function flowfabric._ff_error_detail(
    p_code text,
    p_fn text,
    p_detail jsonb default '{}'
)
returns jsonb
language plpgsql stable
as $$
begin
    if not exists (select from flowfabric.ff_error_code as c where c.code = p_code) then
        return jsonb_build_object(
            'code', 'internal_error', 'fn', p_fn, 'reason', coalesce(p_code, 'no code given'));
    end if;
    return jsonb_strip_nulls(
        coalesce(p_detail, '{}') || jsonb_build_object('code', p_code, 'fn', p_fn));
end;
$$;

comment on function flowfabric._ff_error_detail(text, text, jsonb) is
'Internal: the JSON object of an error''s DETAIL: the given fields without nulls, with code and fn.';

-- _ff_error_sqlstate: the SQLSTATE of a code, for the `sqlstate` column of a batch item.
create or replace function flowfabric._ff_error_sqlstate(p_code text)
returns text
language plpgsql stable
as $$
begin
    return coalesce(
        (select c.sqlstate::text from flowfabric.ff_error_code as c where c.code = p_code),
        (select c.sqlstate::text from flowfabric.ff_error_code as c where c.code = 'internal_error'));
end;
$$;

comment on function flowfabric._ff_error_sqlstate(text) is
'Internal: the SQLSTATE of an error code; that of internal_error for a code the catalogue does not have.';

-- _ff_raise_with_hint: refuse, with a hint of its own where the case is known better than the catalogue knows it.
-- Every typed error of the engine leaves through here.
--
-- p_fn is the public function: a move passes on the name its caller gave it. Volatile, because the planner
-- may run a stable function to estimate a condition, and a refusal must come from the call itself.
create or replace function flowfabric._ff_raise_with_hint(
    p_code text,
    p_fn text,
    p_detail jsonb,
    p_hint text
)
returns void
language plpgsql volatile
as $$
declare
    v_detail jsonb := flowfabric._ff_error_detail(p_code, p_fn, p_detail);
    v_sqlstate text;
    v_hint text;
begin
    select c.sqlstate::text, c.hint
    into v_sqlstate, v_hint
    from flowfabric.ff_error_code as c
    where c.code = v_detail ->> 'code';

    raise exception using
        errcode = v_sqlstate,
        message = v_detail ->> 'code',
        detail = v_detail::text,
        hint = coalesce(p_hint, v_hint);
end;
$$;

comment on function flowfabric._ff_raise_with_hint(text, text, jsonb, text) is
'Internal: raises a catalogued error with its SQLSTATE, the code as message, a JSON detail and a hint.';

-- _ff_raise: refuse, with the hint of the catalogue. Its signature stays: a constraint of ff_exec_core needs it.
create or replace function flowfabric._ff_raise(
    p_code text,
    p_fn text,
    p_detail jsonb default '{}'
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_raise_with_hint(p_code, p_fn, p_detail, null);
end;
$$;

comment on function flowfabric._ff_raise(text, text, jsonb) is
'Internal: raises a catalogued error with its SQLSTATE, the code as message, a JSON detail and a hint.';
