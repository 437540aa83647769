-- Undoes 0005.flow. Flows, dependencies and cancels that were still queued are lost.
delete from flowfabric.ff_migration_annotation
where version = 5;
drop table if exists flowfabric.ff_flow_summary;
drop table if exists flowfabric.ff_cancel_backlog_member;
drop table if exists flowfabric.ff_cancel_backlog;
drop table if exists flowfabric.ff_dependency_outbox;
drop table if exists flowfabric.ff_pending_cancel_groups;
drop table if exists flowfabric.ff_edge_group;
drop table if exists flowfabric.ff_edge;
drop table if exists flowfabric.ff_flow_core;
