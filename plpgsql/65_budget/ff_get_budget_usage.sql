-- ff_get_budget_usage: what a budget has used and set aside, beside its limits, per dimension.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, budget_not_found.
-- Retry:  safe.
--
-- A dimension shows when it has a limit or was used: a fresh budget lists its limits with nothing used.
create or replace function flowfabric.ff_get_budget_usage(p_budget_id text)
returns setof flowfabric.ff_budget_dimension
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_get_budget_usage';
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    if not exists (select from flowfabric.ff_budget_policy as b where b.budget_id = p_budget_id) then
        perform flowfabric._ff_raise_budget_not_found(p_budget_id, c_fn);
    end if;
    return query
    select
        d.dimension, d.current_value, d.reserved_value, d.hard_limit, d.soft_limit,
        d.hard_limit > 0 and d.current_value::numeric + d.reserved_value >= d.hard_limit
    from (
        select
            coalesce(l.dimension, u.dimension) as dimension, coalesce(u.current_value, 0) as current_value,
            coalesce(u.reserved_value, 0) as reserved_value, coalesce(l.hard_limit, 0) as hard_limit,
            coalesce(l.soft_limit, 0) as soft_limit
        from (
            select x.dimension, x.hard_limit, x.soft_limit
            from flowfabric.ff_budget_limit as x
            where x.budget_id = p_budget_id
        ) as l
        full join (
            select y.dimension, y.current_value, y.reserved_value
            from flowfabric.ff_budget_usage as y
            where y.budget_id = p_budget_id
        ) as u on u.dimension = l.dimension
    ) as d
    order by d.dimension;
end;
$$;

comment on function flowfabric.ff_get_budget_usage(text) is
'Usage, reservations and limits of a budget per dimension, and whether the hard limit is reached.';

grant execute on function flowfabric.ff_get_budget_usage(text)
to flowfabric_producer, flowfabric_worker, flowfabric_reader, flowfabric_operator;
