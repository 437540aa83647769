-- What the end of a member means for the rest of its flow: edges are resolved, joins are judged, children start or are
-- skipped, siblings are cancelled, and whoever ended that way is next (spec 30, section 3.3).
--
-- Everything here runs under the lock of the flow. Edges, joins and the ends of members change only under it, so they
-- are read without locks of their own, and a row's ctid does not change between two statements. What a call may not do
-- itself stays in ff_dependency_outbox or ff_pending_cancel_groups for a scanner.
--
-- A member that a cascade ends goes into the outbox first, and is taken out again when its edges are resolved. That
-- tells the terminal hook to leave its edges alone, and whatever the limits do not allow is where it must be already.

-- How much may be done now

-- The limits count for a whole call, and a batch enters one cascade per member. What earlier cascades of the call have
-- spent is kept in a setting that ends with the transaction. Whoever sets it by hand moves work between his own call
-- and the scanners, nothing else.
create or replace function flowfabric._ff_cascade_call(p_now_ms bigint)
returns text
language sql stable
as $$
    select extract(epoch from statement_timestamp())::text || '/' || p_now_ms::text
$$;
comment on function flowfabric._ff_cascade_call(bigint) is
'Internal: what the cascades of one call have in common: the statement and the time that was read.';

create or replace function flowfabric._ff_spent_allowance(p_now_ms bigint)
returns flowfabric.ff_cascade_allowance
language plpgsql stable
as $$
declare
    v_spent text[] := string_to_array(nullif(current_setting('flowfabric.cascade_spent', true), ''), ' ');
begin
    if v_spent[1] = flowfabric._ff_cascade_call(p_now_ms)
        and v_spent[2] ~ '^[0-9]{1,15}$' and v_spent[3] ~ '^[0-9]{1,15}$'
    then
        return row(v_spent[2]::bigint, v_spent[3]::bigint, 0)::flowfabric.ff_cascade_allowance;
    end if;
    return row(0, 0, 0)::flowfabric.ff_cascade_allowance;
end;
$$;
comment on function flowfabric._ff_spent_allowance(bigint) is
'Internal: the edges and cancels that earlier cascades of the same call have used up.';

create or replace function flowfabric._ff_cascade_limits()
returns flowfabric.ff_cascade_allowance
language plpgsql stable
as $$
declare
    v_limits flowfabric.ff_cascade_allowance;
begin
    select
        (v.value -> 'max_sync_edges')::bigint, (v.value -> 'max_sync_cancels')::bigint,
        (v.value -> 'max_sync_depth')::bigint
    into v_limits
    from (
        select flowfabric._ff_default_settings() || coalesce(jsonb_object_agg(s.name, s.value), '{}') as value
        from flowfabric.ff_setting as s
        where s.name in ('max_sync_edges', 'max_sync_cancels', 'max_sync_depth')
    ) as v;
    return v_limits;
end;
$$;
comment on function flowfabric._ff_cascade_limits() is 'Internal: the limits of the cascades of one call.';

-- The entrance. p_edge_id narrows the first upstream to one edge, which is resolved whatever the limits say.
-- p_are_queued: the upstreams are in the outbox. p_reserved: members that the caller ended and whose reservations it
-- left open; they go back together with those of the cascade, after the last execution was locked.
create or replace function flowfabric._ff_cascade(
    p_partition_key smallint,
    p_flow_id uuid,
    p_upstreams uuid[],
    p_outcome flowfabric.ff_terminal_outcome,
    p_edge_id uuid,
    p_are_queued boolean,
    p_reserved uuid[],
    p_now_ms bigint
)
returns flowfabric.ff_cascade_report
language plpgsql volatile
as $$
declare
    v_spent flowfabric.ff_cascade_allowance := flowfabric._ff_spent_allowance(p_now_ms);
    v_limits flowfabric.ff_cascade_allowance := flowfabric._ff_cascade_limits();
    v_done flowfabric.ff_cascade_report;
begin
    v_done := flowfabric._ff_resolve_out_edges(
        p_partition_key, p_flow_id, p_upstreams, array_fill(p_outcome, array[cardinality(p_upstreams)]), p_edge_id,
        p_are_queued, false,
        row(
            greatest(v_limits.edges - v_spent.edges, 0) + (p_edge_id is not null)::integer,
            greatest(v_limits.cancels - v_spent.cancels, 0), v_limits.depth)::flowfabric.ff_cascade_allowance,
        p_now_ms);
    perform set_config(
        'flowfabric.cascade_spent',
        concat_ws(
            ' ', flowfabric._ff_cascade_call(p_now_ms), v_spent.edges + v_done.edges_resolved,
            v_spent.cancels + v_done.cancels),
        true);
    perform flowfabric._ff_return_member_reservations(p_partition_key, p_reserved || v_done.reserved, p_now_ms);
    return v_done;
end;
$$;
comment on function flowfabric._ff_cascade(
    smallint, uuid, uuid[], flowfabric.ff_terminal_outcome, uuid, boolean, uuid[], bigint) is
'Internal: lets the end of some members take its effect, as far as the limits of the call allow.';

create or replace function flowfabric._ff_return_member_reservations(
    p_partition_key smallint,
    p_execution_ids uuid[],
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    if cardinality(p_execution_ids) > 0 then
        perform flowfabric._ff_return_batch_reservations(
            array_fill(p_partition_key, array[cardinality(p_execution_ids)]), p_execution_ids, p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_return_member_reservations(smallint, uuid[], bigint) is
'Internal: gives back the open budget reservations of members that have ended, all budgets in one order.';

-- The work list

-- First come, first served, so that a skip reaches the members level by level. The dispatcher (p_is_dispatch) resolves
-- a fan-out in slices and knows no depth; a call resolves a fan-out as a whole or leaves it.
--
-- The settings are those of 15_batch/_moves.sql, for the same reason: every statement here has one good plan, and one
-- made while the tables were small would outlive that.
create or replace function flowfabric._ff_resolve_out_edges(
    p_partition_key smallint,
    p_flow_id uuid,
    p_upstreams uuid[],
    p_outcomes flowfabric.ff_terminal_outcome[],
    p_edge_id uuid,
    p_are_queued boolean,
    p_is_dispatch boolean,
    p_allowance flowfabric.ff_cascade_allowance,
    p_now_ms bigint
)
returns flowfabric.ff_cascade_report
language plpgsql volatile
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_done flowfabric.ff_cascade_report := row(0, 0, 0, 0, 0, 0, '{}')::flowfabric.ff_cascade_report;
    v_left flowfabric.ff_cascade_allowance := p_allowance;
    v_upstreams uuid[] := p_upstreams;
    v_outcomes flowfabric.ff_terminal_outcome[] := p_outcomes;
    v_depths integer[] := array_fill(0, array[cardinality(p_upstreams)]);
    v_at integer := 0;
    v_is_queued boolean;
    v_edges tid[];
    v_is_rest boolean;
    v_group flowfabric.ff_resolved_group;
    v_child flowfabric.ff_exec_core;
    v_outcome flowfabric.ff_terminal_outcome;
    v_siblings uuid[];
    v_ended flowfabric.ff_ended_members;
    v_is_deferred boolean := false;
begin
    while v_at < cardinality(v_upstreams) loop
        exit when p_is_dispatch and v_left.edges = 0;
        v_at := v_at + 1;
        v_is_queued := p_are_queued or v_depths[v_at] > 0;
        v_edges := array(
            select d.ctid
            from flowfabric.ff_edge as d
            where d.partition_key = p_partition_key and d.flow_id = p_flow_id
                and d.upstream_eid = v_upstreams[v_at] and d.dep_state = 'unsatisfied'
                and (p_edge_id is null or v_at > 1 or d.edge_id = p_edge_id)
            order by d.downstream_eid, d.edge_id
            limit v_left.edges + 1);
        v_is_rest := cardinality(v_edges) > v_left.edges;
        if p_is_dispatch and v_is_rest then
            v_edges := v_edges[1 : v_left.edges::integer];
        elsif v_is_rest or (cardinality(v_edges) > 0 and not p_is_dispatch and v_depths[v_at] > v_left.depth) then
            if not v_is_queued then
                insert into flowfabric.ff_dependency_outbox (
                    partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
                values (p_partition_key, p_flow_id, v_upstreams[v_at], v_outcomes[v_at], p_now_ms)
                on conflict do nothing;
            end if;
            v_is_deferred := true;
            continue;
        end if;

        for v_group in
            select r.* from flowfabric._ff_resolve_edges(
                p_partition_key, p_flow_id, v_edges, v_outcomes[v_at], p_now_ms) as r
        loop
            if not v_group.is_sound then
                perform flowfabric._ff_raise_unsound_group(p_partition_key, p_flow_id, v_group.downstream_eid);
            end if;
            continue when v_group.verdict is null and not v_group.passes_data;
            -- No row if retention has taken the child away: the verdict stands, and there is nobody to tell.
            select e.* into v_child
            from flowfabric.ff_exec_core as e
            where e.partition_key = p_partition_key and e.execution_id = v_group.downstream_eid
            for no key update;
            if v_group.passes_data and v_child.terminal_outcome = 'none'
                and flowfabric._ff_pass_result(p_partition_key, v_upstreams[v_at], v_group.downstream_eid)
            then
                v_done.data_passed := v_done.data_passed + 1;
            end if;

            if v_group.verdict = 'satisfied' and flowfabric._ff_unblock_child(v_child, p_now_ms) then
                v_done.children_eligible := v_done.children_eligible + 1;
            elsif v_group.verdict = 'impossible' and v_child.terminal_outcome = 'none' then
                v_outcome := flowfabric._ff_skip_outcome(v_child);
                if flowfabric._ff_queue_out_edges(v_child, v_outcome, p_now_ms) then
                    v_upstreams := v_upstreams || v_child.execution_id;
                    v_outcomes := v_outcomes || v_outcome;
                    v_depths := v_depths || v_depths[v_at] + 1;
                end if;
                if v_child.open_reservation_count > 0 then
                    v_done.reserved := v_done.reserved || v_child.execution_id;
                    v_child.open_reservation_count := 0;
                end if;
                perform flowfabric._ff_skip_execution(v_child, v_outcome, p_now_ms);
                v_done.children_skipped := v_done.children_skipped + 1;
            end if;

            if v_group.verdict is not null and v_group.on_satisfied = 'cancel_remaining' then
                v_siblings := flowfabric._ff_open_siblings(p_partition_key, p_flow_id, v_group.downstream_eid);
                if cardinality(v_siblings) > v_left.cancels then
                    perform flowfabric._ff_defer_sibling_cancels(
                        p_partition_key, p_flow_id, v_group.downstream_eid, v_group.verdict, v_siblings, p_now_ms);
                    v_is_deferred := true;
                elsif cardinality(v_siblings) > 0 then
                    v_ended := flowfabric._ff_cancel_members(
                        p_partition_key, p_flow_id, v_siblings, 'sibling_quorum_' || v_group.verdict, p_now_ms);
                    v_left.cancels := v_left.cancels - v_ended.cancelled;
                    v_done.cancels := v_done.cancels + v_ended.cancelled;
                    v_done.reserved := v_done.reserved || v_ended.reserved;
                    v_upstreams := v_upstreams || v_ended.queued;
                    v_outcomes := v_outcomes || array_fill(
                        'cancelled'::flowfabric.ff_terminal_outcome, array[cardinality(v_ended.queued)]);
                    v_depths := v_depths || array_fill(v_depths[v_at] + 1, array[cardinality(v_ended.queued)]);
                end if;
            end if;
        end loop;

        v_left.edges := v_left.edges - cardinality(v_edges);
        v_done.edges_resolved := v_done.edges_resolved + cardinality(v_edges);
        if v_is_queued and not v_is_rest then
            delete from flowfabric.ff_dependency_outbox as o
            where o.partition_key = p_partition_key and o.flow_id = p_flow_id and o.upstream_eid = v_upstreams[v_at];
            v_done.outbox_done := v_done.outbox_done + 1;
        end if;
    end loop;
    if v_is_deferred then
        perform flowfabric._ff_wake('ff_dispatch', '*');
    end if;
    return v_done;
end;
$$;
comment on function flowfabric._ff_resolve_out_edges(
    smallint, uuid, uuid[], flowfabric.ff_terminal_outcome[], uuid, boolean, boolean, flowfabric.ff_cascade_allowance,
    bigint) is
'Internal: resolves the open edges of ended members and of all that end because of it, within an allowance.';

-- Edges and joins

-- Edges of one upstream, given by their rows in the order (child, edge). One row per join that they belong to. The
-- decision rule of spec 30 section 1.5: `needed` is n for all_of, and fewer applied edges than needed decide nothing.
-- A join that was decided before only counts on. Of an all_of every edge passes its result on, of the others the one
-- that makes them satisfied.
create or replace function flowfabric._ff_resolve_edges(
    p_partition_key smallint,
    p_flow_id uuid,
    p_edges tid[],
    p_outcome flowfabric.ff_terminal_outcome,
    p_now_ms bigint
)
returns setof flowfabric.ff_resolved_group
language plpgsql volatile
as $$
declare
    v_success integer := (p_outcome = 'success')::integer;
    v_skip integer := (p_outcome = 'skipped')::integer;
begin
    return query
    with resolved as (
        update flowfabric.ff_edge as d
        set dep_state = case v_success when 1 then 'satisfied' else 'impossible' end,
            resolved_outcome = p_outcome,
            last_resolved_at_ms = p_now_ms
        where d.ctid = any (p_edges)
        returning d.downstream_eid, d.edge_id, coalesce(d.data_passing_ref, '') <> '' as has_ref
    ),
    counted as (
        select r.downstream_eid, count(*)::integer as edges, array_agg(r.has_ref order by r.edge_id) as refs
        from resolved as r
        group by r.downstream_eid
        order by r.downstream_eid
        offset 0
    ),
    judged as (
        select
            c.downstream_eid, c.edges, g.row_id, g.on_satisfied,
            coalesce(g.n - g.running_count + c.edges <= g.n, false) as is_sound,
            case
                when g.group_state <> 'pending' then null
                when g.success_count + c.edges * v_success >= g.needed then 'satisfied'
                when g.n >= g.needed
                    and g.success_count + c.edges * v_success + g.running_count - c.edges < g.needed then 'impossible'
            end as verdict,
            coalesce(
                v_success = 1 and case
                    when g.k is null then true = any (c.refs)
                    else g.group_state = 'pending' and c.refs[g.k - g.success_count]
                end, false) as passes_data
        from counted as c
        left join lateral (
            select
                x.ctid as row_id, x.k, x.n, coalesce(x.k, x.n) as needed, x.success_count, x.running_count,
                x.group_state, x.on_satisfied
            from flowfabric.ff_edge_group as x
            where x.partition_key = p_partition_key and x.flow_id = p_flow_id
                and x.downstream_eid = c.downstream_eid
            offset 0
        ) as g on true
    ),
    written as (
        update flowfabric.ff_edge_group as g
        set success_count = g.success_count + j.edges * v_success,
            skip_count = g.skip_count + j.edges * v_skip,
            fail_count = g.fail_count + j.edges * (1 - v_success - v_skip),
            group_state = coalesce(j.verdict, g.group_state),
            satisfied_at_ms = case j.verdict when 'satisfied' then p_now_ms else g.satisfied_at_ms end,
            impossible_at_ms = case j.verdict when 'impossible' then p_now_ms else g.impossible_at_ms end
        from judged as j
        where g.ctid = j.row_id and j.is_sound
    )
    select j.downstream_eid, j.on_satisfied, j.verdict, j.passes_data, j.is_sound
    from judged as j
    order by j.downstream_eid;
end;
$$;
comment on function flowfabric._ff_resolve_edges(
    smallint, uuid, tid[], flowfabric.ff_terminal_outcome, bigint) is
'Internal: resolves edges of one upstream, counts them in their joins and judges the joins that are still open.';

create or replace function flowfabric._ff_raise_unsound_group(
    p_partition_key smallint,
    p_flow_id uuid,
    p_downstream_eid uuid
)
returns void
language plpgsql stable
as $$
declare
    v_counts jsonb;
begin
    select jsonb_build_object('n', g.n, 'success', g.success_count, 'fail', g.fail_count, 'skip', g.skip_count)
    into v_counts
    from flowfabric.ff_edge_group as g
    where g.partition_key = p_partition_key and g.flow_id = p_flow_id and g.downstream_eid = p_downstream_eid;
    perform flowfabric._ff_raise(
        'invariant_violation', 'ff_edge_group',
        jsonb_build_object(
            'invariant', 'group_counts_its_edges',
            'values', jsonb_build_object(
                'flow_id', p_flow_id,
                'execution_id', flowfabric.ff_format_execution_id(p_partition_key, p_downstream_eid),
                'counts', v_counts)));
end;
$$;
comment on function flowfabric._ff_raise_unsound_group(smallint, uuid, uuid) is
'Internal: raises invariant_violation for a join that has fewer edges than were resolved, or is missing.';

create or replace function flowfabric._ff_pass_result(
    p_partition_key smallint,
    p_upstream_eid uuid,
    p_downstream_eid uuid
)
returns boolean
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_exec_payload (partition_key, execution_id, payload, payload_encoding)
    select p_partition_key, p_downstream_eid, r.result, r.result_encoding
    from flowfabric.ff_exec_payload as r
    where r.partition_key = p_partition_key and r.execution_id = p_upstream_eid and r.result is not null
    on conflict (partition_key, execution_id) do update
    set payload = excluded.payload, payload_encoding = excluded.payload_encoding;
    if not found then
        return false;
    end if;
    update flowfabric.ff_exec_core as e
    set small_payload = null
    where e.partition_key = p_partition_key and e.execution_id = p_downstream_eid and e.small_payload is not null;
    return true;
end;
$$;
comment on function flowfabric._ff_pass_result(smallint, uuid, uuid) is
'Internal: makes the result of an upstream the payload of its child; false if it has none.';

-- Members that end because of others

create or replace function flowfabric._ff_queue_out_edges(
    p_exec flowfabric.ff_exec_core,
    p_outcome flowfabric.ff_terminal_outcome,
    p_now_ms bigint
)
returns boolean
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
    select p_exec.partition_key, p_exec.flow_id, p_exec.execution_id, p_outcome, p_now_ms
    where exists (
        select from flowfabric.ff_edge as d
        where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
            and d.upstream_eid = p_exec.execution_id and d.dep_state = 'unsatisfied')
    on conflict do nothing;
    return found;
end;
$$;
comment on function flowfabric._ff_queue_out_edges(
    flowfabric.ff_exec_core, flowfabric.ff_terminal_outcome, bigint) is
'Internal: puts a member that is about to end into the outbox if it has open edges; says whether it has.';

-- All are marked before the edges of any are resolved, so that none of them is skipped because of another. Reservations
-- are left open, for the caller to return after the last execution was locked.
create or replace function flowfabric._ff_cancel_members(
    p_partition_key smallint,
    p_flow_id uuid,
    p_execution_ids uuid[],
    p_reason text,
    p_now_ms bigint
)
returns flowfabric.ff_ended_members
language plpgsql volatile
as $$
declare
    v_ended flowfabric.ff_ended_members := row(0, 0, 0, '{}', '{}')::flowfabric.ff_ended_members;
    v_open uuid[];
    v_waiting uuid[];
    v_found integer;
    v_exec flowfabric.ff_exec_core;
begin
    v_open := array(
        select e.execution_id
        from flowfabric.ff_exec_core as e
        where e.partition_key = p_partition_key and e.execution_id = any (p_execution_ids)
            and e.lifecycle_phase <> 'terminal'
        order by e.execution_id
        for no key update);
    select
        count(*)::integer,
        array_agg(e.execution_id order by e.execution_id) filter (
            where e.lifecycle_phase = 'runnable' and e.attempt_state <> 'attempt_interrupted')
    into v_found, v_waiting
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_partition_key and e.execution_id = any (p_execution_ids);
    v_ended.cancelled := cardinality(v_open);
    v_ended.already_terminal := v_found - cardinality(v_open);
    v_ended.not_found := cardinality(p_execution_ids) - v_found;

    if v_waiting is not null then
        v_ended.queued := flowfabric._ff_cancel_waiting(
            p_partition_key, p_flow_id, v_waiting, p_reason, p_now_ms);
    end if;
    for v_exec in
        select e.*
        from flowfabric.ff_exec_core as e
        where e.partition_key = p_partition_key and e.execution_id = any (v_open)
            and e.lifecycle_phase <> 'terminal'
        order by e.execution_id
    loop
        if flowfabric._ff_queue_out_edges(v_exec, 'cancelled', p_now_ms) then
            v_ended.queued := v_ended.queued || v_exec.execution_id;
        end if;
        if v_exec.open_reservation_count > 0 then
            v_ended.reserved := v_ended.reserved || v_exec.execution_id;
            v_exec.open_reservation_count := 0;
        end if;
        perform flowfabric._ff_cancel(v_exec, p_reason, 'operator_override', p_now_ms);
    end loop;
    return v_ended;
end;
$$;
comment on function flowfabric._ff_cancel_members(smallint, uuid, uuid[], text, bigint) is
'Internal: cancels members of one flow in ascending order; their edges are in the outbox for the caller to resolve.';

-- _ff_cancel and the terminal hook for locked members that wait and have no unfinished attempt: one statement per table
-- instead of ten calls per member, which is what holds a large flow (0.1 against 0.6 ms per member). The columns of the
-- execution are those of _ff_set_unowned_state that can differ after such a row. Returns those that are in the outbox.
create or replace function flowfabric._ff_cancel_waiting(
    p_partition_key smallint,
    p_flow_id uuid,
    p_execution_ids uuid[],
    p_reason text,
    p_now_ms bigint
)
returns uuid[]
language plpgsql volatile
as $$
declare
    v_event_epoch smallint;
    v_queued uuid[];
begin
    with queued as (
        insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
        select p_partition_key, p_flow_id, u.execution_id, 'cancelled', p_now_ms
        from unnest(p_execution_ids) as u (execution_id)
        cross join lateral (
            select d.edge_id
            from flowfabric.ff_edge as d
            where d.partition_key = p_partition_key and d.flow_id = p_flow_id
                and d.upstream_eid = u.execution_id and d.dep_state = 'unsatisfied'
            limit 1
        ) as owed
        order by u.execution_id
        on conflict do nothing
        returning upstream_eid
    )
    select coalesce(array_agg(q.upstream_eid order by q.upstream_eid), '{}') into v_queued
    from queued as q;
    insert into flowfabric.ff_exec_note as n (partition_key, execution_id, cancellation_reason, cancelled_by)
    select p_partition_key, u.execution_id, nullif(p_reason, ''), 'operator_override'
    from unnest(p_execution_ids) as u (execution_id)
    on conflict (partition_key, execution_id) do update
    set cancellation_reason = excluded.cancellation_reason, cancelled_by = excluded.cancelled_by;
    select c.event_epoch into v_event_epoch from flowfabric.ff_partition_config as c;
    insert into flowfabric.ff_completion_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, flow_id, lane_id, attempt_index,
        outcome)
    select
        p_partition_key, v_event_epoch, p_now_ms, e.namespace, e.instance_tag, e.execution_id, p_flow_id, e.lane_id,
        nullif(e.total_attempt_count, 0) - 1, 'cancelled'
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_partition_key and e.execution_id = any (p_execution_ids)
    order by e.execution_id;
    update flowfabric.ff_exec_core as e
    set lifecycle_phase = 'terminal',
        eligibility_state = 'not_applicable',
        blocking_reason = 'none',
        blocking_detail = null,
        terminal_outcome = 'cancelled',
        attempt_state = case when e.total_attempt_count > 0 then 'attempt_terminal' else e.attempt_state end,
        delay_until_ms = null,
        blocked_at_ms = null,
        deadline_at_ms = null,
        terminal_at_ms = p_now_ms,
        purge_after_ms = p_now_ms + e.retention_ms,
        last_transition_at_ms = p_now_ms,
        last_mutation_at_ms = p_now_ms
    where e.partition_key = p_partition_key and e.execution_id = any (p_execution_ids);
    delete from flowfabric.ff_claim_grant as g
    where g.partition_key = p_partition_key and g.execution_id = any (p_execution_ids);
    delete from flowfabric.ff_cancel_backlog_member as m
    where m.partition_key = p_partition_key and m.flow_id = p_flow_id and m.execution_id = any (p_execution_ids);
    if found then
        perform flowfabric._ff_close_cancel_backlog(p_partition_key, p_flow_id);
    end if;
    perform flowfabric._ff_wake('ff_completion', '*');
    return v_queued;
end;
$$;
comment on function flowfabric._ff_cancel_waiting(smallint, uuid, uuid[], text, bigint) is
'Internal: cancels locked members of one flow that wait; those that have open edges are in the outbox afterwards.';

-- Siblings

create or replace function flowfabric._ff_open_siblings(
    p_partition_key smallint,
    p_flow_id uuid,
    p_downstream_eid uuid
)
returns uuid[]
language plpgsql stable
as $$
begin
    return array(
        select distinct d.upstream_eid
        from flowfabric.ff_edge as d
        cross join lateral (
            select e.execution_id
            from flowfabric.ff_exec_core as e
            where e.partition_key = p_partition_key and e.execution_id = d.upstream_eid
                and e.lifecycle_phase <> 'terminal'
            offset 0
        ) as still_open
        where d.partition_key = p_partition_key and d.flow_id = p_flow_id and d.downstream_eid = p_downstream_eid
        order by d.upstream_eid);
end;
$$;
comment on function flowfabric._ff_open_siblings(smallint, uuid, uuid) is
'Internal: the upstreams of a child, staged ones included, that have not ended.';

create or replace function flowfabric._ff_defer_sibling_cancels(
    p_partition_key smallint,
    p_flow_id uuid,
    p_downstream_eid uuid,
    p_verdict text,
    p_siblings uuid[],
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    update flowfabric.ff_edge_group as g
    set cancel_siblings_pending_flag = true,
        cancel_siblings_reason = 'sibling_quorum_' || p_verdict,
        cancel_siblings_pending_members = p_siblings
    where g.partition_key = p_partition_key and g.flow_id = p_flow_id and g.downstream_eid = p_downstream_eid;
    insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
    values (p_partition_key, p_flow_id, p_downstream_eid, p_now_ms)
    on conflict do nothing;
end;
$$;
comment on function flowfabric._ff_defer_sibling_cancels(smallint, uuid, uuid, text, uuid[], bigint) is
'Internal: leaves the siblings of a decided join to ff_dispatch_sibling_cancels.';

create or replace function flowfabric._ff_drain_siblings(
    p_partition_key smallint,
    p_flow_id uuid,
    p_downstream_eid uuid
)
returns text
language plpgsql volatile
as $$
declare
    v_was_pending boolean;
begin
    delete from flowfabric.ff_pending_cancel_groups as q
    where q.partition_key = p_partition_key and q.flow_id = p_flow_id and q.downstream_eid = p_downstream_eid;
    v_was_pending := found;
    update flowfabric.ff_edge_group as g
    set cancel_siblings_pending_flag = false,
        cancel_siblings_pending_members = '{}'
    where g.partition_key = p_partition_key and g.flow_id = p_flow_id and g.downstream_eid = p_downstream_eid;
    return case when not v_was_pending then 'already_drained' when found then 'drained' else 'drained_sans_group' end;
end;
$$;
comment on function flowfabric._ff_drain_siblings(smallint, uuid, uuid) is
'Internal: marks the sibling cancels of a join as done; the reason stays for whoever looks later.';
