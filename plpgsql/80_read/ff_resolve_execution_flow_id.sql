-- ff_resolve_execution_flow_id: the flow that an execution belongs to.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_resolve_execution_flow_id(p_execution_id text)
returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(
        p_execution_id, 'ff_resolve_execution_flow_id');
    v_flow_id uuid;
begin
    select e.flow_id into v_flow_id
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    return v_flow_id;
end;
$$;

comment on function flowfabric.ff_resolve_execution_flow_id(text) is
'The flow of an execution; NULL when it belongs to none or is unknown.';

grant execute on function flowfabric.ff_resolve_execution_flow_id(text) to flowfabric_reader, flowfabric_operator;
