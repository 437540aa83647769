-- ff_read_execution_info: the state of an execution, in upstream's shape.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_read_execution_info(p_execution_id text)
returns setof flowfabric.ff_execution_info
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, 'ff_read_execution_info');
begin
    return query
    select
        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id), e.namespace, e.lane_id, e.priority,
        e.execution_kind, e.lifecycle_phase, e.ownership_state, e.eligibility_state, e.blocking_reason,
        e.terminal_outcome, e.attempt_state,
        flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state),
        e.created_at_ms, e.started_at_ms, e.terminal_at_ms,
        nullif(e.total_attempt_count, 0) - 1, e.flow_id, e.blocking_detail, e.total_attempt_count, e.retry_count,
        e.replay_count, e.lease_reclaim_count, n.failure_reason, n.cancellation_reason, n.cancelled_by
    from flowfabric.ff_exec_core as e
    left join flowfabric.ff_exec_note as n on n.partition_key = e.partition_key and n.execution_id = e.execution_id
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
end;
$$;

comment on function flowfabric.ff_read_execution_info(text) is
'The state of an execution with its counters and reasons; no row for an unknown id.';

grant execute on function flowfabric.ff_read_execution_info(text) to flowfabric_reader, flowfabric_operator;
