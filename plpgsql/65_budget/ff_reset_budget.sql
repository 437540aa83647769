-- ff_reset_budget: set all usage of a budget back to zero now.
--
-- Fence:  none.
-- Locks:  the ff_budget_policy row.
-- Writes: ff_budget_policy, ff_budget_usage; deletes the budget's rows of ff_budget_usage_by_exec; ff_operator_event.
-- Raises: invalid_input, budget_not_found.
-- Retry:  a repeat is another reset.
--
-- The next reset by time is counted from this one. Open reservations stay, for their workers still mean to spend them.
create or replace function flowfabric.ff_reset_budget(p_budget_id text)
returns flowfabric.ff_budget_reset
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_reset_budget';
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    perform flowfabric._ff_lock_budget(p_budget_id, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_emit_operator(
        0::smallint, null, null, null, null, 'budget_reset', jsonb_build_object('budget_id', p_budget_id), v_now_ms);
    return flowfabric._ff_zero_budget(p_budget_id, v_now_ms);
end;
$$;

comment on function flowfabric.ff_reset_budget(text) is
'Sets all usage of a budget back to zero and says when the next reset is due, 0 if never.';

grant execute on function flowfabric.ff_reset_budget(text) to flowfabric_operator;
