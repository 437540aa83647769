-- The tick: which scanners run, when they run again, and that neither an item nor a scanner stops the others.
begin;
\ir ../50_flow/helpers.sql
select plan(71);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

-- What a tick reports of the scanners that it ran or was asked for, as scanner:status, in the order of its answer.
create function ff_tap.tick(
    p_scanners text[] default null,
    p_limit integer default 100,
    p_force boolean default false,
    p_max_ms integer default 100000
)
returns text[]
language sql volatile
as $$
    select coalesce(array_agg(r.scanner || ':' || r.status order by r.position), '{}')
    from flowfabric.ff_tick(p_limit, p_scanners, p_force, p_max_ms)
    with ordinality as r (scanner, status, processed, skipped, errors, more, duration_ms, last_error, position)
$$;

create function ff_tap.row_of(p_scanner text)
returns flowfabric.ff_scanner
language sql stable
as $$ select s.* from flowfabric.ff_scanner as s where s.scanner = p_scanner $$;

prepare run (text, integer) as
select r.status, r.processed, r.skipped, r.errors, r.more
from flowfabric.ff_tick($2, array[$1], p_force => true) as r;

-- The schedule
select ff_tap.freeze_time(1000000);
select is(
    ff_tap.tick(),
    array(select s.scanner || ':ran' from flowfabric.ff_scanner as s order by s.run_order),
    'the first tick runs every scanner, in their order');
select is(ff_tap.tick(), '{}', 'right after it nothing is due, and nothing is reported');
select is(
    ff_tap.tick('{lease_expiry,delayed}'), '{lease_expiry:not_due,delayed:not_due}',
    'what is asked for by name is reported even if it is not due');
select is(
    ff_tap.tick('{delayed,lease_expiry,delayed}'), '{lease_expiry:not_due,delayed:not_due}',
    'the order of the names means nothing, nor does a name that is given twice');
select is(ff_tap.tick('{}'), '{}', 'an empty list of names asks for nothing');
select is(
    ff_tap.tick('{lease_expiry}', p_force => true), '{lease_expiry:ran}', 'force runs what is not due');
select is((ff_tap.row_of('lease_expiry')).next_due_at_ms, 1001500::bigint, 'the next run is one interval away');
select ff_tap.freeze_time(1000749);
select is(ff_tap.tick('{delayed}'), '{delayed:not_due}', 'a scanner is not due before its time');
select ff_tap.freeze_time(1000750);
select is(ff_tap.tick('{delayed}'), '{delayed:ran}', 'it is due at the instant itself');
select is(
    ff_tap.tick(), '{event_notify:ran}', 'without names exactly the due ones run: three intervals of 250 ms are over');

select flowfabric.ff_set_scanner('retention', p_enabled => false);
select ff_tap.freeze_time(2000000);
select ok(not ff_tap.tick() @> '{retention:ran}', 'a scanner that is switched off does not run');
select is(ff_tap.tick('{retention}'), '{retention:disabled}', 'asked for by name it says so');
select is(ff_tap.tick('{retention}', p_force => true), '{retention:disabled}', 'not even force runs it');
select flowfabric.ff_set_scanner('retention', p_enabled => true);
select is(ff_tap.tick(), '{retention:ran}', 'switched on again it is due at once');

select ff_tap.freeze_time(1500000);
select is(
    cardinality(ff_tap.tick()), 24, 'after the clock went back every scanner is due: none waits for it to catch up');
select is((ff_tap.row_of('retention')).next_due_at_ms, 1560000::bigint, 'and the schedule follows the clock');

-- What a run leaves behind
select ff_tap.freeze_time(3000000);
select ff_tap.leased_execution(
    ff_tap.id(i), p_lease_expires_at_ms => 3000100 + i, p_lease_id => gen_random_uuid(),
    p_attempt_id => gen_random_uuid())
from generate_series(1, 5) as i;
select ff_tap.freeze_time(3010000);
select results_eq(
    $$select r.status, r.processed, r.skipped, r.errors, r.more, r.last_error
      from flowfabric.ff_tick(2, '{lease_expiry}') as r$$,
    $$values ('ran', 2, 0, 0, true, null::text)$$, 'a run changes no more items than the limit, and says that it was full');
select results_eq(
    $$select s.last_run_at_ms, s.next_due_at_ms, s.last_processed, s.last_skipped, s.last_errors, s.total_processed,
          s.consecutive_failures, s.last_error, s.last_duration_ms between 0 and 60000
      from ff_tap.row_of('lease_expiry') as s$$,
    $$values (3010000::bigint, 3010000::bigint, 2, 0, 0, 2::bigint, 0, null::text, true)$$,
    'a full run is due again at once, and its figures are kept');
select flowfabric.ff_set_scanner('lease_expiry', p_batch_limit => 1);
select results_eq(
    $$execute run('lease_expiry', 100)$$, $$values ('ran', 1, 0, 0, true)$$,
    'the limit of the scanner holds below that of the call');
select flowfabric.ff_set_scanner('lease_expiry', p_batch_limit => 100);
select results_eq(
    $$execute run('lease_expiry', 100)$$, $$values ('ran', 2, 0, 0, false)$$, 'the rest is no full batch');
select is(
    (select array[s.total_processed, s.last_processed, s.next_due_at_ms] from ff_tap.row_of('lease_expiry') as s),
    array[5, 2, 3011500]::bigint[], 'the total adds up, and the next run is one interval away');
select is(
    (select count(*) from flowfabric.ff_lease_event as v where v.event_type = 'expired'), 5::bigint,
    'every lease is marked once');

-- An item that fails
create function flowfabric.refuse() returns trigger language plpgsql as $$ begin raise exception 'poisoned'; end $$;
select ff_tap.leased_execution(
    ff_tap.id(i), p_lease_expires_at_ms => 3020000 + i, p_lease_id => gen_random_uuid(),
    p_attempt_id => gen_random_uuid())
from generate_series(11, 13) as i;
create trigger poison before update on flowfabric.ff_exec_core for each row
when (old.execution_id = '00000000-0000-4000-8000-000000000011') execute function flowfabric.refuse();
select ff_tap.freeze_time(3030000);
select results_eq(
    $$execute run('lease_expiry', 100)$$, $$values ('ran', 2, 0, 1, false)$$, 'a poisoned item does not stop the others');
select is((ff_tap.row_of('lease_expiry')).consecutive_failures, 0, 'and is no failure of the scanner');
select results_eq(
    $$execute run('lease_expiry', 100)$$, $$values ('ran', 0, 0, 1, false)$$, 'it is tried a second time');
select results_eq(
    $$execute run('lease_expiry', 100)$$, $$values ('ran', 0, 0, 1, false)$$, 'and a third time');
select results_eq(
    $$execute run('lease_expiry', 100)$$, $$values ('ran', 0, 0, 0, false)$$, 'after the third failure it is left out');
select ff_tap.freeze_time(3045000);
select results_eq(
    $$execute run('lease_expiry', 100)$$, $$values ('ran', 0, 0, 1, false)$$, 'ten intervals later it gets one try');
drop trigger poison on flowfabric.ff_exec_core;
select ff_tap.freeze_time(3060000);
select results_eq(
    $$execute run('lease_expiry', 100)$$, $$values ('ran', 1, 0, 0, false)$$, 'once it can be dealt with, it is');
select is_empty('select from flowfabric.ff_scanner_failure', 'and its failures are forgotten');

-- A scanner that fails as a whole
select ff_tap.freeze_time(4000000);
select ff_tap.tick();
create or replace function flowfabric.ff_scan_stream_ttl(
    p_limit integer default 100,
    p_partition_key smallint default null
)
returns flowfabric.ff_scan
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_setting values ('half', 1);
    raise exception using message = 'broken', detail = 'as a whole', errcode = 'XX001';
end;
$$;
select ff_tap.freeze_time(5000000);
select is(
    ff_tap.tick(),
    array(
        select s.scanner || case s.scanner when 'stream_ttl' then ':failed' else ':ran' end
        from flowfabric.ff_scanner as s
        order by s.run_order),
    'a scanner that fails as a whole is reported, and the others run');
select is_empty($$select from flowfabric.ff_setting as s where s.name = 'half'$$, 'what it did is undone');
select results_eq(
    $$select s.consecutive_failures, s.last_error, s.next_due_at_ms, s.last_run_at_ms, s.last_processed
      from ff_tap.row_of('stream_ttl') as s$$,
    $$values (1, 'XX001 broken as a whole', 5020000::bigint, 5000000::bigint, 0)$$,
    'its error is kept, and its pause doubles');
select results_eq(
    $$select r.status, r.processed, r.more, r.last_error from flowfabric.ff_tick(p_scanners => '{stream_ttl}',
          p_force => true) as r$$,
    $$values ('failed', 0, false, 'XX001 broken as a whole')$$, 'the answer says why');
select is((ff_tap.row_of('stream_ttl')).next_due_at_ms, 5040000::bigint, 'the pause doubles again');
select ff_tap.tick('{stream_ttl}', p_force => true) from generate_series(1, 5);
select is(
    (select array[s.consecutive_failures, s.next_due_at_ms] from ff_tap.row_of('stream_ttl') as s),
    array[7, 5320000]::bigint[], 'thirty-two intervals are the longest pause');
select is(ff_tap.tick('{stream_ttl}'), '{stream_ttl:not_due}', 'during the pause it is not due');
create or replace function flowfabric.ff_scan_stream_ttl(
    p_limit integer default 100,
    p_partition_key smallint default null
)
returns flowfabric.ff_scan
language plpgsql volatile
as $$
begin
    return row(3, 2, 1, true)::flowfabric.ff_scan;
end;
$$;
select ff_tap.freeze_time(5320000);
select results_eq(
    $$select r.status, r.processed, r.skipped, r.errors, r.more, r.last_error
      from flowfabric.ff_tick(p_scanners => '{stream_ttl}') as r$$,
    $$values ('ran', 3, 2, 1, true, null::text)$$, 'after the pause it gets its turn');
select results_eq(
    $$select s.consecutive_failures, s.next_due_at_ms, s.last_processed, s.last_skipped, s.last_errors
      from ff_tap.row_of('stream_ttl') as s$$,
    $$values (0, 5320000::bigint, 3, 2, 1)$$, 'a run that succeeds ends the pauses');

-- Bounded time
create or replace function flowfabric.ff_scan_expired_leases(
    p_limit integer default 50,
    p_partition_key smallint default null
)
returns flowfabric.ff_scan
language plpgsql volatile
as $$
begin
    perform pg_sleep(0.02);
    return row(1, 0, 0, true)::flowfabric.ff_scan;
end;
$$;
select ff_tap.freeze_time(6000000);
select is(
    ff_tap.tick(p_max_ms => 20),
    array(
        select s.scanner || case s.scanner when 'lease_expiry' then ':ran' else ':out_of_time' end
        from flowfabric.ff_scanner as s
        order by s.scanner = 'stream_ttl', s.run_order),
    'when the time is over no further scanner is started');
select is((ff_tap.row_of('retention')).last_run_at_ms, 5000000::bigint, 'what had no time is still due');
select is(
    ff_tap.tick(p_max_ms => 60000),
    array(
        select s.scanner || ':ran'
        from flowfabric.ff_scanner as s
        order by s.scanner = 'lease_expiry', s.scanner = 'stream_ttl', s.run_order),
    'and goes first the next time, what ran longest ago before the rest: busy scanners do not starve others');
select is(
    (ff_tap.tick('{lease_expiry,suspension_timeout}', p_force => true, p_max_ms => 1))[1], 'lease_expiry:ran',
    'the first scanner always has time');

-- Scanners whose functions report in another shape
select ff_tap.freeze_time(7000000);
select ff_tap.execution(ff_tap.id(20));
select flowfabric.ff_issue_claim_grant(ff_tap.id(20), 'worker', 'worker-1', 'default', p_grant_ttl_ms => 1000);
select ff_tap.freeze_time(7001001);
select results_eq(
    $$execute run('grant_expiry', 100)$$, $$values ('ran', 1, 0, 0, false)$$, 'grant_expiry: the grants it swept');
select flowfabric.ff_create_budget('budget', 'lane', 'default', '{tokens}', '{10}', '{0}', 1000);
select ff_tap.freeze_time(7003000);
select results_eq(
    $$execute run('budget_reset', 1)$$, $$values ('ran', 1, 0, 0, true)$$, 'budget_reset: the budgets it reset');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(20), 'waiting_for_budget');
select results_eq(
    $$execute run('unblock', 100)$$, $$values ('ran', 1, 0, 0, false)$$, 'unblock: what it put back on the queue');
select flowfabric.ff_create_quota_policy('quota', 1, 10, 10);
select flowfabric.ff_check_admission_and_record('quota', ff_tap.id(20));
select ff_tap.freeze_time(7100000);
select results_eq(
    $$execute run('quota', 100)$$, $$values ('ran', 3, 0, 0, false)$$,
    'quota: the slot it freed, the token and the admission it deleted');
select flowfabric.ff_register_worker('worker', 'worker-1', p_liveness_ttl_ms => 1000);
select ff_tap.freeze_time(7102000);
select results_eq(
    $$execute run('worker_ttl', 100)$$, $$values ('ran', 1, 0, 0, false)$$, 'worker_ttl: the workers it swept');
select flowfabric.ff_cancel_execution(ff_tap.id(20), 'test', 'operator_override');
select ff_tap.freeze_time(7102000 + 86400000);
select results_eq(
    $$execute run('retention', 100)$$, $$values ('ran', 1, 0, 0, false)$$, 'retention: the executions it deleted');

-- Scanners that work on one flow per transaction
select ff_tap.flow(3);
select ff_tap.connect('{1}', 2);
select ff_tap.connect('{2}', 3);
select flowfabric.ff_set_setting('max_sync_edges', 0);
select ff_tap.finish(1);
select results_eq(
    $$execute run('dependency', 100)$$, $$values ('ran', 1, 0, 0, true)$$,
    'dependency: the edges it resolved; having done something it is due again at once');
select results_eq(
    $$execute run('dependency', 100)$$, $$values ('ran', 0, 0, 0, false)$$, 'dependency: done when there is nothing left');
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'enough', 'cancel_all', 0, p_sync_limit => 0);
select results_eq(
    $$execute run('cancel_backlog', 1)$$, $$values ('ran', 1, 0, 0, true)$$, 'cancel_backlog: the members it took');
select results_eq(
    $$execute run('cancel_backlog', 100)$$, $$values ('ran', 1, 0, 0, true)$$, 'cancel_backlog: member by member');
select results_eq(
    $$execute run('cancel_backlog', 100)$$, $$values ('ran', 0, 0, 0, false)$$, 'cancel_backlog: until there are none');
select results_eq(
    $$execute run('flow_summary', 1)$$, $$values ('ran', 1, 0, 0, false)$$,
    'flow_summary: a full batch asks for nothing, because open flows are due for ever');
update flowfabric.ff_exec_core as e
set lifecycle_phase = 'runnable', eligibility_state = 'blocked_by_dependencies', terminal_outcome = 'none',
    terminal_at_ms = null, attempt_state = 'pending_first_attempt', blocking_reason = 'waiting_for_children'
where e.partition_key = 6 and e.execution_id = ff_tap.eid(3);
delete from flowfabric.ff_edge_group as g where g.downstream_eid = ff_tap.eid(3);
delete from flowfabric.ff_dependency_outbox;
select results_eq(
    $$execute run('dependency_reconcile', 100)$$, $$values ('ran', 2, 0, 0, false)$$,
    'dependency_reconcile: the edge and the execution that it repaired');

-- Two siblings too many to be cancelled by the completion that decides their join.
select ff_tap.execution(ff_tap.m(n)) from generate_series(11, 14) as n;
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms, last_mutation_at_ms)
values (6, '11111111-1111-1111-1111-111111111110', 'dag', 'default', 'open', 4, 0, 0);
update flowfabric.ff_exec_core as e
set flow_id = '11111111-1111-1111-1111-111111111110'
where e.partition_key = 6 and e.execution_id = any (array[ff_tap.eid(11), ff_tap.eid(12), ff_tap.eid(13), ff_tap.eid(14)]);
insert into flowfabric.ff_edge_group (
    partition_key, flow_id, downstream_eid, policy_kind, k, on_satisfied, n, success_count, group_state, created_at_ms,
    cancel_siblings_pending_flag, cancel_siblings_reason, cancel_siblings_pending_members)
values (
    6, '11111111-1111-1111-1111-111111111110', ff_tap.eid(14), 'any_of', 1, 'cancel_remaining', 3, 1, 'satisfied', 0,
    true, 'sibling_quorum_satisfied', array[ff_tap.eid(12), ff_tap.eid(13)]);
insert into flowfabric.ff_pending_cancel_groups
values (6, '11111111-1111-1111-1111-111111111110', ff_tap.eid(14), 0);
select results_eq(
    $$execute run('edge_cancel', 1)$$, $$values ('ran', 1, 0, 0, true)$$, 'edge_cancel: the siblings it took');
select results_eq(
    $$execute run('edge_cancel', 100)$$, $$values ('ran', 1, 0, 0, true)$$, 'edge_cancel: sibling by sibling');
select results_eq(
    $$execute run('edge_cancel', 100)$$, $$values ('ran', 0, 0, 0, false)$$, 'edge_cancel: until there are none');
insert into flowfabric.ff_pending_cancel_groups
values (6, '11111111-1111-1111-1111-111111111110', ff_tap.eid(14), 0);
select results_eq(
    $$execute run('edge_cancel_reconcile', 100)$$, $$values ('ran', 1, 0, 0, true)$$,
    'edge_cancel_reconcile: the joins it cleared');
insert into flowfabric.ff_lane_floor (lane_id, capability_set_id, priority, side, checked_at_ms, raised_at_ms)
values ('default', 1, 0, 0, 0, 0), ('default', 1, 0, 1, 0, 0);
select results_eq(
    $$execute run('claim_floor', 100)$$, $$values ('ran', 1, 0, 0, false)$$, 'claim_floor: the floors it moved');

-- Who may call it, and how
select lives_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_tick()')$$, 'a worker may tick');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_reader', 'select flowfabric.ff_tick()')$$, '42501', null, 'a reader may not');
select throws_ok('select flowfabric.ff_tick(0)', 'ZV001', 'invalid_input', 'a limit below 1 is refused');
select throws_ok('select flowfabric.ff_tick(10001)', 'ZV001', 'invalid_input', 'a limit above 10000 is refused');
select throws_ok('select flowfabric.ff_tick(null)', 'ZV001', 'invalid_input', 'a limit of NULL is refused');
select is(
    ff_tap.error_of('select flowfabric.ff_tick(p_max_ms => 0)') - 'fn',
    '{"code": "invalid_input", "field": "max_ms", "reason": "out_of_range", "value": "0"}', 'no time is refused');
select throws_ok(
    'select flowfabric.ff_tick(p_max_ms => null)', 'ZV001', 'invalid_input', 'a time of NULL is refused');
select is(
    ff_tap.error_of('select flowfabric.ff_tick(p_force => null)') - 'fn',
    '{"code": "invalid_input", "field": "force", "reason": "null"}', 'force is true or false');
select is(
    ff_tap.error_of($$select flowfabric.ff_tick(p_scanners => '{delayed,reclaimer}')$$) - 'fn',
    '{"code": "invalid_input", "field": "scanners", "reason": "unknown", "value": "reclaimer"}',
    'an unknown scanner is refused, and named');
select is(
    ff_tap.error_of($$select flowfabric.ff_tick(p_scanners => '{NULL}')$$) ->> 'reason', 'null',
    'a name of NULL is refused');
select * from finish();
rollback;
