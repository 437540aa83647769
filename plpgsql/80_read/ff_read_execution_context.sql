-- ff_read_execution_context: what a worker needs to run an execution that it has claimed.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, execution_not_found.
-- Retry:  safe.
create or replace function flowfabric.ff_read_execution_context(p_execution_id text)
returns flowfabric.ff_execution_context
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_read_execution_context';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_context flowfabric.ff_execution_context;
begin
    select
        coalesce(flowfabric._ff_payload(e.small_payload, p.payload), ''::bytea), p.payload_encoding, e.execution_kind,
        coalesce(p.tags, '{}') || coalesce(t.tags, '{}'), p.policy
    into v_context
    from flowfabric.ff_exec_core as e
    left join flowfabric.ff_exec_payload as p on p.partition_key = e.partition_key and p.execution_id = e.execution_id
    left join flowfabric.ff_exec_tag as t on t.partition_key = e.partition_key and t.execution_id = e.execution_id
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    if not found then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    return v_context;
end;
$$;

comment on function flowfabric.ff_read_execution_context(text) is
'Payload, kind, tags and policy of an execution; the payload is empty, never NULL.';

grant execute on function flowfabric.ff_read_execution_context(text)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
