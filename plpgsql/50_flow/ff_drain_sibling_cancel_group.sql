-- ff_drain_sibling_cancel_group: mark the deferred sibling cancels of one join as done.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row, if there is one.
-- Writes: deletes the ff_pending_cancel_groups row; the flag and the list of ff_edge_group.
-- Raises: invalid_input.
-- Retry:  safe; the repeat answers already_drained.
--
-- Whether the siblings have ended is not asked: ff_dispatch_sibling_cancels does the same once it has cancelled them.
create or replace function flowfabric.ff_drain_sibling_cancel_group(p_flow_id uuid, p_downstream_execution_id text)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_drain_sibling_cancel_group';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_downstream_execution_id, c_fn);
begin
    perform flowfabric._ff_find_flow(p_flow_id, c_fn);
    return row(
        flowfabric._ff_drain_siblings(v_key.partition_key, p_flow_id, v_key.execution_id))::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_drain_sibling_cancel_group(uuid, text) is
'Marks the deferred sibling cancels of one join as done, whether or not the siblings have ended.';

grant execute on function flowfabric.ff_drain_sibling_cancel_group(uuid, text) to flowfabric_operator;
