-- Undoes 0019.row-constraint. Reads every row of ff_exec_core under an exclusive lock.
alter table flowfabric.ff_exec_core
drop constraint if exists ff_exec_core_state_is_legal;
alter table flowfabric.ff_exec_core
add constraint ff_exec_core_state_is_legal check (flowfabric._ff_state_is_legal(
    lifecycle_phase, ownership_state, eligibility_state, blocking_reason, terminal_outcome, attempt_state,
    current_lease_id, current_worker_id, current_worker_instance_id, lease_expires_at_ms, terminal_at_ms,
    delay_until_ms, current_suspension_id, priority, current_lease_epoch, total_attempt_count, retry_count,
    replay_count, lease_reclaim_count, open_reservation_count));
drop function if exists flowfabric._ff_row_is_legal(flowfabric.ff_exec_core);
delete from flowfabric.ff_migration_annotation where version = 19;
