-- Revoking a lease: what its owner loses, what stays, and when there is nothing to take away.
begin;
\ir ../helpers.sql
select plan(28);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare revoke_it (text) as select r.* from flowfabric.ff_revoke_lease($1) as r;
select ff_tap.leased_execution(:'execution', p_lease_epoch => 4, p_attempt_timeout_ms => 5000);
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
select k.partition_key, k.execution_id, 1, 1000 from flowfabric.ff_parse_execution_id(:'execution') as k;
insert into flowfabric.ff_budget_policy (
    budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit, created_at_ms, updated_at_ms)
values ('budget', 'tenant', 'a', 'strict', 'fail', 'warn', 1000, 1000);
insert into flowfabric.ff_budget_usage (budget_id, dimension, reserved_value, updated_at_ms)
values ('budget', 'tokens', 7, 1000);
insert into flowfabric.ff_budget_reservation (
    budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts,
    reserved_at_ms)
select 'budget', 'key', k.partition_key, k.execution_id, ff_tap.attempt_id(), 4, '{tokens}', '{7}', 1000
from flowfabric.ff_parse_execution_id(:'execution') as k;
update flowfabric.ff_exec_core set open_reservation_count = 1;

-- Whose lease
select ff_tap.freeze_time(1200);
select throws_ok(
    format('select flowfabric.ff_revoke_lease(%L, ff_tap.attempt_id())', :'execution'), 'ZS001', 'stale_lease',
    'another lease than the expected one is not revoked');
select is(
    ff_tap.error_of(format('select flowfabric.ff_revoke_lease(%L, ff_tap.attempt_id())', :'execution')),
    jsonb_build_object(
        'code', 'stale_lease', 'fn', 'ff_revoke_lease', 'execution_id', :'execution', 'mismatch', '["lease_id"]'::jsonb,
        'lease_epoch', 4, 'expected_lease_id', ff_tap.attempt_id(), 'lease_id', ff_tap.lease_id()),
    'the refusal shows both leases');
select results_eq(
    format('select r.* from flowfabric.ff_revoke_lease(%L, p_worker_instance_id => ''worker-2'') as r', :'execution'),
    $$values ('already_satisfied'::text, 'different_worker_instance_id'::text, ff_tap.lease_id(), 4::bigint)$$,
    'a lease that another instance holds is not revoked');
select is(
    ff_tap.vector(:'execution'), 'active / leased / not_applicable / none / none / running_attempt -> active',
    'its holder keeps it');

-- Revoked
create temporary table before as
select to_jsonb(ff_tap.core(:'execution')) as core, to_jsonb(ff_tap.attempt(:'execution', 1)) as attempt;
select results_eq(
    format(
        $$select r.* from flowfabric.ff_revoke_lease(%L, ff_tap.lease_id(), 'worker-1', 'maintenance') as r$$,
        :'execution'),
    $$values ('revoked'::text, null::text, ff_tap.lease_id(), 4::bigint)$$,
    'the expected lease of the expected instance is revoked');
select is(
    ff_tap.vector(:'execution'),
    'active / lease_revoked / not_applicable / waiting_for_worker / none / attempt_interrupted -> active',
    'a revoked execution stays active and waits for a worker');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core || jsonb_build_object(
        'ownership_state', 'lease_revoked', 'blocking_reason', 'waiting_for_worker',
        'blocking_detail', 'lease revoked: maintenance', 'attempt_state', 'attempt_interrupted',
        'lease_revoked_at_ms', 1200, 'delay_until_ms', 1200, 'open_reservation_count', 0,
        'last_mutation_at_ms', 1200) from before as b),
    'nothing else of the execution changes: the lease stays readable, and it is no transition');
select is((ff_tap.note(:'execution')).lease_revoke_reason, 'maintenance', 'the reason is noted');
select is(
    to_jsonb(ff_tap.attempt(:'execution', 1)), (select b.attempt from before as b), 'the attempt is left alone');
select results_eq(
    'select m.closed_at_ms from flowfabric.ff_stream_meta as m', 'values (null::bigint)', 'so is its stream');
select results_eq(
    $$select r.state, r.close_reason, r.closed_at_ms, u.reserved_value
      from flowfabric.ff_budget_reservation as r, flowfabric.ff_budget_usage as u$$,
    $$values ('released'::text, 'lease_revoked'::text, 1200::bigint, 0::bigint)$$,
    'open reservations are returned: nobody can settle them any more');
select is(
    ff_tap.lease_events(:'execution'), '{acquired:issue_grant_and_claim,revoked:maintenance}'::text[],
    'the revocation is an event with its reason');

-- Repeated, and the owner
select ff_tap.freeze_time(1300);
select results_eq(
    format('execute revoke_it(%L)', :'execution'),
    $$values ('already_satisfied'::text, 'already_revoked'::text, ff_tap.lease_id(), 4::bigint)$$,
    'a second revocation changes nothing');
select is(
    (select jsonb_build_array(
        e.lease_revoked_at_ms, e.last_mutation_at_ms, cardinality(ff_tap.lease_events(:'execution')))
     from ff_tap.core(:'execution') as e),
    '[1200, 1200, 2]'::jsonb, 'it writes no second time and no second event');
select throws_ok(
    format('select flowfabric.ff_renew_lease(%L, ff_tap.lease_id(), 4, ff_tap.attempt_id())', :'execution'),
    'ZS003', 'lease_revoked', 'its owner cannot renew');
select throws_ok(
    format('select flowfabric.ff_complete_execution(%L, ff_tap.lease_id(), 4, ff_tap.attempt_id())', :'execution'),
    'ZS003', 'lease_revoked', 'nor complete');

-- Reclaimed
select flowfabric.ff_issue_reclaim_grant(:'execution', 'pool', 'pool-1');
select flowfabric.ff_reclaim_execution(:'execution', 'pool', 'pool-1');
select is(
    (select jsonb_build_array(
        (ff_tap.attempt(:'execution', 1)).attempt_state, (ff_tap.attempt(:'execution', 1)).failure_reason,
        a.attempt_type, a.reclaim_reason, a.previous_attempt_index)
     from ff_tap.attempt(:'execution', 2) as a),
    '["interrupted_reclaimed", "lease_revoked", "reclaim", "lease_revoked", 1]'::jsonb,
    'the reclaim of a revoked lease says so on both attempts');
select is(
    (select jsonb_build_array(e.lease_revoked_at_ms, (ff_tap.note(:'execution')).lease_revoke_reason)
     from ff_tap.core(:'execution') as e),
    '[null, null]'::jsonb, 'the new lease knows nothing of the revocation');

-- The default reason; a lease that is expired by the clock and not yet marked
select ff_tap.freeze_time(1000);
\set unmarked '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'unmarked', p_lease_expires_at_ms => 1500);
select ff_tap.freeze_time(1500);
select results_eq(
    format('select r.outcome from flowfabric.ff_revoke_lease(%L, null, '''', '''') as r', :'unmarked'),
    $$values ('revoked'::text)$$, 'an expiry that nobody has marked does not stop a revocation');
select is(
    ff_tap.lease_events(:'unmarked'), '{acquired:issue_grant_and_claim,revoked:operator}'::text[],
    'the reason is operator unless another is given');

-- Nothing to take away
\set marked '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.leased_execution(:'marked', p_lease_expires_at_ms => 1600);
select ff_tap.freeze_time(1600);
select flowfabric.ff_mark_lease_expired_if_due(:'marked');
select results_eq(
    format(
        'select r.* from flowfabric.ff_revoke_lease(%L, ff_tap.attempt_id(), ''worker-2'') as r', :'marked'),
    $$values ('already_satisfied'::text, 'already_expired'::text, ff_tap.lease_id(), 1::bigint)$$,
    'a marked expiry is as good as a revocation, whatever lease was expected');
\set runnable '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.execution(:'runnable');
select throws_ok(
    format('execute revoke_it(%L)', :'runnable'), 'ZC011', 'execution_not_active',
    'an execution that nobody runs has no lease');
select is(
    ff_tap.error_of(format('execute revoke_it(%L)', :'runnable')),
    jsonb_build_object(
        'code', 'execution_not_active', 'fn', 'ff_revoke_lease', 'execution_id', :'runnable',
        'lifecycle_phase', 'runnable', 'terminal_outcome', 'none', 'lease_epoch', 0,
        'attempt_state', 'pending_first_attempt'),
    'the refusal shows the state');
select throws_ok(
    $$execute revoke_it('{fp:86}:00000000-0000-4000-8000-00000000ffff')$$, 'ZN001', 'execution_not_found',
    'an unknown execution is refused');
select throws_ok($$execute revoke_it('{fp:86}')$$, 'ZV001', 'invalid_input', 'a malformed execution id is refused');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_revoke_lease(%L, p_worker_instance_id => ''a b'')', :'runnable')) ->> 'field',
    'worker_instance_id', 'a malformed worker instance is refused');
\set broken '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.leased_execution(:'broken');
alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal;
update flowfabric.ff_exec_core as e set ownership_state = 'unowned'
where e.execution_id = (flowfabric.ff_parse_execution_id(:'broken')).execution_id;
select throws_ok(
    format('execute revoke_it(%L)', :'broken'), 'ZC015', 'no_active_lease',
    'an active execution without an owner, which the state model rules out, has no lease either');
select is(
    ff_tap.error_of(format('execute revoke_it(%L)', :'broken')) ->> 'ownership_state', 'unowned',
    'the refusal shows the ownership');

select * from finish();
rollback;
