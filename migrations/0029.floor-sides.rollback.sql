-- Undoes 0029.floor-sides. What is lost can be derived.
delete from flowfabric.ff_lane_floor where side <> 0 or namespace <> '';
update flowfabric.ff_lane_floor set floor_ms = 0, due_at_ms = 0;
alter table flowfabric.ff_lane_floor drop constraint if exists ff_lane_floor_pkey;
alter table flowfabric.ff_lane_floor
drop column if exists side,
drop column if exists namespace,
drop column if exists settled_from_xid;
alter table flowfabric.ff_lane_floor
add constraint ff_lane_floor_pkey primary key (lane_id, capability_set_id, priority);
comment on column flowfabric.ff_lane_floor.floor_ms is
'Claims begin to read the segment at executions created at this time; what comes back below it lowers it.';
comment on column flowfabric.ff_lane_floor.due_at_ms is
'When the next claim has to move the floor, or to check it.';
drop type if exists flowfabric.ff_claim_filter cascade;
delete from flowfabric.ff_migration_annotation where version = 29;
