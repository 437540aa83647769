-- ff_apply_dependency_to_child: make a staged edge count for its child, which waits from then on.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row, then the ff_exec_core row of the child; then what the cascade of _cascade.sql changes.
-- Writes: ff_edge, ff_edge_group, last_mutation_at_ms of ff_flow_core, the eligibility of the child; with an upstream
--         that has ended ff_dependency_outbox, or what its end means for the child.
-- Raises: invalid_input, flow_not_found, flow_already_terminal, invalid_dependency, execution_not_found,
--         execution_already_in_flow.
-- Retry:  safe; the repeat answers already_applied.
--
-- An upstream that has ended counts at once in an all_of: later edges can only add to what is waited for. A join that
-- needs k of n is judged after the commit, by ff_dispatch_dependencies: in the middle of its declaration, an any_of
-- whose first upstream has failed would skip the child although the second one is about to be applied. Once such a join
-- is satisfied, a further edge is counted but holds nobody back.
create or replace function flowfabric.ff_apply_dependency_to_child(
    p_flow_id uuid,
    p_edge_id uuid,
    p_downstream_execution_id text,
    p_upstream_execution_id text,
    p_graph_revision bigint default null
)
returns flowfabric.ff_applied_edge
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_apply_dependency_to_child';
    v_downstream flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_downstream_execution_id, c_fn);
    v_upstream flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_upstream_execution_id, c_fn);
    v_flow flowfabric.ff_flow_core;
    v_edge flowfabric.ff_edge;
    v_child flowfabric.ff_exec_core;
    v_upstream_outcome flowfabric.ff_terminal_outcome;
    v_group flowfabric.ff_edge_group;
    v_now_ms bigint;
begin
    if p_edge_id is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'edge_id', 'null');
    end if;
    v_flow := flowfabric._ff_lock_flow(p_flow_id, c_fn);
    perform flowfabric._ff_check_flow_is_open(v_flow, c_fn);
    select d.* into v_edge
    from flowfabric.ff_edge as d
    where d.partition_key = v_flow.partition_key and d.flow_id = p_flow_id and d.edge_id = p_edge_id;
    if not found then
        perform flowfabric._ff_raise('invalid_dependency', c_fn, jsonb_build_object('edge_id', p_edge_id));
    end if;
    if (v_downstream.partition_key, v_downstream.execution_id) <> (v_edge.partition_key, v_edge.downstream_eid) then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'downstream_execution_id', 'not_of_edge', p_downstream_execution_id);
    end if;
    if (v_upstream.partition_key, v_upstream.execution_id) <> (v_edge.partition_key, v_edge.upstream_eid) then
        perform flowfabric._ff_raise_invalid(c_fn, 'upstream_execution_id', 'not_of_edge', p_upstream_execution_id);
    end if;
    v_child := flowfabric._ff_lock_execution(v_downstream, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_require_fresh_snapshot(v_upstream.partition_key, array[v_upstream.execution_id]);
    select e.terminal_outcome into v_upstream_outcome
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_upstream.partition_key and e.execution_id = v_upstream.execution_id;
    if not found then
        perform flowfabric._ff_raise_not_found(v_upstream, c_fn);
    end if;
    if v_child.flow_id is distinct from p_flow_id then
        perform flowfabric._ff_raise(
            'execution_already_in_flow', c_fn,
            jsonb_build_object('execution_id', flowfabric._ff_wire_id(v_child), 'flow_id', v_child.flow_id));
    end if;
    if v_edge.dep_state <> 'staged' then
        return flowfabric._ff_applied_edge_answer('already_applied', v_edge);
    end if;

    -- The end of the upstream locks the flow: with an older snapshot it would not see the edge as applied.
    update flowfabric.ff_flow_core as f
    set last_mutation_at_ms = v_now_ms
    where f.partition_key = v_flow.partition_key and f.flow_id = p_flow_id;
    update flowfabric.ff_edge as d
    set dep_state = 'unsatisfied', applied_at_ms = v_now_ms
    where d.partition_key = v_flow.partition_key and d.flow_id = p_flow_id and d.edge_id = p_edge_id;
    insert into flowfabric.ff_edge_group as g (
        partition_key, flow_id, downstream_eid, policy_kind, n, created_at_ms, last_graph_revision)
    values (v_flow.partition_key, p_flow_id, v_child.execution_id, 'all_of', 1, v_now_ms, p_graph_revision)
    on conflict (partition_key, flow_id, downstream_eid) do update
    set n = g.n + 1,
        group_state = case
            when g.policy_kind = 'all_of' and g.group_state = 'satisfied' then 'pending' else g.group_state
        end,
        satisfied_at_ms = case when g.policy_kind <> 'all_of' then g.satisfied_at_ms end,
        last_graph_revision = coalesce(p_graph_revision, g.last_graph_revision)
    returning g.* into v_group;
    if v_group.group_state = 'pending' then
        perform flowfabric._ff_block_child(
            v_child, p_edge_id, flowfabric._ff_unsatisfied_count(v_edge), v_now_ms);
    end if;

    if v_upstream_outcome <> 'none' and v_group.policy_kind = 'all_of' then
        perform flowfabric._ff_cascade(
            v_flow.partition_key, p_flow_id, array[v_edge.upstream_eid], v_upstream_outcome, p_edge_id, false,
            '{}'::uuid[], v_now_ms);
    elsif v_upstream_outcome <> 'none' then
        insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
        values (v_flow.partition_key, p_flow_id, v_edge.upstream_eid, v_upstream_outcome, v_now_ms)
        on conflict do nothing;
        perform flowfabric._ff_wake('ff_dispatch', '*');
    end if;
    return flowfabric._ff_applied_edge_answer('applied', v_edge);
end;
$$;

comment on function flowfabric.ff_apply_dependency_to_child(uuid, uuid, text, text, bigint) is
'Makes a staged edge count for its child, which waits until its join is satisfied.';

grant execute on function flowfabric.ff_apply_dependency_to_child(uuid, uuid, text, text, bigint)
to flowfabric_producer;

create or replace function flowfabric._ff_unsatisfied_count(p_edge flowfabric.ff_edge)
returns integer
language sql stable
as $$
    select count(*)::integer
    from flowfabric.ff_edge as d
    where d.partition_key = p_edge.partition_key and d.flow_id = p_edge.flow_id
        and d.downstream_eid = p_edge.downstream_eid and d.dep_state = 'unsatisfied'
$$;
comment on function flowfabric._ff_unsatisfied_count(flowfabric.ff_edge) is
'Internal: how many edges of the same child are still to be resolved.';

create or replace function flowfabric._ff_applied_edge_answer(p_outcome text, p_edge flowfabric.ff_edge)
returns flowfabric.ff_applied_edge
language sql stable
as $$
    select row(
        p_outcome, flowfabric._ff_unsatisfied_count(p_edge), g.group_state,
        flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state)
    )::flowfabric.ff_applied_edge
    from flowfabric.ff_edge_group as g
    left join flowfabric.ff_exec_core as e
        on e.partition_key = g.partition_key and e.execution_id = g.downstream_eid
    where g.partition_key = p_edge.partition_key and g.flow_id = p_edge.flow_id
        and g.downstream_eid = p_edge.downstream_eid
$$;
comment on function flowfabric._ff_applied_edge_answer(text, flowfabric.ff_edge) is
'Internal: how the child of an applied edge stands now.';
