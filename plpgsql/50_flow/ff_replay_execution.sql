-- ff_replay_execution: re-open an ended execution for another attempt.
--
-- Fence:  none.
-- Locks:  the flow, if it has one, then the ff_exec_core row; then its edges and its group.
-- Writes: ff_exec_core, ff_exec_note, the result in ff_exec_payload, ff_operator_event; ff_attempt for a first attempt
--         that has succeeded; of a flow member also ff_flow_core, and where its dependencies are open ff_edge,
--         ff_edge_group, ff_pending_cancel_groups and the payload that they pass on.
-- Raises: invalid_input, execution_not_found, flow_membership_changed, execution_not_terminal, max_replays_exhausted,
--         replay_needs_force, completion_dispatch_pending.
-- Retry:  a repeat raises execution_not_terminal: the execution runs already.
--
-- The attempts stay as they ended; the next claim starts a new one of type replay. Nothing downstream is re-opened: the
-- new end resolves only edges that are still, or again, unsatisfied. An execution whose last end is still being passed
-- on stays ended until that is done, or its dependants would be told of an end that no longer holds.
--
-- A completed execution needs p_force, because its result is given up. Retries and lost leases count from zero again.
create or replace function flowfabric.ff_replay_execution(
    p_execution_id text,
    p_reason text default null,
    p_requested_by text default null,
    p_force boolean default false
)
returns flowfabric.ff_replay
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_replay_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
    v_max_replays bigint;
    v_group_state text;
    v_branch text := 'normal';
    v_unsatisfied integer := 0;
    v_stale integer := 0;
    v_result_given_up boolean;
begin
    perform flowfabric._ff_check_reason(p_reason, 'reason', c_fn);
    perform flowfabric._ff_check_label(p_requested_by, 'requested_by', c_fn);

    v_exec := flowfabric._ff_lock_execution_with_flow(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_exec.lifecycle_phase <> 'terminal' then
        perform flowfabric._ff_raise(
            'execution_not_terminal', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec), 'lifecycle_phase', v_exec.lifecycle_phase));
    end if;
    v_max_replays := flowfabric._ff_max_replays(v_key);
    if v_exec.replay_count >= v_max_replays then
        perform flowfabric._ff_raise(
            'max_replays_exhausted', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec), 'replay_count', v_exec.replay_count,
                'max_replay_count', v_max_replays));
    end if;
    if v_exec.terminal_outcome = 'success' and p_force is not true then
        perform flowfabric._ff_raise(
            'replay_needs_force', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec), 'terminal_outcome', v_exec.terminal_outcome));
    end if;
    if v_exec.flow_id is not null and exists (
        select from flowfabric.ff_dependency_outbox as o
        where o.partition_key = v_exec.partition_key and o.flow_id = v_exec.flow_id
            and o.upstream_eid = v_exec.execution_id)
    then
        perform flowfabric._ff_raise(
            'completion_dispatch_pending', c_fn,
            jsonb_build_object('execution_id', flowfabric._ff_wire_id(v_exec)));
    end if;

    perform flowfabric._ff_note_replay(v_exec, nullif(p_reason, ''), nullif(p_requested_by, ''));
    update flowfabric.ff_exec_payload as p
    set result = null, result_encoding = null
    where p.partition_key = v_exec.partition_key and p.execution_id = v_exec.execution_id
        and num_nonnulls(p.result, p.result_encoding) > 0;
    v_result_given_up := found;
    if v_exec.flow_id is not null then
        update flowfabric.ff_flow_core as f
        set last_mutation_at_ms = v_now_ms
        where f.partition_key = v_exec.partition_key and f.flow_id = v_exec.flow_id;
        v_group_state := flowfabric._ff_rearm_dependencies(v_exec, v_now_ms);
    end if;

    if v_group_state is not null then
        v_branch := 'skipped_flow_member';
        -- An upstream that retention has removed counts as stale too: it will not end again.
        select
            count(*)::integer,
            (count(*) filter (where u.execution_id is null or u.lifecycle_phase = 'terminal'))::integer
        into v_unsatisfied, v_stale
        from flowfabric.ff_edge as d
        left join flowfabric.ff_exec_core as u
            on u.partition_key = d.partition_key and u.execution_id = d.upstream_eid
        where d.partition_key = v_exec.partition_key and d.flow_id = v_exec.flow_id
            and d.downstream_eid = v_exec.execution_id and d.dep_state = 'unsatisfied';
    end if;
    if v_group_state = 'pending' then
        perform flowfabric._ff_become_blocked(
            v_exec, 'blocked_by_dependencies', 'waiting_for_children',
            v_unsatisfied::text || ' dep(s) unsatisfied after replay', 'pending_replay_attempt', null, v_now_ms);
    else
        perform flowfabric._ff_become_eligible(v_exec, 'pending_replay_attempt', null, v_now_ms);
    end if;
    perform flowfabric._ff_emit_operator(
        v_exec.partition_key, v_exec.namespace, v_exec.instance_tag, v_exec.execution_id, null, 'replayed',
        jsonb_build_object(
            'branch', v_branch, 'replay_count', v_exec.replay_count + 1, 'unsatisfied', v_unsatisfied,
            'previous_outcome', v_exec.terminal_outcome, 'result_given_up', v_result_given_up,
            'reason', nullif(p_reason, ''), 'requested_by', nullif(p_requested_by, '')),
        v_now_ms);
    return row(
        'replayed',
        case when v_group_state = 'pending' then 'waiting_children'::flowfabric.ff_public_state else 'waiting' end,
        v_branch, v_exec.replay_count + 1, v_unsatisfied, v_stale, v_result_given_up)::flowfabric.ff_replay;
end;
$$;

comment on function flowfabric.ff_replay_execution(text, text, text, boolean) is
'Re-opens an ended execution, with its full retries; a completed one only by force, and its result is given up.';

grant execute on function flowfabric.ff_replay_execution(text, text, text, boolean) to flowfabric_operator;

create or replace function flowfabric._ff_max_replays(p_key flowfabric.ff_execution_key)
returns bigint
language plpgsql stable
as $$
declare
    v_max jsonb;
begin
    select p.policy -> 'max_replay_count' into v_max
    from flowfabric.ff_exec_payload as p
    where p.partition_key = p_key.partition_key and p.execution_id = p_key.execution_id;
    -- Creation refuses a malformed policy; data brought over from elsewhere may have one.
    if jsonb_typeof(v_max) = 'number' and v_max::numeric between 0 and 9007199254740991 then
        return floor(v_max::numeric)::bigint;
    end if;
    return 10::bigint;
end;
$$;
comment on function flowfabric._ff_max_replays(flowfabric.ff_execution_key) is
'Internal: how often an execution may be replayed: its policy''s max_replay_count, or 10.';

-- A group that had become impossible starts over with the edges that succeeded; one that was still pending, because its
-- child was cancelled or expired while it waited, goes on as it is. Either way an upstream that has succeeded meanwhile
-- counts. An upstream that has ended otherwise does not make the group impossible again: it is waited for, because a
-- sub-graph that failed is replayed piece by piece, in any order. Siblings are left alone.
create or replace function flowfabric._ff_rearm_dependencies(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns text
language plpgsql volatile
as $$
declare
    v_group flowfabric.ff_edge_group;
    v_needed integer;
    v_satisfied bigint;
    v_impossible bigint;
    v_skipped bigint;
    v_passing_upstream uuid;
begin
    select g.* into v_group
    from flowfabric.ff_edge_group as g
    where g.partition_key = p_exec.partition_key and g.flow_id = p_exec.flow_id
        and g.downstream_eid = p_exec.execution_id
    for no key update;
    if not found or v_group.n = 0 or v_group.group_state not in ('impossible', 'pending') then
        return null;
    end if;
    v_needed := coalesce(v_group.k, v_group.n);
    perform flowfabric._ff_require_fresh_snapshot(
        p_exec.partition_key,
        array(
            select d.upstream_eid
            from flowfabric.ff_edge as d
            where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
                and d.downstream_eid = p_exec.execution_id));

    if v_group.group_state = 'impossible' then
        update flowfabric.ff_edge as d
        set dep_state = 'unsatisfied', resolved_outcome = null, last_resolved_at_ms = null
        where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
            and d.downstream_eid = p_exec.execution_id and d.dep_state = 'impossible';
    end if;

    -- Which result becomes the payload: of an all_of the last one that there is, else that of the edge which makes
    -- the group satisfied.
    with counted as (
        select count(*) as satisfied
        from flowfabric.ff_edge as d
        where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
            and d.downstream_eid = p_exec.execution_id and d.dep_state = 'satisfied'
    ),
    succeeded as (
        select
            d.upstream_eid,
            nullif(d.data_passing_ref, '') is not null
            and exists (
                select from flowfabric.ff_exec_payload as r
                where r.partition_key = d.partition_key and r.execution_id = d.upstream_eid and r.result is not null
            ) as passes_data,
            row_number() over (order by u.terminal_at_ms, d.edge_id) as position
        from flowfabric.ff_edge as d
        join flowfabric.ff_exec_core as u
            on u.partition_key = d.partition_key and u.execution_id = d.upstream_eid
        where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
            and d.downstream_eid = p_exec.execution_id and d.dep_state = 'unsatisfied'
            and u.terminal_outcome = 'success'
    )
    select s.upstream_eid into v_passing_upstream
    from succeeded as s
    cross join counted as c
    where s.passes_data and (v_group.policy_kind = 'all_of' or c.satisfied + s.position = v_needed)
    order by s.position desc
    limit 1;
    if found then
        perform flowfabric._ff_pass_result(p_exec.partition_key, v_passing_upstream, p_exec.execution_id);
    end if;

    update flowfabric.ff_edge as d
    set dep_state = 'satisfied', resolved_outcome = 'success', last_resolved_at_ms = p_now_ms
    from flowfabric.ff_exec_core as u
    where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
        and d.downstream_eid = p_exec.execution_id and d.dep_state = 'unsatisfied'
        and u.partition_key = d.partition_key and u.execution_id = d.upstream_eid
        and u.terminal_outcome = 'success';
    select
        count(*) filter (where d.dep_state = 'satisfied'),
        count(*) filter (where d.dep_state = 'impossible' and d.resolved_outcome <> 'skipped'),
        count(*) filter (where d.dep_state = 'impossible' and d.resolved_outcome = 'skipped')
    into v_satisfied, v_impossible, v_skipped
    from flowfabric.ff_edge as d
    where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
        and d.downstream_eid = p_exec.execution_id;

    update flowfabric.ff_edge_group as g
    set success_count = v_satisfied,
        fail_count = v_impossible,
        skip_count = v_skipped,
        group_state = case when v_satisfied >= v_needed then 'satisfied' else 'pending' end,
        satisfied_at_ms = case when v_satisfied >= v_needed then p_now_ms end,
        impossible_at_ms = null,
        cancel_siblings_pending_flag = false,
        cancel_siblings_reason = null,
        cancel_siblings_pending_members = '{}'
    where g.partition_key = p_exec.partition_key and g.flow_id = p_exec.flow_id
        and g.downstream_eid = p_exec.execution_id
    returning g.group_state into v_group.group_state;
    delete from flowfabric.ff_pending_cancel_groups as q
    where q.partition_key = p_exec.partition_key and q.flow_id = p_exec.flow_id
        and q.downstream_eid = p_exec.execution_id;
    return v_group.group_state;
end;
$$;
comment on function flowfabric._ff_rearm_dependencies(flowfabric.ff_exec_core, bigint) is
'Internal: opens the dependencies of a replayed child anew; its group''s state then, NULL if none were open.';
