-- ff_set_partition_count: choose the number of partitions, before anything is stored.
--
-- Fence:  none.
-- Locks:  ff_partition_config, then ff_lane_registry, ff_exec_core and ff_flow_core against writers.
-- Writes: ff_partition_config, and the partition of each lane in ff_lane_registry.
-- Raises: invalid_input, partition_config_mismatch, retry_exhausted when the tables stay locked for a second.
-- Retry:  safe; the same count again is unchanged.
--
-- Ids carry their partition, so another count would split every lane and flow in two.
create or replace function flowfabric.ff_set_partition_count(p_n integer)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_set_partition_count';
    v_current integer;
begin
    if p_n is null or p_n not between 1 and 32767 then
        perform flowfabric._ff_raise_invalid(c_fn, 'n', 'out_of_range', p_n::text);
    end if;
    select c.num_flow_partitions into v_current from flowfabric.ff_partition_config as c for no key update;
    if v_current = p_n then
        return row('unchanged')::flowfabric.ff_outcome;
    end if;
    perform flowfabric._ff_lock_stored_work(900, c_fn);
    if exists (select from flowfabric.ff_exec_core) or exists (select from flowfabric.ff_flow_core) then
        perform flowfabric._ff_raise(
            'partition_config_mismatch', c_fn, jsonb_build_object('configured', v_current, 'expected', p_n));
    end if;
    update flowfabric.ff_partition_config set num_flow_partitions = p_n;
    perform flowfabric._ff_place_lanes();
    return row('changed')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_set_partition_count(integer) is
'Sets the number of partitions; possible only while no execution and no flow is stored.';

grant execute on function flowfabric.ff_set_partition_count(integer) to flowfabric_admin;
