-- ff_set_event_cursor: move the stored position of a consumer of events, also back.
--
-- Fence:  the operator role.
-- Locks:  the ff_event_consumer row.
-- Writes: ff_event_consumer; ff_operator_event on a change.
-- Raises: invalid_input, invalid_offset, event_cursor_expired.
-- Retry:  safe; a repeat answers unchanged and writes nothing.
--
-- For a consumer that must read events again, or whose position was lost. Its owner stays. A position that no reader
-- has reached is refused, and so is one whose events are partly pruned, except the start of everything
-- (ff_event_position). A consumer that runs goes on from where it is and stores that: stop it first.
create or replace function flowfabric.ff_set_event_cursor(
    p_consumer text,
    p_stream text,
    p_cursor text,
    p_reason text default null
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_set_event_cursor';
    c_start constant flowfabric.ff_event_cursor := row(0, '0'::xid8, 0)::flowfabric.ff_event_cursor;
    v_consumer flowfabric.ff_event_consumer;
    v_cursor flowfabric.ff_event_cursor;
    v_pruned flowfabric.ff_event_cursor;
    v_new_cursor text;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_reason(p_reason, 'reason', c_fn);
    v_consumer := flowfabric._ff_lock_event_consumer(p_consumer, p_stream, c_fn);
    v_cursor := flowfabric._ff_parse_event_cursor(p_cursor, c_fn);
    perform flowfabric._ff_check_cursor_is_reached(v_cursor, p_cursor, c_fn);
    v_pruned := flowfabric._ff_pruned_position(p_stream);
    if v_cursor < v_pruned and v_cursor <> c_start then
        perform flowfabric._ff_raise_cursor_expired(p_stream, p_cursor, v_pruned, c_fn);
    end if;
    if v_consumer.consumer_name is null then
        return row('not_stored')::flowfabric.ff_outcome;
    end if;
    v_new_cursor := flowfabric._ff_format_event_cursor(v_cursor.epoch, v_cursor.xact_id, v_cursor.event_id);
    if v_new_cursor = v_consumer.cursor then
        return row('unchanged')::flowfabric.ff_outcome;
    end if;
    v_now_ms := flowfabric.ff_now_ms();
    update flowfabric.ff_event_consumer as c
    set cursor = v_new_cursor, updated_at_ms = v_now_ms
    where c.consumer_name = p_consumer and c.stream = p_stream;
    perform flowfabric._ff_emit_operator(
        0::smallint, null, null, null, null, 'event_cursor_set',
        flowfabric._ff_event_cursor_details(v_consumer, v_new_cursor, p_reason), v_now_ms);
    return row('set')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_set_event_cursor(text, text, text, text) is
'Moves the stored position of a consumer of events, forward or back, and leaves an operator event.';

grant execute on function flowfabric.ff_set_event_cursor(text, text, text, text) to flowfabric_operator;

create or replace function flowfabric._ff_lock_event_consumer(p_consumer text, p_stream text, p_fn text)
returns flowfabric.ff_event_consumer
language plpgsql volatile
as $$
declare
    v_consumer flowfabric.ff_event_consumer;
begin
    if not flowfabric._ff_is_name(p_consumer) then
        perform flowfabric._ff_raise_invalid_name(p_consumer, 'consumer', p_fn);
    end if;
    perform flowfabric._ff_check_event_stream(p_stream, p_fn);
    select c.* into v_consumer
    from flowfabric.ff_event_consumer as c
    where c.consumer_name = p_consumer and c.stream = p_stream
    for update;
    return v_consumer;
end;
$$;
comment on function flowfabric._ff_lock_event_consumer(text, text, text) is
'Internal: locks the stored position of a consumer; NULL if there is none.';

create or replace function flowfabric._ff_event_cursor_details(
    p_consumer flowfabric.ff_event_consumer,
    p_cursor text,
    p_reason text
)
returns jsonb
language sql stable
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'consumer', p_consumer.consumer_name, 'stream', p_consumer.stream, 'owner', p_consumer.owner,
        'previous_cursor', p_consumer.cursor, 'cursor', p_cursor,
        'reason', flowfabric._ff_truncate_bytes(nullif(p_reason, ''), 1024)))
$$;
comment on function flowfabric._ff_event_cursor_details(flowfabric.ff_event_consumer, text, text) is
'Internal: what an operator event says about a stored position.';
