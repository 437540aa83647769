-- Undoes 0003.scheduling. Lanes, quotas, budgets, reservations and registered workers are lost.
delete from flowfabric.ff_migration_annotation
where version = 3;
drop table if exists flowfabric.ff_worker_registry;
drop table if exists flowfabric.ff_budget_usage_dedup;
drop table if exists flowfabric.ff_budget_usage_by_exec;
drop table if exists flowfabric.ff_budget_reservation;
drop table if exists flowfabric.ff_budget_usage;
drop table if exists flowfabric.ff_budget_limit;
drop table if exists flowfabric.ff_budget_policy;
drop table if exists flowfabric.ff_quota_admitted;
drop table if exists flowfabric.ff_quota_window;
drop table if exists flowfabric.ff_quota_policy;
drop table if exists flowfabric.ff_lane_floor;
drop table if exists flowfabric.ff_lane_registry;
drop table if exists flowfabric.ff_capability_set;
