-- ff_list_worker_leases: the leases that a worker process holds, or held until they ran out, with the whole fence.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- For a worker that lost the answer of a claim, for drains and for operators. There is no index by holder: it would
-- cost every claim an entry for this one read (reading 17). So every lease that is out is looked at, of whichever
-- worker: one to two milliseconds per thousand leases.
create or replace function flowfabric.ff_list_worker_leases(
    p_worker_instance_id text,
    p_after text default null,
    p_limit integer default 1000
)
returns setof flowfabric.ff_worker_lease_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_list_worker_leases';
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, c_fn);
    v_after flowfabric.ff_execution_key;
begin
    if not flowfabric._ff_is_name(p_worker_instance_id) then
        perform flowfabric._ff_raise_invalid_name(p_worker_instance_id, 'worker_instance_id', c_fn);
    end if;
    if nullif(p_after, '') is not null then
        v_after := flowfabric._ff_parse_execution_id(p_after, c_fn);
    end if;

    return query
    with page as materialized (
        select h.*
        from (
            select
                e.partition_key, e.execution_id, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id,
                e.total_attempt_count, e.lease_expires_at_ms, e.lane_id, e.ownership_state,
                e.current_worker_instance_id
            from flowfabric.ff_exec_core as e
            where e.ownership_state = 'leased'
            union all
            select
                e.partition_key, e.execution_id, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id,
                e.total_attempt_count, e.lease_expires_at_ms, e.lane_id, e.ownership_state,
                e.current_worker_instance_id
            from flowfabric.ff_exec_core as e
            where e.ownership_state = 'lease_expired_reclaimable'
        ) as h
        where h.current_worker_instance_id = p_worker_instance_id
            and (v_after.execution_id is null
                or (h.partition_key, h.execution_id) > (v_after.partition_key, v_after.execution_id))
        order by h.partition_key, h.execution_id
        limit v_limit + 1
    )
    select
        flowfabric.ff_format_execution_id(h.partition_key, h.execution_id), h.current_lease_id, h.current_lease_epoch,
        h.current_attempt_id, h.total_attempt_count - 1, h.lease_expires_at_ms, h.lane_id, h.ownership_state,
        (select count(*) from page) > v_limit
    from page as h
    order by h.partition_key, h.execution_id
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_worker_leases(text, text, integer) is
'The leases that a worker process holds or has let run out, a page at a time; reads every lease that is out.';

grant execute on function flowfabric.ff_list_worker_leases(text, text, integer)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
