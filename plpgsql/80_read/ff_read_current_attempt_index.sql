-- ff_read_current_attempt_index: the index of the current attempt, 0 before the first claim.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, execution_not_found.
-- Retry:  safe.
--
-- Diagnostic only: the claim functions compute the index themselves.
create or replace function flowfabric.ff_read_current_attempt_index(p_execution_id text)
returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_read_current_attempt_index';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_count integer;
begin
    select greatest(e.total_attempt_count - 1, 0) into v_count
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    if not found then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    return v_count;
end;
$$;

comment on function flowfabric.ff_read_current_attempt_index(text) is
'The index of the current attempt; 0 before the first claim.';

grant execute on function flowfabric.ff_read_current_attempt_index(text)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
