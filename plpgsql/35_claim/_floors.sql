-- Claim floors: where a claim starts to read the queue.
--
-- Claimed executions leave dead entries at the head of their queue segment (lane, capability set, priority) until
-- vacuum removes them, which an old snapshot prevents. A floor says where to start reading; it never decides whether
-- an execution may be claimed. Promoted executions do the same to the delayed ones of their lane. Those are a segment
-- too, that of capability set 0, and its floors are times until which executions were delayed.
--
-- Rows of a segment: side 0 is the turn of movers, 1 and 2 are floors, other sides are floors of announcers that found
-- all others held. A claim begins at the lowest floor. Nothing waits for a floor's row.
--
-- Nothing that becomes eligible is below the lowest floor, because:
--   * The transaction that makes it eligible holds one floor until its commit, and lowers that one if it must
--     (_ff_announce_eligible). If all are held it inserts one.
--   * A mover locks a floor in one statement and reads the segment in the next. So it sees whatever was announced to
--     that floor, and what is announced meanwhile is announced to another.
--
-- A creation is not announced. A floor stays claim_floor_lag_ms behind the clock, and two floors are not moved within
-- less than a quarter of claim_floor_recheck_ms minus that lag. So the lower one does not pass an execution whose
-- creation commits within a quarter of the recheck. Later commits are found by claims that would come back with less
-- than they asked for, which read from the beginning, and by movers, which do so once per recheck.
--
-- A namespace whose claims name it has floors of its own in the same segments: claims for it step over what waits for
-- others once, not each time. A claim for a namespace begins at the higher one of its lowest floor and of the lowest
-- one of all. Announcers hold one of each, but insert none where the namespace has none, which is nearly always. So
-- the floors of a namespace stay at the bottom until every transaction has ended that may not have seen them.

-- Queue order means descending priority, so the floors of a queue cut it into segments that start at their floor and,
-- between them, ranges of priorities that have none and are read from their beginning. The bounds of a segment are
-- written as a range too: that way both are one condition, and exact ones for the index. Only a segment has a due time.
create or replace function flowfabric._ff_queue_ranges(
    p_lane_id text,
    p_capability_set_id integer,
    p_namespace text,
    p_use_floors boolean
)
returns table (highest integer, lowest integer, from_ms bigint, due_at_ms bigint)
language sql stable
as $$
    select r.highest, r.lowest, r.from_ms, r.due_at_ms
    from (
        select
            f.priority, f.floor_ms, f.due_at_ms,
            lag(f.priority, 1, 9001) over (order by f.priority desc) as priority_above
        from (
            select
                l.priority,
                greatest(
                    min(l.floor_ms) filter (where l.namespace = ''),
                    min(l.floor_ms) filter (where l.namespace = p_namespace)) as floor_ms,
                max(l.due_at_ms) filter (where l.namespace = p_namespace) as due_at_ms
            from flowfabric.ff_lane_floor as l
            where p_use_floors and l.lane_id = p_lane_id and l.capability_set_id = p_capability_set_id
                and l.namespace in ('', p_namespace) and l.side > 0
            group by l.priority
            union all
            select -1, 0, null
        ) as f
    ) as s
    cross join lateral (
        values
        (s.priority_above - 1, s.priority + 1, 0::bigint, null::bigint),
        (s.priority, s.priority, s.floor_ms, s.due_at_ms)
    ) as r (highest, lowest, from_ms, due_at_ms)
    where r.highest >= r.lowest and r.lowest >= 0
$$;
comment on function flowfabric._ff_queue_ranges(text, integer, text, boolean) is
'Internal: what to read of the queue of a lane and a capability set, in queue order, for one namespace or all.';

create or replace function flowfabric._ff_delayed_floor(p_lane_id text, p_use_floors boolean)
returns bigint
language plpgsql stable
as $$
begin
    return coalesce(
        (
            select min(f.floor_ms)
            from flowfabric.ff_lane_floor as f
            where p_use_floors and f.lane_id = p_lane_id and f.capability_set_id = 0 and f.priority = 0
                and f.namespace = '' and f.side > 0
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

-- Lowering a floor hides nothing, so it needs no turn. A floor that is held stays for the next call.
create or replace function flowfabric._ff_lower_floors_ahead(p_recheck_ms bigint, p_now_ms bigint)
returns void
language plpgsql volatile
as $$
declare
    v_row_ids tid[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    select array_agg(a.row_id) into v_row_ids
    from (
        select f.ctid as row_id
        from flowfabric.ff_lane_floor as f
        where greatest(f.due_at_ms, f.raised_at_ms, f.checked_at_ms) > p_now_ms
            and f.lane_id in (
                select x.lane_id
                from flowfabric.ff_lane_floor as x
                where flowfabric._ff_is_floor_ahead(x.due_at_ms, p_recheck_ms, p_now_ms))
        for no key update of f skip locked
    ) as a;
    update flowfabric.ff_lane_floor as f
    set floor_ms = 0,
        checked_at_ms = least(f.checked_at_ms, p_now_ms),
        raised_at_ms = least(f.raised_at_ms, p_now_ms),
        due_at_ms = least(f.due_at_ms, p_now_ms)
    where f.ctid = any (v_row_ids);
end;
$$;
comment on function flowfabric._ff_lower_floors_ahead(bigint, bigint) is
'Internal: puts the floors of lanes in which one was moved at a time that has not come yet to the bottom.';

-- Reading from the beginning

-- A scan from the beginning walks over everything that vacuum has left there: 0.2 us each, so 1 s if an old snapshot
-- was held open for five million claims. A slow one that found nothing is not repeated for twenty times as long. That
-- is written as a later time of the check, into any row of these queues that is free.
create or replace function flowfabric._ff_is_scan_resting(
    p_lanes text[],
    p_set_ids integer[],
    p_namespace text,
    p_now_ms bigint
)
returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select from flowfabric.ff_lane_floor as f
        where f.lane_id = any (p_lanes) and f.capability_set_id = any (0 || p_set_ids)
            and f.namespace = p_namespace and f.checked_at_ms > p_now_ms);
end;
$$;
comment on function flowfabric._ff_is_scan_resting(text[], integer[], text, bigint) is
'Internal: whether these queues were read from their beginning too slowly to do it again already.';

create or replace function flowfabric._ff_slow_scan_rest_ms(p_started_at_ms bigint)
returns bigint
language plpgsql volatile
as $$
declare
    v_took_ms bigint := flowfabric.ff_now_ms() - p_started_at_ms;
begin
    if v_took_ms <= 1 then
        return 0::bigint;
    end if;
    return least(
        20 * v_took_ms, 30 * (select c.claim_floor_recheck_ms from flowfabric.ff_partition_config as c));
end;
$$;
comment on function flowfabric._ff_slow_scan_rest_ms(bigint) is
'Internal: how long to wait before the next scan from the beginning, given when the last one started.';

create or replace function flowfabric._ff_note_slow_scan(
    p_lanes text[],
    p_set_ids integer[],
    p_namespace text,
    p_started_at_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_rest_ms bigint := flowfabric._ff_slow_scan_rest_ms(p_started_at_ms);
    v_row_id tid;
begin
    if v_rest_ms = 0 or current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    select f.ctid into v_row_id
    from flowfabric.ff_lane_floor as f
    where f.lane_id = any (p_lanes) and f.capability_set_id = any (0 || p_set_ids) and f.namespace = p_namespace
    order by f.side
    limit 1
    for no key update skip locked;
    update flowfabric.ff_lane_floor as f
    set checked_at_ms = greatest(f.checked_at_ms, flowfabric.ff_now_ms() + v_rest_ms)
    where f.ctid = v_row_id;
end;
$$;
comment on function flowfabric._ff_note_slow_scan(text[], integer[], text, bigint) is
'Internal: lets scans of these queues from their beginning rest, if the one that started then was slow.';

create or replace function flowfabric._ff_insert_floors(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_namespace text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_lane_floor (
        lane_id, capability_set_id, priority, namespace, side, floor_ms, checked_at_ms, raised_at_ms, due_at_ms)
    select
        p_lane_id, p_capability_set_id, p_priority, p_namespace, s.side, 0, case s.side when 0 then p_now_ms else 0 end,
        p_now_ms, case s.side when 0 then 0 else p_now_ms + c.claim_floor_recheck_ms / 4 end
    from flowfabric.ff_partition_config as c
    cross join generate_series(0, 2) as s (side)
    on conflict do nothing;
end;
$$;
comment on function flowfabric._ff_insert_floors(text, integer, integer, text, bigint) is
'Internal: inserts the rows of a segment that are missing, its floors at the bottom.';

-- Moving

-- Under the isolation level READ COMMITTED only: under another one the scan would not see what was announced to the
-- floor before it was locked. A floor that grows by mere passing of time has not been raised, or an idle segment would
-- never be forgotten. What waits for others in front of a namespace is read from the beginning by the scanner only.
create or replace function flowfabric._ff_move_floor(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_namespace text,
    p_is_in_use boolean,
    p_now_ms bigint,
    out is_moved boolean,
    out oldest_ms bigint
)
language plpgsql volatile
as $$
declare
    v_recheck_ms bigint;
    v_lag_ms bigint;
    v_started_at_ms bigint;
    v_checked_at_ms bigint;
    v_settled_from_xid bigint;
    v_side bigint;
    v_due_at_ms bigint;
    v_row_ids tid[];
    v_lowest_ms bigint;
    v_is_check boolean;
    v_from_ms bigint;
begin
    is_moved := false;
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    select f.checked_at_ms, f.settled_from_xid into v_checked_at_ms, v_settled_from_xid
    from flowfabric.ff_lane_floor as f
    where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
        and f.namespace = p_namespace and f.side = 0
    for no key update skip locked;
    if not found then
        return;
    end if;
    -- A statement after the lock sees what the mover before has done.
    select max(f.due_at_ms), (array_agg(f.side order by f.floor_ms, f.due_at_ms) filter (where f.side <= 2))[1]
    into v_due_at_ms, v_side
    from flowfabric.ff_lane_floor as f
    where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
        and f.namespace = p_namespace and f.side > 0;
    if v_due_at_ms > p_now_ms then
        return;
    elsif p_namespace <> '' and v_settled_from_xid = 0 then
        update flowfabric.ff_lane_floor as f
        set settled_from_xid = pg_snapshot_xmax(pg_current_snapshot())::text::bigint
        where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
            and f.namespace = p_namespace and f.side = 0;
        return;
    elsif p_namespace <> '' and pg_snapshot_xmin(pg_current_snapshot())::text::bigint < v_settled_from_xid then
        return;
    elsif v_side is null then
        perform flowfabric._ff_insert_floors(p_lane_id, p_capability_set_id, p_priority, p_namespace, p_now_ms);
        return;
    end if;
    -- Floors of announcers have ended their time: what they protect is seen by the scan below.
    select array_agg(l.row_id), min(l.floor_ms) into v_row_ids, v_lowest_ms
    from (
        select f.ctid as row_id, f.floor_ms
        from flowfabric.ff_lane_floor as f
        where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
            and f.namespace = p_namespace and (f.side = v_side or f.side > 2)
        order by f.side
        for no key update skip locked
    ) as l;
    if v_row_ids is null then
        return;
    end if;

    select c.claim_floor_recheck_ms into v_recheck_ms from flowfabric.ff_partition_config as c;
    v_lag_ms := flowfabric._ff_setting_value('claim_floor_lag_ms');
    v_is_check := v_checked_at_ms <= p_now_ms - v_recheck_ms and not (p_is_in_use and p_namespace <> '');
    v_from_ms := case when v_is_check then 0 else v_lowest_ms end;
    v_started_at_ms := flowfabric.ff_now_ms();
    if p_capability_set_id = 0 then
        select e.delay_until_ms into oldest_ms
        from flowfabric.ff_exec_core as e
        where e.eligibility_state = 'not_eligible_until_time' and e.lane_id = p_lane_id
            and e.delay_until_ms >= v_from_ms
        order by e.delay_until_ms
        limit 1;
    else
        select e.created_at_ms into oldest_ms
        from flowfabric.ff_exec_core as e
        where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id
            and e.capability_set_id = p_capability_set_id and e.priority = p_priority
            and e.created_at_ms >= v_from_ms and (p_namespace = '' or e.namespace = p_namespace)
        order by e.created_at_ms
        limit 1;
    end if;
    update flowfabric.ff_lane_floor as f
    set floor_ms = least(oldest_ms, p_now_ms - v_lag_ms),
        due_at_ms = p_now_ms + greatest(v_recheck_ms / 4 - v_lag_ms, v_recheck_ms / 8),
        raised_at_ms = case
            when p_is_in_use or least(oldest_ms, p_now_ms - v_lag_ms) > f.floor_ms and oldest_ms is not null
            then p_now_ms else f.raised_at_ms end
    where f.ctid = v_row_ids[1];
    if cardinality(v_row_ids) > 1 then
        delete from flowfabric.ff_lane_floor as f where f.ctid = any (v_row_ids[2:]);
    end if;
    if v_is_check then
        update flowfabric.ff_lane_floor as f
        set checked_at_ms = p_now_ms + flowfabric._ff_slow_scan_rest_ms(v_started_at_ms)
        where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
            and f.namespace = p_namespace and f.side = 0;
    end if;
    is_moved := true;
end;
$$;
comment on function flowfabric._ff_move_floor(text, integer, integer, text, boolean, bigint) is
'Internal: moves the lowest floor of a segment to its oldest execution, which it returns the time of, if one is due.';

-- The lock on the capability set keeps two calls from inserting the same rows, for which the second would wait.
-- Whoever finds it taken leaves the segment without a floor until the next claim.
create or replace function flowfabric._ff_create_floor(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_namespace text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed'
        or (
            select count(*)
            from flowfabric.ff_lane_floor as f
            where f.lane_id = p_lane_id and f.side = 0 and (f.namespace = '') = (p_namespace = '')) >= 64
    then
        return;
    end if;
    perform from flowfabric.ff_capability_set as s
    where s.capability_set_id = greatest(p_capability_set_id, 1)
    for no key update skip locked;
    if found then
        perform flowfabric._ff_insert_floors(p_lane_id, p_capability_set_id, p_priority, p_namespace, p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_create_floor(text, integer, integer, text, bigint) is
'Internal: gives a queue segment that was claimed from its floors: up to 64 of a lane, and as many of namespaces.';

-- What a claim does for a segment that it has claimed from, if that has no floor or one that is due. A claim of n moves
-- a due floor with a probability of n in 16: a move costs as much as half a claim of one, and what a few claims have
-- left at the head costs nothing.
create or replace function flowfabric._ff_tend_floor(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_namespace text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    if not exists (
        select from flowfabric.ff_lane_floor as f
        where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
            and f.namespace = p_namespace and f.side = 0)
    then
        perform flowfabric._ff_create_floor(p_lane_id, p_capability_set_id, p_priority, p_namespace, p_now_ms);
        return;
    end if;
    perform flowfabric._ff_move_floor(p_lane_id, p_capability_set_id, p_priority, p_namespace, true, p_now_ms);
    if p_capability_set_id > 0 then
        perform flowfabric._ff_move_floor(p_lane_id, 0, 0, '', false, p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_tend_floor(text, integer, integer, text, bigint) is
'Internal: creates the floors of a segment, or moves one of them if it is due, and one of its lane''s delays.';

-- A claim for a namespace may find nothing because others wait in front. So each such claim moves the floors of its
-- namespace that are due. It creates some where it has claimed and, if it has found too little, where anything waits.
-- Ranges without a due time are those in which the namespace has no floors.
create or replace function flowfabric._ff_tend_namespace(
    p_lanes text[],
    p_set_ids integer[],
    p_namespace text,
    p_taken flowfabric.ff_claim_candidate[],
    p_found_too_little boolean,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_segment record;
begin
    for v_segment in
        select f.lane_id, f.capability_set_id, f.priority
        from flowfabric.ff_lane_floor as f
        where f.lane_id = any (p_lanes) and f.capability_set_id = any (p_set_ids) and f.namespace = p_namespace
            and f.side > 0
        group by f.lane_id, f.capability_set_id, f.priority
        having max(f.due_at_ms) <= p_now_ms
        union
        select t.lane_id, t.capability_set_id, t.priority
        from unnest(p_taken) as t
        where t.has_floor is null
        union
        select l.lane_id, s.capability_set_id, h.priority
        from unnest(p_lanes) as l (lane_id)
        cross join unnest(p_set_ids) as s (capability_set_id)
        cross join lateral flowfabric._ff_queue_ranges(l.lane_id, s.capability_set_id, p_namespace, true) as r
        cross join lateral (
            select e.priority
            from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'eligible_now' and e.lane_id = l.lane_id
                and e.capability_set_id = s.capability_set_id
                and e.priority <= r.highest and e.priority >= r.lowest and e.created_at_ms >= r.from_ms
            order by e.priority desc, e.created_at_ms
            limit 1
        ) as h
        where p_found_too_little and r.due_at_ms is null
        limit 64
    loop
        perform flowfabric._ff_tend_floor(
            v_segment.lane_id, v_segment.capability_set_id, v_segment.priority, p_namespace, p_now_ms);
    end loop;
end;
$$;
comment on function flowfabric._ff_tend_namespace(
    text[], integer[], text, flowfabric.ff_claim_candidate[], boolean, bigint) is
'Internal: creates and moves the floors of a namespace in the queues that a claim for it has read.';

-- Rows that announcers hold keep the whole segment. What becomes eligible after the locks brings a row of its own.
create or replace function flowfabric._ff_forget_floor(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_namespace text,
    p_only_if_idle boolean
)
returns boolean
language plpgsql volatile
as $$
declare
    v_row_ids tid[];
begin
    select array_agg(l.row_id) into v_row_ids
    from (
        select f.ctid as row_id
        from flowfabric.ff_lane_floor as f
        where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
            and f.namespace = p_namespace
        for update skip locked
    ) as l;
    delete from flowfabric.ff_lane_floor as f
    where f.ctid = any (v_row_ids)
        and cardinality(v_row_ids) = (
            select count(*)
            from flowfabric.ff_lane_floor as x
            where x.lane_id = p_lane_id and x.capability_set_id = p_capability_set_id and x.priority = p_priority
                and x.namespace = p_namespace)
        and not (
            p_only_if_idle
            and exists (
                select from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id
                    and e.capability_set_id = p_capability_set_id and e.priority = p_priority
                    and (p_namespace = '' or e.namespace = p_namespace)
                union all
                select from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'not_eligible_until_time' and e.lane_id = p_lane_id
                    and p_capability_set_id = 0));
    return found;
end;
$$;
comment on function flowfabric._ff_forget_floor(text, integer, integer, text, boolean) is
'Internal: deletes the floors of a queue segment, if no transaction holds one of them.';
