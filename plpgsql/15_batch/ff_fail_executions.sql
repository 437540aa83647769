-- ff_fail_executions: fail up to 1000 attempts, each exactly as ff_fail_execution would.
--
-- Fence:  per item the whole triple of its current, unexpired lease; there is no override.
-- Locks:  as ff_complete_executions.
-- Writes: per failed item what ff_fail_execution writes; nothing for an item that is busy.
-- Raises: invalid_input for the call as a whole: an array that is missing, nested, too long or of another length.
--         An item's refusal is its row: invalid_input, invalid_policy_json and the codes of _ff_check_fence.
-- Retry:  safe; a repeat answers execution_not_active per item, whose detail tells whether the first call won.
--
-- An item is `busy` if another session holds a row that its end needs, as in ff_complete_executions. Repeat it, or use
-- ff_fail_execution, which waits.
--
-- One bad item harms no other. All items share the caller's transaction: either every row reported failed is, or none.
-- Executions without a flow are changed together, members of flows one by one in input order, because the end of one
-- may end another; whoever was ended that way is refused with execution_not_active.
create or replace function flowfabric.ff_fail_executions(
    p_execution_ids text[],
    p_lease_ids uuid[],
    p_lease_epochs bigint[],
    p_attempt_ids uuid[],
    p_failure_reasons text[] default null,
    p_failure_categories text[] default null,
    p_retry_policies jsonb[] default null
)
returns setof flowfabric.ff_failure_item
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these three: 15_batch/_moves.sql
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_fail_executions';
    v_count integer := cardinality(p_execution_ids);
    v_keys record;
    v_flow_ids uuid[];
    v_batch record;
    v_reasons text[];
    v_categories text[];
    v_policies jsonb[];
    v_malformed_policies jsonb[];
    v_valid_row_ids tid[];
    v_row_ids tid[];
    v_held_count integer;
    v_retry_row_ids tid[];
    v_end_row_ids tid[];
    v_delays_until_ms bigint[];
    v_item record;
    v_refused flowfabric.ff_execution_item;
    v_answer flowfabric.ff_failure_item;
    v_answers flowfabric.ff_failure_item[] := '{}'::flowfabric.ff_failure_item[];
    v_unended flowfabric.ff_execution_item[] := '{}'::flowfabric.ff_execution_item[];
    v_waits_left integer := 5;
begin
    if (v_count <= 1000 and cardinality(p_lease_ids) = v_count and cardinality(p_lease_epochs) = v_count
        and cardinality(p_attempt_ids) = v_count and coalesce(cardinality(p_failure_reasons), v_count) = v_count
        and coalesce(cardinality(p_failure_categories), v_count) = v_count
        and coalesce(cardinality(p_retry_policies), v_count) = v_count
        and coalesce(greatest(
            array_ndims(p_execution_ids), array_ndims(p_lease_ids), array_ndims(p_lease_epochs),
            array_ndims(p_attempt_ids), array_ndims(p_failure_reasons), array_ndims(p_failure_categories),
            array_ndims(p_retry_policies)), 1) = 1) is not true
    then
        perform flowfabric._ff_raise_invalid_batch(
            array[
                'execution_ids', 'lease_ids', 'lease_epochs', 'attempt_ids', 'failure_reasons', 'failure_categories',
                'retry_policies'],
            array[
                v_count, cardinality(p_lease_ids), cardinality(p_lease_epochs), cardinality(p_attempt_ids),
                cardinality(p_failure_reasons), cardinality(p_failure_categories), cardinality(p_retry_policies)],
            array[
                array_dims(p_execution_ids), array_dims(p_lease_ids), array_dims(p_lease_epochs),
                array_dims(p_attempt_ids), array_dims(p_failure_reasons), array_dims(p_failure_categories),
                array_dims(p_retry_policies)],
            4, c_fn);
    end if;
    if v_count = 0 then
        return;
    end if;

    -- Some languages count from 0; a slice counts from 1.
    if array_lower(p_execution_ids, 1) <> 1 or array_lower(p_lease_ids, 1) <> 1 or array_lower(p_lease_epochs, 1) <> 1
        or array_lower(p_attempt_ids, 1) <> 1 or array_lower(p_failure_reasons, 1) <> 1
        or array_lower(p_failure_categories, 1) <> 1 or array_lower(p_retry_policies, 1) <> 1
    then
        p_execution_ids := p_execution_ids[:];
        p_lease_ids := p_lease_ids[:];
        p_lease_epochs := p_lease_epochs[:];
        p_attempt_ids := p_attempt_ids[:];
        p_failure_reasons := p_failure_reasons[:];
        p_failure_categories := p_failure_categories[:];
        p_retry_policies := p_retry_policies[:];
    end if;

    v_keys := flowfabric._ff_sort_batch(p_execution_ids, c_fn);
    v_flow_ids := flowfabric._ff_lock_batch_flows(v_keys.partition_keys, v_keys.execution_ids);
    v_batch := flowfabric._ff_lock_batch(
        v_keys.items, v_keys.partition_keys, v_keys.execution_ids, p_lease_ids, p_lease_epochs, p_attempt_ids);
    v_row_ids := v_batch.row_ids;
    -- From here on all arrays are in the order of locks.
    select
        array_agg(
            case when octet_length(p_failure_reasons[u.item]) > 8192
                then flowfabric._ff_truncate_bytes(p_failure_reasons[u.item], 8192)
                else nullif(p_failure_reasons[u.item], '') end
            order by u.number),
        array_agg(
            case when octet_length(p_failure_categories[u.item]) > 256
                then flowfabric._ff_truncate_bytes(p_failure_categories[u.item], 256)
                else nullif(p_failure_categories[u.item], '') end
            order by u.number),
        array_agg(p_retry_policies[u.item] order by u.number)
    into v_reasons, v_categories, v_policies
    from unnest(v_keys.items) with ordinality as u (item, number);
    if p_retry_policies is not null then
        v_malformed_policies := array(
            select d.retry_policy
            from (select distinct u.retry_policy from unnest(p_retry_policies) as u (retry_policy)) as d
            where not flowfabric._ff_is_retry_policy(d.retry_policy));
        if cardinality(v_malformed_policies) > 0 then
            v_row_ids := array(
                select case when u.retry_policy = any (v_malformed_policies) then null else u.row_id end
                from unnest(v_batch.row_ids, v_policies) with ordinality as u (row_id, retry_policy, number)
                order by u.number);
        end if;
    end if;
    v_held_count := cardinality(array_remove(v_row_ids, null));

    if v_held_count < v_count then
        for v_item in
            select
                u.item, u.partition_key, u.execution_id, u.is_locked, u.reason, u.category, u.retry_policy,
                flowfabric._ff_is_repeat(v_keys.partition_keys, v_keys.execution_ids, u.number::integer) as is_repeat
            from unnest(
                v_keys.items, v_keys.partition_keys, v_keys.execution_ids, v_batch.are_locked, v_row_ids, v_reasons,
                v_categories, v_policies)
                with ordinality as u (
                    item, partition_key, execution_id, is_locked, row_id, reason, category, retry_policy, number)
            where u.row_id is null
            order by u.item
        loop
            v_refused := flowfabric._ff_refuse_item(
                v_item.item, p_execution_ids[v_item.item], v_item.partition_key, v_item.execution_id,
                p_lease_ids[v_item.item], p_lease_epochs[v_item.item], p_attempt_ids[v_item.item], v_item.retry_policy,
                v_item.is_repeat, v_item.is_locked, v_flow_ids, v_batch.now_ms, c_fn);
            if v_refused.outcome is null and v_waits_left > 0 then
                v_answer := flowfabric._ff_fail_item(
                    v_item.item, v_item.partition_key, v_item.execution_id, v_item.reason, v_item.category,
                    v_item.retry_policy, v_batch.now_ms, c_fn);
                v_waits_left := v_waits_left - (v_answer.outcome = 'busy')::integer;
                v_answers := v_answers || v_answer;
            elsif v_refused.outcome is null then
                v_unended := v_unended || flowfabric._ff_busy_item(
                    v_item.item, v_item.partition_key, v_item.execution_id);
            else
                v_unended := v_unended || v_refused;
            end if;
        end loop;
    end if;

    if v_held_count > 0
        and (v_batch.any_has_reservations or exists (select from flowfabric.ff_stream_meta))
    then
        v_valid_row_ids := v_row_ids;
        v_row_ids := flowfabric._ff_lock_held_extras(
            v_row_ids, v_keys.partition_keys, v_keys.execution_ids, v_batch.attempt_indexes,
            v_batch.any_has_reservations);
        v_unended := v_unended || flowfabric._ff_busy_items(
            v_keys.items, v_keys.partition_keys, v_keys.execution_ids, v_valid_row_ids, v_row_ids);
    end if;
    if v_held_count > 0 then
        select
            array_agg(case when d.is_retryable then d.row_id end),
            array_agg(case when not d.is_retryable then d.row_id end),
            array_agg(
                case when d.is_retryable
                    then v_batch.now_ms + flowfabric._ff_retry_delay_ms(d.retry_policy, d.retry_count, random())
                end)
        into v_retry_row_ids, v_end_row_ids, v_delays_until_ms
        from (
            select
                u.row_id, u.retry_count, coalesce(u.retry_policy, s.retry_policy) as retry_policy,
                case when u.row_id is not null then flowfabric._ff_is_retryable(
                    coalesce(u.retry_policy, s.retry_policy), u.retry_count, u.category)
                end as is_retryable
            from unnest(
                v_row_ids, v_keys.partition_keys, v_keys.execution_ids, v_batch.retry_counts, v_categories, v_policies)
                with ordinality as u (
                    row_id, partition_key, execution_id, retry_count, category, retry_policy, number)
            left join lateral (
                select c.policy -> 'retry_policy' as retry_policy
                from flowfabric.ff_exec_payload as c
                where u.row_id is not null and u.retry_policy is null
                    and c.partition_key = u.partition_key and c.execution_id = u.execution_id
                offset 0
            ) as s on true
            order by u.number
            offset 0
        ) as d;

        perform flowfabric._ff_end_held_attempts(
            v_row_ids, v_keys.partition_keys, v_keys.execution_ids, v_batch.attempt_indexes, 'ended_failure',
            v_reasons, v_categories, v_batch.any_has_attempt_row, 'attempt_failure', v_batch.now_ms);
        if v_batch.any_has_quota then
            perform flowfabric._ff_release_held_quota(v_row_ids);
        end if;
        if cardinality(array_remove(v_end_row_ids, null)) > 0 then
            perform flowfabric._ff_note_held_failures(
                v_end_row_ids, v_keys.partition_keys, v_keys.execution_ids, v_reasons);
            perform flowfabric._ff_end_held(v_end_row_ids, 'failed', 'failed_terminal', v_batch.now_ms);
        end if;
        if cardinality(array_remove(v_retry_row_ids, null)) > 0 then
            perform flowfabric._ff_emit_held_leases(
                v_retry_row_ids, 'released', 'failed_retry_scheduled', v_batch.now_ms);
            perform flowfabric._ff_note_held_retries(
                v_retry_row_ids, v_keys.partition_keys, v_keys.execution_ids, v_batch.attempt_indexes, v_reasons);
            perform flowfabric._ff_delay_held_retries(
                v_retry_row_ids, v_batch.attempt_indexes, v_reasons, v_delays_until_ms, v_batch.now_ms);
        end if;
    end if;
    if v_batch.any_has_reservations then
        perform flowfabric._ff_return_batch_reservations(
            v_keys.partition_keys, v_keys.execution_ids, v_batch.now_ms);
    end if;

    return query
    select
        u.item, lower(p_execution_ids[u.item] collate "C"),
        case when u.delay_until_ms is null then 'terminal_failed' else 'retry_scheduled' end, null::text, null::text,
        null::jsonb,
        case when u.delay_until_ms is null then 'failed'::flowfabric.ff_public_state else 'delayed' end,
        u.delay_until_ms, case when u.delay_until_ms is not null then u.attempt_index + 1 end
    from unnest(v_keys.items, v_row_ids, v_batch.attempt_indexes, v_delays_until_ms)
        as u (item, row_id, attempt_index, delay_until_ms)
    where u.row_id is not null
    union all
    select
        a.item, a.execution_id, a.outcome, a.code, a.sqlstate, a.detail, a.public_state, a.delay_until_ms,
        a.next_attempt_index
    from unnest(v_answers) as a
    union all
    select
        r.item, r.execution_id, r.outcome, r.code, r.sqlstate, r.detail, null, null, null
    from unnest(v_unended) as r
    order by 1;
end;
$$;

comment on function flowfabric.ff_fail_executions(text[], uuid[], bigint[], uuid[], text[], text[], jsonb[]) is
'Fails up to 1000 attempts and waits for none; one row per item says retried, ended, busy or why it was refused.';

grant execute on function flowfabric.ff_fail_executions(text[], uuid[], bigint[], uuid[], text[], text[], jsonb[])
to flowfabric_worker;

-- As _ff_complete_item.
create or replace function flowfabric._ff_fail_item(
    p_item integer,
    p_partition_key smallint,
    p_execution_id uuid,
    p_failure_reason text,
    p_failure_category text,
    p_retry_policy jsonb,
    p_now_ms bigint,
    p_fn text
)
returns flowfabric.ff_failure_item
language plpgsql volatile
set lock_timeout = '10ms'
as $$
declare
    v_failure flowfabric.ff_failure;
begin
    v_failure := flowfabric._ff_fail_attempt(
        flowfabric._ff_lock_execution(row(p_partition_key, p_execution_id)::flowfabric.ff_execution_key, p_fn),
        p_failure_reason, p_failure_category, p_retry_policy, p_now_ms);
    return row(
        p_item, v_failure.execution_id, v_failure.outcome, null, null, null, v_failure.public_state,
        v_failure.delay_until_ms, v_failure.next_attempt_index)::flowfabric.ff_failure_item;
exception when lock_not_available or deadlock_detected then
    return row(
        p_item, flowfabric.ff_format_execution_id(p_partition_key, p_execution_id), 'busy', null, null, null, null,
        null, null)::flowfabric.ff_failure_item;
end;
$$;
comment on function flowfabric._ff_fail_item(
    integer, smallint, uuid, text, text, jsonb, bigint, text) is
'Internal: fails one item of a batch through the moves of the single call; busy if that would have to wait.';

create or replace function flowfabric._ff_note_held_failures(
    p_row_ids tid[],
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_failure_reasons text[]
)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_exec_note as n (partition_key, execution_id, failure_reason)
    select u.partition_key, u.execution_id, u.failure_reason
    from unnest(p_row_ids, p_partition_keys, p_execution_ids, p_failure_reasons)
        as u (row_id, partition_key, execution_id, failure_reason)
    where u.row_id is not null
    on conflict (partition_key, execution_id) do update set failure_reason = excluded.failure_reason
$$;
comment on function flowfabric._ff_note_held_failures(tid[], smallint[], uuid[], text[]) is
'Internal: _ff_note_failure for the held items of a batch that end.';

create or replace function flowfabric._ff_note_held_retries(
    p_row_ids tid[],
    p_partition_keys smallint[],
    p_execution_ids uuid[],
    p_attempt_indexes integer[],
    p_failure_reasons text[]
)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_exec_note as n (
        partition_key, execution_id, failure_reason, pending_retry_reason, pending_previous_attempt_index)
    select
        u.partition_key, u.execution_id, u.failure_reason, u.failure_reason, u.attempt_index
    from unnest(p_row_ids, p_partition_keys, p_execution_ids, p_attempt_indexes, p_failure_reasons)
        as u (row_id, partition_key, execution_id, attempt_index, failure_reason)
    where u.row_id is not null
    on conflict (partition_key, execution_id) do update
    set failure_reason = excluded.failure_reason,
        pending_retry_reason = excluded.pending_retry_reason,
        pending_previous_attempt_index = excluded.pending_previous_attempt_index
$$;
comment on function flowfabric._ff_note_held_retries(tid[], smallint[], uuid[], integer[], text[]) is
'Internal: _ff_note_retry for the held items of a batch that are retried.';

-- As in _ff_end_held: the columns of _ff_set_unowned_state that can differ after an active, leased row.
create or replace function flowfabric._ff_delay_held_retries(
    p_row_ids tid[],
    p_attempt_indexes integer[],
    p_failure_reasons text[],
    p_delays_until_ms bigint[],
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_announce_eligible(
        l.lane_id, 0, 0, '', (select min(u.delay_until_ms) from unnest(p_delays_until_ms) as u (delay_until_ms)),
        p_now_ms)
    from (select distinct e.lane_id from flowfabric.ff_exec_core as e where e.ctid = any (p_row_ids)) as l;
    update flowfabric.ff_exec_core as e
    set lifecycle_phase = 'runnable',
        ownership_state = 'unowned',
        eligibility_state = 'not_eligible_until_time',
        blocking_reason = 'waiting_for_retry_backoff',
        blocking_detail = h.blocking_detail,
        attempt_state = 'pending_retry_attempt',
        delay_until_ms = h.delay_until_ms,
        lease_reclaim_count = 0,
        retry_count = e.retry_count + 1,
        current_attempt_id = null,
        current_lease_id = null,
        current_worker_id = null,
        current_worker_instance_id = null,
        lease_acquired_at_ms = null,
        lease_expires_at_ms = null,
        lease_last_renewed_at_ms = null,
        attempt_timeout_at_ms = null,
        attempt_is_deferred = false,
        open_reservation_count = 0,
        last_transition_at_ms = p_now_ms,
        last_mutation_at_ms = p_now_ms
    from (
        select
            u.row_id, u.delay_until_ms,
            'until=' || u.delay_until_ms::text || ' attempt=' || u.attempt_index::text
            || coalesce(' reason=' || left(u.failure_reason, 200), '') as blocking_detail
        from unnest(p_row_ids, p_attempt_indexes, p_failure_reasons, p_delays_until_ms)
            as u (row_id, attempt_index, failure_reason, delay_until_ms)
        where u.row_id is not null
        offset 0
    ) as h
    where e.ctid = h.row_id;
end;
$$;
comment on function flowfabric._ff_delay_held_retries(tid[], integer[], text[], bigint[], bigint) is
'Internal: _ff_become_delayed for the held items of a batch that are retried.';
