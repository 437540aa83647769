-- ff_release_budget: give back everything that one execution recorded on a budget in this period.
--
-- Fence:  none.
-- Locks:  the ff_budget_policy row.
-- Writes: ff_budget_usage; deletes the execution's rows of ff_budget_usage_by_exec; ff_operator_event if there are any.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers noop.
--
-- Never done by the engine itself: money that was spent is spent, and only an operator knows better. Keys of recorded
-- spends stay, so that a late repeat does not book them again; breach counters stay too.
create or replace function flowfabric.ff_release_budget(p_budget_id text, p_execution_id text)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_release_budget';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    perform from flowfabric.ff_budget_policy as b where b.budget_id = p_budget_id for no key update;
    v_now_ms := flowfabric.ff_now_ms();

    update flowfabric.ff_budget_usage as u
    set current_value = greatest(u.current_value - x.delta_total, 0), updated_at_ms = v_now_ms
    from flowfabric.ff_budget_usage_by_exec as x
    where x.budget_id = p_budget_id
        and x.partition_key = v_key.partition_key and x.execution_id = v_key.execution_id and x.delta_total > 0
        and u.budget_id = x.budget_id and u.dimension = x.dimension;
    delete from flowfabric.ff_budget_usage_by_exec as x
    where x.budget_id = p_budget_id
        and x.partition_key = v_key.partition_key and x.execution_id = v_key.execution_id;
    if not found then
        return row('noop')::flowfabric.ff_outcome;
    end if;
    perform flowfabric._ff_touch_budget(p_budget_id, null, false, v_now_ms);
    perform flowfabric._ff_emit_operator(
        v_key.partition_key, null, null, v_key.execution_id, null, 'budget_released',
        jsonb_build_object('budget_id', p_budget_id), v_now_ms);
    return row('released')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_release_budget(text, text) is
'Gives back everything that one execution recorded on a budget since its last reset.';

grant execute on function flowfabric.ff_release_budget(text, text) to flowfabric_operator;
