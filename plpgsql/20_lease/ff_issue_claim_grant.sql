-- ff_issue_claim_grant: reserve one eligible execution for one worker, for a short time.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row.
-- Writes: ff_claim_grant, and a new version of the ff_exec_core row without a change; on a mismatch only the time of
--         it, in ff_exec_note.
-- Raises: invalid_input, execution_not_found, execution_not_eligible, grant_already_exists,
--         execution_not_in_eligible_set, invalid_capabilities.
-- Retry:  not safe; a repeat answers grant_already_exists until the grant expires, also to the same worker.
--
-- The execution itself does not change: it stays eligible, and a grant that lapses leaves nothing stuck. A scheduler
-- that got capability_mismatch blocks the execution for route, or it meets the same head of the queue for ever.
create or replace function flowfabric.ff_issue_claim_grant(
    p_execution_id text,
    p_worker_id text,
    p_worker_instance_id text,
    p_lane_id text,
    p_worker_capabilities text[] default '{}',
    p_grant_ttl_ms bigint default 5000,
    p_capability_hash text default null,
    p_route_snapshot jsonb default null,
    p_admission_summary text default null
)
returns flowfabric.ff_grant
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_issue_claim_grant';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
    v_lane_state text;
    v_capabilities text[];
begin
    perform flowfabric._ff_check_grant_args(p_worker_id, p_worker_instance_id, p_lane_id, p_grant_ttl_ms, c_fn);
    perform flowfabric._ff_check_label(p_capability_hash, 'capability_hash', c_fn);
    perform flowfabric._ff_check_json_size(p_route_snapshot, 'route_snapshot', c_fn);
    perform flowfabric._ff_check_reason(p_admission_summary, 'admission_summary', c_fn);
    if p_lane_id is null then
        perform flowfabric._ff_raise_invalid_lane(p_lane_id, c_fn);
    end if;

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_exec.lifecycle_phase <> 'runnable' or v_exec.eligibility_state <> 'eligible_now' then
        perform flowfabric._ff_raise_not_eligible(v_exec, c_fn);
    end if;
    perform flowfabric._ff_check_no_live_grant(v_exec, v_now_ms, c_fn);
    if p_lane_id <> v_exec.lane_id then
        perform flowfabric._ff_raise_not_in_eligible_set(v_exec, p_lane_id, c_fn);
    end if;
    select l.lane_state into v_lane_state from flowfabric.ff_lane_registry as l where l.lane_id = v_exec.lane_id;
    if v_lane_state in ('paused', 'disabled') then
        perform flowfabric._ff_raise_not_eligible(v_exec, c_fn, v_lane_state);
    end if;
    v_capabilities := flowfabric._ff_normalize_capabilities(p_worker_capabilities, 'worker', c_fn);

    return flowfabric._ff_grant_to_capable_worker(
        v_exec, 'claim', p_worker_id, p_worker_instance_id, v_capabilities, p_grant_ttl_ms, p_capability_hash,
        p_route_snapshot, p_admission_summary, v_now_ms);
end;
$$;

comment on function flowfabric.ff_issue_claim_grant(
    text, text, text, text, text[], bigint, text, jsonb, text) is
'Reserves an eligible execution for a worker and returns the key of the grant, or says which capabilities it lacks.';

grant execute on function flowfabric.ff_issue_claim_grant(
    text, text, text, text, text[], bigint, text, jsonb, text)
to flowfabric_worker, flowfabric_operator;
