-- ff_settle_reservation: replace a reservation by what was really used.
--
-- Fence:  lease id, lease epoch and attempt id must all name the current, unexpired lease.
-- Locks:  the ff_exec_core row, then the ff_budget_policy row.
-- Writes: ff_budget_reservation, ff_budget_usage, ff_budget_usage_by_exec, the breach counters of ff_budget_policy, the
--         reservation count of ff_exec_core.
-- Raises: invalid_input, budget_not_found, reservation_not_found, reservation_not_open and the codes of
--         _ff_check_fence. A breach is an outcome.
-- Retry:  safe; a repeat answers already_settled for 24 hours.
--
-- The actual amount is booked even beyond a limit: it has been spent, and refusing it would hide that. So this is the
-- one way for usage to pass a hard limit, by as much as the estimate was short.
create or replace function flowfabric.ff_settle_reservation(
    p_budget_id text,
    p_reservation_key text,
    p_dimensions text[],
    p_actuals bigint[],
    p_execution_id text,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid
)
returns flowfabric.ff_usage_report
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_settle_reservation';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_policy flowfabric.ff_budget_policy;
    v_reservation flowfabric.ff_budget_reservation;
    v_hard flowfabric.ff_budget_breach;
    v_soft flowfabric.ff_budget_breach;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    perform flowfabric._ff_check_reservation_key(p_reservation_key, c_fn);
    perform flowfabric._ff_check_amounts(p_dimensions, p_actuals, 'actuals', 0, c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_fence(v_exec, p_lease_id, p_lease_epoch, p_attempt_id, false, v_now_ms, c_fn);
    v_policy := flowfabric._ff_lock_budget(p_budget_id, c_fn);
    v_reservation := flowfabric._ff_find_reservation(p_budget_id, p_reservation_key, v_now_ms);
    if flowfabric._ff_holds_reservation(v_exec, v_reservation) is not true then
        perform flowfabric._ff_raise_reservation_not_found(p_budget_id, p_reservation_key, c_fn);
    end if;
    case v_reservation.state
        when 'settled' then
            return row('already_settled', null, null, null, null)::flowfabric.ff_usage_report;
        when 'released' then
            perform flowfabric._ff_raise_reservation_not_open(v_reservation, c_fn);
        else
            perform flowfabric._ff_close_reservation(v_reservation, 'settled', v_now_ms);
    end case;

    perform flowfabric._ff_check_sums(p_budget_id, p_dimensions, p_actuals, 'actuals', c_fn);
    perform flowfabric._ff_book_usage(p_budget_id, v_key, p_dimensions, p_actuals, v_now_ms);
    v_hard := flowfabric._ff_find_overrun(p_budget_id, p_dimensions, true);
    if v_hard.dimension is null then
        v_soft := flowfabric._ff_find_overrun(p_budget_id, p_dimensions, false);
    end if;
    perform flowfabric._ff_touch_budget(p_budget_id, v_hard.dimension, v_soft.dimension is not null, v_now_ms);
    if v_hard.dimension is not null then
        return row('hard_breach', v_hard.dimension, v_hard.current_usage, v_hard.limit_value, v_policy.on_hard_limit)
        ::flowfabric.ff_usage_report;
    end if;
    if v_soft.dimension is not null then
        return row('soft_breach', v_soft.dimension, v_soft.current_usage, v_soft.limit_value, v_policy.on_soft_limit)
        ::flowfabric.ff_usage_report;
    end if;
    return row('settled', null, null, null, null)::flowfabric.ff_usage_report;
end;
$$;

comment on function flowfabric.ff_settle_reservation(text, text, text[], bigint[], text, uuid, bigint, uuid) is
'Replaces a reservation of the lease holder by the amount really used, which is booked even beyond a limit.';

grant execute on function flowfabric.ff_settle_reservation(text, text, text[], bigint[], text, uuid, bigint, uuid)
to flowfabric_worker;
