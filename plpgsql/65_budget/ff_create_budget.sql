-- ff_create_budget: define a budget and its limits.
--
-- Fence:  none.
-- Locks:  nothing but the new rows.
-- Writes: ff_budget_policy, ff_budget_limit.
-- Raises: invalid_input, invalid_budget_scope.
-- Retry:  safe; an existing budget keeps its limits, whatever the repeat asks for.
--
-- A limit of 0 is no limit, an empty array of limits is 0 for every dimension, and a dimension without a limit is
-- counted all the same. Scope and modes are labels: the engine hands the actions to the worker with a breach and treats
-- every budget as strict.
create or replace function flowfabric.ff_create_budget(
    p_budget_id text,
    p_scope_type text,
    p_scope_id text,
    p_dimensions text[] default '{}',
    p_hard_limits bigint[] default '{}',
    p_soft_limits bigint[] default '{}',
    p_reset_interval_ms bigint default 0,
    p_enforcement_mode text default 'strict',
    p_on_hard_limit text default 'fail',
    p_on_soft_limit text default 'warn'
)
returns flowfabric.ff_budget_creation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_create_budget';
    v_enforcement_mode text := coalesce(nullif(p_enforcement_mode, ''), 'strict');
    v_on_hard_limit text := coalesce(nullif(p_on_hard_limit, ''), 'fail');
    v_on_soft_limit text := coalesce(nullif(p_on_soft_limit, ''), 'warn');
    v_reset_interval_ms bigint := coalesce(p_reset_interval_ms, 0);
    v_no_limits bigint[] := array_fill(0::bigint, array[coalesce(cardinality(p_dimensions), 0)]);
    v_hard_limits bigint[] := case when p_hard_limits = '{}' then v_no_limits else p_hard_limits end;
    v_soft_limits bigint[] := case when p_soft_limits = '{}' then v_no_limits else p_soft_limits end;
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    perform flowfabric._ff_check_duration(v_reset_interval_ms, 'reset_interval_ms', c_fn);
    perform flowfabric._ff_check_label(v_enforcement_mode, 'enforcement_mode', c_fn);
    perform flowfabric._ff_check_label(v_on_hard_limit, 'on_hard_limit', c_fn);
    perform flowfabric._ff_check_label(v_on_soft_limit, 'on_soft_limit', c_fn);
    if (octet_length(p_scope_type) between 1 and 64 and octet_length(p_scope_id) between 1 and 256) is not true then
        perform flowfabric._ff_raise(
            'invalid_budget_scope', c_fn,
            jsonb_build_object('scope_type', left(p_scope_type, 200), 'scope_id', left(p_scope_id, 200)));
    end if;
    if exists (select from flowfabric.ff_budget_policy as b where b.budget_id = p_budget_id) then
        return row('already_satisfied', p_budget_id)::flowfabric.ff_budget_creation;
    end if;
    perform flowfabric._ff_check_amounts(p_dimensions, v_hard_limits, 'hard_limits', 0, c_fn);
    perform flowfabric._ff_check_amounts(p_dimensions, v_soft_limits, 'soft_limits', 0, c_fn);

    insert into flowfabric.ff_budget_policy (
        budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit, reset_interval_ms,
        next_reset_at_ms, created_at_ms, updated_at_ms)
    values (
        p_budget_id, p_scope_type, p_scope_id, v_enforcement_mode, v_on_hard_limit, v_on_soft_limit,
        v_reset_interval_ms, v_now_ms + nullif(v_reset_interval_ms, 0), v_now_ms, v_now_ms)
    on conflict (budget_id) do nothing;
    if not found then
        return row('already_satisfied', p_budget_id)::flowfabric.ff_budget_creation;
    end if;
    insert into flowfabric.ff_budget_limit (budget_id, dimension, hard_limit, soft_limit)
    select p_budget_id, d.dimension, d.hard_limit, d.soft_limit
    from unnest(p_dimensions, v_hard_limits, v_soft_limits) as d (dimension, hard_limit, soft_limit);
    return row('created', p_budget_id)::flowfabric.ff_budget_creation;
end;
$$;

comment on function flowfabric.ff_create_budget(
    text, text, text, text[], bigint[], bigint[], bigint, text, text, text) is
'Defines a budget with hard and soft limits per dimension; 0, or no array, is no limit.';

grant execute on function flowfabric.ff_create_budget(
    text, text, text, text[], bigint[], bigint[], bigint, text, text, text)
to flowfabric_operator;
