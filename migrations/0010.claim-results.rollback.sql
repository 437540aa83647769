-- The functions that return these types go with them; the installer loads them again.
drop type if exists flowfabric.ff_lane_listing cascade;
drop type if exists flowfabric.ff_lane_state_change cascade;
drop type if exists flowfabric.ff_floor_scan cascade;
drop type if exists flowfabric.ff_work_wait cascade;
drop type if exists flowfabric.ff_expired_lease_listing cascade;
drop type if exists flowfabric.ff_worker_lease_listing cascade;
drop type if exists flowfabric.ff_eligible_listing cascade;
drop type if exists flowfabric.ff_granted_execution cascade;
drop type if exists flowfabric.ff_reclaimed_execution cascade;
drop type if exists flowfabric.ff_claimed_execution cascade;
drop type if exists flowfabric.ff_admission_memory cascade;
drop type if exists flowfabric.ff_claim_candidate cascade;
delete from flowfabric.ff_migration_annotation where version = 10;
