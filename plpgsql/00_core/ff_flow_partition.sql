-- ff_flow_partition: the partition of a flow and all its members.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_flow_partition(p_flow_id uuid)
returns smallint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid('ff_flow_partition', 'flow_id', 'null');
    end if;
    return flowfabric._ff_partition_of(flowfabric._ff_crc16(uuid_send(p_flow_id)));
end;
$$;

comment on function flowfabric.ff_flow_partition(uuid) is 'The partition number of a flow and of all its members.';

grant execute on function flowfabric.ff_flow_partition(uuid)
to flowfabric_producer, flowfabric_worker, flowfabric_reader, flowfabric_operator;
