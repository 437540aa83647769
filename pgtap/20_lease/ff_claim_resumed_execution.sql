-- Claiming a paused attempt: the same attempt goes on, under a new lease and with the rest of its timeout.
begin;
\ir ../helpers.sql
select plan(35);

create function ff_tap.has_grant(p_execution_id text)
returns boolean
language sql stable
as $$
    select exists (
        select from flowfabric.ff_claim_grant as g, flowfabric.ff_parse_execution_id(p_execution_id) as k
        where g.partition_key = k.partition_key and g.execution_id = k.execution_id)
$$;

-- An execution with a paused attempt: claimed now by worker-1, given back at once, eligible again and granted to pool.
create function ff_tap.resumable_execution(
    p_execution_id text,
    p_policy jsonb default null,
    p_attempt_timeout_ms bigint default null,
    p_deadline_at_ms bigint default null
)
returns void
language plpgsql volatile
as $$
begin
    perform ff_tap.leased_execution(
        p_execution_id, p_policy, p_attempt_timeout_ms => p_attempt_timeout_ms, p_deadline_at_ms => p_deadline_at_ms);
    perform flowfabric.ff_delay_execution(
        p_execution_id, flowfabric.ff_now_ms(), ff_tap.lease_id(), 1, ff_tap.attempt_id());
    perform flowfabric.ff_promote_delayed(p_execution_id);
    perform flowfabric.ff_issue_claim_grant(p_execution_id, 'pool', 'pool-1', 'default', p_grant_ttl_ms => 500);
end;
$$;

\set new_lease '''00000000-0000-4000-8000-0000000000ff'''
prepare resume (text) as select c.* from flowfabric.ff_claim_resumed_execution(
    $1, 'pool', 'pool-2', 600, 'default', :new_lease) as c;

-- The same attempt goes on
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(:'execution', p_attempt_timeout_ms => 60000, p_deadline_at_ms => 9000000);
select ff_tap.freeze_time(21000);
select flowfabric.ff_delay_execution(:'execution', 21000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(3621000);
select flowfabric.ff_promote_delayed(:'execution');
select flowfabric.ff_issue_claim_grant(:'execution', 'pool', 'pool-1', 'default');
select results_eq(
    format('execute resume(%L)', :'execution'),
    format(
        $$values ('claimed', %L, %L::uuid, 2::bigint, 3621600::bigint, 3621400::bigint, ff_tap.attempt_id(), 0,
            'initial'::flowfabric.ff_attempt_type, 'default', 'pool-2', 600::bigint, 'resumed')$$,
        :'execution', :new_lease),
    'a resumed claim answers with the same attempt, its own type, a new lease and the next epoch');
select is(
    ff_tap.vector(:'execution'), 'active / leased / not_applicable / none / none / running_attempt -> active',
    'a resumed execution is active and leased');
select is(
    to_jsonb(ff_tap.attempt(:'execution')) - array['partition_key', 'execution_id'],
    jsonb_build_object(
        'attempt_index', 0, 'attempt_type', 'initial', 'attempt_state', 'started', 'attempt_id', ff_tap.attempt_id(),
        'lease_id', :new_lease, 'lease_epoch', 2, 'worker_id', 'pool', 'worker_instance_id', 'pool-2',
        'created_at_ms', 1000, 'started_at_ms', 1000, 'resumed_at_ms', 3621000, 'suspended_at_ms', null,
        'suspension_id', null, 'timeout_remaining_ms', null, 'ended_at_ms', null, 'last_usage_report_seq', 0,
        'failure_reason', null, 'failure_category', null, 'retry_reason', null, 'reclaim_reason', null)
    || jsonb_build_object(
        'replay_reason', null, 'replay_requested_by', null, 'previous_attempt_index', null,
        'replayed_from_attempt_index', null, 'policy', null, 'usage', null),
    'the paused attempt runs again; it forgets its pause and keeps its beginning');
select is(
    (select row(
        e.total_attempt_count, e.current_attempt_id, e.current_lease_id, e.current_lease_epoch, e.started_at_ms)
     from ff_tap.core(:'execution') as e),
    row(1, ff_tap.attempt_id(), (:new_lease)::uuid, 2::bigint, 1000::bigint), 'no new attempt is counted');
select is(
    (select jsonb_build_array(
        e.current_worker_id, e.current_worker_instance_id, e.lease_acquired_at_ms, e.lease_last_renewed_at_ms,
        e.lease_expires_at_ms, e.last_transition_at_ms, e.last_mutation_at_ms, e.delay_until_ms)
     from ff_tap.core(:'execution') as e),
    '["pool", "pool-2", 3621000, 3621000, 3621600, 3621000, 3621000, null]'::jsonb,
    'the lease and the times are those of the resumed claim');
select is(
    (ff_tap.core(:'execution')).attempt_timeout_at_ms, 3661000::bigint,
    'of 60 seconds 20 were used before the pause, so 40 are left after an hour');
select is((ff_tap.core(:'execution')).deadline_at_ms, 9000000::bigint, 'the deadline stays');
select ok(not ff_tap.has_grant(:'execution'), 'a resumed claim consumes its grant');
select is(
    ff_tap.lease_events(:'execution'),
    '{acquired:issue_grant_and_claim,released:worker_delay,acquired:claim_resumed}'::text[],
    'a resumed claim is an event');
select throws_ok(
    format('execute resume(%L)', :'execution'), 'ZC003', 'execution_not_leaseable',
    'a grant cannot be consumed twice');
select throws_ok(
    format('select flowfabric.ff_renew_lease(%L, ff_tap.lease_id(), 1, ff_tap.attempt_id())', :'execution'),
    'ZS001', 'stale_lease', 'the old holder is fenced off');

-- Timeouts and deadlines
select ff_tap.freeze_time(1000);
\set saved_none '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.resumable_execution(
    :'saved_none', '{"timeout_policy": {"attempt_timeout_ms": 7000}}'::jsonb, p_attempt_timeout_ms => 0);
select flowfabric.ff_claim_resumed_execution(
    :'saved_none', 'pool', 'pool-1', p_execution_deadline_at_ms => 99000);
select is(
    (select row(e.attempt_timeout_at_ms, e.deadline_at_ms) from ff_tap.core(:'saved_none') as e),
    row(8000::bigint, 99000::bigint), 'if nothing was saved the policy arms the timeout; a deadline can be given');
\set saved '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.resumable_execution(
    :'saved', '{"timeout_policy": {"attempt_timeout_ms": 7000}}'::jsonb, p_attempt_timeout_ms => 3000);
savepoint saved;
select flowfabric.ff_claim_resumed_execution(:'saved', 'pool', 'pool-1');
select is(
    (ff_tap.core(:'saved')).attempt_timeout_at_ms, 4000::bigint, 'the saved rest comes before the policy');
rollback to savepoint saved;
select flowfabric.ff_claim_resumed_execution(:'saved', 'pool', 'pool-1', p_remaining_attempt_timeout_ms => 50);
select is((ff_tap.core(:'saved')).attempt_timeout_at_ms, 1050::bigint, 'the argument comes before both');
rollback to savepoint saved;
select flowfabric.ff_claim_resumed_execution(
    :'saved', 'pool', 'pool-1', p_remaining_attempt_timeout_ms => 0, p_execution_deadline_at_ms => 0);
select is(
    (select row(e.attempt_timeout_at_ms, e.deadline_at_ms) from ff_tap.core(:'saved') as e),
    row(null::bigint, null::bigint), 'a timeout of 0 is none; a deadline of 0 leaves the deadline as it is');
rollback to savepoint saved;

-- The grant
prepare resume_with (text, text) as select c.outcome, c.lease_ttl_ms from flowfabric.ff_claim_resumed_execution(
    :'saved', $1, 'pool-9', p_grant_key => $2) as c;
select throws_ok(
    $$execute resume_with('thief', null)$$, 'ZC005', 'invalid_claim_grant', 'a grant is bound to its worker');
select is(
    ff_tap.error_of($$execute resume_with('thief', null)$$),
    jsonb_build_object(
        'code', 'invalid_claim_grant', 'fn', 'ff_claim_resumed_execution', 'execution_id', :'saved',
        'reason', 'other_worker'),
    'the refusal says what is wrong with the grant');
select is(
    ff_tap.error_of($$execute resume_with('pool', 'x')$$) ->> 'reason', 'other_key',
    'a key that is given must be the one of the grant');
update flowfabric.ff_claim_grant set kind = 'reclaim';
select is(
    ff_tap.error_of($$execute resume_with('pool', null)$$) ->> 'reason', 'other_kind',
    'a reclaim grant is no claim grant');
update flowfabric.ff_claim_grant set kind = 'claim';
select ff_tap.freeze_time(1501);
select throws_ok(
    $$execute resume_with('pool', null)$$, 'ZC006', 'claim_grant_expired', 'an expired grant is refused');
select is(
    ff_tap.error_of($$execute resume_with('pool', null)$$) - array['code', 'fn', 'execution_id'],
    '{"grant_expires_at_ms": 1500, "now_ms": 1501}', 'the refusal shows both times');
select ff_tap.freeze_time(1500);
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_claim_resumed_execution(%L, 'pool', 'pool-1', p_lane_id => 'elsewhere')$$, :'saved'))
        - array['code', 'fn'],
    '{"field": "lane_id", "reason": "other_lane", "value": "elsewhere"}', 'a lane that is given must be the right one');
select ok(ff_tap.has_grant(:'saved'), 'refused claims leave the grant');
select flowfabric.ff_block_execution_for_admission(:'saved', 'waiting_for_budget');
select throws_ok(
    $$execute resume_with('pool', null)$$, 'ZC003', 'execution_not_leaseable',
    'an execution that was blocked since the grant is refused');
select is(
    ff_tap.error_of($$execute resume_with('pool', null)$$) - array['code', 'fn', 'execution_id'],
    '{"lifecycle_phase": "runnable", "eligibility_state": "blocked_by_budget", "terminal_outcome": "none"}',
    'the refusal shows the state');
select flowfabric.ff_unblock_execution(:'saved');
select results_eq(
    $$execute resume_with('pool', '')$$, $$values ('claimed'::text, 30000::bigint)$$,
    'any process of the pool may consume a grant, also in its last millisecond, for a lease of 30 seconds');
\set ungranted '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.resumable_execution(:'ungranted');
delete from flowfabric.ff_claim_grant;
select is(
    ff_tap.error_of(format('execute resume(%L)', :'ungranted')) ->> 'reason', 'missing',
    'without a grant there is no claim');

-- State
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.leased_execution(:'delayed');
select flowfabric.ff_delay_execution(:'delayed', 1500, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select throws_ok(
    format('execute resume(%L)', :'delayed'), 'ZC003', 'execution_not_leaseable',
    'a delay that is due but not yet promoted is still a delay');
\set fresh '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.execution(:'fresh');
select throws_ok(
    format('execute resume(%L)', :'fresh'), 'ZC002', 'not_a_resumed_execution',
    'an execution without a paused attempt is refused');
select is(
    ff_tap.error_of(format('execute resume(%L)', :'fresh')),
    jsonb_build_object(
        'code', 'not_a_resumed_execution', 'fn', 'ff_claim_resumed_execution', 'execution_id', :'fresh',
        'attempt_state', 'pending_first_attempt'),
    'the refusal shows the state of the attempt');
select flowfabric.ff_cancel_execution(:'fresh', 'stop', 'operator_override');
select throws_ok(
    format('execute resume(%L)', :'fresh'), 'ZC003', 'execution_not_leaseable', 'an ended execution is refused');

-- Arguments
prepare call (text, text, text, bigint, text, bigint, bigint) as select flowfabric.ff_claim_resumed_execution(
    $1, $2, $3, $4, $5, p_remaining_attempt_timeout_ms => $6, p_execution_deadline_at_ms => $7);
select throws_ok(
    $$execute call(null, 'pool', 'pool-1', 600, null, null, null)$$, 'ZV001', 'invalid_input',
    'an execution id is required');
select is(
    (select array_agg(
        ff_tap.error_of(format(
            'execute call(''{fp:86}:00000000-0000-4000-8000-00000000ffff'', %L, %L, %L, %L, %L, %L)', b.worker,
            b.instance, b.ttl, b.lane, b.timeout, b.deadline)) ->> 'field' order by b.number)
     from (values
        (1, null, 'pool-1', 600::bigint, null, null::bigint, null::bigint),
        (2, 'pool', '', 600, null, null, null),
        (3, 'pool', 'pool-1', null, null, null, null),
        (4, 'pool', 'pool-1', 0, null, null, null),
        (5, 'pool', 'pool-1', 86400001, null, null, null),
        (6, 'pool', 'pool-1', 600, 'ü', null, null),
        (7, 'pool', 'pool-1', 600, null, -1, null),
        (8, 'pool', 'pool-1', 600, null, 31536000000001, null),
        (9, 'pool', 'pool-1', 600, null, null, -1),
        (10, 'pool', 'pool-1', 600, null, null, 253402300800000)
    ) as b (number, worker, instance, ttl, lane, timeout, deadline)),
    '{worker_id,worker_instance_id,lease_ttl_ms,lease_ttl_ms,lease_ttl_ms,lane_id,remaining_attempt_timeout_ms,
      remaining_attempt_timeout_ms,execution_deadline_at_ms,execution_deadline_at_ms}'::text[],
    'each malformed argument is named');
select throws_ok(
    $$execute call('{fp:86}:00000000-0000-4000-8000-00000000ffff', 'pool', 'pool-1', 600, '', null, null)$$,
    'ZN001', 'execution_not_found', 'an unknown execution is refused');

-- What the state model rules out, and the claim refuses all the same
\set broken '{fp:86}:00000000-0000-4000-8000-000000000007'
select ff_tap.resumable_execution(:'broken');
alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal;
update flowfabric.ff_exec_core as e set ownership_state = 'lease_revoked'
where e.execution_id = (flowfabric.ff_parse_execution_id(:'broken')).execution_id;
select throws_ok(
    format('execute resume(%L)', :'broken'), 'ZC004', 'lease_conflict', 'an owned execution is never claimed');

select * from finish();
rollback;
