-- ff_read_events: the next events of a stream after a cursor, and the cursor to go on with.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, invalid_offset, event_cursor_expired.
-- Retry:  safe; the same cursor gives the same events again, and newer ones.
--
-- Zero to p_limit events, then one row without an event id: its cursor is where to read on, also past events that a
-- filter left out. A consumer that stores it after its work gets every event at least once; one that stores it in the
-- transaction of its work, exactly once.
--
-- The horizon is taken before the events are read: an event that commits in between lies above it and is left for
-- the next call. The pruned position is looked at afterwards: events that were pruned in between must not be missed
-- in silence. The planner settings make the one plan that costs the same whatever the table holds (HOTPATH 4): a
-- range of the primary key, in its order.
create or replace function flowfabric.ff_read_events(
    p_stream text,
    p_cursor text,
    p_limit integer default 256,
    p_namespace text default null,
    p_tag_key text default null,
    p_tag_value text default null,
    p_partition_key smallint default null,
    p_event_types text[] default null,
    p_execution_id text default null
)
returns setof flowfabric.ff_event
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_read_events';
    c_start constant flowfabric.ff_event_cursor := row(0, '0'::xid8, 0)::flowfabric.ff_event_cursor;
    v_namespace text := nullif(p_namespace, '');
    v_tag_key text := nullif(p_tag_key, '');
    v_event_types text[] := nullif(p_event_types, '{}');
    v_key flowfabric.ff_execution_key;
    v_cursor flowfabric.ff_event_cursor;
    v_from flowfabric.ff_event_cursor;
    v_horizon flowfabric.ff_event_cursor;
    v_pruned flowfabric.ff_event_cursor;
    v_instance_tag_key text;
    v_window integer;
    v_scanned integer := 0;
    v_returned integer := 0;
    v_row record;
    v_position flowfabric.ff_event;
begin
    perform flowfabric._ff_check_event_stream(p_stream, c_fn);
    if p_limit is null or p_limit not between 1 and 1000 then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'limit', case when p_limit is null then 'null' else 'out_of_range' end, p_limit::text);
    end if;
    if num_nulls(v_tag_key, p_tag_value) = 1 then
        perform flowfabric._ff_raise_invalid(
            c_fn, case when v_tag_key is null then 'tag_key' else 'tag_value' end, 'null');
    end if;
    if nullif(p_execution_id, '') is not null then
        v_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    end if;
    v_cursor := flowfabric._ff_parse_event_cursor(p_cursor, c_fn);

    v_horizon := flowfabric._ff_event_horizon();
    v_from := greatest(v_cursor, flowfabric._ff_pruned_position(p_stream));
    select c.instance_tag_key into v_instance_tag_key from flowfabric.ff_partition_config as c;
    v_window := p_limit * case
        when num_nonnulls(v_namespace, v_tag_key, p_partition_key, v_event_types, v_key.execution_id) > 0 then 4
        else 1
    end;
    v_position.stream := p_stream;
    v_position.more := false;
    for v_row in
        select
            row(
                flowfabric._ff_format_event_cursor(v.epoch, v.xact_id, v.event_id), null, v.stream, v.event_id,
                v.partition_key, v.occurred_at_ms, v.namespace, v.instance_tag,
                flowfabric.ff_format_execution_id(v.partition_key, v.execution_id), v.flow_id, v.event_type, v.outcome,
                v.lane_id, v.attempt_index, v.attempt_id, v.lease_id, v.lease_epoch, v.old_lease_epoch, v.worker_id,
                v.worker_instance_id, v.reason, v.signal_id, v.signal_name, v.waitpoint_id, v.source_type,
                v.source_identity, v.effect, v.details)::flowfabric.ff_event as event,
            coalesce(
                (v_namespace is null or v.namespace = v_namespace)
                and (p_partition_key is null or v.partition_key = p_partition_key)
                and (v_event_types is null or v.event_type = any (v_event_types))
                and (
                    v_key.execution_id is null
                    or (v.partition_key = v_key.partition_key and v.execution_id = v_key.execution_id))
                and case
                    when v_tag_key is null then true
                    when v_tag_key = v_instance_tag_key then v.instance_tag = p_tag_value
                    else p_tag_value = coalesce(
                        (
                            select t.tags ->> v_tag_key
                            from flowfabric.ff_exec_tag as t
                            where t.partition_key = v.partition_key and t.execution_id = v.execution_id
                        ),
                        (
                            select p.tags ->> v_tag_key
                            from flowfabric.ff_exec_payload as p
                            where p.partition_key = v.partition_key and p.execution_id = v.execution_id
                        ))
                end,
                false) as is_wanted
        from flowfabric._ff_events() as v
        where v.stream = p_stream
            and (v.epoch, v.xact_id, v.event_id) > (v_from.epoch, v_from.xact_id, v_from.event_id)
            and (v.epoch, v.xact_id) < (v_horizon.epoch, v_horizon.xact_id)
        order by v.epoch, v.xact_id, v.event_id
        limit v_window + 1
    loop
        if v_scanned = v_window or v_returned = p_limit then
            v_position.more := true;
            exit;
        end if;
        v_scanned := v_scanned + 1;
        v_position.cursor := (v_row.event).cursor;
        if v_row.is_wanted then
            v_returned := v_returned + 1;
            return next v_row.event;
        end if;
    end loop;
    v_pruned := flowfabric._ff_pruned_position(p_stream);
    if v_cursor < v_pruned and v_cursor <> c_start then
        perform flowfabric._ff_raise_cursor_expired(p_stream, p_cursor, v_pruned, c_fn);
    end if;

    if not v_position.more then
        v_from := greatest(v_cursor, v_horizon);
        v_position.cursor := flowfabric._ff_format_event_cursor(v_from.epoch, v_from.xact_id, v_from.event_id);
    end if;
    return next v_position;
end;
$$;

comment on function flowfabric.ff_read_events(
    text, text, integer, text, text, text, smallint, text[], text) is
'The next events of a stream after a cursor, in an order that no late commit can upset, and the next cursor.';

grant execute on function flowfabric.ff_read_events(text, text, integer, text, text, text, smallint, text[], text)
to flowfabric_reader, flowfabric_operator;
