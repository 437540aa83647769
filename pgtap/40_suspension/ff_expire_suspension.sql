-- Timeouts of suspensions: what each behaviour does at its instant, and that nothing else is touched.
begin;
\ir helpers.sql
select plan(59);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
prepare expire (text) as select x.outcome, x.public_state::text from flowfabric.ff_expire_suspension($1) as x;

-- The three ends
create function ff_tap.timed_out(p_execution_id text, p_first_waitpoint integer, p_behavior text)
returns void
language plpgsql volatile
as $$
begin
    perform ff_tap.execution(
        p_execution_id, '{"stream_policy": {"retention_ttl_ms": 500}}', p_deadline_at_ms => 900000);
    perform flowfabric.ff_issue_grant_and_claim(
        p_execution_id, 600, p_worker_id => 'worker', p_worker_instance_id => 'worker-1',
        p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id(), p_attempt_timeout_ms => 60000);
    perform ff_tap.burden(p_execution_id);
    perform ff_tap.suspend(
        p_execution_id, ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('y', 'b')), p_first_waitpoint, 2000,
        p_behavior);
    perform ff_tap.deliver('x', p_first_waitpoint);
end;
$$;
\set failing '{fp:86}:00000000-0000-4000-8000-000000000001'
\set cancelling '{fp:86}:00000000-0000-4000-8000-000000000002'
\set expiring '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.timed_out(:'failing', 11, 'fail');
select ff_tap.timed_out(:'cancelling', 21, 'cancel');
select ff_tap.timed_out(:'expiring', 31, 'expire');
create temporary table before as
select b.behavior, to_jsonb(ff_tap.core(b.execution)) as core, to_jsonb(ff_tap.attempt(b.execution)) as attempt,
    to_jsonb(ff_tap.suspension(b.execution)) as suspension
from (values
    ('fail', :'failing'), ('cancel', :'cancelling'), ('expire', :'expiring')) as b (behavior, execution);
select ff_tap.freeze_time(1999);
create temporary table early as select ff_tap.suspension_rows() as rows;
select results_eq(
    format('execute expire(%L)', :'failing'), $$values ('not_yet_due', null::text)$$,
    'a millisecond before its time a timeout is not due');
select is(ff_tap.suspension_rows(), (select e.rows from early as e), 'and nothing is written');
select ff_tap.freeze_time(2000);
select results_eq(
    format('execute expire(%L)', b.execution), format('values (%L, %L)', b.behavior, b.outcome),
    format('at its very instant the behaviour %s applies', b.behavior))
from (values
    ('fail', :'failing', 'failed'), ('cancel', :'cancelling', 'cancelled'),
    ('expire', :'expiring', 'expired')) as b (behavior, execution, outcome);
select is(
    ff_tap.vector(b.execution),
    format('terminal / unowned / not_applicable / none / %s / attempt_terminal -> %1$s', b.outcome),
    format('%s ends the execution as %s', b.behavior, b.outcome))
from (values
    ('fail', :'failing', 'failed'), ('cancel', :'cancelling', 'cancelled'),
    ('expire', :'expiring', 'expired')) as b (behavior, execution, outcome);
select is(
    to_jsonb(ff_tap.core(b.execution)),
    p.core || jsonb_build_object(
        'lifecycle_phase', 'terminal', 'blocking_reason', 'none', 'blocking_detail', null,
        'terminal_outcome', b.outcome, 'attempt_state', 'attempt_terminal',
        'terminal_at_ms', 2000, 'purge_after_ms', 2500, 'deadline_at_ms', null, 'current_suspension_id', null,
        'current_waitpoint_id', null, 'last_transition_at_ms', 2000, 'last_mutation_at_ms', 2000),
    format('%s: the timers are gone, epoch and attempt are kept, retention runs', b.behavior))
from (values
    ('fail', :'failing', 'failed'), ('cancel', :'cancelling', 'cancelled'),
    ('expire', :'expiring', 'expired')) as b (behavior, execution, outcome)
join before as p on p.behavior = b.behavior;
select is(
    to_jsonb(ff_tap.attempt(b.execution)),
    p.attempt || jsonb_build_object(
        'attempt_state', b.attempt_state, 'ended_at_ms', 2000, 'failure_reason', 'suspension_timeout:' || b.behavior,
        'suspended_at_ms', null, 'suspension_id', null),
    format('%s: the attempt is %s', b.behavior, b.attempt_state))
from (values
    ('fail', :'failing', 'ended_failure'), ('cancel', :'cancelling', 'ended_cancelled'),
    ('expire', :'expiring', 'ended_failure')) as b (behavior, execution, attempt_state)
join before as p on p.behavior = b.behavior;
select is(
    to_jsonb(ff_tap.suspension(b.execution)),
    p.suspension || jsonb_build_object('closed_at_ms', 2000, 'close_reason', 'timed_out_' || b.behavior),
    format('%s: the suspension is closed without a trigger, and was not satisfied', b.behavior))
from (values
    ('fail', :'failing'), ('cancel', :'cancelling'), ('expire', :'expiring')) as b (behavior, execution)
join before as p on p.behavior = b.behavior;
select is(
    (select jsonb_strip_nulls(to_jsonb(n)) - array['partition_key', 'execution_id'] from ff_tap.note(b.execution) as n),
    jsonb_build_object('failure_reason', 'suspension_timeout:' || b.behavior),
    format('%s: the reason is noted, and no cancellation', b.behavior))
from (values
    ('fail', :'failing'), ('cancel', :'cancelling'), ('expire', :'expiring')) as b (behavior, execution);
select is(
    ff_tap.burden_of(b.execution), 'slot free, released:lease_released, 0 open, stream suspension_timeout@2000',
    format('%s: the stream is closed, the slot was free', b.behavior))
from (values
    ('fail', :'failing'), ('cancel', :'cancelling'), ('expire', :'expiring')) as b (behavior, execution);
select is(
    ff_tap.completions(b.execution), array[b.outcome], format('%s is one completion', b.behavior))
from (values
    ('fail', :'failing', 'failed'), ('cancel', :'cancelling', 'cancelled'),
    ('expire', :'expiring', 'expired')) as b (behavior, execution, outcome);
select results_eq(
    $$select w.state, w.close_reason, w.satisfied_at_ms from flowfabric.ff_waitpoint_pending as w
      order by w.waitpoint_id$$,
    $$values
        ('closed', 'timed_out_fail', null::bigint), ('closed', 'timed_out_fail', null),
        ('closed', 'timed_out_cancel', null), ('closed', 'timed_out_cancel', null),
        ('closed', 'timed_out_expire', null), ('closed', 'timed_out_expire', null)$$,
    'all waitpoints close with their suspension');
select is((select count(*) from flowfabric.ff_suspension_satisfier), 0::bigint, 'half a condition is forgotten');
select is(
    ff_tap.lease_events(:'failing'), '{acquired:issue_grant_and_claim,released:suspend}'::text[],
    'there was no lease to release');
select results_eq(
    format('execute expire(%L)', :'failing'), $$values ('not_suspended_cleaned', null::text)$$,
    'a repeat finds nothing to do');
select throws_ok('select ff_tap.deliver(p_number => 11)', 'ZS007', 'target_not_signalable', 'the tokens are dead');
select is_empty('select f.check_name from flowfabric.ff_check_invariants() as f', 'everything fits together');

-- Auto-resume
\set resuming '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.paused_execution(
    :'resuming', p_first_waitpoint => 41, p_timeout_at_ms => 3000, p_timeout_behavior => 'auto_resume',
    p_resume_delay_ms => 60000);
create temporary table paused as
select to_jsonb(ff_tap.core(:'resuming')) as core, ff_tap.attempt(:'resuming') as attempt,
    to_jsonb(ff_tap.suspension(:'resuming')) as suspension;
select ff_tap.freeze_time(3000);
select results_eq(
    format('execute expire(%L)', :'resuming'), $$values ('auto_resume', 'waiting')$$, 'a timeout can resume');
select is(
    to_jsonb(ff_tap.core(:'resuming')),
    (select p.core from paused as p) || '{
        "lifecycle_phase": "runnable", "eligibility_state": "eligible_now", "blocking_reason": "waiting_for_worker",
        "blocking_detail": null, "current_suspension_id": null,
        "current_waitpoint_id": null, "last_transition_at_ms": 3000, "last_mutation_at_ms": 3000}',
    'at once: the delay of the suspension belongs to signals; epoch and attempt stay');
select is(ff_tap.attempt(:'resuming'), (select p.attempt from paused as p), 'the attempt stays paused');
select is(
    to_jsonb(ff_tap.suspension(:'resuming')),
    (select p.suspension from paused as p)
    || '{"closed_at_ms": 3000, "close_reason": "timed_out_auto_resume", "resume_trigger": "timeout"}',
    'the suspension says that the timeout closed it');
select is((ff_tap.waitpoint(41)).close_reason, 'timed_out_auto_resume', 'so does its waitpoint');
select is(ff_tap.signals(:'resuming'), '{}'::text[], 'despite its name there is no synthetic signal');
select throws_ok('select ff_tap.deliver(p_number => 41)', 'ZS007', 'target_not_signalable', 'its token is dead');
select is(ff_tap.completions(:'resuming'), '{}'::text[], 'a resume is no completion');

-- Escalation
\set escalating '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.paused_execution(
    :'escalating', p_first_waitpoint => 51, p_timeout_at_ms => 4000, p_timeout_behavior => 'escalate');
create temporary table waiting as
select to_jsonb(ff_tap.core(:'escalating')) as core, ff_tap.attempt(:'escalating') as attempt,
    to_jsonb(ff_tap.suspension(:'escalating')) as suspension, to_jsonb(ff_tap.waitpoint(51)) as waitpoint;
select ff_tap.freeze_time(4500);
select results_eq(
    format('execute expire(%L)', :'escalating'), $$values ('escalate', 'suspended')$$,
    'a timeout can call an operator');
select is(
    to_jsonb(ff_tap.core(:'escalating')),
    (select w.core from waiting as w) || '{
        "blocking_reason": "paused_by_operator", "blocking_detail": "suspension escalated: timeout at 4000",
        "last_mutation_at_ms": 4500}', 'the execution stays suspended and says for whom; that is no transition');
select is(
    to_jsonb(ff_tap.suspension(:'escalating')),
    (select w.suspension from waiting as w)
    || '{"reason_code": "waiting_for_operator_review", "timeout_at_ms": null, "timeout_behavior": null}',
    'the suspension is open and has no timeout any more');
select is(
    to_jsonb(ff_tap.waitpoint(51)), (select w.waitpoint from waiting as w) || '{"expires_at_ms": null}',
    'its waitpoint is active for good');
select results_eq(
    format('execute expire(%L)', :'escalating'), $$values ('not_yet_due', null::text)$$, 'once is enough');
select is(
    ff_tap.deliver(p_number => 51), 'resume_condition_satisfied', 'a signal still resumes it');

-- Nothing to do
\set open_ended '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.paused_execution(:'open_ended', p_first_waitpoint => 61);
select ff_tap.freeze_time(9000000000);
select results_eq(
    format('execute expire(%L)', :'open_ended'), $$values ('not_yet_due', null::text)$$,
    'without a timeout nothing is ever due');
select results_eq(
    $$execute expire('{fp:86}:00000000-0000-4000-8000-00000000ffff')$$, $$values ('not_found_cleaned', null::text)$$,
    'an unknown execution is an outcome');
\set answered '{fp:86}:00000000-0000-4000-8000-000000000007'
select ff_tap.paused_execution(
    :'answered', p_first_waitpoint => 71, p_timeout_at_ms => 9000000000);
select ff_tap.deliver(p_number => 71);
create temporary table resumed as select ff_tap.suspension_rows() as rows;
select results_eq(
    format('execute expire(%L)', :'answered'), $$values ('not_suspended_cleaned', null::text)$$,
    'an execution that a signal resumed is left alone');
select is(ff_tap.suspension_rows(), (select r.rows from resumed as r), 'nothing is written');
select throws_ok($$execute expire('x')$$, 'ZV001', 'invalid_input', 'a malformed id is refused');

-- Repairs of what cannot arise
\set orphan '{fp:86}:00000000-0000-4000-8000-000000000008'
select ff_tap.paused_execution(:'orphan', p_first_waitpoint => 81, p_timeout_at_ms => 9000000000);
select flowfabric._ff_become_eligible(ff_tap.core(:'orphan'), 'attempt_interrupted', null, 9000000000);
select results_eq(
    format('execute expire(%L)', :'orphan'), $$values ('not_suspended_cleaned', null::text)$$,
    'an open suspension of an execution that is not suspended is closed');
select is(
    (select row(u.close_reason, u.resume_trigger, w.state)
     from ff_tap.suspension(:'orphan') as u, ff_tap.waitpoint(81) as w)::text, '(orphaned,,closed)', 'as an orphan');
\set lost '{fp:86}:00000000-0000-4000-8000-000000000009'
select ff_tap.paused_execution(:'lost', p_first_waitpoint => 91, p_timeout_at_ms => 9000000000);
update flowfabric.ff_suspension_current as u set closed_at_ms = 1, close_reason = 'x'
where u.execution_id = '00000000-0000-4000-8000-000000000009';
select results_eq(
    format('execute expire(%L)', :'lost'), $$values ('no_active_suspension_cleaned', null::text)$$,
    'a suspended execution without a suspension is an outcome');

-- A member of a flow
\set member '{fp:86}:00000000-0000-4000-8000-00000000000a'
select ff_tap.paused_execution(:'member', p_first_waitpoint => 101, p_timeout_at_ms => 9000000000);
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, namespace, flow_kind, public_flow_state, created_at_ms, last_mutation_at_ms)
values (86, ff_tap.waitpoint_id(500), 'default', 'dag', 'open', 0, 0);
update flowfabric.ff_exec_core as e set flow_id = ff_tap.waitpoint_id(500)
where e.execution_id = '00000000-0000-4000-8000-00000000000a';
select results_eq(
    format('execute expire(%L)', :'member'), $$values ('fail', 'failed')$$, 'a member of a flow times out alike');
select is(
    (select v.flow_id from flowfabric.ff_completion_event as v
     where v.execution_id = '00000000-0000-4000-8000-00000000000a'), ff_tap.waitpoint_id(500),
    'and its completion names the flow');

-- Deadlines and cancellations close the suspension, too
\set deadline '{fp:86}:00000000-0000-4000-8000-00000000000b'
select ff_tap.paused_execution(
    :'deadline', ff_tap.count_of(2, 'DistinctSignals'), p_first_waitpoint => 111, p_deadline_at_ms => 9000000500);
select ff_tap.deliver(p_number => 111);
select ff_tap.freeze_time(9000000500);
select flowfabric.ff_expire_execution(:'deadline', 'execution_deadline');
select is(
    (select row(u.close_reason, u.resume_trigger, w.state, w.close_reason)
     from ff_tap.suspension(:'deadline') as u, ff_tap.waitpoint(111) as w)::text,
    '(expired:execution_deadline,,closed,expired:execution_deadline)', 'a deadline holds while suspended');
\set cancelled '{fp:86}:00000000-0000-4000-8000-00000000000c'
select ff_tap.paused_execution(
    :'cancelled', ff_tap.count_of(2, 'DistinctSignals'), p_first_waitpoint => 121);
select ff_tap.deliver(p_number => 121);
select flowfabric.ff_cancel_execution(:'cancelled', 'stop', 'operator_override');
select is(
    (select row(u.close_reason, u.resume_trigger, w.state, w.close_reason)
     from ff_tap.suspension(:'cancelled') as u, ff_tap.waitpoint(121) as w)::text,
    '(cancelled,,closed,cancelled)', 'a cancellation closes the waitpoints');
select is((select count(*) from flowfabric.ff_suspension_satisfier), 0::bigint, 'neither leaves satisfiers behind');

select * from finish();
rollback;
