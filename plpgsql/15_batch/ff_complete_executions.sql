create or replace function flowfabric.ff_complete_executions(
    p_execution_ids text[],
    p_lease_ids uuid[],
    p_lease_epochs bigint[],
    p_attempt_ids uuid[],
    p_results bytea[] default null,
    p_result_encodings text[] default null
)
returns setof flowfabric.ff_execution_item
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_complete_executions';
    v_keys record;
    v_batch record;
    v_flow_ids uuid[];
begin
    v_keys := flowfabric._ff_parse_batch(p_execution_ids, c_fn);
    v_flow_ids := flowfabric._ff_lock_batch_flows(v_keys.partition_keys, v_keys.execution_ids);
    v_batch := flowfabric._ff_lock_batch(
        v_keys.partition_keys, v_keys.execution_ids, p_lease_ids, p_lease_epochs, p_attempt_ids);
    if v_batch.held_items is not null then
        perform flowfabric._ff_end_held_attempts(
            v_batch.held_partition_keys, v_batch.held_execution_ids, v_batch.held_attempt_indexes, 'ended_success',
            null, null, 'attempt_success', v_batch.now_ms);
        perform flowfabric._ff_emit_held_releases(v_batch.held_row_ids, 'completed', v_batch.now_ms);
        perform flowfabric._ff_end_held(v_batch.held_row_ids, 'success', v_batch.now_ms);
    end if;

    return query
    select
        h.item, flowfabric.ff_format_execution_id(h.partition_key, h.execution_id), 'completed', null, null,
        null::jsonb, 'completed'::flowfabric.ff_public_state
    from unnest(v_batch.held_items, v_batch.held_partition_keys, v_batch.held_execution_ids)
        as h (item, partition_key, execution_id)
    order by 1;
end;
$$;
