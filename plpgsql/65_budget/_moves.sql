-- The moves of a budget.

-- The caller has set open_reservation_count to 0 with its own update of the execution. Policy rows are locked in
-- ascending order of their id, so that two calls never wait for each other's budgets crosswise.
create or replace function flowfabric._ff_return_reservations(
    p_partition_key smallint,
    p_execution_id uuid,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform from flowfabric.ff_budget_policy as b
    where b.budget_id in (
        select r.budget_id from flowfabric.ff_budget_reservation as r
        where r.partition_key = p_partition_key and r.execution_id = p_execution_id and r.state = 'open')
    order by b.budget_id
    for no key update;
    with returned as (
        update flowfabric.ff_budget_reservation as r
        set state = 'released',
            closed_at_ms = p_now_ms,
            close_reason = p_reason,
            expires_at_ms = p_now_ms + 86400000
        where r.partition_key = p_partition_key and r.execution_id = p_execution_id and r.state = 'open'
        returning r.budget_id, r.dimensions, r.amounts
    ),
    amount as (
        select r.budget_id, d.dimension, sum(d.amount)::bigint as total
        from returned as r, unnest(r.dimensions, r.amounts) as d (dimension, amount)
        group by r.budget_id, d.dimension
    )
    update flowfabric.ff_budget_usage as u
    set reserved_value = u.reserved_value - a.total, updated_at_ms = p_now_ms
    from amount as a
    where u.budget_id = a.budget_id and u.dimension = a.dimension;
end;
$$;
comment on function flowfabric._ff_return_reservations(smallint, uuid, text, bigint) is
'Internal: gives back every open budget reservation of an execution whose lease ended or was lost.';
