-- The state of a stream: its counts, its limits and its end, without its frames.
begin;
\ir ../helpers.sql
select plan(11);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare status (boolean) as
select s.* from flowfabric.ff_stream_status('{fp:86}:00000000-0000-4000-8000-000000000001', 0, $1) as s;

select ff_tap.freeze_time(1000);
select is_empty('execute status(false)', 'a stream that was never written has no state');
select is_empty('execute status(null)', 'which is no error');
select throws_ok('execute status(true)', 'ZN006', 'stream_not_found', 'unless the caller wants it to be one');
select is(
    ff_tap.error_of('execute status(true)'),
    jsonb_build_object(
        'code', 'stream_not_found', 'fn', 'ff_stream_status', 'execution_id', :'execution', 'attempt_index', 0),
    'and then it names the stream');
select ff_tap.leased_execution(:'execution');
select flowfabric.ff_append_frame(
    :'execution', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout', 'abc', p_stream_mode => 'best_effort',
    p_ttl_ms => 1000);
select results_eq(
    'execute status(true)',
    $$ values (ff_tap.attempt_id(), 1000::bigint, null::bigint, null::text, '1000-0', 1::bigint, 1::bigint, 3::bigint,
               1000::bigint, false, 3000::bigint, 32::double precision, 64) $$,
    'a best-effort stream shows when it lapses and how many frames it keeps');
select ff_tap.freeze_time(1001);
select flowfabric.ff_append_frame(
    :'execution', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout', 'd', p_retention_maxlen => 1);
select flowfabric.ff_complete_execution(:'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select results_eq(
    'execute status(false)',
    $$ values (ff_tap.attempt_id(), 1000::bigint, 1001::bigint, 'attempt_success', '1001-0', 2::bigint, 1::bigint,
               4::bigint, 1001::bigint, true, null::bigint, 32::double precision, 64) $$,
    'frames ever written and frames still there are counted apart, and the end has a reason');
select is_empty(
    format('select s.* from flowfabric.ff_stream_status(%L, 1) as s', :'execution'), 'another attempt has another stream');
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
values (86, '00000000-0000-4000-8000-000000000002', 0, 1000);
select is(
    (select s.last_entry_id
     from flowfabric.ff_stream_status('{fp:86}:00000000-0000-4000-8000-000000000002', 0) as s),
    null, 'without a frame there is no last one');
select throws_ok(
    'select flowfabric.ff_stream_status(''x'', 0)', 'ZV001', 'invalid_input', 'a malformed id is refused');
select is(
    ff_tap.error_of(format('select flowfabric.ff_stream_status(%L, -1)', :'execution')) - 'fn',
    '{"code": "invalid_input", "field": "attempt_index", "reason": "out_of_range", "value": "-1"}',
    'an attempt index is not negative');
select is(
    ff_tap.error_of(format('select flowfabric.ff_stream_status(%L, null, true)', :'execution')) ->> 'reason', 'null',
    'and is required');

select * from finish();
rollback;
