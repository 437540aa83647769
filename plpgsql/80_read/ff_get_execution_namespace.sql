-- ff_get_execution_namespace: the namespace of an execution.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_get_execution_namespace(p_execution_id text)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(
        p_execution_id, 'ff_get_execution_namespace');
    v_namespace text;
begin
    select e.namespace into v_namespace
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    return v_namespace;
end;
$$;

comment on function flowfabric.ff_get_execution_namespace(text) is
'The namespace of an execution; NULL for an unknown id.';

grant execute on function flowfabric.ff_get_execution_namespace(text) to flowfabric_reader, flowfabric_operator;
