-- Reclaim grants: which executions have a lost lease, and for whom they are reserved.
begin;
\ir ../helpers.sql
select plan(34);

create function ff_tap.grant_of(p_execution_id text)
returns flowfabric.ff_claim_grant
language sql stable
as $$
    select g.*
    from flowfabric.ff_claim_grant as g, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where g.partition_key = k.partition_key and g.execution_id = k.execution_id
$$;

select ff_tap.freeze_time(1000);
prepare issue (text) as select g.outcome, g.expires_at_ms from flowfabric.ff_issue_reclaim_grant(
    $1, 'pool', 'pool-1', p_grant_ttl_ms => 500) as g;

-- Expired by the clock, and nobody has marked it
\set unmarked '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'unmarked', p_lease_expires_at_ms => 1500);
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
select k.partition_key, k.execution_id, 0, 1000 from flowfabric.ff_parse_execution_id(:'unmarked') as k;
select ff_tap.freeze_time(1499);
select throws_ok(
    format('execute issue(%L)', :'unmarked'), 'ZC014', 'execution_not_reclaimable', 'a live lease is not reclaimable');
select is(
    ff_tap.error_of(format('execute issue(%L)', :'unmarked')),
    jsonb_build_object(
        'code', 'execution_not_reclaimable', 'fn', 'ff_issue_reclaim_grant', 'execution_id', :'unmarked',
        'lifecycle_phase', 'active', 'ownership_state', 'leased', 'lease_expires_at_ms', 1500),
    'the refusal shows the state and the expiry');
select ff_tap.freeze_time(1500);
create temporary table issued as
select g.* from flowfabric.ff_issue_reclaim_grant(
    :'unmarked', 'pool', 'pool-1', 'default', array['b', 'a'], 700, 'hash', '{"via": "x"}', 'admitted') as g;
select results_eq(
    'select outcome, execution_id, lane_id, expires_at_ms, missing_capabilities from issued',
    format('values (''granted'', %L, ''default'', 2200::bigint, ''{}''::text[])', :'unmarked'),
    'a lease is lost at its expiry; the grant lasts from now by the clock of the database');
select matches(
    (select i.grant_key from issued as i),
    '^ffg1:reclaim:\{fp:86\}:00000000-0000-4000-8000-000000000001:2200:[0-9a-f]{32}$',
    'the key of the grant names its kind');
select is(
    to_jsonb(ff_tap.grant_of(:'unmarked')) - array['partition_key', 'execution_id'],
    jsonb_build_object(
        'grant_ttl_ms', 700, 'issued_at_ms', 1500, 'expires_at_ms', 2200,
        'grant_id', sha256(convert_to((select i.grant_key from issued as i), 'UTF8')), 'kind', 'reclaim',
        'worker_id', 'pool', 'worker_instance_id', 'pool-1', 'lane_id', 'default', 'capability_hash', 'hash',
        'worker_capabilities', '["a", "b"]'::jsonb, 'route_snapshot', '{"via": "x"}'::jsonb,
        'admission_summary', 'admitted'),
    'the grant keeps what the scheduler gave');
select is(
    ff_tap.vector(:'unmarked'),
    'active / lease_expired_reclaimable / not_applicable / waiting_for_worker / none / attempt_interrupted -> active',
    'an expiry that was not marked is marked with the grant');
select is(
    (select row(
        e.lease_expired_at_ms, e.lease_expires_at_ms, e.current_lease_id, e.blocking_detail, e.last_mutation_at_ms,
        e.last_transition_at_ms)
     from ff_tap.core(:'unmarked') as e),
    row(1500::bigint, 1500::bigint, ff_tap.lease_id(), 'lease expired'::text, 1500::bigint, 1000::bigint),
    'the mark keeps the lease readable and is no transition');
select results_eq(
    $$select m.closed_at_ms, m.closed_reason from flowfabric.ff_stream_meta as m$$,
    $$values (1500::bigint, 'lease_expired'::text)$$, 'the mark closes the stream');
select is(
    ff_tap.lease_events(:'unmarked'), '{acquired:issue_grant_and_claim,expired}'::text[],
    'the mark is one event, the grant is none');

-- Repeated
select throws_ok(
    format('execute issue(%L)', :'unmarked'), 'ZS017', 'grant_already_exists', 'a live grant is out');
select is(
    ff_tap.error_of(format('execute issue(%L)', :'unmarked')),
    jsonb_build_object(
        'code', 'grant_already_exists', 'fn', 'ff_issue_reclaim_grant', 'execution_id', :'unmarked',
        'kind', 'reclaim', 'grant_expires_at_ms', 2200),
    'the refusal says what grant is out, and until when');
select ff_tap.freeze_time(2200);
select throws_ok(
    format('execute issue(%L)', :'unmarked'), 'ZS017', 'grant_already_exists',
    'a grant is live in its last millisecond');
select ff_tap.freeze_time(2201);
select results_eq(
    format('execute issue(%L)', :'unmarked'), $$values ('granted'::text, 2701::bigint)$$,
    'an expired grant gives way to the next one');
select is(
    ff_tap.lease_events(:'unmarked'), '{acquired:issue_grant_and_claim,expired}'::text[],
    'an expiry is marked once');

-- Marked before, revoked
select ff_tap.freeze_time(1000);
\set marked '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'marked', p_lease_expires_at_ms => 1500);
select ff_tap.freeze_time(1600);
select flowfabric.ff_mark_lease_expired_if_due(:'marked');
select ff_tap.freeze_time(1700);
select results_eq(
    format('execute issue(%L)', :'marked'), $$values ('granted'::text, 2200::bigint)$$,
    'a lease that was marked as expired is reclaimable');
select is((ff_tap.core(:'marked')).lease_expired_at_ms, 1600::bigint, 'the mark stays as it was');
\set revoked '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.leased_execution(:'revoked');
select flowfabric.ff_revoke_lease(:'revoked');
select results_eq(
    format('execute issue(%L)', :'revoked'), $$values ('granted'::text, 2200::bigint)$$,
    'a revoked lease is reclaimable before its expiry');
select is(
    ff_tap.vector(:'revoked'),
    'active / lease_revoked / not_applicable / waiting_for_worker / none / attempt_interrupted -> active',
    'a revoked lease stays revoked');

-- Capabilities
select ff_tap.freeze_time(1000);
\set gpu '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.leased_execution(
    :'gpu', '{"routing_requirements": {"required_capabilities": ["gpu", "cuda"]}}'::jsonb,
    p_lease_expires_at_ms => 1500);
select ff_tap.freeze_time(1500);
prepare offer (text[]) as select g.outcome, g.lane_id, g.missing_capabilities from flowfabric.ff_issue_reclaim_grant(
    :'gpu', 'pool', 'pool-1', null, $1) as g;
select throws_ok(
    $$execute offer('{a b}')$$, 'ZV003', 'invalid_capabilities', 'the tokens of a worker are checked');
select is(
    ff_tap.error_of($$execute offer('{a b}')$$) - array['code', 'fn'],
    '{"side": "worker", "reason": "control_or_whitespace"}', 'the refusal says whose tokens, and why');
select results_eq(
    $$execute offer('{cpu}')$$, $$values ('capability_mismatch'::text, 'default'::text, '{cuda,gpu}'::text[])$$,
    'a worker that lacks capabilities is told which, in byte order');
select is((ff_tap.grant_of(:'gpu')).execution_id, null, 'a mismatch leaves no grant');
select is(
    (ff_tap.note(:'gpu')).last_capability_mismatch_at_ms, 1500::bigint,
    'a mismatch leaves its time on the execution');
select is(
    (ff_tap.core(:'gpu')).ownership_state, 'lease_expired_reclaimable', 'the expiry is marked all the same');
select results_eq(
    $$execute offer('{gpu,cuda}')$$, $$values ('granted'::text, 'default'::text, '{}'::text[])$$,
    'after a mismatch the execution stays reclaimable for another worker');
select is(
    ff_tap.lease_events(:'gpu'), '{acquired:issue_grant_and_claim,expired}'::text[],
    'mismatch and grant together mark the expiry once');

-- Refusals, in the order of the checks
prepare ask (text, text, text, text, bigint) as select flowfabric.ff_issue_reclaim_grant(
    $1, $2, $3, $4, array['a b'], $5);
select throws_ok(
    $$execute ask('{fp:x}:00000000-0000-4000-8000-000000000001', 'pool', 'pool-1', null, 500)$$,
    'ZV001', 'invalid_input', 'a malformed execution id is refused');
select is(
    (select array_agg(
        ff_tap.error_of(format(
            'execute ask(''{fp:86}:00000000-0000-4000-8000-00000000ffff'', %L, %L, %L, %L)', b.worker, b.instance,
            b.lane, b.ttl)) ->> 'field' order by b.number)
     from (values
        (1, null, 'pool-1', null, 500),
        (2, 'pool', 'po ol', null, 500),
        (3, 'pool', 'pool-1', repeat('l', 65), 500),
        (4, 'pool', 'pool-1', null, null),
        (5, 'pool', 'pool-1', null, 0),
        (6, 'pool', 'pool-1', null, 60001)) as b (number, worker, instance, lane, ttl)),
    '{worker_id,worker_instance_id,lane_id,grant_ttl_ms,grant_ttl_ms,grant_ttl_ms}'::text[],
    'each malformed argument is named');
select throws_ok(
    $$execute ask('{fp:86}:00000000-0000-4000-8000-00000000ffff', 'pool', 'pool-1', '', 500)$$,
    'ZN001', 'execution_not_found', 'an unknown execution is refused');
\set runnable '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.execution(:'runnable');
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', ''other'', 500)', :'runnable'))
        - array['code', 'fn'],
    '{"field": "lane_id", "reason": "other_lane", "value": "other"}', 'a wrong lane is seen before the state');
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', '''', 500)', :'runnable'))
        - array['fn', 'execution_id'],
    '{"code": "execution_not_reclaimable", "lifecycle_phase": "runnable", "ownership_state": "unowned"}',
    'a runnable execution is not reclaimable');
select flowfabric.ff_cancel_execution(:'runnable', 'stop', 'operator_override');
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', null, 500)', :'runnable')) ->> 'lifecycle_phase',
    'terminal', 'nor is an ended one');
\set suspended '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.leased_execution(:'suspended');
select flowfabric._ff_pause_attempt(ff_tap.core(:'suspended'), 'test', 1500);
select flowfabric._ff_set_unowned_state(
    ff_tap.core(:'suspended'), 'suspended', 'not_applicable', 'waiting_for_signal', null, 'none',
    'attempt_interrupted', null, gen_random_uuid(), null, 'suspend', 1500);
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', null, 500)', :'suspended')) ->> 'lifecycle_phase',
    'suspended', 'nor is a suspended one');
select throws_ok(
    format('execute ask(%L, ''pool'', ''pool-1'', ''default'', 500)', :'gpu'), 'ZS017', 'grant_already_exists',
    'a live grant is seen before the capabilities of the worker');

select * from finish();
rollback;
