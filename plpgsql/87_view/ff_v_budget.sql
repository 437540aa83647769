-- ff_v_budget: budgets for people. See ff_v_execution for what holds for all views.
create or replace view flowfabric.ff_v_budget
with (security_barrier = true)
as
select -- noqa: ST06
    b.budget_id as budget,
    b.scope_type || ' ' || b.scope_id as scope,
    d.dimension,
    coalesce(u.current_value, 0) as used,
    coalesce(u.reserved_value, 0) as reserved,
    nullif(l.soft_limit, 0) as soft_limit,
    nullif(l.hard_limit, 0) as hard_limit,
    (coalesce(u.current_value, 0)::numeric + coalesce(u.reserved_value, 0)) / nullif(l.hard_limit, 0) as used_ratio,
    flowfabric.ff_timestamp(b.next_reset_at_ms) as next_reset_at
from flowfabric.ff_budget_policy as b
cross join lateral (
    select x.dimension
    from flowfabric.ff_budget_limit as x
    where x.budget_id = b.budget_id
    union
    select y.dimension
    from flowfabric.ff_budget_usage as y
    where y.budget_id = b.budget_id
) as d
left join flowfabric.ff_budget_limit as l on b.budget_id = l.budget_id and d.dimension = l.dimension
left join flowfabric.ff_budget_usage as u on b.budget_id = u.budget_id and d.dimension = u.dimension;

comment on view flowfabric.ff_v_budget is
'Budgets by dimension: usage, reservations and limits.';
comment on column flowfabric.ff_v_budget.budget is 'The budget.';
comment on column flowfabric.ff_v_budget.scope is 'What it is about.';
comment on column flowfabric.ff_v_budget.dimension is 'What is counted.';
comment on column flowfabric.ff_v_budget.used is 'Usage since the last reset.';
comment on column flowfabric.ff_v_budget.reserved is 'Set aside by running executions.';
comment on column flowfabric.ff_v_budget.soft_limit is 'Usage above this is reported; NULL for no limit.';
comment on column flowfabric.ff_v_budget.hard_limit is 'Usage and reservations never pass this; NULL for no limit.';
comment on column flowfabric.ff_v_budget.used_ratio is 'Share of the hard limit that is used or set aside.';
comment on column flowfabric.ff_v_budget.next_reset_at is 'When usage is set back to zero; NULL for never.';

grant select on flowfabric.ff_v_budget to flowfabric_reader, flowfabric_operator;
