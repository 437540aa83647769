-- ff_scan_stream_ttl: delete the frames of best-effort streams that have lapsed, longest lapsed first.
--
-- Fence:  none.
-- Locks:  each ff_stream_meta row, without waiting.
-- Writes: deletes from ff_stream_frame; retained_count and expires_at_ms of ff_stream_meta; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one stream is counted and recorded.
-- Retry:  safe, and from any number of callers at once.
--
-- Readers see nothing of a lapsed stream already before. Its counts, its end and its summary stay.
create or replace function flowfabric.ff_scan_stream_ttl(
    p_limit integer default 100,
    p_partition_key smallint default null
)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_stream_ttl';
    c_scanner constant text := 'stream_ttl';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
    v_due record;
    v_tried integer := 0;
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_due in
        select m.partition_key, m.execution_id, m.attempt_index, k.item_key
        from flowfabric.ff_stream_meta as m
        cross join lateral flowfabric._ff_stream_item_key(m.partition_key, m.execution_id, m.attempt_index)
            as k (item_key)
        where m.expires_at_ms <= v_now_ms
            and (p_partition_key is null or m.partition_key = p_partition_key)
            and not exists (
                select from flowfabric.ff_scanner_failure as f
                where f.scanner = c_scanner and f.item_key = k.item_key and f.skip_until_ms > v_now_ms)
        order by m.expires_at_ms
        limit flowfabric._ff_scan_window(p_limit)
    loop
        exit when v_tried >= p_limit;
        begin
            case flowfabric._ff_empty_lapsed_stream(v_due.partition_key, v_due.execution_id, v_due.attempt_index)
                when 'done' then
                    v_tried := v_tried + 1;
                    v_scan.processed := v_scan.processed + 1;
                when 'busy' then
                    v_scan.skipped := v_scan.skipped + 1;
                else
                    null;
            end case;
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_due.item_key);
        exception
            when lock_not_available or deadlock_detected then
                v_tried := v_tried + 1;
                v_scan.skipped := v_scan.skipped + 1;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_tried := v_tried + 1;
                v_scan.errors := v_scan.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_due.item_key, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    v_scan.more := v_scan.processed > 0 and v_tried >= p_limit;
    return v_scan;
end;
$$;

comment on function flowfabric.ff_scan_stream_ttl(integer, smallint) is
'Scanner: deletes the frames of best-effort streams whose time is over, longest over first.';

grant execute on function flowfabric.ff_scan_stream_ttl(integer, smallint) to flowfabric_operator;

create or replace function flowfabric._ff_stream_item_key(
    p_partition_key smallint,
    p_execution_id uuid,
    p_attempt_index integer
)
returns text
language sql immutable parallel safe
as $$
    select flowfabric.ff_format_execution_id(p_partition_key, p_execution_id) || '_' || p_attempt_index::text
$$;
comment on function flowfabric._ff_stream_item_key(smallint, uuid, integer) is
'Internal: the name of a stream among the items that failed in a scanner.';

create or replace function flowfabric._ff_empty_lapsed_stream(
    p_partition_key smallint,
    p_execution_id uuid,
    p_attempt_index integer
)
returns text
language plpgsql volatile
as $$
declare
    v_expires_at_ms bigint;
begin
    select m.expires_at_ms into v_expires_at_ms
    from flowfabric.ff_stream_meta as m
    where m.partition_key = p_partition_key and m.execution_id = p_execution_id
        and m.attempt_index = p_attempt_index
    for no key update skip locked;
    if not found then
        return 'busy';
    elsif v_expires_at_ms is null or v_expires_at_ms > flowfabric.ff_now_ms() then
        return 'not_due';
    end if;
    perform flowfabric._ff_drop_oldest_frames(p_partition_key, p_execution_id, p_attempt_index, null);
    update flowfabric.ff_stream_meta as m
    set retained_count = 0, expires_at_ms = null
    where m.partition_key = p_partition_key and m.execution_id = p_execution_id
        and m.attempt_index = p_attempt_index;
    return 'done';
end;
$$;
comment on function flowfabric._ff_empty_lapsed_stream(smallint, uuid, integer) is
'Internal: deletes the frames of a stream if it has lapsed: done, not_due, or busy when somebody holds it.';
