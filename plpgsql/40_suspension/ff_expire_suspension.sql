-- ff_expire_suspension: apply the timeout behaviour of a suspension, if its time has come.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row of a member, the ff_exec_core row, which covers its suspension and waitpoints, the
--         ff_attempt row.
-- Writes: by behaviour: ff_exec_core, ff_suspension_current, ff_waitpoint_pending, deletes ff_suspension_satisfier
--         rows; at an end also ff_attempt, ff_exec_note, ff_stream_meta of a stream that exists, ff_completion_event
--         and the edges of a flow member.
-- Raises: invalid_input, flow_membership_changed. What state the execution is in is an outcome, also that it is not
--         there.
-- Retry:  safe; a repeat finds nothing due.
--
-- A timeout is due at its very instant. The resume delay of the suspension belongs to signals: a timeout that resumes
-- does so at once.
create or replace function flowfabric.ff_expire_suspension(p_execution_id text)
returns flowfabric.ff_state_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_expire_suspension';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
begin
    begin
        v_exec := flowfabric._ff_lock_execution_with_flow(v_key, c_fn);
    exception when sqlstate 'ZN001' then
        return row('not_found_cleaned', null)::flowfabric.ff_state_outcome;
    end;
    return flowfabric._ff_time_out_suspension(v_exec, flowfabric.ff_now_ms());
end;
$$;

comment on function flowfabric.ff_expire_suspension(text) is
'Applies the timeout behaviour of a suspension if it is due; every situation is an outcome.';

grant execute on function flowfabric.ff_expire_suspension(text) to flowfabric_operator;
