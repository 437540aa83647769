-- The moves of a suspension.

-- p_trigger: signal, operator, timeout, or NULL when the execution ended instead of resuming. Only a satisfied
-- condition stamps satisfied_at_ms and names its signals.
create or replace function flowfabric._ff_close_suspension(
    p_exec flowfabric.ff_exec_core,
    p_reason text,
    p_trigger text,
    p_satisfied boolean,
    p_closer_signal_id uuid,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_satisfiers uuid[] := '{}'::uuid[];
begin
    if p_satisfied then
        select coalesce(array_agg(s.signal_id order by s.seq), '{}') into v_satisfiers
        from flowfabric.ff_signal as s
        where s.partition_key = p_exec.partition_key and s.execution_id = p_exec.execution_id
            and exists (
                select from flowfabric.ff_suspension_satisfier as t
                where t.partition_key = s.partition_key and t.suspension_id = p_exec.current_suspension_id
                    and t.signal_id = s.signal_id);
    end if;
    update flowfabric.ff_suspension_current as u
    set closed_at_ms = p_now_ms,
        close_reason = p_reason,
        resume_trigger = p_trigger,
        satisfied_at_ms = case when p_satisfied then p_now_ms end,
        closer_signal_id = case when p_satisfied then p_closer_signal_id end,
        satisfier_signal_ids = v_satisfiers
    where u.partition_key = p_exec.partition_key and u.execution_id = p_exec.execution_id
        and u.suspension_id = p_exec.current_suspension_id and u.closed_at_ms is null;
    update flowfabric.ff_waitpoint_pending as w
    set state = 'closed',
        closed_at_ms = p_now_ms,
        close_reason = p_reason,
        satisfied_at_ms = case when p_satisfied then p_now_ms else w.satisfied_at_ms end
    where w.partition_key = p_exec.partition_key and w.execution_id = p_exec.execution_id
        and w.suspension_id = p_exec.current_suspension_id and w.state <> 'closed';
    delete from flowfabric.ff_suspension_satisfier as t
    where t.partition_key = p_exec.partition_key and t.suspension_id = p_exec.current_suspension_id;
end;
$$;
comment on function flowfabric._ff_close_suspension(flowfabric.ff_exec_core, text, text, boolean, uuid, bigint) is
'Internal: closes the open suspension of an execution with all its waitpoints.';
