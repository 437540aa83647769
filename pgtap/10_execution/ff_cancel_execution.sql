-- Cancellation: who may end what, from every phase, and what is closed with it.
begin;
\ir ../helpers.sql
select plan(90);

select ff_tap.freeze_time(1000);
\set waiting '{fp:86}:00000000-0000-4000-8000-000000000001'
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000002'
\set blocked '{fp:86}:00000000-0000-4000-8000-000000000003'
\set active '{fp:86}:00000000-0000-4000-8000-000000000004'
\set expired '{fp:86}:00000000-0000-4000-8000-000000000005'
\set revoked '{fp:86}:00000000-0000-4000-8000-000000000006'
\set suspended '{fp:86}:00000000-0000-4000-8000-000000000007'
\set paused '{fp:86}:00000000-0000-4000-8000-000000000008'
\set retrying '{fp:86}:00000000-0000-4000-8000-000000000009'
\set held '{fp:86}:00000000-0000-4000-8000-00000000000a'
prepare cancel (text) as select c.* from flowfabric.ff_cancel_execution(
    $1, 'no longer wanted', p_source => 'operator_override') as c;

-- One execution in every state that can be cancelled
select ff_tap.execution(:'waiting', p_deadline_at_ms => 9000);
select ff_tap.execution(:'delayed', p_delay_until_ms => 5000);
select ff_tap.execution(:'blocked');
select flowfabric._ff_become_blocked(
    ff_tap.core(:'blocked'), 'blocked_by_operator', 'paused_by_operator', 'a pause', 'pending_first_attempt', null,
    1000);
select ff_tap.leased_execution(:'active');
select ff_tap.burden(:'active');
select ff_tap.leased_execution(:'expired', p_lease_expires_at_ms => 1100);
select ff_tap.leased_execution(:'revoked');
select flowfabric._ff_lose_lease(ff_tap.core(:'revoked'), 'lease_revoked', 'maintenance', 1000);
select ff_tap.suspended_execution(:'suspended');
select ff_tap.leased_execution(:'paused', p_attempt_timeout_ms => 4000);
select flowfabric.ff_delay_execution(:'paused', 5000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.leased_execution(:'retrying', '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(:'retrying', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.leased_execution(:'held', p_lease_expires_at_ms => 1201);
insert into flowfabric.ff_claim_grant (
    partition_key, execution_id, grant_ttl_ms, issued_at_ms, expires_at_ms, grant_id, kind, worker_id,
    worker_instance_id)
select 86, e.execution_id, 5000, 1000, 6000, '\x00', 'claim', 'worker', 'worker-1'
from ff_tap.core(:'waiting') as e;
create temporary table before as
select e.execution_id, to_jsonb(e) as core from flowfabric.ff_exec_core as e;

-- A worker cannot name another source, whatever the execution is doing
select ff_tap.freeze_time(1200);
select is(
    ff_tap.error_of(format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_worker',
        format('select flowfabric.ff_cancel_execution(%L, %L, %L)', t.execution_id, '', t.source))),
    '{"code": "unauthorized", "fn": "ff_cancel_execution", "op": "ff_cancel_execution",
      "role": "flowfabric_operator"}',
    format('a worker cannot cancel a %s execution as %s', t.fact, t.source))
from (values
    (:'waiting', 'waiting', 'operator_override'), (:'delayed', 'delayed', 'flow_cascade'),
    (:'blocked', 'blocked', 'system_timeout'), (:'active', 'running', 'operator_override'),
    (:'suspended', 'suspended', 'operator_override'), (:'paused', 'paused', 'flow_cascade'),
    ('{fp:86}:00000000-0000-4000-8000-0000ffffffff', 'non-existent', 'operator_override')
) as t (execution_id, fact, source);

-- A lease holder can end only what it holds
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_cancel_execution(%L, %L, %L, %L, 1, %L)', t.execution_id, '', 'lease_holder',
        ff_tap.lease_id(), ff_tap.attempt_id())) ->> 'code',
    t.code, t.fact)
from (values
    (:'waiting', 'execution_not_active', 'a waiting execution has no holder'),
    (:'delayed', 'execution_not_active', 'a delayed execution has no holder'),
    (:'blocked', 'execution_not_active', 'a blocked execution has no holder'),
    (:'suspended', 'execution_not_active', 'a suspended execution has no holder'),
    (:'paused', 'execution_not_active', 'a paused attempt has no holder'),
    (:'expired', 'lease_expired', 'a holder that lost its lease to the clock cannot cancel'),
    (:'revoked', 'lease_revoked', 'a holder that lost its lease to an operator cannot cancel')
) as t (execution_id, code, fact);
select is_empty(
    $$ select from before as b join flowfabric.ff_exec_core as e using (execution_id) where to_jsonb(e) <> b.core $$,
    'a refused cancellation writes nothing');

-- The lease holder
select results_eq(
    format(
        'select c.* from flowfabric.ff_cancel_execution('
        '%L, %L, p_lease_id => %L, p_lease_epoch => 1, p_attempt_id => %L) as c',
        :'held', 'gave up', ff_tap.lease_id(), ff_tap.attempt_id()),
    format(
        $$ values (
            'cancelled', %L, 'active'::flowfabric.ff_lifecycle_phase, 'cancelled'::flowfabric.ff_public_state) $$,
        :'held'),
    'a holder cancels in the last millisecond of its lease');
select is(
    (select row(n.cancellation_reason, n.cancelled_by)::text from ff_tap.note(:'held') as n),
    '("gave up",lease_holder)', 'it is noted why and by whom');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_cancel_execution(%L, %L, null, %L, 1, %L)', :'held', 'gave up', ff_tap.lease_id(),
        ff_tap.attempt_id())),
    jsonb_build_object(
        'code', 'execution_not_active', 'fn', 'ff_cancel_execution', 'execution_id', :'held',
        'lifecycle_phase', 'terminal', 'terminal_outcome', 'cancelled', 'lease_epoch', 1,
        'attempt_id', ff_tap.attempt_id(), 'attempt_state', 'attempt_terminal'),
    'a repeat learns from outcome, epoch and attempt id that the first call won');
select throws_ok(
    format('select flowfabric.ff_cancel_execution(%L, %L)', :'held', ''), 'ZC011', 'execution_not_active',
    'that an execution has ended comes before its fence');

-- The operator, from every phase
select results_eq(
    format('execute cancel(%L)', t.execution_id),
    format(
        $$ values ('cancelled', %L, %L::flowfabric.ff_lifecycle_phase, 'cancelled'::flowfabric.ff_public_state) $$,
        t.execution_id, t.phase),
    t.fact)
from (values
    (:'waiting', 'runnable', 'an operator cancels a waiting execution'),
    (:'delayed', 'runnable', 'an operator cancels a delayed execution'),
    (:'blocked', 'runnable', 'an operator cancels a blocked execution'),
    (:'active', 'active', 'an operator cancels a running execution'),
    (:'expired', 'active', 'an operator cancels an execution with an expired lease'),
    (:'revoked', 'active', 'an operator cancels an execution with a revoked lease'),
    (:'suspended', 'suspended', 'an operator cancels a suspended execution'),
    (:'paused', 'runnable', 'an operator cancels an execution with a paused attempt'),
    (:'retrying', 'runnable', 'an operator cancels an execution that waits for its retry')
) as t (execution_id, phase, fact);
select is(
    ff_tap.vector(t.execution_id),
    'terminal / unowned / not_applicable / none / cancelled / ' || t.attempt_state || ' -> cancelled', t.fact)
from (values
    (:'waiting', 'pending_first_attempt', 'what was waiting never had an attempt'),
    (:'delayed', 'pending_first_attempt', 'what was delayed never had an attempt'),
    (:'blocked', 'pending_first_attempt', 'what was blocked never had an attempt'),
    (:'active', 'attempt_terminal', 'what was running is terminal'),
    (:'expired', 'attempt_terminal', 'what had an expired lease is terminal'),
    (:'revoked', 'attempt_terminal', 'what had a revoked lease is terminal'),
    (:'suspended', 'attempt_terminal', 'what was suspended is terminal'),
    (:'paused', 'attempt_terminal', 'what had a paused attempt is terminal'),
    (:'retrying', 'attempt_terminal', 'what waited for its retry is terminal')
) as t (execution_id, attempt_state, fact);
select is_empty(
    $$ select e.execution_id from flowfabric.ff_exec_core as e
       where e.terminal_at_ms <> 1200 or e.last_transition_at_ms <> 1200 or e.last_mutation_at_ms <> 1200
           or num_nonnulls(e.blocking_detail, e.delay_until_ms, e.blocked_at_ms, e.deadline_at_ms,
               e.attempt_timeout_at_ms, e.current_lease_id, e.lease_acquired_at_ms, e.lease_expires_at_ms,
               e.lease_last_renewed_at_ms, e.lease_expired_at_ms, e.lease_revoked_at_ms, e.current_suspension_id,
               e.current_waitpoint_id) > 0 $$,
    'a cancelled execution has an end, and no timer, block, lease or suspension');
select is_empty('select from flowfabric.ff_claim_grant', 'the grant of a cancelled execution is gone');
select is_empty(
    $$ select e.execution_id from flowfabric.ff_exec_core as e
       where not exists (
           select from flowfabric.ff_completion_event as v
           where v.execution_id = e.execution_id and v.outcome = 'cancelled' and v.namespace = 'default') $$,
    'every cancelled execution has a completion event');
select is(
    (select count(*) from flowfabric.ff_completion_event), (select count(*) from flowfabric.ff_exec_core),
    'no cancelled execution has two of them');
select is(
    ff_tap.lease_events(t.execution_id), t.wanted, t.fact)
from (values
    (:'waiting', '{}'::text[], 'what was waiting has no lease event'),
    (:'active', '{acquired:issue_grant_and_claim,released:cancelled}', 'a lease that was held is released'),
    (:'expired', '{acquired:issue_grant_and_claim,released:cancelled}', 'a lease that had expired is released'),
    (:'revoked', '{acquired:issue_grant_and_claim,revoked:maintenance,released:cancelled}',
        'a lease that had been revoked is released'),
    (:'suspended', '{acquired:issue_grant_and_claim,released:suspend}', 'a suspension has released its lease before'),
    (:'paused', '{acquired:issue_grant_and_claim,released:worker_delay}', 'a delay has released its lease before')
) as t (execution_id, wanted, fact);

-- Attempts, streams, what the lease carried
select is(
    (select row(a.attempt_state, a.ended_at_ms, a.failure_reason, a.suspended_at_ms, a.suspension_id)::text
     from ff_tap.attempt(t.execution_id) as a),
    '(ended_cancelled,1200,"cancelled: no longer wanted",,)', t.fact)
from (values
    (:'active', 'a running attempt is cancelled with the reason'),
    (:'expired', 'an attempt with an expired lease is cancelled'),
    (:'revoked', 'an attempt with a revoked lease is cancelled'),
    (:'suspended', 'a suspended attempt is cancelled'),
    (:'paused', 'a paused attempt of a runnable execution is cancelled')
) as t (execution_id, fact);
select is(
    (select row(a.attempt_state, a.ended_at_ms, a.failure_reason)::text from ff_tap.attempt(:'retrying') as a),
    '(ended_failure,1000,broken)', 'an attempt that had ended stays as it was');
select is(
    (select n.failure_reason from ff_tap.note(:'retrying') as n), 'broken', 'an earlier failure stays noted');
select is_empty(
    format('select from ff_tap.attempt(%L) as a where a.attempt_index is not null', :'waiting'),
    'no attempt is made for what never ran');
select is(
    ff_tap.burden_of(:'active'), 'slot free, released:lease_released, 0 open, stream attempt_cancelled@1200',
    'slot and reservation go back, the stream is closed');
select is((ff_tap.note(:'revoked')).lease_revoke_reason, null, 'the reason of a revocation goes with the lease');
select is(
    (select row(n.cancellation_reason, n.cancelled_by)::text from ff_tap.note(:'waiting') as n),
    '("no longer wanted",operator_override)', 'the source is noted as given');

-- The suspension
select is(
    ff_tap.suspension_of(:'suspended'),
    'suspension cancelled@1200 by nobody, satisfied never, 2 of 2 waitpoints closed, 0 satisfiers',
    'the suspension is closed with all its waitpoints, and nobody satisfied it');

-- Revoke, cancel, and live again: no mark of the revocation is left behind
select is(
    (select row(e.lease_revoked_at_ms, e.ownership_state)::text from ff_tap.core(:'revoked') as e), '(,unowned)',
    'a cancelled execution is not revoked any more');

-- Arguments
select is(
    ff_tap.error_of(format('execute cancel(%L)', :'waiting')) - array['fn', 'attempt_state'],
    jsonb_build_object(
        'code', 'execution_not_active', 'execution_id', :'waiting', 'lifecycle_phase', 'terminal',
        'terminal_outcome', 'cancelled', 'lease_epoch', 0),
    'a second cancellation learns that the execution is cancelled');
select throws_ok(
    format('execute cancel(%L)', '{fp:86}:00000000-0000-4000-8000-0000ffffffff'), 'ZN001', 'execution_not_found',
    'an unknown execution is refused');
select is(
    ff_tap.error_of(format('select flowfabric.ff_cancel_execution(%L, null)', :'waiting')) - 'fn',
    '{"code": "invalid_input", "field": "reason", "reason": "null"}', 'a reason is required');
select is(
    ff_tap.error_of(format('select flowfabric.ff_cancel_execution(%L, %L, %L)', :'waiting', '', 'me')) - 'fn',
    '{"code": "invalid_input", "field": "source", "reason": "unknown", "value": "me"}',
    'a source must be known');
\set silent '{fp:86}:00000000-0000-4000-8000-00000000000b'
select ff_tap.leased_execution(:'silent');
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_operator',
        format('select flowfabric.ff_cancel_execution(%L, %L, %L)', :'silent', '', 'flow_cascade')),
    'an operator cancels with any privileged source and an empty reason');
select is(
    (select row(n.cancellation_reason, n.cancelled_by, a.failure_reason)::text
     from ff_tap.note(:'silent') as n, ff_tap.attempt(:'silent') as a),
    '(,flow_cascade,"cancelled: ")', 'an empty reason is none');

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
select lives_ok(format('execute cancel(%L)', :'member'), 'a flow member is cancelled');
select is(
    (select v.flow_id from flowfabric.ff_completion_event as v
     where v.execution_id = '00000000-0000-4000-8000-0000000000e1'),
    :'flow'::uuid, 'its completion event names the flow');

-- Everything that a fence is for
select ff_tap.refuses_bad_fences(
    'select flowfabric.ff_cancel_execution('
    '%1$L, ''a reason'', p_lease_id => %2$L, p_lease_epoch => %3$L, p_attempt_id => %4$L)',
    p_has_override => false);
select * from finish();
rollback;
