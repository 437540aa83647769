-- A queue segment gets two floors, and more while many transactions announce at once: claims begin at the lowest.
--
-- One floor could pass an execution that another transaction was making eligible. Now the announcer holds one of the
-- floors until its commit, and the session that moves floors moves one at a time and never one that is held.
--
-- A namespace that is claimed from on its own has floors of its own, so that claims for it do not read what waits for
-- others in front of it each time.
--
-- Locks:  ff_lane_floor, ACCESS EXCLUSIVE for a moment. Its rows become turns, to which claims add floors.
-- Beside: the functions of the previous release go on working; they take the rows of a segment for one floor.
-- depends: 0028.lost-lease-order

alter table flowfabric.ff_lane_floor
add column if not exists namespace text collate "C" not null default '',
add column if not exists side bigint not null default 0,
add column if not exists settled_from_xid bigint not null default 0;
-- The table has a few rows per lane: to build the index takes no time.
alter table flowfabric.ff_lane_floor
-- squawk-ignore ban-drop-constraint
drop constraint if exists ff_lane_floor_pkey;
alter table flowfabric.ff_lane_floor
-- squawk-ignore constraint-missing-not-valid, adding-serial-primary-key-field
add constraint ff_lane_floor_pkey primary key (lane_id, capability_set_id, priority, namespace, side);

comment on table flowfabric.ff_lane_floor is
'Per queue segment, where a claim starts to read, so that it does not walk over the dead entries of claimed rows.';
comment on column flowfabric.ff_lane_floor.namespace is
'Whose executions the row is about; empty for those of all namespaces.';
comment on column flowfabric.ff_lane_floor.settled_from_xid is
'Of side 0 of a namespace: its floors move once every transaction before this one has ended; 0 until it is known.';
comment on column flowfabric.ff_lane_floor.side is
'0 is the turn of the session that moves floors; 1, 2 and ids of transactions are floors, of which the lowest counts.';
comment on column flowfabric.ff_lane_floor.floor_ms is
'What is eligible is not older than the lowest of the floors of its segment, except for creations that commit late.';
comment on column flowfabric.ff_lane_floor.checked_at_ms is
'When the segment was last read from its beginning; later by twenty times as long as that took.';
comment on column flowfabric.ff_lane_floor.raised_at_ms is
'When the floor last grew; an idle segment is forgotten an hour later.';
comment on column flowfabric.ff_lane_floor.due_at_ms is
'From when on the segment''s next floor may be moved, as far as the last move of this one has a say.';

do $$
begin
    if to_regtype('flowfabric.ff_claim_filter') is null then
        create type flowfabric.ff_claim_filter as (
            namespace text,
            include_resumed boolean,
            partition_key smallint,
            examined uuid[],
            excluded_quotas text[],
            excluded_budgets text[],
            use_floors boolean,
            now_ms bigint
        );
    end if;
end;
$$;
comment on type flowfabric.ff_claim_filter is
'Internal: which executions of the queues that a call reads are candidates for it.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (29, 'floor-sides', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
