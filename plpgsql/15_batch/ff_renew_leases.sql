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
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_renew_leases';
    v_keys smallint[];
    v_ids uuid[];
    v_now_ms bigint;
    v_row_ids tid[];
    v_items integer[];
begin
    select k.partition_keys, k.execution_ids into v_keys, v_ids
    from flowfabric._ff_parse_batch(p_execution_ids, c_fn) as k;

    with locked as materialized (
        select i.item, e.row_id, e.lease_expires_at_ms,
            (e.lifecycle_phase = 'active' and e.ownership_state <> 'lease_revoked'
            and e.current_lease_id = i.lease_id and e.current_lease_epoch = i.lease_epoch and e.current_attempt_id = i.attempt_id) as holds
        from flowfabric._ff_batch_items(v_keys, v_ids, p_lease_ids, p_lease_epochs, p_attempt_ids) as i
        left join lateral (
            select e.ctid as row_id, e.lifecycle_phase, e.ownership_state, e.current_lease_id, e.current_lease_epoch,
                e.current_attempt_id, e.lease_expires_at_ms
            from flowfabric.ff_exec_core as e
            where e.partition_key = i.partition_key and e.execution_id = i.execution_id and not i.is_repeat
            for no key update skip locked
        ) as e on true
    ),
    clock as materialized (
        select flowfabric.ff_now_ms() as now_ms from (select count(*) from locked) as l
    )
    select max(c.now_ms), array_agg(l.item) filter (where l.holds and l.lease_expires_at_ms > c.now_ms),
        array_agg(l.row_id) filter (where l.holds and l.lease_expires_at_ms > c.now_ms)
    into v_now_ms, v_items, v_row_ids
    from locked as l, clock as c;

    update flowfabric.ff_exec_core as e
    set lease_expires_at_ms = v_now_ms + p_lease_ttl_ms,
        lease_last_renewed_at_ms = v_now_ms,
        last_mutation_at_ms = v_now_ms
    where e.ctid = any (v_row_ids);

    return query
    select r.item, flowfabric.ff_format_execution_id(v_keys[r.item], v_ids[r.item]), 'renewed'::text, null::text, null::text, null::jsonb, v_now_ms + p_lease_ttl_ms,
        v_now_ms + p_lease_ttl_ms * 2 / 3, p_lease_epochs[r.item]
    from unnest(v_items) as r (item) order by 1;
end;
$$;
