-- Reclaiming: a lost lease is taken over by a new attempt, until the execution has been reclaimed too often.
begin;
\ir ../helpers.sql
select plan(56);

create function ff_tap.has_grant(p_execution_id text)
returns boolean
language sql stable
as $$
    select exists (
        select from flowfabric.ff_claim_grant as g, flowfabric.ff_parse_execution_id(p_execution_id) as k
        where g.partition_key = k.partition_key and g.execution_id = k.execution_id)
$$;

\set new_lease '''00000000-0000-4000-8000-0000000000ff'''
\set new_attempt '''00000000-0000-4000-8000-0000000000fa'''
prepare grant_to (text, text) as select flowfabric.ff_issue_reclaim_grant($1, $2, 'pool-1', p_grant_ttl_ms => 500);
prepare reclaim (text) as select r.* from flowfabric.ff_reclaim_execution(
    $1, 'pool', 'pool-2', 600, 'default', :new_lease, :new_attempt) as r;

-- From an expired lease to the end, step by step
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(
    :'execution', '{"timeout_policy": {"attempt_timeout_ms": 7000}}'::jsonb, p_lease_expires_at_ms => 1500,
    p_attempt_timeout_ms => 5000, p_deadline_at_ms => 9000000);
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
select k.partition_key, k.execution_id, 0, 1000 from flowfabric.ff_parse_execution_id(:'execution') as k;
select ff_tap.freeze_time(1499);
select throws_ok(
    format('execute reclaim(%L)', :'execution'), 'ZC014', 'execution_not_reclaimable',
    'a live lease is not reclaimable');
select is(
    ff_tap.error_of(format('execute reclaim(%L)', :'execution')),
    jsonb_build_object(
        'code', 'execution_not_reclaimable', 'fn', 'ff_reclaim_execution', 'execution_id', :'execution',
        'lifecycle_phase', 'active', 'ownership_state', 'leased', 'lease_expires_at_ms', 1500),
    'the refusal shows the state and the expiry');
select ff_tap.freeze_time(1500);
select throws_ok(
    format('select flowfabric.ff_complete_execution(%L, ff_tap.lease_id(), 1, ff_tap.attempt_id())', :'execution'),
    'ZS002', 'lease_expired', 'from its expiry on the old holder is refused, before anybody has noticed');
select throws_ok(
    format($$select flowfabric.ff_issue_claim_grant(%L, 'pool', 'pool-1', 'default')$$, :'execution'),
    'ZC012', 'execution_not_eligible', 'a reclaim is not a fresh claim: no claim grant is issued');
execute grant_to(:'execution', 'pool');
select ff_tap.freeze_time(1600);
select results_eq(
    format('execute reclaim(%L)', :'execution'),
    format(
        $$values ('reclaimed', %L, %L::uuid, 2::bigint, 2200::bigint, 2000::bigint, %L::uuid, 1,
            'reclaim'::flowfabric.ff_attempt_type, 'default', 'pool-2', 600::bigint, 'reclaimed', 1, 5)$$,
        :'execution', :new_lease, :new_attempt),
    'a reclaim answers with the handle of a new attempt, under the ids that were given and the next epoch');
select is(
    ff_tap.vector(:'execution'), 'active / leased / not_applicable / none / none / running_attempt -> active',
    'a reclaimed execution is active and leased again');
select is(
    (select jsonb_build_array(
        e.current_lease_id, e.current_attempt_id, e.current_worker_id, e.current_worker_instance_id,
        e.current_lease_epoch, e.total_attempt_count, e.lease_reclaim_count, e.retry_count, e.blocking_detail)
     from ff_tap.core(:'execution') as e),
    jsonb_build_array(:new_lease, :new_attempt, 'pool', 'pool-2', 2, 2, 1, 0, null),
    'the new holder, epoch and counters are on the execution');
select is(
    (select jsonb_build_array(
        e.lease_acquired_at_ms, e.lease_last_renewed_at_ms, e.lease_expires_at_ms, e.lease_expired_at_ms,
        e.attempt_timeout_at_ms, e.deadline_at_ms, e.started_at_ms, e.last_transition_at_ms, e.last_mutation_at_ms)
     from ff_tap.core(:'execution') as e),
    '[1600, 1600, 2200, null, 8600, 9000000, 1000, 1600, 1600]'::jsonb,
    'the attempt timeout is armed anew; start and deadline stay');
select is(
    (select jsonb_build_array(a.attempt_state, a.ended_at_ms, a.failure_reason, a.failure_category, a.lease_epoch)
     from ff_tap.attempt(:'execution', 0) as a),
    '["interrupted_reclaimed", 1600, "lease_expired", null, 1]'::jsonb, 'the old attempt has ended');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.attempt(:'execution', 1))),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'attempt_index', 1,
        'attempt_type', 'reclaim', 'attempt_state', 'started', 'attempt_id', :new_attempt, 'lease_id', :new_lease,
        'lease_epoch', 2, 'worker_id', 'pool', 'worker_instance_id', 'pool-2', 'created_at_ms', 1600,
        'started_at_ms', 1600, 'last_usage_report_seq', 0, 'reclaim_reason', 'lease_expired',
        'previous_attempt_index', 0),
    'the new attempt knows why it exists and what it follows');
select ok(not ff_tap.has_grant(:'execution'), 'a reclaim consumes its grant');
select results_eq(
    'select m.closed_at_ms, m.closed_reason from flowfabric.ff_stream_meta as m',
    $$values (1600::bigint, 'reclaimed'::text)$$, 'the stream of the old attempt says that it was reclaimed');
select is(
    ff_tap.lease_events(:'execution'),
    '{acquired:issue_grant_and_claim,expired,reclaimed:lease_expired}'::text[], 'the takeover is an event');
select is(
    (select jsonb_build_array(
        v.lease_id, v.lease_epoch, v.old_lease_epoch, v.attempt_index, v.attempt_id, v.worker_id,
        v.worker_instance_id, v.occurred_at_ms)
     from flowfabric.ff_lease_event as v where v.event_type = 'reclaimed'),
    jsonb_build_array(:new_lease, 2, 1, 1, :new_attempt, 'pool', 'pool-2', 1600),
    'the event carries the new holder and the old epoch');
select throws_ok(
    format('execute reclaim(%L)', :'execution'), 'ZC014', 'execution_not_reclaimable',
    'a second call is refused, and the new holder is safe');
select is(
    (select array_agg(ff_tap.sqlstate_of(format(
        'select flowfabric.%s', format(c.call, :'execution', ff_tap.lease_id(), ff_tap.attempt_id()))))
     from (values
        ('ff_renew_lease(%L, %L, 1, %L)'),
        ('ff_complete_execution(%L, %L, 1, %L)'),
        ('ff_fail_execution(%L, %L, 1, %L)'),
        ('ff_delay_execution(%1$L, 5000, %2$L, 1, %3$L)'),
        ('ff_cancel_execution(%1$L, ''stop'', ''lease_holder'', %2$L, 1, %3$L)'),
        ('ff_update_progress(%L, %L, 1, %L, 50)')) as c (call)),
    array_fill('ZS001'::text, array[6]), 'the old holder is fenced off everywhere');
select lives_ok(
    format('select flowfabric.ff_complete_execution(%L, %L, 2, %L)', :'execution', :new_lease, :new_attempt),
    'the new holder finishes the work');
select throws_ok(
    format('execute reclaim(%L)', :'execution'), 'ZC014', 'execution_not_reclaimable',
    'an ended execution is not reclaimable');

-- Again and again: epochs are never used twice
\set worn '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(:'worn', p_lease_expires_at_ms => 1001);
create function ff_tap.lose_and_reclaim(p_execution_id text, p_max_reclaim_count integer default null)
returns flowfabric.ff_reclaim
language plpgsql volatile
as $$
begin
    perform ff_tap.advance_time(60000); -- 30 s of lease, and more than the back-off of the fifth loss in a row.
    perform flowfabric.ff_issue_reclaim_grant(p_execution_id, 'pool', 'pool-1');
    return flowfabric.ff_reclaim_execution(
        p_execution_id, 'pool', 'pool-1', p_max_reclaim_count => p_max_reclaim_count);
end;
$$;
select results_eq(
    format(
        $$select r.lease_epoch, r.attempt_index, r.reclaim_count
          from generate_series(1, 3) as i, lateral ff_tap.lose_and_reclaim(%L, i + 4) as r$$, :'worn'),
    'values (2::bigint, 1, 1), (3::bigint, 2, 2), (4::bigint, 3, 3)',
    'each reclaim has the next epoch, the next attempt and the next count');

-- The cap
select results_eq(
    format('select r.outcome, r.reclaim_count, r.max_reclaim_count from ff_tap.lose_and_reclaim(%L, 4) as r', :'worn'),
    $$values ('reclaimed'::text, 4, 4)$$, 'the fourth reclaim is allowed when the cap is four');
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
select k.partition_key, k.execution_id, 4, 1000 from flowfabric.ff_parse_execution_id(:'worn') as k;
insert into flowfabric.ff_quota_admitted (
    quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
select 'quota', k.partition_key, k.execution_id, 1000, 2000, true
from flowfabric.ff_parse_execution_id(:'worn') as k;
update flowfabric.ff_exec_core as e set quota_policy_id = 'quota'
where e.execution_id = (flowfabric.ff_parse_execution_id(:'worn')).execution_id;
select ff_tap.advance_time(60000);
savepoint worn;
select results_eq(
    format(
        $$select r.* from flowfabric.ff_reclaim_execution(%L, 'anybody', 'anybody-1', p_max_reclaim_count => 4) as r$$,
        :'worn'),
    format(
        $$values ('reclaim_cap_exceeded', %L, null::uuid, null::bigint, null::bigint, null::bigint, null::uuid,
            null::integer, null::flowfabric.ff_attempt_type, 'default', null::text, null::bigint, null::text, 4, 4)$$,
        :'worn'),
    'the fifth ends the execution, without a grant and without a handle');
select is(
    ff_tap.vector(:'worn'), 'terminal / unowned / not_applicable / none / failed / attempt_terminal -> failed',
    'an execution that was reclaimed too often has failed');
select is(
    (select jsonb_build_array(
        e.terminal_at_ms, e.lease_reclaim_count, e.total_attempt_count, e.current_lease_epoch, e.current_lease_id,
        (ff_tap.note(:'worn')).failure_reason)
     from ff_tap.core(:'worn') as e),
    '[301000, 4, 5, 5, null,
      "max_reclaims_exceeded: 5 leases lost in a row without recorded progress, 4 takeovers allowed"]'::jsonb,
    'it says why, and counts no further reclaim');
select is(
    (select jsonb_build_array(a.attempt_state, a.failure_reason, a.ended_at_ms) from ff_tap.attempt(:'worn', 4) as a),
    '["interrupted_reclaimed",
      "max_reclaims_exceeded: 5 leases lost in a row without recorded progress, 4 takeovers allowed", 301000]'::jsonb,
    'its last attempt was interrupted');
select is(
    (ff_tap.lease_events(:'worn'))[cardinality(ff_tap.lease_events(:'worn')) - 1:],
    '{expired,revoked:reclaim_cap_exceeded}'::text[], 'the expiry is marked first, then the lease is revoked');
select is(ff_tap.completions(:'worn'), '{failed}'::text[], 'and the end is announced');
select results_eq(
    'select m.closed_reason from flowfabric.ff_stream_meta as m where m.attempt_index = 4',
    $$values ('reclaimed'::text)$$, 'its stream is closed');
select results_eq(
    'select q.slot_held from flowfabric.ff_quota_admitted as q', 'values (false)', 'its quota slot is given back');
select throws_ok(
    format('execute reclaim(%L)', :'worn'), 'ZC014', 'execution_not_reclaimable', 'there is nothing more to reclaim');
rollback to savepoint worn;
execute grant_to(:'worn', 'pool');
select flowfabric.ff_reclaim_execution(:'worn', 'pool', 'pool-1', p_max_reclaim_count => 4);
select ok(not ff_tap.has_grant(:'worn'), 'the end takes an outstanding grant with it');
rollback to savepoint worn;
execute grant_to(:'worn', 'pool');
select flowfabric.ff_reclaim_execution(:'worn', 'pool', 'pool-1', p_max_reclaim_count => 5);
select results_eq(
    'select q.slot_held from flowfabric.ff_quota_admitted as q', 'values (true)',
    'below the cap the quota slot is kept');

-- Whose cap
\set capped '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(
    :'capped', '{"max_reclaim_count": 1.9}'::jsonb,
    p_lease_expires_at_ms => 1001);
select results_eq(
    format('select r.outcome, r.max_reclaim_count from ff_tap.lose_and_reclaim(%L, 0) as r', :'capped'),
    $$values ('reclaimed'::text, 1)$$, 'the cap of the policy, a whole number, beats the argument');
select results_eq(
    format('select r.outcome, r.max_reclaim_count from ff_tap.lose_and_reclaim(%L, 50) as r', :'capped'),
    $$values ('reclaim_cap_exceeded'::text, 1)$$, 'also a higher one');
\set uncapped '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.leased_execution(
    :'uncapped', '{"max_reclaim_count": 9007199254740991}'::jsonb,
    p_lease_expires_at_ms => flowfabric.ff_now_ms() + 1);
select results_eq(
    format('select r.outcome, r.max_reclaim_count from ff_tap.lose_and_reclaim(%L) as r', :'uncapped'),
    $$values ('reclaimed'::text, 2147483647)$$, 'a cap that no counter can reach is none');
\set never '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.leased_execution(:'never', p_lease_expires_at_ms => flowfabric.ff_now_ms() + 1);
select ff_tap.advance_time(1);
select results_eq(
    format(
        $$select r.outcome from flowfabric.ff_reclaim_execution(%L, 'pool', 'pool-1', p_max_reclaim_count => 0) as r$$,
        :'never'),
    $$values ('reclaim_cap_exceeded'::text)$$, 'a cap of 0 allows no reclaim at all');

-- Revoked, and what can be given
\set revoked '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(:'revoked');
select flowfabric.ff_revoke_lease(:'revoked', p_reason => 'maintenance');
execute grant_to(:'revoked', 'pool');
select results_eq(
    format(
        $$select r.outcome, r.lease_epoch, r.lease_ttl_ms from flowfabric.ff_reclaim_execution(
            %L, 'pool', 'pool-1', p_attempt_policy => '{"model": "small"}', p_attempt_timeout_ms => 70) as r$$,
        :'revoked'),
    $$values ('reclaimed'::text, 2::bigint, 30000::bigint)$$,
    'a revoked lease is taken over before its expiry, for 30 seconds unless told otherwise');
select is(
    (select jsonb_build_array(
        a.reclaim_reason, a.policy, (ff_tap.attempt(:'revoked')).failure_reason, e.attempt_timeout_at_ms,
        e.lease_revoked_at_ms, (ff_tap.note(:'revoked')).lease_revoke_reason)
     from ff_tap.attempt(:'revoked', 1) as a, ff_tap.core(:'revoked') as e),
    '["lease_revoked", {"model": "small"}, "lease_revoked", 1070, null, null]'::jsonb,
    'both attempts name the revocation; the execution forgets it');
select is(
    ff_tap.lease_events(:'revoked'),
    '{acquired:issue_grant_and_claim,revoked:maintenance,reclaimed:lease_revoked}'::text[],
    'a revoked lease does not expire as well');
create temporary table minted as
select r.lease_id, r.attempt_id from ff_tap.lose_and_reclaim(:'revoked') as r;
select is(
    (select jsonb_build_array(m.lease_id, m.attempt_id) from minted as m),
    (select jsonb_build_array(e.current_lease_id, e.current_attempt_id) from ff_tap.core(:'revoked') as e),
    'ids that are not given are minted');
select ff_tap.advance_time(60000);
execute grant_to(:'revoked', 'pool');
select flowfabric.ff_reclaim_execution(:'revoked', 'pool', 'pool-1', p_attempt_timeout_ms => 0);
select is((ff_tap.core(:'revoked')).attempt_timeout_at_ms, null, 'a timeout of 0 is none');

-- The grant
\set granted '{fp:86}:00000000-0000-4000-8000-000000000007'
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(:'granted', p_lease_expires_at_ms => 1001);
select ff_tap.freeze_time(1001);
prepare reclaim_with (text, text) as select r.outcome from flowfabric.ff_reclaim_execution(
    :'granted', $1, 'pool-1', p_grant_key => $2) as r;
select throws_ok(
    $$execute reclaim_with('pool', null)$$, 'ZC005', 'invalid_claim_grant', 'without a grant there is no reclaim');
select is(
    ff_tap.error_of($$execute reclaim_with('pool', null)$$),
    jsonb_build_object(
        'code', 'invalid_claim_grant', 'fn', 'ff_reclaim_execution', 'execution_id', :'granted', 'reason', 'missing'),
    'the refusal says what is wrong with the grant');
select is((ff_tap.core(:'granted')).ownership_state, 'leased', 'a refused reclaim does not mark the expiry');
create temporary table issued as
select g.* from flowfabric.ff_issue_reclaim_grant(:'granted', 'pool', 'pool-1', p_grant_ttl_ms => 500) as g;
select is(
    ff_tap.error_of($$execute reclaim_with('thief', null)$$) ->> 'reason', 'other_worker',
    'a grant is bound to its worker');
select is(
    ff_tap.error_of($$execute reclaim_with('pool', 'x')$$) ->> 'reason', 'other_key',
    'a key that is given must be the one of the grant');
update flowfabric.ff_claim_grant set kind = 'claim';
select is(
    ff_tap.error_of($$execute reclaim_with('pool', null)$$) ->> 'reason', 'other_kind',
    'a claim grant is no reclaim grant');
update flowfabric.ff_claim_grant set kind = 'reclaim';
select ff_tap.freeze_time(1502);
select throws_ok(
    $$execute reclaim_with('pool', null)$$, 'ZC006', 'claim_grant_expired', 'an expired grant is refused');
select is(
    ff_tap.error_of($$execute reclaim_with('pool', null)$$) - array['code', 'fn', 'execution_id'],
    '{"grant_expires_at_ms": 1501, "now_ms": 1502}', 'the refusal shows both times');
select ok(ff_tap.has_grant(:'granted'), 'refused reclaims leave the grant');
select ff_tap.freeze_time(1501);
select results_eq(
    format('execute reclaim_with(''pool'', %L)', (select i.grant_key from issued as i)),
    $$values ('reclaimed'::text)$$, 'a grant is good in its last millisecond');

-- Arguments
prepare call (text, text, text, bigint, text, bigint, integer, jsonb) as select flowfabric.ff_reclaim_execution(
    $1, $2, $3, $4, $5, p_attempt_timeout_ms => $6, p_max_reclaim_count => $7, p_attempt_policy => $8);
select throws_ok(
    $$execute call('{fp:99999}:00000000-0000-4000-8000-000000000001', 'pool', 'pool-1', 600, null, null, null, null)$$,
    'ZV001', 'invalid_input', 'a malformed execution id is refused');
select is(
    (select array_agg(
        ff_tap.error_of(format(
            'execute call(''{fp:86}:00000000-0000-4000-8000-00000000ffff'', %L, %L, %L, %L, %L, %L, ''[]'')', b.worker,
            b.instance, b.ttl, b.lane, b.timeout, b.cap)) ->> 'field' order by b.number)
     from (values
        (1, '', 'pool-1', 600::bigint, null, null::bigint, null::integer),
        (2, 'pool', null, 600, null, null, null),
        (3, 'pool', 'pool-1', null, null, null, null),
        (4, 'pool', 'pool-1', 0, null, null, null),
        (5, 'pool', 'pool-1', 86400001, null, null, null),
        (6, 'pool', 'pool-1', 600, 'ü', null, null),
        (7, 'pool', 'pool-1', 600, null, -1, null),
        (8, 'pool', 'pool-1', 600, null, 31536000000001, null),
        (9, 'pool', 'pool-1', 600, null, null, -1)
    ) as b (number, worker, instance, ttl, lane, timeout, cap)),
    '{worker_id,worker_instance_id,lease_ttl_ms,lease_ttl_ms,lease_ttl_ms,lane_id,attempt_timeout_ms,
      attempt_timeout_ms,max_reclaim_count}'::text[],
    'each malformed argument is named');
select throws_ok(
    $$execute call('{fp:86}:00000000-0000-4000-8000-00000000ffff', 'pool', 'pool-1', 600, null, null, null, '[]')$$,
    'ZV004', 'invalid_policy_json', 'an attempt policy is an object');
select throws_ok(
    $$execute call('{fp:86}:00000000-0000-4000-8000-00000000ffff', 'pool', 'pool-1', 600, '', null, null, '{}')$$,
    'ZN001', 'execution_not_found', 'an unknown execution is refused');
\set runnable '{fp:86}:00000000-0000-4000-8000-000000000008'
select ff_tap.execution(:'runnable');
select is(
    ff_tap.error_of(format('execute call(%L, ''pool'', ''pool-1'', 600, ''other'', null, null, null)', :'runnable'))
        - array['code', 'fn'],
    '{"field": "lane_id", "reason": "other_lane", "value": "other"}', 'a wrong lane is seen before the state');
select is(
    ff_tap.error_of(format('execute call(%L, ''pool'', ''pool-1'', 600, ''default'', null, 0, null)', :'runnable'))
        - array['fn', 'execution_id'],
    '{"code": "execution_not_reclaimable", "lifecycle_phase": "runnable", "ownership_state": "unowned"}',
    'a runnable execution is not reclaimable, not even at its cap');

select * from finish();
rollback;
