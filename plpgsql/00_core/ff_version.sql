-- ff_version: the version of the function library.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
create or replace function flowfabric.ff_version()
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_version text;
begin
    select c.ff_version into v_version from flowfabric.ff_partition_config as c;
    return v_version;
end;
$$;

comment on function flowfabric.ff_version() is 'The version of the installed function library.';

grant execute on function flowfabric.ff_version()
to flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader;
