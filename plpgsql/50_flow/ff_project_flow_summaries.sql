-- ff_project_flow_summaries: bring the summaries of flows up to date, oldest first.
--
-- Fence:  none.
-- Locks:  ff_flow_summary rows, ascending; the scanner's ff_scanner row, without waiting.
-- Writes: ff_flow_summary; ff_scanner_failure; the position in ff_scanner.
-- Raises: invalid_input; what goes wrong with one flow is counted and recorded.
-- Retry:  safe, and from any number of callers at once.
--
-- Due is a flow with members that has no summary, whose summary is not an end, or that has changed since. Flows without
-- members are never due: they would stand in front of all others for ever.
--
-- One call looks at 10 000 flows, in the order of their keys. If there are more, the next call continues where this one
-- ended, and starts again after the last flow. Ended flows are kept for a week: reading all of them in every call would
-- cost more and more.
create or replace function flowfabric.ff_project_flow_summaries(p_limit integer default 100)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan -- these: the window is a range of the key, read in its order
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_project_flow_summaries';
    c_scanner constant text := 'flow_summary';
    c_max_scanned constant integer := 10000;
    v_from_partition smallint;
    v_from_flow_id uuid;
    v_to_partition smallint;
    v_to_flow_id uuid;
    v_row record;
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    select split_part(s.position, '/', 1)::smallint, split_part(s.position, '/', 2)::uuid
    into v_from_partition, v_from_flow_id
    from flowfabric.ff_scanner as s
    where s.scanner = c_scanner and s.position is not null;
    select f.partition_key, f.flow_id into v_to_partition, v_to_flow_id
    from flowfabric.ff_flow_core as f
    where v_from_flow_id is null or (f.partition_key, f.flow_id) > (v_from_partition, v_from_flow_id)
    order by f.partition_key, f.flow_id
    limit 1 offset c_max_scanned - 1;
    -- `offset 0`: by key for each flow; a join would read every summary and every member.
    for v_row in
        select due.partition_key, due.flow_id
        from (
            select f.partition_key, f.flow_id
            from flowfabric.ff_flow_core as f
            left join lateral (
                select s.flow_id, s.public_flow_state, s.last_summary_update_at
                from flowfabric.ff_flow_summary as s
                where s.partition_key = f.partition_key and s.flow_id = f.flow_id
                offset 0
            ) as s on true
            where (v_from_flow_id is null or (f.partition_key, f.flow_id) > (v_from_partition, v_from_flow_id))
                and (v_to_flow_id is null or (f.partition_key, f.flow_id) <= (v_to_partition, v_to_flow_id))
                and (s.flow_id is null or s.public_flow_state not in ('completed', 'failed')
                    or f.last_mutation_at_ms >= s.last_summary_update_at)
                and exists (
                    select from flowfabric.ff_exec_core as e
                    where e.partition_key = f.partition_key and e.flow_id = f.flow_id
                    offset 0)
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
    -- A call that finds the row held leaves the position to its holder.
    update flowfabric.ff_scanner as s
    set position = v_to_partition::text || '/' || v_to_flow_id::text
    where s.scanner in (
        select h.scanner
        from flowfabric.ff_scanner as h
        where h.scanner = c_scanner
            and h.position is distinct from v_to_partition::text || '/' || v_to_flow_id::text
        for update skip locked);
    v_scan.more := v_scan.processed >= p_limit;
    return v_scan;
end;
$$;

comment on function flowfabric.ff_project_flow_summaries(integer) is
'Scanner: counts the members of flows whose summary is missing, unfinished or out of date, oldest first.';

grant execute on function flowfabric.ff_project_flow_summaries(integer) to flowfabric_operator;
