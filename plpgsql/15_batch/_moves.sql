-- The moves of a batch: what ff_complete_executions, ff_fail_executions and ff_renew_leases share.
--
-- An item whose locked row passes one plain comparison, and that belongs to no flow, is `held`: all held items of a
-- call are changed together, with one statement per table. Every other item gets a look of its own, through the moves
-- of the single call: there its refusal is found, or the cascade of a flow member runs.
--
-- Rows are found by key inside a LATERAL subquery, and changed by the ctid that was found there; `offset 0` keeps the
-- planner from making either a join, whose plan it would choose by statistics that are wrong on tables that fill and
-- empty all day (HOTPATH 4: 918 us per lease with 2 000 of them). With enable_seqscan = off, which the public
-- functions set, each statement has one possible plan. The ctid of a row cannot change while its lock is held.

-- Arguments

create or replace function flowfabric._ff_raise_invalid_batch(
    p_fields text[],
    p_lengths integer[],
    p_dimensions integer[],
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
        elsif p_lengths[i] <> p_lengths[1] or p_dimensions[i] > 1 then
            perform flowfabric._ff_raise_invalid(p_fn, p_fields[i], 'length_mismatch', p_lengths[i]::text);
        end if;
    end loop;
    perform flowfabric._ff_raise_invalid(p_fn, p_fields[1], 'too_many_items', p_lengths[1]::text);
end;
$$;
comment on function flowfabric._ff_raise_invalid_batch(text[], integer[], integer[], integer, text) is
'Internal: raises invalid_input for the first array of a batch that is missing, nested or of another length.';

-- Items

-- The casts alone take a third of the time of _ff_parse_execution_id but accept more (signs, spaces, leading zeros,
-- hyphens in other places), so they count only if every key formats back to the text that it came from.
create or replace function flowfabric._ff_parse_batch(
    p_execution_ids text[],
    p_fn text,
    out partition_keys smallint[],
    out execution_ids uuid[]
)
language plpgsql stable
as $$
declare
    v_given_id text;
    v_key flowfabric.ff_execution_key;
    v_all_are_wire_ids boolean;
begin
    begin
        select
            array_agg(k.partition_key), array_agg(k.execution_id),
            bool_and((k.partition_key >= 0 and lower(k.given_id collate "C")
                = flowfabric.ff_format_execution_id(k.partition_key, k.execution_id)) is true)
        into partition_keys, execution_ids, v_all_are_wire_ids
        from (
            select
                g.given_id,
                substr(g.given_id, 5, length(g.given_id) - 42)::smallint as partition_key,
                right(g.given_id, 36)::uuid as execution_id
            from unnest(p_execution_ids) as g (given_id)
            offset 0
        ) as k;
        if v_all_are_wire_ids then
            return;
        end if;
    exception when data_exception then
        null; -- One of the texts is beyond the casts.
    end;

    partition_keys := '{}';
    execution_ids := '{}';
    foreach v_given_id in array p_execution_ids loop
        begin
            v_key := flowfabric._ff_parse_execution_id(v_given_id, p_fn);
        exception when sqlstate 'ZV001' then
            v_key := null;
        end;
        partition_keys := partition_keys || v_key.partition_key;
        execution_ids := execution_ids || v_key.execution_id;
    end loop;
end;
$$;
comment on function flowfabric._ff_parse_batch(text[], text) is
'Internal: the keys behind the wire ids of a batch, NULL for a text that is none.';

create or replace function flowfabric._ff_batch_items(
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_lease_ids uuid[],
    p_lease_epochs bigint[],
    p_attempt_ids uuid[]
)
returns table (
    item integer,
    partition_key smallint,
    execution_id uuid,
    lease_id uuid,
    lease_epoch bigint,
    attempt_id uuid,
    is_repeat boolean
)
language sql immutable parallel safe
as $$
    select
        u.item::integer, u.partition_key, u.execution_id, u.lease_id, u.lease_epoch, u.attempt_id,
        u.execution_id is not null
        and row_number() over (partition by u.partition_key, u.execution_id order by u.item) > 1
    from unnest(p_partition_keys, p_execution_ids, p_lease_ids, p_lease_epochs, p_attempt_ids)
        with ordinality as u (partition_key, execution_id, lease_id, lease_epoch, attempt_id, item)
    order by u.partition_key, u.execution_id, u.item
    offset 0
$$;
comment on function flowfabric._ff_batch_items(smallint[], uuid[], uuid[], bigint[], uuid[]) is
'Internal: the items of a batch in the order in which they are locked; a repeat has the key of an earlier item.';

-- Locks

-- Membership is read without a lock: a flow is locked before its members (spec 30, R8).
create or replace function flowfabric._ff_lock_batch_flows(
    p_partition_keys smallint[],
    p_execution_ids uuid[]
)
returns uuid[]
language plpgsql volatile
as $$
declare
    v_flow_ids uuid[];
begin
    select array_agg(f.flow_id) into v_flow_ids
    from (
        select distinct i.partition_key, e.flow_id
        from unnest(p_partition_keys, p_execution_ids) as i (partition_key, execution_id)
        cross join lateral (
            select c.flow_id
            from flowfabric.ff_exec_core as c
            where c.partition_key = i.partition_key and c.execution_id = i.execution_id
            offset 0
        ) as e
        where e.flow_id is not null
        order by i.partition_key, e.flow_id
        offset 0
    ) as f
    -- A missing flow row is tolerated: retention may have removed it.
    left join lateral (
        select c.flow_id
        from flowfabric.ff_flow_core as c
        where c.partition_key = f.partition_key and c.flow_id = f.flow_id
        for no key update
    ) as locked on true;
    return coalesce(v_flow_ids, '{}');
end;
$$;
comment on function flowfabric._ff_lock_batch_flows(smallint[], uuid[]) is
'Internal: locks the flows of the executions of a batch, ascending, and returns their ids.';

-- `clock` is evaluated when the last lock is held, because it counts the locked rows first. Whatever changes a row must
-- be a statement of its own: the version that this one waited for is visible only to the next.
create or replace function flowfabric._ff_lock_batch(
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_lease_ids uuid[],
    p_lease_epochs bigint[],
    p_attempt_ids uuid[],
    out now_ms bigint,
    out held_items integer[],
    out held_row_ids tid[],
    out held_partition_keys smallint[],
    out held_execution_ids uuid[],
    out held_attempt_indexes integer[],
    out held_retry_counts integer[],
    out any_has_quota boolean,
    out any_has_reservations boolean,
    out other_items integer[],
    out missing_items integer[]
)
language plpgsql volatile
as $$
begin
    with locked as materialized (
        select
            i.item, i.partition_key, i.execution_id, i.is_repeat, e.row_id, e.total_attempt_count, e.retry_count,
            e.open_reservation_count, e.quota_policy_id, e.lease_expires_at_ms,
            e.flow_id is null and e.ownership_state = 'leased' and e.current_lease_id = i.lease_id
            and e.current_lease_epoch = i.lease_epoch and e.current_attempt_id = i.attempt_id as matches
        from flowfabric._ff_batch_items(
            p_partition_keys, p_execution_ids, p_lease_ids, p_lease_epochs, p_attempt_ids) as i
        left join lateral (
            select
                c.ctid as row_id, c.flow_id, c.ownership_state, c.current_lease_id, c.current_lease_epoch,
                c.current_attempt_id, c.lease_expires_at_ms, c.total_attempt_count, c.retry_count,
                c.open_reservation_count, c.quota_policy_id
            from flowfabric.ff_exec_core as c
            where c.partition_key = i.partition_key and c.execution_id = i.execution_id and not i.is_repeat
            for no key update
        ) as e on true
    ),
    clock as materialized (
        select flowfabric.ff_now_ms() as read_at_ms from (select count(*) from locked as l) as all_locks
    ),
    judged as (
        select
            l.item, l.partition_key, l.execution_id, l.row_id, l.total_attempt_count - 1 as attempt_index,
            l.retry_count, l.open_reservation_count > 0 as has_reservations, l.quota_policy_id is not null as has_quota,
            (l.matches and l.lease_expires_at_ms > c.read_at_ms) is true as is_held,
            l.row_id is null and l.execution_id is not null and not l.is_repeat as is_missing, c.read_at_ms
        from locked as l
        cross join clock as c
        order by l.item
    )
    select
        max(j.read_at_ms),
        array_agg(j.item) filter (where j.is_held),
        array_agg(j.row_id) filter (where j.is_held),
        array_agg(j.partition_key) filter (where j.is_held),
        array_agg(j.execution_id) filter (where j.is_held),
        array_agg(j.attempt_index) filter (where j.is_held),
        array_agg(j.retry_count) filter (where j.is_held),
        bool_or(j.has_quota) filter (where j.is_held),
        bool_or(j.has_reservations) filter (where j.is_held),
        array_agg(j.item) filter (where not j.is_held),
        array_agg(j.item) filter (where j.is_missing)
    into
        now_ms, held_items, held_row_ids, held_partition_keys, held_execution_ids, held_attempt_indexes,
        held_retry_counts, any_has_quota, any_has_reservations, other_items, missing_items
    from judged as j;
end;
$$;
comment on function flowfabric._ff_lock_batch(smallint[], uuid[], uuid[], bigint[], uuid[]) is
'Internal: locks the executions of a batch, ascending, reads the clock, and tells held items from all others.';

-- Events and ends of the held items

create or replace function flowfabric._ff_end_held_attempts(
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_attempt_indexes integer[],
    p_state flowfabric.ff_attempt_row_state,
    p_failure_reasons text[],
    p_failure_categories text[],
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
    update flowfabric.ff_attempt as a
    set attempt_state = p_state,
        ended_at_ms = p_now_ms,
        failure_reason = h.failure_reason,
        failure_category = h.failure_category
    from (
        select u.failure_reason, u.failure_category, t.row_id
        from unnest(p_partition_keys, p_execution_ids, p_attempt_indexes, p_failure_reasons, p_failure_categories)
            as u (partition_key, execution_id, attempt_index, failure_reason, failure_category)
        cross join lateral (
            select t.ctid as row_id
            from flowfabric.ff_attempt as t
            where t.partition_key = u.partition_key and t.execution_id = u.execution_id
                and t.attempt_index = u.attempt_index
            offset 0
        ) as t
        offset 0
    ) as h
    where a.ctid = h.row_id;
    for v_execution_id, v_attempt_index in
        update flowfabric.ff_stream_meta as m
        set closed_at_ms = p_now_ms, closed_reason = p_stream_reason
        where m.ctid = any (array(
            select t.row_id
            from unnest(p_partition_keys, p_execution_ids, p_attempt_indexes)
                as u (partition_key, execution_id, attempt_index)
            cross join lateral (
                select t.ctid as row_id
                from flowfabric.ff_stream_meta as t
                where t.partition_key = u.partition_key and t.execution_id = u.execution_id
                    and t.attempt_index = u.attempt_index
                offset 0
            ) as t))
        returning m.execution_id, m.attempt_index
    loop
        perform flowfabric._ff_wake('ff_stream', v_execution_id::text || '_' || v_attempt_index::text);
    end loop;
end;
$$;
comment on function flowfabric._ff_end_held_attempts(
    smallint[], uuid[], integer[], flowfabric.ff_attempt_row_state, text[], text[], text, bigint) is
'Internal: _ff_end_attempt for the held items of a batch.';

create or replace function flowfabric._ff_emit_held_releases(p_row_ids tid[], p_reason text, p_now_ms bigint)
returns void
language plpgsql volatile
as $$
begin
    if flowfabric._ff_setting_value('lease_events') = 0 then
        return;
    end if;
    insert into flowfabric.ff_lease_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, event_type, lease_id,
        lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
    select
        e.partition_key, c.event_epoch, p_now_ms, e.namespace, e.instance_tag, e.execution_id, 'released',
        e.current_lease_id, e.current_lease_epoch, e.total_attempt_count - 1, e.current_attempt_id,
        e.current_worker_id, e.current_worker_instance_id, p_reason
    from flowfabric.ff_partition_config as c
    cross join unnest(p_row_ids) as h (row_id)
    cross join lateral (
        select
            t.partition_key, t.namespace, t.instance_tag, t.execution_id, t.current_lease_id, t.current_lease_epoch,
            t.total_attempt_count, t.current_attempt_id, t.current_worker_id, t.current_worker_instance_id
        from flowfabric.ff_exec_core as t
        where t.ctid = h.row_id
        offset 0
    ) as e;
    perform flowfabric._ff_wake('ff_lease_event', '*');
end;
$$;
comment on function flowfabric._ff_emit_held_releases(tid[], text, bigint) is
'Internal: _ff_emit_lease for the held items of a batch, whose rows still name the lease.';

create or replace function flowfabric._ff_end_held(
    p_row_ids tid[],
    p_outcome flowfabric.ff_terminal_outcome,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_completion_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, lane_id, attempt_index, outcome)
    select
        e.partition_key, c.event_epoch, p_now_ms, e.namespace, e.instance_tag, e.execution_id, e.lane_id,
        e.total_attempt_count - 1, p_outcome
    from flowfabric.ff_partition_config as c
    cross join unnest(p_row_ids) as h (row_id)
    cross join lateral (
        select t.partition_key, t.namespace, t.instance_tag, t.execution_id, t.lane_id, t.total_attempt_count
        from flowfabric.ff_exec_core as t
        where t.ctid = h.row_id
        offset 0
    ) as e;
    perform flowfabric._ff_wake('ff_completion', '*');
    update flowfabric.ff_exec_core as e
    set lifecycle_phase = 'terminal',
        ownership_state = 'unowned',
        terminal_outcome = p_outcome,
        attempt_state = 'attempt_terminal',
        current_lease_id = null,
        current_worker_id = null,
        current_worker_instance_id = null,
        lease_acquired_at_ms = null,
        lease_expires_at_ms = null,
        lease_last_renewed_at_ms = null,
        attempt_timeout_at_ms = null,
        open_reservation_count = 0,
        deadline_at_ms = null,
        terminal_at_ms = p_now_ms,
        purge_after_ms = p_now_ms + e.retention_ms,
        last_transition_at_ms = p_now_ms,
        last_mutation_at_ms = p_now_ms
    where e.ctid = any (p_row_ids);
end;
$$;
comment on function flowfabric._ff_end_held(tid[], flowfabric.ff_terminal_outcome, bigint) is
'Internal: _ff_become_terminal for the held items of a batch.';
