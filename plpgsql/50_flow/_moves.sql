-- The moves of a flow: its lock, what becomes of a child when its join is decided, and the terminal hook. What the end
-- of a member means beyond its own children is _cascade.sql.

-- Locks

-- The flow row is locked before any member (spec 30, section 2). An execution that joins a flow between the two reads
-- below is refused rather than waited for: waiting for the flow while holding the member is how deadlocks are made.
create or replace function flowfabric._ff_lock_execution_with_flow(p_key flowfabric.ff_execution_key, p_fn text)
returns flowfabric.ff_exec_core
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
declare
    v_flow_id uuid;
    v_exec flowfabric.ff_exec_core;
begin
    select e.flow_id into v_flow_id
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id;
    if v_flow_id is not null then
        -- A missing flow row is tolerated: retention may have removed it.
        perform from flowfabric.ff_flow_core as f
        where f.partition_key = p_key.partition_key and f.flow_id = v_flow_id
        for no key update;
    end if;
    v_exec := flowfabric._ff_lock_execution(p_key, p_fn);
    if v_flow_id is null and v_exec.flow_id is not null then
        perform flowfabric._ff_lock_joined_flow(v_exec, p_fn);
    end if;
    return v_exec;
end;
$$;
comment on function flowfabric._ff_lock_execution_with_flow(flowfabric.ff_execution_key, text) is
'Internal: locks the flow of an execution, if it has one, and then the execution; returns its row.';

-- For a caller that locked the execution first, because it was in no flow then.
create or replace function flowfabric._ff_lock_joined_flow(p_exec flowfabric.ff_exec_core, p_fn text)
returns void
language plpgsql volatile
as $$
begin
    perform from flowfabric.ff_flow_core as f
    where f.partition_key = p_exec.partition_key and f.flow_id = p_exec.flow_id
    for no key update nowait;
exception when lock_not_available then
    perform flowfabric._ff_raise(
        'flow_membership_changed', p_fn,
        jsonb_build_object('execution_id', flowfabric._ff_wire_id(p_exec), 'flow_id', p_exec.flow_id));
end;
$$;
comment on function flowfabric._ff_lock_joined_flow(flowfabric.ff_exec_core, text) is
'Internal: locks the flow that a locked execution has just joined, or raises flow_membership_changed.';

-- NULL when there is no such flow: for callers to whom that is an answer. Whoever holds the lock may read the state of
-- the flow's members without locking them, because nobody else can end one.
create or replace function flowfabric._ff_find_flow(p_flow_id uuid, p_fn text)
returns flowfabric.ff_flow_core
language plpgsql volatile
as $$
declare
    v_partition_key smallint;
    v_flow flowfabric.ff_flow_core;
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid(p_fn, 'flow_id', 'null');
    end if;
    v_partition_key := flowfabric.ff_flow_partition(p_flow_id);
    select f.* into v_flow
    from flowfabric.ff_flow_core as f
    where f.partition_key = v_partition_key and f.flow_id = p_flow_id
    for no key update;
    return v_flow;
end;
$$;
comment on function flowfabric._ff_find_flow(uuid, text) is
'Internal: locks a flow and returns its row, NULL if there is none; raises invalid_input without an id.';

create or replace function flowfabric._ff_lock_flow(p_flow_id uuid, p_fn text)
returns flowfabric.ff_flow_core
language plpgsql volatile
as $$
declare
    v_flow flowfabric.ff_flow_core := flowfabric._ff_find_flow(p_flow_id, p_fn);
begin
    if v_flow.flow_id is null then
        perform flowfabric._ff_raise('flow_not_found', p_fn, jsonb_build_object('flow_id', p_flow_id));
    end if;
    return v_flow;
end;
$$;
comment on function flowfabric._ff_lock_flow(uuid, text) is
'Internal: locks a flow and returns its row, or raises flow_not_found.';

-- The detail has what an earlier cancel decided, so that a caller who lost its answer learns it.
create or replace function flowfabric._ff_check_flow_is_open(p_flow flowfabric.ff_flow_core, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_flow.public_flow_state in ('cancelled', 'completed', 'failed') then
        perform flowfabric._ff_raise(
            'flow_already_terminal', p_fn,
            jsonb_build_object(
                'flow_id', p_flow.flow_id, 'public_flow_state', p_flow.public_flow_state,
                'cancellation_policy', p_flow.cancellation_policy, 'cancel_reason', p_flow.cancel_reason));
    end if;
end;
$$;
comment on function flowfabric._ff_check_flow_is_open(flowfabric.ff_flow_core, text) is
'Internal: raises flow_already_terminal for a flow that takes no more changes.';

-- Children (spec 30, section 3.1). The caller holds the lock of the flow and of the child.

create or replace function flowfabric._ff_block_child(
    p_exec flowfabric.ff_exec_core,
    p_edge_id uuid,
    p_unsatisfied integer,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    if p_exec.lifecycle_phase = 'runnable' then
        perform flowfabric._ff_become_blocked(
            p_exec, 'blocked_by_dependencies', 'waiting_for_children',
            p_unsatisfied::text || ' dep(s) unresolved incl ' || p_edge_id::text, p_exec.attempt_state, null,
            p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_block_child(flowfabric.ff_exec_core, uuid, integer, bigint) is
'Internal: makes a runnable child wait for its dependencies; one that runs, sleeps or has ended is left alone.';

-- Only a child that waits for its dependencies is let go: one that its flow's cancel has blocked stays blocked.
create or replace function flowfabric._ff_unblock_child(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns boolean
language plpgsql volatile
as $$
begin
    if (p_exec.eligibility_state = 'blocked_by_dependencies') is not true then
        return false;
    end if;
    if p_exec.delay_until_ms > p_now_ms then
        perform flowfabric._ff_become_delayed(
            p_exec, p_exec.delay_until_ms, 'waiting_for_delay', null, p_exec.attempt_state, null, p_now_ms);
    else
        perform flowfabric._ff_become_eligible(p_exec, p_exec.attempt_state, null, p_now_ms);
    end if;
    return true;
end;
$$;
comment on function flowfabric._ff_unblock_child(flowfabric.ff_exec_core, bigint) is
'Internal: lets a child go whose join is satisfied, at once or after its delay; says whether it was waiting.';

create or replace function flowfabric._ff_skip_outcome(p_exec flowfabric.ff_exec_core)
returns flowfabric.ff_terminal_outcome
language sql stable
as $$
    select case
        when exists (
            select from flowfabric.ff_cancel_backlog_member as m
            where m.partition_key = p_exec.partition_key and m.flow_id = p_exec.flow_id
                and m.execution_id = p_exec.execution_id
        ) then 'cancelled'::flowfabric.ff_terminal_outcome
        else 'skipped'
    end
$$;
comment on function flowfabric._ff_skip_outcome(flowfabric.ff_exec_core) is
'Internal: how a child ends whose join is impossible: a member waiting to be cancelled with its flow is cancelled.';

create or replace function flowfabric._ff_skip_execution(
    p_exec flowfabric.ff_exec_core,
    p_outcome flowfabric.ff_terminal_outcome,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    c_reason constant text := 'dependency_impossible';
    v_flow_reason text;
begin
    if p_outcome = 'cancelled' then
        select f.cancel_reason into v_flow_reason
        from flowfabric.ff_flow_core as f
        where f.partition_key = p_exec.partition_key and f.flow_id = p_exec.flow_id;
        perform flowfabric._ff_cancel(
            p_exec, flowfabric._ff_member_cancel_reason(v_flow_reason), 'operator_override', p_now_ms);
        return;
    end if;
    perform flowfabric._ff_end_attempt(p_exec, 'ended_cancelled', c_reason, null, c_reason, p_now_ms);
    if p_exec.lifecycle_phase = 'suspended' then
        perform flowfabric._ff_close_suspension(p_exec, c_reason, null, false, null, p_now_ms);
    end if;
    perform flowfabric._ff_become_terminal(
        p_exec, 'skipped', c_reason, p_now_ms,
        case
            when p_exec.attempt_state in ('running_attempt', 'attempt_interrupted')
                then 'attempt_terminal'::flowfabric.ff_attempt_state
            else 'none'
        end);
end;
$$;
comment on function flowfabric._ff_skip_execution(
    flowfabric.ff_exec_core, flowfabric.ff_terminal_outcome, bigint) is
'Internal: ends a child whose join is impossible, in any phase but terminal, with whatever it has open.';

create or replace function flowfabric._ff_member_cancel_reason(p_flow_reason text)
returns text
language sql immutable parallel safe
as $$
    select coalesce(p_flow_reason, 'flow_cancelled')
$$;
comment on function flowfabric._ff_member_cancel_reason(text) is
'Internal: why a member is said to be cancelled that a flow cancel had left to the backlog.';

-- The terminal hook (spec 30, section 3.2): the last step of every end. p_exec is the row as it was before.
--
-- A member that is only now ending cannot be in the outbox: an execution in it stays ended (spec 30, section 3.4). So a
-- row there says that whoever ends it, together with others, has taken its edges over and resolves them afterwards.
create or replace function flowfabric._ff_on_execution_terminal(
    p_exec flowfabric.ff_exec_core,
    p_outcome flowfabric.ff_terminal_outcome,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    -- Open only if its end has left them to the hook: budgets are locked after the last execution.
    v_reserved uuid[] := case
        when p_exec.open_reservation_count > 0 then array[p_exec.execution_id] else '{}'::uuid[] end;
begin
    perform flowfabric._ff_emit_completion(p_exec, p_outcome, p_now_ms);
    if p_exec.flow_id is null then
        return;
    end if;
    delete from flowfabric.ff_cancel_backlog_member as m
    where m.partition_key = p_exec.partition_key and m.flow_id = p_exec.flow_id
        and m.execution_id = p_exec.execution_id;
    if found then
        perform flowfabric._ff_close_cancel_backlog(p_exec.partition_key, p_exec.flow_id);
    end if;
    if exists (
        select from flowfabric.ff_edge as d
        where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
            and d.upstream_eid = p_exec.execution_id and d.dep_state = 'unsatisfied')
        and not exists (
            select from flowfabric.ff_dependency_outbox as o
            where o.partition_key = p_exec.partition_key and o.flow_id = p_exec.flow_id
                and o.upstream_eid = p_exec.execution_id)
    then
        perform flowfabric._ff_cascade(
            p_exec.partition_key, p_exec.flow_id, array[p_exec.execution_id], p_outcome, null, false, v_reserved,
            p_now_ms);
    elsif cardinality(v_reserved) > 0 then
        perform flowfabric._ff_return_member_reservations(p_exec.partition_key, v_reserved, p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_on_execution_terminal(
    flowfabric.ff_exec_core, flowfabric.ff_terminal_outcome, bigint) is
'Internal: the terminal hook. Writes the completion event and lets the end of a flow member take its effect.';

-- Looks from the end: the drain takes members from the beginning, and would find those that it has deleted there again
-- and again.
create or replace function flowfabric._ff_close_cancel_backlog(p_partition_key smallint, p_flow_id uuid)
returns void
language plpgsql volatile
as $$
begin
    perform from flowfabric.ff_cancel_backlog_member as m
    where m.partition_key = p_partition_key and m.flow_id = p_flow_id
    order by m.execution_id desc
    limit 1;
    if not found then
        delete from flowfabric.ff_cancel_backlog as b
        where b.partition_key = p_partition_key and b.flow_id = p_flow_id;
    end if;
end;
$$;
comment on function flowfabric._ff_close_cancel_backlog(smallint, uuid) is
'Internal: removes the cancel backlog of a flow once it has no member left.';
