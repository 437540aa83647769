-- ff_stage_dependency_edge: add an edge to the graph of a flow, on condition that nobody else has changed the graph.
--
-- Fence:  the graph revision that the caller believes current.
-- Locks:  the ff_flow_core row.
-- Writes: ff_edge; the revision and the edge count of ff_flow_core.
-- Raises: invalid_input, self_referencing_edge, flow_not_found, flow_already_terminal, stale_graph_revision,
--         execution_not_in_flow, cycle_detected, dependency_already_exists.
-- Retry:  a repeat raises stale_graph_revision; after a new look at the flow it raises dependency_already_exists, whose
--         detail has the stored edge.
--
-- A staged edge is a fact of the graph only: ff_apply_dependency_to_child makes the child wait. Two edges between the
-- same two members are allowed and count separately.
create or replace function flowfabric.ff_stage_dependency_edge(
    p_flow_id uuid,
    p_edge_id uuid,
    p_upstream_execution_id text,
    p_downstream_execution_id text,
    p_expected_graph_revision bigint,
    p_dependency_kind text default 'success_only',
    p_data_passing_ref text default null
)
returns flowfabric.ff_staged_edge
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_stage_dependency_edge';
    v_upstream flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_upstream_execution_id, c_fn);
    v_downstream flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_downstream_execution_id, c_fn);
    v_flow flowfabric.ff_flow_core;
    v_now_ms bigint;
begin
    if p_edge_id is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'edge_id', 'null');
    end if;
    if p_expected_graph_revision is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'expected_graph_revision', 'null');
    end if;
    if (p_dependency_kind = any (flowfabric._ff_legal_values('dependency_kind'))) is not true then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'dependency_kind', p_dependency_kind, flowfabric._ff_legal_values('dependency_kind'));
    end if;
    perform flowfabric._ff_check_length(p_data_passing_ref, 0, 4096, 'data_passing_ref', c_fn);
    if v_upstream = v_downstream then
        perform flowfabric._ff_raise(
            'self_referencing_edge', c_fn,
            jsonb_build_object(
                'execution_id',
                flowfabric.ff_format_execution_id(v_upstream.partition_key, v_upstream.execution_id)));
    end if;

    v_flow := flowfabric._ff_lock_flow(p_flow_id, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_flow_is_open(v_flow, c_fn);
    if v_flow.graph_revision <> p_expected_graph_revision then
        perform flowfabric._ff_raise(
            'stale_graph_revision', c_fn,
            jsonb_build_object(
                'flow_id', p_flow_id, 'expected_graph_revision', p_expected_graph_revision,
                'graph_revision', v_flow.graph_revision));
    end if;
    perform flowfabric._ff_check_member(v_flow, v_upstream, c_fn);
    perform flowfabric._ff_check_member(v_flow, v_downstream, c_fn);
    perform flowfabric._ff_check_acyclic(v_flow, v_upstream, v_downstream, c_fn);
    if exists (
        select from flowfabric.ff_edge as d
        where d.partition_key = v_flow.partition_key and d.flow_id = p_flow_id and d.edge_id = p_edge_id)
    then
        perform flowfabric._ff_raise(
            'dependency_already_exists', c_fn,
            jsonb_build_object(
                'flow_id', p_flow_id, 'edge_id', p_edge_id,
                'existing', (
                    select to_jsonb(s) from flowfabric._ff_edge_snapshots(v_flow.partition_key, p_flow_id) as s
                    where s.edge_id = p_edge_id)));
    end if;

    insert into flowfabric.ff_edge (
        partition_key, flow_id, edge_id, upstream_eid, downstream_eid, dependency_kind, data_passing_ref, dep_state,
        created_at_ms, staged_at_ms)
    values (
        v_flow.partition_key, p_flow_id, p_edge_id, v_upstream.execution_id, v_downstream.execution_id,
        p_dependency_kind, nullif(p_data_passing_ref, ''), 'staged', v_now_ms, v_now_ms);
    update flowfabric.ff_flow_core as f
    set graph_revision = f.graph_revision + 1,
        edge_count = f.edge_count + 1,
        last_mutation_at_ms = v_now_ms
    where f.partition_key = v_flow.partition_key and f.flow_id = p_flow_id;
    return row(p_edge_id, v_flow.graph_revision + 1)::flowfabric.ff_staged_edge;
end;
$$;

comment on function flowfabric.ff_stage_dependency_edge(uuid, uuid, text, text, bigint, text, text) is
'Adds an edge between two members to the graph of a flow; refused if the graph has changed or a cycle would close.';

grant execute on function flowfabric.ff_stage_dependency_edge(uuid, uuid, text, text, bigint, text, text)
to flowfabric_producer;

create or replace function flowfabric._ff_check_member(
    p_flow flowfabric.ff_flow_core,
    p_key flowfabric.ff_execution_key,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    if not exists (
        select from flowfabric.ff_exec_core as e
        where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id
            and e.flow_id = p_flow.flow_id)
    then
        perform flowfabric._ff_raise(
            'execution_not_in_flow', p_fn,
            jsonb_build_object(
                'execution_id', flowfabric.ff_format_execution_id(p_key.partition_key, p_key.execution_id),
                'flow_id', p_flow.flow_id));
    end if;
end;
$$;
comment on function flowfabric._ff_check_member(flowfabric.ff_flow_core, flowfabric.ff_execution_key, text) is
'Internal: raises execution_not_in_flow unless an execution is a member of a flow.';

-- Walks down from the child, over staged and applied edges alike. The lateral lookup keeps every step at one index
-- probe; a join would be planned for a graph of unknown size.
create or replace function flowfabric._ff_check_acyclic(
    p_flow flowfabric.ff_flow_core,
    p_upstream flowfabric.ff_execution_key,
    p_downstream flowfabric.ff_execution_key,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_max_nodes bigint := flowfabric._ff_setting_value('max_cycle_check_nodes');
    v_closes boolean;
    v_nodes bigint;
begin
    select coalesce(bool_or(v.eid = p_upstream.execution_id), false), count(*) into v_closes, v_nodes
    from (
        with recursive reachable (eid) as (
            select p_downstream.execution_id
            union
            select o.downstream_eid
            from reachable as r
            cross join lateral (
                select d.downstream_eid
                from flowfabric.ff_edge as d
                where d.partition_key = p_flow.partition_key and d.flow_id = p_flow.flow_id
                    and d.upstream_eid = r.eid
                offset 0
            ) as o
        )
        select r.eid from reachable as r limit v_max_nodes + 1
    ) as v;
    if v_closes or v_nodes > v_max_nodes then
        perform flowfabric._ff_raise(
            'cycle_detected', p_fn,
            jsonb_build_object(
                'flow_id', p_flow.flow_id,
                'upstream_execution_id',
                flowfabric.ff_format_execution_id(p_upstream.partition_key, p_upstream.execution_id),
                'downstream_execution_id',
                flowfabric.ff_format_execution_id(p_downstream.partition_key, p_downstream.execution_id),
                'limit_reached', not v_closes));
    end if;
end;
$$;
comment on function flowfabric._ff_check_acyclic(
    flowfabric.ff_flow_core, flowfabric.ff_execution_key, flowfabric.ff_execution_key, text) is
'Internal: raises cycle_detected if a new edge would close a cycle, or if that takes too many nodes to find out.';
