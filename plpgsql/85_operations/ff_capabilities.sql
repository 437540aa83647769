-- ff_capabilities: what this engine supports, in the words that upstream's tooling compares.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
create or replace function flowfabric.ff_capabilities()
returns setof flowfabric.ff_capability_flag
language plpgsql immutable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select f.capability, f.capability <> 'subscribe_instance_tags', f.note
    from (
        values
        ('cancel_execution', null),
        ('change_priority', null),
        ('replay_execution', null),
        ('revoke_lease', null),
        ('read_execution_state', null),
        ('read_execution_info', null),
        ('get_execution_result', null),
        ('budget_admin', null),
        ('quota_admin', null),
        ('rotate_waitpoint_hmac_secret_all', 'One key store serves all partitions.'),
        ('seed_waitpoint_hmac_secret', null),
        ('list_pending_waitpoints', null),
        ('cancel_flow_header', null),
        ('cancel_flow_wait_timeout', 'The client waits: ff_drain_cancel_backlog until nothing remains.'),
        ('cancel_flow_wait_indefinite', 'The client waits: ff_drain_cancel_backlog until nothing remains.'),
        ('ack_cancel_member', null),
        ('claim_for_worker', null),
        ('issue_reclaim_grant', null),
        ('prepare', 'ff_initialize'),
        ('subscribe_lease_history', 'ff_read_events'),
        ('subscribe_completion', 'ff_read_events'),
        ('subscribe_signal_delivery', 'ff_read_events'),
        ('subscribe_instance_tags', 'List executions by tag instead: ff_list_executions.'),
        ('stream_durable_summary', null),
        ('stream_best_effort_live', null),
        ('register_worker', null),
        ('heartbeat_worker', null),
        ('mark_worker_dead', null),
        ('list_expired_leases', null),
        ('list_workers', null),
        ('release_admission', null),
        ('read_quota_policy_limits', 'ff_get_quota_policy'),
        ('block_execution_for_admission', null),
        ('read_budget_usage_and_limits', 'ff_get_budget_status'),
        -- Not upstream's.
        ('gap_free_events', 'A cursor misses no event that commits late.'),
        ('global_lane_order', 'The order of a lane holds across partitions.'),
        ('tick_in_database', 'ff_tick'),
        ('batch_calls', 'ff_create_executions, ff_complete_executions, ff_fail_executions, ff_renew_leases'),
        ('budget_reservations', 'ff_reserve_budget'),
        ('submit_flow', 'ff_submit_flow'),
        ('waiter_gated_wakeups', 'Nothing is notified while nobody waits.')
    ) as f (capability, note);
end;
$$;

comment on function flowfabric.ff_capabilities() is 'What this engine supports, by upstream''s names and its own.';

grant execute on function flowfabric.ff_capabilities()
to flowfabric_producer, flowfabric_worker, flowfabric_reader, flowfabric_operator;
