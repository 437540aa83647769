-- ff_read_execution_state: the one label for users.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_read_execution_state(p_execution_id text)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, 'ff_read_execution_state');
    v_state flowfabric.ff_public_state;
begin
    select flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state)
    into v_state
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    return v_state::text;
end;
$$;

comment on function flowfabric.ff_read_execution_state(text) is
'The public state of an execution; NULL for an unknown id.';

grant execute on function flowfabric.ff_read_execution_state(text) to flowfabric_reader, flowfabric_operator;
