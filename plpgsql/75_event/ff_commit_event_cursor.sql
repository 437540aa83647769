-- ff_commit_event_cursor: store how far a named consumer of events has come.
--
-- Fence:  the role that stored the first position of the consumer, or a member of it.
-- Locks:  the ff_event_consumer row.
-- Writes: ff_event_consumer.
-- Raises: invalid_input, invalid_offset, unauthorized, read_only_server.
-- Retry:  safe; the position never moves back.
--
-- Optional: a consumer may keep its cursor anywhere. Called in the transaction of the consumer's own work, it makes
-- that work happen once for every event. ff_event_lag shows the stored cursors; pruning does not wait for them.
--
-- A position that no reader has reached is refused: the consumer would miss what comes before it. The owner is the role
-- that the call is made with, SET ROLE included. An operator moves a position back with ff_set_event_cursor.
create or replace function flowfabric.ff_commit_event_cursor(p_consumer text, p_stream text, p_cursor text)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_commit_event_cursor';
    v_cursor flowfabric.ff_event_cursor;
    v_owner text;
begin
    if not flowfabric._ff_is_name(p_consumer) then
        perform flowfabric._ff_raise_invalid_name(p_consumer, 'consumer', c_fn);
    end if;
    perform flowfabric._ff_check_event_stream(p_stream, c_fn);
    v_cursor := flowfabric._ff_parse_event_cursor(p_cursor, c_fn);
    perform flowfabric._ff_check_writable(c_fn);
    perform flowfabric._ff_check_cursor_is_reached(v_cursor, p_cursor, c_fn);

    insert into flowfabric.ff_event_consumer as c (consumer_name, stream, cursor, updated_at_ms, owner)
    values (
        p_consumer, p_stream,
        flowfabric._ff_format_event_cursor(v_cursor.epoch, v_cursor.xact_id, v_cursor.event_id),
        flowfabric.ff_now_ms(), flowfabric._ff_calling_role())
    on conflict (consumer_name, stream) do update
    set cursor = excluded.cursor,
        updated_at_ms = excluded.updated_at_ms,
        owner = coalesce(c.owner, excluded.owner)
    where (c.owner is null or flowfabric._ff_acts_for(c.owner))
        and flowfabric._ff_parse_event_cursor(c.cursor, c_fn) <= v_cursor;
    if found then
        return row('stored')::flowfabric.ff_outcome;
    end if;
    select c.owner into v_owner
    from flowfabric.ff_event_consumer as c
    where c.consumer_name = p_consumer and c.stream = p_stream;
    if v_owner is not null and not flowfabric._ff_acts_for(v_owner) then
        perform flowfabric._ff_raise(
            'unauthorized', c_fn,
            jsonb_build_object('op', c_fn, 'consumer', p_consumer, 'stream', p_stream, 'owner', v_owner));
    end if;
    return row('ignored_older')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_commit_event_cursor(text, text, text) is
'Stores the position of a named consumer of events; an older one than the stored is ignored.';

grant execute on function flowfabric.ff_commit_event_cursor(text, text, text)
to flowfabric_reader, flowfabric_operator;
