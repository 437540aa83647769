-- Undoes 0017.lean-writes, and gives the functions of the release before the column back that the load dropped.
-- Writes ff_exec_core anew, under an exclusive lock.
alter table flowfabric.ff_exec_core
add column if not exists public_state flowfabric.ff_public_state generated always as (
    flowfabric._ff_public_state(lifecycle_phase, terminal_outcome, eligibility_state)) stored;
alter index flowfabric.ff_exec_core_claim_idx reset (deduplicate_items);
alter index flowfabric.ff_exec_core_lease_expiry_idx reset (deduplicate_items);
alter table flowfabric.ff_partition_config
drop column if exists lease_events,
drop column if exists claim_floor_recheck_ms;
delete from flowfabric.ff_migration_annotation where version = 17;
