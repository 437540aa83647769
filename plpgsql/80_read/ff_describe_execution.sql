-- ff_describe_execution: everything about an execution but its bytes.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- Stored values are shown as they are: a lease that expired a moment ago still says `leased`, and lease_is_expired
-- tells the truth. An unknown id gives no row.
create or replace function flowfabric.ff_describe_execution(p_execution_id text)
returns setof flowfabric.ff_execution_snapshot
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, 'ff_describe_execution');
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    return query
    select
        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id), e.partition_key, e.flow_id,
        e.namespace, e.lane_id, e.execution_kind, p.creator_identity, e.priority, s.tokens,
        coalesce(e.budget_ids, '{}'), e.quota_policy_id, e.lifecycle_phase, e.ownership_state, e.eligibility_state,
        e.blocking_reason, e.blocking_detail, e.terminal_outcome, e.attempt_state,
        flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state),
        e.created_at_ms, e.started_at_ms, e.terminal_at_ms, e.last_transition_at_ms,
        greatest(e.last_mutation_at_ms, t.updated_at_ms), e.delay_until_ms,
        e.deadline_at_ms, e.attempt_timeout_at_ms, e.total_attempt_count, e.retry_count, e.replay_count,
        e.lease_reclaim_count, e.current_attempt_id, nullif(e.total_attempt_count, 0) - 1, e.current_lease_id,
        e.current_lease_epoch, e.current_worker_id, e.current_worker_instance_id, e.lease_acquired_at_ms,
        e.lease_expires_at_ms, e.lease_last_renewed_at_ms,
        case when e.lifecycle_phase = 'active' then e.lease_expires_at_ms <= v_now_ms end, e.lease_expired_at_ms,
        e.lease_revoked_at_ms, n.lease_revoke_reason, e.current_suspension_id, e.current_waitpoint_id,
        n.progress_pct, n.progress_message, n.progress_updated_at_ms, n.failure_reason, n.cancellation_reason,
        n.cancelled_by, n.last_capability_mismatch_at_ms, coalesce(p.tags, '{}') || coalesce(t.tags, '{}'),
        p.result is not null
    from flowfabric.ff_exec_core as e
    join flowfabric.ff_capability_set as s on s.capability_set_id = e.capability_set_id
    left join flowfabric.ff_exec_payload as p on p.partition_key = e.partition_key and p.execution_id = e.execution_id
    left join flowfabric.ff_exec_tag as t on t.partition_key = e.partition_key and t.execution_id = e.execution_id
    left join flowfabric.ff_exec_note as n on n.partition_key = e.partition_key and n.execution_id = e.execution_id
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
end;
$$;

comment on function flowfabric.ff_describe_execution(text) is
'Everything about an execution but its payload and result; no row for an unknown id.';

grant execute on function flowfabric.ff_describe_execution(text) to flowfabric_reader, flowfabric_operator;
