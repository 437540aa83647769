-- Undoes 0003.scheduling. Lanes, quotas, budgets, reservations and registered workers are lost.
-- Functions and views that use these tables go with them; the installer loads them again.
delete from flowfabric.ff_migration_annotation
where version = 3;
drop table if exists flowfabric.ff_worker_registry cascade;
drop table if exists flowfabric.ff_budget_usage_dedup cascade;
drop table if exists flowfabric.ff_budget_usage_by_exec cascade;
drop table if exists flowfabric.ff_budget_reservation cascade;
drop table if exists flowfabric.ff_budget_usage cascade;
drop table if exists flowfabric.ff_budget_limit cascade;
drop table if exists flowfabric.ff_budget_policy cascade;
drop table if exists flowfabric.ff_quota_admitted cascade;
drop table if exists flowfabric.ff_quota_window cascade;
drop table if exists flowfabric.ff_quota_policy cascade;
drop table if exists flowfabric.ff_lane_floor cascade;
drop table if exists flowfabric.ff_lane_registry cascade;
drop table if exists flowfabric.ff_capability_set cascade;
