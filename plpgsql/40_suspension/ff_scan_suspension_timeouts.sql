-- ff_scan_suspension_timeouts: apply the timeout behaviour of suspensions whose time has come, longest overdue first.
--
-- Fence:  none.
-- Locks:  the flow of each execution, if it has one, then its ff_exec_core row, without waiting; then as
--         ff_expire_suspension.
-- Writes: as ff_expire_suspension, per execution; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one execution is counted and recorded.
-- Retry:  safe, and from any number of callers at once: each timeout is applied once.
create or replace function flowfabric.ff_scan_suspension_timeouts(
    p_limit integer default 50,
    p_partition_key smallint default null
)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_suspension_timeouts';
    c_scanner constant text := 'suspension_timeout';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_due flowfabric.ff_execution_key[];
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    v_due := array(
        select row(u.partition_key, u.execution_id)::flowfabric.ff_execution_key
        from flowfabric.ff_suspension_current as u
        where u.closed_at_ms is null and u.timeout_at_ms <= v_now_ms
            and (p_partition_key is null or u.partition_key = p_partition_key)
            and not exists (
                select from flowfabric.ff_scanner_failure as f
                where f.scanner = c_scanner and f.skip_until_ms > v_now_ms
                    and f.item_key = flowfabric.ff_format_execution_id(u.partition_key, u.execution_id))
        order by u.timeout_at_ms
        limit flowfabric._ff_scan_window(p_limit));
    return flowfabric._ff_scan_suspensions(c_scanner, v_due, null, p_limit);
end;
$$;

comment on function flowfabric.ff_scan_suspension_timeouts(integer, smallint) is
'Scanner: applies the timeout behaviour of suspensions whose time has come, longest overdue first.';

grant execute on function flowfabric.ff_scan_suspension_timeouts(integer, smallint) to flowfabric_operator;
