-- ff_reclaim_next: take over executions whose lease was lost, and end those that were taken over too often.
--
-- Fence:  none; ends in new leases.
-- Locks:  per execution the ff_flow_core row of a member, then the ff_exec_core row, then the ff_budget_policy rows of
--         its open reservations, all SKIP LOCKED.
-- Writes: per execution what ff_reclaim_execution writes; marks of expired leases that it sets aside.
-- Raises: invalid_input, invalid_capabilities. Having nothing to take over is an empty answer.
-- Retry:  not safe: a repeat takes over more. A worker that lost the answer finds its leases with
--         ff_list_worker_leases.
--
-- No grant is needed, the lane's state is not looked at, and neither are budgets and quotas: the work has started and
-- its slot is still held. Executions at their cap are reported besides p_max, up to 100 of them.
--
-- The first takeover is due when the lease has expired or was revoked, each later one without progress in between after
-- a back-off (_ff_takeover_at_ms). p_grace_ms counts from the expiry of the lease, whether or not a scanner has marked
-- it since; a revoked lease has no grace, because an operator decided.
--
-- A call reads a window of the leases that were lost first and orders that by priority. The window has ten times p_max
-- rows, 100 at least; several lanes share it, with p_max rows each at least.
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
    c_mark_limit constant integer := 100;
    c_rounds constant integer := 4;
    v_now_ms bigint;
    v_set_ids integer[];
    v_window integer;
    v_lost record;
    v_exec flowfabric.ff_exec_core;
    v_reclaim flowfabric.ff_reclaim;
    v_candidates integer;
    v_reclaimed integer := 0;
    v_capped integer := 0;
    v_marked integer := 0;
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
    v_window := greatest(greatest(10 * p_max, 100) / cardinality(p_lanes), p_max);
    -- More rounds than one only where other sessions were faster: what they hold or have taken is no reason for an
    -- empty answer while more is lost.
    for v_round in 0 .. c_rounds - 1 loop
        v_candidates := 0;
        for v_lost in
            select l.partition_key, l.execution_id, l.flow_id
            from flowfabric._ff_peek_lost_leases(
                p_lanes, v_set_ids, p_lane_order, p_namespace, p_partition_key, p_grace_ms, v_window,
                v_round * v_window, v_now_ms) as l
        loop
            v_candidates := v_candidates + 1;
            exit when v_reclaimed >= p_max or v_capped >= c_cap_limit;
            v_exec := flowfabric._ff_lock_lost_lease(
                v_lost.partition_key, v_lost.execution_id, v_lost.flow_id, p_grace_ms, v_now_ms);
            continue when v_exec.execution_id is null;
            if flowfabric._ff_takeover_at_ms(v_exec, p_max_reclaim_count) > v_now_ms then
                -- Marked, it is not read again until its back-off is over.
                if v_exec.ownership_state = 'leased' and v_marked < c_mark_limit then
                    perform flowfabric._ff_lose_lease(v_exec, 'lease_expired_reclaimable', null, v_now_ms);
                    v_marked := v_marked + 1;
                end if;
                continue;
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
                v_reclaim.lease_renewal_deadline_ms, v_reclaim.attempt_id, v_reclaim.attempt_index,
                v_reclaim.attempt_type, v_reclaim.handle_kind, v_reclaim.worker_instance_id, v_reclaim.lease_ttl_ms,
                case when p_with_payload then flowfabric._ff_payload(e.small_payload, p.payload) end,
                p.payload_encoding, flowfabric._ff_all_tags(e.partition_key, e.execution_id, p.tags), p.policy,
                e.flow_id, s.tokens, e.created_at_ms, e.started_at_ms, e.deadline_at_ms, e.attempt_timeout_at_ms,
                e.total_attempt_count,
                v_reclaim.reclaim_count, v_reclaim.max_reclaim_count
            from flowfabric.ff_exec_core as e
            join flowfabric.ff_capability_set as s on s.capability_set_id = e.capability_set_id
            left join flowfabric.ff_exec_payload as p
                on p.partition_key = e.partition_key and p.execution_id = e.execution_id
            where e.partition_key = v_lost.partition_key and e.execution_id = v_lost.execution_id;
        end loop;
        exit when v_reclaimed >= p_max or v_capped >= c_cap_limit or v_candidates < p_max;
    end loop;
end;
$$;

comment on function flowfabric.ff_reclaim_next(
    text[], text, text, text[], integer, bigint, text, text, boolean, smallint, bigint, integer) is
'Takes over executions of some lanes whose lease expired or was revoked, or fails those whose reclaims are used up.';

grant execute on function flowfabric.ff_reclaim_next(
    text[], text, text, text[], integer, bigint, text, text, boolean, smallint, bigint, integer)
to flowfabric_worker, flowfabric_operator;

-- Without locks; the caller checks again under the lock. Fair deals the first of each lane, then the second of each,
-- lanes of equal rank in an order drawn by lot for the call.
create or replace function flowfabric._ff_peek_lost_leases(
    p_lanes text[],
    p_set_ids integer[],
    p_lane_order text,
    p_namespace text,
    p_partition_key smallint,
    p_grace_ms bigint,
    p_window integer,
    p_offset integer,
    p_now_ms bigint
)
returns table (partition_key smallint, execution_id uuid, flow_id uuid)
language plpgsql volatile
as $$
begin
    return query
    with lane as (
        select
            l.lane_id,
            row_number() over (order by case p_lane_order when 'fair' then random() else l.lane_number end) as turn
        from unnest(p_lanes) with ordinality as l (lane_id, lane_number)
    ),
    lost as (
        select l.turn, x.*
        from lane as l
        cross join lateral (
            (
                select e.partition_key, e.execution_id, e.flow_id, e.priority, e.lease_expires_at_ms
                from flowfabric.ff_exec_core as e
                where e.ownership_state = 'leased' and e.lane_id = l.lane_id
                    and e.lease_expires_at_ms <= p_now_ms - p_grace_ms
                    and e.capability_set_id = any (p_set_ids)
                    and (p_namespace is null or e.namespace = p_namespace)
                    and (p_partition_key is null or e.partition_key = p_partition_key)
                order by e.lease_expires_at_ms
                limit p_window offset p_offset
            )
            union all
            (
                select e.partition_key, e.execution_id, e.flow_id, e.priority, e.lease_expires_at_ms
                from flowfabric.ff_exec_core as e
                where e.ownership_state > 'leased' and e.lane_id = l.lane_id
                    and e.delay_until_ms <= p_now_ms
                    and (e.ownership_state = 'lease_revoked' or e.lease_expires_at_ms <= p_now_ms - p_grace_ms)
                    and e.capability_set_id = any (p_set_ids)
                    and (p_namespace is null or e.namespace = p_namespace)
                    and (p_partition_key is null or e.partition_key = p_partition_key)
                order by e.delay_until_ms
                limit p_window offset p_offset
            )
        ) as x
    )
    select c.partition_key, c.execution_id, c.flow_id
    from lost as c
    order by
        case p_lane_order
            when 'fair' then row_number() over (
                partition by c.turn order by c.priority desc, c.lease_expires_at_ms, c.execution_id)
            when 'strict' then c.turn
        end,
        case p_lane_order when 'fair' then c.turn end,
        c.priority desc, c.lease_expires_at_ms, c.execution_id;
end;
$$;
comment on function flowfabric._ff_peek_lost_leases(
    text[], integer[], text, text, smallint, bigint, integer, integer, bigint) is
'Internal: the longest lost leases of some lanes, as many as a window holds, in the order in which to take them over.';

-- The whole row, or one of nulls. A lock that is not to be had leaves nothing locked: the block gives back the lock of
-- the flow. Reservations go back with a takeover; a budget that another session holds must not stop the worker.
create or replace function flowfabric._ff_lock_lost_lease(
    p_partition_key smallint,
    p_execution_id uuid,
    p_flow_id uuid,
    p_grace_ms bigint,
    p_now_ms bigint
)
returns flowfabric.ff_exec_core
language plpgsql volatile
as $$
declare
    v_exec flowfabric.ff_exec_core;
begin
    if p_flow_id is null then
        select e.* into v_exec
        from flowfabric.ff_exec_core as e
        where e.partition_key = p_partition_key and e.execution_id = p_execution_id and e.flow_id is null
        for no key update skip locked;
    else
        begin
            v_exec := flowfabric._ff_scanner_lock_execution(
                row(p_partition_key, p_execution_id)::flowfabric.ff_execution_key, true);
        exception when lock_not_available then
            return null;
        end;
    end if;
    if v_exec.execution_id is null
        or not flowfabric._ff_is_reclaimable(v_exec, p_now_ms)
        or (v_exec.ownership_state <> 'lease_revoked' and v_exec.lease_expires_at_ms + p_grace_ms > p_now_ms)
        or exists (
            select from flowfabric.ff_claim_grant as g
            where g.partition_key = p_partition_key and g.execution_id = p_execution_id
                and g.expires_at_ms >= p_now_ms)
        or (v_exec.open_reservation_count > 0 and not flowfabric._ff_lock_reserved_budgets(v_exec))
    then
        return null;
    end if;
    return v_exec;
end;
$$;
comment on function flowfabric._ff_lock_lost_lease(smallint, uuid, uuid, bigint, bigint) is
'Internal: locks an execution that can be taken over, with all that its takeover needs, without waiting; else null.';

create or replace function flowfabric._ff_lock_reserved_budgets(p_exec flowfabric.ff_exec_core)
returns boolean
language plpgsql volatile
as $$
declare
    v_budget_ids text[] := array(
        select distinct r.budget_id
        from flowfabric.ff_budget_reservation as r
        where r.partition_key = p_exec.partition_key and r.execution_id = p_exec.execution_id and r.state = 'open');
    v_locked integer;
begin
    perform from flowfabric.ff_budget_policy as b
    where b.budget_id = any (v_budget_ids)
    for no key update skip locked;
    get diagnostics v_locked = row_count;
    return v_locked = (select count(*) from flowfabric.ff_budget_policy as b where b.budget_id = any (v_budget_ids));
end;
$$;
comment on function flowfabric._ff_lock_reserved_budgets(flowfabric.ff_exec_core) is
'Internal: locks the budgets of an execution''s open reservations without waiting; whether it got them all.';
