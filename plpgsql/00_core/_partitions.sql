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
