-- The scanner of lapsed streams: their frames go, everything else about them stays.
begin;
\ir ../helpers.sql
select plan(21);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;
create function ff_tap.append(p_number integer, p_ttl_ms integer, p_mode text default 'best_effort')
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_append_frame(
        ff_tap.id(p_number), 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'x', '{}', p_stream_mode => p_mode,
        p_ttl_ms => p_ttl_ms);
end;
$$;
-- Which streams hold how many frames.
create function ff_tap.held()
returns jsonb
language sql stable
as $$
    select coalesce(jsonb_object_agg(s.number, s.frames), '{}')
    from (
        select right(f.execution_id::text, 12)::integer as number, count(*) as frames
        from flowfabric.ff_stream_frame as f group by f.execution_id
    ) as s
$$;
prepare scan (integer) as select s.* from flowfabric.ff_scan_stream_ttl($1) as s;

select ff_tap.freeze_time(1000);
select results_eq(
    'select s.* from flowfabric.ff_scan_stream_ttl() as s', 'values (0, 0, 0, false)',
    'without streams nothing happens');
select ff_tap.leased_execution(ff_tap.id(i), p_lease_expires_at_ms => 900000) from generate_series(1, 9) as i;
select ff_tap.append(1, 1000);
select ff_tap.append(1, 1000);
select ff_tap.append(2, 1001);
select ff_tap.append(3, 0);
select ff_tap.append(4, 1000);
select ff_tap.append(4, 1000, 'summary');
select ff_tap.freeze_time(2999);
select results_eq('execute scan(100)', 'values (0, 0, 0, false)', 'a stream is good for two lifetimes');
select ff_tap.freeze_time(3000);
select results_eq('execute scan(100)', 'values (1, 0, 0, false)', 'at the instant itself it is emptied');
select is(ff_tap.held(), '{"2": 1, "3": 1, "4": 2}', 'and no other is');
select is(
    (select row(s.frame_count, s.retained_count, s.expires_at_ms, s.total_bytes, s.closed_at_ms, s.last_entry_id)
     from flowfabric.ff_stream_status(ff_tap.id(1), 0) as s),
    row(2::bigint, 0::bigint, null::bigint, 4::bigint, null::bigint, '1000-1'::text), 'its counts stay, and it is not closed');
select results_eq('execute scan(100)', 'values (0, 0, 0, false)', 'a repeat finds nothing');
select ff_tap.append(1, 1000);
select is(
    (select row(s.frame_count, s.retained_count, s.expires_at_ms, s.last_entry_id)
     from flowfabric.ff_stream_status(ff_tap.id(1), 0) as s),
    row(3::bigint, 1::bigint, 5000::bigint, '3000-0'::text), 'an emptied stream goes on where it was');
select ff_tap.freeze_time(900000 - 1);
select results_eq(
    'execute scan(100)', 'values (2, 0, 0, false)', 'a stream without a lifetime or with a summary never lapses');
select is(ff_tap.held(), '{"3": 1, "4": 2}', 'whatever the time');
select isnt_empty(
    format('select s.* from flowfabric.ff_read_summary(%L, 0) as s', ff_tap.id(4)), 'and the summary is still there');

-- The end of an attempt does not keep its frames longer
select ff_tap.append(5, 1000);
select flowfabric.ff_complete_execution(ff_tap.id(5), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(950000);
select results_eq('execute scan(100)', 'values (1, 0, 0, false)', 'a closed stream lapses like any other');
select is(
    (select s.closed_reason from flowfabric.ff_stream_status(ff_tap.id(5), 0) as s), 'attempt_success',
    'and stays closed');

-- Batches, earliest first
select ff_tap.freeze_time(1000);
select ff_tap.append(i, 10 * (10 - i)) from generate_series(6, 9) as i;
select ff_tap.freeze_time(5000);
select results_eq('execute scan(2)', 'values (2, 0, 0, true)', 'a full batch says that there may be more');
select is(ff_tap.held(), '{"3": 1, "4": 2, "6": 1, "7": 1}', 'the longest lapsed go first');
select results_eq(
    'select s.* from flowfabric.ff_scan_stream_ttl(10, 5::smallint) as s', 'values (0, 0, 0, false)',
    'a scan can be limited to a partition');
select results_eq('execute scan(3)', 'values (2, 0, 0, false)', 'the rest comes with the next call');

-- One stream that fails
select ff_tap.append(i, 1) from generate_series(6, 7) as i;
create function ff_tap.refuse()
returns trigger
language plpgsql
as $$ begin raise exception 'poisoned'; end $$;
create trigger poison before delete on flowfabric.ff_stream_frame for each row
when (old.execution_id = '00000000-0000-4000-8000-000000000006') execute function ff_tap.refuse();
select ff_tap.freeze_time(9000);
select results_eq('execute scan(100)', 'values (1, 0, 1, false)', 'a stream that fails does not stop the others');
select results_eq(
    'select f.scanner, f.item_key, f.failures, f.last_error from flowfabric.ff_scanner_failure as f',
    format($$ values ('stream_ttl'::text collate "C", %L::text collate "C", 1, 'P0001 poisoned') $$, ff_tap.id(6) || '_0'),
    'and is remembered');
execute scan(100);
execute scan(100);
select results_eq('execute scan(100)', 'values (0, 0, 0, false)', 'after its third failure it is left out for a while');

select throws_ok('execute scan(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select is(
    ff_tap.error_of('execute scan(null)'),
    '{"code": "invalid_input", "fn": "ff_scan_stream_ttl", "field": "limit", "reason": "null"}', 'a limit is required');

select * from finish();
rollback;
