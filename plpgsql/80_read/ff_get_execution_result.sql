-- ff_get_execution_result: the bytes of the last successful completion.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_get_execution_result(p_execution_id text)
returns setof flowfabric.ff_execution_result
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, 'ff_get_execution_result');
begin
    return query
    select p.result, p.result_encoding
    from flowfabric.ff_exec_core as e
    left join flowfabric.ff_exec_payload as p on p.partition_key = e.partition_key and p.execution_id = e.execution_id
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
end;
$$;

comment on function flowfabric.ff_get_execution_result(text) is
'The result of an execution, NULL while it has none; no row for an unknown id.';

grant execute on function flowfabric.ff_get_execution_result(text) to flowfabric_reader, flowfabric_operator;
