-- ff_grant_next: reserve the best executions that a worker may run, for a control plane that hands work out.
--
-- Fence:  none; ends in claim grants.
-- Locks:  as ff_claim_next.
-- Writes: ff_claim_grant; quota admissions; blocked executions; promoted delayed executions; ff_lane_floor, but creates
--         no floor.
-- Raises: invalid_input, invalid_capabilities. Having no work is an empty answer.
-- Retry:  not safe: a repeat reserves more. What was reserved and not claimed is free again when its grant expires.
--
-- Everything up to the grant is ff_claim_next, so both give the same order and the same admission. A quota slot that
-- was recorded for a grant that lapses is given back by ff_sweep_expired_grants.
create or replace function flowfabric.ff_grant_next(
    p_lanes text[],
    p_worker_id text,
    p_worker_instance_id text,
    p_capabilities text[] default '{}',
    p_max integer default 1,
    p_grant_ttl_ms bigint default 5000,
    p_namespace text default null,
    p_lane_order text default 'fair',
    p_include_resumed boolean default true,
    p_promote_due boolean default true,
    p_partition_key smallint default null
)
returns setof flowfabric.ff_granted_execution
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these three: 15_batch/_moves.sql
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_grant_next';
    v_capabilities text[];
    v_next record;
    v_taken flowfabric.ff_claim_candidate;
    v_exec flowfabric.ff_exec_core;
    v_grant flowfabric.ff_grant;
begin
    perform flowfabric._ff_check_next_args(
        p_lanes, p_worker_id, p_worker_instance_id, p_max, p_namespace, p_lane_order,
        array[p_include_resumed, p_promote_due], array['include_resumed', 'promote_due'], p_partition_key, c_fn);
    perform flowfabric._ff_check_grant_args(p_worker_id, p_worker_instance_id, null, p_grant_ttl_ms, c_fn);
    v_capabilities := flowfabric._ff_normalize_capabilities(p_capabilities, 'worker', c_fn);

    v_next := flowfabric._ff_take_next(
        p_lanes, p_worker_instance_id, v_capabilities, p_max, p_namespace, p_lane_order, p_include_resumed,
        p_promote_due, p_partition_key);
    foreach v_taken in array v_next.taken loop
        select e.* into v_exec
        from flowfabric.ff_exec_core as e
        where e.partition_key = v_taken.partition_key and e.execution_id = v_taken.execution_id
            -- Somebody may have issued one between the view of the queue and the lock.
            and not exists (
                select from flowfabric.ff_claim_grant as g
                where g.partition_key = e.partition_key and g.execution_id = e.execution_id
                    and g.expires_at_ms >= v_next.now_ms);
        if found then
            v_grant := flowfabric._ff_write_grant(
                v_exec, 'claim', p_worker_id, p_worker_instance_id, v_capabilities, p_grant_ttl_ms, null, null, null,
                v_next.now_ms);
            return next row(
                v_grant.execution_id, v_grant.lane_id, v_exec.attempt_state = 'attempt_interrupted', v_grant.grant_key,
                v_grant.grant_id, v_grant.expires_at_ms)::flowfabric.ff_granted_execution;
        end if;
    end loop;
    if v_next.promoted is not null then
        perform flowfabric._ff_wake_promoted(v_next.promoted, v_next.taken);
    end if;
end;
$$;

comment on function flowfabric.ff_grant_next(
    text[], text, text, text[], integer, bigint, text, text, boolean, boolean, smallint) is
'Reserves the next executions of some lanes for a worker, chosen and admitted as ff_claim_next does.';

grant execute on function flowfabric.ff_grant_next(
    text[], text, text, text[], integer, bigint, text, text, boolean, boolean, smallint)
to flowfabric_worker, flowfabric_operator;
