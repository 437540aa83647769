-- ff_issue_grant_and_claim: take a named execution now, past capabilities, budgets, quota and lane state.
--
-- Fence:  none; ends in a new lease.
-- Locks:  the ff_exec_core row, then the ff_attempt row of a paused attempt.
-- Writes: ff_exec_core, ff_attempt, the pending lineage in ff_exec_note, ff_lease_event; deletes an expired grant.
-- Raises: invalid_input, invalid_policy_json, execution_not_found, execution_not_eligible, lease_conflict,
--         active_attempt_exists, grant_already_exists, execution_not_in_eligible_set.
-- Retry:  not safe; a repeat answers execution_not_eligible. Give p_lease_id to recognise a lease after a lost answer.
--
-- An operator's door: a paused attempt is taken up again even while it is delayed or blocked. It never is while the
-- execution is suspended, which is another phase: a signal that somebody waits for cannot be skipped. Grant and claim
-- are one call, so no grant is written that could outlive it.
create or replace function flowfabric.ff_issue_grant_and_claim(
    p_execution_id text,
    p_lease_ttl_ms bigint,
    p_lane_id text default null,
    p_worker_id text default 'operator',
    p_worker_instance_id text default 'operator',
    p_lease_id uuid default null,
    p_attempt_id uuid default null,
    p_attempt_policy jsonb default null,
    p_attempt_timeout_ms bigint default null,
    p_execution_deadline_at_ms bigint default null
)
returns flowfabric.ff_claim
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_issue_grant_and_claim';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_lane_id text := nullif(p_lane_id, '');
    v_worker_id text := coalesce(nullif(p_worker_id, ''), 'operator');
    v_worker_instance_id text := coalesce(nullif(p_worker_instance_id, ''), 'operator');
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_claim_args(
        v_worker_id, v_worker_instance_id, v_lane_id, p_lease_ttl_ms, p_attempt_timeout_ms,
        p_execution_deadline_at_ms, c_fn);
    perform flowfabric._ff_check_object(p_attempt_policy, '{}'::text[], c_fn);
    perform flowfabric._ff_check_json_size(p_attempt_policy, 'attempt_policy', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_exec.lifecycle_phase <> 'runnable' then
        perform flowfabric._ff_raise_not_eligible(v_exec, c_fn);
    end if;
    perform flowfabric._ff_check_unowned(v_exec, c_fn);
    if v_exec.terminal_outcome <> 'none' then
        perform flowfabric._ff_raise_not_eligible(v_exec, c_fn);
    end if;
    perform flowfabric._ff_check_no_running_attempt(v_exec, c_fn);
    perform flowfabric._ff_check_no_live_grant(v_exec, v_now_ms, c_fn);

    if v_exec.attempt_state = 'attempt_interrupted' then
        return flowfabric._ff_resume_attempt(
            v_exec, v_worker_id, v_worker_instance_id, p_lease_ttl_ms, p_lease_id, p_attempt_timeout_ms,
            p_execution_deadline_at_ms, 'issue_grant_and_claim_resumed', v_now_ms);
    end if;
    if v_exec.eligibility_state <> 'eligible_now' or v_lane_id <> v_exec.lane_id then
        perform flowfabric._ff_raise_not_in_eligible_set(v_exec, v_lane_id, c_fn);
    end if;
    return flowfabric._ff_start_attempt(
        v_exec, v_worker_id, v_worker_instance_id, p_lease_ttl_ms, p_lease_id, p_attempt_id, p_attempt_policy,
        p_attempt_timeout_ms, p_execution_deadline_at_ms, 'issue_grant_and_claim', v_now_ms);
end;
$$;

comment on function flowfabric.ff_issue_grant_and_claim(
    text, bigint, text, text, text, uuid, uuid, jsonb, bigint, bigint) is
'Takes a named execution at once, past every admission check: a new attempt, or the paused one.';

grant execute on function flowfabric.ff_issue_grant_and_claim(
    text, bigint, text, text, text, uuid, uuid, jsonb, bigint, bigint)
to flowfabric_operator;
