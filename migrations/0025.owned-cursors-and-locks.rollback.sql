-- Undoes 0025.owned-cursors-and-locks. Operator events that the old constraint does not know stay, so it is NOT VALID.
drop table if exists flowfabric.ff_scanner_detour;
drop table if exists flowfabric.ff_tick_loop_lock;
create index if not exists ff_execution_idempotency_execution_idx on flowfabric.ff_execution_idempotency (
    partition_key, execution_id);
create index if not exists ff_quota_window_execution_idx
on flowfabric.ff_quota_window (partition_key, execution_id);
comment on table flowfabric.ff_execution_idempotency is
'Idempotency keys of creations; an expired row counts as absent.';
alter table flowfabric.ff_operator_event
drop constraint if exists ff_operator_event_event_type_is_known;
alter table flowfabric.ff_operator_event
add constraint ff_operator_event_event_type_is_known
check (event_type in ('priority_changed', 'replayed', 'flow_cancel_requested', 'lane_state_changed'))
not valid;
comment on table flowfabric.ff_operator_event is
'Stream operator: one row per operator action on an execution, a flow or a lane.';
comment on column flowfabric.ff_operator_event.partition_key is
'Partition of the execution or flow; 0 for a lane.';
comment on column flowfabric.ff_operator_event.event_type is
'What the operator did.';
alter table flowfabric.ff_event_consumer drop column if exists owner;
comment on column flowfabric.ff_event_consumer.cursor is
'Opaque position after the last event it has dealt with; never moves back.';
delete from flowfabric.ff_migration_annotation where version = 25;
