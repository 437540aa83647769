-- ff_ping: the cheapest round trip through the engine.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
create or replace function flowfabric.ff_ping()
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return flowfabric.ff_now_ms();
end;
$$;

comment on function flowfabric.ff_ping() is 'Answers with the time of the engine.';

grant execute on function flowfabric.ff_ping()
to flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader;
