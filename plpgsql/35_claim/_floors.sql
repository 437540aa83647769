-- Claim floors: where a claim starts to read the queue (spec 40, section 1.13).
--
-- Claimed executions leave dead entries at the head of their queue segment (lane, capability set, priority) until
-- vacuum removes them, which an old snapshot prevents. A floor says where to start reading; it never decides whether
-- an execution may be claimed.
--
-- Promoted executions do the same to the delayed ones of their lane, which are a segment too: that of the capability
-- set 0, which nothing requires. Its floor is a time until which they were delayed, others are times of creation.

-- Queue order means descending priority, so the floors of a queue cut it into segments that start at their floor and,
-- between them, ranges of priorities that have none and are read from their beginning. The bounds of a segment are
-- written as a range too: that way both are one condition, and exact ones for the index.
create or replace function flowfabric._ff_queue_regions(
    p_lane_id text,
    p_capability_set_id integer,
    p_use_floors boolean
)
returns table (highest integer, lowest integer, from_ms bigint, has_floor boolean)
language sql stable
as $$
    select r.highest, r.lowest, r.from_ms, r.has_floor
    from (
        select f.priority, f.floor_ms, lag(f.priority, 1, 9001) over (order by f.priority desc) as priority_above
        from (
            select l.priority, l.floor_ms
            from flowfabric.ff_lane_floor as l
            where p_use_floors and l.lane_id = p_lane_id and l.capability_set_id = p_capability_set_id
            union all
            select -1, 0
        ) as f
    ) as s
    cross join lateral (
        values (s.priority_above - 1, s.priority + 1, 0::bigint, false), (s.priority, s.priority, s.floor_ms, true)
    ) as r (highest, lowest, from_ms, has_floor)
    where r.highest >= r.lowest and r.lowest >= 0
$$;
comment on function flowfabric._ff_queue_regions(text, integer, boolean) is
'Internal: what to read of the queue of a lane and a capability set, in queue order.';

create or replace function flowfabric._ff_delayed_floor(p_lane_id text, p_use_floors boolean)
returns bigint
language plpgsql stable
as $$
begin
    return coalesce(
        (
            select f.floor_ms
            from flowfabric.ff_lane_floor as f
            where p_use_floors and f.lane_id = p_lane_id and f.capability_set_id = 0 and f.priority = 0
        ), 0);
end;
$$;
comment on function flowfabric._ff_delayed_floor(text, boolean) is
'Internal: from which time on the delayed executions of a lane are read.';

-- A time that lies further ahead than it was ever set means that the clock went back: what is created now lies below.
create or replace function flowfabric._ff_is_floor_ahead(p_due_at_ms bigint, p_recheck_ms bigint, p_now_ms bigint)
returns boolean
language sql immutable parallel safe
as $$
    select p_due_at_ms > p_now_ms + p_recheck_ms
$$;
comment on function flowfabric._ff_is_floor_ahead(bigint, bigint, bigint) is
'Internal: whether a floor was last moved at a time that has not come yet.';

create or replace function flowfabric._ff_is_floor_due(p_due_at_ms bigint, p_recheck_ms bigint, p_now_ms bigint)
returns boolean
language sql immutable parallel safe
as $$
    select p_due_at_ms <= p_now_ms or flowfabric._ff_is_floor_ahead(p_due_at_ms, p_recheck_ms, p_now_ms)
$$;
comment on function flowfabric._ff_is_floor_due(bigint, bigint, bigint) is
'Internal: whether a claim has to move a floor before it reads the queue.';

-- The caller has locked the floor row, in an earlier statement: an execution that was announced since would otherwise
-- be out of sight here, and its announcement overwritten. Everything eligible counts, whoever may claim it: a floor is
-- shared by all workers. Growth by mere passing of time is none, or an idle segment would never be forgotten.
--
-- A look from the beginning walks over everything that vacuum has left there: 0.2 us each, so 1 s if an old snapshot
-- was held open for five million claims. After it comes a rest, which is written as a later time of the check.
create or replace function flowfabric._ff_move_floor(
    p_floor flowfabric.ff_lane_floor,
    p_from_beginning boolean,
    p_recheck_ms bigint,
    p_lag_ms bigint,
    p_now_ms bigint
)
returns bigint
language plpgsql volatile
as $$
declare
    v_started_at_ms bigint := flowfabric.ff_now_ms();
    v_oldest_ms bigint;
    v_floor_ms bigint;
    v_checked_at_ms bigint := p_floor.checked_at_ms;
    v_from_ms bigint := case when p_from_beginning then 0 else p_floor.floor_ms end;
begin
    if p_floor.capability_set_id = 0 then
        select e.delay_until_ms into v_oldest_ms
        from flowfabric.ff_exec_core as e
        where e.eligibility_state = 'not_eligible_until_time' and e.lane_id = p_floor.lane_id
            and e.delay_until_ms >= v_from_ms
        order by e.delay_until_ms
        limit 1;
    else
        select e.created_at_ms into v_oldest_ms
        from flowfabric.ff_exec_core as e
        where e.eligibility_state = 'eligible_now' and e.lane_id = p_floor.lane_id
            and e.capability_set_id = p_floor.capability_set_id and e.priority = p_floor.priority
            and e.created_at_ms >= v_from_ms
        order by e.created_at_ms
        limit 1;
    end if;
    v_floor_ms := least(v_oldest_ms, p_now_ms - p_lag_ms);
    if p_from_beginning then
        v_checked_at_ms := p_now_ms + flowfabric._ff_rest_ms(v_started_at_ms, 30 * p_recheck_ms);
    end if;
    update flowfabric.ff_lane_floor as f
    set floor_ms = v_floor_ms,
        checked_at_ms = v_checked_at_ms,
        due_at_ms = least(p_now_ms + p_recheck_ms / 4, v_checked_at_ms + p_recheck_ms),
        raised_at_ms = case
            when v_oldest_ms is not null and v_floor_ms > f.floor_ms then p_now_ms else f.raised_at_ms end
    where f.lane_id = p_floor.lane_id and f.capability_set_id = p_floor.capability_set_id
        and f.priority = p_floor.priority;
    return v_oldest_ms;
end;
$$;
comment on function flowfabric._ff_move_floor(flowfabric.ff_lane_floor, boolean, bigint, bigint, bigint) is
'Internal: R4. Moves a locked floor to the oldest eligible execution of its segment, which it returns the age of.';

-- R1 and R2 ask for a look below floors that were not checked for a while, R4 for moving them afterwards. Moved first,
-- a floor leaves nothing below it to look at, and the dead entries there are walked over once and not twice. Between
-- two checks floors are moved on from where they are, four times as often, so that little lies between them and the
-- head of the queue.
--
-- While somebody else is moving a floor, it is good enough. But who did so, or lowered it, may sleep before his
-- commit: where a floor stays busy for half of the time between two checks, one call of ten does without floors.
create or replace function flowfabric._ff_check_floors(
    p_lanes text[],
    p_set_ids integer[],
    p_checked_until_ms bigint,
    p_recheck_ms bigint,
    p_now_ms bigint,
    out found_below boolean,
    out some_are_stuck boolean
)
language plpgsql volatile
as $$
declare
    v_lag_ms bigint := flowfabric._ff_setting_value('claim_floor_lag_ms');
    v_floor flowfabric.ff_lane_floor;
    v_from_beginning boolean;
    v_oldest_ms bigint;
begin
    found_below := false;
    for v_floor in
        select f.*
        from flowfabric.ff_lane_floor as f
        where f.lane_id = any (p_lanes) and f.capability_set_id = any (0 || p_set_ids)
            and (
                f.checked_at_ms <= p_checked_until_ms
                or flowfabric._ff_is_floor_due(f.due_at_ms, p_recheck_ms, p_now_ms))
        for no key update skip locked
    loop
        v_from_beginning := v_floor.checked_at_ms <= p_checked_until_ms
            or flowfabric._ff_is_floor_ahead(v_floor.due_at_ms, p_recheck_ms, p_now_ms);
        v_oldest_ms := flowfabric._ff_move_floor(v_floor, v_from_beginning, p_recheck_ms, v_lag_ms, p_now_ms);
        found_below := found_below or coalesce(v_oldest_ms < v_floor.floor_ms, false);
    end loop;
    some_are_stuck := exists (
        select from flowfabric.ff_lane_floor as f
        where f.lane_id = any (p_lanes) and f.capability_set_id = any (0 || p_set_ids)
            and f.checked_at_ms <= p_checked_until_ms - p_recheck_ms / 2
            and (p_now_ms - f.checked_at_ms) % greatest(p_recheck_ms / 10, 1) <= p_recheck_ms / 100);
end;
$$;
comment on function flowfabric._ff_check_floors(text[], integer[], bigint, bigint, bigint) is
'Internal: moves floors, those last checked by then from the beginning; says whether something was below one.';

-- Waits for nobody. A row that exists is left alone, because inserting beside one that is being changed would wait for
-- the change; the advisory lock keeps two calls from inserting the same row at once.
create or replace function flowfabric._ff_create_floor(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    if exists (
        select from flowfabric.ff_lane_floor as f
        where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority)
        or (select count(*) from flowfabric.ff_lane_floor as f where f.lane_id = p_lane_id) >= 64
        or not pg_try_advisory_xact_lock(hashtextextended(
            concat_ws('/', 'ff_lane_floor', p_capability_set_id, p_priority, p_lane_id), 0))
    then
        return;
    end if;
    insert into flowfabric.ff_lane_floor (
        lane_id, capability_set_id, priority, floor_ms, checked_at_ms, raised_at_ms, due_at_ms)
    select
        p_lane_id, p_capability_set_id, p_priority, 0, p_now_ms, p_now_ms, p_now_ms + c.claim_floor_recheck_ms / 4
    from flowfabric.ff_partition_config as c
    on conflict do nothing;
end;
$$;
comment on function flowfabric._ff_create_floor(text, integer, integer, bigint) is
'Internal: R3. Gives a queue segment that was claimed from a floor, up to 64 per lane.';
