-- ff_scan_expired_leases: make expired leases visible as reclaimable, longest expired first.
--
-- Fence:  none.
-- Locks:  each ff_exec_core row, without waiting; then its stream and its budgets.
-- Writes: as ff_mark_lease_expired_if_due, per execution; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one execution is counted and recorded.
-- Retry:  safe, and from any number of callers at once: each lease is marked once.
--
-- The index of leases begins with the lane, so every registered lane is probed: some 2 us each.
--
-- Takes no flow lock: a lost lease ends nothing. Executions that wait for a reclaim have left the index that is read
-- here, so they do not hide later ones.
create or replace function flowfabric.ff_scan_expired_leases(
    p_limit integer default 50,
    p_partition_key smallint default null
)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_expired_leases';
    c_scanner constant text := 'lease_expiry';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_due flowfabric.ff_execution_key[];
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    v_due := array(
        select row(x.partition_key, x.execution_id)::flowfabric.ff_execution_key
        from flowfabric.ff_lane_registry as l
        cross join lateral (
            select e.partition_key, e.execution_id, e.lease_expires_at_ms
            from flowfabric.ff_exec_core as e
            where e.ownership_state = 'leased' and e.lane_id = l.lane_id and e.lease_expires_at_ms <= v_now_ms
                and (p_partition_key is null or e.partition_key = p_partition_key)
                and not exists (
                    select from flowfabric.ff_scanner_failure as f
                    where f.scanner = c_scanner and f.skip_until_ms > v_now_ms
                        and f.item_key = flowfabric.ff_format_execution_id(e.partition_key, e.execution_id))
            order by e.lease_expires_at_ms
            limit flowfabric._ff_scan_window(p_limit)
        ) as x
        order by x.lease_expires_at_ms, x.partition_key, x.execution_id
        limit flowfabric._ff_scan_window(p_limit));
    return flowfabric._ff_scan_executions(c_scanner, v_due, p_limit, false);
end;
$$;

comment on function flowfabric.ff_scan_expired_leases(integer, smallint) is
'Scanner: marks leases that have run out as reclaimable, longest expired first.';

grant execute on function flowfabric.ff_scan_expired_leases(integer, smallint) to flowfabric_operator;
