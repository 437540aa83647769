-- ff_event_position: a cursor to begin with: before the oldest event that is left, or now.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- From `tail` on, everything is delivered that commits from now on, and possibly a few events that committed just
-- before: those of transactions that began while an older one was still running.
create or replace function flowfabric.ff_event_position(p_stream text, p_where text default 'tail')
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_event_position';
    v_horizon flowfabric.ff_event_cursor;
begin
    perform flowfabric._ff_check_event_stream(p_stream, c_fn);
    if (p_where = any (flowfabric._ff_legal_values('where'))) is not true then
        perform flowfabric._ff_raise_unknown(c_fn, 'where', p_where, flowfabric._ff_legal_values('where'));
    end if;
    if p_where = 'start' then
        return flowfabric._ff_format_event_cursor(0::smallint, '0'::xid8, 0);
    end if;
    v_horizon := flowfabric._ff_event_horizon();
    return flowfabric._ff_format_event_cursor(v_horizon.epoch, v_horizon.xact_id, 0);
end;
$$;

comment on function flowfabric.ff_event_position(text, text) is
'A cursor for ff_read_events: start, before everything that is left, or tail, now.';

grant execute on function flowfabric.ff_event_position(text, text) to flowfabric_reader, flowfabric_operator;
