-- ff_mint_execution_id: a new id for a member of a flow.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe; the same flow and uuid give the same id.
create or replace function flowfabric.ff_mint_execution_id(p_flow_id uuid, p_uuid uuid default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid('ff_mint_execution_id', 'flow_id', 'null');
    end if;
    return flowfabric.ff_format_execution_id(
        flowfabric._ff_partition_of(flowfabric._ff_crc16(uuid_send(p_flow_id))),
        coalesce(p_uuid, gen_random_uuid()));
end;
$$;

comment on function flowfabric.ff_mint_execution_id(uuid, uuid) is
'A new execution id on the partition of a flow; deterministic when the uuid is given.';

grant execute on function flowfabric.ff_mint_execution_id(uuid, uuid)
to flowfabric_producer, flowfabric_worker, flowfabric_operator;
