-- ff_list_expired_leases: the leases that have run out, longest expired first, whether or not a scanner has marked
-- them.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- It only lists: to take one over is its caller's decision, from `takeover_at_ms` on. Revoked leases are not among them.
-- A page starts after the expiry and the key of the last row of the page before.
create or replace function flowfabric.ff_list_expired_leases(
    p_as_of_ms bigint default null,
    p_namespace text default null,
    p_limit integer default 1000,
    p_after_expires_at_ms bigint default null,
    p_after_partition_key smallint default null,
    p_after_execution_id uuid default null
)
returns setof flowfabric.ff_expired_lease_listing
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_list_expired_leases';
    v_limit integer := flowfabric._ff_page_size(p_limit, 10000, c_fn);
    v_as_of_ms bigint := coalesce(p_as_of_ms, flowfabric.ff_now_ms());
begin
    if p_namespace is not null and not flowfabric._ff_is_name(p_namespace) then
        perform flowfabric._ff_raise_invalid_name(p_namespace, 'namespace', c_fn);
    end if;
    if num_nulls(p_after_expires_at_ms, p_after_partition_key, p_after_execution_id) not in (0, 3) then
        perform flowfabric._ff_raise_invalid(
            c_fn,
            case
                when p_after_expires_at_ms is null then 'after_expires_at_ms'
                when p_after_partition_key is null then 'after_partition_key'
                else 'after_execution_id'
            end,
            'null');
    end if;

    return query
    with page as materialized (
        select h.*
        from (
            select x.*
            from flowfabric.ff_lane_registry as l
            cross join lateral (
                select
                    e.partition_key, e.execution_id, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id,
                    e.total_attempt_count, e.current_worker_id, e.current_worker_instance_id, e.lease_expires_at_ms,
                    e.ownership_state, e.namespace, e.lease_reclaim_count, e.delay_until_ms
                from flowfabric.ff_exec_core as e
                where e.ownership_state = 'leased' and e.lane_id = l.lane_id
                    and e.lease_expires_at_ms <= v_as_of_ms
                    and e.lease_expires_at_ms >= coalesce(p_after_expires_at_ms, 0)
            ) as x
            union all
            select
                e.partition_key, e.execution_id, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id,
                e.total_attempt_count, e.current_worker_id, e.current_worker_instance_id, e.lease_expires_at_ms,
                e.ownership_state, e.namespace, e.lease_reclaim_count, e.delay_until_ms
            from flowfabric.ff_exec_core as e
            where e.ownership_state = 'lease_expired_reclaimable' and e.lease_expires_at_ms <= v_as_of_ms
        ) as h
        where (p_namespace is null or h.namespace = p_namespace)
            and (p_after_expires_at_ms is null
                or (h.lease_expires_at_ms, h.partition_key, h.execution_id)
                > (p_after_expires_at_ms, p_after_partition_key, p_after_execution_id))
        order by h.lease_expires_at_ms, h.partition_key, h.execution_id
        limit v_limit + 1
    )
    select
        flowfabric.ff_format_execution_id(h.partition_key, h.execution_id), h.current_lease_id, h.current_lease_epoch,
        h.current_attempt_id, h.total_attempt_count - 1, h.current_worker_id, h.current_worker_instance_id,
        h.lease_expires_at_ms, h.ownership_state, (select count(*) from page) > v_limit,
        case
            when h.ownership_state <> 'leased' then h.delay_until_ms
            when h.lease_reclaim_count = 0 then h.lease_expires_at_ms
            else (
                select flowfabric._ff_takeover_at_ms(e, null)
                from flowfabric.ff_exec_core as e
                where e.partition_key = h.partition_key and e.execution_id = h.execution_id)
        end
    from page as h
    order by h.lease_expires_at_ms, h.partition_key, h.execution_id
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_expired_leases(bigint, text, integer, bigint, smallint, uuid) is
'The leases that have run out and were not taken over yet, longest expired first, a page at a time.';

grant execute on function flowfabric.ff_list_expired_leases(bigint, text, integer, bigint, smallint, uuid)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
