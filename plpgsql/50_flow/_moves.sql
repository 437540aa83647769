-- The moves of a flow: its lock, and what the end of a member means for the others.

-- The flow row is locked before any member (spec 30, section 2). An execution that joins a flow between the two reads
-- below is refused rather than waited for: waiting for the flow while holding the member is how deadlocks are made.
create or replace function flowfabric._ff_lock_execution_with_flow(p_key flowfabric.ff_execution_key, p_fn text)
returns flowfabric.ff_exec_core
language plpgsql volatile
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

-- The last step of every end. p_exec is the row as it was before.
create or replace function flowfabric._ff_on_execution_terminal(
    p_exec flowfabric.ff_exec_core,
    p_outcome flowfabric.ff_terminal_outcome,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_emit_completion(p_exec, p_outcome, p_now_ms);
    if p_exec.flow_id is null then
        return;
    end if;
    delete from flowfabric.ff_cancel_backlog_member as m
    where m.partition_key = p_exec.partition_key and m.flow_id = p_exec.flow_id
        and m.execution_id = p_exec.execution_id;
    if found then
        delete from flowfabric.ff_cancel_backlog as b
        where b.partition_key = p_exec.partition_key and b.flow_id = p_exec.flow_id
            and not exists (
                select from flowfabric.ff_cancel_backlog_member as m
                where m.partition_key = b.partition_key and m.flow_id = b.flow_id);
    end if;
    insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
    select p_exec.partition_key, p_exec.flow_id, p_exec.execution_id, p_outcome, p_now_ms
    where exists (
        select from flowfabric.ff_edge as d
        where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
            and d.upstream_eid = p_exec.execution_id and d.dep_state = 'unsatisfied')
    on conflict do nothing;
    if found then
        perform flowfabric._ff_wake('ff_dispatch', '*');
    end if;
end;
$$;
comment on function flowfabric._ff_on_execution_terminal(
    flowfabric.ff_exec_core, flowfabric.ff_terminal_outcome, bigint) is
'Internal: the terminal hook. Writes the completion event and queues the outgoing edges of a flow member.';
