-- Create, claim and complete read fewer tables: one that a statement names costs it 5 us, whatever is in it.
--
-- The partition of a lane follows from its name and the number of partitions, which can change only while nothing is
-- stored: the lane's row keeps it. The same row, and for events that of the configuration, says until when somebody may
-- be waiting, so that a busy system does not look at ff_waiter at all; who begins to wait puts that time forward, far
-- enough that this happens once in ten minutes. Whether he is told at once is a setting that is read then, too.
--
-- Locks:  ff_lane_registry, ff_partition_config and ff_waiter, ACCESS EXCLUSIVE for a moment.
-- Beside: the functions of the previous release go on working; what they leave out, the load of the new ones adds.
-- depends: 0021.fewer-rows

alter table flowfabric.ff_lane_registry
add column if not exists home_partition smallint,
add column if not exists waiters_until_ms bigint not null default 0;
comment on column flowfabric.ff_lane_registry.home_partition is
'Partition of the lane''s executions that belong to no flow; NULL only until the functions are loaded.';
comment on column flowfabric.ff_lane_registry.waiters_until_ms is
'Nobody waits for work of the lane after this time: until then ff_waiter knows who does.';

alter table flowfabric.ff_partition_config
add column if not exists event_waiters_until_ms bigint not null default 0;
comment on column flowfabric.ff_partition_config.event_waiters_until_ms is
'Nobody waits for lease or completion events after this time: until then ff_waiter knows who does.';

alter table flowfabric.ff_waiter add column if not exists at_once boolean not null default true;
comment on column flowfabric.ff_waiter.at_once is
'Whether the setting of the channel allows to notify in the transaction that has news; else the tick does it, or nobody.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (22, 'lean-calls', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
