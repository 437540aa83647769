-- Observing: the resumed worker reads exactly the signals that woke it.
begin;
\ir helpers.sql
select plan(17);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
prepare observe (text, integer) as select s.signal_name, s.payload from flowfabric.ff_observe_signals($1, $2) as s;

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
select is_empty(format('execute observe(%L, 0)', :'execution'), 'an execution that never paused has heard nothing');
select ff_tap.suspend(:'execution');
select is_empty(format('execute observe(%L, 0)', :'execution'), 'nor has one that is still suspended');
select ff_tap.deliver('rejected');
select flowfabric.ff_deliver_signal(
    :'execution', ff_tap.waitpoint_id(), ff_tap.token(), 'approved', ff_tap.waitpoint_id(901), 'human', 'person', 'ann',
    '\x00ff', 'raw', p_correlation_id => 'ticket-7');
select results_eq(
    format('select to_jsonb(s) from flowfabric.ff_observe_signals(%L, 0) as s', :'execution'),
    $$select jsonb_build_object(
        'signal_id', ff_tap.waitpoint_id(901), 'waitpoint_id', ff_tap.waitpoint_id(),
        'waitpoint_key', 'wpk:approval', 'signal_name', 'approved', 'signal_category', 'human',
        'source_type', 'person', 'source_identity', 'ann', 'correlation_id', 'ticket-7', 'payload', '\x00ff',
        'payload_encoding', 'raw', 'accepted_at_ms', 1000)$$,
    'the one that matched, with everything that was sent');
select ff_tap.reclaim_resumed(:'execution');
select results_eq(
    format('execute observe(%L, 0)', :'execution'), $$values ('approved', '\x00ff'::bytea)$$,
    'also after the attempt goes on');
select is_empty(format('execute observe(%L, 1)', :'execution'), 'another attempt has heard nothing');
select ff_tap.suspend(:'execution', p_first_waitpoint => 2);
select is_empty(format('execute observe(%L, 0)', :'execution'), 'the next suspend replaces the last');

\set several '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(
    :'several', ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.count_of(2, 'DistinctSources', '{b}')),
    p_first_waitpoint => 21);
select
    ff_tap.deliver('y', 22, 'ann'), ff_tap.deliver('y', 22, 'ann'), ff_tap.deliver('n', 21),
    ff_tap.deliver('z', 22, 'bob'), ff_tap.deliver('w', 22, 'cleo'), ff_tap.deliver('x', 21);
select results_eq(
    format('execute observe(%L, 0)', :'several'),
    $$values ('y', null::bytea), ('z', null), ('w', null), ('x', null)$$,
    'all that counted, in the order of their acceptance; duplicates and mismatches are left out');

update flowfabric.ff_suspension_current as u set resume_trigger = 'operator'
where u.execution_id = '00000000-0000-4000-8000-000000000002';
select is_empty(format('execute observe(%L, 0)', :'several'), 'they are shown only if it was they who woke it');

\set operator '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.paused_execution(
    :'operator', ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('y', 'a')), p_first_waitpoint => 31);
select ff_tap.deliver('x', 31);
select flowfabric.ff_resume_execution(:'operator');
select is_empty(
    format('execute observe(%L, 0)', :'operator'), 'half a condition and an operator are no signals');
\set claimed '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.paused_execution(:'claimed', p_first_waitpoint => 41);
select flowfabric.ff_resume_execution(:'claimed', 'signal');
select is_empty(
    format('execute observe(%L, 0)', :'claimed'), 'nor are they when the operator says that it was a signal');
\set timeout '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.paused_execution(
    :'timeout', p_first_waitpoint => 51, p_timeout_at_ms => 1000, p_timeout_behavior => 'auto_resume');
select flowfabric.ff_expire_suspension(:'timeout');
select is_empty(format('execute observe(%L, 0)', :'timeout'), 'a timeout is no signal');
select is(
    (ff_tap.suspension(:'timeout')).close_reason, 'timed_out_auto_resume', 'the suspension says that it was one');
\set cancelled '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.paused_execution(:'cancelled', p_first_waitpoint => 61);
select flowfabric.ff_cancel_execution(:'cancelled', 'stop', 'operator_override');
select is_empty(format('execute observe(%L, 0)', :'cancelled'), 'nor is an end');

select throws_ok(
    $$execute observe('{fp:86}:00000000-0000-4000-8000-00000000ffff', 0)$$, 'ZN001', 'execution_not_found',
    'an unknown execution is refused');
select is(
    ff_tap.error_of(format('execute observe(%L, null)', :'execution')) - 'fn',
    '{"code": "invalid_input", "field": "attempt_index", "reason": "null"}', 'an attempt is required');
select throws_ok($$execute observe('x', 0)$$, 'ZV001', 'invalid_input', 'a malformed execution id is refused');
select is(
    (select p.provolatile::text from pg_proc as p where p.proname = 'ff_observe_signals'), 's', 'it only reads');

select * from finish();
rollback;
