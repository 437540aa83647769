-- ff_parse_execution_id: split a wire id into partition number and uuid.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input (reason missing_tag, bad_partition or bad_uuid).
-- Retry:  safe.
--
-- The partition is not compared with the configured count: an id of another deployment simply finds nothing.
create or replace function flowfabric.ff_parse_execution_id(p_execution_id text)
returns flowfabric.ff_execution_key
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return flowfabric._ff_parse_execution_id(p_execution_id, 'ff_parse_execution_id');
end;
$$;

comment on function flowfabric.ff_parse_execution_id(text) is
'Splits a wire id {fp:N}:<uuid> into partition number and uuid.';

grant execute on function flowfabric.ff_parse_execution_id(text)
to flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader;
