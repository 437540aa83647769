-- Undoes 0005.flow. Flows, dependencies and cancels that were still queued are lost.
-- Functions and views that use these tables go with them; the installer loads them again.
delete from flowfabric.ff_migration_annotation
where version = 5;
drop table if exists flowfabric.ff_flow_summary cascade;
drop table if exists flowfabric.ff_cancel_backlog_member cascade;
drop table if exists flowfabric.ff_cancel_backlog cascade;
drop table if exists flowfabric.ff_dependency_outbox cascade;
drop table if exists flowfabric.ff_pending_cancel_groups cascade;
drop table if exists flowfabric.ff_edge_group cascade;
drop table if exists flowfabric.ff_edge cascade;
drop table if exists flowfabric.ff_flow_core cascade;
