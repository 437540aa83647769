-- ff_unblock_execution: put an execution that admission blocked back on its queue.
--
-- Fence:  optional: only if it is blocked for this reason.
-- Locks:  the ff_exec_core row.
-- Writes: ff_exec_core.
-- Raises: invalid_input, execution_not_found, execution_not_eligible.
-- Retry:  a repeat raises execution_not_eligible: the execution is eligible already.
--
-- The cause of the block is not looked at again; the caller has done that. Dependencies are lifted by the flow
-- functions only, and what a flow cancel has paused waits for its end.
create or replace function flowfabric.ff_unblock_execution(
    p_execution_id text,
    p_expected_blocking_reason text default null
)
returns flowfabric.ff_state_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_unblock_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
begin
    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    if v_exec.eligibility_state not in (
            'blocked_by_budget', 'blocked_by_quota', 'blocked_by_route', 'blocked_by_operator',
            'blocked_by_lane_state')
        or nullif(p_expected_blocking_reason, '') <> v_exec.blocking_reason::text
        or v_exec.blocking_reason = 'paused_by_flow_cancel'
    then
        perform flowfabric._ff_raise_not_eligible(v_exec, c_fn);
    end if;

    perform flowfabric._ff_become_eligible(v_exec, v_exec.attempt_state, null, flowfabric.ff_now_ms());
    return row('unblocked', 'waiting')::flowfabric.ff_state_outcome;
end;
$$;

comment on function flowfabric.ff_unblock_execution(text, text) is
'Puts an execution that admission blocked back on its queue, if it is blocked for the expected reason.';

grant execute on function flowfabric.ff_unblock_execution(text, text) to flowfabric_operator;
