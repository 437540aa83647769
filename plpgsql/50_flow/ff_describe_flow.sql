-- ff_describe_flow: everything about a flow but its members.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- public_flow_state is the guard of changes: open until a cancel, however the members fare. ff_read_flow_summary knows
-- how they do. An unknown id gives no row.
create or replace function flowfabric.ff_describe_flow(p_flow_id uuid)
returns setof flowfabric.ff_flow_snapshot
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid('ff_describe_flow', 'flow_id', 'null');
    end if;
    return query
    select
        f.flow_id, f.partition_key, f.flow_kind, f.namespace, f.public_flow_state, f.graph_revision, f.node_count,
        f.edge_count, f.created_at_ms, greatest(f.last_mutation_at_ms, t.updated_at_ms), f.cancelled_at_ms,
        f.terminal_at_ms, f.cancel_reason, f.cancellation_policy, f.tags || coalesce(t.tags, '{}')
    from flowfabric.ff_flow_core as f
    left join flowfabric.ff_flow_tag as t on t.partition_key = f.partition_key and t.flow_id = f.flow_id
    where f.partition_key = flowfabric.ff_flow_partition(p_flow_id) and f.flow_id = p_flow_id;
end;
$$;

comment on function flowfabric.ff_describe_flow(uuid) is
'Everything about a flow but its members; no row for an unknown id.';

grant execute on function flowfabric.ff_describe_flow(uuid) to flowfabric_reader, flowfabric_operator;
