-- ff_reclaim_execution: take over an execution whose lease was lost, or fail it when that happened too often.
--
-- Fence:  a live reclaim grant for the worker (none at the cap); ends in a new lease.
-- Locks:  the ff_flow_core row of a member, then the ff_exec_core row.
-- Writes: ff_exec_core, ff_attempt (the old one and the new one), ff_lease_event, ff_stream_meta, open reservations;
--         deletes the ff_claim_grant. At the cap everything that the end of an execution writes.
-- Raises: invalid_input, invalid_policy_json, execution_not_found, flow_membership_changed,
--         execution_not_reclaimable, invalid_claim_grant, claim_grant_expired.
-- Retry:  not safe; a repeat answers execution_not_reclaimable. A worker that lost the answer finds its lease with
--         ff_list_worker_leases.
--
-- A takeover in a row after the first is refused until its back-off is over (_ff_takeover_at_ms), with `takeover_at_ms`
-- in the detail.
--
-- The cap comes before the grant: an execution that has reached it can never be reclaimed, so nobody needs a grant to
-- finish it off. That end is an outcome and not an error, because it is written.
create or replace function flowfabric.ff_reclaim_execution(
    p_execution_id text,
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_ttl_ms bigint default 30000,
    p_lane_id text default null,
    p_lease_id uuid default null,
    p_attempt_id uuid default null,
    p_attempt_policy jsonb default null,
    p_attempt_timeout_ms bigint default null,
    p_grant_key text default null,
    p_max_reclaim_count integer default null
)
returns flowfabric.ff_reclaim
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_reclaim_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_lane_id text := nullif(p_lane_id, '');
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
    v_cap integer;
begin
    perform flowfabric._ff_check_claim_args(
        p_worker_id, p_worker_instance_id, v_lane_id, p_lease_ttl_ms, p_attempt_timeout_ms, null, c_fn);
    if p_max_reclaim_count < 0 then
        perform flowfabric._ff_raise_invalid(c_fn, 'max_reclaim_count', 'out_of_range', p_max_reclaim_count::text);
    end if;
    perform flowfabric._ff_check_object(p_attempt_policy, '{}'::text[], c_fn);
    perform flowfabric._ff_check_json_size(p_attempt_policy, 'attempt_policy', c_fn);

    v_exec := flowfabric._ff_lock_execution_with_flow(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_lane_matches(v_exec, v_lane_id, c_fn);
    perform flowfabric._ff_check_reclaimable(v_exec, p_max_reclaim_count, v_now_ms, c_fn);
    v_cap := flowfabric._ff_reclaim_cap(v_exec, p_max_reclaim_count);
    if v_exec.lease_reclaim_count < v_cap then
        perform flowfabric._ff_check_grant(v_exec, 'reclaim', p_worker_id, p_grant_key, v_now_ms, c_fn);
    end if;

    return flowfabric._ff_reclaim_attempt(
        v_exec, p_worker_id, p_worker_instance_id, p_lease_ttl_ms, p_lease_id, p_attempt_id, p_attempt_policy,
        p_attempt_timeout_ms, v_cap, v_now_ms);
end;
$$;

comment on function flowfabric.ff_reclaim_execution(
    text, text, text, bigint, text, uuid, uuid, jsonb, bigint, text, integer) is
'Takes over an execution whose lease expired or was revoked, or fails it when its reclaims are used up.';

grant execute on function flowfabric.ff_reclaim_execution(
    text, text, text, bigint, text, uuid, uuid, jsonb, bigint, text, integer)
to flowfabric_worker;
