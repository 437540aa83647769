-- ff_describe_edge: everything about one edge of a flow.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- An unknown flow or edge gives no row.
create or replace function flowfabric.ff_describe_edge(p_flow_id uuid, p_edge_id uuid)
returns setof flowfabric.ff_edge_snapshot
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_describe_edge';
begin
    if p_flow_id is null or p_edge_id is null then
        perform flowfabric._ff_raise_invalid(
            c_fn, case when p_flow_id is null then 'flow_id' else 'edge_id' end, 'null');
    end if;
    return query
    select s.* from flowfabric._ff_edge_snapshots(flowfabric.ff_flow_partition(p_flow_id), p_flow_id) as s
    where s.edge_id = p_edge_id;
end;
$$;

comment on function flowfabric.ff_describe_edge(uuid, uuid) is
'Everything about one edge of a flow; no row if there is no such edge.';

grant execute on function flowfabric.ff_describe_edge(uuid, uuid) to flowfabric_reader, flowfabric_operator;

-- Inlined, so that a condition of the caller on its columns finds an index.
create or replace function flowfabric._ff_edge_snapshots(p_partition_key smallint, p_flow_id uuid)
returns setof flowfabric.ff_edge_snapshot
language sql stable
as $$
    select
        d.edge_id, d.flow_id, flowfabric.ff_format_execution_id(d.partition_key, d.upstream_eid),
        flowfabric.ff_format_execution_id(d.partition_key, d.downstream_eid), d.dependency_kind,
        d.satisfaction_condition, nullif(d.data_passing_ref, ''), d.dep_state, d.resolved_outcome, d.created_at_ms,
        d.applied_at_ms, d.last_resolved_at_ms, d.created_by
    from flowfabric.ff_edge as d
    where d.partition_key = p_partition_key and d.flow_id = p_flow_id
$$;
comment on function flowfabric._ff_edge_snapshots(smallint, uuid) is
'Internal: the edges of a flow as readers see them.';
