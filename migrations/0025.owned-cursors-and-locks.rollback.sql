-- Undoes 0025.owned-cursors-and-locks.
drop table if exists flowfabric.ff_scanner_detour;
drop table if exists flowfabric.ff_tick_loop_lock;
create index if not exists ff_execution_idempotency_execution_idx on flowfabric.ff_execution_idempotency (
    partition_key, execution_id);
create index if not exists ff_quota_window_execution_idx
on flowfabric.ff_quota_window (partition_key, execution_id);
comment on table flowfabric.ff_execution_idempotency is
'Idempotency keys of creations; an expired row counts as absent.';
alter table flowfabric.ff_event_consumer drop column if exists owner;
comment on column flowfabric.ff_event_consumer.cursor is
'Opaque position after the last event it has dealt with; never moves back.';
delete from flowfabric.ff_migration_annotation where version = 25;
