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
-- which waits and holds nothing. Only a second look, without a lock, tells a busy row from a missing one (reading 13).
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
    v_are_repeats boolean[];
    v_are_locked boolean[];
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

    v_keys := flowfabric._ff_parse_batch(p_execution_ids, c_fn);
    -- As _ff_lock_batch, without waiting and whatever the flow.
    with locked as materialized (
        select
            i.item, i.is_repeat, e.row_id, e.lease_expires_at_ms,
            e.ownership_state = 'leased' and e.current_lease_id = i.lease_id
            and e.current_lease_epoch = i.lease_epoch and e.current_attempt_id = i.attempt_id as fence_matches
        from flowfabric._ff_batch_items(
            v_keys.partition_keys, v_keys.execution_ids, p_lease_ids, p_lease_epochs, p_attempt_ids) as i
        left join lateral (
            select
                c.ctid as row_id, c.ownership_state, c.current_lease_id, c.current_lease_epoch, c.current_attempt_id,
                c.lease_expires_at_ms
            from flowfabric.ff_exec_core as c
            where c.partition_key = i.partition_key and c.execution_id = i.execution_id and not i.is_repeat
            for no key update skip locked
        ) as e on true
    ),
    clock as materialized (
        select flowfabric.ff_now_ms() as read_at_ms from (select count(*) from locked as l) as all_locks
    ),
    judged as (
        select
            l.item, l.is_repeat, l.row_id, c.read_at_ms,
            (l.fence_matches and l.lease_expires_at_ms > c.read_at_ms) is true as is_held
        from locked as l
        cross join clock as c
        order by l.item
    )
    select
        max(j.read_at_ms), array_agg(case when j.is_held then j.row_id end), array_agg(j.is_repeat),
        array_agg(j.row_id is not null)
    into v_now_ms, v_row_ids, v_are_repeats, v_are_locked
    from judged as j;

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
        u.item::integer, flowfabric.ff_format_execution_id(u.partition_key, u.execution_id), 'renewed', null::text,
        null::text, null::jsonb, v_now_ms + p_lease_ttl_ms, v_now_ms + p_lease_ttl_ms * 2 / 3, u.lease_epoch
    from unnest(v_row_ids, v_keys.partition_keys, v_keys.execution_ids, p_lease_epochs)
        with ordinality as u (row_id, partition_key, execution_id, lease_epoch, item)
    where u.row_id is not null
    union all
    select
        u.item::integer, coalesce(r.execution_id, flowfabric.ff_format_execution_id(u.partition_key, u.execution_id)),
        coalesce(r.outcome, 'busy'), r.code, r.sqlstate, r.detail, null, null, null
    from unnest(
        v_row_ids, p_execution_ids, v_keys.partition_keys, v_keys.execution_ids, p_lease_ids, p_lease_epochs,
        p_attempt_ids, v_are_repeats, v_are_locked)
        with ordinality as u (
            row_id, given_id, partition_key, execution_id, lease_id, lease_epoch, attempt_id, is_repeat, is_locked,
            item)
    left join lateral flowfabric._ff_refuse_item(
        u.item::integer, u.given_id, u.partition_key, u.execution_id, u.lease_id, u.lease_epoch, u.attempt_id, null,
        u.is_repeat, u.is_locked, null, v_now_ms, c_fn) as r
        on u.is_locked or u.is_repeat or not exists (
            select from flowfabric.ff_exec_core as c
            where c.partition_key = u.partition_key and c.execution_id = u.execution_id)
    where u.row_id is null
    order by 1;
end;
$$;

comment on function flowfabric.ff_renew_leases(text[], uuid[], bigint[], uuid[], bigint) is
'Extends up to 1000 leases that the caller holds; one row per item says until when, or busy, or why it was refused.';

grant execute on function flowfabric.ff_renew_leases(text[], uuid[], bigint[], uuid[], bigint)
to flowfabric_worker;
