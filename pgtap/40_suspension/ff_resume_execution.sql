-- Resuming by decision: an operator ends a pause, whatever its condition says.
begin;
\ir helpers.sql
select plan(27);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.paused_execution(
    :'execution', ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('y', 'b')), p_timeout_at_ms => 9000,
    p_resume_delay_ms => 60000);
select ff_tap.deliver('x');
create temporary table before as
select to_jsonb(ff_tap.core(:'execution')) as core, ff_tap.attempt(:'execution') as attempt,
    to_jsonb(ff_tap.suspension(:'execution')) as suspension, ff_tap.token(1) as token;

-- At once
select ff_tap.freeze_time(2000);
select results_eq(
    format('select r.public_state::text, r.delay_until_ms from flowfabric.ff_resume_execution(%L) as r', :'execution'),
    $$values ('waiting', null::bigint)$$, 'a resumed execution waits for a worker');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core from before as b) || '{
        "lifecycle_phase": "runnable", "eligibility_state": "eligible_now", "blocking_reason": "waiting_for_worker",
        "blocking_detail": null, "current_suspension_id": null,
        "current_waitpoint_id": null, "last_transition_at_ms": 2000, "last_mutation_at_ms": 2000}',
    'the delay of the suspension belongs to signals');
select is(ff_tap.attempt(:'execution'), (select b.attempt from before as b), 'the attempt stays paused');
select is(
    to_jsonb(ff_tap.suspension(:'execution')),
    (select b.suspension from before as b)
    || '{"closed_at_ms": 2000, "close_reason": "resumed", "resume_trigger": "operator"}',
    'the suspension is closed, and was not satisfied');
select results_eq(
    $$select w.state, w.close_reason, w.closed_at_ms, w.satisfied_at_ms
      from flowfabric.ff_waitpoint_pending as w order by w.ordinal$$,
    $$values ('closed', 'resumed', 2000::bigint, null::bigint), ('closed', 'resumed', 2000, null)$$,
    'so are all its waitpoints');
select is((select count(*) from flowfabric.ff_suspension_satisfier), 0::bigint, 'half a condition is forgotten');
select is(
    ff_tap.lease_events(:'execution'), '{acquired:issue_grant_and_claim,released:suspend}'::text[],
    'there was no lease to release');
select is(ff_tap.completions(:'execution'), '{}'::text[], 'a resume is no completion');
select is(
    ff_tap.error_of(format('select flowfabric.ff_resume_execution(%L)', :'execution')),
    jsonb_build_object(
        'code', 'execution_not_suspended', 'fn', 'ff_resume_execution', 'execution_id', :'execution',
        'lifecycle_phase', 'runnable'), 'a repeat is told that it is done');
select throws_ok(
    format(
        $$select flowfabric.ff_deliver_signal(%L, ff_tap.waitpoint_id(1), %L, 'y')$$, :'execution',
        (select b.token from before as b)), 'ZS007', 'target_not_signalable', 'the tokens are dead');
select is_empty('select f.check_name from flowfabric.ff_check_invariants() as f', 'everything fits together');

-- After a delay
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(:'delayed', p_first_waitpoint => 21);
select results_eq(
    format(
        $$select r.public_state::text, r.delay_until_ms
          from flowfabric.ff_resume_execution(%L, 'auto_resume', 5000) as r$$,
        :'delayed'),
    $$values ('delayed', 7000::bigint)$$, 'a delay can be given');
select is(
    ff_tap.vector(:'delayed'),
    'runnable / unowned / not_eligible_until_time / waiting_for_resume_delay / none / attempt_interrupted -> delayed',
    'the execution is delayed');
select is(
    (select row(e.delay_until_ms, e.blocking_detail) from ff_tap.core(:'delayed') as e),
    row(7000::bigint, 'resume delay 5000ms'::text), 'until the delay is over');
select is((ff_tap.suspension(:'delayed')).resume_trigger, 'auto_resume', 'the trigger is recorded');
select ff_tap.freeze_time(7000);
select is((select p.processed from flowfabric.ff_promote_due() as p), 1, 'then it is promoted');

-- Defaults and refusals
\set plain '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.paused_execution(:'plain', '"OperatorOnly"', p_first_waitpoint => 31);
select is(
    (select r.public_state::text from flowfabric.ff_resume_execution(:'plain', '', null) as r), 'waiting',
    'NULL and empty mean the default; OperatorOnly was waiting for this');
select is((ff_tap.suspension(:'plain')).resume_trigger, 'operator', 'by an operator');
select is(
    ff_tap.error_of(format('select flowfabric.ff_resume_execution(%L, %s)', :'plain', b.arguments))
        - array['code', 'fn', 'value'],
    jsonb_build_object('field', b.field, 'reason', b.reason), b.what)
from (values
    (1, '''timeout''', 'trigger', 'unknown', 'a trigger must be known'),
    (2, '''operator'', -1', 'resume_delay_ms', 'out_of_range', 'a delay is not negative'),
    (3, '''operator'', 31536000001', 'resume_delay_ms', 'out_of_range', 'a delay is a year at most'),
    (4, '''operator'', 9223372036854775807', 'resume_delay_ms', 'out_of_range', 'whatever is above that')
) as b (number, arguments, field, reason, what)
order by b.number;
select throws_ok(
    $$select flowfabric.ff_resume_execution('{fp:86}:00000000-0000-4000-8000-00000000ffff')$$, 'ZN001',
    'execution_not_found', 'an unknown execution is refused');
select throws_ok(
    $$select flowfabric.ff_resume_execution('x')$$, 'ZV001', 'invalid_input', 'a malformed id is refused');
\set running '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.leased_execution(:'running');
select is(
    ff_tap.error_of(format('select flowfabric.ff_resume_execution(%L)', :'running')) ->> 'lifecycle_phase', 'active',
    'a running execution is not suspended');
\set broken '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.paused_execution(:'broken', p_first_waitpoint => 51);
delete from flowfabric.ff_suspension_current as u where u.execution_id = '00000000-0000-4000-8000-000000000005';
select throws_ok(
    format('select flowfabric.ff_resume_execution(%L)', :'broken'), 'ZS004', 'execution_not_suspended',
    'nor is one without a suspension, which cannot arise');

select flowfabric.ff_cancel_execution(:'broken', 'stop', 'operator_override');
select throws_ok(
    format('select flowfabric.ff_resume_execution(%L)', :'broken'), 'ZS004', 'execution_not_suspended',
    'nor is one that has ended');

select * from finish();
rollback;
