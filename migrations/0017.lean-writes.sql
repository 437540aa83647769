-- Less work for every statement that creates, claims or completes executions.
--
-- The two settings that each of these calls asks for stand beside the configuration that it reads anyway: a table that
-- a statement reads costs it 10 us, whatever is in it. ff_setting stays the record; ff_set_setting writes both, and the
-- installer brings the copy in step each time it loads the functions.
-- Entries of the two indexes end with the execution's id and are unique: looking for duplicates before a page is split
-- is work for nothing, 6 percent of a creation in a batch.
--
-- Locks:  ff_partition_config, ACCESS EXCLUSIVE for a moment; the two indexes, SHARE UPDATE EXCLUSIVE.
-- Beside: the previous release goes on working; a setting that it changes before the load is copied then.
-- depends: 0016.attempt-room

alter table flowfabric.ff_partition_config
add column if not exists lease_events boolean not null default true,
add column if not exists claim_floor_recheck_ms bigint not null default 1000;
comment on column flowfabric.ff_partition_config.lease_events is
'Copy of the setting lease_events, for calls that read this row anyway.';
comment on column flowfabric.ff_partition_config.claim_floor_recheck_ms is
'Copy of the setting claim_floor_recheck_ms, for calls that read this row anyway.';

alter index flowfabric.ff_exec_core_claim_idx set (deduplicate_items = false);
alter index flowfabric.ff_exec_core_lease_expiry_idx set (deduplicate_items = false);

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (17, 'lean-writes', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
