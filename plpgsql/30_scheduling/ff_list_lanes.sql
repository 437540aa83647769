-- ff_list_lanes: the lanes that exist, in byte order of their names.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_list_lanes(p_after text default null, p_limit integer default 100)
returns setof flowfabric.ff_lane_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, 'ff_list_lanes');
begin
    return query
    with page as materialized (
        select l.*
        from flowfabric.ff_lane_registry as l
        where l.lane_id > coalesce(p_after, '')
        order by l.lane_id
        limit v_limit + 1
    )
    select
        l.lane_id, l.lane_state, l.registered_at_ms, l.registered_by, l.state_changed_at_ms, l.state_reason,
        (select count(*) from page) > v_limit
    from page as l
    order by l.lane_id
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_lanes(text, integer) is
'The lanes with their states, in byte order of their names, a page at a time.';

grant execute on function flowfabric.ff_list_lanes(text, integer)
to flowfabric_producer, flowfabric_worker, flowfabric_reader, flowfabric_operator;
