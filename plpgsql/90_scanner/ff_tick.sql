-- ff_tick: run every scanner that is due, in bounded batches.
--
-- Fence:  none.
-- Locks:  the ff_scanner row of each scanner it runs, without waiting; then what the scanner locks.
-- Writes: ff_scanner, or ff_scanner_detour for a run without that row; and what the scanners write.
-- Raises: invalid_input; a scanner that fails is a row of the answer.
-- Retry:  safe, and from any number of callers at once.
--
-- The lock of its row lets a scanner run once at a time across all callers; different scanners run side by side in
-- different sessions. A caller that leaves its transaction open stops nothing: a scanner whose last committed run is
-- older than twice its interval runs without its row.
--
-- A scanner that fails as a whole is undone, reported and given a longer pause; the others are not touched by it. All
-- that one call does is one transaction, so a caller that dies leaves no trace and everything is still due. Drivers
-- keep transactions short by naming one scanner of ff_due_scanners per call.
--
-- Scanners go in their order, except that those which have been due for longer than their interval go first, the one
-- that has not run for longest before the others: what a call has no time for is where the next one begins, so busy
-- scanners cannot starve those behind them. Time limit and durations are wall time, also under a test clock.
create or replace function flowfabric.ff_tick(
    p_limit integer default 100,
    p_scanners text[] default null,
    p_force boolean default false,
    p_max_ms integer default 1000
)
returns setof flowfabric.ff_scanner_run
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_tick';
    v_started_at timestamptz := clock_timestamp();
    v_started_at_ms bigint := flowfabric.ff_now_ms();
    v_scanner text;
    v_status text;
    v_is_first boolean := true;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    if p_force is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'force', 'null');
    end if;
    if p_max_ms is null or p_max_ms < 1 then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'max_ms', case when p_max_ms is null then 'null' else 'out_of_range' end, p_max_ms::text);
    end if;
    foreach v_scanner in array coalesce(p_scanners, '{}') loop
        if not exists (select from flowfabric.ff_scanner as s where s.scanner = v_scanner) then
            perform flowfabric._ff_raise_unknown(
                c_fn, 'scanners', v_scanner,
                array(select s.scanner from flowfabric.ff_scanner as s order by s.scanner));
        end if;
    end loop;

    for v_scanner, v_status in
        select
            s.scanner,
            case
                when not s.enabled then 'disabled'
                when not (p_force or flowfabric._ff_is_scanner_due(s, v_started_at_ms)) then 'not_due'
            end
        from flowfabric.ff_scanner as s
        where p_scanners is null or s.scanner = any (p_scanners)
        order by
            case
                when s.last_run_at_ms is null then 0
                when s.next_due_at_ms + s.interval_ms <= v_started_at_ms then s.last_run_at_ms
                else 9223372036854775807
            end,
            s.run_order
    loop
        if v_status is null then
            if not v_is_first and clock_timestamp() >= v_started_at + p_max_ms * interval '1 millisecond' then
                return next flowfabric._ff_idle_run(v_scanner, 'out_of_time');
            else
                return query
                select r.* from flowfabric._ff_run_if_due(v_scanner, p_limit, p_force, p_scanners is not null) as r;
                v_is_first := false;
            end if;
        elsif p_scanners is not null then
            return next flowfabric._ff_idle_run(v_scanner, v_status);
        end if;
    end loop;
end;
$$;

comment on function flowfabric.ff_tick(integer, text[], boolean, integer) is
'Runs every background scanner that is due, or those named, in bounded batches and bounded time.';

grant execute on function flowfabric.ff_tick(integer, text[], boolean, integer)
to flowfabric_worker, flowfabric_operator;

create or replace function flowfabric._ff_idle_run(p_scanner text, p_status text)
returns flowfabric.ff_scanner_run
language sql immutable parallel safe
as $$
    select row(p_scanner, p_status, 0, 0, 0, false, 0, null)::flowfabric.ff_scanner_run
$$;
comment on function flowfabric._ff_idle_run(text, text) is 'Internal: the report about a scanner that a tick did not run.';

-- Between the look at the schedule and the lock another caller may have run the scanner, and committed: so it is looked
-- at again. No row for one that is not due after all, unless it was asked for by name.
--
-- The next run is counted from the beginning of this one: then nothing that becomes due waits for longer than the
-- interval, however long a run takes. But one that took long and found nothing is followed by a rest.
create or replace function flowfabric._ff_run_if_due(
    p_scanner text,
    p_limit integer,
    p_force boolean,
    p_is_named boolean
)
returns setof flowfabric.ff_scanner_run
language plpgsql volatile
as $$
declare
    v_scanner flowfabric.ff_scanner;
    v_has_row boolean;
    v_started_at timestamptz;
    v_now_ms bigint;
    v_scan flowfabric.ff_scan;
    v_error text;
    v_detail text;
    v_duration_ms integer;
    v_rest_ms bigint := 0::bigint;
    v_failures integer;
    v_next_due_at_ms bigint;
begin
    select s.* into v_scanner
    from flowfabric.ff_scanner as s
    where s.scanner = p_scanner
    for no key update skip locked;
    v_has_row := found;
    v_now_ms := flowfabric.ff_now_ms();
    if not v_has_row then
        select s.* into v_scanner from flowfabric.ff_scanner as s where s.scanner = p_scanner;
        if flowfabric._ff_may_detour(v_scanner, v_now_ms) is not true then
            return next flowfabric._ff_idle_run(p_scanner, 'busy');
            return;
        end if;
    end if;
    if not v_scanner.enabled or not (p_force or flowfabric._ff_is_scanner_due(v_scanner, v_now_ms)) then
        if p_is_named then
            return next flowfabric._ff_idle_run(
                p_scanner, case when v_scanner.enabled then 'not_due' else 'disabled' end);
        end if;
        return;
    end if;

    v_started_at := clock_timestamp();
    begin
        v_scan := flowfabric._ff_run_scanner(p_scanner, least(p_limit, v_scanner.batch_limit));
    exception
        when serialization_failure then
            raise;
        when others then
            get stacked diagnostics v_detail = pg_exception_detail;
            v_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
            v_error := left(concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')), 1000);
    end;
    v_duration_ms := least(extract(epoch from clock_timestamp() - v_started_at) * 1000, 2147483647)::integer;
    v_failures := case when v_error is null then 0 else v_scanner.consecutive_failures + 1 end;
    if v_failures = 0 and v_scan.processed + v_scan.skipped + v_scan.errors = 0 then
        v_rest_ms := flowfabric._ff_rest_ms(v_now_ms, 10 * v_scanner.interval_ms);
    end if;
    v_next_due_at_ms := v_now_ms + case
        when v_scan.more then 0
        else greatest(v_scanner.interval_ms * (2 ^ least(v_failures, 5))::bigint, v_rest_ms)
    end;
    if v_has_row then
        perform flowfabric._ff_forget_detours(p_scanner);
    else
        perform flowfabric._ff_record_detour(p_scanner, v_now_ms, v_next_due_at_ms);
    end if;

    update flowfabric.ff_scanner as s
    set last_run_at_ms = v_now_ms,
        last_duration_ms = v_duration_ms,
        last_processed = v_scan.processed,
        last_skipped = v_scan.skipped,
        last_errors = v_scan.errors,
        total_processed = s.total_processed + v_scan.processed,
        consecutive_failures = v_failures,
        last_error = coalesce(v_error, s.last_error),
        next_due_at_ms = v_next_due_at_ms
    where v_has_row and s.scanner = p_scanner;
    return next row(
        p_scanner, case when v_error is null then 'ran' else 'failed' end, v_scan.processed, v_scan.skipped,
        v_scan.errors, v_scan.more, v_duration_ms, v_error)::flowfabric.ff_scanner_run;
end;
$$;
comment on function flowfabric._ff_run_if_due(text, integer, boolean, boolean) is
'Internal: runs one scanner unless another caller is at it or has just been, and writes down how it went.';
