-- The operator's claim: a named execution is taken at once, a new attempt or the paused one.
begin;
\ir ../helpers.sql
select plan(33);

select ff_tap.freeze_time(1000);
prepare take (text) as select c.* from flowfabric.ff_issue_grant_and_claim(
    $1, 600, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id()) as c;

-- A fresh attempt, past capabilities and the state of the lane
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.execution(
    :'execution', '{"routing_requirements": {"required_capabilities": ["gpu"]}}'::jsonb, 'night');
update flowfabric.ff_lane_registry set lane_state = 'disabled' where lane_id = 'night';
select ff_tap.freeze_time(1200);
select results_eq(
    format('execute take(%L)', :'execution'),
    format(
        $$values ('claimed', %L, ff_tap.lease_id(), 1::bigint, 1800::bigint, 1600::bigint, ff_tap.attempt_id(), 0,
            'initial'::flowfabric.ff_attempt_type, 'night', 'operator', 600::bigint, 'fresh')$$, :'execution'),
    'an operator gets a fresh attempt, whatever capabilities and lane ask for');
select is(
    ff_tap.vector(:'execution'), 'active / leased / not_applicable / none / none / running_attempt -> active',
    'the execution is active and leased');
select is(
    (select jsonb_build_array(
        e.current_worker_id, e.current_worker_instance_id, e.total_attempt_count, e.current_lease_epoch,
        e.started_at_ms, e.lease_expires_at_ms)
     from ff_tap.core(:'execution') as e),
    '["operator", "operator", 1, 1, 1200, 1800]'::jsonb, 'the holder is the operator unless another is named');
select is(
    (select jsonb_build_array(a.attempt_state, a.attempt_type, a.worker_id, a.lease_id, a.policy)
     from ff_tap.attempt(:'execution') as a),
    jsonb_build_array('started', 'initial', 'operator', ff_tap.lease_id(), null), 'the attempt is started');
select is(
    ff_tap.lease_events(:'execution'), '{acquired:issue_grant_and_claim}'::text[], 'the event says how it was taken');
select is_empty('select from flowfabric.ff_claim_grant', 'no grant is left behind');
select throws_ok(
    format('execute take(%L)', :'execution'), 'ZC012', 'execution_not_eligible', 'a second call is refused');
select is(
    ff_tap.error_of(format('execute take(%L)', :'execution')),
    jsonb_build_object(
        'code', 'execution_not_eligible', 'fn', 'ff_issue_grant_and_claim', 'execution_id', :'execution',
        'lifecycle_phase', 'active', 'eligibility_state', 'not_applicable', 'blocking_reason', 'none'),
    'the refusal shows the state');

-- What can be given
\set given '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.execution(:'given');
select results_eq(
    format(
        $$select c.worker_instance_id, c.lane_id from flowfabric.ff_issue_grant_and_claim(
            %L, 600, 'default', 'pool', 'pool-1', null, null, '{"model": "small"}', 70, 9000) as c$$, :'given'),
    $$values ('pool-1'::text, 'default'::text)$$, 'a worker can be named, and the right lane');
select is(
    (select jsonb_build_array(
        e.current_worker_id, e.attempt_timeout_at_ms, e.deadline_at_ms, (ff_tap.attempt(:'given')).policy)
     from ff_tap.core(:'given') as e),
    '["pool", 1270, 9000, {"model": "small"}]'::jsonb, 'timeout, deadline and attempt policy can be given');

-- Expired and live grants
\set granted '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.execution(:'granted');
select flowfabric.ff_issue_claim_grant(:'granted', 'pool', 'pool-1', 'default', p_grant_ttl_ms => 300);
select ff_tap.freeze_time(1500);
select throws_ok(
    format('execute take(%L)', :'granted'), 'ZS017', 'grant_already_exists',
    'an execution that is granted to somebody is left alone, to the last millisecond of the grant');
select is(
    ff_tap.error_of(format('execute take(%L)', :'granted')),
    jsonb_build_object(
        'code', 'grant_already_exists', 'fn', 'ff_issue_grant_and_claim', 'execution_id', :'granted',
        'kind', 'claim', 'grant_expires_at_ms', 1500),
    'the refusal says what grant is out, and until when');
select results_eq(
    'select g.worker_id::text collate "default", g.expires_at_ms from flowfabric.ff_claim_grant as g',
    $$values ('pool'::text, 1500::bigint)$$, 'the grant of somebody else is untouched');
select ff_tap.freeze_time(1501);
select results_eq(
    format('select outcome from flowfabric.ff_issue_grant_and_claim(%L, 600, '''', '''', '''')', :'granted'),
    $$values ('claimed'::text)$$, 'an expired grant is no obstacle; empty texts count as not given');
select is_empty('select from flowfabric.ff_claim_grant', 'an expired grant goes with the claim');

-- The paused attempt
\set paused '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(:'paused', p_attempt_timeout_ms => 5000);
select ff_tap.freeze_time(2000);
select flowfabric.ff_delay_execution(:'paused', 99000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(3000);
select results_eq(
    format(
        $$select c.outcome, c.attempt_index, c.attempt_id, c.lease_epoch, c.handle_kind, c.attempt_type::text
          from flowfabric.ff_issue_grant_and_claim(%L, 600, 'no such lane', p_attempt_id => gen_random_uuid()) as c$$,
        :'paused'),
    $$values ('claimed'::text, 0, ff_tap.attempt_id(), 2::bigint, 'resumed'::text, 'initial')$$,
    'a paused attempt goes on even while it is delayed, whatever lane is given');
select is(
    (select jsonb_build_array(
        e.lifecycle_phase, e.delay_until_ms, e.total_attempt_count, e.attempt_timeout_at_ms, e.started_at_ms)
     from ff_tap.core(:'paused') as e),
    '["active", null, 1, 7000, 1000]'::jsonb, 'its delay is over, and it has the rest of its timeout');
select is(
    (select jsonb_build_array(a.attempt_state, a.resumed_at_ms, a.suspended_at_ms, a.suspension_id)
     from ff_tap.attempt(:'paused') as a),
    '["started", 3000, null, null]'::jsonb, 'its attempt runs again');
select is(
    ff_tap.lease_events(:'paused'),
    '{acquired:issue_grant_and_claim,released:worker_delay,acquired:issue_grant_and_claim_resumed}'::text[],
    'the event says that it was resumed');
select flowfabric.ff_delay_execution(:'paused', 3000, p_source => 'operator_override');
select flowfabric.ff_promote_delayed(:'paused');
select flowfabric.ff_block_execution_for_admission(:'paused', 'waiting_for_quota');
select results_eq(
    format(
        'select handle_kind from flowfabric.ff_issue_grant_and_claim(%L, 600, p_attempt_timeout_ms => 10)', :'paused'),
    $$values ('resumed'::text)$$, 'nor does a block stop an operator');
select is(
    (select jsonb_build_array(e.blocked_at_ms, e.attempt_timeout_at_ms) from ff_tap.core(:'paused') as e),
    '[null, 3010]'::jsonb, 'the block is over, and the timeout is the one that was given');

-- State
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.execution(:'delayed', p_delay_until_ms => 5000);
select throws_ok(
    format('execute take(%L)', :'delayed'), 'ZC013', 'execution_not_in_eligible_set',
    'a delayed execution without an attempt is refused');
select is(
    ff_tap.error_of(format('execute take(%L)', :'delayed')),
    jsonb_build_object(
        'code', 'execution_not_in_eligible_set', 'fn', 'ff_issue_grant_and_claim', 'execution_id', :'delayed',
        'lane_id', 'default'),
    'the refusal names the lane');
\set other_lane '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.execution(:'other_lane');
select is(
    ff_tap.error_of(format('select flowfabric.ff_issue_grant_and_claim(%L, 600, ''day'')', :'other_lane')) - 'fn',
    jsonb_build_object(
        'code', 'execution_not_in_eligible_set', 'execution_id', :'other_lane', 'lane_id', 'day'),
    'a fresh attempt in another lane than the given one is refused');
select flowfabric.ff_cancel_execution(:'other_lane', 'stop', 'operator_override');
select throws_ok(
    format('execute take(%L)', :'other_lane'), 'ZC012', 'execution_not_eligible', 'an ended execution is refused');
\set suspended '{fp:86}:00000000-0000-4000-8000-000000000007'
select ff_tap.leased_execution(:'suspended');
select flowfabric._ff_pause_attempt(ff_tap.core(:'suspended'), 'test', 3000);
select flowfabric._ff_set_unowned_state(
    ff_tap.core(:'suspended'), 'suspended', 'not_applicable', 'waiting_for_signal', null, 'none',
    'attempt_interrupted', null, gen_random_uuid(), null, 'suspend', 3000);
select is(
    ff_tap.error_of(format('execute take(%L)', :'suspended')) - array['fn', 'execution_id'],
    '{"code": "execution_not_eligible", "lifecycle_phase": "suspended", "eligibility_state": "not_applicable",
      "blocking_reason": "waiting_for_signal"}',
    'a suspended execution waits for its signal, also when an operator asks');

-- Arguments
prepare call (text, bigint, text, text, text, bigint, bigint, jsonb) as select flowfabric.ff_issue_grant_and_claim(
    $1, $2, $3, $4, $5, p_attempt_timeout_ms => $6, p_execution_deadline_at_ms => $7, p_attempt_policy => $8);
select throws_ok(
    $$execute call('', 600, null, null, null, null, null, null)$$, 'ZV001', 'invalid_input',
    'an execution id is required');
select is(
    (select array_agg(
        ff_tap.error_of(format(
            'execute call(''{fp:86}:00000000-0000-4000-8000-00000000ffff'', %L, %L, %L, %L, %L, %L, ''1'')', b.ttl,
            b.lane, b.worker, b.instance, b.timeout, b.deadline)) ->> 'field' order by b.number)
     from (values
        (1, null::bigint, null, null, null, null::bigint, null::bigint),
        (2, 0, null, null, null, null, null),
        (3, -1, null, null, null, null, null),
        (4, 86400001, null, null, null, null, null),
        (5, 600, 'ü', null, null, null, null),
        (6, 600, null, 'a b', null, null, null),
        (7, 600, null, null, repeat('i', 257), null, null),
        (8, 600, null, null, null, -1, null),
        (9, 600, null, null, null, 31536000000001, null),
        (10, 600, null, null, null, null, -1),
        (11, 600, null, null, null, null, 253402300800000)
    ) as b (number, ttl, lane, worker, instance, timeout, deadline)),
    '{lease_ttl_ms,lease_ttl_ms,lease_ttl_ms,lease_ttl_ms,lane_id,worker_id,worker_instance_id,attempt_timeout_ms,
      attempt_timeout_ms,execution_deadline_at_ms,execution_deadline_at_ms}'::text[],
    'each malformed argument is named');
select throws_ok(
    $$execute call('{fp:86}:00000000-0000-4000-8000-00000000ffff', 600, null, null, null, null, null, '1')$$,
    'ZV004', 'invalid_policy_json', 'an attempt policy is an object');
select throws_ok(
    $$execute call('{fp:86}:00000000-0000-4000-8000-00000000ffff', 600, null, null, null, null, null, '{}')$$,
    'ZN001', 'execution_not_found', 'an unknown execution is refused');

-- What the state model rules out, and the claim refuses all the same
\set broken '{fp:86}:00000000-0000-4000-8000-000000000008'
select ff_tap.execution(:'broken');
alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal;
prepare break (text) as update flowfabric.ff_exec_core as e
set ownership_state = case $1 when 'owned' then 'leased'::flowfabric.ff_ownership_state else 'unowned' end,
    terminal_outcome = case $1 when 'ended' then 'failed'::flowfabric.ff_terminal_outcome else 'none' end,
    attempt_state = case $1 when 'running' then 'running_attempt'::flowfabric.ff_attempt_state
        else 'pending_first_attempt' end
where e.execution_id = (flowfabric.ff_parse_execution_id(:'broken')).execution_id;
execute break('owned');
select throws_ok(
    format('execute take(%L)', :'broken'), 'ZC004', 'lease_conflict', 'an owned execution is never taken');
execute break('ended');
select throws_ok(
    format('execute take(%L)', :'broken'), 'ZC012', 'execution_not_eligible', 'nor is one with an outcome');
execute break('running');
select throws_ok(
    format('execute take(%L)', :'broken'), 'ZK009', 'active_attempt_exists', 'nor one that claims to run');

select * from finish();
rollback;
