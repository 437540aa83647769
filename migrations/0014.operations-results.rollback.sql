-- The functions that return these types go with them; the installer loads them again.
drop index if exists flowfabric.ff_exec_core_blocked_idx;
create index if not exists ff_exec_core_blocked_idx on flowfabric.ff_exec_core (
    eligibility_state, quota_policy_id, priority desc, created_at_ms)
where eligibility_state in ('blocked_by_budget', 'blocked_by_quota', 'blocked_by_route', 'blocked_by_lane_state');
drop type if exists flowfabric.ff_lane_count cascade;
drop type if exists flowfabric.ff_metric cascade;
drop type if exists flowfabric.ff_finding cascade;
drop type if exists flowfabric.ff_explanation cascade;
drop type if exists flowfabric.ff_queue_stat cascade;
drop type if exists flowfabric.ff_scanner_failure_listing cascade;
drop type if exists flowfabric.ff_scanner_listing cascade;
drop type if exists flowfabric.ff_known_scanner cascade;
drop type if exists flowfabric.ff_scanner_run cascade;
delete from flowfabric.ff_migration_annotation where version = 14;
