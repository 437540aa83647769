-- ff_reclaim_next: take over executions whose lease was lost, and end those that were taken over too often.
--
-- Fence:  none; ends in new leases.
-- Locks:  per execution the ff_flow_core row of a member, then the ff_exec_core row, both SKIP LOCKED; ff_budget_policy
--         rows last, ascending, waiting.
-- Writes: per execution what ff_reclaim_execution writes.
-- Raises: invalid_input, invalid_capabilities. Having nothing to take over is an empty answer.
-- Retry:  not safe: a repeat takes over more. A worker that lost the answer finds its leases with
--         ff_list_worker_leases.
--
-- No grant is needed, the lane's state is not looked at, and neither are budgets and quotas: the work has started and
-- its slot is still held. Executions at their cap are reported besides p_max, up to 100 of them.
--
-- p_grace_ms counts from the expiry of the lease, whether or not a scanner has marked it since; a revoked lease has no
-- grace, because somebody decided.
--
-- Priority is in no index of lost leases, so all of them in these lanes are read and sorted. There are as many as
-- workers have lost and nobody has taken over yet.
create or replace function flowfabric.ff_reclaim_next(
    p_lanes text[],
    p_worker_id text,
    p_worker_instance_id text,
    p_capabilities text[] default '{}',
    p_max integer default 1,
    p_lease_ttl_ms bigint default 30000,
    p_namespace text default null,
    p_lane_order text default 'fair',
    p_with_payload boolean default true,
    p_partition_key smallint default null,
    p_grace_ms bigint default 0,
    p_max_reclaim_count integer default null
)
returns setof flowfabric.ff_reclaimed_execution
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these three: 15_batch/_moves.sql
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_reclaim_next';
    c_cap_limit constant integer := 100;
    v_now_ms bigint;
    v_set_ids integer[];
    v_key flowfabric.ff_execution_key;
    v_exec flowfabric.ff_exec_core;
    v_reclaim flowfabric.ff_reclaim;
    v_owners flowfabric.ff_execution_key[] := '{}'::flowfabric.ff_execution_key[];
    v_reclaimed integer := 0;
    v_capped integer := 0;
begin
    perform flowfabric._ff_check_next_args(
        p_lanes, p_worker_id, p_worker_instance_id, p_max, p_namespace, p_lane_order, array[p_with_payload],
        array['with_payload'], p_partition_key, c_fn);
    perform flowfabric._ff_check_lease_ttl(p_lease_ttl_ms, c_fn);
    if (p_grace_ms between 0 and flowfabric._ff_longest_ms()) is not true then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'grace_ms', case when p_grace_ms is null then 'null' else 'out_of_range' end, p_grace_ms::text);
    end if;
    if p_max_reclaim_count < 0 then
        perform flowfabric._ff_raise_invalid(c_fn, 'max_reclaim_count', 'out_of_range', p_max_reclaim_count::text);
    end if;
    v_set_ids := flowfabric._ff_covered_sets(
        flowfabric._ff_normalize_capabilities(p_capabilities, 'worker', c_fn));

    v_now_ms := flowfabric.ff_now_ms();
    if p_namespace is not null and flowfabric._ff_is_draining(p_namespace, p_worker_instance_id, v_now_ms) then
        return;
    end if;
    foreach v_key in array flowfabric._ff_peek_lost_leases(
        p_lanes, v_set_ids, p_lane_order, p_namespace, p_partition_key, p_grace_ms, v_now_ms)
    loop
        exit when v_reclaimed >= p_max or v_capped >= c_cap_limit;
        begin
            v_exec := flowfabric._ff_scanner_lock_execution(v_key, true);
        exception when lock_not_available then
            continue; -- The block gives back the lock of the flow.
        end;
        continue when not flowfabric._ff_is_reclaimable(v_exec, v_now_ms)
            or (v_exec.ownership_state <> 'lease_revoked' and v_exec.lease_expires_at_ms + p_grace_ms > v_now_ms)
            or exists (
                select from flowfabric.ff_claim_grant as g
                where g.partition_key = v_exec.partition_key and g.execution_id = v_exec.execution_id
                    and g.expires_at_ms >= v_now_ms);
        -- Reservations go back at the end, all budgets together in ascending order: two callers would otherwise wait
        -- for each other's budgets crosswise.
        if v_exec.open_reservation_count > 0 then
            v_owners := v_owners || v_key;
            v_exec.open_reservation_count := 0;
        end if;
        v_reclaim := flowfabric._ff_reclaim_attempt(
            v_exec, p_worker_id, p_worker_instance_id, p_lease_ttl_ms, null, null, null, null,
            flowfabric._ff_reclaim_cap(v_exec, p_max_reclaim_count), v_now_ms);
        if v_reclaim.outcome = 'reclaimed' then
            v_reclaimed := v_reclaimed + 1;
        else
            v_capped := v_capped + 1;
        end if;
        return query
        select
            v_reclaim.outcome, v_reclaim.execution_id, v_exec.lane_id, v_exec.namespace, v_exec.execution_kind,
            v_exec.priority, v_reclaim.lease_id, v_reclaim.lease_epoch, v_reclaim.lease_expires_at_ms,
            v_reclaim.lease_renewal_deadline_ms, v_reclaim.attempt_id, v_reclaim.attempt_index, v_reclaim.attempt_type,
            v_reclaim.handle_kind, v_reclaim.worker_instance_id, v_reclaim.lease_ttl_ms,
            case when p_with_payload then flowfabric._ff_payload(e.small_payload, p.payload) end, p.payload_encoding,
            coalesce(p.tags, '{}'), p.policy, e.flow_id, s.tokens, e.created_at_ms, e.started_at_ms, e.deadline_at_ms,
            e.attempt_timeout_at_ms, e.total_attempt_count, v_reclaim.reclaim_count, v_reclaim.max_reclaim_count
        from flowfabric.ff_exec_core as e
        join flowfabric.ff_capability_set as s on s.capability_set_id = e.capability_set_id
        left join flowfabric.ff_exec_payload as p
            on p.partition_key = e.partition_key and p.execution_id = e.execution_id
        where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    end loop;

    if cardinality(v_owners) > 0 then
        perform from flowfabric.ff_budget_policy as b
        where b.budget_id in (
            select r.budget_id
            from unnest(v_owners) as o (partition_key, execution_id)
            join flowfabric.ff_budget_reservation as r
                on r.partition_key = o.partition_key and r.execution_id = o.execution_id and r.state = 'open')
        order by b.budget_id
        for no key update;
        perform flowfabric._ff_return_reservations(o.partition_key, o.execution_id, 'lease_expired', v_now_ms)
        from unnest(v_owners) as o (partition_key, execution_id);
    end if;
end;
$$;

comment on function flowfabric.ff_reclaim_next(
    text[], text, text, text[], integer, bigint, text, text, boolean, smallint, bigint, integer) is
'Takes over executions of some lanes whose lease expired or was revoked, or fails those whose reclaims are used up.';

grant execute on function flowfabric.ff_reclaim_next(
    text[], text, text, text[], integer, bigint, text, text, boolean, smallint, bigint, integer)
to flowfabric_worker, flowfabric_operator;

-- Without locks; whoever locks one looks again. Fair deals the first of each lane, then the second of each, lanes of
-- equal rank in an order drawn by lot for the call.
create or replace function flowfabric._ff_peek_lost_leases(
    p_lanes text[],
    p_set_ids integer[],
    p_lane_order text,
    p_namespace text,
    p_partition_key smallint,
    p_grace_ms bigint,
    p_now_ms bigint
)
returns flowfabric.ff_execution_key[]
language plpgsql volatile
as $$
begin
    return array(
        select row(c.partition_key, c.execution_id)::flowfabric.ff_execution_key
        from (
            select
                l.lane_id,
                row_number() over (order by case p_lane_order when 'fair' then random() else l.lane_number end) as turn
            from unnest(p_lanes) with ordinality as l (lane_id, lane_number)
        ) as l
        join (
            select
                e.partition_key, e.execution_id, e.lane_id, e.capability_set_id, e.namespace, e.priority,
                e.lease_expires_at_ms
            from flowfabric.ff_exec_core as e
            where e.ownership_state = 'leased' and e.lease_expires_at_ms <= p_now_ms - p_grace_ms
            union all
            select
                e.partition_key, e.execution_id, e.lane_id, e.capability_set_id, e.namespace, e.priority,
                e.lease_expires_at_ms
            from flowfabric.ff_exec_core as e
            where e.ownership_state in ('lease_expired_reclaimable', 'lease_revoked') and e.lane_id = any (p_lanes)
                and (e.ownership_state = 'lease_revoked' or e.lease_expires_at_ms <= p_now_ms - p_grace_ms)
        ) as c on c.lane_id = l.lane_id
        where c.capability_set_id = any (p_set_ids)
            and (p_namespace is null or c.namespace = p_namespace)
            and (p_partition_key is null or c.partition_key = p_partition_key)
            and not exists (
                select from flowfabric.ff_claim_grant as g
                where g.partition_key = c.partition_key and g.execution_id = c.execution_id
                    and g.expires_at_ms >= p_now_ms)
        order by
            case p_lane_order
                when 'fair' then row_number() over (
                    partition by l.turn order by c.priority desc, c.lease_expires_at_ms, c.execution_id)
                when 'strict' then l.turn
            end,
            case p_lane_order when 'fair' then l.turn end,
            c.priority desc, c.lease_expires_at_ms, c.execution_id);
end;
$$;
comment on function flowfabric._ff_peek_lost_leases(
    text[], integer[], text, text, smallint, bigint, bigint) is
'Internal: the executions of some lanes whose lease is lost, in the order in which to take them over.';
