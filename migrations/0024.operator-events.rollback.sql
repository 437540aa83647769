-- Undoes 0024.operator-events. Events of types that the previous release does not know are lost.
alter type flowfabric.ff_replay drop attribute if exists result_given_up;
delete from flowfabric.ff_operator_event as v
where v.event_type not in ('priority_changed', 'replayed', 'flow_cancel_requested', 'lane_state_changed');
alter table flowfabric.ff_operator_event drop constraint if exists ff_operator_event_event_type_is_known;
alter table flowfabric.ff_operator_event add constraint ff_operator_event_event_type_is_known
check (event_type in ('priority_changed', 'replayed', 'flow_cancel_requested', 'lane_state_changed'));
comment on table flowfabric.ff_operator_event is
'Stream operator: one row per operator action on an execution, a flow or a lane.';
comment on column flowfabric.ff_operator_event.partition_key is
'Partition of the execution or flow; 0 for a lane.';
comment on column flowfabric.ff_operator_event.execution_id is
'Execution acted upon; null for a flow or a lane.';
comment on column flowfabric.ff_operator_event.flow_id is
'Flow acted upon; null for an execution or a lane.';
comment on column flowfabric.ff_operator_event.details is
'Facts of the action; the keys differ by event_type.';
delete from flowfabric.ff_worker_registry_event as v where v.event_kind = 'deregistered';
alter table flowfabric.ff_worker_registry_event
drop constraint if exists ff_worker_registry_event_event_kind_is_known;
alter table flowfabric.ff_worker_registry_event add constraint ff_worker_registry_event_event_kind_is_known
check (
    event_kind in ('registered', 'refreshed', 'drain_requested', 'drain_cancelled', 'marked_dead', 'ttl_swept')
);
delete from flowfabric.ff_migration_annotation where version = 24;
