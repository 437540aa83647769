-- Undoes 0023.floors-move-on. What is lost can be derived.
alter table flowfabric.ff_lane_floor drop column if exists due_at_ms;
comment on column flowfabric.ff_lane_floor.capability_set_id is
'Required capabilities of the executions in the segment.';
comment on column flowfabric.ff_lane_floor.floor_ms is
'No eligible execution created before this was visible when the segment was last read from its beginning.';
comment on column flowfabric.ff_lane_floor.checked_at_ms is
'When that was; 0 asks the next claim to look below the floor.';
delete from flowfabric.ff_migration_annotation where version = 23;
