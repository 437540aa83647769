-- ff_complete_executions: complete up to 1000 executions, each exactly as ff_complete_execution would.
--
-- Fence:  per item the whole triple of its current, unexpired lease; there is no override.
-- Locks:  the ff_flow_core rows of members, ascending, then the ff_exec_core rows, ascending, then ff_stream_meta and
--         ff_budget_policy rows: those that no other session holds. What the end of a member needs is waited for at
--         most 50 ms per call.
-- Writes: per completed item what ff_complete_execution writes; nothing for an item that is busy.
-- Raises: invalid_input for the call as a whole: an array that is missing, nested, too long or of another length.
--         An item's refusal is its row: invalid_input, payload_too_large and the codes of _ff_check_fence.
-- Retry:  safe; a repeat answers execution_not_active per item, whose detail tells whether the first call won.
--
-- An item is `busy` if another session holds a row that its end needs: the execution, its flow, a member that its end
-- changes, its stream or a budget. Repeat it, or use ff_complete_execution, which waits.
--
-- One bad item harms no other. All items share the caller's transaction: either every row reported completed is, or
-- none. Executions without a flow are changed together, members of flows one by one in input order, because the end of
-- one may end another; whoever was ended that way is refused with execution_not_active.
create or replace function flowfabric.ff_complete_executions(
    p_execution_ids text[],
    p_lease_ids uuid[],
    p_lease_epochs bigint[],
    p_attempt_ids uuid[],
    p_results bytea[] default null,
    p_result_encodings text[] default null
)
returns setof flowfabric.ff_execution_item
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these three: 15_batch/_moves.sql
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_complete_executions';
    v_count integer := cardinality(p_execution_ids);
    v_keys record;
    v_flow_ids uuid[];
    v_batch record;
    v_row_ids tid[];
    v_held_count integer;
    v_too_large integer[] := '{}'::integer[];
    v_item record;
    v_answer flowfabric.ff_execution_item;
    v_waits_left integer := 5;
    v_answers flowfabric.ff_execution_item[] := '{}'::flowfabric.ff_execution_item[];
begin
    if (v_count <= 1000 and cardinality(p_lease_ids) = v_count and cardinality(p_lease_epochs) = v_count
        and cardinality(p_attempt_ids) = v_count and coalesce(cardinality(p_results), v_count) = v_count
        and coalesce(cardinality(p_result_encodings), v_count) = v_count
        and coalesce(greatest(
            array_ndims(p_execution_ids), array_ndims(p_lease_ids), array_ndims(p_lease_epochs),
            array_ndims(p_attempt_ids), array_ndims(p_results), array_ndims(p_result_encodings)), 1) = 1) is not true
    then
        perform flowfabric._ff_raise_invalid_batch(
            array['execution_ids', 'lease_ids', 'lease_epochs', 'attempt_ids', 'results', 'result_encodings'],
            array[
                v_count, cardinality(p_lease_ids), cardinality(p_lease_epochs), cardinality(p_attempt_ids),
                cardinality(p_results), cardinality(p_result_encodings)],
            array[
                array_dims(p_execution_ids), array_dims(p_lease_ids), array_dims(p_lease_epochs),
                array_dims(p_attempt_ids), array_dims(p_results), array_dims(p_result_encodings)],
            4, c_fn);
    end if;
    if v_count = 0 then
        return;
    end if;

    -- Some languages count from 0; a slice counts from 1.
    if array_lower(p_execution_ids, 1) <> 1 or array_lower(p_lease_ids, 1) <> 1 or array_lower(p_lease_epochs, 1) <> 1
        or array_lower(p_attempt_ids, 1) <> 1 or array_lower(p_results, 1) <> 1
        or array_lower(p_result_encodings, 1) <> 1
    then
        p_execution_ids := p_execution_ids[:];
        p_lease_ids := p_lease_ids[:];
        p_lease_epochs := p_lease_epochs[:];
        p_attempt_ids := p_attempt_ids[:];
        p_results := p_results[:];
        p_result_encodings := p_result_encodings[:];
    end if;

    v_keys := flowfabric._ff_sort_batch(p_execution_ids, c_fn);
    v_flow_ids := flowfabric._ff_lock_batch_flows(v_keys.partition_keys, v_keys.execution_ids);
    v_batch := flowfabric._ff_lock_batch(
        v_keys.items, v_keys.partition_keys, v_keys.execution_ids, p_lease_ids, p_lease_epochs, p_attempt_ids);
    -- Small results make a small array, and encodings are nearly always one: then each is within the limits.
    if p_results is not null then
        if (pg_column_size(p_results) <= 65536 and (p_result_encodings is null or (
            p_result_encodings[1] = all (p_result_encodings)
            and octet_length(p_result_encodings[1]) <= 256))) is not true
        then
            v_too_large := flowfabric._ff_too_large_results(p_results, p_result_encodings);
            if v_too_large <> '{}'::integer[] then
                v_batch.row_ids := array(
                    select case when u.item <> all (v_too_large) then u.row_id end
                    from unnest(v_batch.row_ids, v_keys.items) with ordinality as u (row_id, item, number)
                    order by u.number);
            end if;
        end if;
    end if;
    v_held_count := cardinality(array_remove(v_batch.row_ids, null));

    if v_held_count < v_count then
        for v_item in
            select
                u.item, u.partition_key, u.execution_id, u.is_locked,
                flowfabric._ff_is_repeat(v_keys.partition_keys, v_keys.execution_ids, u.number::integer) as is_repeat
            from unnest(
                v_keys.items, v_keys.partition_keys, v_keys.execution_ids, v_batch.are_locked, v_batch.row_ids)
                with ordinality as u (item, partition_key, execution_id, is_locked, row_id, number)
            where u.row_id is null
            order by u.item
        loop
            v_answer := flowfabric._ff_refuse_item(
                v_item.item, p_execution_ids[v_item.item], v_item.partition_key, v_item.execution_id,
                p_lease_ids[v_item.item], p_lease_epochs[v_item.item], p_attempt_ids[v_item.item], null,
                v_item.is_repeat, v_item.is_locked, v_flow_ids, v_batch.now_ms, c_fn);
            if v_answer.outcome is null then
                v_answer := case
                    when v_item.item = any (v_too_large) then flowfabric._ff_refuse_result(
                        v_item.item, flowfabric.ff_format_execution_id(v_item.partition_key, v_item.execution_id),
                        p_results[v_item.item], p_result_encodings[v_item.item], c_fn)
                    when v_waits_left > 0 then flowfabric._ff_complete_item(
                        v_item.item, v_item.partition_key, v_item.execution_id, p_results[v_item.item],
                        p_result_encodings[v_item.item], v_batch.now_ms, c_fn)
                    else flowfabric._ff_busy_item(v_item.item, v_item.partition_key, v_item.execution_id)
                end;
                v_waits_left := v_waits_left - (v_answer.outcome = 'busy')::integer;
            end if;
            v_answers := v_answers || v_answer;
        end loop;
    end if;

    v_row_ids := v_batch.row_ids;
    if v_held_count > 0 then
        if v_batch.any_has_reservations or exists (select from flowfabric.ff_stream_meta) then
            v_row_ids := flowfabric._ff_lock_held_extras(
                v_row_ids, v_keys.partition_keys, v_keys.execution_ids, v_batch.attempt_indexes,
                v_batch.any_has_reservations);
            v_answers := v_answers || flowfabric._ff_busy_items(
                v_keys.items, v_keys.partition_keys, v_keys.execution_ids, v_batch.row_ids, v_row_ids);
        end if;
        perform flowfabric._ff_end_held_attempts(
            v_row_ids, v_keys.partition_keys, v_keys.execution_ids, v_batch.attempt_indexes, 'ended_success',
            null, null, v_batch.any_has_attempt_row, 'attempt_success', v_batch.now_ms);
        if p_results is not null then
            -- _ff_store_result
            insert into flowfabric.ff_exec_payload (partition_key, execution_id, result, result_encoding)
            select u.partition_key, u.execution_id, p_results[u.item], nullif(p_result_encodings[u.item], '')
            from unnest(v_row_ids, v_keys.items, v_keys.partition_keys, v_keys.execution_ids)
                as u (row_id, item, partition_key, execution_id)
            where u.row_id is not null and length(p_results[u.item]) > 0
            on conflict (partition_key, execution_id) do update
            set result = excluded.result, result_encoding = excluded.result_encoding;
        end if;
        if v_batch.any_has_quota then
            perform flowfabric._ff_release_held_quota(v_row_ids);
        end if;
        perform flowfabric._ff_end_held(v_row_ids, 'success', 'completed', v_batch.now_ms);
    end if;
    if v_batch.any_has_reservations then
        perform flowfabric._ff_return_batch_reservations(
            v_keys.partition_keys, v_keys.execution_ids, v_batch.now_ms);
    end if;

    if cardinality(v_answers) = 0 then
        return query
        select
            g.item, lower(p_execution_ids[g.item] collate "C"), 'completed', null::text, null::text, null::jsonb,
            'completed'::flowfabric.ff_public_state
        from generate_series(1, v_count) as g (item);
        return;
    end if;
    return query
    select
        u.item, lower(p_execution_ids[u.item] collate "C"), 'completed', null::text, null::text, null::jsonb,
        'completed'::flowfabric.ff_public_state
    from unnest(v_keys.items, v_row_ids) as u (item, row_id)
    where u.row_id is not null
    union all
    select a.item, a.execution_id, a.outcome, a.code, a.sqlstate, a.detail, a.public_state
    from unnest(v_answers) as a
    order by 1;
end;
$$;

comment on function flowfabric.ff_complete_executions(text[], uuid[], bigint[], uuid[], bytea[], text[]) is
'Completes up to 1000 executions and waits for none; one row per item says completed, busy or why it was refused.';

grant execute on function flowfabric.ff_complete_executions(text[], uuid[], bigint[], uuid[], bytea[], text[])
to flowfabric_worker;

-- The lock timeout ends a wait for a row that only the cascade of a member finds. The block undoes the item alone.
create or replace function flowfabric._ff_complete_item(
    p_item integer,
    p_partition_key smallint,
    p_execution_id uuid,
    p_result bytea,
    p_result_encoding text,
    p_now_ms bigint,
    p_fn text
)
returns flowfabric.ff_execution_item
language plpgsql volatile
set lock_timeout = '10ms'
as $$
declare
    v_key flowfabric.ff_execution_key := row(p_partition_key, p_execution_id)::flowfabric.ff_execution_key;
    v_exec flowfabric.ff_exec_core := flowfabric._ff_lock_execution(v_key, p_fn);
begin
    perform flowfabric._ff_end_attempt(v_exec, 'ended_success', null, null, 'attempt_success', p_now_ms);
    if length(p_result) > 0 then
        perform flowfabric._ff_store_result(v_key, p_result, p_result_encoding, p_fn);
    end if;
    perform flowfabric._ff_become_terminal(v_exec, 'success', 'completed', p_now_ms);
    return row(p_item, flowfabric._ff_wire_id(v_exec), 'completed', null, null, null, 'completed')
    ::flowfabric.ff_execution_item;
exception when lock_not_available or deadlock_detected then
    return flowfabric._ff_busy_item(p_item, p_partition_key, p_execution_id);
end;
$$;
comment on function flowfabric._ff_complete_item(integer, smallint, uuid, bytea, text, bigint, text) is
'Internal: completes one item of a batch through the moves of the single call; busy if that would have to wait.';

create or replace function flowfabric._ff_too_large_results(p_results bytea[], p_result_encodings text[])
returns integer[]
language plpgsql stable
as $$
declare
    v_limit bigint := flowfabric._ff_setting_value('max_payload_bytes');
begin
    return array(
        select u.item::integer
        from unnest(p_results, p_result_encodings) with ordinality as u (result, encoding, item)
        where octet_length(u.result) > v_limit or (octet_length(u.result) > 0 and octet_length(u.encoding) > 256));
end;
$$;
comment on function flowfabric._ff_too_large_results(bytea[], text[]) is
'Internal: the items of a batch whose result, or the encoding of it, is larger than allowed.';

create or replace function flowfabric._ff_refuse_result(
    p_item integer,
    p_execution_id text,
    p_result bytea,
    p_result_encoding text,
    p_fn text
)
returns flowfabric.ff_execution_item
language plpgsql stable
as $$
declare
    v_detail text;
begin
    perform flowfabric._ff_check_payload_size(octet_length(p_result), 'result', p_fn);
    perform flowfabric._ff_check_label(p_result_encoding, 'result_encoding', p_fn);
    return null; -- not reached
exception
    when sqlstate 'ZV000' then
        get stacked diagnostics v_detail = pg_exception_detail;
        return row(
            p_item, p_execution_id, 'refused', sqlerrm, flowfabric._ff_error_sqlstate(sqlerrm), v_detail::jsonb, null
        )::flowfabric.ff_execution_item;
end;
$$;
comment on function flowfabric._ff_refuse_result(integer, text, bytea, text, text) is
'Internal: the answer for an item of a batch whose result is too large.';
