-- Undoes 0022.lean-calls. What is lost can be derived.
alter table flowfabric.ff_waiter drop column if exists at_once;
alter table flowfabric.ff_partition_config drop column if exists event_waiters_until_ms;
alter table flowfabric.ff_lane_registry
drop column if exists home_partition,
drop column if exists waiters_until_ms;
delete from flowfabric.ff_migration_annotation where version = 22;
