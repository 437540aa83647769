-- ff_mint_solo_execution_id: a new id for an execution that belongs to no flow.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe; without p_spread the same lane and uuid give the same id.
--
-- All executions of a lane share a partition. On one server that costs nothing; where partitions are shards, p_spread
-- takes a random one, and the id is then no longer deterministic.
create or replace function flowfabric.ff_mint_solo_execution_id(
    p_lane_id text,
    p_uuid uuid default null,
    p_spread boolean default false
)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not flowfabric._ff_is_lane_id(p_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(p_lane_id, 'ff_mint_solo_execution_id');
    end if;
    return flowfabric.ff_format_execution_id(
        flowfabric._ff_partition_of(
            case when p_spread then floor(random() * 65536)::integer
                else flowfabric._ff_crc16(convert_to(p_lane_id, 'UTF8')) end),
        coalesce(p_uuid, gen_random_uuid()));
end;
$$;

comment on function flowfabric.ff_mint_solo_execution_id(text, uuid, boolean) is
'A new execution id on the partition of a lane, or with p_spread on a random one.';

grant execute on function flowfabric.ff_mint_solo_execution_id(text, uuid, boolean)
to flowfabric_producer, flowfabric_worker, flowfabric_operator;
