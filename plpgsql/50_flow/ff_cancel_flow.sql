-- ff_cancel_flow: end a flow and, by policy, its members.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row, then the ff_exec_core rows of the members, ascending; then what the cascade of
--         _cascade.sql changes.
-- Writes: ff_flow_core, ff_operator_event; per member cancelled now what ff_cancel_execution writes; for the others
--         ff_cancel_backlog, ff_cancel_backlog_member and a block on those that wait.
-- Raises: invalid_input, invalid_grace_ms, flow_not_found, flow_already_terminal.
-- Retry:  a repeat raises flow_already_terminal, whose detail has what the first call decided.
--
-- After the call no member that it takes along can be claimed any more: the first p_sync_limit are cancelled, the rest
-- is blocked and left to ff_drain_cancel_backlog. Members that run are cancelled by the drain once the grace is over,
-- unless they end before. All members are marked before the edges of any are resolved, so a member is cancelled and
-- never skipped.
create or replace function flowfabric.ff_cancel_flow(
    p_flow_id uuid,
    p_reason text,
    p_cancellation_policy text,
    p_grace_ms bigint default 30000,
    p_requester text default null,
    p_sync_limit integer default 500
)
returns flowfabric.ff_flow_cancellation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 15_batch/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_cancel_flow';
    v_grace_ms bigint := coalesce(p_grace_ms, 30000);
    v_reason text := nullif(p_reason, '');
    v_policy text := case p_cancellation_policy when 'cancel_flow_only' then 'flow_only' else p_cancellation_policy end;
    v_flow flowfabric.ff_flow_core;
    v_member_ids uuid[];
    v_selected uuid[];
    v_ended flowfabric.ff_ended_members := row(0, 0, 0, '{}', '{}')::flowfabric.ff_ended_members;
    v_pending integer;
    v_now_ms bigint;
begin
    if v_grace_ms not between 0 and flowfabric._ff_longest_ms() then
        perform flowfabric._ff_raise('invalid_grace_ms', c_fn, jsonb_build_object('value', v_grace_ms));
    end if;
    if p_reason is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'reason', 'null');
    end if;
    perform flowfabric._ff_check_reason(p_reason, 'reason', c_fn);
    perform flowfabric._ff_check_label(p_requester, 'requester', c_fn);
    if (v_policy = any (flowfabric._ff_legal_values('cancellation_policy'))) is not true then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'cancellation_policy', v_policy, flowfabric._ff_legal_values('cancellation_policy'));
    end if;
    if (p_sync_limit >= 0) is not true then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'sync_limit', case when p_sync_limit is null then 'null' else 'out_of_range' end,
            p_sync_limit::text);
    end if;
    v_flow := flowfabric._ff_lock_flow(p_flow_id, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_flow_is_open(v_flow, c_fn);

    update flowfabric.ff_flow_core as f
    set public_flow_state = 'cancelled',
        cancelled_at_ms = v_now_ms,
        terminal_at_ms = v_now_ms,
        cancel_reason = v_reason,
        cancellation_policy = v_policy,
        last_mutation_at_ms = v_now_ms
    where f.partition_key = v_flow.partition_key and f.flow_id = p_flow_id;
    v_member_ids := array(
        select e.execution_id
        from flowfabric.ff_exec_core as e
        where e.partition_key = v_flow.partition_key and e.flow_id = p_flow_id
        order by e.execution_id);
    perform flowfabric._ff_emit_operator(
        v_flow.partition_key, v_flow.namespace, null, null, p_flow_id, 'flow_cancel_requested',
        jsonb_build_object(
            'cancellation_policy', v_policy, 'reason', v_reason, 'requested_by', nullif(p_requester, ''),
            'member_count', cardinality(v_member_ids)),
        v_now_ms);

    -- A member that a worker is just claiming is waited for; whether it still is to be cancelled is asked afterwards.
    v_selected := array(
        select e.execution_id
        from flowfabric.ff_exec_core as e
        where e.partition_key = v_flow.partition_key and e.flow_id = p_flow_id
            and (case v_policy
                when 'cancel_all' then e.lifecycle_phase <> 'terminal'
                when 'cancel_pending' then e.lifecycle_phase = 'runnable'
                else false
            end)
        order by e.execution_id
        for no key update);
    if cardinality(v_selected) > 0 and p_sync_limit > 0 then
        v_ended := flowfabric._ff_cancel_members(
            v_flow.partition_key, p_flow_id, v_selected[1 : p_sync_limit], coalesce(v_reason, ''), v_now_ms);
    end if;
    v_pending := cardinality(v_selected) - v_ended.cancelled;
    if v_pending > 0 then
        perform flowfabric._ff_leave_to_backlog(
            v_flow, v_selected[p_sync_limit + 1 :], v_reason, v_policy, v_grace_ms, nullif(p_requester, ''), v_now_ms);
    end if;
    if cardinality(v_ended.queued) > 0 or cardinality(v_ended.reserved) > 0 then
        perform flowfabric._ff_cascade(
            v_flow.partition_key, p_flow_id, v_ended.queued, 'cancelled', null, true, v_ended.reserved, v_now_ms);
    end if;

    return row(
        case when v_pending > 0 then 'cancellation_scheduled' else 'cancelled' end, v_policy, v_reason, 'cancelled',
        array(
            select flowfabric.ff_format_execution_id(v_flow.partition_key, m.execution_id)
            from unnest(v_member_ids) as m (execution_id)),
        cardinality(v_member_ids), v_ended.cancelled, v_pending)::flowfabric.ff_flow_cancellation;
end;
$$;

comment on function flowfabric.ff_cancel_flow(uuid, text, text, bigint, text, integer) is
'Ends a flow and, by policy, its members: at once as far as the limit goes, the rest unclaimable and in the backlog.';

grant execute on function flowfabric.ff_cancel_flow(uuid, text, text, bigint, text, integer) to flowfabric_operator;

-- The block of members that wait is one statement for all of them, with the columns of _ff_set_unowned_state that can
-- differ after a runnable row: ten thousand calls of the move would hold the flow for seconds.
create or replace function flowfabric._ff_leave_to_backlog(
    p_flow flowfabric.ff_flow_core,
    p_execution_ids uuid[],
    p_reason text,
    p_policy text,
    p_grace_ms bigint,
    p_requester text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_cancel_backlog (
        partition_key, flow_id, requested_at_ms, requester, reason, grace_until_ms, cancellation_policy)
    values (
        p_flow.partition_key, p_flow.flow_id, p_now_ms, p_requester, p_reason, p_now_ms + p_grace_ms, p_policy);
    insert into flowfabric.ff_cancel_backlog_member (partition_key, flow_id, execution_id)
    select p_flow.partition_key, p_flow.flow_id, m.execution_id
    from unnest(p_execution_ids) as m (execution_id);
    update flowfabric.ff_exec_core as e
    set eligibility_state = 'blocked_by_operator',
        blocking_reason = 'paused_by_flow_cancel',
        -- The flow has the whole reason; here a long one would widen every row.
        blocking_detail = left(p_reason, 200),
        blocked_at_ms = p_now_ms,
        last_transition_at_ms = p_now_ms,
        last_mutation_at_ms = p_now_ms
    where e.partition_key = p_flow.partition_key and e.execution_id = any (p_execution_ids)
        and e.lifecycle_phase = 'runnable';
    perform flowfabric._ff_wake('ff_dispatch', '*');
end;
$$;
comment on function flowfabric._ff_leave_to_backlog(
    flowfabric.ff_flow_core, uuid[], text, text, bigint, text, bigint) is
'Internal: queues members of a cancelled flow for the drain and makes those that wait unclaimable.';
