-- ff_resume_execution: end a pause now, whatever its condition says.
--
-- Fence:  the operator role.
-- Locks:  the ff_exec_core row, which covers its suspension and waitpoints.
-- Writes: ff_exec_core, ff_suspension_current, ff_waitpoint_pending; deletes ff_suspension_satisfier rows.
-- Raises: invalid_input, execution_not_found, execution_not_suspended.
-- Retry:  safe; a repeat answers execution_not_suspended.
--
-- All waitpoints close with the suspension, so every token handed out for it dies. The trigger is recorded and decides
-- nothing; the condition was not satisfied, so ff_observe_signals has no signals to show.
create or replace function flowfabric.ff_resume_execution(
    p_execution_id text,
    p_trigger text default 'operator',
    p_resume_delay_ms bigint default 0
)
returns flowfabric.ff_resumption
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_resume_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_trigger text := coalesce(nullif(p_trigger, ''), 'operator');
    v_delay_ms bigint := coalesce(p_resume_delay_ms, 0);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    if v_trigger <> all (flowfabric._ff_legal_values('trigger')) then
        perform flowfabric._ff_raise_unknown(c_fn, 'trigger', p_trigger, flowfabric._ff_legal_values('trigger'));
    end if;
    perform flowfabric._ff_check_resume_delay(v_delay_ms, c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_exec.lifecycle_phase <> 'suspended' or not exists (
        select from flowfabric.ff_suspension_current as u
        where u.partition_key = v_exec.partition_key and u.execution_id = v_exec.execution_id
            and u.closed_at_ms is null)
    then
        perform flowfabric._ff_raise(
            'execution_not_suspended', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec), 'lifecycle_phase', v_exec.lifecycle_phase));
    end if;

    perform flowfabric._ff_close_suspension(v_exec, 'resumed', v_trigger, false, null, v_now_ms);
    return flowfabric._ff_resume(v_exec, v_delay_ms, 'resume delay ' || v_delay_ms::text || 'ms', v_now_ms);
end;
$$;

comment on function flowfabric.ff_resume_execution(text, text, bigint) is
'Resumes a suspended execution by decision of an operator, at once or after a delay.';

grant execute on function flowfabric.ff_resume_execution(text, text, bigint) to flowfabric_operator;

-- A year: longer is a mistake of units, and must not come near what a time can hold.
create or replace function flowfabric._ff_check_resume_delay(p_resume_delay_ms bigint, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_resume_delay_ms not between 0 and 31536000000 then
        perform flowfabric._ff_raise_invalid(p_fn, 'resume_delay_ms', 'out_of_range', p_resume_delay_ms::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_resume_delay(bigint, text) is
'Internal: raises invalid_input unless a resume delay is within 0 and a year.';
