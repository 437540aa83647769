-- ff_list_flow_edge_groups: the join of every child in a flow.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- One row per child with at least one edge into it, in the order of their ids. A child whose edges are only staged has
-- no verdict to give yet: all_of unless another policy was declared, and nothing to count.
create or replace function flowfabric.ff_list_flow_edge_groups(p_flow_id uuid)
returns setof flowfabric.ff_edge_group_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_partition_key smallint;
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid('ff_list_flow_edge_groups', 'flow_id', 'null');
    end if;
    v_partition_key := flowfabric.ff_flow_partition(p_flow_id);
    return query
    select
        flowfabric.ff_format_execution_id(v_partition_key, c.downstream_eid), coalesce(g.policy_kind, 'all_of'), g.k,
        g.on_satisfied, coalesce(g.n, 0), coalesce(g.success_count, 0), coalesce(g.fail_count, 0),
        coalesce(g.skip_count, 0), coalesce(g.running_count, 0), coalesce(g.group_state, 'pending'),
        g.satisfied_at_ms, g.impossible_at_ms, coalesce(g.cancel_siblings_pending_flag, false)
    from (
        select distinct d.downstream_eid
        from flowfabric.ff_edge as d
        where d.partition_key = v_partition_key and d.flow_id = p_flow_id
    ) as c
    left join flowfabric.ff_edge_group as g
        on g.partition_key = v_partition_key and g.flow_id = p_flow_id and g.downstream_eid = c.downstream_eid
    order by c.downstream_eid;
end;
$$;

comment on function flowfabric.ff_list_flow_edge_groups(uuid) is
'The join of every child in a flow: policy, counts and verdict.';

grant execute on function flowfabric.ff_list_flow_edge_groups(uuid) to flowfabric_reader, flowfabric_operator;
