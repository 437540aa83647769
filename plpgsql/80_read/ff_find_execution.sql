-- ff_find_execution: find an execution by its uuid alone.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- A uuid does not tell its partition, so every partition is asked by the primary key: 256 index probes, no index of its
-- own. Two rows are possible, because a creator may choose ids; a caller that wants one has to choose.
create or replace function flowfabric.ff_find_execution(p_execution_uuid uuid)
returns setof flowfabric.ff_execution_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
begin
    if p_execution_uuid is null then
        perform flowfabric._ff_raise_invalid('ff_find_execution', 'execution_uuid', 'null');
    end if;
    return query
    select
        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id), e.namespace, e.lane_id, e.execution_kind,
        flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state), e.priority,
        e.created_at_ms, e.flow_id, false, null::text
    from flowfabric.ff_partition_config as c
    cross join lateral generate_series(0, c.num_flow_partitions - 1) as p (partition_key)
    join flowfabric.ff_exec_core as e
        on e.partition_key = p.partition_key::smallint and e.execution_id = p_execution_uuid
    order by e.partition_key;
end;
$$;

comment on function flowfabric.ff_find_execution(uuid) is
'Executions with a uuid, with their wire ids {fp:N}:<uuid>; for callers that have lost the partition.';

grant execute on function flowfabric.ff_find_execution(uuid)
to flowfabric_producer, flowfabric_reader, flowfabric_operator;
