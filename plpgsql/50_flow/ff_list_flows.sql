-- ff_list_flows: page through flows in the order of their keys.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- A page starts behind p_cursor, the id of the last row of the page before; over all partitions if none is given. The
-- status is that of the flow itself, so a flow is active until it is cancelled.
create or replace function flowfabric.ff_list_flows(
    p_partition_key smallint default null,
    p_cursor uuid default null,
    p_limit integer default 100
)
returns setof flowfabric.ff_flow_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan -- as in ff_list_executions
as $$
declare
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, 'ff_list_flows');
    v_after_partition smallint;
begin
    if p_cursor is not null then
        v_after_partition := coalesce(p_partition_key, flowfabric.ff_flow_partition(p_cursor));
    end if;
    return query
    with page as materialized (
        select f.partition_key, f.flow_id, f.created_at_ms, f.public_flow_state
        from flowfabric.ff_flow_core as f
        where (p_cursor is null or (f.partition_key, f.flow_id) > (v_after_partition, p_cursor))
            and (p_partition_key is null or f.partition_key = p_partition_key)
        order by f.partition_key, f.flow_id
        limit v_limit + 1
    )
    select
        f.flow_id, f.created_at_ms, flowfabric._ff_flow_status(f.public_flow_state),
        (select count(*) from page) > v_limit
    from page as f
    order by f.partition_key, f.flow_id
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_flows(smallint, uuid, integer) is
'Flows in the order of their keys, a page at a time.';

grant execute on function flowfabric.ff_list_flows(smallint, uuid, integer)
to flowfabric_reader, flowfabric_operator;
