-- ff_reserve_budget: set an amount aside before an expensive call, or learn that it does not fit.
--
-- Fence:  lease id, lease epoch and attempt id must all name the current, unexpired lease.
-- Locks:  the ff_exec_core row, then the ff_budget_policy row.
-- Writes: ff_budget_reservation, ff_budget_usage, the reservation count of ff_exec_core; the breach counters of
--         ff_budget_policy when it does not fit.
-- Raises: invalid_input, budget_not_found, reservation_not_open and the codes of _ff_check_fence. A breach is an
--         outcome.
-- Retry:  safe with a key: the repeat answers already_reserved with what was set aside, whatever it asks for.
--
-- What is set aside counts against the hard limits like usage, so workers side by side together cannot pass them. It
-- lives as long as the lease: settle it (ff_settle_reservation) or it comes back when the lease ends or is lost.
create or replace function flowfabric.ff_reserve_budget(
    p_budget_id text,
    p_dimensions text[],
    p_amounts bigint[],
    p_execution_id text,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_reservation_key text default null
)
returns flowfabric.ff_reservation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_reserve_budget';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_reservation_key text := coalesce(nullif(p_reservation_key, ''), gen_random_uuid()::text);
    v_exec flowfabric.ff_exec_core;
    v_policy flowfabric.ff_budget_policy;
    v_existing flowfabric.ff_budget_reservation;
    v_breach flowfabric.ff_budget_breach;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    perform flowfabric._ff_check_amounts(p_dimensions, p_amounts, 'amounts', 1, c_fn);
    if cardinality(p_dimensions) = 0 then
        perform flowfabric._ff_raise_invalid(c_fn, 'dimensions', 'empty');
    end if;
    perform flowfabric._ff_check_key(v_reservation_key, 'reservation_key', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_fence(v_exec, p_lease_id, p_lease_epoch, p_attempt_id, false, v_now_ms, c_fn);
    v_policy := flowfabric._ff_lock_budget(p_budget_id, c_fn);

    v_existing := flowfabric._ff_find_reservation(p_budget_id, v_reservation_key, v_now_ms);
    if v_existing.state <> 'open' then
        perform flowfabric._ff_raise_reservation_not_open(v_existing, c_fn);
    end if;
    if flowfabric._ff_holds_reservation(v_exec, v_existing) then
        return row(
            'already_reserved', p_budget_id, v_reservation_key, v_existing.dimensions, v_existing.amounts, null, null,
            null, null, null)::flowfabric.ff_reservation;
    end if;
    if v_existing.state = 'open' then
        perform flowfabric._ff_raise_invalid(c_fn, 'reservation_key', 'in_use', v_reservation_key);
    end if;

    perform flowfabric._ff_check_sums(p_budget_id, p_dimensions, p_amounts, 'amounts', c_fn);
    v_breach := flowfabric._ff_find_misfit(p_budget_id, p_dimensions, p_amounts);
    perform flowfabric._ff_touch_budget(p_budget_id, v_breach.dimension, false, v_now_ms);
    if v_breach.dimension is not null then
        return row(
            'hard_breach', p_budget_id, v_reservation_key, null, null, v_breach.dimension, v_breach.current_usage,
            v_breach.reserved_usage, v_breach.limit_value, v_policy.on_hard_limit)::flowfabric.ff_reservation;
    end if;

    -- The row of a closed reservation whose key may be used again is still there if no sweep came by.
    delete from flowfabric.ff_budget_reservation as r
    where r.budget_id = p_budget_id and r.reservation_key = v_reservation_key;
    insert into flowfabric.ff_budget_reservation (
        budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts,
        reserved_at_ms)
    values (
        p_budget_id, v_reservation_key, v_exec.partition_key, v_exec.execution_id, v_exec.current_attempt_id,
        v_exec.current_lease_epoch, p_dimensions, p_amounts, v_now_ms);
    insert into flowfabric.ff_budget_usage as u (budget_id, dimension, reserved_value, updated_at_ms)
    select p_budget_id, d.dimension, d.amount, v_now_ms
    from unnest(p_dimensions, p_amounts) as d (dimension, amount)
    on conflict (budget_id, dimension) do update
    set reserved_value = u.reserved_value + excluded.reserved_value, updated_at_ms = excluded.updated_at_ms;
    update flowfabric.ff_exec_core as e
    set open_reservation_count = e.open_reservation_count + 1, last_mutation_at_ms = v_now_ms
    where e.partition_key = v_exec.partition_key and e.execution_id = v_exec.execution_id;
    return row(
        'reserved', p_budget_id, v_reservation_key, p_dimensions, p_amounts, null, null, null, null, null
    )::flowfabric.ff_reservation;
end;
$$;

comment on function flowfabric.ff_reserve_budget(text, text[], bigint[], text, uuid, bigint, uuid, text) is
'Sets an amount of a budget aside for the lease holder, unless that would pass a hard limit.';

grant execute on function flowfabric.ff_reserve_budget(text, text[], bigint[], text, uuid, bigint, uuid, text)
to flowfabric_worker;
