-- ff_scan_execution_deadlines: end executions whose deadline has passed, longest overdue first.
--
-- Fence:  none.
-- Locks:  the flow of each execution, if it has one, then its ff_exec_core row, without waiting; then as
--         ff_expire_execution.
-- Writes: as ff_expire_execution, per execution; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one execution is counted and recorded.
-- Retry:  safe, and from any number of callers at once: each execution ends once.
--
-- A deadline holds in every phase: waiting, delayed, blocked, active or suspended. Only an end clears it.
create or replace function flowfabric.ff_scan_execution_deadlines(
    p_limit integer default 50,
    p_partition_key smallint default null
)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_execution_deadlines';
    c_scanner constant text := 'execution_deadline';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_due flowfabric.ff_execution_key[];
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    v_due := array(
        select row(e.partition_key, e.execution_id)::flowfabric.ff_execution_key
        from flowfabric.ff_exec_core as e
        where e.deadline_at_ms <= v_now_ms
            and (p_partition_key is null or e.partition_key = p_partition_key)
            and not exists (
                select from flowfabric.ff_scanner_failure as f
                where f.scanner = c_scanner and f.skip_until_ms > v_now_ms
                    and f.item_key = flowfabric.ff_format_execution_id(e.partition_key, e.execution_id))
        order by e.deadline_at_ms
        limit flowfabric._ff_scan_window(p_limit));
    return flowfabric._ff_scan_executions(c_scanner, v_due, p_limit, true);
end;
$$;

comment on function flowfabric.ff_scan_execution_deadlines(integer, smallint) is
'Scanner: ends executions whose deadline has passed, in whatever phase they are.';

grant execute on function flowfabric.ff_scan_execution_deadlines(integer, smallint) to flowfabric_operator;
