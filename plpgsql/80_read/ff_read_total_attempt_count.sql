-- ff_read_total_attempt_count: how many attempts an execution has had.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, execution_not_found.
-- Retry:  safe.
--
-- Diagnostic only: the claim functions compute the index themselves.
create or replace function flowfabric.ff_read_total_attempt_count(p_execution_id text)
returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_read_total_attempt_count';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_count integer;
begin
    select e.total_attempt_count into v_count
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    if not found then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    return v_count;
end;
$$;

comment on function flowfabric.ff_read_total_attempt_count(text) is
'How many attempts an execution has had.';

grant execute on function flowfabric.ff_read_total_attempt_count(text)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
