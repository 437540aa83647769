-- ff_expire_execution: end an execution because a time limit passed.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row of a member, the ff_exec_core row, the ff_attempt row, the open suspension and its
--         waitpoints.
-- Writes: as ff_cancel_execution, with outcome expired.
-- Raises: invalid_input, flow_membership_changed. Nothing for a state: the row says what was done.
-- Retry:  safe; a repeat answers already_terminal.
--
-- p_require_due lets a scanner that read an old due time ask again under the lock: the attempt that timed out may have
-- been replaced by a fresh one. An expired attempt is never retried, whatever the retry policy says.
create or replace function flowfabric.ff_expire_execution(
    p_execution_id text,
    p_expire_reason text default 'attempt_timeout',
    p_require_due boolean default false
)
returns flowfabric.ff_expiry
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_expire_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_reason text := coalesce(nullif(p_expire_reason, ''), 'attempt_timeout');
    v_exec flowfabric.ff_exec_core;
    v_public_state flowfabric.ff_public_state;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_label(v_reason, 'expire_reason', c_fn);
    begin
        v_exec := flowfabric._ff_lock_execution_with_flow(v_key, c_fn);
    exception when sqlstate 'ZN001' then
        -- execution_not_found: retention may have removed it while a scanner still had it on its list.
        return row('not_found_cleaned', null, null)::flowfabric.ff_expiry;
    end;
    v_now_ms := flowfabric.ff_now_ms();
    v_public_state := flowfabric._ff_public_state(
        v_exec.lifecycle_phase, v_exec.terminal_outcome, v_exec.eligibility_state);
    if v_exec.lifecycle_phase = 'terminal' then
        return row('already_terminal', null, v_public_state)::flowfabric.ff_expiry;
    end if;
    if p_require_due and not flowfabric._ff_is_due(v_exec, v_reason, v_now_ms) then
        return row('not_due', null, v_public_state)::flowfabric.ff_expiry;
    end if;

    perform flowfabric._ff_expire(v_exec, v_reason, v_now_ms);
    return row('expired', v_exec.lifecycle_phase, 'expired')::flowfabric.ff_expiry;
end;
$$;

comment on function flowfabric.ff_expire_execution(text, text, boolean) is
'Ends an execution because a time limit passed; with p_require_due only if that is still so.';

grant execute on function flowfabric.ff_expire_execution(text, text, boolean)
to flowfabric_operator;
