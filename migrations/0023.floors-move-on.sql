-- Claim floors are moved more often than they are checked: from where they are, which costs next to nothing, and not
-- from the beginning of their queue, which costs what vacuum has not removed there.
--
-- Locks:  ff_lane_floor, ACCESS EXCLUSIVE for a moment.
-- Beside: the functions of the previous release go on working; a floor that one of them creates is moved at once.
-- depends: 0022.lean-calls

alter table flowfabric.ff_lane_floor add column if not exists due_at_ms bigint not null default 0;
comment on column flowfabric.ff_lane_floor.capability_set_id is
'Required capabilities of the executions in the segment; 0 stands for the delayed executions of the lane.';
comment on column flowfabric.ff_lane_floor.floor_ms is
'Claims begin to read the segment at executions created at this time; what comes back below it lowers it.';
comment on column flowfabric.ff_lane_floor.checked_at_ms is
'When the segment was last read from its beginning; later by twenty times as long as that took.';
comment on column flowfabric.ff_lane_floor.due_at_ms is
'When the next claim has to move the floor, or to check it.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (23, 'floors-move-on', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
