-- ff_renew_leases: extend up to 1000 leases, each exactly as ff_renew_lease would; the one call of a renewal period.
--
-- Fence:  per item the whole triple of its current, unexpired lease.
-- Locks:  the ff_exec_core rows, ascending, those that nobody else holds; it waits for none.
-- Writes: the lease times of ff_exec_core; ff_lease_event only while the setting emit_lease_renewed is 1.
-- Raises: invalid_input for the call as a whole: the ttl, or an array that is missing, nested, too long or of another
--         length. An item's refusal is its row: invalid_input and the codes of _ff_check_fence.
-- Retry:  safe; a repeated call extends again from the time of the repeat.
--
-- A row that somebody else has locked is not waited for: this call holds many rows, and a cascade that holds one member
-- of a flow may be waiting for another. Its item is `busy` and not changed; the worker repeats it with ff_renew_lease,
-- which waits and holds nothing. Only a second look, without a lock, tells a busy row from a missing one.
create or replace function flowfabric.ff_renew_leases(
    p_execution_ids text[],
    p_lease_ids uuid[],
    p_lease_epochs bigint[],
    p_attempt_ids uuid[],
    p_lease_ttl_ms bigint default 30000
)
returns setof flowfabric.ff_renewal_item
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these three: 15_batch/_moves.sql
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_renew_leases';
    v_count integer := cardinality(p_execution_ids);
    v_keys record;
    v_row_ids tid[];
    v_are_locked boolean[];
    v_first_expiry_ms bigint;
    v_now_ms bigint;
begin
    if (v_count <= 1000 and cardinality(p_lease_ids) = v_count and cardinality(p_lease_epochs) = v_count
        and cardinality(p_attempt_ids) = v_count
        and coalesce(greatest(
            array_ndims(p_execution_ids), array_ndims(p_lease_ids), array_ndims(p_lease_epochs),
            array_ndims(p_attempt_ids)), 1) = 1) is not true
    then
        perform flowfabric._ff_raise_invalid_batch(
            array['execution_ids', 'lease_ids', 'lease_epochs', 'attempt_ids'],
            array[v_count, cardinality(p_lease_ids), cardinality(p_lease_epochs), cardinality(p_attempt_ids)],
            array[
                array_dims(p_execution_ids), array_dims(p_lease_ids), array_dims(p_lease_epochs),
                array_dims(p_attempt_ids)],
            4, c_fn);
    end if;
    if (p_lease_ttl_ms between 1 and 86400000) is not true then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'lease_ttl_ms', case when p_lease_ttl_ms is null then 'null' else 'out_of_range' end,
            p_lease_ttl_ms::text);
    end if;
    if v_count = 0 then
        return;
    end if;

    -- Some languages count from 0; a slice counts from 1.
    if array_lower(p_execution_ids, 1) <> 1 or array_lower(p_lease_ids, 1) <> 1 or array_lower(p_lease_epochs, 1) <> 1
        or array_lower(p_attempt_ids, 1) <> 1
    then
        p_execution_ids := p_execution_ids[:];
        p_lease_ids := p_lease_ids[:];
        p_lease_epochs := p_lease_epochs[:];
        p_attempt_ids := p_attempt_ids[:];
    end if;

    v_keys := flowfabric._ff_sort_batch(p_execution_ids, c_fn);
    -- As _ff_lock_batch, without waiting and whatever the flow.
    select
        array_agg(case when l.fence_matches then l.row_id end), array_agg(l.row_id is not null),
        min(case when l.fence_matches then l.lease_expires_at_ms end)
    into v_row_ids, v_are_locked, v_first_expiry_ms
    from (
        select
            e.row_id, e.lease_expires_at_ms,
            e.ownership_state = 'leased' and e.current_lease_id = p_lease_ids[v_keys.items[n.number]]
            and e.current_lease_epoch = p_lease_epochs[v_keys.items[n.number]]
            and e.current_attempt_id = p_attempt_ids[v_keys.items[n.number]] as fence_matches
        from generate_series(1, v_count) as n (number)
        left join lateral (
            select
                c.ctid as row_id, c.ownership_state, c.current_lease_id, c.current_lease_epoch, c.current_attempt_id,
                c.lease_expires_at_ms
            from flowfabric.ff_exec_core as c
            where c.partition_key = v_keys.partition_keys[n.number] and c.execution_id = v_keys.execution_ids[n.number]
                and not flowfabric._ff_is_repeat(v_keys.partition_keys, v_keys.execution_ids, n.number)
            for no key update skip locked
        ) as e on true
        offset 0
    ) as l;
    v_now_ms := flowfabric.ff_now_ms();
    if v_first_expiry_ms <= v_now_ms then
        v_row_ids := flowfabric._ff_without_expired(v_row_ids, v_now_ms);
    end if;

    if flowfabric._ff_setting_value('emit_lease_renewed') = 1 then
        perform flowfabric._ff_emit_held_leases(v_row_ids, 'renewed', null, v_now_ms);
    end if;
    update flowfabric.ff_exec_core as e
    set lease_expires_at_ms = v_now_ms + p_lease_ttl_ms,
        lease_last_renewed_at_ms = v_now_ms,
        last_mutation_at_ms = v_now_ms
    where e.ctid = any (v_row_ids);

    return query
    select
        u.item, lower(p_execution_ids[u.item] collate "C"), 'renewed', null::text, null::text, null::jsonb,
        v_now_ms + p_lease_ttl_ms, v_now_ms + p_lease_ttl_ms * 2 / 3, p_lease_epochs[u.item]
    from unnest(v_keys.items, v_row_ids) as u (item, row_id)
    where u.row_id is not null
    union all
    select u.item, r.execution_id, r.outcome, r.code, r.sqlstate, r.detail, null, null, null
    from (
        select
            i.item, i.partition_key, i.execution_id, i.is_locked, i.row_id,
            flowfabric._ff_is_repeat(v_keys.partition_keys, v_keys.execution_ids, i.number::integer) as is_repeat
        from unnest(v_keys.items, v_keys.partition_keys, v_keys.execution_ids, v_are_locked, v_row_ids)
            with ordinality as i (item, partition_key, execution_id, is_locked, row_id, number)
    ) as u
    cross join lateral flowfabric._ff_refuse_item(
        u.item, p_execution_ids[u.item], u.partition_key, u.execution_id, p_lease_ids[u.item], p_lease_epochs[u.item],
        p_attempt_ids[u.item], null, u.is_repeat, u.is_locked, null, v_now_ms, c_fn) as r
    where u.row_id is null
    order by 1;
end;
$$;

comment on function flowfabric.ff_renew_leases(text[], uuid[], bigint[], uuid[], bigint) is
'Extends up to 1000 leases that the caller holds; one row per item says until when, or busy, or why it was refused.';

grant execute on function flowfabric.ff_renew_leases(text[], uuid[], bigint[], uuid[], bigint)
to flowfabric_worker;
