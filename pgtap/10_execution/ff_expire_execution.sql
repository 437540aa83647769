-- Expiry: ending an execution because a time limit passed, and only if it still has.
begin;
\ir ../helpers.sql
select plan(51);

select ff_tap.freeze_time(1000);
\set waiting '{fp:86}:00000000-0000-4000-8000-000000000001'
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000002'
\set blocked '{fp:86}:00000000-0000-4000-8000-000000000003'
\set active '{fp:86}:00000000-0000-4000-8000-000000000004'
\set revoked '{fp:86}:00000000-0000-4000-8000-000000000005'
\set suspended '{fp:86}:00000000-0000-4000-8000-000000000006'
\set paused '{fp:86}:00000000-0000-4000-8000-000000000007'
prepare expire (text, text, boolean) as select x.* from flowfabric.ff_expire_execution($1, $2, $3) as x;

-- From every phase
select ff_tap.execution(:'waiting', p_deadline_at_ms => 9000);
select ff_tap.execution(:'delayed', p_delay_until_ms => 5000);
select ff_tap.execution(:'blocked');
select flowfabric._ff_become_blocked(
    ff_tap.core(:'blocked'), 'blocked_by_dependencies', 'waiting_for_children', null, 'pending_first_attempt', null,
    1000);
select ff_tap.leased_execution(
    :'active', '{"retry_policy": {"max_retries": 5}}', p_attempt_timeout_ms => 4000, p_deadline_at_ms => 9000);
select ff_tap.burden(:'active');
select ff_tap.leased_execution(:'revoked');
select flowfabric._ff_lose_lease(ff_tap.core(:'revoked'), 'lease_revoked', 'maintenance', 1000);
select ff_tap.suspended_execution(:'suspended');
select ff_tap.leased_execution(:'paused');
select flowfabric.ff_delay_execution(:'paused', 5000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(1200);
select results_eq(
    format('execute expire(%L, %L, null)', t.execution_id, 'execution_deadline'),
    format(
        $$ values ('expired', %L::flowfabric.ff_lifecycle_phase, 'expired'::flowfabric.ff_public_state) $$, t.phase),
    t.fact)
from (values
    (:'waiting', 'runnable', 'a waiting execution expires'),
    (:'delayed', 'runnable', 'a delayed execution expires'),
    (:'blocked', 'runnable', 'a blocked execution expires'),
    (:'active', 'active', 'a running execution expires, whatever its retry policy says'),
    (:'revoked', 'active', 'an execution with a revoked lease expires'),
    (:'suspended', 'suspended', 'a suspended execution expires'),
    (:'paused', 'runnable', 'an execution with a paused attempt expires')
) as t (execution_id, phase, fact);
select is(
    ff_tap.vector(t.execution_id),
    'terminal / unowned / not_applicable / none / expired / ' || t.attempt_state || ' -> expired', t.fact)
from (values
    (:'waiting', 'pending_first_attempt', 'what was waiting never had an attempt'),
    (:'delayed', 'pending_first_attempt', 'what was delayed never had an attempt'),
    (:'blocked', 'pending_first_attempt', 'what was blocked never had an attempt'),
    (:'active', 'attempt_terminal', 'what was running is terminal'),
    (:'revoked', 'attempt_terminal', 'what had a revoked lease is terminal'),
    (:'suspended', 'attempt_terminal', 'what was suspended is terminal'),
    (:'paused', 'attempt_terminal', 'what had a paused attempt is terminal')
) as t (execution_id, attempt_state, fact);
select is_empty(
    $$ select e.execution_id from flowfabric.ff_exec_core as e
       where e.terminal_at_ms <> 1200 or e.last_transition_at_ms <> 1200 or e.last_mutation_at_ms <> 1200
           or e.retry_count > 0
           or num_nonnulls(e.blocking_detail, e.delay_until_ms, e.blocked_at_ms, e.deadline_at_ms,
               e.attempt_timeout_at_ms, e.current_lease_id, e.lease_acquired_at_ms, e.lease_expires_at_ms,
               e.lease_last_renewed_at_ms, e.lease_revoked_at_ms, e.current_suspension_id,
               e.current_waitpoint_id) > 0 $$,
    'an expired execution has an end, and no timer, block, lease or suspension');
select is(
    (select array_agg(distinct n.failure_reason) from flowfabric.ff_exec_note as n), '{execution_deadline}'::text[],
    'the reason is noted with every one of them');
select is(
    (select count(*) from flowfabric.ff_exec_note), 7::bigint, 'each of the seven has a note');
select is(
    (select row(a.attempt_state, a.ended_at_ms, a.failure_reason, a.failure_category, a.suspension_id)::text
     from ff_tap.attempt(t.execution_id) as a),
    '(ended_failure,1200,execution_deadline,,)', t.fact)
from (values
    (:'active', 'a running attempt fails with the reason'),
    (:'revoked', 'an attempt with a revoked lease fails'),
    (:'suspended', 'a suspended attempt fails'),
    (:'paused', 'a paused attempt fails')
) as t (execution_id, fact);
select is(
    (select count(*) from flowfabric.ff_attempt), 4::bigint, 'no attempt is made for what never ran');
select is(
    ff_tap.burden_of(:'active'), 'slot free, released:lease_released, 0 open, stream expired@1200',
    'slot and reservation go back, the stream is closed');
select is(ff_tap.lease_events(t.execution_id), t.wanted, t.fact)
from (values
    (:'waiting', '{}'::text[], 'what was waiting has no lease event'),
    (:'active', '{acquired:issue_grant_and_claim,released:expired:execution_deadline}',
        'a lease that was held is released with the reason'),
    (:'suspended', '{acquired:issue_grant_and_claim,released:suspend}', 'a suspension has released its lease before')
) as t (execution_id, wanted, fact);
select is(
    (select array_agg(distinct v.outcome) from flowfabric.ff_completion_event as v),
    '{expired}'::flowfabric.ff_terminal_outcome[], 'every completion event says expired');
select is(
    (select count(*) from flowfabric.ff_completion_event), 7::bigint,
    'there is one for each, also without a flow');
select is(
    ff_tap.suspension_of(:'suspended'),
    'suspension expired:execution_deadline@1200 by nobody, satisfied never, 2 of 2 waitpoints closed, 0 satisfiers',
    'the suspension is closed with all its waitpoints');

-- Never an error for a state
select results_eq(
    format('execute expire(%L, null, null)', :'active'),
    $$ values ('already_terminal', null::flowfabric.ff_lifecycle_phase, 'expired'::flowfabric.ff_public_state) $$,
    'a repeat finds the execution ended');
\set done '{fp:86}:00000000-0000-4000-8000-000000000008'
select ff_tap.leased_execution(:'done');
select flowfabric.ff_complete_execution(:'done', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select results_eq(
    format('execute expire(%L, null, true)', :'done'),
    $$ values ('already_terminal', null::flowfabric.ff_lifecycle_phase, 'completed'::flowfabric.ff_public_state) $$,
    'what has completed stays completed');
select results_eq(
    $$ execute expire('{fp:86}:00000000-0000-4000-8000-0000ffffffff', null, true) $$,
    $$ values ('not_found_cleaned', null::flowfabric.ff_lifecycle_phase, null::flowfabric.ff_public_state) $$,
    'an unknown execution is nothing to expire');
select throws_ok(
    $$ execute expire('{fp:86}:x', null, null) $$, 'ZV001', 'invalid_input', 'a malformed id is refused all the same');

-- Only if due
\set timed '{fp:86}:00000000-0000-4000-8000-000000000009'
select ff_tap.leased_execution(:'timed', p_attempt_timeout_ms => 100, p_deadline_at_ms => 1500);
create temporary table before as select to_jsonb(e) as core from ff_tap.core(:'timed') as e;
select ff_tap.freeze_time(1299);
select results_eq(
    format('execute expire(%L, %L, true)', :'timed', 'attempt_timeout'),
    $$ values ('not_due', null::flowfabric.ff_lifecycle_phase, 'active'::flowfabric.ff_public_state) $$,
    'an attempt is not due one millisecond before its timeout');
select ff_tap.freeze_time(1499);
select is(
    (flowfabric.ff_expire_execution(:'timed', 'execution_deadline', true)).outcome, 'not_due',
    'an execution is not due one millisecond before its deadline');
select is(
    (flowfabric.ff_expire_execution(:'timed', 'somebody said so', true)).outcome, 'not_due',
    'a reason without a time is never due');
select is(
    to_jsonb(ff_tap.core(:'timed')), (select b.core from before as b), 'what is not due is not changed');
select is(
    ff_tap.lease_events(:'timed'), array['acquired:issue_grant_and_claim'], 'what is not due writes no event');
select is(
    (flowfabric.ff_expire_execution(:'timed', p_require_due => true)).outcome, 'expired',
    'a timeout that has passed is due, and is the reason unless another is given');
select is((ff_tap.note(:'timed')).failure_reason, 'attempt_timeout', 'the default reason is noted');
\set instant '{fp:86}:00000000-0000-4000-8000-00000000000a'
select ff_tap.leased_execution(:'instant', p_attempt_timeout_ms => 100);
select ff_tap.freeze_time(1599);
select is(
    (flowfabric.ff_expire_execution(:'instant', '', true)).outcome, 'expired',
    'an attempt is due at the instant of its timeout; an empty reason is the default');
\set late '{fp:86}:00000000-0000-4000-8000-00000000000b'
select ff_tap.execution(:'late', p_deadline_at_ms => 1600);
select is(
    (flowfabric.ff_expire_execution(:'late', 'attempt_timeout', true)).outcome, 'not_due',
    'an attempt timeout needs a running attempt');
select ff_tap.freeze_time(1600);
select is(
    (flowfabric.ff_expire_execution(:'late', 'execution_deadline', true)).outcome, 'expired',
    'an execution is due at the instant of its deadline, in any phase');
\set untimed '{fp:86}:00000000-0000-4000-8000-00000000000c'
select ff_tap.leased_execution(:'untimed');
select is(
    array[
        (flowfabric.ff_expire_execution(:'untimed', 'attempt_timeout', true)).outcome,
        (flowfabric.ff_expire_execution(:'untimed', 'execution_deadline', true)).outcome],
    '{not_due,not_due}', 'without a limit nothing is ever due');

-- A scanner that comes late
\set retried '{fp:86}:00000000-0000-4000-8000-00000000000d'
select ff_tap.leased_execution(
    :'retried', '{"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}',
    p_attempt_timeout_ms => 100);
select ff_tap.freeze_time(1650);
select flowfabric.ff_fail_execution(:'retried', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select flowfabric._ff_become_eligible(ff_tap.core(:'retried'), 'pending_retry_attempt', null, 1650);
select flowfabric.ff_issue_grant_and_claim(:'retried', 30000, p_attempt_timeout_ms => 100);
select ff_tap.freeze_time(1700);
select is(
    (flowfabric.ff_expire_execution(:'retried', 'attempt_timeout', true)).outcome, 'not_due',
    'a new attempt with a later timeout survives a scanner that read the old one');
select is(
    (flowfabric.ff_expire_execution(:'retried', 'somebody said so')).outcome, 'expired',
    'any reason expires when it need not be due');
select is(
    (ff_tap.lease_events(:'retried'))[4], 'released:expired:somebody said so', 'the reason is kept as given');

-- A flow member
\set flow '00000000-0000-4000-8000-0000000f1000'
\set member '{fp:86}:00000000-0000-4000-8000-0000000000e1'
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 0, 0);
select ff_tap.execution(:'member');
update flowfabric.ff_exec_core as e
set flow_id = :'flow'
where e.execution_id = '00000000-0000-4000-8000-0000000000e1';
select is((flowfabric.ff_expire_execution(:'member')).outcome, 'expired', 'a flow member expires');
select is(
    (select v.flow_id from flowfabric.ff_completion_event as v
     where v.execution_id = '00000000-0000-4000-8000-0000000000e1'),
    :'flow'::uuid, 'its completion event names the flow');

-- Who
select throws_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_worker',
        format('select flowfabric.ff_expire_execution(%L)', :'untimed')),
    '42501', null, 'a worker has no right to expire');
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_operator',
        format('select flowfabric.ff_expire_execution(%L)', :'untimed')),
    'an operator has the right to expire');
select * from finish();
rollback;
