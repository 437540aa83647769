-- Measurements: their names and labels are an interface, their values are right, and they cost no history.
begin;
\ir ../helpers.sql
select plan(24);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.measured(p_metric text, p_labels jsonb default '{}')
returns double precision
language sql volatile
as $$ select m.value from flowfabric.ff_metrics() as m where m.metric = p_metric and m.labels = p_labels $$;

-- An empty system
select ff_tap.freeze_time(1000000);
select results_eq(
    $$select distinct m.metric, m.unit from flowfabric.ff_metrics() as m order by m.metric$$,
    $$values ('claimed_per_minute', 'per_minute'), ('completed_per_minute', 'per_minute'), ('event_held_back', 'count'),
        ('event_oldest_age_ms', 'ms'), ('oldest_snapshot_age_ms', 'ms'), ('scanner_errors', 'count'),
        ('scanner_items_failing', 'count'), ('scanner_last_duration_ms', 'ms'), ('scanner_overdue_ms', 'ms'),
        ('table_dead_ratio', 'ratio')$$,
    'an empty system measures its events, its scanners and its tables');
select is(
    (select max(m.value) from flowfabric.ff_metrics() as m where m.metric not in ('oldest_snapshot_age_ms', 'table_dead_ratio')),
    0::double precision, 'and everything is 0');
select is_empty('select m.metric from flowfabric.ff_metrics() as m where m.capped', 'and nothing is cut off');

-- A known workload
select ff_tap.execution(ff_tap.id(1));
select ff_tap.freeze_time(1010000);
select ff_tap.execution(ff_tap.id(2), p_priority => 9);
select ff_tap.execution(ff_tap.id(3), p_delay_until_ms => 9000000);
select ff_tap.execution(ff_tap.id(n)) from generate_series(4, 8) as n;
select flowfabric.ff_block_execution_for_admission(ff_tap.id(4), 'waiting_for_budget');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(5), 'waiting_for_quota');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(6), 'waiting_for_capable_worker');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(7), 'paused_by_operator');
select flowfabric._ff_become_blocked(
    ff_tap.core(ff_tap.id(8)), 'blocked_by_dependencies', 'waiting_for_children', null, 'pending_first_attempt', null,
    1010000);
select ff_tap.suspended_execution(ff_tap.id(9));
select ff_tap.leased_execution(ff_tap.id(n), p_lease_expires_at_ms => 1011000) from generate_series(10, 12) as n;
select ff_tap.leased_execution(ff_tap.id(n), p_lease_expires_at_ms => 1100000) from generate_series(13, 14) as n;
select flowfabric.ff_revoke_lease(ff_tap.id(14), p_reason => 'test');
select ff_tap.leased_execution(ff_tap.id(n)) from generate_series(20, 22) as n;
select flowfabric.ff_complete_execution(ff_tap.id(n), ff_tap.lease_id(), 1, ff_tap.attempt_id())
from generate_series(20, 21) as n;
select flowfabric.ff_fail_execution(
    ff_tap.id(22), ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_failure_reason => 'broken');
select flowfabric.ff_register_lane('empty');
select ff_tap.freeze_time(1020000);
select flowfabric._ff_lose_lease(ff_tap.core(ff_tap.id(10)), 'lease_expired_reclaimable', null, 1020000);
update flowfabric.ff_exec_core as e
set delay_until_ms = 1030001 where e.execution_id = right(ff_tap.id(10), 36)::uuid;
select flowfabric.ff_register_worker('w', 'w-1');
select flowfabric.ff_register_worker('w', 'w-2');
select flowfabric.ff_drain_worker('w-2');
select flowfabric.ff_register_worker('w', 'w-3', p_liveness_ttl_ms => 1);
select flowfabric.ff_register_worker('w', 'w-4', p_namespace => 'tenant');
select flowfabric.ff_create_budget('budget', 'tenant', 't', '{cost,tokens}', '{200,0}', '{0,0}');
insert into flowfabric.ff_budget_usage (budget_id, dimension, current_value, reserved_value, updated_at_ms)
values ('budget', 'cost', 40, 10, 0), ('budget', 'tokens', 7, 0, 0);
select flowfabric.ff_create_quota_policy('quota', 60, 10, 10);
select flowfabric.ff_check_admission_and_record('quota', ff_tap.id(1));
select flowfabric.ff_wait_for_events('waiter', '{completion}', p_wait_ms => 60000);
select flowfabric._ff_scanner_item_failed('retention', 'x', 'x', 1020000);
select ff_tap.freeze_time(1030000);
-- Everything above is one transaction, which the reader of the events waits for.
select flowfabric.ff_commit_event_cursor('billing', 'completion', 'v1:0:0:0');

select results_eq(
    $$select m.metric, m.labels::text, m.value, m.unit, m.capped from flowfabric.ff_metrics() as m
      where m.metric not like 'scanner%' and m.metric not in ('table_dead_ratio', 'oldest_snapshot_age_ms')$$,
    $$values
    ('budget_used_ratio', '{"budget": "budget", "dimension": "cost"}', 0.25::double precision, 'ratio', false),
    ('claimed_per_minute', '{}', 9, 'per_minute', false),
    ('completed_per_minute', '{"outcome": "cancelled"}', 0, 'per_minute', false),
    ('completed_per_minute', '{"outcome": "expired"}', 0, 'per_minute', false),
    ('completed_per_minute', '{"outcome": "failed"}', 1, 'per_minute', false),
    ('completed_per_minute', '{"outcome": "skipped"}', 0, 'per_minute', false),
    ('completed_per_minute', '{"outcome": "success"}', 2, 'per_minute', false),
    ('consumer_lag_ms', '{"stream": "completion", "consumer": "billing"}', 20000, 'ms', false),
    ('event_held_back', '{"stream": "completion"}', 3, 'count', false),
    ('event_held_back', '{"stream": "lease"}', 15, 'count', false),
    ('event_held_back', '{"stream": "operator"}', 3, 'count', false),
    ('event_held_back', '{"stream": "signal"}', 0, 'count', false),
    ('event_held_back', '{"stream": "worker"}', 5, 'count', false),
    ('event_oldest_age_ms', '{"stream": "completion"}', 20000, 'ms', false),
    ('event_oldest_age_ms', '{"stream": "lease"}', 20000, 'ms', false),
    ('event_oldest_age_ms', '{"stream": "operator"}', 20000, 'ms', false),
    ('event_oldest_age_ms', '{"stream": "signal"}', 0, 'ms', false),
    ('event_oldest_age_ms', '{"stream": "worker"}', 10000, 'ms', false),
    ('leases_backing_off', '{"lane": "default"}', 1, 'count', false),
    ('leases_backing_off', '{"lane": "empty"}', 0, 'count', false),
    ('leases_expired', '{"lane": "default"}', 3, 'count', false),
    ('leases_expired', '{"lane": "empty"}', 0, 'count', false),
    ('leases_revoked', '{"lane": "default"}', 1, 'count', false),
    ('leases_revoked', '{"lane": "empty"}', 0, 'count', false),
    ('queue_depth', '{"lane": "default", "state": "delayed"}', 1, 'count', false),
    ('queue_depth', '{"lane": "default", "state": "rate_limited"}', 2, 'count', false),
    ('queue_depth', '{"lane": "default", "state": "suspended"}', 1, 'count', false),
    ('queue_depth', '{"lane": "default", "state": "waiting"}', 4, 'count', false),
    ('queue_depth', '{"lane": "default", "state": "waiting_children"}', 1, 'count', false),
    ('queue_depth', '{"lane": "empty", "state": "delayed"}', 0, 'count', false),
    ('queue_depth', '{"lane": "empty", "state": "rate_limited"}', 0, 'count', false),
    ('queue_depth', '{"lane": "empty", "state": "suspended"}', 0, 'count', false),
    ('queue_depth', '{"lane": "empty", "state": "waiting"}', 0, 'count', false),
    ('queue_depth', '{"lane": "empty", "state": "waiting_children"}', 0, 'count', false),
    ('queue_oldest_age_ms', '{"lane": "default"}', 30000, 'ms', false),
    ('queue_oldest_age_ms', '{"lane": "empty"}', 0, 'ms', false),
    ('quota_slots_held', '{"policy": "quota"}', 1, 'count', false),
    ('running', '{"lane": "default"}', 1, 'count', false),
    ('running', '{"lane": "empty"}', 0, 'count', false),
    ('waiters', '{"channel": "ff_completion"}', 1, 'count', false),
    ('workers_draining', '{"namespace": "default"}', 1, 'count', false),
    ('workers_draining', '{"namespace": "tenant"}', 0, 'count', false),
    ('workers_live', '{"namespace": "default"}', 2, 'count', false),
    ('workers_live', '{"namespace": "tenant"}', 1, 'count', false)$$,
    'names, labels and values of a known workload');

-- Scanners and tables
select is(
    (select count(*) from flowfabric.ff_metrics() as m
     where m.metric = 'scanner_overdue_ms' and m.labels ->> 'scanner' in (select s.scanner from flowfabric.ff_scanner as s)),
    24::bigint, 'every scanner is measured');
select is(
    ff_tap.measured('scanner_items_failing', '{"scanner": "retention"}'), 1::double precision, 'items that fail are counted');
update flowfabric.ff_scanner as s
set last_run_at_ms = 1000000, next_due_at_ms = 1028000, last_errors = 3, last_duration_ms = 17
where s.scanner = 'delayed';
select is(ff_tap.measured('scanner_overdue_ms', '{"scanner": "delayed"}'), 2000::double precision, 'how late a scanner is');
select is(ff_tap.measured('scanner_errors', '{"scanner": "delayed"}'), 3::double precision, 'how many items failed');
select is(
    ff_tap.measured('scanner_last_duration_ms', '{"scanner": "delayed"}'), 17::double precision, 'how long it took');
select is_empty(
    $$select t.name from unnest(array[
          'ff_exec_core', 'ff_attempt', 'ff_claim_grant', 'ff_flow_core', 'ff_stream_meta', 'ff_budget_usage',
          'ff_worker_registry', 'ff_waiter', 'ff_lane_floor', 'ff_scanner', 'ff_dependency_outbox']) as t (name)
      where ff_tap.measured('table_dead_ratio', jsonb_build_object('table', t.name)) is null$$,
    'the tables that change all the time are measured');
select is_empty(
    $$select m.metric, m.labels from flowfabric.ff_metrics() as m
      where m.labels is null or jsonb_typeof(m.labels) <> 'object' or exists (
          select from jsonb_each(m.labels) as l where jsonb_typeof(l.value) <> 'string')$$,
    'labels are objects of texts');
select is(
    (select count(*) from (select distinct m.metric, m.labels from flowfabric.ff_metrics() as m) as d),
    (select count(*) from flowfabric.ff_metrics()), 'no measurement comes twice');

-- Time
select ff_tap.freeze_time(1069999);
select is(
    ff_tap.measured('completed_per_minute', '{"outcome": "success"}'), 2::double precision, 'what ended counts for a minute');
select ff_tap.freeze_time(1070000);
select is(
    ff_tap.measured('completed_per_minute', '{"outcome": "success"}'), 0::double precision, 'and no longer');
select is(ff_tap.measured('workers_live', '{"namespace": "default"}'), 2::double precision, 'workers live while they report');
select ff_tap.freeze_time(1080000);
select is(ff_tap.measured('workers_live', '{"namespace": "default"}'), null, 'a worker that stopped reporting is gone');
select is(ff_tap.measured('waiters', '{"channel": "ff_completion"}'), null, 'and so is a waiter');
select ff_tap.freeze_time(1000);
select is_empty('select m.* from flowfabric.ff_metrics() as m where m.value < 0', 'nothing is negative when the clock goes back');

-- The events of the last minute are found behind any number of older ones
select ff_tap.freeze_time(2000000);
insert into flowfabric.ff_completion_event (partition_key, epoch, xact_id, occurred_at_ms, execution_id, outcome)
select 86, 1, '3', 2000000 - 60000 - n, gen_random_uuid(), 'success' from generate_series(1, 5000) as n;
insert into flowfabric.ff_completion_event (partition_key, epoch, xact_id, occurred_at_ms, execution_id, outcome)
select 86, 32767, '9', 2000000 - n % 60000, gen_random_uuid(), 'expired' from generate_series(1, 4500) as n;
select is(
    ff_tap.measured('completed_per_minute', '{"outcome": "expired"}'), 4500::double precision,
    'several pages of recent events are counted');
select is(
    ff_tap.measured('completed_per_minute', '{"outcome": "success"}'), 0::double precision, 'older ones are not');

-- The cap
select results_eq(
    $$select c.state, c.executions, c.capped from flowfabric._ff_count_lanes('default', 2, 1030000) as c order by 1$$,
    $$values ('delayed', 1::bigint, false), ('leases_backing_off', 1, false), ('leases_expired', 3, true),
        ('leases_revoked', 1, false), ('rate_limited', 2, false), ('running', 1, true), ('suspended', 1, false), ('waiting', 4, false),
        ('waiting_children', 1, false)$$,
    'a count that was cut off says so');

-- What it costs
select is(
    ff_tap.sequential_scans('select flowfabric.ff_metrics()'), 0::bigint,
    'nothing that grows with the executions is read from end to end');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_reader', 'select flowfabric.ff_metrics()')$$, 'a reader may measure');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_producer', 'select flowfabric.ff_metrics()')$$, '42501', null,
    'a producer may not');
select * from finish();
rollback;
