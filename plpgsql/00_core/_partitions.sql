-- Partitions: a number baked into every id when it is minted.

create or replace function flowfabric._ff_partition_of(p_crc integer)
returns smallint
language plpgsql stable
as $$
declare
    v_count integer;
begin
    select c.num_flow_partitions into v_count from flowfabric.ff_partition_config as c;
    return (p_crc % v_count)::smallint;
end;
$$;
comment on function flowfabric._ff_partition_of(integer) is
'Internal: the partition of a hash, under the configured number of partitions.';

create or replace function flowfabric._ff_place_lanes()
returns void
language plpgsql volatile
as $$
begin
    update flowfabric.ff_lane_registry as l
    set home_partition = (l.lane_crc % c.num_flow_partitions)::smallint
    from flowfabric.ff_partition_config as c
    where l.home_partition is distinct from (l.lane_crc % c.num_flow_partitions)::smallint;
end;
$$;
comment on function flowfabric._ff_place_lanes() is
'Internal: brings the partition of each lane in step with the configured number of partitions.';
