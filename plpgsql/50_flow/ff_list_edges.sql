-- ff_list_edges: the edges that enter or leave an execution.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- In the order of their ids. An unknown execution and one without a flow give no row.
create or replace function flowfabric.ff_list_edges(p_execution_id text, p_direction text)
returns setof flowfabric.ff_edge_snapshot
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_list_edges';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
begin
    if (p_direction = any (flowfabric._ff_legal_values('direction'))) is not true then
        perform flowfabric._ff_raise_unknown(c_fn, 'direction', p_direction, flowfabric._ff_legal_values('direction'));
    end if;
    return query
    select s.*
    from flowfabric.ff_exec_core as e
    join flowfabric.ff_edge as d
        on d.partition_key = e.partition_key and d.flow_id = e.flow_id
        and e.execution_id = case p_direction when 'incoming' then d.downstream_eid else d.upstream_eid end
    cross join lateral (
        select x.* from flowfabric._ff_edge_snapshots(d.partition_key, d.flow_id) as x where x.edge_id = d.edge_id
    ) as s
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    order by s.edge_id;
end;
$$;

comment on function flowfabric.ff_list_edges(text, text) is
'The edges that enter (incoming) or leave (outgoing) an execution, in the order of their ids.';

grant execute on function flowfabric.ff_list_edges(text, text) to flowfabric_reader, flowfabric_operator;
