-- ff_prune_events: delete events that have been kept long enough, oldest first.
--
-- Fence:  none.
-- Locks:  the ff_event_stream row of each stream, without waiting.
-- Writes: deletes from the five event tables; the pruned position of ff_event_stream; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one stream is counted and recorded.
-- Retry:  safe, and from any number of callers at once.
--
-- Everything up to the pruned position is gone, which is what lets ff_read_events refuse a cursor below it. So rows go
-- in reading order, and the first that is too young ends it, whatever lies behind. An event dated later than now was
-- written by a clock that was ahead, so its date says nothing: it goes with the expired events behind it. Nothing is
-- kept for a slow consumer. The stream that is least far begins, so that a long one does not keep the others waiting.
-- For the planner settings see ff_read_events.
create or replace function flowfabric.ff_prune_events(p_limit integer default 5000)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_prune_events';
    c_scanner constant text := 'event_prune';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
    v_stream text;
    v_deleted integer;
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_stream in
        select s.stream
        from flowfabric.ff_event_stream as s
        where not exists (
            select from flowfabric.ff_scanner_failure as f
            where f.scanner = c_scanner and f.item_key = s.stream and f.skip_until_ms > v_now_ms)
        order by s.pruned_epoch, s.pruned_xact_id, s.stream
    loop
        exit when v_scan.processed >= p_limit;
        begin
            v_deleted := flowfabric._ff_prune_stream(v_stream, p_limit - v_scan.processed);
            if v_deleted is null then
                v_scan.skipped := v_scan.skipped + 1;
            else
                v_scan.processed := v_scan.processed + v_deleted;
                perform flowfabric._ff_scanner_item_ok(c_scanner, v_stream);
            end if;
        exception
            when lock_not_available or deadlock_detected then
                v_scan.skipped := v_scan.skipped + 1;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_scan.errors := v_scan.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_stream, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    v_scan.more := v_scan.processed >= p_limit;
    return v_scan;
end;
$$;

comment on function flowfabric.ff_prune_events(integer) is
'Scanner: deletes events older than the window of their stream, in the order in which they are read.';

grant execute on function flowfabric.ff_prune_events(integer) to flowfabric_operator;

create or replace function flowfabric._ff_prune_stream(p_stream text, p_limit integer)
returns integer
language plpgsql volatile
as $$
declare
    v_horizon flowfabric.ff_event_cursor;
    v_pruned flowfabric.ff_event_cursor;
    v_last flowfabric.ff_event_cursor;
    v_last_expired flowfabric.ff_event_cursor;
    v_event record;
    v_passed integer := 0;
    v_now_ms bigint;
    v_expired_before_ms bigint;
    v_deleted integer;
begin
    select s.pruned_epoch, s.pruned_xact_id, s.pruned_event_id
    into v_pruned
    from flowfabric.ff_event_stream as s
    where s.stream = p_stream
    for no key update skip locked;
    if not found then
        return null;
    end if;
    v_horizon := flowfabric._ff_event_horizon();
    v_now_ms := flowfabric.ff_now_ms();
    v_expired_before_ms := v_now_ms - flowfabric._ff_setting_value('event_retention_' || p_stream || '_ms');

    for v_event in
        select v.epoch, v.xact_id, v.event_id, v.occurred_at_ms
        from flowfabric._ff_events() as v
        where v.stream = p_stream
            and (v.epoch, v.xact_id, v.event_id) > (v_pruned.epoch, v_pruned.xact_id, v_pruned.event_id)
            and (v.epoch, v.xact_id) < (v_horizon.epoch, v_horizon.xact_id)
        order by v.epoch, v.xact_id, v.event_id
        limit p_limit
    loop
        exit when v_event.occurred_at_ms between v_expired_before_ms and v_now_ms;
        v_passed := v_passed + 1;
        v_last := row(v_event.epoch, v_event.xact_id, v_event.event_id)::flowfabric.ff_event_cursor;
        if v_event.occurred_at_ms < v_expired_before_ms then
            v_last_expired := v_last;
        end if;
    end loop;
    -- A full batch that ends in dates of the future: the next event with a date that can be true tells their age.
    if v_passed < p_limit or v_last = v_last_expired or (
        select v.occurred_at_ms < v_expired_before_ms
        from flowfabric._ff_events() as v
        where v.stream = p_stream
            and (v.epoch, v.xact_id, v.event_id) > (v_last.epoch, v_last.xact_id, v_last.event_id)
            and (v.epoch, v.xact_id) < (v_horizon.epoch, v_horizon.xact_id)
            and v.occurred_at_ms <= v_now_ms
        order by v.epoch, v.xact_id, v.event_id
        limit 1) is not true
    then
        v_last := v_last_expired;
    end if;
    if v_last is null then
        return 0;
    end if;

    case p_stream
        when 'completion' then
            delete from flowfabric.ff_completion_event as v
            where (v.epoch, v.xact_id, v.event_id) > (v_pruned.epoch, v_pruned.xact_id, v_pruned.event_id)
                and (v.epoch, v.xact_id, v.event_id) <= (v_last.epoch, v_last.xact_id, v_last.event_id);
        when 'lease' then
            delete from flowfabric.ff_lease_event as v
            where (v.epoch, v.xact_id, v.event_id) > (v_pruned.epoch, v_pruned.xact_id, v_pruned.event_id)
                and (v.epoch, v.xact_id, v.event_id) <= (v_last.epoch, v_last.xact_id, v_last.event_id);
        when 'signal' then
            delete from flowfabric.ff_signal_event as v
            where (v.epoch, v.xact_id, v.event_id) > (v_pruned.epoch, v_pruned.xact_id, v_pruned.event_id)
                and (v.epoch, v.xact_id, v.event_id) <= (v_last.epoch, v_last.xact_id, v_last.event_id);
        when 'operator' then
            delete from flowfabric.ff_operator_event as v
            where (v.epoch, v.xact_id, v.event_id) > (v_pruned.epoch, v_pruned.xact_id, v_pruned.event_id)
                and (v.epoch, v.xact_id, v.event_id) <= (v_last.epoch, v_last.xact_id, v_last.event_id);
        when 'worker' then
            delete from flowfabric.ff_worker_registry_event as v
            where (v.epoch, v.xact_id, v.event_id) > (v_pruned.epoch, v_pruned.xact_id, v_pruned.event_id)
                and (v.epoch, v.xact_id, v.event_id) <= (v_last.epoch, v_last.xact_id, v_last.event_id);
    end case;
    get diagnostics v_deleted = row_count;
    update flowfabric.ff_event_stream as s
    set pruned_epoch = v_last.epoch, pruned_xact_id = v_last.xact_id, pruned_event_id = v_last.event_id
    where s.stream = p_stream;
    return v_deleted;
end;
$$;
comment on function flowfabric._ff_prune_stream(text, integer) is
'Internal: deletes the oldest expired events of a stream and returns how many; NULL when somebody else is at it.';
