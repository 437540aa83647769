-- The timeout scanner: an attempt that takes too long ends its execution.
begin;
\ir ../helpers.sql
select plan(31);

prepare scan (integer) as select s.* from flowfabric.ff_scan_attempt_timeouts($1) as s;

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.expired()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(right(e.execution_id::text, 12)::integer order by e.execution_id), '{}')
    from flowfabric.ff_exec_core as e
    where ff_tap.public_state(e) = 'expired'
$$;

select ff_tap.id(1) as execution \gset
select ff_tap.freeze_time(1000);
select results_eq(
    'select s.* from flowfabric.ff_scan_attempt_timeouts() as s', 'values (0, 0, 0, false)',
    'without attempts nothing happens');
select ff_tap.leased_execution(
    :'execution', p_policy => '{"retry_policy": {"max_retries": 5}}', p_lease_expires_at_ms => 90000,
    p_attempt_timeout_ms => 4000, p_deadline_at_ms => 900000);
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
values (86, right(:'execution', 36)::uuid, 0, 1500);

select ff_tap.freeze_time(4999);
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'an attempt may run until its timeout');
select ff_tap.freeze_time(5000);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'at the instant itself it is over');
select is(
    ff_tap.vector(:'execution'),
    'terminal / unowned / not_applicable / none / expired / attempt_terminal -> expired',
    'the execution has expired, whatever its retry policy says');
select is(
    (select jsonb_build_array(
        e.terminal_at_ms, e.attempt_timeout_at_ms, e.deadline_at_ms, e.current_lease_id, e.retry_count)
     from ff_tap.core(:'execution') as e),
    '[5000, null, null, null, 0]'::jsonb, 'no timer and no lease is left');
select is(
    (select row(a.attempt_state, a.failure_reason, a.ended_at_ms) from ff_tap.attempt(:'execution') as a),
    row('ended_failure'::flowfabric.ff_attempt_row_state, 'attempt_timeout'::text, 5000::bigint),
    'the attempt has failed');
select is((ff_tap.note(:'execution')).failure_reason, 'attempt_timeout', 'the reason is noted');
select is(
    ff_tap.lease_events(:'execution'),
    array['acquired:issue_grant_and_claim', 'released:expired:attempt_timeout'], 'its lease is released');
select is(ff_tap.completions(:'execution'), array['expired'], 'its end is an event');
select is(
    (select row(m.closed_at_ms, m.closed_reason) from flowfabric.ff_stream_meta as m),
    row(5000::bigint, 'expired'::text), 'its stream is closed');
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'a repeat finds nothing');
select is(ff_tap.completions(:'execution'), array['expired'], 'and writes no event');

-- A lost lease does not stop the clock of the attempt
select ff_tap.leased_execution(ff_tap.id(2), p_lease_expires_at_ms => 6000, p_attempt_timeout_ms => 2000);
select ff_tap.leased_execution(ff_tap.id(3), p_lease_expires_at_ms => 90000, p_attempt_timeout_ms => 2000);
select ff_tap.leased_execution(ff_tap.id(4), p_lease_expires_at_ms => 6000, p_attempt_timeout_ms => 2000);
select flowfabric.ff_revoke_lease(ff_tap.id(3));
select ff_tap.freeze_time(6000);
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(2));
select ff_tap.freeze_time(7000);
select results_eq(
    'execute scan(50)', 'values (3, 0, 0, false)', 'expired, revoked and unmarked leases are timed out too');
select is(ff_tap.expired(), array[1, 2, 3, 4], 'all of them');

-- What stops the clock of the attempt
select ff_tap.leased_execution(ff_tap.id(5), p_attempt_timeout_ms => 1000);
select flowfabric.ff_delay_execution(ff_tap.id(5), 7001, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.leased_execution(ff_tap.id(6), p_attempt_timeout_ms => 1000);
select flowfabric.ff_complete_execution(ff_tap.id(6), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.leased_execution(ff_tap.id(7), p_attempt_timeout_ms => 0);
select ff_tap.freeze_time(8000);
select results_eq(
    'execute scan(50)', 'values (0, 0, 0, false)', 'paused and ended attempts and those without timeout are not due');

-- A new attempt has a new time
select ff_tap.leased_execution(
    ff_tap.id(8), p_lease_expires_at_ms => 8500, p_policy => '{"timeout_policy": {"attempt_timeout_ms": 2000}}');
select ff_tap.freeze_time(9000);
select flowfabric.ff_issue_reclaim_grant(ff_tap.id(8), 'worker', 'worker-2', 'default');
select flowfabric.ff_reclaim_execution(ff_tap.id(8), 'worker', 'worker-2');
select ff_tap.freeze_time(10999);
select results_eq(
    'execute scan(50)', 'values (0, 0, 0, false)', 'a fresh attempt is not ended by the time of the one before');
select ff_tap.freeze_time(11000);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'but by its own');

-- Policy timeouts count like given ones
select ff_tap.leased_execution(ff_tap.id(9), p_policy => '{"timeout_policy": {"attempt_timeout_ms": 500}}');
select ff_tap.freeze_time(11500);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'a timeout of the policy is one');

-- A member of a flow tells its dependants
\set flow '00000000-0000-4000-8000-00000000f10e'
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 2, 11500, 11500);
select ff_tap.leased_execution(ff_tap.id(10), p_attempt_timeout_ms => 500);
select ff_tap.execution(ff_tap.id(11));
update flowfabric.ff_exec_core as e
set flow_id = :'flow'
where e.execution_id in (right(ff_tap.id(10), 36)::uuid, right(ff_tap.id(11), 36)::uuid);
insert into flowfabric.ff_edge (
    partition_key, flow_id, edge_id, upstream_eid, downstream_eid, dep_state, created_at_ms, staged_at_ms)
values (
    86, :'flow', '00000000-0000-4000-8000-0000000000ed', right(ff_tap.id(10), 36)::uuid,
    right(ff_tap.id(11), 36)::uuid, 'unsatisfied', 11500, 11500);
insert into flowfabric.ff_edge_group (partition_key, flow_id, downstream_eid, policy_kind, n, created_at_ms)
values (86, :'flow', right(ff_tap.id(11), 36)::uuid, 'all_of', 1, 11500);
select ff_tap.freeze_time(12000);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'a member of a flow is timed out like any other');
select is(
    (select row(v.flow_id, v.outcome) from flowfabric.ff_completion_event as v
     where v.execution_id = right(ff_tap.id(10), 36)::uuid),
    row(:'flow'::uuid, 'expired'::flowfabric.ff_terminal_outcome), 'its end names the flow');
select is_empty(
    format(
        $$ select d.edge_id from flowfabric.ff_edge as d
           where d.upstream_eid = %L and d.dep_state = 'unsatisfied' and not exists (
               select from flowfabric.ff_dependency_outbox as o where o.upstream_eid = d.upstream_eid) $$,
        right(ff_tap.id(10), 36)),
    'its outgoing edges are resolved or queued to be');
select ff_tap.leased_execution(ff_tap.id(12), p_attempt_timeout_ms => 500);
update flowfabric.ff_exec_core as e
set flow_id = '00000000-0000-4000-8000-00000000dead'
where e.execution_id = right(ff_tap.id(12), 36)::uuid;
select ff_tap.freeze_time(12500);
select results_eq(
    'execute scan(50)', 'values (1, 0, 0, false)', 'a flow that is gone does not keep its member from its end');

-- Batches
select ff_tap.leased_execution(ff_tap.id(20 + i), p_attempt_timeout_ms => 1000 - i) from generate_series(1, 5) as i;
select ff_tap.freeze_time(14000);
select results_eq('execute scan(2)', 'values (2, 0, 0, true)', 'a full batch says that there may be more');
select ok(ff_tap.expired() @> array[24, 25], 'the longest overdue go first');
select results_eq('execute scan(50)', 'values (3, 0, 0, false)', 'the rest follows');

-- One partition
select ff_tap.leased_execution('{fp:1}:00000000-0000-4000-8000-000000000031', p_attempt_timeout_ms => 1);
select ff_tap.leased_execution('{fp:2}:00000000-0000-4000-8000-000000000032', p_attempt_timeout_ms => 1);
select ff_tap.freeze_time(15000);
select results_eq(
    'select s.* from flowfabric.ff_scan_attempt_timeouts(50, 2::smallint) as s', 'values (1, 0, 0, false)',
    'a scan can be limited to a partition');
select is(
    ff_tap.public_state(ff_tap.core('{fp:1}:00000000-0000-4000-8000-000000000031')), 'active',
    'and leaves the others alone');

-- Refusals
select throws_ok('execute scan(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute scan(10001)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select is(
    ff_tap.error_of('execute scan(null)'),
    '{"code": "invalid_input", "fn": "ff_scan_attempt_timeouts", "field": "limit", "reason": "null"}',
    'a limit is required');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');

select * from finish();
rollback;
