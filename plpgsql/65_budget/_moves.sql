-- The moves of a budget. Every change of a budget's usage, reservations and breaches happens under the lock of its
-- ff_budget_policy row, which is taken after that of the execution; so sums are exact and nobody waits crosswise.
--
-- Usage plus reservations of a dimension always fits into a bigint: whatever adds to one of them checks that first.
--
-- In PL/pgSQL even where SQL would be shorter: a SQL function that cannot be inlined is planned anew in every
-- transaction, which took half of the 2.3 ms of a usage report.

-- Arguments

create or replace function flowfabric._ff_has_control(p_text text)
returns boolean
language sql immutable parallel safe
as $$
    select p_text collate "C" ~ E'[\u0001-\u001f\u007f-\u009f]'
$$;
comment on function flowfabric._ff_has_control(text) is 'Internal: whether a text contains a control character.';

create or replace function flowfabric._ff_check_budget_id(p_budget_id text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if not flowfabric._ff_is_name(p_budget_id) then
        perform flowfabric._ff_raise_invalid_name(p_budget_id, 'budget_id', p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_check_budget_id(text, text) is
'Internal: raises invalid_input unless a text can be a budget id.';

-- p_field names the amounts as the caller knows them, p_least is the smallest that makes sense there.
create or replace function flowfabric._ff_check_amounts(
    p_dimensions text[],
    p_amounts bigint[],
    p_field text,
    p_least bigint,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_dimension text;
    v_amount bigint;
    v_reason text;
begin
    if p_dimensions is null then
        perform flowfabric._ff_raise_invalid(p_fn, 'dimensions', 'null');
    end if;
    if p_amounts is null then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'null');
    end if;
    if array_ndims(p_dimensions) > 1 then
        perform flowfabric._ff_raise_invalid(p_fn, 'dimensions', 'length_mismatch', array_dims(p_dimensions));
    end if;
    if array_ndims(p_amounts) > 1 or cardinality(p_amounts) <> cardinality(p_dimensions) then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'length_mismatch', array_dims(p_amounts));
    end if;
    if cardinality(p_dimensions) > 64 then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'dimensions', 'too_many_items', cardinality(p_dimensions)::text);
    end if;
    foreach v_dimension in array p_dimensions loop
        v_reason := case
            when v_dimension is null then 'null'
            when v_dimension = '' then 'empty'
            when octet_length(v_dimension) > 128 then 'too_long'
            when flowfabric._ff_has_control(v_dimension) then 'control'
        end;
        if v_reason is not null then
            perform flowfabric._ff_raise_invalid(p_fn, 'dimension', v_reason, v_dimension);
        end if;
        if cardinality(array_positions(p_dimensions, v_dimension)) > 1 then
            perform flowfabric._ff_raise_invalid(p_fn, 'dimensions', 'duplicate', v_dimension);
        end if;
    end loop;
    foreach v_amount in array p_amounts loop
        if v_amount is null or v_amount < p_least then
            perform flowfabric._ff_raise_invalid(
                p_fn, p_field, case when v_amount is null then 'null' else 'out_of_range' end, v_amount::text);
        end if;
    end loop;
end;
$$;
comment on function flowfabric._ff_check_amounts(text[], bigint[], text, bigint, text) is
'Internal: raises invalid_input unless there is one amount in range for each of at most 64 distinct dimensions.';

create or replace function flowfabric._ff_check_key(p_key text, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if octet_length(p_key) > 512 then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'too_long', p_key);
    end if;
end;
$$;
comment on function flowfabric._ff_check_key(text, text, text) is
'Internal: raises invalid_input for a key of more than 512 bytes.';

create or replace function flowfabric._ff_check_reservation_key(p_reservation_key text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if nullif(p_reservation_key, '') is null then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'reservation_key', case when p_reservation_key is null then 'null' else 'empty' end);
    end if;
    perform flowfabric._ff_check_key(p_reservation_key, 'reservation_key', p_fn);
end;
$$;
comment on function flowfabric._ff_check_reservation_key(text, text) is
'Internal: raises invalid_input unless the key of a reservation is given, with at most 512 bytes.';

-- Locks

create or replace function flowfabric._ff_lock_budget(p_budget_id text, p_fn text)
returns flowfabric.ff_budget_policy
language plpgsql volatile
as $$
declare
    v_policy flowfabric.ff_budget_policy;
begin
    select b.* into v_policy
    from flowfabric.ff_budget_policy as b
    where b.budget_id = p_budget_id
    for no key update;
    if not found then
        perform flowfabric._ff_raise_budget_not_found(p_budget_id, p_fn);
    end if;
    return v_policy;
end;
$$;
comment on function flowfabric._ff_lock_budget(text, text) is
'Internal: locks one budget and returns its row, or raises budget_not_found.';

create or replace function flowfabric._ff_raise_budget_not_found(p_budget_id text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise('budget_not_found', p_fn, jsonb_build_object('budget_id', p_budget_id));
end;
$$;
comment on function flowfabric._ff_raise_budget_not_found(text, text) is 'Internal: raises budget_not_found.';

-- Limits

-- The budget denial rule of spec 40 section 1.11. Reading without a lock is enough: admission reserves nothing, it
-- keeps new work from starting once a limit is reached.
create or replace function flowfabric._ff_exhausted_budget(p_budget_ids text[])
returns flowfabric.ff_budget_denial
language plpgsql stable
as $$
declare
    v_denial flowfabric.ff_budget_denial;
begin
    select
        b.budget_id,
        format(
            'budget %s: %s %s/%s', b.budget_id, l.dimension, u.current_value::numeric + u.reserved_value, l.hard_limit)
    into v_denial
    from unnest(p_budget_ids) with ordinality as b (budget_id, position)
    join flowfabric.ff_budget_limit as l on l.budget_id = b.budget_id
    join flowfabric.ff_budget_usage as u on u.budget_id = l.budget_id and u.dimension = l.dimension
    where l.hard_limit > 0 and u.current_value::numeric + u.reserved_value >= l.hard_limit
    order by b.position, l.dimension
    limit 1;
    return v_denial;
end;
$$;
comment on function flowfabric._ff_exhausted_budget(text[]) is
'Internal: the first of some budgets, in their order, that has reached a hard limit, with the blocking detail.';

create or replace function flowfabric._ff_budget_lines(p_budget_id text, p_dimensions text[], p_amounts bigint[])
returns table (
    item bigint,
    dimension text,
    amount bigint,
    current_value bigint,
    reserved_value bigint,
    hard_limit bigint,
    soft_limit bigint
)
language sql stable
as $$
    select
        d.item, d.dimension, d.amount, coalesce(u.current_value, 0), coalesce(u.reserved_value, 0),
        coalesce(l.hard_limit, 0), coalesce(l.soft_limit, 0)
    from unnest(p_dimensions, p_amounts) with ordinality as d (dimension, amount, item)
    left join flowfabric.ff_budget_limit as l on l.budget_id = p_budget_id and l.dimension = d.dimension
    left join flowfabric.ff_budget_usage as u on u.budget_id = p_budget_id and u.dimension = d.dimension
$$;
comment on function flowfabric._ff_budget_lines(text, text[], bigint[]) is
'Internal: amounts in the caller''s order beside the usage, reservations and limits of their dimensions.';

create or replace function flowfabric._ff_check_sums(
    p_budget_id text,
    p_dimensions text[],
    p_amounts bigint[],
    p_field text,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_amount bigint;
begin
    select n.amount into v_amount
    from flowfabric._ff_budget_lines(p_budget_id, p_dimensions, p_amounts) as n
    where n.current_value::numeric + n.reserved_value + n.amount > 9223372036854775807
    order by n.item
    limit 1;
    if found then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'out_of_range', v_amount::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_sums(text, text[], bigint[], text, text) is
'Internal: raises invalid_input if an amount would take usage and reservations of its dimension beyond a bigint.';

create or replace function flowfabric._ff_find_misfit(p_budget_id text, p_dimensions text[], p_amounts bigint[])
returns flowfabric.ff_budget_breach
language plpgsql stable
as $$
declare
    v_breach flowfabric.ff_budget_breach;
begin
    select n.dimension, n.current_value, n.reserved_value, n.hard_limit into v_breach
    from flowfabric._ff_budget_lines(p_budget_id, p_dimensions, p_amounts) as n
    where n.hard_limit > 0 and n.current_value::numeric + n.reserved_value + n.amount > n.hard_limit
    order by n.item
    limit 1;
    return v_breach;
end;
$$;
comment on function flowfabric._ff_find_misfit(text, text[], bigint[]) is
'Internal: the first dimension, in the caller''s order, whose hard limit does not leave room for its amount.';

create or replace function flowfabric._ff_find_overrun(p_budget_id text, p_dimensions text[], p_is_hard boolean)
returns flowfabric.ff_budget_breach
language plpgsql stable
as $$
declare
    v_breach flowfabric.ff_budget_breach;
begin
    select n.dimension, n.current_value, n.reserved_value, n.limit_value into v_breach
    from (
        select
            d.item, d.dimension, d.current_value, d.reserved_value,
            case when p_is_hard then d.hard_limit else d.soft_limit end as limit_value
        from flowfabric._ff_budget_lines(p_budget_id, p_dimensions, null) as d
    ) as n
    where n.limit_value > 0 and n.current_value > n.limit_value
    order by n.item
    limit 1;
    return v_breach;
end;
$$;
comment on function flowfabric._ff_find_overrun(text, text[], boolean) is
'Internal: the first dimension, in the caller''s order, whose booked usage is above its hard or soft limit.';

-- Bookings

create or replace function flowfabric._ff_touch_budget(
    p_budget_id text,
    p_hard_dimension text,
    p_is_soft boolean,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    update flowfabric.ff_budget_policy as b
    set breach_count = b.breach_count + (p_hard_dimension is not null)::integer,
        soft_breach_count = b.soft_breach_count + p_is_soft::integer,
        last_breach_at_ms = case when p_hard_dimension is null then b.last_breach_at_ms else p_now_ms end,
        last_breach_dim = coalesce(p_hard_dimension, b.last_breach_dim),
        updated_at_ms = p_now_ms
    where b.budget_id = p_budget_id;
end;
$$;
comment on function flowfabric._ff_touch_budget(text, text, boolean, bigint) is
'Internal: dates a change of a locked budget and counts the hard or soft breach that came with it, if any.';

-- Of an execution (p_key) the amounts go into its ledger too, so that ff_release_budget can give them back.
create or replace function flowfabric._ff_book_usage(
    p_budget_id text,
    p_key flowfabric.ff_execution_key,
    p_dimensions text[],
    p_amounts bigint[],
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_budget_usage as u (budget_id, dimension, current_value, updated_at_ms)
    select p_budget_id, d.dimension, d.amount, p_now_ms
    from unnest(p_dimensions, p_amounts) as d (dimension, amount)
    on conflict (budget_id, dimension) do update
    set current_value = u.current_value + excluded.current_value, updated_at_ms = excluded.updated_at_ms;
    if p_key.execution_id is not null then
        insert into flowfabric.ff_budget_usage_by_exec as x (
            budget_id, partition_key, execution_id, dimension, delta_total, updated_at_ms)
        select p_budget_id, p_key.partition_key, p_key.execution_id, d.dimension, d.amount, p_now_ms
        from unnest(p_dimensions, p_amounts) as d (dimension, amount)
        on conflict (budget_id, partition_key, execution_id, dimension) do update
        set delta_total = x.delta_total + excluded.delta_total, updated_at_ms = excluded.updated_at_ms;
    end if;
end;
$$;
comment on function flowfabric._ff_book_usage(
    text, flowfabric.ff_execution_key, text[], bigint[], bigint) is
'Internal: adds amounts to the usage of a locked budget and, if an execution is named, to its ledger.';

-- Steps 3 to 7 of spec 40 section 7.2: all dimensions or none. A refused report leaves no key behind, so that the same
-- report counts once there is room again.
create or replace function flowfabric._ff_spend(
    p_policy flowfabric.ff_budget_policy,
    p_key flowfabric.ff_execution_key,
    p_dimensions text[],
    p_deltas bigint[],
    p_dedup_key text,
    p_now_ms bigint,
    p_fn text
)
returns flowfabric.ff_usage_report
language plpgsql volatile
as $$
declare
    v_breach flowfabric.ff_budget_breach;
begin
    if exists (
        select from flowfabric.ff_budget_usage_dedup as k
        where k.budget_id = p_policy.budget_id and k.dedup_key = p_dedup_key and k.expires_at_ms > p_now_ms)
    then
        return row('already_applied', null, null, null, null)::flowfabric.ff_usage_report;
    end if;
    perform flowfabric._ff_check_sums(p_policy.budget_id, p_dimensions, p_deltas, 'deltas', p_fn);

    v_breach := flowfabric._ff_find_misfit(p_policy.budget_id, p_dimensions, p_deltas);
    if v_breach.dimension is not null then
        perform flowfabric._ff_touch_budget(p_policy.budget_id, v_breach.dimension, false, p_now_ms);
        return row(
            'hard_breach', v_breach.dimension, v_breach.current_usage, v_breach.limit_value, p_policy.on_hard_limit
        )::flowfabric.ff_usage_report;
    end if;

    perform flowfabric._ff_book_usage(p_policy.budget_id, p_key, p_dimensions, p_deltas, p_now_ms);
    if p_dedup_key is not null then
        insert into flowfabric.ff_budget_usage_dedup as k (budget_id, dedup_key, applied_at_ms, expires_at_ms)
        values (p_policy.budget_id, p_dedup_key, p_now_ms, p_now_ms + 86400000)
        on conflict (budget_id, dedup_key) do update
        set applied_at_ms = excluded.applied_at_ms, expires_at_ms = excluded.expires_at_ms;
    end if;
    v_breach := flowfabric._ff_find_overrun(p_policy.budget_id, p_dimensions, false);
    perform flowfabric._ff_touch_budget(p_policy.budget_id, null, v_breach.dimension is not null, p_now_ms);
    if v_breach.dimension is not null then
        return row(
            'soft_breach', v_breach.dimension, v_breach.current_usage, v_breach.limit_value, p_policy.on_soft_limit
        )::flowfabric.ff_usage_report;
    end if;
    return row('ok', null, null, null, null)::flowfabric.ff_usage_report;
end;
$$;
comment on function flowfabric._ff_spend(
    flowfabric.ff_budget_policy, flowfabric.ff_execution_key, text[], bigint[], text, bigint, text) is
'Internal: books usage of a locked budget once per key, unless a hard limit leaves no room for it.';

create or replace function flowfabric._ff_zero_budget(p_budget_id text, p_now_ms bigint)
returns flowfabric.ff_budget_reset
language plpgsql volatile
as $$
declare
    v_reset flowfabric.ff_budget_reset;
begin
    update flowfabric.ff_budget_usage as u
    set current_value = 0, last_reset_at_ms = p_now_ms, updated_at_ms = p_now_ms
    where u.budget_id = p_budget_id;
    -- What was spent before the reset is no longer in the usage, so it cannot be given back either.
    delete from flowfabric.ff_budget_usage_by_exec as x where x.budget_id = p_budget_id;
    update flowfabric.ff_budget_policy as b
    set reset_count = b.reset_count + 1,
        last_reset_at_ms = p_now_ms,
        next_reset_at_ms = p_now_ms + nullif(b.reset_interval_ms, 0),
        last_breach_at_ms = null,
        last_breach_dim = null,
        updated_at_ms = p_now_ms
    where b.budget_id = p_budget_id
    returning coalesce(b.next_reset_at_ms, 0), b.reset_count into v_reset;
    return v_reset;
end;
$$;
comment on function flowfabric._ff_zero_budget(text, bigint) is
'Internal: starts a new period of a locked budget: usage and ledger go, reservations and keys stay.';

-- Reservations

-- A closed one whose time has run out counts as absent, whether or not a sweep has deleted it.
create or replace function flowfabric._ff_find_reservation(
    p_budget_id text,
    p_reservation_key text,
    p_now_ms bigint
)
returns flowfabric.ff_budget_reservation
language plpgsql stable
as $$
declare
    v_reservation flowfabric.ff_budget_reservation;
begin
    select r.* into v_reservation
    from flowfabric.ff_budget_reservation as r
    where r.budget_id = p_budget_id and r.reservation_key = p_reservation_key
        and (r.expires_at_ms is null or r.expires_at_ms > p_now_ms);
    return v_reservation;
end;
$$;
comment on function flowfabric._ff_find_reservation(text, text, bigint) is
'Internal: a reservation by its key, or NULL.';

create or replace function flowfabric._ff_raise_reservation_not_found(
    p_budget_id text,
    p_reservation_key text,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'reservation_not_found', p_fn,
        jsonb_build_object('budget_id', p_budget_id, 'reservation_key', p_reservation_key));
end;
$$;
comment on function flowfabric._ff_raise_reservation_not_found(text, text, text) is
'Internal: raises reservation_not_found.';

create or replace function flowfabric._ff_raise_reservation_not_open(
    p_reservation flowfabric.ff_budget_reservation,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'reservation_not_open', p_fn,
        jsonb_build_object(
            'budget_id', p_reservation.budget_id, 'reservation_key', p_reservation.reservation_key,
            'state', p_reservation.state));
end;
$$;
comment on function flowfabric._ff_raise_reservation_not_open(flowfabric.ff_budget_reservation, text) is
'Internal: raises reservation_not_open.';

-- A reservation belongs to the lease under which it was made, not to the execution.
create or replace function flowfabric._ff_holds_reservation(
    p_exec flowfabric.ff_exec_core,
    p_reservation flowfabric.ff_budget_reservation
)
returns boolean
language sql immutable parallel safe
as $$
    select p_reservation.partition_key = p_exec.partition_key
        and p_reservation.execution_id = p_exec.execution_id
        and p_reservation.attempt_id = p_exec.current_attempt_id
        and p_reservation.lease_epoch = p_exec.current_lease_epoch
$$;
comment on function flowfabric._ff_holds_reservation(
    flowfabric.ff_exec_core, flowfabric.ff_budget_reservation) is
'Internal: whether the current lease of an execution made a reservation; NULL without one.';

-- The one way out of open for a single reservation; _ff_return_reservations is the same for all of an execution.
create or replace function flowfabric._ff_close_reservation(
    p_reservation flowfabric.ff_budget_reservation,
    p_state text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    update flowfabric.ff_budget_reservation as r
    set state = p_state,
        closed_at_ms = p_now_ms,
        close_reason = p_state,
        expires_at_ms = p_now_ms + 86400000
    where r.budget_id = p_reservation.budget_id and r.reservation_key = p_reservation.reservation_key;
    update flowfabric.ff_budget_usage as u
    set reserved_value = u.reserved_value - d.amount, updated_at_ms = p_now_ms
    from unnest(p_reservation.dimensions, p_reservation.amounts) as d (dimension, amount)
    where u.budget_id = p_reservation.budget_id and u.dimension = d.dimension;
    update flowfabric.ff_exec_core as e
    set open_reservation_count = e.open_reservation_count - 1, last_mutation_at_ms = p_now_ms
    where e.partition_key = p_reservation.partition_key and e.execution_id = p_reservation.execution_id;
    perform flowfabric._ff_touch_budget(p_reservation.budget_id, null, false, p_now_ms);
end;
$$;
comment on function flowfabric._ff_close_reservation(flowfabric.ff_budget_reservation, text, bigint) is
'Internal: settles or releases one open reservation of a locked execution and budget; books no usage.';

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
