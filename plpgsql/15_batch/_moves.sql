-- The moves of a batch: what ff_complete_executions, ff_fail_executions and ff_renew_leases share.
--
-- An item whose locked row passes one plain comparison, and that belongs to no flow, is held. All held items of a call
-- are changed together, with one statement per table. Every other item gets a look of its own, through the moves of
-- the single call: there its refusal is found, or the cascade of a flow member runs.
--
-- A batch waits for no row that another session holds: one open transaction would stall everything else in the batch,
-- and all batches behind it. Rows are locked with SKIP LOCKED before anything is written for their items. The end of a
-- flow member can reach rows that only its cascade finds. It runs in a block with a lock timeout, and is undone if it
-- meets a row that is held. An item that would have to wait is `busy` and unchanged; its caller repeats it.
--
-- Between statements a batch is a set of arrays with one element per item, in the order in which the items are locked;
-- `items` has the place of each in the caller's arrays. An item that is not held has NULL for the ctid of its row. The
-- ctid cannot change while the row's lock is held. Items are numbers that subscript arrays, because UNNEST of several
-- arrays stores each of them row by row first: 1 thousand instructions per element.
--
-- Rows are found by key inside a LATERAL subquery and changed by the ctid that was found there; `offset 0` keeps the
-- planner from making a join of either. It would choose that by statistics, which are wrong on tables that fill and
-- empty all day (HOTPATH 4: 918 us per lease with 2 000 of them, against 48). With the settings of the public functions
-- each statement has one possible plan:
--   enable_seqscan = off     a table of a few pages invites a sequential scan, and the plan outlives the few pages;
--   jit = off                what that penalty costs in the estimate would start the compiler, 30 to 55 ms a statement;
--   plan_cache_mode = force_generic_plan
--                            with few items the planner takes plans for these very arrays to be cheaper and makes them
--                            anew in every call: 390 instead of 190 us per item with five items.

-- Arguments

create or replace function flowfabric._ff_raise_invalid_batch(
    p_fields text[],
    p_lengths integer[],
    p_shapes text[],
    p_required_count integer,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    for i in 1 .. cardinality(p_fields) loop
        if p_lengths[i] is null and i <= p_required_count then
            perform flowfabric._ff_raise_invalid(p_fn, p_fields[i], 'null');
        elsif p_shapes[i] like '%][%' then
            perform flowfabric._ff_raise_invalid(p_fn, p_fields[i], 'length_mismatch', p_shapes[i]);
        elsif p_lengths[i] <> p_lengths[1] then
            perform flowfabric._ff_raise_invalid(p_fn, p_fields[i], 'length_mismatch', p_lengths[i]::text);
        end if;
    end loop;
    perform flowfabric._ff_raise_invalid(p_fn, p_fields[1], 'too_many_items', p_lengths[1]::text);
end;
$$;
comment on function flowfabric._ff_raise_invalid_batch(text[], integer[], text[], integer, text) is
'Internal: raises invalid_input for the arrays of a batch: one is missing, nested or of another length, or all too long.';

-- As _ff_parse_execution_id, for all of them at once; one by one only if one of them is none. What is a wire id, is the
-- id itself but for capitals.
create or replace function flowfabric._ff_sort_batch(
    p_execution_ids text[],
    p_fn text,
    out items integer[],
    out partition_keys smallint[],
    out execution_ids uuid[]
)
language plpgsql stable
as $$
declare
    v_given_id text;
    v_key flowfabric.ff_execution_key;
    v_keys flowfabric.ff_execution_key[] := '{}'::flowfabric.ff_execution_key[];
    v_all_are_wire_ids boolean;
begin
    begin
        select
            array_agg(k.item), array_agg(k.partition_key), array_agg(k.execution_id), bool_and(k.is_wire_id)
        into items, partition_keys, execution_ids, v_all_are_wire_ids
        from (
            select
                c.item, c.partition_key, c.execution_id,
                (c.partition_key >= 0 and starts_with(c.given_id, '{fp:') and lower(c.given_id collate "C")
                    = flowfabric.ff_format_execution_id(c.partition_key, c.execution_id)) is true as is_wire_id
            from (
                select
                    g.item, p_execution_ids[g.item] as given_id,
                    substr(p_execution_ids[g.item], 5, octet_length(p_execution_ids[g.item]) - 42)::smallint
                        as partition_key,
                    right(p_execution_ids[g.item], 36)::uuid as execution_id
                from generate_series(1, cardinality(p_execution_ids)) as g (item)
                offset 0
            ) as c
            order by c.partition_key, c.execution_id, c.item
        ) as k;
        if v_all_are_wire_ids then
            return;
        end if;
    exception when data_exception then
        null; -- One of the texts is beyond the casts.
    end;

    foreach v_given_id in array p_execution_ids loop
        begin
            v_key := flowfabric._ff_parse_execution_id(v_given_id, p_fn);
        exception when sqlstate 'ZV001' then
            v_key := null;
        end;
        v_keys := v_keys || v_key;
    end loop;
    select array_agg(k.item), array_agg(k.partition_key), array_agg(k.execution_id)
    into items, partition_keys, execution_ids
    from (
        select u.item::integer, u.partition_key, u.execution_id
        from unnest(v_keys) with ordinality as u (partition_key, execution_id, item)
        order by u.partition_key, u.execution_id, u.item
    ) as k;
end;
$$;
comment on function flowfabric._ff_sort_batch(text[], text) is
'Internal: the keys behind the wire ids of a batch in the order of locks, NULL for a text that is none.';

-- Behind an equal key: a repeat, of which only the first is looked at.
create or replace function flowfabric._ff_is_repeat(
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_number integer
)
returns boolean
language sql immutable parallel safe
as $$
    select (p_execution_ids[p_number - 1] = p_execution_ids[p_number]
        and p_partition_keys[p_number - 1] = p_partition_keys[p_number]) is true
$$;
comment on function flowfabric._ff_is_repeat(smallint[], uuid[], integer) is
'Internal: whether an item of a sorted batch has the key of an earlier one.';

-- Locks

-- Membership is read without a lock: a flow is locked before its members. A flow that another session holds is left
-- out, so its members are busy. A missing flow row counts as locked: retention may have removed it.
create or replace function flowfabric._ff_lock_batch_flows(p_partition_keys smallint[], p_execution_ids uuid[])
returns uuid[]
language plpgsql volatile
as $$
declare
    v_flow_ids uuid[];
begin
    -- Where there are no flows, one look saves a search for each item. Who joins the first one at this moment is told
    -- apart by its locked row, like everybody who joins one after the look at the memberships.
    if not exists (select from flowfabric.ff_flow_core) then
        return '{}'::uuid[];
    end if;
    select array_agg(f.flow_id) into v_flow_ids
    from (
        select distinct u.partition_key, e.flow_id
        from unnest(p_partition_keys, p_execution_ids) as u (partition_key, execution_id)
        cross join lateral (
            select c.flow_id
            from flowfabric.ff_exec_core as c
            where c.partition_key = u.partition_key and c.execution_id = u.execution_id
            offset 0
        ) as e
        where e.flow_id is not null
        order by u.partition_key, e.flow_id
        offset 0
    ) as f
    left join lateral (
        select c.flow_id
        from flowfabric.ff_flow_core as c
        where c.partition_key = f.partition_key and c.flow_id = f.flow_id
        for no key update skip locked
    ) as locked on true
    where locked.flow_id is not null or not exists (
        select from flowfabric.ff_flow_core as c
        where c.partition_key = f.partition_key and c.flow_id = f.flow_id);
    return coalesce(v_flow_ids, '{}');
end;
$$;
comment on function flowfabric._ff_lock_batch_flows(smallint[], uuid[]) is
'Internal: locks the flows of the executions of a batch that no other session holds, and returns their ids.';

-- The clock is read when the last lock is held; then only leases that were about to expire need a second look. Whatever
-- changes a row must be a statement of its own: a version of a row that was committed while this one ran is visible
-- only to the next.
create or replace function flowfabric._ff_lock_batch(
    p_items integer[],
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_lease_ids uuid[],
    p_lease_epochs bigint[],
    p_attempt_ids uuid[],
    out now_ms bigint,
    out row_ids tid[],
    out attempt_indexes integer[],
    out retry_counts integer[],
    out are_locked boolean[],
    out any_has_attempt_row boolean,
    out any_has_quota boolean,
    out any_has_reservations boolean
)
language plpgsql volatile
as $$
declare
    v_first_expiry_ms bigint;
begin
    select
        array_agg(case when l.fence_matches then l.row_id end),
        array_agg(l.total_attempt_count - 1),
        array_agg(l.retry_count),
        array_agg(l.row_id is not null),
        bool_or(not l.attempt_is_deferred),
        bool_or(l.quota_policy_id is not null),
        bool_or(l.open_reservation_count > 0),
        min(case when l.fence_matches then l.lease_expires_at_ms end)
    into
        row_ids, attempt_indexes, retry_counts, are_locked, any_has_attempt_row, any_has_quota, any_has_reservations,
        v_first_expiry_ms
    from (
        select
            e.row_id, e.total_attempt_count, e.retry_count, e.attempt_is_deferred, e.quota_policy_id,
            e.open_reservation_count, e.lease_expires_at_ms,
            e.flow_id is null and e.ownership_state = 'leased' and e.current_lease_id = p_lease_ids[p_items[n.number]]
            and e.current_lease_epoch = p_lease_epochs[p_items[n.number]]
            and e.current_attempt_id = p_attempt_ids[p_items[n.number]] as fence_matches
        from generate_series(1, cardinality(p_items)) as n (number)
        left join lateral (
            select
                c.ctid as row_id, c.flow_id, c.ownership_state, c.current_lease_id, c.current_lease_epoch,
                c.current_attempt_id, c.lease_expires_at_ms, c.total_attempt_count, c.retry_count, c.quota_policy_id,
                c.open_reservation_count, c.attempt_is_deferred
            from flowfabric.ff_exec_core as c
            where c.partition_key = p_partition_keys[n.number] and c.execution_id = p_execution_ids[n.number]
                and not flowfabric._ff_is_repeat(p_partition_keys, p_execution_ids, n.number)
            for no key update skip locked
        ) as e on true
        offset 0
    ) as l;
    now_ms := flowfabric.ff_now_ms();
    if v_first_expiry_ms <= now_ms then
        row_ids := flowfabric._ff_without_expired(row_ids, now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_lock_batch(integer[], smallint[], uuid[], uuid[], bigint[], uuid[]) is
'Internal: locks the executions of a batch that no other session holds, then reads the clock; row_ids has the held items.';

create or replace function flowfabric._ff_without_expired(p_row_ids tid[], p_now_ms bigint)
returns tid[]
language sql volatile
as $$
    select array_agg(e.row_id order by u.number)
    from unnest(p_row_ids) with ordinality as u (row_id, number)
    left join lateral (
        select c.ctid as row_id
        from flowfabric.ff_exec_core as c
        where c.ctid = u.row_id and c.lease_expires_at_ms > p_now_ms
        offset 0
    ) as e on true
$$;
comment on function flowfabric._ff_without_expired(tid[], bigint) is
'Internal: locked rows of a batch, with NULL in the place of those whose lease has expired.';

-- Items that are not held

-- The checks of the single call in its order, by the same functions where they raise. A row that was not locked is
-- busy, or missing: a second read without a lock tells which. A flow that is not among the locked ones is held by
-- another session, or was joined after the batch had read the membership; p_flow_ids is NULL where no flow matters.
create or replace function flowfabric._ff_refuse_item(
    p_item integer,
    p_given_id text,
    p_partition_key smallint,
    p_execution_id uuid,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_retry_policy jsonb,
    p_is_repeat boolean,
    p_is_locked boolean,
    p_flow_ids uuid[],
    p_now_ms bigint,
    p_fn text
)
returns flowfabric.ff_execution_item
language plpgsql stable
as $$
declare
    v_execution_id text := flowfabric.ff_format_execution_id(p_partition_key, p_execution_id);
    v_exec flowfabric.ff_exec_core;
    v_refusal flowfabric.ff_refusal;
    v_detail text;
begin
    -- A block with a handler is a subtransaction, and a raise costs more than the rest of the refusal: both only
    -- where a function of the single call must speak.
    if v_execution_id is null or (p_retry_policy is not null and not p_is_repeat) then
        begin
            perform flowfabric._ff_parse_execution_id(p_given_id, p_fn);
            perform flowfabric._ff_check_retry_policy(p_retry_policy, p_fn);
        exception when sqlstate 'ZV001' or sqlstate 'ZV004' then
            get stacked diagnostics v_detail = pg_exception_detail;
            v_refusal := row(sqlerrm, v_detail)::flowfabric.ff_refusal;
        end;
    elsif p_is_repeat then
        v_refusal := row(
            'invalid_input',
            jsonb_build_object('field', 'execution_ids', 'reason', 'duplicate_in_batch', 'value', v_execution_id)
        )::flowfabric.ff_refusal;
    end if;
    if v_refusal.code is null then
        if p_is_locked then
            select e.* into v_exec
            from flowfabric.ff_exec_core as e
            where e.partition_key = p_partition_key and e.execution_id = p_execution_id;
            v_refusal := flowfabric._ff_fence_refusal(
                v_exec, p_lease_id, p_lease_epoch, p_attempt_id, null, false, p_now_ms);
        elsif exists (
            select from flowfabric.ff_exec_core as e
            where e.partition_key = p_partition_key and e.execution_id = p_execution_id)
        then
            return flowfabric._ff_busy_item(p_item, p_partition_key, p_execution_id);
        else
            v_refusal := row(
                'execution_not_found', jsonb_build_object('execution_id', v_execution_id))::flowfabric.ff_refusal;
        end if;
    end if;
    if v_refusal.code is null then
        if v_exec.flow_id is null or p_flow_ids is null or v_exec.flow_id = any (p_flow_ids) then
            return null;
        end if;
        return flowfabric._ff_busy_item(p_item, p_partition_key, p_execution_id);
    end if;
    return row(
        p_item, coalesce(v_execution_id, p_given_id), 'refused', v_refusal.code,
        flowfabric._ff_error_sqlstate(v_refusal.code),
        flowfabric._ff_error_detail(v_refusal.code, p_fn, v_refusal.detail), null)::flowfabric.ff_execution_item;
end;
$$;
comment on function flowfabric._ff_refuse_item(
    integer, text, smallint, uuid, uuid, bigint, uuid, jsonb, boolean, boolean, uuid[], bigint, text) is
'Internal: the answer for an item of a batch that is refused or busy; NULL for one that may go on.';

create or replace function flowfabric._ff_busy_item(p_item integer, p_partition_key smallint, p_execution_id uuid)
returns flowfabric.ff_execution_item
language sql immutable parallel safe
as $$
    select row(
        p_item, flowfabric.ff_format_execution_id(p_partition_key, p_execution_id), 'busy', null, null, null, null
    )::flowfabric.ff_execution_item
$$;
comment on function flowfabric._ff_busy_item(integer, smallint, uuid) is
'Internal: the answer for an item of a batch that would have to wait for another session.';

create or replace function flowfabric._ff_busy_items(
    p_items integer[],
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_held_row_ids tid[],
    p_free_row_ids tid[]
)
returns flowfabric.ff_execution_item[]
language sql stable
as $$
    select coalesce(array_agg(flowfabric._ff_busy_item(u.item, u.partition_key, u.execution_id)), '{}')
    from unnest(p_items, p_partition_keys, p_execution_ids, p_held_row_ids, p_free_row_ids)
        as u (item, partition_key, execution_id, held_row_id, free_row_id)
    where u.held_row_id is not null and u.free_row_id is null
$$;
comment on function flowfabric._ff_busy_items(integer[], smallint[], uuid[], tid[], tid[]) is
'Internal: the answers for held items of a batch that _ff_lock_held_extras has left out.';

-- A stream's row is held by a transaction that has appended to it and is still open, a budget's by one that has
-- reserved or reported.
create or replace function flowfabric._ff_lock_held_extras(
    p_row_ids tid[],
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_attempt_indexes integer[],
    p_any_has_reservations boolean
)
returns tid[]
language plpgsql volatile
as $$
declare
    v_row_ids tid[];
    v_wanted text[];
    v_locked text[];
begin
    select array_agg(case when m.row_id is null or l.row_id is not null then u.row_id end order by u.number)
    into v_row_ids
    from unnest(p_row_ids, p_partition_keys, p_execution_ids, p_attempt_indexes)
        with ordinality as u (row_id, partition_key, execution_id, attempt_index, number)
    left join lateral (
        select c.ctid as row_id
        from flowfabric.ff_stream_meta as c
        where u.row_id is not null and c.partition_key = u.partition_key and c.execution_id = u.execution_id
            and c.attempt_index = u.attempt_index
        offset 0
    ) as m on true
    left join lateral (
        select c.ctid as row_id
        from flowfabric.ff_stream_meta as c
        where m.row_id is not null and c.partition_key = u.partition_key and c.execution_id = u.execution_id
            and c.attempt_index = u.attempt_index
        for no key update skip locked
    ) as l on true;
    if p_any_has_reservations then
        v_wanted := array(
            select distinct b.budget_id
            from unnest(v_row_ids, p_partition_keys, p_execution_ids) as u (row_id, partition_key, execution_id)
            cross join lateral (
                select r.budget_id
                from flowfabric.ff_budget_reservation as r
                where u.row_id is not null and r.partition_key = u.partition_key
                    and r.execution_id = u.execution_id and r.state = 'open'
                offset 0
            ) as b);
        v_locked := array(
            select b.budget_id
            from flowfabric.ff_budget_policy as b
            where b.budget_id = any (v_wanted)
            order by b.budget_id
            for no key update skip locked);
        if cardinality(v_locked) < cardinality(v_wanted) then
            v_row_ids := array(
                select case
                    when not exists (
                        select from flowfabric.ff_budget_reservation as r
                        join flowfabric.ff_budget_policy as b on b.budget_id = r.budget_id
                        where r.partition_key = u.partition_key and r.execution_id = u.execution_id
                            and r.state = 'open' and r.budget_id <> all (v_locked))
                    then u.row_id end
                from unnest(v_row_ids, p_partition_keys, p_execution_ids)
                    with ordinality as u (row_id, partition_key, execution_id, number)
                order by u.number);
        end if;
    end if;
    return v_row_ids;
end;
$$;
comment on function flowfabric._ff_lock_held_extras(tid[], smallint[], uuid[], integer[], boolean) is
'Internal: locks streams and budgets of the held items of a batch; NULL in the place of an item that would have to wait.';

-- What happens to held items

create or replace function flowfabric._ff_end_held_attempts(
    p_row_ids tid[],
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_attempt_indexes integer[],
    p_state flowfabric.ff_attempt_row_state,
    p_failure_reasons text[],
    p_failure_categories text[],
    p_any_has_row boolean,
    p_stream_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_execution_id uuid;
    v_attempt_index integer;
begin
    if p_state <> 'ended_success' then
        -- _ff_write_deferred_attempt, with the end already in it.
        insert into flowfabric.ff_attempt (
            partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id, lease_epoch,
            worker_id, worker_instance_id, created_at_ms, started_at_ms, ended_at_ms, failure_reason, failure_category)
        select
            e.partition_key, e.execution_id, e.total_attempt_count - 1, 'initial', p_state, e.current_attempt_id,
            e.current_lease_id, e.current_lease_epoch, e.current_worker_id, e.current_worker_instance_id,
            e.started_at_ms, e.started_at_ms, p_now_ms, u.failure_reason, u.failure_category
        from unnest(p_row_ids, p_failure_reasons, p_failure_categories) as u (row_id, failure_reason, failure_category)
        cross join lateral (
            select
                c.partition_key, c.execution_id, c.total_attempt_count, c.current_attempt_id, c.current_lease_id,
                c.current_lease_epoch, c.current_worker_id, c.current_worker_instance_id, c.started_at_ms,
                c.attempt_is_deferred
            from flowfabric.ff_exec_core as c
            where c.ctid = u.row_id
            offset 0
        ) as e
        where e.attempt_is_deferred;
    end if;
    if p_any_has_row then
        update flowfabric.ff_attempt as a
        set attempt_state = p_state,
            ended_at_ms = p_now_ms,
            failure_reason = h.failure_reason,
            failure_category = h.failure_category
        from (
            select u.failure_reason, u.failure_category, t.row_id
            from unnest(
                p_row_ids, p_partition_keys, p_execution_ids, p_attempt_indexes, p_failure_reasons,
                p_failure_categories)
                as u (row_id, partition_key, execution_id, attempt_index, failure_reason, failure_category)
            cross join lateral (
                select c.ctid as row_id
                from flowfabric.ff_attempt as c
                where c.partition_key = u.partition_key and c.execution_id = u.execution_id
                    and c.attempt_index = u.attempt_index and c.attempt_state = 'started'
                offset 0
            ) as t
            where u.row_id is not null
            offset 0
        ) as h
        where a.ctid = h.row_id;
    end if;
    -- After the locks, because the first frame of a stream may have been what they waited for.
    if not exists (select from flowfabric.ff_stream_meta) then
        return;
    end if;
    for v_execution_id, v_attempt_index in
        update flowfabric.ff_stream_meta as m
        set closed_at_ms = p_now_ms, closed_reason = p_stream_reason
        where m.ctid = any (array(
            select t.row_id
            from unnest(p_row_ids, p_partition_keys, p_execution_ids, p_attempt_indexes)
                as u (row_id, partition_key, execution_id, attempt_index)
            cross join lateral (
                select c.ctid as row_id
                from flowfabric.ff_stream_meta as c
                where c.partition_key = u.partition_key and c.execution_id = u.execution_id
                    and c.attempt_index = u.attempt_index
                offset 0
            ) as t
            where u.row_id is not null))
        returning m.execution_id, m.attempt_index
    loop
        perform flowfabric._ff_wake_tailers(v_execution_id, v_attempt_index);
    end loop;
end;
$$;
comment on function flowfabric._ff_end_held_attempts(
    tid[], smallint[], uuid[], integer[], flowfabric.ff_attempt_row_state, text[], text[], boolean, text, bigint) is
'Internal: _ff_end_attempt for the held items of a batch.';

create or replace function flowfabric._ff_emit_held_leases(
    p_row_ids tid[],
    p_event_type text,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_event_epoch smallint;
begin
    select c.event_epoch into v_event_epoch
    from flowfabric.ff_partition_config as c
    where c.lease_events;
    if not found then
        return;
    end if;
    insert into flowfabric.ff_lease_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, event_type, lease_id,
        lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
    select
        e.partition_key, v_event_epoch, p_now_ms, e.namespace, e.instance_tag, e.execution_id, p_event_type,
        e.current_lease_id, e.current_lease_epoch, e.total_attempt_count - 1, e.current_attempt_id,
        e.current_worker_id, e.current_worker_instance_id, p_reason
    from unnest(p_row_ids) as u (row_id)
    cross join lateral (
        select
            c.partition_key, c.namespace, c.instance_tag, c.execution_id, c.current_lease_id, c.current_lease_epoch,
            c.total_attempt_count, c.current_attempt_id, c.current_worker_id, c.current_worker_instance_id
        from flowfabric.ff_exec_core as c
        where c.ctid = u.row_id
        offset 0
    ) as e;
    perform flowfabric._ff_wake('ff_lease_event', '*');
end;
$$;
comment on function flowfabric._ff_emit_held_leases(tid[], text, text, bigint) is
'Internal: _ff_emit_lease for the held items of a batch, while their rows still name the lease.';

create or replace function flowfabric._ff_release_held_quota(p_row_ids tid[])
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_release_quota_slot(e.partition_key, e.execution_id)
    from unnest(p_row_ids) as u (row_id)
    cross join lateral (
        select c.partition_key, c.execution_id, c.quota_policy_id
        from flowfabric.ff_exec_core as c
        where c.ctid = u.row_id
        offset 0
    ) as e
    where e.quota_policy_id is not null;
end;
$$;
comment on function flowfabric._ff_release_held_quota(tid[]) is
'Internal: _ff_release_quota_slot for the held items of a batch that have a quota.';

-- The columns of _ff_set_unowned_state that can differ: an active, leased row has no delay, block, suspension or mark
-- of a lost lease, and no grant (HOTPATH 2.9; reading 9). An attempt that did not succeed has its row by now. The
-- events are made of what the update returns, the release before the end: statements of their own would read every row
-- again.
create or replace function flowfabric._ff_end_held(
    p_row_ids tid[],
    p_outcome flowfabric.ff_terminal_outcome,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_event_epoch smallint;
    v_emits_lease_events boolean;
    v_may_be_awaited boolean;
begin
    select c.event_epoch, c.lease_events, c.event_waiters_until_ms > p_now_ms
    into v_event_epoch, v_emits_lease_events, v_may_be_awaited
    from flowfabric.ff_partition_config as c;
    with ended as (
        update flowfabric.ff_exec_core as e
        set lifecycle_phase = 'terminal',
            ownership_state = 'unowned',
            terminal_outcome = p_outcome,
            attempt_state = 'attempt_terminal',
            ended_lease_id = e.current_lease_id,
            ended_worker_id = e.current_worker_id,
            ended_worker_instance_id = e.current_worker_instance_id,
            current_lease_id = null,
            current_worker_id = null,
            current_worker_instance_id = null,
            lease_acquired_at_ms = null,
            lease_expires_at_ms = null,
            lease_last_renewed_at_ms = null,
            attempt_timeout_at_ms = null,
            attempt_is_deferred = e.attempt_is_deferred and p_outcome = 'success',
            open_reservation_count = 0,
            deadline_at_ms = null,
            terminal_at_ms = p_now_ms,
            purge_after_ms = p_now_ms + e.retention_ms,
            last_transition_at_ms = p_now_ms,
            last_mutation_at_ms = p_now_ms
        where e.ctid = any (p_row_ids)
        returning
            e.partition_key, e.execution_id, e.namespace, e.instance_tag, e.lane_id, e.current_lease_epoch,
            e.current_attempt_id, e.total_attempt_count - 1 as attempt_index, e.ended_lease_id, e.ended_worker_id,
            e.ended_worker_instance_id
    ),
    completed as (
        insert into flowfabric.ff_completion_event (
            partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, lane_id, attempt_index,
            outcome)
        select
            e.partition_key, v_event_epoch, p_now_ms, e.namespace, e.instance_tag, e.execution_id, e.lane_id,
            e.attempt_index, p_outcome
        from ended as e
    )
    insert into flowfabric.ff_lease_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, event_type, lease_id,
        lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
    select
        e.partition_key, v_event_epoch, p_now_ms, e.namespace, e.instance_tag, e.execution_id, 'released',
        e.ended_lease_id, e.current_lease_epoch, e.attempt_index, e.current_attempt_id, e.ended_worker_id,
        e.ended_worker_instance_id, p_reason
    from ended as e
    where v_emits_lease_events;
    if v_may_be_awaited then
        if v_emits_lease_events then
            perform flowfabric._ff_wake('ff_lease_event', '*');
        end if;
        perform flowfabric._ff_wake('ff_completion', '*');
    end if;
end;
$$;
comment on function flowfabric._ff_end_held(tid[], flowfabric.ff_terminal_outcome, text, bigint) is
'Internal: _ff_become_terminal for the held items of a batch, with the events of their leases and ends.';

-- After the last execution row of the call was locked, cascades included: budgets come last in the lock order, and all
-- of them are locked at once, ascending, so that two calls never wait for each other's budgets crosswise. A batch has
-- locked those of its held items before. An item that ended has no reservations by its own row any more; a refused one
-- still has them and keeps them.
create or replace function flowfabric._ff_return_batch_reservations(
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_owners flowfabric.ff_execution_key[];
    v_budget_ids text[];
begin
    select
        array_agg(distinct row(r.partition_key, r.execution_id)::flowfabric.ff_execution_key),
        array_agg(distinct r.budget_id)
    into v_owners, v_budget_ids
    from unnest(p_partition_keys, p_execution_ids) as u (partition_key, execution_id)
    cross join lateral (
        select c.open_reservation_count
        from flowfabric.ff_exec_core as c
        where c.partition_key = u.partition_key and c.execution_id = u.execution_id
        offset 0
    ) as e
    cross join lateral (
        select b.partition_key, b.execution_id, b.budget_id
        from flowfabric.ff_budget_reservation as b
        where b.partition_key = u.partition_key and b.execution_id = u.execution_id and b.state = 'open'
        offset 0
    ) as r
    where e.open_reservation_count = 0;
    perform from flowfabric.ff_budget_policy as b
    where b.budget_id = any (v_budget_ids)
    order by b.budget_id
    for no key update;
    perform flowfabric._ff_return_reservations(o.partition_key, o.execution_id, 'lease_released', p_now_ms)
    from unnest(v_owners) as o (partition_key, execution_id);
end;
$$;
comment on function flowfabric._ff_return_batch_reservations(smallint[], uuid[], bigint) is
'Internal: gives back the open budget reservations of the items of a batch whose lease has ended.';
