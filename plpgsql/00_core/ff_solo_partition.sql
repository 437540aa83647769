-- ff_solo_partition: the partition of the executions of a lane that belong to no flow.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_solo_partition(p_lane_id text)
returns smallint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not flowfabric._ff_is_lane_id(p_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(p_lane_id, 'ff_solo_partition');
    end if;
    return flowfabric._ff_partition_of(flowfabric._ff_crc16(convert_to(p_lane_id, 'UTF8')));
end;
$$;

comment on function flowfabric.ff_solo_partition(text) is
'The partition number of executions of a lane that belong to no flow.';

grant execute on function flowfabric.ff_solo_partition(text)
to flowfabric_producer, flowfabric_worker, flowfabric_reader, flowfabric_operator;
