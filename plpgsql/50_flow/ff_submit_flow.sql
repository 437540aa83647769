-- ff_submit_flow: create a whole graph in one call: flow, members, edges, joins; all of it or nothing.
--
-- Fence:  none.
-- Locks:  the new ff_flow_core row, then only new rows.
-- Writes: ff_flow_core, ff_exec_core, ff_exec_payload, ff_edge, ff_edge_group; ff_lane_registry and ff_capability_set
--         at the first use of a lane or of a set of capabilities.
-- Raises: invalid_input, payload_too_large, invalid_policy_json, invalid_capabilities, invalid_tag_key,
--         self_referencing_edge, cycle_detected, lane_not_accepting. Every refusal has `path`, the place in the
--         document (flow_path where the policy has a path of its own).
-- Retry:  safe with a flow_id in the document: the repeat answers already_satisfied with the same ids.
--
-- Leaves exactly what the single calls would, but nobody sees the flow half built. Ids that the document does not give
-- follow from the flow's id and the names, so a repeat knows them again; names themselves are not stored. Two documents
-- for one flow are not compared.
create or replace function flowfabric.ff_submit_flow(p_flow jsonb)
returns setof flowfabric.ff_submitted_member
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these three: 15_batch/_moves.sql
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_submit_flow';
    v_flow_id uuid;
    v_partition_key smallint;
    v_members flowfabric.ff_flow_document_member[];
    v_edges flowfabric.ff_flow_document_edge[];
    v_policies jsonb[];
    v_facts flowfabric.ff_policy_facts[];
    v_revision bigint;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_document_shape(p_flow, c_fn);
    perform flowfabric._ff_check_document_values(p_flow, c_fn);
    v_flow_id := coalesce((p_flow ->> 'flow_id')::uuid, gen_random_uuid());
    v_partition_key := flowfabric.ff_flow_partition(v_flow_id);
    v_members := flowfabric._ff_read_document_members(p_flow, v_flow_id);
    v_edges := flowfabric._ff_read_document_edges(p_flow, v_flow_id);
    perform flowfabric._ff_check_document_ids(v_partition_key, v_members, v_edges, c_fn);
    v_policies := array(
        select m.policy from unnest(v_members) as m where m.policy is not null
        group by m.policy order by min(m.position));
    v_facts := flowfabric._ff_check_document_members(p_flow, v_members, v_policies, c_fn);
    perform flowfabric._ff_check_document_edges(v_members, v_edges, c_fn);
    perform flowfabric._ff_check_document_joins(p_flow, v_members, v_edges, c_fn);
    perform flowfabric._ff_check_document_cycle(v_members, v_edges, c_fn);

    v_revision := (cardinality(v_members) + cardinality(v_edges))::bigint;
    v_now_ms := flowfabric.ff_now_ms();
    -- Of two submissions of one flow the second waits here for the first, and creates only if that rolls back.
    insert into flowfabric.ff_flow_core (
        partition_key, flow_id, flow_kind, namespace, public_flow_state, graph_revision, node_count, edge_count,
        created_at_ms, last_mutation_at_ms, tags)
    values (
        v_partition_key, v_flow_id, coalesce(p_flow ->> 'flow_kind', 'dag'), p_flow ->> 'namespace', 'open', v_revision,
        cardinality(v_members), cardinality(v_edges), v_now_ms, v_now_ms, coalesce(p_flow -> 'tags', '{}'))
    on conflict do nothing;
    if not found then
        return query
        select
            v_flow_id, 'already_satisfied', f.graph_revision, m.name,
            flowfabric.ff_format_execution_id(v_partition_key, m.execution_id), e.public_state
        from flowfabric.ff_flow_core as f
        cross join unnest(v_members) as m
        left join lateral (
            select
                flowfabric._ff_public_state(
                    x.lifecycle_phase, x.terminal_outcome, x.eligibility_state) as public_state
            from flowfabric.ff_exec_core as x
            where x.partition_key = v_partition_key and x.execution_id = m.execution_id and x.flow_id = v_flow_id
            offset 0
        ) as e on true
        where f.partition_key = v_partition_key and f.flow_id = v_flow_id
        order by m.position;
        return;
    end if;

    perform flowfabric._ff_create_members(
        p_flow, v_partition_key, v_flow_id, v_members, v_edges, v_policies, v_facts, v_now_ms, c_fn);
    perform flowfabric._ff_create_graph(
        p_flow -> 'joins', v_partition_key, v_flow_id, v_members, v_edges, v_revision, v_now_ms);
    perform flowfabric._ff_wake('ff_eligible', w.lane_id)
    from (
        select distinct e.lane_id
        from flowfabric.ff_exec_core as e
        where e.partition_key = v_partition_key and e.flow_id = v_flow_id and e.eligibility_state = 'eligible_now'
    ) as w;
    return query
    select
        v_flow_id, 'created', v_revision, m.name,
        flowfabric.ff_format_execution_id(v_partition_key, m.execution_id), e.public_state
    from unnest(v_members) as m
    cross join lateral (
        select flowfabric._ff_public_state(x.lifecycle_phase, x.terminal_outcome, x.eligibility_state)
            as public_state
        from flowfabric.ff_exec_core as x
        where x.partition_key = v_partition_key and x.execution_id = m.execution_id
        offset 0
    ) as e
    order by m.position;
end;
$$;

comment on function flowfabric.ff_submit_flow(jsonb) is
'Creates a whole graph of executions from one document: flow, members, edges and joins, all of it or nothing.';

grant execute on function flowfabric.ff_submit_flow(jsonb) to flowfabric_producer;

-- Check 10 and the members, as ff_create_execution leaves them: eligible, delayed, or blocked if an edge enters them.
-- Not through the creation and a later block: every member would be written twice, and those that wait would leave dead
-- entries at the head of the queue.
create or replace function flowfabric._ff_create_members(
    p_flow jsonb,
    p_partition_key smallint,
    p_flow_id uuid,
    p_members flowfabric.ff_flow_document_member[],
    p_edges flowfabric.ff_flow_document_edge[],
    p_policies jsonb[],
    p_facts flowfabric.ff_policy_facts[],
    p_now_ms bigint,
    p_fn text
)
returns void
language plpgsql volatile
set enable_nestloop = off -- _document.sql
as $$
declare
    v_namespace text := p_flow ->> 'namespace';
    v_set_ids integer[];
    v_row record;
    v_created integer;
begin
    select m.position, l.lane_id, l.lane_state into v_row
    from unnest(p_members) as m
    join flowfabric.ff_lane_registry as l on l.lane_id = m.lane_id
    where l.lane_state in ('draining', 'disabled')
    order by m.position
    limit 1;
    if found then
        perform flowfabric._ff_raise(
            'lane_not_accepting', p_fn,
            jsonb_build_object(
                'lane_id', v_row.lane_id, 'lane_state', v_row.lane_state,
                'path', flowfabric._ff_member_path(p_flow, v_row.position, 'lane_id')));
    end if;

    -- Capability sets, lanes and executions, in the order in which every creation writes them.
    for v_row in
        select f.number, f.required_capabilities
        from unnest(p_facts) with ordinality as f (
            required_capabilities, budget_ids, quota_policy_id, attempt_timeout_ms, retention_ms, dedup_window_ms,
            number)
        order by f.required_capabilities collate "C"
    loop
        v_set_ids[v_row.number] := flowfabric._ff_intern_capabilities(v_row.required_capabilities, p_now_ms);
    end loop;
    for v_row in
        select distinct m.lane_id collate "C" as lane_id
        from unnest(p_members) as m
        where not exists (select from flowfabric.ff_lane_registry as l where l.lane_id = m.lane_id)
        order by 1
    loop
        perform flowfabric._ff_ensure_lane(v_row.lane_id, 'create_execution', p_now_ms);
    end loop;
    insert into flowfabric.ff_exec_core (
        partition_key, execution_id, flow_id, namespace, lane_id, execution_kind, priority, capability_set_id,
        budget_ids, quota_policy_id, attempt_timeout_ms, retention_ms, instance_tag, lifecycle_phase, ownership_state,
        eligibility_state, blocking_reason, blocking_detail, attempt_state, delay_until_ms, deadline_at_ms,
        created_at_ms, last_transition_at_ms, last_mutation_at_ms)
    select
        p_partition_key, m.execution_id, p_flow_id, v_namespace, m.lane_id, m.execution_kind, m.priority,
        coalesce(f.capability_set_id, 1), f.budget_ids, f.quota_policy_id, f.attempt_timeout_ms, f.retention_ms,
        m.tags ->> c.instance_tag_key, 'runnable', 'unowned',
        case
            when i.inputs > 0 then 'blocked_by_dependencies'::flowfabric.ff_eligibility_state
            when m.delay_until_ms > p_now_ms then 'not_eligible_until_time'
            else 'eligible_now'
        end,
        case
            when i.inputs > 0 then 'waiting_for_children'::flowfabric.ff_blocking_reason
            when m.delay_until_ms > p_now_ms then 'waiting_for_delay'
            else 'waiting_for_worker'
        end,
        case
            when i.inputs > 0 then i.inputs::text || ' dep(s) unresolved'
            when m.delay_until_ms > p_now_ms then 'until=' || m.delay_until_ms::text
        end,
        'pending_first_attempt', case when m.delay_until_ms > p_now_ms then m.delay_until_ms end, m.deadline_at_ms,
        p_now_ms, p_now_ms, p_now_ms
    from unnest(p_members) as m
    cross join flowfabric.ff_partition_config as c
    left join unnest(p_policies, p_facts, v_set_ids) as f (
        policy, required_capabilities, budget_ids, quota_policy_id, attempt_timeout_ms, retention_ms, dedup_window_ms,
        capability_set_id) on f.policy = m.policy
    left join (
        select e.downstream, count(*) as inputs from unnest(p_edges) as e group by e.downstream
    ) as i on i.downstream = m.name
    order by m.execution_id
    on conflict do nothing;
    get diagnostics v_created = row_count;
    if v_created < cardinality(p_members) then
        select m.position, m.execution_id, m.given_id into v_row
        from unnest(p_members) as m
        join flowfabric.ff_exec_core as e on e.partition_key = p_partition_key and e.execution_id = m.execution_id
        where e.flow_id is distinct from p_flow_id
        order by m.position
        limit 1;
        perform flowfabric._ff_raise_at(
            p_fn,
            'members[' || (v_row.position - 1)::text || ']'
            || case when v_row.given_id is not null then '.execution_id' else '' end,
            'execution_id', 'execution_exists',
            flowfabric.ff_format_execution_id(p_partition_key, v_row.execution_id));
    end if;
    insert into flowfabric.ff_exec_payload (
        partition_key, execution_id, payload, payload_encoding, policy, tags, creator_identity)
    select
        p_partition_key, m.execution_id, m.payload, m.payload_encoding, m.policy, m.tags, m.creator_identity
    from unnest(p_members) as m
    order by m.execution_id;
end;
$$;
comment on function flowfabric._ff_create_members(
    jsonb, smallint, uuid, flowfabric.ff_flow_document_member[], flowfabric.ff_flow_document_edge[], jsonb[],
    flowfabric.ff_policy_facts[], bigint, text) is
'Internal: creates the members of a submitted flow, or raises for a lane that is closed or an id that is taken.';

create or replace function flowfabric._ff_create_graph(
    p_joins jsonb,
    p_partition_key smallint,
    p_flow_id uuid,
    p_members flowfabric.ff_flow_document_member[],
    p_edges flowfabric.ff_flow_document_edge[],
    p_revision bigint,
    p_now_ms bigint
)
returns void
language plpgsql volatile
set enable_nestloop = off -- _document.sql
as $$
begin
    insert into flowfabric.ff_edge (
        partition_key, flow_id, edge_id, upstream_eid, downstream_eid, data_passing_ref, dep_state, created_at_ms,
        staged_at_ms, applied_at_ms)
    select
        p_partition_key, p_flow_id, e.edge_id, u.execution_id, d.execution_id, e.data_passing_ref, 'unsatisfied',
        p_now_ms, p_now_ms, p_now_ms
    from unnest(p_edges) as e
    join unnest(p_members) as u on u.name = e.upstream
    join unnest(p_members) as d on d.name = e.downstream;
    insert into flowfabric.ff_edge_group (
        partition_key, flow_id, downstream_eid, policy_kind, on_satisfied, k, n, created_at_ms, last_graph_revision)
    select
        p_partition_key, p_flow_id, m.execution_id, coalesce(j.policy ->> 'kind', 'all_of'),
        case when j.policy ->> 'kind' <> 'all_of' then j.policy ->> 'on_satisfied' end,
        case j.policy ->> 'kind' when 'any_of' then 1 when 'quorum' then (j.policy -> 'k')::integer end,
        i.inputs::integer, p_now_ms, p_revision
    from (
        select e.downstream, count(*) as inputs from unnest(p_edges) as e group by e.downstream
    ) as i
    join unnest(p_members) as m on m.name = i.downstream
    cross join lateral (select p_joins -> m.name as policy) as j;
end;
$$;
comment on function flowfabric._ff_create_graph(
    jsonb, smallint, uuid, flowfabric.ff_flow_document_member[], flowfabric.ff_flow_document_edge[], bigint,
    bigint) is
'Internal: writes the edges of a submitted flow, applied already, and the join of every child.';
