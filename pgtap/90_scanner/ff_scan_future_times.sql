-- A clock that was a day ahead for a moment: what it dated is counted from now, and nothing waits for a day.
begin;
\ir ../helpers.sql
select plan(36);

\set day 86400000
\set now 1000000
prepare mend (integer) as select s.* from flowfabric.ff_scan_future_times($1) as s;
create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;
create function ff_tap.times(p_number integer)
returns jsonb
language sql stable
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'acquired', e.lease_acquired_at_ms, 'renewed', e.lease_last_renewed_at_ms, 'expires', e.lease_expires_at_ms,
        'timeout', e.attempt_timeout_at_ms, 'delay', e.delay_until_ms, 'detail', e.blocking_detail))
    from flowfabric.ff_exec_core as e
    where e.execution_id = right(ff_tap.id(p_number), 36)::uuid
$$;
create function ff_tap.claim()
returns text
language sql volatile
as $$
    select c.execution_id
    from flowfabric.ff_claim_next('{default}', 'w', 'w-1', p_lease_ttl_ms => 30000) as c
$$;

select ff_tap.freeze_time(:now);
select results_eq('select s.* from flowfabric.ff_scan_future_times() as s', 'values (0, 0, 0, false)', 'nothing is ahead');

-- Leases
select ff_tap.freeze_time(:now + :day);
select ff_tap.execution(ff_tap.id(1), '{"timeout_policy": {"attempt_timeout_ms": 5000}}');
select is(ff_tap.claim(), ff_tap.id(1), 'the clock is ahead by a day, and a worker gets a lease');
select ff_tap.freeze_time(:now);
select ff_tap.execution(ff_tap.id(2));
select is(ff_tap.claim(), ff_tap.id(2), 'the clock is back, and another worker gets one');
select results_eq('execute mend(1000)', 'values (1, 0, 0, false)', 'one of them is brought back');
select is(
    ff_tap.times(1) - 'timeout',
    jsonb_build_object('acquired', :now, 'renewed', :now, 'expires', :now + 30000),
    'the holder has its whole lifetime again');
select is(ff_tap.times(1) -> 'timeout', to_jsonb(:now + 5000), 'and its whole attempt');
select is(
    ff_tap.times(2), jsonb_build_object('acquired', :now, 'renewed', :now, 'expires', :now + 30000),
    'a lease of the present stays as it is');
select results_eq('execute mend(1000)', 'values (0, 0, 0, false)', 'a repeat finds nothing');
select ff_tap.freeze_time(:now + 30000);
select is(
    (select count(*) from flowfabric.ff_reclaim_next('{default}', 'w', 'w-2', p_max => 10)), 2::bigint,
    'a worker that has died is taken over after the lifetime of its lease');
select is_empty('select i.check_name from flowfabric.ff_check_invariants() as i', 'and nothing contradicts anything');
update flowfabric.ff_exec_core as e
set lease_last_renewed_at_ms = :now + 40000, lease_expires_at_ms = :now + 100000;
select results_eq('execute mend(1000)', 'values (0, 0, 0, false)', 'ten seconds are no matter');
update flowfabric.ff_exec_core as e set lease_last_renewed_at_ms = :now + 40001;
select results_eq('execute mend(1)', 'values (1, 0, 0, true)', 'more than that are; a full batch asks for another call');
select results_eq('execute mend(1)', 'values (1, 0, 0, true)', 'each is brought back once');
select results_eq('execute mend(1)', 'values (0, 0, 0, false)', 'until none is left');

-- Delays
delete from flowfabric.ff_exec_core;
select ff_tap.freeze_time(:now + :day);
select ff_tap.execution(ff_tap.id(3));
select ff_tap.execution(ff_tap.id(4), p_delay_until_ms => :now + 2 * :day);
select ff_tap.claim() as claimed \gset
select flowfabric.ff_fail_execution(
    c.execution_id, c.lease_id, c.lease_epoch, c.attempt_id, 'boom', 'x',
    '{"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 700}}')
from flowfabric.ff_list_worker_leases('w-1') as c;
select is(ff_tap.times(3) -> 'delay', to_jsonb(:now + :day + 700), 'a retry waits for 700 ms');
select ff_tap.freeze_time(:now);
select results_eq('execute mend(1000)', 'values (1, 0, 0, false)', 'not for a day');
select is(
    ff_tap.times(3), jsonb_build_object(
        'delay', :now + 700, 'detail', 'until=' || (:now + 700)::text || ' attempt=0 reason=boom'),
    'the wait is counted from now, and said so');
select is(ff_tap.times(4) -> 'delay', to_jsonb(:now + 2 * :day), 'a time that the caller named is left alone');
select ff_tap.freeze_time(:now + 700);
select is(ff_tap.claim(), ff_tap.id(3), 'then it runs');

-- Budgets
delete from flowfabric.ff_exec_core;
select ff_tap.freeze_time(:now + :day);
select flowfabric.ff_create_budget('hourly', 'tenant', 't', '{tokens}', '{10}', '{0}', 3600000);
select flowfabric.ff_create_budget('never', 'tenant', 't', '{tokens}', '{10}', '{0}');
select ff_tap.freeze_time(:now);
select flowfabric.ff_create_budget('monthly', 'tenant', 't', '{tokens}', '{10}', '{0}', 2592000000);
select results_eq('execute mend(1000)', 'values (1, 0, 0, false)', 'a period that began ahead');
select results_eq(
    'select b.budget_id collate "default", b.next_reset_at_ms from flowfabric.ff_budget_policy as b order by 1',
    format(
        'values (''hourly'', %s::bigint), (''monthly'', %s), (''never'', null)', :now + 3600000,
        :now + 2592000000),
    'begins now; the others are as they were');

-- Workers
select ff_tap.freeze_time(:now + :day);
select flowfabric.ff_register_worker('pool', 'dead', p_liveness_ttl_ms => 60000);
select ff_tap.freeze_time(:now);
select flowfabric.ff_register_worker('pool', 'alive', p_liveness_ttl_ms => 60000);
select results_eq('execute mend(1000)', 'values (1, 0, 0, false)', 'a heartbeat of the future');
select ff_tap.freeze_time(:now + 59999);
select flowfabric.ff_heartbeat_worker('alive');
select is((select count(*) from flowfabric.ff_list_workers()), 2::bigint, 'counts as one of now');
select ff_tap.freeze_time(:now + 60000);
select results_eq(
    'select w.worker_instance_id from flowfabric.ff_list_workers() as w', $$values ('alive'::text)$$,
    'so that a process that has died lapses');

-- Grants
delete from flowfabric.ff_worker_registry;
select ff_tap.freeze_time(:now + :day);
select ff_tap.execution(ff_tap.id(5));
select (flowfabric.ff_issue_claim_grant(ff_tap.id(5), 'w', 'w-1', 'default', p_grant_ttl_ms => 5000)).outcome;
select ff_tap.freeze_time(:now);
select is(ff_tap.claim(), null, 'a grant of the future keeps its execution');
select is(flowfabric.ff_sweep_expired_grants(), 1, 'until a sweep finds that no grant lives for so long');
select is(ff_tap.claim(), ff_tap.id(5), 'then it runs');
delete from flowfabric.ff_exec_core;
select ff_tap.execution(ff_tap.id(6));
select (flowfabric.ff_issue_claim_grant(ff_tap.id(6), 'w', 'w-1', 'default', p_grant_ttl_ms => 60000)).outcome;
select is(flowfabric.ff_sweep_expired_grants(), 0, 'the longest grant is not swept');

-- Slots
select ff_tap.freeze_time(:now + :day);
select flowfabric.ff_create_quota_policy('cap', 0, 0, 1);
select ff_tap.execution(ff_tap.id(7));
select flowfabric.ff_check_admission_and_record('cap', ff_tap.id(7));
select ff_tap.freeze_time(:now);
select is(
    (select q.slots_released from flowfabric.ff_reconcile_quota() as q), 1,
    'a slot that was taken in the future for a claim that never came is given back');

-- Cancelled flows, and items that scanners leave out
insert into flowfabric.ff_cancel_backlog (
    partition_key, flow_id, requested_at_ms, grace_until_ms, cancellation_policy)
values
(86, gen_random_uuid(), :now + :day, :now + :day + 30000, 'cancel_all'),
(86, gen_random_uuid(), :now, :now + 40000, 'cancel_all');
insert into flowfabric.ff_scanner_failure (scanner, item_key, failures, skip_until_ms, last_failed_at_ms)
values ('delayed', 'ahead', 3, :now + :day + 7500, :now + :day), ('delayed', 'now', 3, :now + 7500, :now);
select results_eq('execute mend(1000)', 'values (2, 0, 0, false)', 'a grace and a pause of the future');
select results_eq(
    'select b.grace_until_ms from flowfabric.ff_cancel_backlog as b order by 1',
    format('values (%s::bigint), (%s)', :now + 30000, :now + 40000), 'the grace is counted from now');
select results_eq(
    'select f.item_key collate "default", f.skip_until_ms from flowfabric.ff_scanner_failure as f order by 1',
    format('values (''ahead'', null), (''now'', %s::bigint)', :now + 7500), 'the pause is over');

-- Scanners themselves
update flowfabric.ff_scanner as s
set last_run_at_ms = :now + :day, next_due_at_ms = :now + :day + 15000 where s.scanner = 'future_times';
select results_eq(
    $$select r.status from flowfabric.ff_tick(p_scanners => '{future_times}') as r$$, $$values ('ran')$$,
    'a scanner whose last run is in the future runs');

select throws_ok('execute mend(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute mend(10001)', 'ZV001', 'invalid_input', 'and at most 10000');
select is(
    ff_tap.error_of('execute mend(null)'),
    '{"code": "invalid_input", "fn": "ff_scan_future_times", "field": "limit", "reason": "null"}', 'a limit is required');

select * from finish();
rollback;
