-- The doctor: each check, provoked once and named. What needs a second session or a server of its own is in
-- tests/operations/test_doctor.py.
begin;
\ir ../helpers.sql
select plan(85);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

-- The findings of one check, as severity and sentence; the doctor puts those of all checks together.
create function ff_tap.found(p_check text)
returns text[]
language sql volatile
as $$
    select array(
        select d.severity || ': ' || d.finding from flowfabric._ff_examine(p_check, flowfabric.ff_now_ms()) as d)
$$;

create function ff_tap.detail(p_check text)
returns jsonb
language sql volatile
as $$ select d.detail from flowfabric._ff_examine(p_check, flowfabric.ff_now_ms()) as d limit 1 $$;

-- As if nothing had ever been executed.
create function ff_tap.clear()
returns void
language sql volatile
as $$
    delete from flowfabric.ff_exec_core;
    delete from flowfabric.ff_exec_payload;
    delete from flowfabric.ff_exec_note;
    delete from flowfabric.ff_attempt;
    delete from flowfabric.ff_completion_event;
    delete from flowfabric.ff_lease_event;
    delete from flowfabric.ff_worker_registry_event
$$;

-- An installation whose tick runs
update flowfabric.ff_partition_config set ff_version = 'test' where ff_version = '';
select flowfabric.ff_initialize(p_hmac_kid => 'kid-1', p_hmac_secret_hex => repeat('ab', 32));
select flowfabric.ff_tick(p_max_ms => 60000);
select is_empty(
    $$select d.* from flowfabric.ff_doctor() as d where d.check_name not in ('oldest_snapshot', 'test_clock')$$,
    'a clean installation with a running tick has no finding');
select results_eq(
    $$select d.check_name, d.severity, d.finding, d.what_to_do, d.detail from flowfabric.ff_doctor(true) as d
      where d.check_name not in ('oldest_snapshot', 'test_clock')$$,
    $$select c.name, 'ok', 'Nothing found.', null::text, '{}'::jsonb from unnest(array[
          'version', 'functions', 'grants', 'signing_key', 'dead_rows', 'vacuum', 'expired_leases', 'crash_loops',
          'scanners', 'scanner_items', 'events', 'notify_queue', 'queues', 'retention', 'budgets_quotas', 'claim_floor']) as c (name)$$,
    'asked for, every check says that it found nothing');
select is_empty(
    'select d.* from flowfabric.ff_doctor(null) as d where d.severity = $$ok$$', 'NULL does not ask for it');

-- version
select is_empty('select f.* from flowfabric._ff_doctor_version(140000) as f', 'version: PostgreSQL 14 is fine');
select is_empty('select f.* from flowfabric._ff_doctor_version(189999) as f', 'version: PostgreSQL 18 is fine');
select results_eq(
    'select f.severity, f.finding from flowfabric._ff_doctor_version(130012) as f',
    $$values ('warning', 'The server has version 13.')$$, 'version: an older server is not');
select results_eq(
    'select f.severity from flowfabric._ff_doctor_version(190000) as f', $$values ('warning')$$,
    'version: nor is a newer one');
update flowfabric.ff_partition_config set ff_version = '';
select is(
    ff_tap.found('version'), '{"critical: The functions were loaded, but no version was recorded."}',
    'version: an installation that did not finish');
update flowfabric.ff_partition_config set ff_version = 'test';
delete from flowfabric.ff_migration_annotation as a where a.version = 3;
select is(ff_tap.found('version'), '{"critical: Migrations are missing: 3."}', 'version: a hole in the ledger');
select is(ff_tap.detail('version'), '{"missing": [3]}', 'version: which');
insert into flowfabric.ff_migration_annotation values (3, 'scheduling', 0, true);
insert into flowfabric.ff_migration_annotation values (flowfabric._ff_schema_version() + 1, 'newer', 0, true);
select is(
    ff_tap.detail('version'),
    jsonb_build_object('installed', flowfabric._ff_schema_version() + 1, 'required', flowfabric._ff_schema_version()),
    'version: tables that the functions do not know');
delete from flowfabric.ff_migration_annotation as a where a.version = flowfabric._ff_schema_version() + 1;

-- functions
alter function flowfabric.ff_ping() rename to ff_pong;
select is(
    ff_tap.found('functions'), '{"critical: Functions are missing: ff_ping."}', 'functions: one that is missing');
select ok(
    (select bool_or(f like '%Grants go too far: ff_pong to %') from unnest(ff_tap.found('grants')) as f),
    'grants: a function that nobody knows is granted');
alter function flowfabric.ff_pong() rename to ff_ping;
alter function flowfabric.ff_ping() security invoker;
select is(
    ff_tap.found('functions'), '{"critical: Functions were changed by hand: ff_ping."}',
    'functions: one that runs with the rights of its caller');
alter function flowfabric.ff_ping() security definer;
alter function flowfabric.ff_version() reset search_path;
select is(
    ff_tap.found('functions'), '{"critical: Functions were changed by hand: ff_version."}',
    'functions: one that resolves names by the search_path of its caller');
alter function flowfabric.ff_version() set search_path = pg_catalog, pg_temp;
comment on function flowfabric.ff_ping() is null;
select is(ff_tap.detail('functions'), '{"changed": ["ff_ping"]}', 'functions: one without a comment');
comment on function flowfabric.ff_ping() is 'x';
select is(ff_tap.found('functions'), '{}', 'functions: all is well again');

-- grants
select is(
    (select count(*) from flowfabric._ff_public_functions()), 176::bigint, 'grants: the list has every public function');
revoke execute on function flowfabric.ff_tick(integer, text[], boolean, integer) from flowfabric_worker;
select is(
    ff_tap.found('grants'), '{"critical: Grants are missing: ff_tick to flowfabric_worker."}', 'grants: one that is missing');
grant execute on function flowfabric.ff_tick(integer, text[], boolean, integer) to flowfabric_worker, flowfabric_signaller;
select is(
    ff_tap.detail('grants'), '{"too_far": ["ff_tick to flowfabric_signaller"]}', 'grants: one too many');
revoke execute on function flowfabric.ff_tick(integer, text[], boolean, integer) from flowfabric_signaller;
grant execute on function flowfabric._ff_utc(bigint) to flowfabric_reader;
select is(
    ff_tap.detail('grants'), '{"too_far": ["_ff_utc to flowfabric_reader"]}', 'grants: an internal function');
revoke execute on function flowfabric._ff_utc(bigint) from flowfabric_reader;
grant execute on function flowfabric.ff_ping() to public;
select is(ff_tap.found('grants'), '{"critical: PUBLIC has privileges on ff_ping."}', 'grants: PUBLIC may call something');
revoke execute on function flowfabric.ff_ping() from public;
grant select on flowfabric.ff_v_lane to public;
select is(ff_tap.detail('grants'), '{"public": ["ff_v_lane"]}', 'grants: PUBLIC may read something');
revoke select on flowfabric.ff_v_lane from public;
grant usage on schema flowfabric to public;
select is(ff_tap.detail('grants'), '{"public": ["flowfabric"]}', 'grants: PUBLIC may use the schema');
revoke usage on schema flowfabric from public;
grant select, delete on flowfabric.ff_exec_core to flowfabric_worker;
select is(
    ff_tap.detail('grants'),
    '{"tables": ["delete on ff_exec_core to flowfabric_worker", "select on ff_exec_core to flowfabric_worker"]}',
    'grants: a client role can reach a table');
revoke select, delete on flowfabric.ff_exec_core from flowfabric_worker;
grant select on flowfabric.ff_v_lane to flowfabric_worker;
select is(
    ff_tap.detail('grants'), '{"tables": ["select on ff_v_lane to flowfabric_worker"]}', 'grants: a view of others');
revoke select on flowfabric.ff_v_lane from flowfabric_worker;
select is(ff_tap.found('grants'), '{}', 'grants: all is well again');

-- From here on the clock stands still; the tick runs by it.
select flowfabric.ff_now_ms() as now \gset
select ff_tap.freeze_time(:now);
select is(
    ff_tap.found('test_clock'), '{"critical: The engine does not run on the wall clock."}', 'test_clock: it is switched on');
select is(ff_tap.detail('test_clock'), jsonb_build_object('test_clock_frozen_at_ms', :now), 'test_clock: how');
select flowfabric.ff_test_set_clock('offset', 0);
select ok(
    (ff_tap.found('test_clock'))[1] like 'notice: The test clock is installed%', 'test_clock: it is installed');
select flowfabric.ff_test_set_clock('offset', 5);
select is(ff_tap.detail('test_clock'), '{"test_clock_offset_ms": 5}', 'test_clock: moved by a little');
select ff_tap.freeze_time(:now);

-- signing_key
delete from flowfabric.ff_waitpoint_hmac;
select is(
    ff_tap.found('signing_key'),
    '{"warning: There is no key to sign waitpoint tokens with, so nothing can be suspended."}', 'signing_key: none');
select flowfabric.ff_rotate_waitpoint_hmac_secret('kid-1', repeat('ab', 32), 0);
select ff_tap.leased_execution(ff_tap.id(1));
select flowfabric.ff_create_pending_waitpoint(
    ff_tap.id(1), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'wpk:approval', 7 * 86400000);
select flowfabric.ff_rotate_waitpoint_hmac_secret('kid-2', repeat('cd', 32), 2 * 86400000);
select is(ff_tap.found('signing_key'), '{}', 'signing_key: an old key that is good for more than a day');
select ff_tap.freeze_time(:now + 86400000);
select is(
    ff_tap.detail('signing_key'), jsonb_build_object('kid', 'kid-1', 'expires_at_ms', :now + 2 * 86400000),
    'signing_key: one that ends within a day while a waitpoint needs it');
select flowfabric.ff_close_waitpoint(
    ff_tap.id(1), (select w.waitpoint_id from flowfabric.ff_waitpoint_pending as w), 'test',
    p_source => 'operator_override');
select is(ff_tap.found('signing_key'), '{}', 'signing_key: nobody needs it any more');
select ff_tap.freeze_time(:now);
select ff_tap.clear();

-- dead_rows, vacuum, notify_queue: what the server alone knows, said by the test
select is_empty('select f.* from flowfabric._ff_doctor_vacuum(1500000000) as f', 'vacuum: an age that is fine');
select results_eq(
    'select f.severity, f.detail from flowfabric._ff_doctor_vacuum(1500000001) as f',
    $$values ('critical', '{"transaction_id_age": 1500000001}'::jsonb)$$, 'vacuum: one that is not');
alter table flowfabric.ff_claim_grant set (autovacuum_enabled = false);
select is(
    ff_tap.found('vacuum'), '{"warning: Autovacuum is off for ff_claim_grant."}', 'vacuum: switched off for a table');
alter table flowfabric.ff_claim_grant reset (autovacuum_enabled);
select is_empty('select f.* from flowfabric._ff_doctor_notify_queue(0.1) as f', 'notify_queue: 10 % are fine');
select results_eq(
    'select f.check_name, f.severity, f.finding from flowfabric._ff_doctor_notify_queue(0.128) as f',
    $$values ('notify_queue', 'warning', 'The queue of notifications is 12.8 % full.')$$, 'notify_queue: more are not');

-- expired_leases
select ff_tap.leased_execution(ff_tap.id(n), p_lease_expires_at_ms => :now + 1000) from generate_series(1, 3) as n;
select flowfabric._ff_lose_lease(ff_tap.core(ff_tap.id(3)), 'lease_expired_reclaimable', null, :now + 1000);
select ff_tap.freeze_time(:now + 60999);
select is(ff_tap.found('expired_leases'), '{}', 'expired_leases: a minute is time enough');
select ff_tap.freeze_time(:now + 61000);
select is(
    ff_tap.detail('expired_leases'),
    jsonb_build_object(
        'count', 3, 'oldest_expiry_ms', :now + 1000,
        'lanes', jsonb_build_array(jsonb_build_object('lane', 'default', 'leases', 3, 'live_workers', 0))),
    'expired_leases: how many, since when and where, marked or not');
select is(
    (select d.what_to_do from flowfabric.ff_doctor() as d where d.check_name = 'expired_leases'),
    'Start workers for default.', 'expired_leases: nobody serves the lane');
select flowfabric.ff_register_worker('w', 'w-1');
select is(
    (select d.what_to_do from flowfabric.ff_doctor() as d where d.check_name = 'expired_leases'),
    'Let the workers of these lanes take over lost work with ff_reclaim_next; the Python worker does.', 'expired_leases: somebody serves it and does not take over');
delete from flowfabric.ff_worker_registry;
select ff_tap.clear();

-- crash_loops
select ff_tap.freeze_time(:now);
select ff_tap.leased_execution(ff_tap.id(n), p_lease_expires_at_ms => :now + 1000) from generate_series(1, 4) as n;
update flowfabric.ff_exec_core as e set lease_reclaim_count = 1;
select is(ff_tap.found('crash_loops'), '{}', 'crash_loops: one takeover is none');
update flowfabric.ff_exec_core as e set lease_reclaim_count = right(e.execution_id::text, 1)::integer;
select ff_tap.freeze_time(:now + 1000);
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(4));
select is(
    ff_tap.found('crash_loops'),
    array[format(
        'warning: 3 executions lose their leases in a row without progress, up to 4 times: %s, %s, %s.', ff_tap.id(4),
        ff_tap.id(3), ff_tap.id(2))],
    'crash_loops: those that were taken over twice or more, the worst first, running or lost');
select is(
    ff_tap.detail('crash_loops') #> '{executions,0}',
    jsonb_build_object(
        'execution_id', ff_tap.id(4), 'execution_kind', 'test', 'lane', 'default', 'reclaim_count', 4,
        'worker_instance_id', 'worker-1'),
    'crash_loops: which, and where it was last');
select matches(
    (select d.what_to_do from flowfabric.ff_doctor() as d where d.check_name = 'crash_loops'),
    'flowfabric cancel.*flowfabric replay', 'crash_loops: what to do');
select ff_tap.clear();

-- scanners
select ff_tap.freeze_time(:now);
select flowfabric.ff_tick(p_force => true, p_max_ms => 60000);
select flowfabric.ff_set_scanner('retention', p_enabled => false);
select is(
    ff_tap.found('scanners'), '{"warning: Scanner retention is switched off."}', 'scanners: one that is switched off');
select flowfabric.ff_set_scanner('retention', p_enabled => true);
update flowfabric.ff_scanner as s
set consecutive_failures = 2, last_error = 'XX000 broken', next_due_at_ms = :now where s.scanner = 'retention';
select is(
    ff_tap.found('scanners'), '{"warning: Scanner retention failed 2 times in a row."}', 'scanners: one that fails');
select is(ff_tap.detail('scanners') ->> 'last_error', 'XX000 broken', 'scanners: why');
update flowfabric.ff_scanner as s set consecutive_failures = 0 where s.scanner = 'retention';
select ff_tap.freeze_time(:now + 8250);
select flowfabric.ff_tick(p_scanners => '{lease_expiry}');
select is(ff_tap.found('scanners'), '{"warning: Scanner event_notify is late by 00:00:08."}', 'scanners: one that is late');
select ff_tap.freeze_time(:now + 308249);
update flowfabric.ff_scanner as s set next_due_at_ms = :now + 308249;
select is(ff_tap.found('scanners'), '{}', 'scanners: the last run was within 5 minutes');
select ff_tap.freeze_time(:now + 308250);
select ok(
    (select f like 'critical: No scanner has run since %' from unnest(ff_tap.found('scanners')) as f),
    'scanners: no tick for 5 minutes, which is one finding and not 24');
update flowfabric.ff_scanner set last_run_at_ms = null;
select is(ff_tap.found('scanners'), '{"critical: No scanner has ever run."}', 'scanners: no tick ever');
select ff_tap.freeze_time(:now);
select flowfabric.ff_tick(p_force => true, p_max_ms => 60000);

-- scanner_items
select flowfabric._ff_scanner_item_failed('delayed', 'item', 'x', :now) from generate_series(1, 2);
select is(ff_tap.found('scanner_items'), '{}', 'scanner_items: two failures are none');
select flowfabric._ff_scanner_item_failed('delayed', 'item', 'x', :now);
select is(
    ff_tap.detail('scanner_items'), '{"scanner": "delayed", "items": 1, "examples": ["item"]}',
    'scanner_items: the third is one');
delete from flowfabric.ff_scanner_failure;

-- events: rows of this transaction are held back from everybody, this one included
select ff_tap.execution(ff_tap.id(1));
select flowfabric.ff_cancel_execution(ff_tap.id(1), 'test', 'operator_override');
delete from flowfabric.ff_operator_event;
select ff_tap.freeze_time(:now + 59999);
select is(ff_tap.found('events'), '{}', 'events: held back for less than a minute');
select ff_tap.freeze_time(:now + 60000);
select is(
    ff_tap.detail('events'), jsonb_build_object('stream', 'completion', 'held_back', 1, 'held_back_since_ms', :now),
    'events: held back for a minute');
update flowfabric.ff_completion_event set xact_id = '3';
select is(ff_tap.found('events'), '{}', 'events: delivered');
select flowfabric.ff_commit_event_cursor('billing', 'completion', 'v1:0:0:0');
select ff_tap.freeze_time(:now + 3600000);
select is(
    ff_tap.detail('events'),
    jsonb_build_object('consumer', 'billing', 'stream', 'completion', 'is_expired', false, 'unread_since_ms', :now),
    'events: a consumer that has not read for an hour');
update flowfabric.ff_event_stream as s
set pruned_epoch = 1, pruned_xact_id = '3', pruned_event_id = 9223372036854775807 where s.stream = 'completion';
delete from flowfabric.ff_completion_event;
select is(ff_tap.detail('events') -> 'is_expired', 'true', 'events: a consumer that has missed some');
delete from flowfabric.ff_event_consumer;
insert into flowfabric.ff_lease_event (partition_key, epoch, xact_id, occurred_at_ms, execution_id, event_type)
values (86, 1, '4', :now, gen_random_uuid(), 'acquired');
select ff_tap.freeze_time(:now + 604800000 + 3600000);
select is(ff_tap.found('events'), '{}', 'events: pruning may take an hour');
select ff_tap.freeze_time(:now + 604800000 + 3600001);
select is(
    ff_tap.detail('events'), jsonb_build_object('stream', 'lease', 'oldest_at_ms', :now, 'window_ms', 604800000),
    'events: pruning does not keep up');
update flowfabric.ff_lease_event set occurred_at_ms = flowfabric.ff_now_ms() + 60000;
select is(ff_tap.found('events'), '{}', 'events: a clock may differ by a minute');
update flowfabric.ff_lease_event set occurred_at_ms = flowfabric.ff_now_ms() + 60001;
select is(
    ff_tap.detail('events'),
    jsonb_build_object('stream', 'lease', 'future_events', 1, 'latest_at_ms', flowfabric.ff_now_ms() + 60001),
    'events: one that is dated later than now');
delete from flowfabric.ff_lease_event;

-- queues
select ff_tap.clear();
select ff_tap.freeze_time(:now);
select ff_tap.execution(ff_tap.id(1), p_lane_id => 'busy');
select ff_tap.freeze_time(:now + 299999);
select is(ff_tap.found('queues'), '{}', 'queues: five minutes is no long time');
select ff_tap.freeze_time(:now + 300000);
select is(ff_tap.detail('queues'), '{"lane": "busy"}', 'queues: work that nobody takes');
select flowfabric.ff_register_worker('w', 'w-1', '{busy}');
select is(ff_tap.found('queues'), '{}', 'queues: somebody will');
delete from flowfabric.ff_worker_registry;
select ff_tap.execution(ff_tap.id(2), p_lane_id => 'busy', p_priority => 1);
select flowfabric.ff_claim_next('{busy}', 'w', 'unregistered');
select is(ff_tap.found('queues'), '{}', 'queues: somebody who did not register does');
select ff_tap.clear();
select ff_tap.execution(ff_tap.id(3), '{"routing_requirements": {"required_capabilities": ["gpu"]}}');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(3), 'waiting_for_capable_worker');
select is(
    ff_tap.detail('queues'),
    '{"namespace": "default", "lane": "default", "required_capabilities": ["gpu"], "executions": 1}',
    'queues: a capability that nobody offers');
select ff_tap.clear();
select flowfabric.ff_set_lane_state('busy', 'paused');
select ff_tap.freeze_time(:now + 300000 + 86400000);
select is(
    ff_tap.detail('queues'),
    jsonb_build_object('lane', 'busy', 'lane_state', 'paused', 'state_changed_at_ms', :now + 300000),
    'queues: a lane that was paused a day ago');
select flowfabric.ff_set_lane_state('busy', 'active');

-- retention
select ff_tap.freeze_time(:now);
select ff_tap.execution(ff_tap.id(1));
select flowfabric.ff_cancel_execution(ff_tap.id(1), 'test', 'operator_override');
select ff_tap.execution(ff_tap.id(2), '{"stream_policy": {"retention_ttl_ms": 1000}}');
select flowfabric.ff_cancel_execution(ff_tap.id(2), 'test', 'operator_override');
select ff_tap.freeze_time(:now + 1000 + 86399999);
select is(ff_tap.found('retention'), '{}', 'retention: a day late is not late');
select ff_tap.freeze_time(:now + 1000 + 86400000);
select is(ff_tap.detail('retention'), '{"count": 1}', 'retention: a retention of its own that is over since a day');
select ff_tap.freeze_time(:now + 2 * 86400000);
select is(ff_tap.detail('retention'), '{"count": 2}', 'retention: and the default');
select ff_tap.clear();

-- budgets_quotas
select ff_tap.freeze_time(:now);
select flowfabric.ff_create_budget('full', 'tenant', 't', '{tokens}', '{10}', '{0}', 1000);
insert into flowfabric.ff_budget_usage (budget_id, dimension, current_value, updated_at_ms) values ('full', 'tokens', 10, 0);
select is(
    ff_tap.found('budgets_quotas'), '{"notice: Nothing starts that is charged to full: budget full: tokens 10/10."}',
    'budgets_quotas: a budget at its limit');
update flowfabric.ff_budget_usage set current_value = 0;
select ff_tap.leased_execution(ff_tap.id(1));
select ff_tap.burden(ff_tap.id(1));
select is(ff_tap.found('budgets_quotas'), '{}', 'budgets_quotas: what a running execution holds is used');
delete from flowfabric.ff_exec_core;
select is(
    ff_tap.found('budgets_quotas'),
    array[
        'warning: 1 slots of quota quota are held by executions that do not run.',
        'warning: Budget budget has 40 tokens set aside, of which running executions account for 0.'],
    'budgets_quotas: without the execution both are lost');
delete from flowfabric.ff_quota_admitted;
update flowfabric.ff_budget_usage set reserved_value = 0;

-- claim_floor
insert into flowfabric.ff_lane_floor values ('default', 1, 0, :now, :now, :now);
select ff_tap.freeze_time(:now + 59999);
select is(ff_tap.found('claim_floor'), '{}', 'claim_floor: checked within a minute');
select ff_tap.freeze_time(:now + 60000);
select is(
    ff_tap.detail('claim_floor'), jsonb_build_object('lane', 'default', 'segments', 1, 'checked_at_ms', :now),
    'claim_floor: not checked for a minute');

-- Order, cost and rights
update flowfabric.ff_migration_annotation as a set version = 999 where a.version = flowfabric._ff_schema_version();
select is(
    (select array_agg(distinct d.severity) filter (where d.position = 1) from flowfabric.ff_doctor() with ordinality
     as d (check_name, severity, finding, what_to_do, detail, position)), '{critical}', 'the most severe comes first');
select is_empty(
    $$select d.* from flowfabric.ff_doctor() as d
      where d.what_to_do is null or d.finding is null or d.detail is null
          or d.severity not in ('notice', 'warning', 'critical')$$, 'every finding says what to do');
select is(
    ff_tap.sequential_scans('select flowfabric.ff_doctor()'), 0::bigint,
    'nothing that grows with the executions is read from end to end');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_reader', 'select flowfabric.ff_doctor()')$$, 'a reader may ask');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_doctor()')$$, '42501', null, 'a worker may not');
select * from finish();
rollback;
