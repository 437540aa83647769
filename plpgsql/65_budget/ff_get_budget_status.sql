-- ff_get_budget_status: a budget with its labels, breaches and resets.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, budget_not_found.
-- Retry:  safe.
create or replace function flowfabric.ff_get_budget_status(p_budget_id text)
returns flowfabric.ff_budget_status
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_get_budget_status';
    v_status flowfabric.ff_budget_status;
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    select
        b.budget_id, b.scope_type, b.scope_id, b.enforcement_mode, b.on_hard_limit, b.on_soft_limit,
        b.reset_interval_ms, b.breach_count, b.soft_breach_count, b.reset_count, b.last_breach_at_ms,
        b.last_breach_dim, b.last_reset_at_ms, b.next_reset_at_ms, b.created_at_ms, b.updated_at_ms
    into v_status
    from flowfabric.ff_budget_policy as b
    where b.budget_id = p_budget_id;
    if not found then
        perform flowfabric._ff_raise_budget_not_found(p_budget_id, c_fn);
    end if;
    return v_status;
end;
$$;

comment on function flowfabric.ff_get_budget_status(text) is
'A budget with its labels, breaches and resets; its usage is in ff_get_budget_usage.';

grant execute on function flowfabric.ff_get_budget_status(text)
to flowfabric_producer, flowfabric_worker, flowfabric_reader, flowfabric_operator;
