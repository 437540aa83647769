-- ff_fail_execution: end the running attempt as failed, and retry or end the execution.
--
-- Fence:  the whole triple of the current, unexpired lease; an operator may leave it out with source operator_override.
-- Locks:  the ff_flow_core row of a member, the ff_exec_core row, the ff_attempt row.
-- Writes: ff_attempt, ff_exec_core, ff_exec_note, ff_lease_event; ff_stream_meta of a stream that exists; the quota
--         slot and the open budget reservations; ff_completion_event and the edges of a flow member if it ends.
-- Raises: invalid_input, invalid_policy_json, flow_membership_changed and the codes of _ff_check_fence.
-- Retry:  safe; a repeat answers execution_not_active, whose detail tells whether the first call won.
--
-- Who knows the failure best is the worker: its category decides whether a retry makes sense, and it may bring a retry
-- policy for this one call. An execution without a policy is not retried. A worker must always be able to report a
-- failure: a reason of more than 8192 bytes and a category of more than 256 are cut, not refused.
create or replace function flowfabric.ff_fail_execution(
    p_execution_id text,
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null,
    p_failure_reason text default '',
    p_failure_category text default null,
    p_retry_policy jsonb default null,
    p_source text default null
)
returns flowfabric.ff_failure
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_fail_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_override boolean := flowfabric._ff_is_override(p_source, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    if p_retry_policy is not null then
        perform flowfabric._ff_check_retry_policy(p_retry_policy, c_fn);
    end if;

    v_exec := flowfabric._ff_lock_execution_with_flow(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_fence(
        v_exec, p_lease_id, p_lease_epoch, p_attempt_id, v_override, v_now_ms, c_fn);
    return flowfabric._ff_fail_attempt(
        v_exec, flowfabric._ff_truncate_bytes(nullif(p_failure_reason, ''), 8192),
        flowfabric._ff_truncate_bytes(nullif(p_failure_category, ''), 256), p_retry_policy, v_now_ms);
end;
$$;

comment on function flowfabric.ff_fail_execution(text, uuid, bigint, uuid, text, text, jsonb, text) is
'Ends the running attempt as failed; a retry follows if policy and category allow one, else the execution ends.';

grant execute on function flowfabric.ff_fail_execution(text, uuid, bigint, uuid, text, text, jsonb, text)
to flowfabric_worker, flowfabric_operator;
