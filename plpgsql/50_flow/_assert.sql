-- What must hold between the edges and the joins of a flow, at the end of every transaction. For tests, and for whoever
-- looks into a flow that behaves oddly.

create or replace function flowfabric._ff_assert_edge_group(p_flow_id uuid)
returns void
language plpgsql stable
as $$
declare
    v_partition_key smallint := flowfabric.ff_flow_partition(p_flow_id);
    v_broken record;
begin
    select b.invariant, b.downstream_eid, b.facts into v_broken
    from (
        select
            case
                when (g.n, g.success_count, g.fail_count, g.skip_count)
                    is distinct from (d.applied, d.satisfied, d.failed, d.skipped) then 'group_counts_its_edges'
                when g.group_state = 'pending' and g.n > 0 and g.success_count >= coalesce(g.k, g.n)
                    then 'satisfied_group_has_fired'
                when g.group_state = 'pending' and g.n >= coalesce(g.k, g.n)
                    and g.success_count + g.running_count < coalesce(g.k, g.n) then 'impossible_group_has_fired'
            end as invariant,
            d.downstream_eid,
            jsonb_build_object('group', to_jsonb(g), 'edges', to_jsonb(d)) as facts
        from (
            select
                c.downstream_eid,
                (count(*) filter (where e.dep_state <> 'staged'))::integer as applied,
                (count(*) filter (where e.dep_state = 'satisfied'))::integer as satisfied,
                (count(*) filter (where e.dep_state = 'impossible' and e.resolved_outcome <> 'skipped'))::integer
                    as failed,
                (count(*) filter (where e.dep_state = 'impossible' and e.resolved_outcome = 'skipped'))::integer
                    as skipped
            from (
                select x.downstream_eid from flowfabric.ff_edge as x
                where x.partition_key = v_partition_key and x.flow_id = p_flow_id and x.dep_state <> 'staged'
                union
                select x.downstream_eid from flowfabric.ff_edge_group as x
                where x.partition_key = v_partition_key and x.flow_id = p_flow_id
            ) as c
            left join flowfabric.ff_edge as e
                on e.partition_key = v_partition_key and e.flow_id = p_flow_id and e.downstream_eid = c.downstream_eid
            group by c.downstream_eid
        ) as d
        left join flowfabric.ff_edge_group as g
            on g.partition_key = v_partition_key and g.flow_id = p_flow_id and g.downstream_eid = d.downstream_eid
        union all
        -- A child that was replayed rightly waits for an upstream that has not succeeded.
        select 'edge_of_ended_is_resolved', e.downstream_eid, to_jsonb(e)
        from flowfabric.ff_edge as e
        join flowfabric.ff_exec_core as u
            on u.partition_key = e.partition_key and u.execution_id = e.upstream_eid
        left join flowfabric.ff_exec_core as c
            on c.partition_key = e.partition_key and c.execution_id = e.downstream_eid
        where e.partition_key = v_partition_key and e.flow_id = p_flow_id and e.dep_state = 'unsatisfied'
            and u.lifecycle_phase = 'terminal'
            and (u.terminal_outcome = 'success' or coalesce(c.replay_count, 0) = 0)
            and not exists (
                select from flowfabric.ff_dependency_outbox as o
                where o.partition_key = e.partition_key and o.flow_id = e.flow_id and o.upstream_eid = e.upstream_eid)
    ) as b
    where b.invariant is not null
    order by b.downstream_eid
    limit 1;
    if found then
        perform flowfabric._ff_raise(
            'invariant_violation', 'ff_edge_group',
            jsonb_build_object(
                'invariant', v_broken.invariant,
                'values', jsonb_build_object(
                    'flow_id', p_flow_id,
                    'execution_id', flowfabric.ff_format_execution_id(v_partition_key, v_broken.downstream_eid),
                    'facts', v_broken.facts)));
    end if;
end;
$$;
comment on function flowfabric._ff_assert_edge_group(uuid) is
'Internal: raises invariant_violation for the first join of a flow that contradicts its edges or its members.';
