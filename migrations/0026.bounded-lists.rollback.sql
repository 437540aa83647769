-- Undoes 0026.bounded-lists. Nothing is lost.
alter type flowfabric.ff_execution_listing drop attribute if exists next_after;
comment on type flowfabric.ff_execution_listing is 'One execution of a list.';
alter type flowfabric.ff_expired_lease_listing
drop attribute if exists next_after_expires_at_ms,
drop attribute if exists next_after_partition_key,
drop attribute if exists next_after_execution_id;
comment on type flowfabric.ff_expired_lease_listing is 'One lease that has run out, and who held it.';
create index if not exists ff_suspension_current_open_idx
on flowfabric.ff_suspension_current (suspended_at_ms, partition_key, execution_id)
where closed_at_ms is null;
drop index if exists flowfabric.ff_suspension_current_partition_idx;
alter table flowfabric.ff_scanner drop column if exists position;
delete from flowfabric.ff_migration_annotation where version = 26;
