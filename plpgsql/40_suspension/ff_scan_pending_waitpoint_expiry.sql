-- ff_scan_pending_waitpoint_expiry: close pending waitpoints that no suspension took into use in time.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row of each waitpoint's execution, without waiting.
-- Writes: ff_waitpoint_pending; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one waitpoint is counted and recorded.
-- Retry:  safe, and from any number of callers at once: each waitpoint is closed once.
--
-- Every function treats such a waitpoint as closed already; this makes it durable. Active waitpoints have an expiry
-- too, for information, and are none of its business: they close with their suspension. Signals that were buffered stay
-- recorded and are never evaluated.
create or replace function flowfabric.ff_scan_pending_waitpoint_expiry(
    p_limit integer default 100,
    p_partition_key smallint default null
)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_pending_waitpoint_expiry';
    c_scanner constant text := 'pending_waitpoint_expiry';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_keys flowfabric.ff_execution_key[];
    v_waitpoint_ids uuid[];
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    select
        array_agg(
            row(d.partition_key, d.execution_id)::flowfabric.ff_execution_key
            order by d.expires_at_ms, d.partition_key, d.waitpoint_id),
        array_agg(d.waitpoint_id order by d.expires_at_ms, d.partition_key, d.waitpoint_id)
    into v_keys, v_waitpoint_ids
    from (
        select w.partition_key, w.execution_id, w.waitpoint_id, w.expires_at_ms
        from flowfabric.ff_waitpoint_pending as w
        where w.state = 'pending' and w.expires_at_ms <= v_now_ms
            and (p_partition_key is null or w.partition_key = p_partition_key)
            and not exists (
                select from flowfabric.ff_scanner_failure as f
                where f.scanner = c_scanner and f.skip_until_ms > v_now_ms
                    and f.item_key = flowfabric.ff_format_execution_id(w.partition_key, w.execution_id)
                    || '/' || w.waitpoint_id::text)
        order by w.expires_at_ms
        limit flowfabric._ff_scan_window(p_limit)
    ) as d;
    return flowfabric._ff_scan_suspensions(c_scanner, v_keys, v_waitpoint_ids, p_limit);
end;
$$;

comment on function flowfabric.ff_scan_pending_waitpoint_expiry(integer, smallint) is
'Scanner: closes pending waitpoints that no suspension took into use in time.';

grant execute on function flowfabric.ff_scan_pending_waitpoint_expiry(integer, smallint) to flowfabric_operator;
