-- The lease scanner: an expiry becomes durable, once, and takes nothing away that a reader or a reclaim needs.
begin;
\ir ../helpers.sql
select plan(32);

prepare scan (integer) as select s.* from flowfabric.ff_scan_expired_leases($1) as s;

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.marked()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(right(e.execution_id::text, 12)::integer order by e.execution_id), '{}')
    from flowfabric.ff_exec_core as e
    where e.ownership_state = 'lease_expired_reclaimable'
$$;

select ff_tap.id(1) as execution \gset
select ff_tap.freeze_time(1000);
select results_eq(
    'select s.* from flowfabric.ff_scan_expired_leases() as s', 'values (0, 0, 0, false)',
    'without leases nothing happens');
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 5000);
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
values (86, right(:'execution', 36)::uuid, 0, 1500);
insert into flowfabric.ff_quota_admitted (
    quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
values ('q', 86, right(:'execution', 36)::uuid, 1000, 61000, true);
insert into flowfabric.ff_budget_policy (
    budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit, created_at_ms, updated_at_ms)
values ('b', 'tenant', 't', 'strict', 'fail', 'warn', 1000, 1000);
insert into flowfabric.ff_budget_usage (budget_id, dimension, current_value, reserved_value, updated_at_ms)
values ('b', 'tokens', 5, 30, 1000);
insert into flowfabric.ff_budget_reservation (
    budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts,
    reserved_at_ms)
values ('b', 'r', 86, right(:'execution', 36)::uuid, ff_tap.attempt_id(), 1, '{tokens}', '{30}', 1000);
update flowfabric.ff_exec_core as e set open_reservation_count = 1;

select ff_tap.freeze_time(4999);
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'a lease is good until its expiry');
select ff_tap.freeze_time(5000);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'at the instant itself it is marked');
select is(
    ff_tap.vector(:'execution'),
    'active / lease_expired_reclaimable / not_applicable / waiting_for_worker / none / attempt_interrupted -> active',
    'the execution stays active and waits for a reclaim');
select is(
    (select jsonb_build_array(
        e.current_lease_id, e.current_lease_epoch, e.current_worker_id, e.current_worker_instance_id,
        e.lease_expires_at_ms, e.current_attempt_id)
     from ff_tap.core(:'execution') as e),
    jsonb_build_array(ff_tap.lease_id(), 1, 'worker', 'worker-1', 5000, ff_tap.attempt_id()),
    'the lost lease stays readable');
select is(
    (select jsonb_build_array(
        e.lease_expired_at_ms, e.last_mutation_at_ms, e.last_transition_at_ms, e.blocking_detail,
        e.open_reservation_count)
     from ff_tap.core(:'execution') as e),
    '[5000, 5000, 1000, "lease expired", 0]'::jsonb, 'the mark is a mutation and no transition');
select is((ff_tap.attempt(:'execution')).attempt_state, 'started', 'the attempt is not ended by it');
select is(
    ff_tap.lease_events(:'execution'), array['acquired:issue_grant_and_claim', 'expired'],
    'one event tells of the expiry');
select is(
    (select jsonb_build_array(v.lease_id, v.lease_epoch, v.attempt_index, v.worker_instance_id, v.occurred_at_ms)
     from flowfabric.ff_lease_event as v where v.event_type = 'expired'),
    jsonb_build_array(ff_tap.lease_id(), 1, 0, 'worker-1', 5000), 'with the identity of the lost lease');
select is(
    (select row(m.closed_at_ms, m.closed_reason) from flowfabric.ff_stream_meta as m),
    row(5000::bigint, 'lease_expired'::text), 'readers of its stream need not wait any more');
select is(
    (select row(r.state, r.close_reason) from flowfabric.ff_budget_reservation as r),
    row('released'::text, 'lease_expired'::text), 'what the worker had reserved goes back');
select is(
    (select row(u.current_value, u.reserved_value) from flowfabric.ff_budget_usage as u),
    row(5::bigint, 0::bigint), 'to its budget');
select is(
    (select q.slot_held from flowfabric.ff_quota_admitted as q), true, 'the quota slot stays held for the reclaim');
select ff_tap.freeze_time(6000);
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'a repeat finds nothing');
select is(
    ff_tap.lease_events(:'execution'), array['acquired:issue_grant_and_claim', 'expired'], 'and writes no event');

-- What is not marked
select ff_tap.leased_execution(ff_tap.id(2), p_lease_expires_at_ms => 7000);
select ff_tap.leased_execution(ff_tap.id(3), p_lease_expires_at_ms => 7000);
select ff_tap.leased_execution(ff_tap.id(4), p_lease_expires_at_ms => 7000);
select ff_tap.execution(ff_tap.id(5));
select flowfabric.ff_renew_lease(ff_tap.id(2), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 2000);
select flowfabric.ff_revoke_lease(ff_tap.id(3));
select flowfabric.ff_complete_execution(ff_tap.id(4), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(7999);
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'renewed, revoked and ended leases are left alone');
select is(
    (ff_tap.core(ff_tap.id(3))).ownership_state, 'lease_revoked', 'a revoked lease stays revoked after its expiry');
select ff_tap.freeze_time(8000);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'a renewed lease expires at its new time');
select is(ff_tap.marked(), array[1, 2], 'and no other');

-- A stream that is closed already keeps its reason
select ff_tap.leased_execution(ff_tap.id(6), p_lease_expires_at_ms => 9000);
insert into flowfabric.ff_stream_meta (
    partition_key, execution_id, attempt_index, created_at_ms, closed_at_ms, closed_reason)
values (86, right(ff_tap.id(6), 36)::uuid, 0, 8000, 8500, 'attempt_failure');
select ff_tap.freeze_time(9000);
execute scan(50);
select is(
    (select row(m.closed_at_ms, m.closed_reason) from flowfabric.ff_stream_meta as m
     where m.execution_id = right(ff_tap.id(6), 36)::uuid),
    row(8500::bigint, 'attempt_failure'::text), 'an earlier end of a stream is not overwritten');

-- The flow of a member is not touched
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms, last_mutation_at_ms)
values (86, '00000000-0000-4000-8000-00000000f10e', 'test', 'default', 'open', 1, 9000, 9000);
select ff_tap.leased_execution(ff_tap.id(7), p_lease_expires_at_ms => 9500);
update flowfabric.ff_exec_core as e
set flow_id = '00000000-0000-4000-8000-00000000f10e'
where e.execution_id = right(ff_tap.id(7), 36)::uuid;
select ff_tap.freeze_time(9500);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'a member of a flow is marked like any other');
select is(
    (select f.last_mutation_at_ms from flowfabric.ff_flow_core as f), 9000::bigint, 'and its flow does not change');

-- Batches
select ff_tap.leased_execution(ff_tap.id(10 + i), p_lease_expires_at_ms => 10020 - i) from generate_series(1, 5) as i;
select ff_tap.freeze_time(11000);
select results_eq('execute scan(2)', 'values (2, 0, 0, true)', 'a full batch says that there may be more');
select is(ff_tap.marked(), array[1, 2, 6, 7, 14, 15], 'the longest expired go first');
select results_eq('execute scan(3)', 'values (3, 0, 0, true)', 'a batch that is just full cannot know');
select results_eq('execute scan(3)', 'values (0, 0, 0, false)', 'that there was no more');

-- One partition
select ff_tap.leased_execution('{fp:1}:00000000-0000-4000-8000-000000000021', p_lease_expires_at_ms => 12000);
select ff_tap.leased_execution('{fp:2}:00000000-0000-4000-8000-000000000022', p_lease_expires_at_ms => 12000);
select ff_tap.freeze_time(12000);
select results_eq(
    'select s.* from flowfabric.ff_scan_expired_leases(50, 2::smallint) as s', 'values (1, 0, 0, false)',
    'a scan can be limited to a partition');
select is(
    (ff_tap.core('{fp:1}:00000000-0000-4000-8000-000000000021')).ownership_state, 'leased',
    'and leaves the others alone');

-- Refusals
select throws_ok('execute scan(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute scan(10001)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select is(
    ff_tap.error_of('execute scan(null)'),
    '{"code": "invalid_input", "fn": "ff_scan_expired_leases", "field": "limit", "reason": "null"}',
    'a limit is required');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');

select * from finish();
rollback;
