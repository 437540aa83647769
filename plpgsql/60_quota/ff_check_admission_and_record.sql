-- ff_check_admission_and_record: ask whether an execution may start under a quota policy and, if so, record it.
--
-- Fence:  none; it is a scheduler that asks, before it grants.
-- Locks:  the ff_exec_core row, then the ff_quota_policy row, which serialises all admissions of the policy.
-- Writes: ff_quota_window, ff_quota_admitted.
-- Raises: invalid_input, execution_not_found, quota_policy_not_found. A denial is an outcome.
-- Retry:  safe inside the window: the repeat answers already_admitted and counts nothing twice.
--
-- The numbers come from the policy, never from the caller. A token is spent for the window; a slot is held until the
-- execution stops being active, or its grant lapses unused. A denial records nothing: a token is not spent when the cap
-- is in the way.
create or replace function flowfabric.ff_check_admission_and_record(
    p_quota_policy_id text,
    p_execution_id text,
    p_jitter_ms bigint default null
)
returns flowfabric.ff_admission
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_check_admission_and_record';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_decision flowfabric.ff_admission_decision;
begin
    if not flowfabric._ff_is_name(p_quota_policy_id) then
        perform flowfabric._ff_raise_invalid_name(p_quota_policy_id, 'quota_policy_id', c_fn);
    end if;
    perform flowfabric._ff_check_duration(p_jitter_ms, 'jitter_ms', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    perform from flowfabric.ff_quota_policy as q
    where q.quota_policy_id = p_quota_policy_id
    for no key update;
    if not found then
        perform flowfabric._ff_raise(
            'quota_policy_not_found', c_fn, jsonb_build_object('quota_policy_id', p_quota_policy_id));
    end if;
    v_decision := flowfabric._ff_admit_under_quota(
        v_exec.partition_key, v_exec.execution_id, p_quota_policy_id, p_jitter_ms, flowfabric.ff_now_ms());
    return row(
        flowfabric._ff_wire_id(v_exec), p_quota_policy_id, v_decision.outcome, v_decision.retry_after_ms
    )::flowfabric.ff_admission;
end;
$$;

comment on function flowfabric.ff_check_admission_and_record(text, text, bigint) is
'Says whether an execution may start under a quota policy, and records the token and the slot if it may.';

grant execute on function flowfabric.ff_check_admission_and_record(text, text, bigint) to flowfabric_operator;
