-- The moves of scheduling: claim floors and capabilities.

-- An execution that becomes eligible keeps its creation time, which may be below the floors of its queue segment. Until
-- its commit this transaction holds one of them, the lowest that is free, and lowers it if it is higher. So no session
-- can move that floor past the execution without seeing it. The same holds for the floors of its namespace, if that
-- has any; the delayed executions of a lane have none by namespace.
create or replace function flowfabric._ff_announce_eligible(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_namespace text,
    p_created_at_ms bigint,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_row_id tid;
    v_floor_ms bigint;
    v_namespace_has_floors boolean;
begin
    -- Under REPEATABLE READ a floor that has been moved could not be locked without an error, and floors may be unseen.
    if current_setting('transaction_isolation') <> 'read committed' then
        perform flowfabric._ff_insert_announcement(
            p_lane_id, p_capability_set_id, p_priority, '', p_created_at_ms, p_now_ms);
        if p_namespace <> '' then
            perform flowfabric._ff_insert_announcement(
                p_lane_id, p_capability_set_id, p_priority, p_namespace, p_created_at_ms, p_now_ms);
        end if;
        return;
    end if;
    select
        f.ctid, f.floor_ms, exists (
            select from flowfabric.ff_lane_floor as x
            where x.lane_id = p_lane_id and x.capability_set_id = p_capability_set_id and x.priority = p_priority
                and x.namespace = p_namespace)
    into v_row_id, v_floor_ms, v_namespace_has_floors
    from flowfabric.ff_lane_floor as f
    where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
        and f.namespace = '' and f.side > 0
    order by f.floor_ms
    limit 1
    for no key update of f skip locked;
    if v_floor_ms > p_created_at_ms then
        update flowfabric.ff_lane_floor as f set floor_ms = p_created_at_ms where f.ctid = v_row_id;
    elsif v_row_id is null then
        perform flowfabric._ff_insert_announcement(
            p_lane_id, p_capability_set_id, p_priority, '', p_created_at_ms, p_now_ms);
        v_namespace_has_floors := true;
    end if;
    if v_namespace_has_floors and p_namespace <> '' then
        perform flowfabric._ff_announce_to_namespace(
            p_lane_id, p_capability_set_id, p_priority, p_namespace, p_created_at_ms, p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_announce_eligible(text, integer, integer, text, bigint, bigint) is
'Internal: keeps a floor of a queue segment at or below an execution that becomes eligible, until the commit.';

create or replace function flowfabric._ff_announce_to_namespace(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_namespace text,
    p_created_at_ms bigint,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_row_id tid;
    v_floor_ms bigint;
begin
    select f.ctid, f.floor_ms into v_row_id, v_floor_ms
    from flowfabric.ff_lane_floor as f
    where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
        and f.namespace = p_namespace and f.side > 0
    order by f.floor_ms
    limit 1
    for no key update skip locked;
    if v_floor_ms > p_created_at_ms then
        update flowfabric.ff_lane_floor as f set floor_ms = p_created_at_ms where f.ctid = v_row_id;
    elsif v_row_id is null and exists (
        select from flowfabric.ff_lane_floor as f
        where f.lane_id = p_lane_id and f.capability_set_id = p_capability_set_id and f.priority = p_priority
            and f.namespace = p_namespace)
    then
        perform flowfabric._ff_insert_announcement(
            p_lane_id, p_capability_set_id, p_priority, p_namespace, p_created_at_ms, p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_announce_to_namespace(text, integer, integer, text, bigint, bigint) is
'Internal: the same for the floors of a namespace, if it has any.';

-- Where all floors are held, and where there is none yet, a transaction inserts one under its own id. A row that may be
-- the only one begins at the bottom: it speaks for the segment as a whole. A row of a namespace always does, because
-- its floors can be deleted while this one is not yet seen. Nobody makes floors in a lane that has too many.
create or replace function flowfabric._ff_insert_announcement(
    p_lane_id text,
    p_capability_set_id integer,
    p_priority integer,
    p_namespace text,
    p_created_at_ms bigint,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_lane_floor as f (
        lane_id, capability_set_id, priority, namespace, side, floor_ms, checked_at_ms, raised_at_ms, due_at_ms)
    select
        p_lane_id, p_capability_set_id, p_priority, p_namespace, pg_current_xact_id()::text::bigint,
        case when x.segment_has_floors and p_namespace = '' then p_created_at_ms else 0 end, 0, p_now_ms, 0
    from (
        select
            coalesce(
                bool_or(
                    l.capability_set_id = p_capability_set_id and l.priority = p_priority and l.side > 0
                    and l.namespace = ''), false
            ) as segment_has_floors,
            count(*) filter (where l.side = 0 and l.namespace = '') as segments
        from flowfabric.ff_lane_floor as l
        where l.lane_id = p_lane_id
    ) as x
    where x.segment_has_floors
        or (
            (x.segments < 64 or p_namespace <> '')
            and (select c.claim_floor_recheck_ms from flowfabric.ff_partition_config as c) > 0)
    on conflict (lane_id, capability_set_id, priority, namespace, side)
    do update set floor_ms = least(f.floor_ms, excluded.floor_ms);
end;
$$;
comment on function flowfabric._ff_insert_announcement(text, integer, integer, text, bigint, bigint) is
'Internal: gives a queue segment a floor that the present transaction alone can hold.';

-- The token rules of spec 40 section 1.5, in their order; both sides of a match pass through here.
create or replace function flowfabric._ff_normalize_capabilities(p_tokens text[], p_side text, p_fn text)
returns text[]
language plpgsql stable
as $$
declare
    v_token text;
    v_reason text;
    v_tokens text[];
begin
    if p_tokens is null or cardinality(p_tokens) = 0 then
        return '{}'::text[];
    end if;
    foreach v_token in array p_tokens loop
        v_reason := case
            when v_token is null then 'non_string_token'
            when v_token = '' then 'empty_token'
            when v_token like '%,%' then 'comma_in_token'
            when flowfabric._ff_has_space_or_control(v_token) then 'control_or_whitespace'
        end;
        exit when v_reason is not null;
    end loop;
    if v_reason is null then
        select array_agg(distinct t.token collate "C" order by t.token collate "C") into v_tokens
        from unnest(p_tokens) as t (token);
        v_reason := case
            when cardinality(v_tokens) > 256 then 'too_many_tokens'
            when octet_length(array_to_string(v_tokens, ',')) > 4096 then 'too_many_bytes'
        end;
    end if;
    if v_reason is not null then
        perform flowfabric._ff_raise(
            'invalid_capabilities', p_fn, jsonb_build_object('side', p_side, 'reason', v_reason));
    end if;
    return v_tokens;
end;
$$;
comment on function flowfabric._ff_normalize_capabilities(text[], text, text) is
'Internal: capabilities sorted by bytes and without duplicates; raises invalid_capabilities with side and reason.';

-- The same rules in one look, for claims; a bound is not looked at as closely where tokens are given twice.
create or replace function flowfabric._ff_are_capabilities(p_tokens text[])
returns boolean
language plpgsql immutable
as $$
declare
    v_list text := array_to_string(p_tokens, ',');
begin
    return (
        cardinality(p_tokens) <= 256 and octet_length(v_list) <= 4096 and '' <> all (p_tokens)
        and not flowfabric._ff_has_space_or_control(v_list)
        and cardinality(string_to_array(v_list, ',')) = cardinality(p_tokens)) is true;
end;
$$;
comment on function flowfabric._ff_are_capabilities(text[]) is
'Internal: whether all of these are good names of capabilities, and few enough.';

create or replace function flowfabric._ff_intern_capabilities(p_tokens text[], p_now_ms bigint)
returns integer
language plpgsql volatile
as $$
declare
    v_id integer;
begin
    if p_tokens = '{}' then
        return 1;
    end if;
    select s.capability_set_id into v_id from flowfabric.ff_capability_set as s where s.tokens = p_tokens;
    if not found then
        insert into flowfabric.ff_capability_set (tokens, created_at_ms)
        values (p_tokens, p_now_ms)
        on conflict do nothing
        returning capability_set_id into v_id;
        -- Somebody else interned the same set and has committed: the insert waited for that.
        if v_id is null then
            select s.capability_set_id into strict v_id
            from flowfabric.ff_capability_set as s
            where s.tokens = p_tokens;
        end if;
    end if;
    return v_id;
end;
$$;
comment on function flowfabric._ff_intern_capabilities(text[], bigint) is
'Internal: the id of a normalised set of capabilities; 1 is the empty set.';

create or replace function flowfabric._ff_ensure_lane(p_lane_id text, p_registered_by text, p_now_ms bigint)
returns boolean
language plpgsql volatile
as $$
declare
    v_crc integer := flowfabric._ff_crc16(convert_to(p_lane_id, 'UTF8'));
begin
    insert into flowfabric.ff_lane_registry (
        lane_id, lane_crc, home_partition, registered_at_ms, registered_by, waiters_until_ms)
    select
        p_lane_id, v_crc, flowfabric._ff_partition_of(v_crc), p_now_ms, p_registered_by, coalesce(max(w.until_ms), 0)
    from flowfabric.ff_waiter as w
    where w.channel = 'ff_eligible' and w.key = p_lane_id
    on conflict do nothing;
    return found;
end;
$$;
comment on function flowfabric._ff_ensure_lane(text, text, bigint) is
'Internal: makes sure that a lane is registered; says whether it was not.';
