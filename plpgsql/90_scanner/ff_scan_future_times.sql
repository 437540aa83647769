-- ff_scan_future_times: bring back to the present what was dated by a clock that was ahead.
--
-- Fence:  none.
-- Locks:  the rows it changes, without waiting.
-- Writes: the lease times of ff_exec_core, delay_until_ms after a failure or a resume; next_reset_at_ms of
--         ff_budget_policy; last_heartbeat_ms of ff_worker_registry; the grace of ff_cancel_backlog;
--         ff_scanner_failure.
-- Raises: invalid_input.
-- Retry:  safe, and from any number of callers at once.
--
-- When a clock that was ahead goes back, a time that was counted from its "now" is too late by as much: the lease of a
-- worker that died would last for a day, a retry would wait for one. Such a row also says when it was written, which is
-- later than now. Here the same duration is counted from now. The holder of a lease keeps it for its whole lifetime; a
-- time that a caller named is left as it is. What is read are the latest times, up to a limit for each kind: others
-- behind them come to an end by themselves. Ten seconds are no matter: sessions read the clock one after the other.
create or replace function flowfabric.ff_scan_future_times(p_limit integer default 1000)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_future_times';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_counts integer[];
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    v_counts := array[
        flowfabric._ff_mend_leases(p_limit, v_now_ms, v_now_ms + 10000),
        flowfabric._ff_mend_delays(p_limit, v_now_ms, v_now_ms + 10000),
        flowfabric._ff_mend_schedules(p_limit, v_now_ms, v_now_ms + 10000)];
    return row(
        (select sum(c.mended) from unnest(v_counts) as c (mended)), 0, 0, p_limit <= any (v_counts)
    )::flowfabric.ff_scan;
end;
$$;

comment on function flowfabric.ff_scan_future_times(integer) is
'Scanner: counts leases, retry delays, budget periods and heartbeats from now that were dated by a clock that was ahead.';

grant execute on function flowfabric.ff_scan_future_times(integer) to flowfabric_operator;

create or replace function flowfabric._ff_mend_leases(p_limit integer, p_now_ms bigint, p_future_ms bigint)
returns integer
language plpgsql volatile
as $$
declare
    v_mended integer;
begin
    update flowfabric.ff_exec_core as e
    set lease_expires_at_ms = p_now_ms + e.lease_expires_at_ms - e.lease_last_renewed_at_ms,
        lease_last_renewed_at_ms = p_now_ms,
        lease_acquired_at_ms = least(e.lease_acquired_at_ms, p_now_ms),
        attempt_timeout_at_ms = e.attempt_timeout_at_ms - greatest(e.lease_acquired_at_ms - p_now_ms, 0)
    where e.ctid = any (array(
        select x.ctid
        from flowfabric.ff_exec_core as x
        where x.ownership_state = 'leased' and x.lease_last_renewed_at_ms > p_future_ms
            and x.ctid = any (array(
                select l.ctid
                from flowfabric.ff_exec_core as l
                where l.ownership_state = 'leased' and l.lease_expires_at_ms > p_future_ms
                order by l.lease_expires_at_ms desc
                limit p_limit))
        for no key update skip locked));
    get diagnostics v_mended = row_count;
    return v_mended;
end;
$$;
comment on function flowfabric._ff_mend_leases(integer, bigint, bigint) is
'Internal: counts the lifetime of leases from now that were issued or renewed later than p_future_ms.';

-- Per lane, as the index is, so that lanes share the limit. A delay that the caller asked for is a time, no duration.
create or replace function flowfabric._ff_mend_delays(p_limit integer, p_now_ms bigint, p_future_ms bigint)
returns integer
language plpgsql volatile
as $$
declare
    v_per_lane bigint := (select greatest(p_limit / greatest(count(*), 1), 10) from flowfabric.ff_lane_registry);
    v_mended integer;
begin
    update flowfabric.ff_exec_core as e
    set delay_until_ms = p_now_ms + e.delay_until_ms - e.last_transition_at_ms,
        blocking_detail = regexp_replace(
            e.blocking_detail, '^until=[0-9]+',
            'until=' || (p_now_ms + e.delay_until_ms - e.last_transition_at_ms)::text),
        last_transition_at_ms = p_now_ms
    where e.ctid = any (array(
        select x.ctid
        from flowfabric.ff_exec_core as x
        where x.eligibility_state = 'not_eligible_until_time'
            and x.blocking_reason in ('waiting_for_retry_backoff', 'waiting_for_resume_delay')
            and x.last_transition_at_ms > p_future_ms
            and x.ctid = any (array(
                select d.row_id
                from flowfabric.ff_lane_registry as l
                cross join lateral (
                    select c.ctid as row_id
                    from flowfabric.ff_exec_core as c
                    where c.eligibility_state = 'not_eligible_until_time'
                        and c.lane_id = l.lane_id and c.delay_until_ms > p_future_ms
                    order by c.delay_until_ms desc
                    limit v_per_lane
                ) as d))
        limit p_limit
        for no key update skip locked));
    get diagnostics v_mended = row_count;
    return v_mended;
end;
$$;
comment on function flowfabric._ff_mend_delays(integer, bigint, bigint) is
'Internal: counts delays after a failure or a resume from now that began later than p_future_ms.';

create or replace function flowfabric._ff_mend_schedules(p_limit integer, p_now_ms bigint, p_future_ms bigint)
returns integer
language plpgsql volatile
as $$
declare
    v_count integer;
    v_mended integer := 0;
begin
    update flowfabric.ff_budget_policy as b
    set next_reset_at_ms = p_now_ms + b.reset_interval_ms
    where b.ctid = any (array(
        select x.ctid
        from flowfabric.ff_budget_policy as x
        where x.next_reset_at_ms > p_future_ms + x.reset_interval_ms
            and x.ctid = any (array(
                select n.ctid
                from flowfabric.ff_budget_policy as n
                where n.next_reset_at_ms > p_future_ms
                order by n.next_reset_at_ms desc
                limit p_limit))
        for no key update skip locked));
    get diagnostics v_count = row_count;
    v_mended := v_mended + v_count;
    update flowfabric.ff_worker_registry as w
    set last_heartbeat_ms = p_now_ms
    where w.ctid = any (array(
        select x.ctid
        from flowfabric.ff_worker_registry as x
        where x.last_heartbeat_ms > p_future_ms
        limit p_limit
        for no key update skip locked));
    get diagnostics v_count = row_count;
    v_mended := v_mended + v_count;
    update flowfabric.ff_cancel_backlog as b
    set grace_until_ms = p_now_ms + b.grace_until_ms - b.requested_at_ms, requested_at_ms = p_now_ms
    where b.ctid = any (array(
        select x.ctid
        from flowfabric.ff_cancel_backlog as x
        where x.requested_at_ms > p_future_ms
        limit p_limit
        for no key update skip locked));
    get diagnostics v_count = row_count;
    v_mended := v_mended + v_count;
    update flowfabric.ff_scanner_failure as f
    set skip_until_ms = null, last_failed_at_ms = p_now_ms
    where f.ctid = any (array(
        select x.ctid
        from flowfabric.ff_scanner_failure as x
        where x.last_failed_at_ms > p_future_ms
        limit p_limit
        for no key update skip locked));
    get diagnostics v_count = row_count;
    return v_mended + v_count;
end;
$$;
comment on function flowfabric._ff_mend_schedules(integer, bigint, bigint) is
'Internal: the same for budget periods, heartbeats, the grace of cancelled flows and items that scanners leave out.';
