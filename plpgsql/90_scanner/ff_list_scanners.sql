-- ff_list_scanners: every scanner, its schedule and its last run.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
create or replace function flowfabric.ff_list_scanners()
returns setof flowfabric.ff_scanner_listing
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    return query
    select
        s.scanner, s.function_name, s.run_order, s.enabled, s.interval_ms, s.batch_limit, s.next_due_at_ms,
        s.last_run_at_ms, s.last_duration_ms, s.last_processed, s.last_skipped, s.last_errors, s.total_processed,
        s.consecutive_failures, s.last_error, flowfabric._ff_scanner_lateness(s, v_now_ms)
    from flowfabric.ff_scanner as s
    order by s.run_order;
end;
$$;

comment on function flowfabric.ff_list_scanners() is
'The background scanners in their order: schedule, last run, failures, and for how long each has been due.';

grant execute on function flowfabric.ff_list_scanners() to flowfabric_reader, flowfabric_operator;
