-- Undoes 0007.event. Events and the positions of consumers are lost.
delete from flowfabric.ff_migration_annotation
where version = 7;
drop table if exists flowfabric.ff_event_consumer;
drop table if exists flowfabric.ff_event_stream;
drop table if exists flowfabric.ff_worker_registry_event;
drop table if exists flowfabric.ff_operator_event;
drop table if exists flowfabric.ff_signal_event;
drop table if exists flowfabric.ff_lease_event;
drop table if exists flowfabric.ff_completion_event;
drop sequence if exists flowfabric.ff_event_id_seq;
