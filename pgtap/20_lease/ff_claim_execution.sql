-- Claiming with a grant: who may start an attempt, what a claim writes, and what a refused one leaves alone.
begin;
\ir ../helpers.sql
select plan(50);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare grant_to (text, text) as select flowfabric.ff_issue_claim_grant(
    $1, $2, 'pool-1', 'default', p_grant_ttl_ms => 500);
prepare claim (text) as select c.* from flowfabric.ff_claim_execution(
    $1, 'pool', 'pool-2', 600, 'default', ff_tap.lease_id(), ff_tap.attempt_id()) as c;
create function ff_tap.has_grant(p_execution_id text)
returns boolean
language sql stable
as $$
    select exists (
        select from flowfabric.ff_claim_grant as g, flowfabric.ff_parse_execution_id(p_execution_id) as k
        where g.partition_key = k.partition_key and g.execution_id = k.execution_id)
$$;

-- The first claim
select ff_tap.execution(:'execution', '{"timeout_policy": {"attempt_timeout_ms": 4000}}'::jsonb);
execute grant_to(:'execution', 'pool');
select ff_tap.freeze_time(1200);
select results_eq(
    format('execute claim(%L)', :'execution'),
    format(
        $$values ('claimed', %L, ff_tap.lease_id(), 1::bigint, 1800::bigint, 1600::bigint, ff_tap.attempt_id(), 0,
            'initial'::flowfabric.ff_attempt_type, 'default', 'pool-2', 600::bigint, 'fresh')$$, :'execution'),
    'a claim answers with the handle of a fresh attempt');
select is(
    ff_tap.vector(:'execution'), 'active / leased / not_applicable / none / none / running_attempt -> active',
    'a claimed execution is active and leased');
select is(
    to_jsonb(ff_tap.core(:'execution')) - array['partition_key', 'execution_id', 'namespace', 'execution_kind'],
    jsonb_build_object(
        'priority', 0, 'capability_set_id', 1, 'total_attempt_count', 1, 'retry_count', 0, 'replay_count', 0,
        'lease_reclaim_count', 0, 'open_reservation_count', 0, 'lifecycle_phase', 'active',
        'ownership_state', 'leased', 'eligibility_state', 'not_applicable', 'blocking_reason', 'none',
        'terminal_outcome', 'none', 'attempt_state', 'running_attempt',
        'current_lease_epoch', 1, 'created_at_ms', 1000, 'last_transition_at_ms', 1200, 'last_mutation_at_ms', 1200,
        'started_at_ms', 1200, 'terminal_at_ms', null, 'lease_acquired_at_ms', 1200, 'lease_expires_at_ms', 1800)
    || jsonb_build_object(
        'lease_last_renewed_at_ms', 1200, 'lease_expired_at_ms', null, 'lease_revoked_at_ms', null,
        'delay_until_ms', null, 'deadline_at_ms', null, 'attempt_timeout_at_ms', 5200, 'blocked_at_ms', null,
        'attempt_timeout_ms', 4000, 'retention_ms', null, 'purge_after_ms', null, 'flow_id', null,
        'current_attempt_id', ff_tap.attempt_id(), 'current_lease_id', ff_tap.lease_id(),
        'current_suspension_id', null, 'current_waitpoint_id', null, 'lane_id', 'default',
        'current_worker_id', 'pool', 'current_worker_instance_id', 'pool-2', 'quota_policy_id', null,
        'budget_ids', null, 'instance_tag', null, 'blocking_detail', null, 'attempt_is_deferred', true,
        'small_payload', null, 'ended_lease_id', null, 'ended_worker_id', null, 'ended_worker_instance_id', null),
    'a claim writes lease, counters and times; the attempt timeout comes from the policy');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.attempt(:'execution'))),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'attempt_index', 0,
        'attempt_type', 'initial', 'attempt_state', 'started', 'attempt_id', ff_tap.attempt_id(),
        'lease_id', ff_tap.lease_id(), 'lease_epoch', 1, 'worker_id', 'pool', 'worker_instance_id', 'pool-2',
        'created_at_ms', 1200, 'started_at_ms', 1200, 'last_usage_report_seq', 0),
    'the first attempt starts without lineage');
select is_empty('select a.* from flowfabric.ff_attempt as a', 'its row is written when it pauses, or ends without success');
select ok(not ff_tap.has_grant(:'execution'), 'a claim consumes its grant');
select is(
    (select jsonb_agg(
        jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch', 'partition_key', 'execution_id'])
     from flowfabric.ff_lease_event as v),
    jsonb_build_array(jsonb_build_object(
        'event_type', 'acquired', 'reason', 'claim', 'lease_id', ff_tap.lease_id(), 'lease_epoch', 1,
        'attempt_index', 0, 'attempt_id', ff_tap.attempt_id(), 'worker_id', 'pool', 'worker_instance_id', 'pool-2',
        'occurred_at_ms', 1200, 'namespace', 'default')),
    'a claim writes one lease event');
select throws_ok(
    format('execute claim(%L)', :'execution'), 'ZC003', 'execution_not_leaseable',
    'a grant cannot be consumed twice');
select is(
    ff_tap.error_of(format('execute claim(%L)', :'execution')),
    jsonb_build_object(
        'code', 'execution_not_leaseable', 'fn', 'ff_claim_execution', 'execution_id', :'execution',
        'lifecycle_phase', 'active', 'eligibility_state', 'not_applicable', 'terminal_outcome', 'none'),
    'the refusal shows the state');

-- A retry
select flowfabric.ff_fail_execution(
    :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'boom',
    p_retry_policy => '{"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 100}}'::jsonb);
select ff_tap.freeze_time(1300);
select flowfabric.ff_promote_delayed(:'execution');
execute grant_to(:'execution', 'pool');
create temporary table retried as
select c.* from flowfabric.ff_claim_execution(
    :'execution', 'pool', 'pool-1', p_attempt_policy => '{"model": "small"}', p_attempt_timeout_ms => 0,
    p_execution_deadline_at_ms => 9000) as c;
select results_eq(
    'select lease_epoch, attempt_index, attempt_type::text, handle_kind, lease_ttl_ms from retried',
    $$values (2::bigint, 1, 'retry', 'fresh', 30000::bigint)$$,
    'the claim after a failure starts the next attempt, a retry under the next epoch');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.attempt(:'execution', 1)) - array['attempt_id', 'lease_id', 'partition_key']),
    '{"execution_id": "00000000-0000-4000-8000-000000000001", "attempt_index": 1, "attempt_type": "retry",
      "attempt_state": "started", "lease_epoch": 2, "worker_id": "pool", "worker_instance_id": "pool-1",
      "created_at_ms": 1300, "started_at_ms": 1300, "last_usage_report_seq": 0, "retry_reason": "boom",
      "previous_attempt_index": 0, "policy": {"model": "small"}}'::jsonb,
    'a retry knows the failure and the attempt that it follows, and keeps the policy of its claim');
select isnt(
    (ff_tap.attempt(:'execution', 1)).attempt_id, ff_tap.attempt_id(), 'ids that are not given are minted');
select is(
    (select row(r.lease_id, r.attempt_id) from retried as r),
    (select row(e.current_lease_id, e.current_attempt_id) from ff_tap.core(:'execution') as e),
    'minted ids are those of the answer');
select is((ff_tap.core(:'execution')).started_at_ms, 1200::bigint, 'started_at_ms tells the first claim of all');
select is((ff_tap.core(:'execution')).attempt_timeout_at_ms, null, 'a timeout of 0 is none, whatever the policy says');
select is((ff_tap.core(:'execution')).deadline_at_ms, 9000::bigint, 'a deadline that is given replaces the old one');
select is(
    (select row(n.pending_retry_reason, n.pending_previous_attempt_index, n.failure_reason)
     from ff_tap.note(:'execution') as n),
    row(null::text, null::integer, 'boom'::text), 'a claim consumes the lineage and keeps the last failure');

-- Revoked, cancelled, replayed
select flowfabric.ff_revoke_lease(:'execution', p_reason => 'maintenance');
select flowfabric.ff_cancel_execution(:'execution', 'stop', 'operator_override');
select ff_tap.freeze_time(2000);
select flowfabric.ff_replay_execution(:'execution', 'again', 'ada');
execute grant_to(:'execution', 'pool');
select results_eq(
    format(
        $$select c.lease_epoch, c.attempt_index, c.attempt_type::text
          from flowfabric.ff_claim_execution(%L, 'pool', 'pool-1', p_lease_id => ff_tap.lease_id(),
              p_attempt_id => ff_tap.attempt_id(), p_attempt_timeout_ms => 70, p_execution_deadline_at_ms => 0) as c$$,
        :'execution'),
    $$values (3::bigint, 2, 'replay')$$,
    'the claim after a replay starts an attempt of type replay; the epoch goes on');
select is(
    (select row(a.replay_reason, a.replay_requested_by, a.replayed_from_attempt_index, a.previous_attempt_index)
     from ff_tap.attempt(:'execution', 2) as a),
    row('again'::text, 'ada'::text, 1, null::integer), 'a replay knows why, for whom and what it follows');
select is(
    (select row(n.pending_replay_reason, n.pending_replay_requested_by, n.pending_previous_attempt_index)
     from ff_tap.note(:'execution') as n),
    row(null::text, null::text, null::integer), 'the claim consumes the lineage of a replay');
select is(
    (select row(e.lease_revoked_at_ms, e.lease_expired_at_ms, e.attempt_timeout_at_ms, e.deadline_at_ms)
     from ff_tap.core(:'execution') as e),
    row(null::bigint, null::bigint, 2070::bigint, null::bigint),
    'a claim clears an old revocation and arms the timeout that is given; a deadline of 0 changes none');
select is((ff_tap.note(:'execution')).lease_revoke_reason, null, 'nor is the reason of the revocation left');
select lives_ok(
    format(
        'select flowfabric.ff_renew_lease(%L, ff_tap.lease_id(), 3, ff_tap.attempt_id())', :'execution'),
    'a lease after revocation, cancellation and replay can be renewed');

-- The grant
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.freeze_time(1000);
select ff_tap.execution(:'other');
prepare claim_with (text, text) as select c.outcome from flowfabric.ff_claim_execution(
    :'other', $1, 'pool-1', p_grant_key => $2) as c;
select is(
    ff_tap.error_of($$execute claim_with('pool', null)$$),
    jsonb_build_object(
        'code', 'invalid_claim_grant', 'fn', 'ff_claim_execution', 'execution_id', :'other', 'reason', 'missing'),
    'without a grant there is no claim');
select throws_ok(
    $$execute claim_with('pool', null)$$, 'ZC005', 'invalid_claim_grant', 'a missing grant has a code of its own');
create temporary table issued as
select g.* from flowfabric.ff_issue_claim_grant(:'other', 'pool', 'pool-1', 'default', p_grant_ttl_ms => 500) as g;
select is(
    ff_tap.error_of($$execute claim_with('thief', null)$$) ->> 'reason', 'other_worker',
    'a grant is bound to its worker');
select is(
    ff_tap.error_of(format('execute claim_with(''pool'', %L)', (select i.grant_key || '0' from issued as i)))
        ->> 'reason',
    'other_key', 'a key that is given must be the one of the grant');
update flowfabric.ff_claim_grant set kind = 'reclaim';
select is(
    ff_tap.error_of($$execute claim_with('thief', 'x')$$) ->> 'reason', 'other_kind',
    'a reclaim grant is no claim grant');
update flowfabric.ff_claim_grant set kind = 'claim';
select ff_tap.freeze_time(1501);
select throws_ok(
    $$execute claim_with('pool', null)$$, 'ZC006', 'claim_grant_expired', 'an expired grant is refused');
select is(
    ff_tap.error_of($$execute claim_with('pool', null)$$),
    jsonb_build_object(
        'code', 'claim_grant_expired', 'fn', 'ff_claim_execution', 'execution_id', :'other',
        'grant_expires_at_ms', 1500, 'now_ms', 1501),
    'the refusal shows both times');
select ff_tap.freeze_time(1500);
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_claim_execution(%L, 'pool', 'pool-1', p_lane_id => 'elsewhere')$$, :'other'))
        - array['code', 'fn'],
    '{"field": "lane_id", "reason": "other_lane", "value": "elsewhere"}', 'a lane that is given must be the right one');
select ok(ff_tap.has_grant(:'other'), 'refused claims leave the grant');
select flowfabric.ff_block_execution_for_admission(:'other', 'paused_by_operator');
select throws_ok(
    $$execute claim_with('pool', null)$$, 'ZC003', 'execution_not_leaseable',
    'an execution that was blocked since the grant is refused');
select flowfabric.ff_unblock_execution(:'other');
update flowfabric.ff_lane_registry set lane_state = 'paused' where lane_id = 'default';
select results_eq(
    format('execute claim_with(''pool'', %L)', (select i.grant_key from issued as i)), $$values ('claimed'::text)$$,
    'a grant is good in its last millisecond, and honoured on a paused lane');
update flowfabric.ff_lane_registry set lane_state = 'active' where lane_id = 'default';

-- State
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.execution(:'delayed', p_delay_until_ms => 5000);
select is(
    ff_tap.error_of(format('execute claim(%L)', :'delayed')) - array['code', 'fn', 'execution_id'],
    '{"lifecycle_phase": "runnable", "eligibility_state": "not_eligible_until_time", "terminal_outcome": "none"}',
    'a delayed execution is refused');
\set ended '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.execution(:'ended');
select flowfabric.ff_cancel_execution(:'ended', 'stop', 'operator_override');
select is(
    ff_tap.error_of(format('execute claim(%L)', :'ended')) - array['code', 'fn', 'execution_id'],
    '{"lifecycle_phase": "terminal", "eligibility_state": "not_applicable", "terminal_outcome": "cancelled"}',
    'an ended execution is refused');
\set paused '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.leased_execution(:'paused');
select flowfabric.ff_delay_execution(:'paused', 1400, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select flowfabric.ff_promote_delayed(:'paused');
execute grant_to(:'paused', 'pool');
select throws_ok(
    format('execute claim(%L)', :'paused'), 'ZC001', 'use_claim_resumed_execution',
    'a paused attempt must go on: the claim is sent to the other function');
select is(
    ff_tap.error_of(format('execute claim(%L)', :'paused')),
    jsonb_build_object(
        'code', 'use_claim_resumed_execution', 'fn', 'ff_claim_execution', 'execution_id', :'paused'),
    'the redirect names the execution');
select ok(ff_tap.has_grant(:'paused'), 'the redirect leaves the grant for it');

-- Arguments
prepare call (text, text, text, bigint, text, bigint, bigint, jsonb) as select flowfabric.ff_claim_execution(
    $1, $2, $3, $4, $5, p_attempt_timeout_ms => $6, p_execution_deadline_at_ms => $7, p_attempt_policy => $8);
select throws_ok(
    $$execute call('{fp:86}:x', 'pool', 'pool-1', 600, null, null, null, null)$$, 'ZV001', 'invalid_input',
    'a malformed execution id is refused');
select is(
    (select array_agg(
        ff_tap.error_of(format(
            'execute call(''{fp:86}:00000000-0000-4000-8000-00000000ffff'', %L, %L, %L, %L, %L, %L, ''[]'')', b.worker,
            b.instance, b.ttl, b.lane, b.timeout, b.deadline)) ->> 'field' order by b.number)
     from (values
        (1, null, 'pool-1', 600::bigint, null, null::bigint, null::bigint),
        (2, '', 'pool-1', 600, null, null, null),
        (3, 'po ol', 'pool-1', 600, null, null, null),
        (4, 'pool', null, 600, null, null, null),
        (5, 'pool', repeat('i', 257), 600, null, null, null),
        (6, 'pool', 'pool-1', null, null, null, null),
        (7, 'pool', 'pool-1', 0, null, null, null),
        (8, 'pool', 'pool-1', 86400001, null, null, null),
        (9, 'pool', 'pool-1', 600, E'\t', null, null),
        (10, 'pool', 'pool-1', 600, '', -1, null),
        (11, 'pool', 'pool-1', 600, null, 31536000000001, null),
        (12, 'pool', 'pool-1', 600, null, null, -1),
        (13, 'pool', 'pool-1', 600, null, null, 253402300800000)
    ) as b (number, worker, instance, ttl, lane, timeout, deadline)),
    '{worker_id,worker_id,worker_id,worker_instance_id,worker_instance_id,lease_ttl_ms,lease_ttl_ms,lease_ttl_ms,
      lane_id,attempt_timeout_ms,attempt_timeout_ms,execution_deadline_at_ms,execution_deadline_at_ms}'::text[],
    'each malformed argument is named, before the attempt policy is looked at');
select is(
    (select array_agg(
        ff_tap.error_of(format(
            'execute call(%L, ''pool'', ''pool-1'', 600, null, null, null, %L)',
            '{fp:86}:00000000-0000-4000-8000-00000000ffff', b.policy)) - 'fn' order by b.policy)
     from (values ('[]'), ('"x"'), ('null')) as b (policy)),
    array_fill(
        '{"code": "invalid_policy_json", "path": "$", "reason": "not_object"}'::jsonb, array[3]),
    'an attempt policy is an object, and that is checked before the execution is looked for');
select throws_ok(
    $$execute call('{fp:86}:00000000-0000-4000-8000-00000000ffff', 'pool', 'pool-1', 600, null, null, null, '[]')$$,
    'ZV004', 'invalid_policy_json', 'an attempt policy that is no object has a code of its own');
select throws_ok(
    $$execute call('{fp:86}:00000000-0000-4000-8000-00000000ffff', 'pool', 'pool-1', 600, null, null, null, null)$$,
    'ZN001', 'execution_not_found', 'an unknown execution is refused');
\set longest '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.execution(:'longest');
execute grant_to(:'longest', 'pool');
select lives_ok(
    format(
        'execute call(%L, ''pool'', ''pool-1'', 86400000, ''default'', 31536000000000, 253402300799999, ''{}'')',
        :'longest'),
    'the largest times are accepted');

-- What the state model rules out, and the claim refuses all the same
\set broken '{fp:86}:00000000-0000-4000-8000-000000000007'
select ff_tap.execution(:'broken');
execute grant_to(:'broken', 'pool');
alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal;
prepare break (text) as update flowfabric.ff_exec_core as e
set ownership_state = case $1 when 'owned' then 'leased'::flowfabric.ff_ownership_state else 'unowned' end,
    terminal_outcome = case $1 when 'ended' then 'failed'::flowfabric.ff_terminal_outcome else 'none' end,
    attempt_state = case $1 when 'running' then 'running_attempt'::flowfabric.ff_attempt_state
        else 'pending_first_attempt' end
where e.execution_id = (flowfabric.ff_parse_execution_id(:'broken')).execution_id;
execute break('owned');
select throws_ok(
    format('execute claim(%L)', :'broken'), 'ZC004', 'lease_conflict', 'an owned execution is never claimed');
select is(
    ff_tap.error_of(format('execute claim(%L)', :'broken')) ->> 'ownership_state', 'leased',
    'the refusal shows the ownership');
execute break('ended');
select throws_ok(
    format('execute claim(%L)', :'broken'), 'ZC003', 'execution_not_leaseable', 'nor is one with an outcome');
execute break('running');
select throws_ok(
    format('execute claim(%L)', :'broken'), 'ZK009', 'active_attempt_exists', 'nor one that claims to run');
select is(
    ff_tap.error_of(format('execute claim(%L)', :'broken')) ->> 'attempt_state', 'running_attempt',
    'the refusal shows the state of the attempt');

select * from finish();
rollback;
