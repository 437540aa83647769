-- Undoes 0007.event. Events and the positions of consumers are lost.
-- Functions and views that use these tables go with them; the installer loads them again.
delete from flowfabric.ff_migration_annotation
where version = 7;
drop table if exists flowfabric.ff_event_consumer cascade;
drop table if exists flowfabric.ff_event_stream cascade;
drop table if exists flowfabric.ff_worker_registry_event cascade;
drop table if exists flowfabric.ff_operator_event cascade;
drop table if exists flowfabric.ff_signal_event cascade;
drop table if exists flowfabric.ff_lease_event cascade;
drop table if exists flowfabric.ff_completion_event cascade;
drop sequence if exists flowfabric.ff_event_id_seq cascade;
