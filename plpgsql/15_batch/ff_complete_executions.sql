-- ff_complete_executions: complete up to 1000 executions, each exactly as ff_complete_execution would.
--
-- Fence:  per item the whole triple of its current, unexpired lease; there is no override.
-- Locks:  the ff_flow_core rows of members, ascending, then the ff_exec_core rows, ascending, then the ff_attempt rows;
--         ff_budget_policy rows last, ascending.
-- Writes: per completed item what ff_complete_execution writes.
-- Raises: invalid_input for the call as a whole: an array that is missing, nested, too long or of another length.
--         An item's refusal is its row: invalid_input, flow_membership_changed and the codes of _ff_check_fence.
-- Retry:  safe; a repeat answers execution_not_active per item, whose detail tells whether the first call won.
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
    v_held_count integer;
    v_item record;
    v_key flowfabric.ff_execution_key;
    v_exec flowfabric.ff_exec_core;
    v_answer flowfabric.ff_execution_item;
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

    v_keys := flowfabric._ff_parse_batch(p_execution_ids, c_fn);
    v_flow_ids := flowfabric._ff_lock_batch_flows(v_keys.partition_keys, v_keys.execution_ids);
    v_batch := flowfabric._ff_lock_batch(
        v_keys.partition_keys, v_keys.execution_ids, p_lease_ids, p_lease_epochs, p_attempt_ids);
    v_held_count := cardinality(array_remove(v_batch.row_ids, null));

    if v_held_count < v_count then
        perform flowfabric._ff_start_batch_cascades();
        for v_item in
            select
                u.item::integer, u.given_id, u.partition_key, u.execution_id, u.lease_id, u.lease_epoch, u.attempt_id,
                u.is_repeat, u.is_locked, u.result, u.result_encoding
            from unnest(
                p_execution_ids, v_keys.partition_keys, v_keys.execution_ids, p_lease_ids, p_lease_epochs,
                p_attempt_ids, v_batch.are_repeats, v_batch.are_locked, v_batch.row_ids, p_results,
                p_result_encodings)
                with ordinality as u (
                    given_id, partition_key, execution_id, lease_id, lease_epoch, attempt_id, is_repeat, is_locked,
                    row_id, result, result_encoding, item)
            where u.row_id is null
            order by u.item
        loop
            v_answer := flowfabric._ff_refuse_item(
                v_item.item, v_item.given_id, v_item.partition_key, v_item.execution_id, v_item.lease_id,
                v_item.lease_epoch, v_item.attempt_id, null, v_item.is_repeat, v_item.is_locked, v_flow_ids,
                v_batch.now_ms, c_fn);
            if v_answer.code is not null then
                v_answers := v_answers || v_answer;
                continue;
            end if;
            v_key := row(v_item.partition_key, v_item.execution_id)::flowfabric.ff_execution_key;
            v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
            -- Reservations go back at the end of the call, those of its cascade too: the next cascade must not lock an
            -- execution after a budget.
            v_exec.open_reservation_count := null;
            perform flowfabric._ff_end_attempt(
                v_exec, 'ended_success', null, null, 'attempt_success', v_batch.now_ms);
            if length(v_item.result) > 0 then
                perform flowfabric._ff_store_result(v_key, v_item.result, v_item.result_encoding);
            end if;
            perform flowfabric._ff_become_terminal(v_exec, 'success', 'completed', v_batch.now_ms);
            v_answers := v_answers || row(
                v_item.item, flowfabric._ff_wire_id(v_exec), 'completed', null, null, null, 'completed'
            )::flowfabric.ff_execution_item;
        end loop;
    end if;

    if v_held_count > 0 then
        perform flowfabric._ff_end_held_attempts(
            v_batch.row_ids, v_keys.partition_keys, v_keys.execution_ids, v_batch.attempt_indexes, 'ended_success',
            null, null, 'attempt_success', v_batch.now_ms);
        if p_results is not null then
            update flowfabric.ff_exec_payload as p
            set result = h.result, result_encoding = nullif(h.result_encoding, '')
            from (
                select u.result, u.result_encoding, t.row_id
                from unnest(
                    v_batch.row_ids, v_keys.partition_keys, v_keys.execution_ids, p_results, p_result_encodings)
                    as u (row_id, partition_key, execution_id, result, result_encoding)
                cross join lateral (
                    select c.ctid as row_id
                    from flowfabric.ff_exec_payload as c
                    where c.partition_key = u.partition_key and c.execution_id = u.execution_id
                    offset 0
                ) as t
                where u.row_id is not null and length(u.result) > 0
                offset 0
            ) as h
            where p.ctid = h.row_id;
        end if;
        perform flowfabric._ff_emit_held_leases(v_batch.row_ids, 'released', 'completed', v_batch.now_ms);
        if v_batch.any_has_quota then
            perform flowfabric._ff_release_held_quota(v_batch.row_ids);
        end if;
        perform flowfabric._ff_end_held(v_batch.row_ids, 'success', v_batch.now_ms);
    end if;
    if v_held_count < v_count then
        perform flowfabric._ff_end_batch_cascades(
            v_keys.partition_keys, v_keys.execution_ids, v_batch.any_has_reservations, v_batch.now_ms);
    elsif v_batch.any_has_reservations then
        perform flowfabric._ff_return_batch_reservations(
            v_keys.partition_keys, v_keys.execution_ids, v_batch.now_ms);
    end if;

    return query
    select
        u.item::integer, flowfabric.ff_format_execution_id(u.partition_key, u.execution_id), 'completed', null::text,
        null::text, null::jsonb, 'completed'::flowfabric.ff_public_state
    from unnest(v_batch.row_ids, v_keys.partition_keys, v_keys.execution_ids)
        with ordinality as u (row_id, partition_key, execution_id, item)
    where u.row_id is not null
    union all
    select a.item, a.execution_id, a.outcome, a.code, a.sqlstate, a.detail, a.public_state
    from unnest(v_answers) as a
    order by 1;
end;
$$;

comment on function flowfabric.ff_complete_executions(text[], uuid[], bigint[], uuid[], bytea[], text[]) is
'Completes up to 1000 executions in one call; one row per item says whether it was completed or why it was refused.';

grant execute on function flowfabric.ff_complete_executions(text[], uuid[], bigint[], uuid[], bytea[], text[])
to flowfabric_worker;
