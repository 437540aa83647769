-- Ended pauses: what a worker that starts its code again from the beginning had waited for, and how it ended.
begin;
\ir helpers.sql
select plan(15);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
prepare ended (text, text) as
    select s.waitpoint_key, s.ended_by, s.signal_name, s.attempt_index
    from flowfabric.ff_list_ended_suspensions($1, $2) as s;

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
select is_empty(format('execute ended(%L, null)', :'execution'), 'an execution that never paused has waited for nothing');
select ff_tap.suspend(:'execution');
select is_empty(format('execute ended(%L, null)', :'execution'), 'a pause that lasts has not ended');
select ff_tap.deliver('rejected');
select flowfabric.ff_deliver_signal(
    :'execution', ff_tap.waitpoint_id(), ff_tap.token(), 'approved', ff_tap.waitpoint_id(901), 'human', 'person', 'ann',
    '\x00ff', 'raw', p_correlation_id => 'ticket-7');
select results_eq(
    format(
        'select to_jsonb(s) - ''suspension_id'' from flowfabric.ff_list_ended_suspensions(%L) as s', :'execution'),
    $$select jsonb_build_object(
        'attempt_index', 0, 'ended_by', 'signal', 'waitpoint_id', ff_tap.waitpoint_id(),
        'waitpoint_key', 'wpk:approval', 'signal_id', ff_tap.waitpoint_id(901), 'signal_name', 'approved',
        'signal_category', 'human', 'source_type', 'person', 'source_identity', 'ann', 'correlation_id', 'ticket-7',
        'payload', '\x00ff', 'payload_encoding', 'raw', 'accepted_at_ms', 1000)$$,
    'a pause ended by a signal shows the one that counted, with everything that was sent');

select ff_tap.freeze_time(2000);
select ff_tap.reclaim_resumed(:'execution');
select ff_tap.suspend(
    :'execution', ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('y', 'b')), p_first_waitpoint => 2,
    p_timeout_at_ms => 2500, p_timeout_behavior => 'auto_resume');
select ff_tap.deliver('y', 3);
select results_eq(
    format('execute ended(%L, null)', :'execution'), $$values ('wpk:approval', 'signal', 'approved', 0)$$,
    'the next pause does not hide the last, and half a condition is no end');
select ff_tap.freeze_time(2500);
select flowfabric.ff_expire_suspension(:'execution');
select results_eq(
    format('execute ended(%L, null)', :'execution'),
    $$values ('wpk:approval', 'signal', 'approved', 0), ('a', 'timeout', null, 0), ('b', 'timeout', null, 0)$$,
    'oldest first; a pause that timed out shows its waitpoints and no signal');
select results_eq(
    format('execute ended(%L, ''b'')', :'execution'), $$values ('a', 'timeout', null, 0), ('b', 'timeout', null, 0)$$,
    'a key chooses the pauses that had it, whole');
select is_empty(format('execute ended(%L, ''c'')', :'execution'), 'a key that no pause had chooses none');

select ff_tap.reclaim_resumed(:'execution');
select ff_tap.suspend(
    :'execution', ff_tap.all_of(ff_tap.single('x', 'c'), ff_tap.single('y', 'c')), p_first_waitpoint => 4);
select ff_tap.deliver('x', 4);
select flowfabric.ff_resume_execution(:'execution');
select results_eq(
    format('execute ended(%L, ''c'')', :'execution'), $$values ('c', 'operator', null::text, 0)$$,
    'an operator ends a pause without signals, whatever had been delivered');
select ff_tap.reclaim_resumed(:'execution');
select ff_tap.suspend(
    :'execution', ff_tap.all_of(ff_tap.single('x', 'd'), ff_tap.single('y', 'd')), p_first_waitpoint => 5);
select ff_tap.deliver('y', 5), ff_tap.deliver('n', 5), ff_tap.deliver('x', 5);
select results_eq(
    format('execute ended(%L, ''d'')', :'execution'),
    $$values ('d', 'signal', 'y', 0), ('d', 'signal', 'x', 0)$$,
    'every signal that counted has a row, in the order of their acceptance');

select ff_tap.freeze_time(3000);
select ff_tap.reclaim_resumed(:'execution');
select ff_tap.freeze_time(100000);
select flowfabric.ff_reclaim_next('{default}', 'worker', 'worker-2');
select is(
    (select count(distinct s.suspension_id) from flowfabric.ff_list_ended_suspensions(:'execution') as s), 4::bigint,
    'a new attempt after a lost lease still has all its answers');
select flowfabric.ff_cancel_execution(:'execution', 'stop', 'operator_override');
select flowfabric.ff_replay_execution(:'execution');
select ff_tap.reclaim_resumed(:'execution');
select is_empty(format('execute ended(%L, null)', :'execution'), 'a replay asks anew');

\set cancelled '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(:'cancelled', p_first_waitpoint => 21);
select flowfabric.ff_cancel_execution(:'cancelled', 'stop', 'operator_override');
select results_eq(
    format('execute ended(%L, null)', :'cancelled'), $$values ('wpk:approval', 'closed', null::text, 0)$$,
    'a pause that ended with its execution is merely closed');

select throws_ok(
    $$execute ended('{fp:86}:00000000-0000-4000-8000-00000000ffff', null)$$, 'ZN001', 'execution_not_found',
    'an unknown execution is refused');
select throws_ok($$execute ended('x', null)$$, 'ZV001', 'invalid_input', 'a malformed execution id is refused');
select is(
    (select p.provolatile::text from pg_proc as p where p.proname = 'ff_list_ended_suspensions'), 's', 'it only reads');

select * from finish();
rollback;
