-- Noting a refused token: at most once per second, and never a word about what exists.
begin;
\ir helpers.sql
select plan(12);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.paused_execution(:'execution');
create temporary table before as select ff_tap.core(:'execution') as core;
prepare record (text) as select flowfabric.ff_record_signal_auth_failure($1);
select throws_ok(
    format($$select flowfabric.ff_deliver_signal(%L, ff_tap.waitpoint_id(), 'x', 'approved')$$, :'execution'),
    'ZV009', 'invalid_token', 'a token is refused');
select is(
    (ff_tap.note(:'execution')).last_hmac_validation_failed_at_ms, null::bigint, 'which leaves no trace by itself');
select lives_ok(format('execute record(%L)', :'execution'), 'whoever noticed it can leave one');
select is((ff_tap.note(:'execution')).last_hmac_validation_failed_at_ms, 1000::bigint, 'with its time');
select is(ff_tap.core(:'execution'), (select b.core from before as b), 'the execution''s own row is not written');
select ff_tap.freeze_time(2000);
select flowfabric.ff_record_signal_auth_failure(:'execution');
select is(
    (ff_tap.note(:'execution')).last_hmac_validation_failed_at_ms, 1000::bigint, 'within a second once is enough');
select ff_tap.freeze_time(2001);
select flowfabric.ff_record_signal_auth_failure(:'execution');
select is((ff_tap.note(:'execution')).last_hmac_validation_failed_at_ms, 2001::bigint, 'then it is noted again');
select lives_ok(
    $$execute record('{fp:86}:00000000-0000-4000-8000-00000000ffff')$$, 'an unknown execution is no error');
select lives_ok($$execute record('nonsense')$$, 'nor is a malformed id');
select lives_ok('execute record(null)', 'nor is none');
select is((select count(*) from flowfabric.ff_exec_note), 1::bigint, 'and none of them is noted');
update flowfabric.ff_exec_note set last_hmac_validation_failed_at_ms = null, failure_reason = 'kept';
select flowfabric.ff_record_signal_auth_failure(:'execution');
select is(
    (select row(n.last_hmac_validation_failed_at_ms, n.failure_reason) from ff_tap.note(:'execution') as n)::text,
    '(2001,kept)', 'what else is noted stays');

select * from finish();
rollback;
