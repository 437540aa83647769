-- Why an execution is not running: one verdict each, with what somebody needs to know to change it.
begin;
\ir ../50_flow/helpers.sql
select plan(92);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

-- The contract of an explanation, without its sentences.
create function ff_tap.why(p_execution_id text)
returns text
language sql volatile
as $$
    select concat_ws(' ', w.verdict, 'since', coalesce(w.since_ms::text, '-'), 'until', coalesce(w.until_ms::text, '-'))
    from flowfabric.ff_why(p_execution_id) as w
$$;

create function ff_tap.detail(p_execution_id text)
returns jsonb
language sql volatile
as $$ select w.detail from flowfabric.ff_why(p_execution_id) as w $$;

-- not_found
select ff_tap.freeze_time(1000000);
select results_eq(
    format('select w.* from flowfabric.ff_why(%L) as w', ff_tap.id(99)),
    format(
        $$values (%L, null::flowfabric.ff_public_state, 'not_found', 'There is no such execution.', null::bigint,
            null::bigint, 'Check the id; an execution is deleted some time after its end.', '{}'::jsonb)$$,
        ff_tap.id(99)),
    'an unknown execution is not found, and that is no error');

-- ended
select ff_tap.leased_execution(ff_tap.id(1));
select ff_tap.advance_time(500);
select flowfabric.ff_complete_execution(ff_tap.id(1), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.why(ff_tap.id(1)), 'ended since 1000500 until -', 'ended: what is complete');
select is(
    ff_tap.detail(ff_tap.id(1)),
    '{"terminal_outcome": "success", "failure_reason": null, "cancellation_reason": null, "cancelled_by": null,
      "ended_at_ms": 1000500}', 'ended: how and when');
select is((flowfabric.ff_why(ff_tap.id(1))).what_to_do, null, 'ended: nothing is to be done about a success');
select ff_tap.execution(ff_tap.id(2));
select flowfabric.ff_cancel_execution(ff_tap.id(2), 'not wanted', 'operator_override');
select is(
    ff_tap.detail(ff_tap.id(2)) - 'ended_at_ms',
    '{"terminal_outcome": "cancelled", "failure_reason": null, "cancellation_reason": "not wanted",
      "cancelled_by": "operator_override"}', 'ended: who cancelled it, and why');
select ff_tap.leased_execution(ff_tap.id(3));
select flowfabric.ff_fail_execution(
    ff_tap.id(3), ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_failure_reason => 'disk full');
select is(ff_tap.detail(ff_tap.id(3)) ->> 'failure_reason', 'disk full', 'ended: why it failed');
select ok(
    (flowfabric.ff_why(ff_tap.id(3))).what_to_do like '%`flowfabric replay %', 'ended: a failure can be run once more');

-- running, lease_expired, lease_revoked
select ff_tap.freeze_time(2000000);
select ff_tap.leased_execution(
    ff_tap.id(4), p_lease_expires_at_ms => 2030000, p_attempt_timeout_ms => 60000, p_deadline_at_ms => 2090000);
select flowfabric.ff_update_progress(
    ff_tap.id(4), ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_progress_pct => 40);
select ff_tap.freeze_time(2029999);
select is(
    ff_tap.why(ff_tap.id(4)), 'running since 2000000 until 2030000', 'running: from the issue of the lease to its end');
select is(
    ff_tap.detail(ff_tap.id(4)),
    '{"worker_id": "worker", "worker_instance_id": "worker-1", "attempt_index": 0, "progress_pct": 40,
      "attempt_timeout_at_ms": 2060000, "deadline_at_ms": 2090000, "lost_in_a_row": 0}', 'running: where, and how far');
select is((flowfabric.ff_why(ff_tap.id(4))).what_to_do, null, 'running: nothing is to be done');
select ff_tap.freeze_time(2030000);
select is(
    ff_tap.why(ff_tap.id(4)), 'lease_expired since 2030000 until -',
    'lease_expired: from the instant of the expiry, before a scanner has marked it');
select is(
    ff_tap.detail(ff_tap.id(4)),
    '{"lease_expires_at_ms": 2030000, "worker_id": "worker", "worker_instance_id": "worker-1", "worker_live": null,
      "reclaim_grant_until_ms": null, "lost_in_a_row": 1, "max_reclaim_count": 5, "takeover_at_ms": 2030000}',
    'lease_expired: of a worker that never registered nobody knows whether it lives');
select flowfabric._ff_lose_lease(ff_tap.core(ff_tap.id(4)), 'lease_expired_reclaimable', null, 2030000);
select is(ff_tap.why(ff_tap.id(4)), 'lease_expired since 2030000 until -', 'lease_expired: nor does the mark change it');
select flowfabric.ff_register_worker('worker', 'worker-1', '{elsewhere}', p_liveness_ttl_ms => 1000);
select is(ff_tap.detail(ff_tap.id(4)) -> 'worker_live', 'true', 'lease_expired: the worker lives');
select flowfabric.ff_issue_reclaim_grant(ff_tap.id(4), 'worker', 'worker-2', 'default', p_grant_ttl_ms => 5000);
select is(
    ff_tap.detail(ff_tap.id(4)) -> 'reclaim_grant_until_ms', '2035000', 'lease_expired: somebody was told to take over');
select ff_tap.freeze_time(2035001);
select is(
    ff_tap.detail(ff_tap.id(4)) - array['lease_expires_at_ms', 'worker_id', 'worker_instance_id'],
    '{"worker_live": false, "reclaim_grant_until_ms": null, "lost_in_a_row": 1, "max_reclaim_count": 5,
      "takeover_at_ms": 2030000}', 'lease_expired: the worker is gone, the grant has lapsed');
-- lease_expired: several in a row
select ff_tap.leased_execution(ff_tap.id(200), p_lease_expires_at_ms => 2036000);
update flowfabric.ff_exec_core as e
set lease_reclaim_count = 2 where e.execution_id = right(ff_tap.id(200), 36)::uuid;
select is(
    (flowfabric.ff_why(ff_tap.id(200))).summary like '%, after 2 leases lost in a row without progress.', true,
    'running: after how many losses');
select ff_tap.freeze_time(2036000);
select flowfabric._ff_takeover_at_ms(ff_tap.core(ff_tap.id(200)), null) as takeover_at_ms \gset
select is(
    ff_tap.why(ff_tap.id(200)), 'lease_expired since 2036000 until ' || :takeover_at_ms,
    'lease_expired: until the back-off is over');
select is(
    (select row(d -> 'lost_in_a_row', d -> 'max_reclaim_count', d -> 'takeover_at_ms')
     from ff_tap.detail(ff_tap.id(200)) as d),
    row('3'::jsonb, '5'::jsonb, to_jsonb(:takeover_at_ms)), 'lease_expired: how many were lost, of how many allowed');
select matches(
    (flowfabric.ff_why(ff_tap.id(200))).summary,
    '^It lost 3 leases in a row without progress, .* The next takeover, of at most 5 in a row, is not before ',
    'lease_expired: said in a sentence');
select matches(
    (flowfabric.ff_why(ff_tap.id(200))).what_to_do, 'kill the worker process.*ff_cancel_execution',
    'lease_expired: and what to do');
update flowfabric.ff_exec_core as e
set lease_reclaim_count = 5 where e.execution_id = right(ff_tap.id(200), 36)::uuid;
select is(ff_tap.why(ff_tap.id(200)), 'lease_expired since 2036000 until -', 'lease_expired: at the cap nothing is awaited');
select matches(
    (flowfabric.ff_why(ff_tap.id(200))).summary, 'After 5 takeovers in a row the next ff_reclaim_next ends it as failed',
    'lease_expired: but its end');
select ff_tap.leased_execution(ff_tap.id(5), p_lease_expires_at_ms => 2100000);
select ff_tap.freeze_time(2040000);
select flowfabric.ff_revoke_lease(ff_tap.id(5), p_reason => 'maintenance');
select is(ff_tap.why(ff_tap.id(5)), 'lease_revoked since 2040000 until -', 'lease_revoked: from the revocation on');
select is(
    ff_tap.detail(ff_tap.id(5)), '{"lease_revoked_at_ms": 2040000, "lease_revoke_reason": "maintenance"}',
    'lease_revoked: why');
select ff_tap.freeze_time(2100000);
select is(
    ff_tap.why(ff_tap.id(5)), 'lease_revoked since 2040000 until -', 'lease_revoked: also past the end that it had');

-- waiting_for_signal
select flowfabric.ff_seed_waitpoint_hmac_secret('kid', repeat('ab', 32));
select ff_tap.leased_execution(ff_tap.id(6));
select flowfabric.ff_suspend_execution(
    ff_tap.id(6), ff_tap.lease_id(), 1, ff_tap.attempt_id(),
    '{"Single": {"waitpoint_key": "wpk:approval", "matcher": {"ByName": "approved"}}}', 'waiting_for_approval',
    p_waitpoint_ids => '{00000000-0000-4000-8000-000000170001}', p_waitpoint_keys => '{wpk:approval}',
    p_timeout_at_ms => 2200000, p_timeout_behavior => 'escalate') \gset
select is(
    ff_tap.why(ff_tap.id(6)), 'waiting_for_signal since 2100000 until 2200000', 'waiting_for_signal: until its timeout');
select is(
    ff_tap.detail(ff_tap.id(6)),
    '{"reason_code": "waiting_for_approval", "timeout_behavior": "escalate",
      "condition": {"Single": {"waitpoint_key": "wpk:approval", "matcher": {"ByName": "approved"}}},
      "waitpoints": [{"waitpoint_id": "00000000-0000-4000-8000-000000170001", "waitpoint_key": "wpk:approval",
        "state": "active", "required_signal_names": ["approved"], "signal_count": 0, "matched_signal_count": 0}]}',
    'waiting_for_signal: for which, and where it is expected');
select ok(
    position((select w.token_fingerprint from flowfabric.ff_waitpoint_pending as w) in flowfabric.ff_why(ff_tap.id(6))::text)
    = 0, 'waiting_for_signal: neither token nor fingerprint is shown');

-- flow_cancelled
select ff_tap.freeze_time(3000000);
select ff_tap.flow(3);
select ff_tap.connect('{1,2}', 3);
select is(
    ff_tap.why(ff_tap.m(3)), 'waiting_for_dependencies since 3000000 until -',
    'waiting_for_dependencies: what has dependencies waits for them');
select is(
    ff_tap.detail(ff_tap.m(3)),
    jsonb_build_object(
        'flow_id', ff_tap.flow_id(), 'undispatched', false,
        'group', jsonb_build_object(
            'policy_kind', 'all_of', 'k', null, 'on_satisfied', null, 'n', 2, 'success_count', 0, 'fail_count', 0,
            'skip_count', 0, 'running_count', 2, 'group_state', 'pending'),
        'dependencies', jsonb_build_array(
            jsonb_build_object(
                'edge_id', ff_tap.edge_id(1, 3), 'upstream_execution_id', ff_tap.m(1), 'upstream_public_state',
                'waiting'),
            jsonb_build_object(
                'edge_id', ff_tap.edge_id(2, 3), 'upstream_execution_id', ff_tap.m(2), 'upstream_public_state',
                'waiting'))),
    'waiting_for_dependencies: for which, how they stand, and how many of them it needs');
select flowfabric.ff_set_setting('max_sync_edges', 0);
select ff_tap.finish(1);
select ff_tap.finish(2, 'failed');
select is(
    (select jsonb_agg(d -> 'upstream_public_state') from jsonb_array_elements(ff_tap.detail(ff_tap.m(3)) -> 'dependencies') as d),
    '["completed", "failed"]', 'waiting_for_dependencies: an upstream that failed is shown');
select is(
    ff_tap.detail(ff_tap.m(3)) -> 'undispatched', 'true',
    'waiting_for_dependencies: and that its end has not been passed on yet');
select ff_tap.execution(ff_tap.m(n)) from generate_series(5, 30) as n;
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms, last_mutation_at_ms)
values (6, '11111111-1111-1111-1111-111111111110', 'dag', 'default', 'open', 26, 0, 0);
update flowfabric.ff_exec_core as e
set flow_id = '11111111-1111-1111-1111-111111111110'
where e.partition_key = 6 and e.execution_id between ff_tap.eid(5) and ff_tap.eid(30);
insert into flowfabric.ff_edge (
    partition_key, flow_id, edge_id, upstream_eid, downstream_eid, dep_state, created_at_ms, staged_at_ms, applied_at_ms)
select
    6, '11111111-1111-1111-1111-111111111110', ff_tap.edge_id(n, 5), ff_tap.eid(n), ff_tap.eid(5), 'unsatisfied', 0, 0, 0
from generate_series(6, 30) as n;
update flowfabric.ff_exec_core as e
set eligibility_state = 'blocked_by_dependencies', blocking_reason = 'waiting_for_children'
where e.partition_key = 6 and e.execution_id = ff_tap.eid(5);
select is(
    jsonb_array_length(ff_tap.detail(ff_tap.m(5)) -> 'dependencies'), 20, 'waiting_for_dependencies: 20 are enough');
select is(
    (flowfabric.ff_why(ff_tap.m(5))).summary, 'It waits for 25 dependencies.', 'waiting_for_dependencies: all are counted');

select ff_tap.execution(ff_tap.m(40));
update flowfabric.ff_exec_core as e
set flow_id = ff_tap.flow_id()
where e.partition_key = 6 and e.execution_id = ff_tap.eid(40);
select flowfabric.ff_cancel_flow(
    ff_tap.flow_id(), 'budget cut', 'cancel_all', p_grace_ms => 60000, p_sync_limit => 0);
select is(ff_tap.why(ff_tap.m(40)), 'flow_cancelled since 3000000 until 3060000', 'flow_cancelled: until the grace is over');
select is(
    ff_tap.detail(ff_tap.m(40)), jsonb_build_object('flow_id', ff_tap.flow_id(), 'cancel_reason', 'budget cut'),
    'flow_cancelled: which flow, and why');

-- delayed
select ff_tap.freeze_time(4000000);
select ff_tap.execution(ff_tap.id(10), p_delay_until_ms => 4005000);
select is(ff_tap.why(ff_tap.id(10)), 'delayed since 4000000 until 4005000', 'delayed: until its time');
select is(
    ff_tap.detail(ff_tap.id(10)), '{"blocking_reason": "waiting_for_delay", "retry_count": 0, "failure_reason": null}',
    'delayed: because somebody asked for it');
select ff_tap.leased_execution(
    ff_tap.id(11), '{"retry_policy": {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 7000}}}');
select flowfabric.ff_fail_execution(
    ff_tap.id(11), ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_failure_reason => 'try again');
select is(ff_tap.why(ff_tap.id(11)), 'delayed since 4000000 until 4007000', 'delayed: until the next retry');
select is(
    ff_tap.detail(ff_tap.id(11)),
    '{"blocking_reason": "waiting_for_retry_backoff", "retry_count": 1, "failure_reason": "try again"}',
    'delayed: because it failed, and why');

-- paused_by_operator
select ff_tap.execution(ff_tap.id(12));
select ff_tap.freeze_time(4001000);
select flowfabric.ff_block_execution_for_admission(ff_tap.id(12), 'paused_by_operator', 'wait for the audit');
select is(ff_tap.why(ff_tap.id(12)), 'paused_by_operator since 4001000 until -', 'paused_by_operator: until let go');
select is(
    ff_tap.detail(ff_tap.id(12)), '{"blocking_detail": "wait for the audit", "blocked_at_ms": 4001000}',
    'paused_by_operator: why');

-- budget_exhausted: the rule of admission, before and after a claim has looked
select ff_tap.freeze_time(5000000);
select flowfabric.ff_create_budget('full', 'tenant', 't', '{a,cost,tokens}', '{0,10,100}', '{0,0,0}', 60000);
select flowfabric.ff_create_budget('roomy', 'tenant', 't', '{tokens}', '{100}', '{0}');
select ff_tap.execution(ff_tap.id(20), '{"budget_ids": ["roomy", "full"]}', p_lane_id => 'budget');
select isnt(
    (flowfabric.ff_why(ff_tap.id(20))).verdict, 'budget_exhausted', 'budget_exhausted: not while there is room');
insert into flowfabric.ff_budget_usage (budget_id, dimension, current_value, reserved_value, updated_at_ms)
values ('full', 'cost', 7, 2, 0), ('full', 'tokens', 99, 0, 0);
select isnt(
    (flowfabric.ff_why(ff_tap.id(20))).verdict, 'budget_exhausted', 'budget_exhausted: not one short of the limit');
select is(
    (flowfabric._ff_exhausted_budget('{roomy,full}')).budget_id, null, 'as admission says');
update flowfabric.ff_budget_usage as u set reserved_value = 3 where u.budget_id = 'full' and u.dimension = 'cost';
select is(
    ff_tap.why(ff_tap.id(20)), 'budget_exhausted since 5000000 until 5060000',
    'budget_exhausted: at the limit, until the next reset, before any claim has looked');
select is(
    ff_tap.detail(ff_tap.id(20)),
    '{"budget_id": "full", "dimension": "cost", "current": 7, "reserved": 3, "limit": 10}',
    'budget_exhausted: the second budget, and which of its limits');
select is(
    (flowfabric._ff_exhausted_budget('{roomy,full}')).budget_id, 'full', 'as admission says');
select is_empty(
    $$select c.* from flowfabric.ff_claim_next('{budget}', 'worker', 'worker-1') as c$$, 'and as a claim finds');
select is((ff_tap.core(ff_tap.id(20))).eligibility_state, 'blocked_by_budget', 'which then takes it off the queue');
select is(
    ff_tap.detail(ff_tap.id(20)),
    '{"budget_id": "full", "dimension": "cost", "current": 7, "reserved": 3, "limit": 10}',
    'budget_exhausted: the explanation is the same');
update flowfabric.ff_budget_usage as u set reserved_value = 0 where u.budget_id = 'full' and u.dimension = 'cost';
update flowfabric.ff_scanner as s set next_due_at_ms = 5003000, last_run_at_ms = 4998000 where s.scanner = 'unblock';
select is(
    ff_tap.why(ff_tap.id(20)), 'budget_exhausted since 5000000 until 5003000',
    'budget_exhausted: with room again, until the scanner has noticed');
select is(
    ff_tap.detail(ff_tap.id(20)),
    '{"blocking_reason": "waiting_for_budget", "blocking_detail": "budget full: cost 10/10", "is_over": true}',
    'budget_exhausted: and that it is over');
select flowfabric.ff_tick(p_scanners => '{unblock}', p_force => true);
select isnt((flowfabric.ff_why(ff_tap.id(20))).verdict, 'budget_exhausted', 'budget_exhausted: until then');

-- quota_exceeded: likewise
select ff_tap.freeze_time(6000000);
select flowfabric.ff_create_quota_policy('rate', 60, 2, 0);
select flowfabric.ff_create_quota_policy('cap', 60, 0, 1);
select ff_tap.execution(ff_tap.id(30), '{"quota_policy_id": "rate"}');
select ff_tap.execution(ff_tap.id(n)) from generate_series(31, 33) as n;
select flowfabric.ff_check_admission_and_record('rate', ff_tap.id(31));
select ff_tap.freeze_time(6010000);
select isnt((flowfabric.ff_why(ff_tap.id(30))).verdict, 'quota_exceeded', 'quota_exceeded: not while a start is left');
select flowfabric.ff_check_admission_and_record('rate', ff_tap.id(32));
select is(
    ff_tap.why(ff_tap.id(30)), 'quota_exceeded since 6000000 until 6060000',
    'quota_exceeded: until the oldest start leaves the window, before any claim has looked');
select is(
    ff_tap.detail(ff_tap.id(30)), '{"quota_policy_id": "rate", "kind": "rate", "limit": 2, "current": 2}',
    'quota_exceeded: by the rate');
select is(
    (flowfabric.ff_check_admission_and_record('rate', ff_tap.id(30), 0)).outcome, 'rate_exceeded', 'as admission says');
select isnt(
    (flowfabric.ff_why(ff_tap.id(31))).verdict, 'quota_exceeded', 'quota_exceeded: not for one that has no quota');
update flowfabric.ff_exec_core as e set quota_policy_id = 'rate' where e.execution_id = right(ff_tap.id(31), 36)::uuid;
select isnt(
    (flowfabric.ff_why(ff_tap.id(31))).verdict, 'quota_exceeded', 'quota_exceeded: not for one that has paid its start');
select is(
    (flowfabric.ff_check_admission_and_record('rate', ff_tap.id(31), 0)).outcome, 'already_admitted',
    'as admission says');
select ff_tap.freeze_time(6060000);
select isnt(
    (flowfabric.ff_why(ff_tap.id(30))).verdict, 'quota_exceeded', 'quota_exceeded: over at the instant that was promised');
select is(
    (flowfabric.ff_check_admission_and_record('rate', ff_tap.id(30), 0)).outcome, 'admitted', 'as admission says');
select ff_tap.execution(ff_tap.id(34), '{"quota_policy_id": "cap"}');
select ff_tap.execution(ff_tap.id(35), '{"quota_policy_id": "cap"}');
select flowfabric.ff_check_admission_and_record('cap', ff_tap.id(34));
select is(
    ff_tap.why(ff_tap.id(35)), 'quota_exceeded since 6060000 until -', 'quota_exceeded: a cap has no time at which it ends');
select is(
    ff_tap.detail(ff_tap.id(35)), '{"quota_policy_id": "cap", "kind": "concurrency", "limit": 1, "current": 1}',
    'quota_exceeded: by the cap');
select is(
    (flowfabric.ff_check_admission_and_record('cap', ff_tap.id(35))).outcome, 'concurrency_exceeded', 'as admission says');
select isnt(
    (flowfabric.ff_why(ff_tap.id(34))).verdict, 'quota_exceeded', 'quota_exceeded: the slot it holds itself is not in its way');
select is(
    (flowfabric.ff_check_admission_and_record('cap', ff_tap.id(34))).outcome, 'already_admitted', 'as admission says');

-- lane_closed
select ff_tap.freeze_time(7000000);
select ff_tap.execution(ff_tap.id(40), p_lane_id => 'closed');
select flowfabric.ff_set_lane_state('closed', 'paused', 'moving house');
select is(ff_tap.why(ff_tap.id(40)), 'lane_closed since 7000000 until -', 'lane_closed: until it is opened');
select is(
    ff_tap.detail(ff_tap.id(40)), '{"lane_id": "closed", "lane_state": "paused", "state_reason": "moving house"}',
    'lane_closed: which, and why');
select flowfabric.ff_set_lane_state('closed', 'draining');
select isnt((flowfabric.ff_why(ff_tap.id(40))).verdict, 'lane_closed', 'lane_closed: not while it only drains');

-- no_capable_worker
select ff_tap.freeze_time(8000000);
select ff_tap.execution(
    ff_tap.id(50), '{"routing_requirements": {"required_capabilities": ["cuda", "gpu", "linux"]}}', p_lane_id => 'gpu');
select is((flowfabric.ff_why(ff_tap.id(50))).verdict, 'no_worker', 'no_capable_worker: not while no worker serves the lane');
select flowfabric.ff_register_worker('w', 'w-1', '{gpu}', '{linux}');
select flowfabric.ff_register_worker('w', 'w-2', '{gpu}', '{gpu,linux}');
select flowfabric.ff_register_worker('w', 'w-3', '{gpu}', '{cuda,gpu,linux}', 'other');
select flowfabric.ff_register_worker('w', 'w-4', '{cpu}', '{cuda,gpu,linux}');
select is(
    ff_tap.why(ff_tap.id(50)), 'no_capable_worker since 8000000 until -',
    'no_capable_worker: neither of another tenant nor of another lane');
select is(
    ff_tap.detail(ff_tap.id(50)),
    '{"required_capabilities": ["cuda", "gpu", "linux"], "missing": ["cuda"], "live_workers": 2}',
    'no_capable_worker: what the best of them lacks');
select flowfabric.ff_register_worker('w', 'w-5', '{gpu}', '{cuda,gpu,linux}');
select is((flowfabric.ff_why(ff_tap.id(50))).verdict, 'queued', 'no_capable_worker: until one comes');
select flowfabric.ff_drain_worker('w-5');
select is((flowfabric.ff_why(ff_tap.id(50))).verdict, 'no_capable_worker', 'no_capable_worker: or goes');

select flowfabric.ff_block_execution_for_admission(ff_tap.id(50), 'waiting_for_capable_worker');
select is(
    ff_tap.detail(ff_tap.id(50)),
    '{"required_capabilities": ["cuda", "gpu", "linux"], "missing": ["cuda"], "live_workers": 3}',
    'no_capable_worker: blocked, the explanation is the same');
select flowfabric.ff_drain_worker('w-5', false);
select is(
    ff_tap.detail(ff_tap.id(50)) -> 'is_over', 'true', 'no_capable_worker: over before the scanner has noticed');
select ff_tap.execution(ff_tap.id(51), p_lane_id => 'nobody');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(51), 'waiting_for_capable_worker');
select is(
    ff_tap.detail(ff_tap.id(51)) -> 'is_over', 'true', 'no_capable_worker: what needs nothing is not held up by it');

-- granted, no_worker, queued
select ff_tap.freeze_time(9000000);
select ff_tap.execution(ff_tap.id(60), p_lane_id => 'quiet');
select is(ff_tap.why(ff_tap.id(60)), 'no_worker since 9000000 until -', 'no_worker: until one registers');
select is(
    ff_tap.detail(ff_tap.id(60)), '{"lane_id": "quiet", "last_claim_at_ms": null}', 'no_worker: and nothing was claimed');
select ff_tap.execution(ff_tap.id(61), p_lane_id => 'quiet', p_priority => 1);
select flowfabric.ff_claim_next('{quiet}', 'w', 'unregistered');
select is(
    ff_tap.detail(ff_tap.id(60)) -> 'last_claim_at_ms', '9000000', 'no_worker: somebody who did not register is at work');
select flowfabric.ff_issue_claim_grant(ff_tap.id(60), 'w', 'w-9', 'quiet', p_grant_ttl_ms => 5000);
select is(ff_tap.why(ff_tap.id(60)), 'granted since 9000000 until 9005000', 'granted: until the grant lapses');
select is(ff_tap.detail(ff_tap.id(60)), '{"worker_id": "w", "kind": "claim"}', 'granted: to whom');
select ff_tap.freeze_time(9005001);
select flowfabric.ff_register_worker('w', 'w-9', '{quiet}');
select ff_tap.execution(ff_tap.id(62), p_lane_id => 'quiet');
select ff_tap.execution(ff_tap.id(63), p_lane_id => 'quiet', p_priority => 5);
select ff_tap.execution(
    ff_tap.id(64), '{"routing_requirements": {"required_capabilities": ["gpu"]}}', p_lane_id => 'quiet', p_priority => 6);
select is(ff_tap.why(ff_tap.id(62)), 'queued since 9005001 until -', 'queued: nothing is in its way');
select is(
    ff_tap.detail(ff_tap.id(62)), '{"ahead": 3, "priority": 0, "eligible_since_ms": 9005001, "live_workers": 1}',
    'queued: behind the older and the more urgent, whatever they need');
select is(ff_tap.detail(ff_tap.id(63)) -> 'ahead', '1', 'queued: not behind the less urgent');

-- What it costs, and who may ask
select is(
    ff_tap.sequential_scans(format('select flowfabric.ff_why(%L)', ff_tap.id(62))), 0::bigint,
    'nothing that grows with the executions is read from end to end');
select is(
    ff_tap.error_of($$select flowfabric.ff_why('{fp:86}:x')$$) ->> 'reason', 'bad_uuid', 'a malformed id is refused');
select lives_ok(
    format($$select ff_tap.as_role('flowfabric_producer', %L)$$, format('select flowfabric.ff_why(%L)', ff_tap.id(62))),
    'a producer may ask');
select throws_ok(
    format($$select ff_tap.as_role('flowfabric_worker', %L)$$, format('select flowfabric.ff_why(%L)', ff_tap.id(62))),
    '42501', null, 'a worker may not');
select * from finish();
rollback;
