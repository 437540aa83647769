-- ff_issue_reclaim_grant: reserve an execution whose lease was lost, so that a worker can take it over.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row.
-- Writes: ff_claim_grant, or on a mismatch the time of it in ff_exec_note; ff_exec_core, ff_lease_event, ff_stream_meta
--         and open reservations where an expiry was not marked yet.
-- Raises: invalid_input, execution_not_found, execution_not_reclaimable, grant_already_exists, invalid_capabilities.
-- Retry:  not safe; a repeat answers grant_already_exists until the grant expires, also to the same worker.
--
-- A lease that is expired by the clock but not yet marked is as good as lost, and is marked here, whatever the worker
-- then turns out to be capable of. While a back-off runs (_ff_takeover_at_ms) there is no grant. The cap on reclaims is
-- the business of the reclaim.
create or replace function flowfabric.ff_issue_reclaim_grant(
    p_execution_id text,
    p_worker_id text,
    p_worker_instance_id text,
    p_lane_id text default null,
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
    c_fn constant text := 'ff_issue_reclaim_grant';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_lane_id text := nullif(p_lane_id, '');
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
    v_capabilities text[];
begin
    perform flowfabric._ff_check_grant_args(p_worker_id, p_worker_instance_id, v_lane_id, p_grant_ttl_ms, c_fn);
    perform flowfabric._ff_check_label(p_capability_hash, 'capability_hash', c_fn);
    perform flowfabric._ff_check_json_size(p_route_snapshot, 'route_snapshot', c_fn);
    perform flowfabric._ff_check_reason(p_admission_summary, 'admission_summary', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_lane_matches(v_exec, v_lane_id, c_fn);
    perform flowfabric._ff_check_reclaimable(v_exec, null, v_now_ms, c_fn);
    perform flowfabric._ff_check_no_live_grant(v_exec, v_now_ms, c_fn);
    v_capabilities := flowfabric._ff_normalize_capabilities(p_worker_capabilities, 'worker', c_fn);

    if v_exec.ownership_state = 'leased' then
        v_exec := flowfabric._ff_lose_lease(v_exec, 'lease_expired_reclaimable', null, v_now_ms);
    end if;
    return flowfabric._ff_grant_to_capable_worker(
        v_exec, 'reclaim', p_worker_id, p_worker_instance_id, v_capabilities, p_grant_ttl_ms, p_capability_hash,
        p_route_snapshot, p_admission_summary, v_now_ms);
end;
$$;

comment on function flowfabric.ff_issue_reclaim_grant(
    text, text, text, text, text[], bigint, text, jsonb, text) is
'Reserves an execution with a lost lease for a worker and returns the key of the grant, or the capabilities it lacks.';

grant execute on function flowfabric.ff_issue_reclaim_grant(
    text, text, text, text, text[], bigint, text, jsonb, text)
to flowfabric_worker, flowfabric_operator;
