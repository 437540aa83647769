-- ff_delay_execution: give a leased execution back until a time; the same attempt goes on later.
--
-- Fence:  the whole triple of the current, unexpired lease; an operator may leave it out with source operator_override.
-- Locks:  the ff_exec_core row, the ff_attempt row.
-- Writes: ff_exec_core, ff_attempt, ff_lease_event; the quota slot and the open budget reservations go back.
-- Raises: invalid_input and the codes of _ff_check_fence.
-- Retry:  safe; a repeat answers execution_not_active with the delay in its detail.
--
-- A time in the past is welcome: it is how a worker that shuts down returns work for the next scan. The rest of the
-- attempt's timeout is saved on its row, and the execution's deadline keeps running.
create or replace function flowfabric.ff_delay_execution(
    p_execution_id text,
    p_delay_until_ms bigint,
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null,
    p_source text default null
)
returns flowfabric.ff_delay
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_delay_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_override boolean := flowfabric._ff_is_override(p_source, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    if p_delay_until_ms is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'delay_until_ms', 'null');
    end if;
    perform flowfabric._ff_check_instant(p_delay_until_ms, 'delay_until_ms', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_fence(
        v_exec, p_lease_id, p_lease_epoch, p_attempt_id, v_override, v_now_ms, c_fn);

    perform flowfabric._ff_pause_attempt(v_exec, 'worker_delay', v_now_ms);
    perform flowfabric._ff_become_delayed(
        v_exec, p_delay_until_ms, 'waiting_for_delay', null, 'attempt_interrupted', 'worker_delay', v_now_ms);
    return row('delayed', flowfabric._ff_wire_id(v_exec), p_delay_until_ms, 'delayed')::flowfabric.ff_delay;
end;
$$;

comment on function flowfabric.ff_delay_execution(text, bigint, uuid, bigint, uuid, text) is
'Gives a leased execution back until a time; the same attempt goes on later.';

grant execute on function flowfabric.ff_delay_execution(text, bigint, uuid, bigint, uuid, text)
to flowfabric_worker, flowfabric_operator;
