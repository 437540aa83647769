-- Undoes 0028.lost-lease-order. The functions of the release before expect no delay on an active execution.
update flowfabric.ff_exec_core as e
set delay_until_ms = null
where e.ownership_state in ('lease_expired_reclaimable', 'lease_revoked');
drop index if exists flowfabric.ff_exec_core_lease_expiry_idx;
create index if not exists ff_exec_core_lease_expiry_idx on flowfabric.ff_exec_core (
    lease_expires_at_ms, partition_key, execution_id)
with (deduplicate_items = false)
where ownership_state = 'leased';
drop index if exists flowfabric.ff_exec_core_reclaimable_idx;
create index if not exists ff_exec_core_reclaimable_idx on flowfabric.ff_exec_core (
    lane_id, lease_expires_at_ms, partition_key, execution_id)
where ownership_state in ('lease_expired_reclaimable', 'lease_revoked');
comment on column flowfabric.ff_exec_core.lease_reclaim_count is
'Times a lost lease was taken over by another worker.';
comment on column flowfabric.ff_exec_core.delay_until_ms is 'Earliest start while delayed.';
alter type flowfabric.ff_expired_lease_listing drop attribute if exists takeover_at_ms;
delete from flowfabric.ff_migration_annotation where version = 28;
