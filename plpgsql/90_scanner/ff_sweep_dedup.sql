-- ff_sweep_dedup: delete keys whose time is over: of creations, suspends, signals, usage reports and reservations.
--
-- Fence:  none.
-- Locks:  the rows it deletes, without waiting.
-- Writes: deletes from ff_execution_idempotency, ff_suspend_dedup, ff_signal_dedup, ff_budget_usage_dedup and
--         ff_budget_reservation.
-- Raises: invalid_input.
-- Retry:  safe, and from any number of callers at once.
--
-- An expired key counts as absent everywhere, so this only keeps the tables small. The limit goes to the keys that have
-- been over for longest, whatever their table, so that a table that fills quickly does not keep the others waiting. A
-- reservation has an expiry only once it is closed.
create or replace function flowfabric.ff_sweep_dedup(p_limit integer default 1000)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_sweep_dedup';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_creations bigint;
    v_suspends bigint;
    v_signals bigint;
    v_reports bigint;
    v_reservations bigint;
    v_due bigint;
    v_count bigint;
    v_deleted bigint := 0::bigint;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    select
        count(*) filter (where d.kind = 'creation'),
        count(*) filter (where d.kind = 'suspend'),
        count(*) filter (where d.kind = 'signal'),
        count(*) filter (where d.kind = 'report'),
        count(*) filter (where d.kind = 'reservation'),
        count(*)
    into v_creations, v_suspends, v_signals, v_reports, v_reservations, v_due
    from (
        select u.kind
        from (
            (
                select 'creation' as kind, k.expires_at_ms
                from flowfabric.ff_execution_idempotency as k
                where k.expires_at_ms <= v_now_ms
                order by k.expires_at_ms
                limit p_limit
            )
            union all
            (
                select 'suspend', k.expires_at_ms
                from flowfabric.ff_suspend_dedup as k
                where k.expires_at_ms <= v_now_ms
                order by k.expires_at_ms
                limit p_limit
            )
            union all
            (
                select 'signal', k.expires_at_ms
                from flowfabric.ff_signal_dedup as k
                where k.expires_at_ms <= v_now_ms
                order by k.expires_at_ms
                limit p_limit
            )
            union all
            (
                select 'report', k.expires_at_ms
                from flowfabric.ff_budget_usage_dedup as k
                where k.expires_at_ms <= v_now_ms
                order by k.expires_at_ms
                limit p_limit
            )
            union all
            (
                select 'reservation', k.expires_at_ms
                from flowfabric.ff_budget_reservation as k
                where k.expires_at_ms <= v_now_ms
                order by k.expires_at_ms
                limit p_limit
            )
        ) as u
        order by u.expires_at_ms
        limit p_limit
    ) as d;

    delete from flowfabric.ff_execution_idempotency as k
    where k.ctid = any (array(
        select x.ctid
        from flowfabric.ff_execution_idempotency as x
        where x.expires_at_ms <= v_now_ms
        order by x.expires_at_ms
        limit v_creations
        for update skip locked));
    get diagnostics v_count = row_count;
    v_deleted := v_deleted + v_count;
    delete from flowfabric.ff_suspend_dedup as k
    where k.ctid = any (array(
        select x.ctid
        from flowfabric.ff_suspend_dedup as x
        where x.expires_at_ms <= v_now_ms
        order by x.expires_at_ms
        limit v_suspends
        for update skip locked));
    get diagnostics v_count = row_count;
    v_deleted := v_deleted + v_count;
    delete from flowfabric.ff_signal_dedup as k
    where k.ctid = any (array(
        select x.ctid
        from flowfabric.ff_signal_dedup as x
        where x.expires_at_ms <= v_now_ms
        order by x.expires_at_ms
        limit v_signals
        for update skip locked));
    get diagnostics v_count = row_count;
    v_deleted := v_deleted + v_count;
    delete from flowfabric.ff_budget_usage_dedup as k
    where k.ctid = any (array(
        select x.ctid
        from flowfabric.ff_budget_usage_dedup as x
        where x.expires_at_ms <= v_now_ms
        order by x.expires_at_ms
        limit v_reports
        for update skip locked));
    get diagnostics v_count = row_count;
    v_deleted := v_deleted + v_count;
    delete from flowfabric.ff_budget_reservation as k
    where k.ctid = any (array(
        select x.ctid
        from flowfabric.ff_budget_reservation as x
        where x.expires_at_ms <= v_now_ms
        order by x.expires_at_ms
        limit v_reservations
        for update skip locked));
    get diagnostics v_count = row_count;
    v_deleted := v_deleted + v_count;
    return row(v_deleted, greatest(v_due - v_deleted, 0), 0, v_deleted >= p_limit)::flowfabric.ff_scan;
end;
$$;

comment on function flowfabric.ff_sweep_dedup(integer) is
'Scanner: deletes expired keys of creations, suspends, signals and usage reports, and closed reservations.';

grant execute on function flowfabric.ff_sweep_dedup(integer) to flowfabric_operator;
