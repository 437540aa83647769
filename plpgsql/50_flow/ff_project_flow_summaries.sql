-- ff_project_flow_summaries: bring the summaries of flows up to date, oldest first.
--
-- Fence:  none.
-- Locks:  ff_flow_summary rows, ascending.
-- Writes: ff_flow_summary; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one flow is counted and recorded.
-- Retry:  safe, and from any number of callers at once.
--
-- Due is a flow with members that has no summary, whose summary is not an end, or that has changed since. Flows without
-- members are never due: they would stand in front of all others for ever.
create or replace function flowfabric.ff_project_flow_summaries(p_limit integer default 100)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_project_flow_summaries';
    c_scanner constant text := 'flow_summary';
    v_row record;
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_row in
        select due.partition_key, due.flow_id
        from (
            select f.partition_key, f.flow_id
            from flowfabric.ff_flow_core as f
            left join flowfabric.ff_flow_summary as s
                on s.partition_key = f.partition_key and s.flow_id = f.flow_id
            where (s.flow_id is null or s.public_flow_state not in ('completed', 'failed')
                or f.last_mutation_at_ms >= s.last_summary_update_at)
                and exists (
                    select from flowfabric.ff_exec_core as e
                    where e.partition_key = f.partition_key and e.flow_id = f.flow_id)
                and not flowfabric._ff_flow_is_paused(c_scanner, f.flow_id, v_now_ms)
            order by s.last_summary_update_at nulls first, f.created_at_ms
            limit p_limit
        ) as due
        order by due.partition_key, due.flow_id
    loop
        begin
            v_scan.processed := v_scan.processed
                + flowfabric._ff_store_summary(v_row.partition_key, v_row.flow_id)::integer;
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_row.flow_id::text);
        exception
            when lock_not_available or deadlock_detected then
                v_scan.skipped := v_scan.skipped + 1;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_scan.errors := v_scan.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_row.flow_id::text, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    v_scan.more := v_scan.processed >= p_limit;
    return v_scan;
end;
$$;

comment on function flowfabric.ff_project_flow_summaries(integer) is
'Scanner: counts the members of flows whose summary is missing, unfinished or out of date, oldest first.';

grant execute on function flowfabric.ff_project_flow_summaries(integer) to flowfabric_operator;
