-- ff_release_reservation: give a reservation back unused.
--
-- Fence:  the whole triple of the current, unexpired lease; an operator may leave it out with source operator_override.
-- Locks:  the ff_exec_core row, then the ff_budget_policy row.
-- Writes: ff_budget_reservation, ff_budget_usage, the reservation count of ff_exec_core.
-- Raises: invalid_input, budget_not_found, reservation_not_found, reservation_not_open and the codes of
--         _ff_check_fence.
-- Retry:  safe; a repeat answers already_released for 24 hours.
--
-- Usage and breach counters stay as they are. What a lost lease had set aside needs no release: it comes back with the
-- mark of its expiry or its revocation.
create or replace function flowfabric.ff_release_reservation(
    p_budget_id text,
    p_reservation_key text,
    p_execution_id text,
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null,
    p_source text default null
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_release_reservation';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_override boolean := flowfabric._ff_is_override(p_source, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_reservation flowfabric.ff_budget_reservation;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    perform flowfabric._ff_check_reservation_key(p_reservation_key, c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_fence(v_exec, p_lease_id, p_lease_epoch, p_attempt_id, v_override, v_now_ms, c_fn);
    perform flowfabric._ff_lock_budget(p_budget_id, c_fn);
    v_reservation := flowfabric._ff_find_reservation(p_budget_id, p_reservation_key, v_now_ms);
    -- An operator looks at any lease of the execution, a worker at its own.
    if (case
            when v_override then
                (v_reservation.partition_key, v_reservation.execution_id) = (v_exec.partition_key, v_exec.execution_id)
            else flowfabric._ff_holds_reservation(v_exec, v_reservation)
        end) is not true
    then
        perform flowfabric._ff_raise_reservation_not_found(p_budget_id, p_reservation_key, c_fn);
    end if;
    case v_reservation.state
        when 'released' then
            return row('already_released')::flowfabric.ff_outcome;
        when 'settled' then
            perform flowfabric._ff_raise_reservation_not_open(v_reservation, c_fn);
        else
            perform flowfabric._ff_close_reservation(v_reservation, 'released', v_now_ms);
    end case;
    return row('released')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_release_reservation(text, text, text, uuid, bigint, uuid, text) is
'Gives a reservation back unused; its amounts are available again at once.';

grant execute on function flowfabric.ff_release_reservation(text, text, text, uuid, bigint, uuid, text)
to flowfabric_worker, flowfabric_operator;
