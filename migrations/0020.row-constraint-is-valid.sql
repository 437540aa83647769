-- Validates the constraint of 0019, in a transaction of its own so that work goes on meanwhile.
--
-- Locks:  ff_exec_core, SHARE UPDATE EXCLUSIVE while every row is read: reads and writes go on.
-- Beside: the functions of the previous release go on working.
-- depends: 0019.row-constraint

alter table flowfabric.ff_exec_core validate constraint ff_exec_core_state_is_legal;

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (20, 'row-constraint-is-valid', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
