-- The functions that return these types go with them; the installer loads them again.
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
