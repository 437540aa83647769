-- Reading the summary: there once a patch was applied, and for as long as the execution is kept.
begin;
\ir ../helpers.sql
select plan(9);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare summary as
select s.* from flowfabric.ff_read_summary('{fp:86}:00000000-0000-4000-8000-000000000001', 0) as s;

select ff_tap.freeze_time(1000);
select is_empty('execute summary', 'an unknown execution has no summary');
select ff_tap.leased_execution(:'execution');
select flowfabric.ff_append_frame(:'execution', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout', 'x');
select is_empty('execute summary', 'frames of other modes make none');
select flowfabric.ff_append_frame(
    :'execution', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 's', '{"step": 1}', p_stream_mode => 'summary');
select ff_tap.freeze_time(1500);
select flowfabric.ff_append_frame(
    :'execution', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 's', '{"step": 2, "of": [3]}',
    p_stream_mode => 'summary', p_patch_kind => 'json-merge-patch');
select results_eq(
    'execute summary',
    $$ values ('{"step": 2, "of": [3]}'::jsonb, 2::bigint, 'json-merge-patch', 1500::bigint, 1000::bigint) $$,
    'the document comes with its version and the times of its first and last patch');
select is_empty(
    format('select s.* from flowfabric.ff_read_summary(%L, 1) as s', :'execution'),
    'another attempt has another document');
select flowfabric.ff_complete_execution(:'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select isnt_empty('execute summary', 'the document outlives the end of its stream');
delete from flowfabric.ff_stream_frame;
select isnt_empty('execute summary', 'and its frames');
select is(
    ff_tap.error_of('select flowfabric.ff_read_summary(''x'', 0)') - 'value',
    '{"code": "invalid_input", "fn": "ff_read_summary", "field": "execution_id", "reason": "missing_tag"}',
    'a malformed id is refused');
select is(
    ff_tap.error_of(format('select flowfabric.ff_read_summary(%L, null)', :'execution')) - 'fn',
    '{"code": "invalid_input", "field": "attempt_index", "reason": "null"}', 'an attempt index is required');
select is(
    (select p.provolatile from pg_proc as p where p.oid = 'flowfabric.ff_read_summary(text, integer)'::regprocedure),
    's', 'it reads and does nothing else');

select * from finish();
rollback;
