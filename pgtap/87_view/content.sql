-- The views for people: what they say about a known state of the engine.
begin;
\ir ../50_flow/helpers.sql
select plan(32);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.at(p_ms bigint)
returns timestamptz
language sql immutable
as $$ select to_timestamp(p_ms / 1000.0) $$;

select ff_tap.freeze_time(1000000);

-- ff_v_execution, ff_v_attempt, ff_v_running
select ff_tap.execution(ff_tap.id(1), p_deadline_at_ms => 9000000, p_tags => '{"app.owner": "me"}', p_priority => 3);
select results_eq(
    $$select x.* from flowfabric.ff_v_execution as x$$,
    format(
        $$values (%L, 'default' collate "C", 'default' collate "C", 'test', 'waiting'::flowfabric.ff_public_state,
            'runnable'::flowfabric.ff_lifecycle_phase, 'waiting_for_worker'::flowfabric.ff_blocking_reason, 3, null::uuid,
            0, 0, null::text collate "C", null::timestamptz, null::boolean, null::smallint, ff_tap.at(1000000),
            null::timestamptz, null::timestamptz, null::timestamptz, ff_tap.at(9000000), null::flowfabric.ff_terminal_outcome,
            null::text, '{"app.owner": "me"}'::jsonb)$$, ff_tap.id(1)),
    'ff_v_execution: one that waits');
select ff_tap.leased_execution(ff_tap.id(2), p_lease_expires_at_ms => 1030000);
select flowfabric.ff_update_progress(ff_tap.id(2), ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_progress_pct => 40);
select ff_tap.freeze_time(1020000);
select results_eq(
    format(
        $$select x.state, x.why, x.attempts, x.worker, x.lease_expires_at, x.lease_is_expired, x.progress, x.started_at
          from flowfabric.ff_v_execution as x where x.execution_id = %L$$, ff_tap.id(2)),
    $$values ('active'::flowfabric.ff_public_state, null::flowfabric.ff_blocking_reason, 1, 'worker' collate "C",
        ff_tap.at(1030000), false, 40::smallint, ff_tap.at(1000000))$$, 'ff_v_execution: one that runs');
select results_eq(
    'select r.* from flowfabric.ff_v_running as r',
    format(
        $$values (%L, 'default' collate "C", 'test', 'worker' collate "C", 'worker-1' collate "C", interval '20 s',
            ff_tap.at(1030000), false, 40::smallint, 0)$$, ff_tap.id(2)),
    'ff_v_running: who runs it, for how long and until when');
select results_eq(
    'select a.* from flowfabric.ff_v_attempt as a',
    format(
        $$values (%L, 0, 'initial'::flowfabric.ff_attempt_type, 'started'::flowfabric.ff_attempt_row_state,
            'worker' collate "C", ff_tap.at(1000000), null::timestamptz, interval '20 s', null::text, null::text)$$, ff_tap.id(2)),
    'ff_v_attempt: one that runs');
select ff_tap.freeze_time(1030000);
select is((select r.lease_is_expired from flowfabric.ff_v_running as r), true, 'ff_v_running: a lease is over at its expiry');
select flowfabric._ff_lose_lease(ff_tap.core(ff_tap.id(2)), 'lease_expired_reclaimable', null, 1030000);
select is((select count(*) from flowfabric.ff_v_running), 1::bigint, 'ff_v_running: what was lost is still active');
select flowfabric.ff_cancel_execution(ff_tap.id(2), 'test', 'operator_override');
select is_empty('select from flowfabric.ff_v_running', 'ff_v_running: what has ended is not');
select results_eq(
    format(
        $$select x.state, x.phase, x.ended_at, x.outcome, x.worker, x.lease_is_expired
          from flowfabric.ff_v_execution as x where x.execution_id = %L$$, ff_tap.id(2)),
    $$values ('cancelled'::flowfabric.ff_public_state, 'terminal'::flowfabric.ff_lifecycle_phase, ff_tap.at(1030000),
        'cancelled'::flowfabric.ff_terminal_outcome, null::text, null::boolean)$$, 'ff_v_execution: one that ended');
select is(
    (select a.run_time from flowfabric.ff_v_attempt as a), interval '30 s', 'ff_v_attempt: how long it took');
select ff_tap.leased_execution(ff_tap.id(3));
select flowfabric.ff_fail_execution(
    ff_tap.id(3), ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_failure_reason => 'disk full',
    p_failure_category => 'io');
select results_eq(
    format(
        $$select a.state, a.failure_reason, a.failure_category, x.failure_reason, x.outcome
          from flowfabric.ff_v_attempt as a join flowfabric.ff_v_execution as x on x.execution_id = a.execution_id
          where a.execution_id = %L$$, ff_tap.id(3)),
    $$values ('ended_failure'::flowfabric.ff_attempt_row_state, 'disk full', 'io', 'disk full',
        'failed'::flowfabric.ff_terminal_outcome)$$, 'ff_v_attempt and ff_v_execution: why it failed');
select ff_tap.execution(ff_tap.id(4), p_delay_until_ms => 253402300799999);
select is(
    (select x.delayed_until from flowfabric.ff_v_execution as x where x.execution_id = ff_tap.id(4)),
    '9999-12-31 00:00+00'::timestamptz, 'ff_v_execution: the last day of the year 9999 is shown');

-- ff_v_suspension
select ff_tap.suspended_execution(ff_tap.id(5));
update flowfabric.ff_suspension_current set timeout_at_ms = 1090000, timeout_behavior = 'fail';
update flowfabric.ff_waitpoint_pending set signal_count = 2;
select results_eq(
    'select s.* from flowfabric.ff_v_suspension as s',
    format(
        $$values (%L, 'waiting_for_signal', ff_tap.at(1030000), ff_tap.at(1090000), 'fail', 2::bigint, 4::bigint)$$,
        ff_tap.id(5)), 'ff_v_suspension: what it waits for and until when');
select flowfabric.ff_cancel_execution(ff_tap.id(5), 'test', 'operator_override');
select is_empty('select from flowfabric.ff_v_suspension', 'ff_v_suspension: what is closed is not shown');

-- ff_v_flow, ff_v_edge
select ff_tap.flow(4);
select flowfabric.ff_set_flow_tags(ff_tap.flow_id(), '{"app.run": "7"}');
select ff_tap.join(4, 'quorum', 'let_run', 2);
select ff_tap.connect('{1,2,3}', 4, 'input');
select is(
    (select jsonb_build_array(f.state, f.derived_state, f.members, f.edges, f.completed, f.tags)
     from flowfabric.ff_v_flow as f), '["open", null, 4, 3, null, {"app.run": "7"}]',
    'ff_v_flow: before its first summary it has no counts');
select ff_tap.finish(1);
select ff_tap.finish(2, 'failed');
select ff_tap.claim(3);
select flowfabric.ff_project_flow_summary(ff_tap.flow_id());
select results_eq(
    'select f.* from flowfabric.ff_v_flow as f',
    $$values (ff_tap.flow_id(), 'dag', 'default' collate "C", 'open', 'running', 4, 3, 1, 1, 1, 1, ff_tap.at(1030000),
        null::timestamptz, '{"app.run": "7"}'::jsonb)$$, 'ff_v_flow: how its members fare');
select results_eq(
    'select d.* from flowfabric.ff_v_edge as d order by d.upstream',
    $$values
    (ff_tap.flow_id(), ff_tap.m(1), ff_tap.m(4), 'satisfied', 'success'::flowfabric.ff_terminal_outcome, true,
        ff_tap.at(1030000), ff_tap.at(1030000), 'quorum of 2', 'pending'),
    (ff_tap.flow_id(), ff_tap.m(2), ff_tap.m(4), 'impossible', 'failed', true,
        ff_tap.at(1030000), ff_tap.at(1030000), 'quorum of 2', 'pending'),
    (ff_tap.flow_id(), ff_tap.m(3), ff_tap.m(4), 'unsatisfied', null, true,
        ff_tap.at(1030000), null, 'quorum of 2', 'pending')$$, 'ff_v_edge: who waits for whom, and how it stands');
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'enough', 'flow_only');
select is(
    (select f.cancelled_at from flowfabric.ff_v_flow as f), ff_tap.at(1030000), 'ff_v_flow: when it was cancelled');

-- ff_v_lane, ff_v_worker
select ff_tap.execution(ff_tap.id(n), p_lane_id => 'busy') from generate_series(10, 13) as n;
select flowfabric.ff_block_execution_for_admission(ff_tap.id(12), 'paused_by_operator');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(13), 'waiting_for_budget');
select flowfabric.ff_register_worker('w', 'w-1', '{busy}', '{gpu}');
select flowfabric.ff_register_worker('w', 'w-2', '{busy}', p_liveness_ttl_ms => 1);
select flowfabric.ff_claim_next('{busy}', 'w', 'w-1');
select flowfabric.ff_set_lane_state('busy', 'paused', 'moving house');
select ff_tap.freeze_time(1040000);
select results_eq(
    $$select l.* from flowfabric.ff_v_lane as l where l.lane = 'busy'$$,
    $$values ('busy' collate "C", 'paused', 'moving house', 2::bigint, 1::bigint, ff_tap.at(1030000), 1::bigint)$$,
    'ff_v_lane: what waits, what runs, who serves it');
select results_eq(
    'select w.* from flowfabric.ff_v_worker as w order by w.instance',
    $$values
    ('default' collate "C", 'w' collate "C", 'w-1' collate "C", '{busy}'::text[] collate "C", '{gpu}'::text[] collate "C",
        true, false, ff_tap.at(1030000), 1::bigint),
    ('default', 'w', 'w-2', '{busy}', '{}', false, false, ff_tap.at(1030000), 0)$$,
    'ff_v_worker: what they serve, whether they live, what they hold');
select flowfabric.ff_drain_worker('w-1');
select is(
    (select w.draining from flowfabric.ff_v_worker as w where w.instance = 'w-1'), true, 'ff_v_worker: who takes no more');

-- ff_v_budget, ff_v_quota
select flowfabric.ff_create_budget('budget', 'tenant', 'acme', '{cost,tokens}', '{200,0}', '{100,0}', 60000);
insert into flowfabric.ff_budget_usage (budget_id, dimension, current_value, reserved_value, updated_at_ms)
values ('budget', 'cost', 40, 10, 0), ('budget', 'calls', 3, 0, 0);
select results_eq(
    'select b.* from flowfabric.ff_v_budget as b order by b.dimension',
    $$values
    ('budget' collate "C", 'tenant acme', 'calls' collate "C", 3::bigint, 0::bigint, null::bigint, null::bigint,
        null::numeric, ff_tap.at(1100000)),
    ('budget', 'tenant acme', 'cost', 40, 10, 100, 200, 0.25, ff_tap.at(1100000)),
    ('budget', 'tenant acme', 'tokens', 0, 0, null, null, null, ff_tap.at(1100000))$$,
    'ff_v_budget: usage and limits, also of what has no limit or no usage');
select flowfabric.ff_create_quota_policy('quota', 60, 5, 3);
select flowfabric.ff_create_quota_policy('open', 0, 0, 0);
select flowfabric.ff_check_admission_and_record('quota', ff_tap.id(n)) from generate_series(10, 11) as n;
select results_eq(
    'select q.* from flowfabric.ff_v_quota as q order by q.policy',
    $$values
    ('open' collate "C", null::bigint, interval '0', 0::bigint, null::bigint, 0::bigint),
    ('quota', 5, interval '1 minute', 2, 3, 2)$$, 'ff_v_quota: limits and what is used of them');
select ff_tap.freeze_time(1100000);
select is(
    (select q.used_in_window from flowfabric.ff_v_quota as q where q.policy = 'quota'), 0::bigint,
    'ff_v_quota: a start leaves the window');

-- ff_v_event
select is(
    (select count(*) from flowfabric.ff_v_event),
    (select count(*) from flowfabric.ff_completion_event) + (select count(*) from flowfabric.ff_lease_event)
    + (select count(*) from flowfabric.ff_signal_event) + (select count(*) from flowfabric.ff_operator_event)
    + (select count(*) from flowfabric.ff_worker_registry_event), 'ff_v_event: every event of every stream');
select results_eq(
    format(
        $$select v.stream, v.occurred_at, v.what, v.worker, v.reason, v.detail from flowfabric.ff_v_event as v
          where v.execution_id = %L order by v.stream, v.occurred_at$$, ff_tap.id(2)),
    $$values
    ('completion', ff_tap.at(1030000), 'cancelled', null::text collate "C", null::text,
        '{"lane": "default", "attempt": 0}'::jsonb),
    ('lease', ff_tap.at(1000000), 'acquired', 'worker-1', 'issue_grant_and_claim', '{"attempt": 0, "lease_epoch": 1}'),
    ('lease', ff_tap.at(1030000), 'expired', 'worker-1', null, '{"attempt": 0, "lease_epoch": 1}'),
    ('lease', ff_tap.at(1030000), 'released', 'worker-1', 'cancelled', '{"attempt": 0, "lease_epoch": 1}'),
    ('operator', ff_tap.at(1030000), 'cancelled', null, 'test', jsonb_build_object(
        'login', session_user, 'reason', 'test', 'source', 'operator_override', 'cancelled_from', 'active'))$$,
    'ff_v_event: what happened to an execution');
select flowfabric.ff_change_priority(ff_tap.id(1), 7);
select results_eq(
    $$select v.what, v.execution_id, v.flow_id, v.reason, v.detail ->> 'lane_id'
      from flowfabric.ff_v_event as v where v.stream = 'operator' order by v.occurred_at, v.what, v.execution_id$$,
    format(
        $$values
        ('cancelled', %L, null::uuid, 'test', null::text),
        ('cancelled', %L, null, 'test', null),
        ('flow_cancel_requested', null, ff_tap.flow_id(), 'enough', null),
        ('lane_state_changed', null, null, 'moving house', 'busy'),
        ('budget_created', null, null, null, null),
        ('quota_created', null, null, null, null),
        ('quota_created', null, null, null, null),
        ('priority_changed', %L, null, null, null)$$, ff_tap.id(2), ff_tap.id(5), ff_tap.id(1)),
    'ff_v_event: what operators did to executions, flows and lanes');
select results_eq(
    $$select v.what, v.worker, v.detail from flowfabric.ff_v_event as v
      where v.stream = 'worker' and v.worker = 'w-2'$$,
    $$values ('registered', 'w-2' collate "C", '{"namespace": "default", "worker_id": "w"}'::jsonb)$$,
    'ff_v_event: what became of workers');
insert into flowfabric.ff_signal_event (
    partition_key, epoch, occurred_at_ms, execution_id, signal_id, signal_name, source_type, effect)
values (86, 1, 1100000, right(ff_tap.id(1), 36)::uuid, gen_random_uuid(), 'approved', 'human', 'no_op');
select results_eq(
    $$select v.what, v.execution_id, v.reason, v.detail from flowfabric.ff_v_event as v where v.stream = 'signal'$$,
    format(
        $$values ('approved', %L, 'no_op', '{"source_type": "human", "source_identity": null}'::jsonb)$$, ff_tap.id(1)),
    'ff_v_event: which signals came and what they did');

-- ff_v_scanner
select results_eq(
    $$select s.* from flowfabric.ff_v_scanner as s where s.scanner = 'delayed'$$,
    $$values ('delayed' collate "C", true, interval '750 ms', null::timestamptz, null::timestamptz, 0::bigint,
        null::integer, null::text)$$, 'ff_v_scanner: one that never ran');
select flowfabric.ff_tick(p_scanners => '{delayed}');
select results_eq(
    $$select s.last_run, s.next_due, s.errors from flowfabric.ff_v_scanner as s where s.scanner = 'delayed'$$,
    $$values (ff_tap.at(1100000), ff_tap.at(1100750), 0)$$, 'ff_v_scanner: when it ran and runs again');
update flowfabric.ff_scanner set consecutive_failures = 1, last_error = 'XX000 broken' where scanner = 'delayed';
select is(
    (select s.last_error from flowfabric.ff_v_scanner as s where s.scanner = 'delayed'), 'XX000 broken',
    'ff_v_scanner: why the last run failed');
select ff_tap.freeze_time(1200000);
select flowfabric.ff_tick(p_scanners => '{delayed}');
select is(
    (select s.last_error from flowfabric.ff_v_scanner as s where s.scanner = 'delayed'), null,
    'ff_v_scanner: nothing, once a run has succeeded');
select * from finish();
rollback;
