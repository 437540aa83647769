-- ff_resolve_dependency: resolve one applied edge by hand.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row; then what the cascade of _cascade.sql changes.
-- Writes: ff_edge, ff_edge_group and what the resolution means for the child.
-- Raises: invalid_input, invalid_dependency, execution_not_found, execution_not_terminal.
-- Retry:  safe; the repeat answers already_resolved, also with another outcome.
--
-- A tool for repairs and tests: the end of an upstream resolves its edges by itself. A given outcome is taken at its
-- word; without one the upstream's own end counts.
create or replace function flowfabric.ff_resolve_dependency(
    p_flow_id uuid,
    p_edge_id uuid,
    p_upstream_outcome text default null
)
returns flowfabric.ff_edge_resolution
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_resolve_dependency';
    v_outcome flowfabric.ff_terminal_outcome;
    v_flow flowfabric.ff_flow_core;
    v_edge flowfabric.ff_edge;
    v_upstream flowfabric.ff_exec_core;
    v_before flowfabric.ff_edge_group;
    v_after flowfabric.ff_edge_group;
    v_was_skipped boolean;
    v_is_skipped boolean;
    v_done flowfabric.ff_cascade_report;
    v_now_ms bigint;
begin
    if p_edge_id is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'edge_id', 'null');
    end if;
    if nullif(p_upstream_outcome, '') <> all (flowfabric._ff_legal_values('upstream_outcome')) then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'upstream_outcome', p_upstream_outcome, flowfabric._ff_legal_values('upstream_outcome'));
    end if;
    v_outcome := nullif(p_upstream_outcome, '')::flowfabric.ff_terminal_outcome;
    v_flow := flowfabric._ff_find_flow(p_flow_id, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    select d.* into v_edge
    from flowfabric.ff_edge as d
    where d.partition_key = v_flow.partition_key and d.flow_id = p_flow_id and d.edge_id = p_edge_id;
    if not found or v_edge.dep_state = 'staged' then
        perform flowfabric._ff_raise('invalid_dependency', c_fn, jsonb_build_object('edge_id', p_edge_id));
    end if;
    select g.* into v_before
    from flowfabric.ff_edge_group as g
    where g.partition_key = v_edge.partition_key and g.flow_id = p_flow_id and g.downstream_eid = v_edge.downstream_eid;
    if v_edge.dep_state <> 'unsatisfied' then
        return row('already_resolved', v_before.group_state, false, false, false)::flowfabric.ff_edge_resolution;
    end if;
    if v_outcome is null then
        select e.* into v_upstream
        from flowfabric.ff_exec_core as e
        where e.partition_key = v_edge.partition_key and e.execution_id = v_edge.upstream_eid;
        if not found then
            perform flowfabric._ff_raise_not_found(
                row(v_edge.partition_key, v_edge.upstream_eid)::flowfabric.ff_execution_key, c_fn);
        end if;
        if v_upstream.lifecycle_phase <> 'terminal' then
            perform flowfabric._ff_raise(
                'execution_not_terminal', c_fn,
                jsonb_build_object(
                    'execution_id', flowfabric._ff_wire_id(v_upstream),
                    'lifecycle_phase', v_upstream.lifecycle_phase));
        end if;
        v_outcome := v_upstream.terminal_outcome;
    end if;

    v_was_skipped := flowfabric._ff_is_skipped(v_edge.partition_key, v_edge.downstream_eid);
    v_done := flowfabric._ff_cascade(
        v_edge.partition_key, p_flow_id, array[v_edge.upstream_eid], v_outcome, p_edge_id, false, '{}'::uuid[],
        v_now_ms);
    v_is_skipped := flowfabric._ff_is_skipped(v_edge.partition_key, v_edge.downstream_eid);
    select g.* into v_after
    from flowfabric.ff_edge_group as g
    where g.partition_key = v_edge.partition_key and g.flow_id = p_flow_id and g.downstream_eid = v_edge.downstream_eid;
    -- The words are upstream's: of an all_of they tell about the edge, of the others about the join.
    return row(
        case
            when v_before.policy_kind = 'all_of' and v_outcome = 'success' then 'satisfied'
            when v_before.policy_kind = 'all_of' then 'impossible'
            when v_before.group_state <> 'pending' then 'already_fired'
            else v_after.group_state
        end,
        v_after.group_state, v_done.children_eligible > 0, v_is_skipped and not v_was_skipped,
        v_done.data_passed > 0)::flowfabric.ff_edge_resolution;
end;
$$;

comment on function flowfabric.ff_resolve_dependency(uuid, uuid, text) is
'Resolves one applied edge by hand, as the end of its upstream would; for repairs.';

grant execute on function flowfabric.ff_resolve_dependency(uuid, uuid, text) to flowfabric_operator;

create or replace function flowfabric._ff_is_skipped(p_partition_key smallint, p_execution_id uuid)
returns boolean
language sql stable
as $$
    select exists (
        select from flowfabric.ff_exec_core as e
        where e.partition_key = p_partition_key and e.execution_id = p_execution_id
            and e.terminal_outcome = 'skipped')
$$;
comment on function flowfabric._ff_is_skipped(smallint, uuid) is
'Internal: whether an execution ended because its dependencies became impossible.';
