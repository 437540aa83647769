-- ff_claim_execution: consume a claim grant and start a new attempt under a new lease.
--
-- Fence:  a live claim grant for the worker; ends in a new lease.
-- Locks:  the ff_exec_core row.
-- Writes: ff_exec_core, ff_attempt, the pending lineage in ff_exec_note, ff_lease_event; deletes the ff_claim_grant.
-- Raises: invalid_input, invalid_policy_json, execution_not_found, execution_not_leaseable, lease_conflict,
--         active_attempt_exists, use_claim_resumed_execution, invalid_claim_grant, claim_grant_expired.
-- Retry:  not safe; a repeat answers execution_not_leaseable. A worker that lost the answer finds its lease with
--         ff_list_worker_leases.
--
-- An issued grant is honoured: the state of the lane, budgets and quotas are not looked at again. A refused claim
-- leaves the grant as it was.
create or replace function flowfabric.ff_claim_execution(
    p_execution_id text,
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_ttl_ms bigint default 30000,
    p_lane_id text default null,
    p_lease_id uuid default null,
    p_attempt_id uuid default null,
    p_attempt_policy jsonb default null,
    p_attempt_timeout_ms bigint default null,
    p_execution_deadline_at_ms bigint default null,
    p_grant_key text default null
)
returns flowfabric.ff_claim
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_claim_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_lane_id text := nullif(p_lane_id, '');
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_claim_args(
        p_worker_id, p_worker_instance_id, v_lane_id, p_lease_ttl_ms, p_attempt_timeout_ms,
        p_execution_deadline_at_ms, c_fn);
    perform flowfabric._ff_check_object(p_attempt_policy, '{}'::text[], c_fn);
    perform flowfabric._ff_check_json_size(p_attempt_policy, 'attempt_policy', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_exec.lifecycle_phase <> 'runnable' then
        perform flowfabric._ff_raise_not_leaseable(v_exec, c_fn);
    end if;
    perform flowfabric._ff_check_unowned(v_exec, c_fn);
    if v_exec.eligibility_state <> 'eligible_now' or v_exec.terminal_outcome <> 'none' then
        perform flowfabric._ff_raise_not_leaseable(v_exec, c_fn);
    end if;
    perform flowfabric._ff_check_no_running_attempt(v_exec, c_fn);
    if v_exec.attempt_state = 'attempt_interrupted' then
        perform flowfabric._ff_raise(
            'use_claim_resumed_execution', c_fn,
            jsonb_build_object('execution_id', flowfabric._ff_wire_id(v_exec)));
    end if;
    perform flowfabric._ff_check_grant(v_exec, 'claim', p_worker_id, p_grant_key, v_now_ms, c_fn);
    perform flowfabric._ff_check_lane_matches(v_exec, v_lane_id, c_fn);

    return flowfabric._ff_start_attempt(
        v_exec, p_worker_id, p_worker_instance_id, p_lease_ttl_ms, p_lease_id, p_attempt_id, p_attempt_policy,
        p_attempt_timeout_ms, p_execution_deadline_at_ms, 'claim', v_now_ms);
end;
$$;

comment on function flowfabric.ff_claim_execution(
    text, text, text, bigint, text, uuid, uuid, jsonb, bigint, bigint, text) is
'Consumes a claim grant and starts a new attempt under a new lease.';

grant execute on function flowfabric.ff_claim_execution(
    text, text, text, bigint, text, uuid, uuid, jsonb, bigint, bigint, text)
to flowfabric_worker;
