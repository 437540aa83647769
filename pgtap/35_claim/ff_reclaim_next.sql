-- Reclaiming the next: lost leases are taken over without a grant, by whoever can do the work.
begin;
\ir ../helpers.sql
select plan(58);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.leased(
    p_number integer,
    p_lane_id text default 'default',
    p_priority integer default 0,
    p_policy jsonb default null,
    p_lease_ttl_ms bigint default 1000,
    p_namespace text default 'default'
)
returns uuid
language plpgsql volatile
as $$
begin
    perform ff_tap.execution(
        ff_tap.id(p_number), p_policy, p_lane_id, p_namespace, p_priority, p_payload => 'input');
    return (flowfabric.ff_issue_grant_and_claim(
        ff_tap.id(p_number), p_lease_ttl_ms => p_lease_ttl_ms, p_worker_id => 'lost',
        p_worker_instance_id => 'lost-1')).attempt_id;
end;
$$;

create function ff_tap.reclaimed(
    p_max integer default 1,
    p_lanes text[] default '{default}',
    p_capabilities text[] default '{}',
    p_lane_order text default 'fair',
    p_grace_ms bigint default 0,
    p_namespace text default null,
    p_max_reclaim_count integer default null,
    p_partition_key integer default null
)
returns text[]
language sql volatile
as $$
    select coalesce(
        array_agg(concat_ws(' ', right(r.execution_id, 12)::integer, nullif(r.outcome, 'reclaimed'))), '{}')
    from flowfabric.ff_reclaim_next(
        p_lanes, 'pool', 'pool-1', p_capabilities, p_max, p_lane_order => p_lane_order, p_grace_ms => p_grace_ms,
        p_namespace => p_namespace, p_max_reclaim_count => p_max_reclaim_count,
        p_partition_key => p_partition_key::smallint) as r
$$;

create function ff_tap.refusal(p_arguments text)
returns text
language sql volatile
as $$
    select concat_ws(' ', e ->> 'code', coalesce(e ->> 'field', e ->> 'side'), e ->> 'reason')
    from ff_tap.error_of('select flowfabric.ff_reclaim_next(' || p_arguments || ')') as e
$$;

-- An expired lease that nobody has marked
select ff_tap.freeze_time(1000);
select ff_tap.leased(1, p_policy => '{"timeout_policy": {"attempt_timeout_ms": 700}}') as attempt_id \gset
select ff_tap.freeze_time(1999);
select is(ff_tap.reclaimed(), '{}', 'a live lease is never taken');
select ff_tap.freeze_time(2000);
savepoint expired;
select row_to_json(r) as claim, r.lease_id as lease_id, r.attempt_id as new_attempt_id
from flowfabric.ff_reclaim_next('{default}', 'pool', 'pool-1', p_lease_ttl_ms => 3000) as r \gset
select is(
    :'claim'::jsonb - array['lease_id', 'attempt_id', 'policy'],
    jsonb_build_object(
        'outcome', 'reclaimed', 'execution_id', ff_tap.id(1), 'lane_id', 'default', 'namespace', 'default',
        'execution_kind', 'test', 'priority', 0, 'lease_epoch', 2, 'lease_expires_at_ms', 5000,
        'lease_renewal_deadline_ms', 4000, 'attempt_index', 1, 'attempt_type', 'reclaim', 'handle_kind', 'reclaimed',
        'worker_instance_id', 'pool-1', 'lease_ttl_ms', 3000, 'payload', '\x696e707574', 'payload_encoding', null,
        'tags', '{}'::jsonb, 'flow_id', null, 'required_capabilities', '[]'::jsonb, 'created_at_ms', 1000,
        'started_at_ms', 1000, 'deadline_at_ms', null, 'attempt_timeout_at_ms', 2700, 'total_attempt_count', 2,
        'reclaim_count', 1, 'max_reclaim_count', 5),
    'one that has run out is taken over at that instant, with everything needed to go on');
select is(
    ff_tap.vector(ff_tap.id(1)), 'active / leased / not_applicable / none / none / running_attempt -> active',
    'it is leased again');
select is(
    (select jsonb_build_array(a.attempt_state, a.failure_reason, a.ended_at_ms, a.attempt_id)
     from ff_tap.attempt(ff_tap.id(1)) as a),
    jsonb_build_array('interrupted_reclaimed', 'lease_expired', 2000, :'attempt_id'), 'the old attempt has ended');
select is(
    (select jsonb_build_array(a.attempt_state, a.attempt_type, a.reclaim_reason, a.previous_attempt_index, a.attempt_id)
     from ff_tap.attempt(ff_tap.id(1), 1) as a),
    jsonb_build_array('started', 'reclaim', 'lease_expired', 0, :'new_attempt_id'), 'a new one has begun');
select is(
    ff_tap.lease_events(ff_tap.id(1)),
    '{acquired:issue_grant_and_claim,expired,reclaimed:lease_expired}', 'expiry and reclaim are told');
select is(ff_tap.reclaimed(), '{}', 'what was taken over is taken over by nobody else');
rollback to expired;
select results_eq(
    $$ select r.payload, r.policy is not null from flowfabric.ff_reclaim_next(
        '{default}', 'pool', 'pool-1', p_with_payload => false) as r $$,
    $$ values (null::bytea, true) $$, 'without payload only the payload is missing');
rollback to expired;

-- Marked and revoked
select flowfabric.ff_scan_expired_leases();
select is(ff_tap.reclaimed(), '{1}', 'a marked lease is taken over');
select is(
    ff_tap.lease_events(ff_tap.id(1)),
    '{acquired:issue_grant_and_claim,expired,reclaimed:lease_expired}', 'its expiry is not told twice');
rollback to expired;
select ff_tap.leased(2, p_lease_ttl_ms => 90000);
select flowfabric.ff_revoke_lease(ff_tap.id(2), p_reason => 'stuck');
select is(ff_tap.reclaimed(p_max => 9), '{1,2}', 'a revoked lease is taken over before it would expire');
select is(
    (select jsonb_build_array(a.reclaim_reason, n.lease_revoke_reason)
     from ff_tap.attempt(ff_tap.id(2), 1) as a, ff_tap.note(ff_tap.id(2)) as n), '["lease_revoked", null]',
    'and its revocation is over');
rollback to expired;

-- Grace
select ff_tap.freeze_time(2099);
savepoint grace;
select is(ff_tap.reclaimed(p_grace_ms => 100), '{}', 'grace is time beyond the expiry');
select ff_tap.freeze_time(2100);
select is(ff_tap.reclaimed(p_grace_ms => 100), '{1}', 'and over at its instant');
rollback to grace;
select flowfabric.ff_scan_expired_leases();
select is(ff_tap.reclaimed(p_grace_ms => 100), '{}', 'a scanner that marks the lease does not shorten it');
select ff_tap.freeze_time(2100);
select is(ff_tap.reclaimed(p_grace_ms => 100), '{1}', 'nor lengthen it');
rollback to grace;
select flowfabric.ff_revoke_lease(ff_tap.id(1), p_reason => 'x');
select ff_tap.leased(3, p_lease_ttl_ms => 90000);
select flowfabric.ff_revoke_lease(ff_tap.id(3));
select is(ff_tap.reclaimed(p_max => 9, p_grace_ms => 100) @> '{3}', true, 'a revoked lease has no grace');
rollback to expired;
select is(
    ff_tap.reclaimed(p_grace_ms => 31536000000000), '{}', 'the longest grace is no error');

-- Order
select ff_tap.freeze_time(1000);
select ff_tap.leased(11, p_priority => 5, p_lease_ttl_ms => 700), ff_tap.leased(12, p_lease_ttl_ms => 500);
select ff_tap.leased(13, p_lease_ttl_ms => 400), ff_tap.leased(14, p_priority => 5, p_lease_ttl_ms => 700);
select ff_tap.leased(21, 'a', p_lease_ttl_ms => 300), ff_tap.leased(22, 'a', p_lease_ttl_ms => 350);
select ff_tap.leased(31, 'b', p_priority => 9), ff_tap.leased(32, 'b');
select ff_tap.freeze_time(2000);
savepoint lost;
select is(ff_tap.reclaimed(p_max => 9), '{11,14,13,12,1}', 'by priority, then longest expired, then id');
rollback to lost;
select is(ff_tap.reclaimed(p_max => 2), '{11,14}', 'as many as asked for');
select is(ff_tap.reclaimed(p_max => 2), '{13,12}', 'and the next with the next call');
rollback to lost;
select is(
    ff_tap.reclaimed(p_max => 4, p_lanes => '{a,b}', p_lane_order => 'strict'), '{21,22,31,32}',
    'strict: lane after lane');
rollback to lost;
select is(
    ff_tap.reclaimed(p_max => 4, p_lanes => '{a,b}', p_lane_order => 'global'), '{31,21,22,32}', 'global: as one lane');
rollback to lost;
select is(
    (select array_agg(x order by x) from unnest(ff_tap.reclaimed(p_max => 2, p_lanes => '{a,b}')) as x), '{21,31}',
    'fair: each in turn');
rollback to lost;

-- Who may
select ff_tap.freeze_time(1000);
select ff_tap.leased(41, 'gpu', p_policy => '{"routing_requirements": {"required_capabilities": ["gpu"]}}');
select ff_tap.leased(42, 'gpu'), ff_tap.leased(43, 'gpu', p_namespace => 'tenant');
select ff_tap.freeze_time(2000);
savepoint required;
select is(ff_tap.reclaimed(p_max => 9, p_lanes => '{gpu}'), '{42,43}', 'what the worker cannot do is left to others');
select is(
    (select row(e.ownership_state::text, e.lease_expired_at_ms) from ff_tap.core(ff_tap.id(41)) as e),
    row('leased'::text, null::bigint), 'as it was');
rollback to required;
select is(ff_tap.reclaimed(p_max => 9, p_lanes => '{gpu}', p_capabilities => '{gpu}'), '{41,42,43}', 'who can may');
rollback to required;
select is(
    ff_tap.reclaimed(p_max => 9, p_lanes => '{gpu}', p_namespace => 'tenant'), '{43}',
    'a namespace sees its own executions only');
rollback to required;
select is(ff_tap.reclaimed(p_lanes => '{gpu}', p_partition_key => 1), '{}', 'so does a partition');
select flowfabric.ff_set_lane_state('gpu', 'disabled');
select is(ff_tap.reclaimed(p_lanes => '{gpu}'), '{42}', 'the state of the lane is not looked at: the work has begun');
rollback to required;
select flowfabric.ff_register_worker('pool', 'pool-1', p_namespace => 'tenant');
select flowfabric.ff_drain_worker('pool-1', p_namespace => 'tenant');
select is(ff_tap.reclaimed(p_lanes => '{gpu}', p_namespace => 'tenant'), '{}', 'a draining worker takes nothing over');
rollback to required;
select flowfabric.ff_issue_reclaim_grant(ff_tap.id(42), 'other', 'other-1', p_grant_ttl_ms => 500);
select is(
    ff_tap.reclaimed(p_max => 9, p_lanes => '{gpu}'), '{43}', 'what another worker has a grant for is left to it');
select ff_tap.freeze_time(2501);
select is(ff_tap.reclaimed(p_max => 9, p_lanes => '{gpu}'), '{42}', 'until the grant has lapsed');
select is_empty('select from flowfabric.ff_claim_grant', 'which is then deleted');
rollback to required;
select is(ff_tap.reclaimed(p_lanes => '{nobody}'), '{}', 'an unknown lane has nothing');

-- The cap
select ff_tap.freeze_time(1000);
select ff_tap.leased(51, 'cap', p_priority => 9), ff_tap.leased(52, 'cap'), ff_tap.leased(53, 'cap');
select ff_tap.leased(54, 'cap', p_policy => '{"max_reclaim_count": 0}');
update flowfabric.ff_exec_core as e set lease_reclaim_count = 2 where e.lane_id = 'cap' and e.priority = 9;
select ff_tap.freeze_time(2000);
savepoint capped;
select is(
    ff_tap.reclaimed(p_lanes => '{cap}', p_max_reclaim_count => 2), '{"51 reclaim_cap_exceeded",52}',
    'one at its cap is ended and reported, and does not count');
select is(
    ff_tap.vector(ff_tap.id(51)),
    'terminal / unowned / not_applicable / none / failed / attempt_terminal -> failed', 'it has failed');
select is(
    (select n.failure_reason from ff_tap.note(ff_tap.id(51)) as n),
    'max_reclaims_exceeded: 3 leases lost in a row without recorded progress, 2 takeovers allowed',
    'because of its cap');
select is(
    (ff_tap.lease_events(ff_tap.id(51)))[2:] || ff_tap.completions(ff_tap.id(51)),
    '{expired,revoked:reclaim_cap_exceeded,failed}', 'and its end is told');
rollback to capped;
select is(
    (select jsonb_build_array(
        r.lease_id, r.attempt_index, r.attempt_type, r.handle_kind, r.reclaim_count, r.max_reclaim_count, r.payload)
     from flowfabric.ff_reclaim_next('{cap}', 'pool', 'pool-1', p_max_reclaim_count => 2) as r
     where r.outcome = 'reclaim_cap_exceeded'), '[null, null, null, null, 2, 2, "\\x696e707574"]',
    'the report has the count and no lease');
rollback to capped;
select is(
    ff_tap.reclaimed(p_max => 9, p_lanes => '{cap}', p_max_reclaim_count => 3), '{52,53,"54 reclaim_cap_exceeded"}',
    'the cap of the policy beats the argument; below it a third loss in a row backs off');
select ff_tap.freeze_time(6000);
select is(
    ff_tap.reclaimed(p_max => 9, p_lanes => '{cap}'), '{51}', 'until it is over');
rollback to capped;
select ff_tap.freeze_time(1000);
select ff_tap.leased(2000 + n, 'worn', p_policy => '{"max_reclaim_count": 0}') from generate_series(1, 105) as n;
select ff_tap.leased(2200, 'worn');
select ff_tap.freeze_time(2000);
select is(
    cardinality(ff_tap.reclaimed(p_lanes => '{worn}')), 100, 'no more than 100 are ended by one call');
select is(
    (select row(count(*), (array_agg(r))[6])
     from unnest(ff_tap.reclaimed(p_lanes => '{worn}')) as r), row(6::bigint, '2200'::text),
    'the rest by the next, which then gets to work');
rollback to capped;

-- What the lost lease held
select ff_tap.freeze_time(1000);
select ff_tap.leased(61, 'held'), ff_tap.leased(62, 'held', p_policy => '{"max_reclaim_count": 0}');
select ff_tap.burden(ff_tap.id(61)), ff_tap.burden(ff_tap.id(62));
select ff_tap.freeze_time(2000);
select is(
    ff_tap.reclaimed(p_max => 9, p_lanes => '{held}'), '{61,"62 reclaim_cap_exceeded"}',
    'leases with quota and budget');
select is(
    (select row(q.slot_held, r.state, r.close_reason)
     from ff_tap.core(ff_tap.id(61)) as e
     join flowfabric.ff_quota_admitted as q on q.execution_id = e.execution_id
     join flowfabric.ff_budget_reservation as r on r.execution_id = e.execution_id),
    row(true, 'released'::text, 'lease_expired'::text), 'the slot stays held, the reservation goes back');
select is(
    (select row(q.slot_held, r.state)
     from ff_tap.core(ff_tap.id(62)) as e
     join flowfabric.ff_quota_admitted as q on q.execution_id = e.execution_id
     join flowfabric.ff_budget_reservation as r on r.execution_id = e.execution_id),
    row(false, 'released'::text), 'at the cap both go back');
select is(
    (select u.reserved_value from flowfabric.ff_budget_usage as u where u.budget_id = 'budget'), 0::bigint,
    'nothing stays reserved');
select is(
    (select array_agg(m.closed_reason) from flowfabric.ff_stream_meta as m), '{reclaimed,reclaimed}',
    'the streams are closed');
select is_empty($$ select f.* from flowfabric.ff_check_invariants() as f $$, 'and all rows are sound');

-- Bad input
select is(ff_tap.refusal($$ '{}', 'p', 'p-1' $$), 'invalid_input lanes empty', 'one lane at least');
select is(ff_tap.refusal($$ '{a}', 'p', null $$), 'invalid_input worker_instance_id null', 'the worker has a name');
select is(ff_tap.refusal($$ '{a}', 'p', 'p-1', p_max => 0 $$), 'invalid_input max out_of_range', 'one at least');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_lease_ttl_ms => -1 $$), 'invalid_input lease_ttl_ms out_of_range',
    'a lease lasts');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_grace_ms => -1 $$), 'invalid_input grace_ms out_of_range',
    'grace is not negative');
select is(ff_tap.refusal($$ '{a}', 'p', 'p-1', p_grace_ms => null $$), 'invalid_input grace_ms null', 'nor unknown');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_max_reclaim_count => -1 $$), 'invalid_input max_reclaim_count out_of_range',
    'nor is a cap');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', array[''] $$), 'invalid_capabilities worker empty_token',
    'capabilities are checked');

select * from finish();
rollback;
