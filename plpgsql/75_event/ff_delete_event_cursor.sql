-- ff_delete_event_cursor: forget a consumer of events and its stored position.
--
-- Fence:  the operator role.
-- Locks:  the ff_event_consumer row.
-- Writes: deletes the ff_event_consumer row; ff_operator_event.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers not_stored.
--
-- The role that stores a position under this name next owns it: so a name is taken from an owner that is gone.
create or replace function flowfabric.ff_delete_event_cursor(
    p_consumer text,
    p_stream text,
    p_reason text default null
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_delete_event_cursor';
    v_consumer flowfabric.ff_event_consumer;
begin
    perform flowfabric._ff_check_reason(p_reason, 'reason', c_fn);
    v_consumer := flowfabric._ff_lock_event_consumer(p_consumer, p_stream, c_fn);
    if v_consumer.consumer_name is null then
        return row('not_stored')::flowfabric.ff_outcome;
    end if;
    delete from flowfabric.ff_event_consumer as c where c.consumer_name = p_consumer and c.stream = p_stream;
    perform flowfabric._ff_emit_operator(
        0::smallint, null, null, null, null, 'event_cursor_deleted',
        flowfabric._ff_event_cursor_details(v_consumer, null, p_reason), flowfabric.ff_now_ms());
    return row('deleted')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_delete_event_cursor(text, text, text) is
'Forgets a consumer of events and its stored position, and leaves an operator event.';

grant execute on function flowfabric.ff_delete_event_cursor(text, text, text) to flowfabric_operator;
