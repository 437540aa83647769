-- ff_scan_budget_resets: reset budgets whose time has come, longest due first.
--
-- Fence:  none.
-- Locks:  each ff_budget_policy row, without waiting.
-- Writes: as ff_reset_budget, per budget; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one budget is recorded.
-- Retry:  safe, and from any number of callers at once: each period ends once.
--
-- Periods that were missed are not made up for: the next one is counted from the actual reset.
create or replace function flowfabric.ff_scan_budget_resets(p_limit integer default 20)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_budget_resets';
    c_scanner constant text := 'budget_reset';
    v_started_at_ms bigint := flowfabric.ff_now_ms();
    v_now_ms bigint;
    v_budget_id text;
    v_next_reset_at_ms bigint;
    v_tried integer := 0;
    v_reset integer := 0;
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_budget_id in
        select b.budget_id
        from flowfabric.ff_budget_policy as b
        where b.next_reset_at_ms <= v_started_at_ms
            and not exists (
                select from flowfabric.ff_scanner_failure as f
                where f.scanner = c_scanner and f.item_key = b.budget_id and f.skip_until_ms > v_started_at_ms)
        order by b.next_reset_at_ms
        limit flowfabric._ff_scan_window(p_limit)
    loop
        exit when v_tried >= p_limit;
        begin
            select b.next_reset_at_ms into v_next_reset_at_ms
            from flowfabric.ff_budget_policy as b
            where b.budget_id = v_budget_id
            for no key update skip locked;
            v_now_ms := flowfabric.ff_now_ms();
            -- Busy, or reset by somebody else meanwhile: there is nothing to do.
            continue when not found or (v_next_reset_at_ms <= v_now_ms) is not true;
            v_tried := v_tried + 1;
            perform flowfabric._ff_zero_budget(v_budget_id, v_now_ms);
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_budget_id);
            v_reset := v_reset + 1;
        exception
            when lock_not_available or deadlock_detected then
                null; -- The next call comes by again.
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_budget_id, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    return v_reset;
end;
$$;

comment on function flowfabric.ff_scan_budget_resets(integer) is
'Scanner: resets budgets whose time has come and says how many.';

grant execute on function flowfabric.ff_scan_budget_resets(integer) to flowfabric_operator;
