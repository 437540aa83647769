-- Marking an expired lease: when it is due, what it leaves readable, and what it gives back.
begin;
\ir ../helpers.sql
select plan(20);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare mark (text) as select m.outcome, m.reason from flowfabric.ff_mark_lease_expired_if_due($1) as m;
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 1500, p_attempt_timeout_ms => 5000);
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
select k.partition_key, k.execution_id, 0, 1000 from flowfabric.ff_parse_execution_id(:'execution') as k;

-- Not yet
select ff_tap.freeze_time(1499);
select results_eq(
    format('execute mark(%L)', :'execution'), $$values ('already_satisfied'::text, 'not_yet_expired'::text)$$,
    'before its expiry a lease is not marked');
select flowfabric.ff_renew_lease(:'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 501);
select ff_tap.freeze_time(1999);
select results_eq(
    format('execute mark(%L)', :'execution'), $$values ('already_satisfied'::text, 'not_yet_expired'::text)$$,
    'nor is one that was renewed in between');

-- At the expiry, with an open reservation
insert into flowfabric.ff_budget_policy (
    budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit, created_at_ms, updated_at_ms)
values ('budget', 'tenant', 'a', 'strict', 'fail', 'warn', 1000, 1000);
insert into flowfabric.ff_budget_usage (budget_id, dimension, reserved_value, updated_at_ms)
values ('budget', 'tokens', 7, 1000);
insert into flowfabric.ff_budget_reservation (
    budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts,
    reserved_at_ms)
select 'budget', 'key', k.partition_key, k.execution_id, ff_tap.attempt_id(), 1, '{tokens}', '{7}', 1000
from flowfabric.ff_parse_execution_id(:'execution') as k;
update flowfabric.ff_exec_core set open_reservation_count = 1;
create temporary table before as select to_jsonb(ff_tap.core(:'execution')) as core;
select ff_tap.freeze_time(2000);
select results_eq(
    format('execute mark(%L)', :'execution'), $$values ('marked_expired'::text, null::text)$$,
    'a lease is expired at the instant of its expiry');
select is(
    ff_tap.vector(:'execution'),
    'active / lease_expired_reclaimable / not_applicable / waiting_for_worker / none / attempt_interrupted -> active',
    'a marked execution stays active and waits for a worker');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core || jsonb_build_object(
        'ownership_state', 'lease_expired_reclaimable', 'blocking_reason', 'waiting_for_worker',
        'blocking_detail', 'lease expired', 'attempt_state', 'attempt_interrupted', 'lease_expired_at_ms', 2000,
        'delay_until_ms', 2000, 'open_reservation_count', 0, 'last_mutation_at_ms', 2000) from before as b),
    'nothing else of the execution changes: the lease stays readable, and it is no transition');
select is((ff_tap.attempt(:'execution')).attempt_state, 'started', 'the attempt keeps its state');
select results_eq(
    $$select r.state, r.close_reason, r.closed_at_ms, u.reserved_value
      from flowfabric.ff_budget_reservation as r, flowfabric.ff_budget_usage as u$$,
    $$values ('released'::text, 'lease_expired'::text, 2000::bigint, 0::bigint)$$,
    'open reservations are returned: nobody can settle them any more');
select results_eq(
    'select m.closed_at_ms, m.closed_reason from flowfabric.ff_stream_meta as m',
    $$values (2000::bigint, 'lease_expired'::text)$$, 'readers of the stream need not wait any longer');
select is(
    ff_tap.lease_events(:'execution'), '{acquired:issue_grant_and_claim,expired}'::text[], 'the mark is an event');
select is(
    (select jsonb_build_array(
        v.lease_id, v.lease_epoch, v.attempt_index, v.attempt_id, v.worker_id, v.worker_instance_id, v.occurred_at_ms)
     from flowfabric.ff_lease_event as v where v.event_type = 'expired'),
    jsonb_build_array(ff_tap.lease_id(), 1, 0, ff_tap.attempt_id(), 'worker', 'worker-1', 2000),
    'the event names the lease that was lost');

-- Repeated, and after it
select ff_tap.freeze_time(2500);
select results_eq(
    format('execute mark(%L)', :'execution'), $$values ('already_satisfied'::text, 'already_expired'::text)$$,
    'a second mark changes nothing');
select is(
    (select jsonb_build_array(
        e.lease_expired_at_ms, e.last_mutation_at_ms, cardinality(ff_tap.lease_events(:'execution')))
     from ff_tap.core(:'execution') as e),
    '[2000, 2000, 2]'::jsonb, 'it writes no second time and no second event');
select throws_ok(
    format('select flowfabric.ff_renew_lease(%L, ff_tap.lease_id(), 1, ff_tap.attempt_id())', :'execution'),
    'ZS002', 'lease_expired', 'its owner is refused');
select flowfabric.ff_issue_reclaim_grant(:'execution', 'pool', 'pool-1');
select flowfabric.ff_reclaim_execution(:'execution', 'pool', 'pool-1');
select results_eq(
    'select m.closed_at_ms, m.closed_reason from flowfabric.ff_stream_meta as m',
    $$values (2500::bigint, 'reclaimed'::text)$$, 'a reclaim closes the stream anew, with its own reason');

-- A stream that was closed before keeps its reason
\set closed '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'closed', p_lease_expires_at_ms => 2600);
insert into flowfabric.ff_stream_meta (
    partition_key, execution_id, attempt_index, created_at_ms, closed_at_ms, closed_reason)
select k.partition_key, k.execution_id, 0, 2500, 2550, 'attempt_success'
from flowfabric.ff_parse_execution_id(:'closed') as k;
select ff_tap.freeze_time(2600);
select flowfabric.ff_mark_lease_expired_if_due(:'closed');
select results_eq(
    'select m.closed_at_ms, m.closed_reason from flowfabric.ff_stream_meta as m where m.created_at_ms = 2500',
    $$values (2550::bigint, 'attempt_success'::text)$$, 'the mark closes open streams only');

-- Nothing to mark
\set revoked '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.leased_execution(:'revoked', p_lease_expires_at_ms => 2700);
select flowfabric.ff_revoke_lease(:'revoked');
select ff_tap.freeze_time(2700);
select results_eq(
    format('execute mark(%L)', :'revoked'), $$values ('already_satisfied'::text, 'already_revoked'::text)$$,
    'a revoked lease is lost already');
select flowfabric.ff_cancel_execution(:'revoked', 'stop', 'operator_override');
select results_eq(
    format('execute mark(%L)', :'revoked'), $$values ('already_satisfied'::text, 'not_active'::text)$$,
    'an ended execution has no lease');
select results_eq(
    $$execute mark('{fp:86}:00000000-0000-4000-8000-00000000ffff')$$,
    $$values ('already_satisfied'::text, 'execution_not_found'::text)$$, 'nor has an unknown one');
select throws_ok(
    $$execute mark('nonsense')$$, 'ZV001', 'invalid_input', 'a malformed execution id is refused');
\set broken '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.leased_execution(:'broken', p_lease_expires_at_ms => 2701);
alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal;
update flowfabric.ff_exec_core as e set ownership_state = 'unowned'
where e.execution_id = (flowfabric.ff_parse_execution_id(:'broken')).execution_id;
select ff_tap.freeze_time(2701);
select results_eq(
    format('execute mark(%L)', :'broken'), $$values ('already_satisfied'::text, 'unowned'::text)$$,
    'an active execution without an owner, which the state model rules out, is left alone');

select * from finish();
rollback;
