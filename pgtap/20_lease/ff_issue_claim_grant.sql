-- Claim grants: for whom an eligible execution is reserved, for how long, and what a mismatch leaves behind.
begin;
\ir ../helpers.sql
select plan(44);

create function ff_tap.grant_of(p_execution_id text)
returns flowfabric.ff_claim_grant
language sql stable
as $$
    select g.*
    from flowfabric.ff_claim_grant as g, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where g.partition_key = k.partition_key and g.execution_id = k.execution_id
$$;

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set unknown '{fp:86}:00000000-0000-4000-8000-00000000ffff'
select ff_tap.execution(:'execution');

-- A grant
create temporary table issued as
select g.* from flowfabric.ff_issue_claim_grant(
    :'execution', 'pool', 'pool-1', 'default', array['b', 'a', 'b'], 500, 'hash', '{"via": "x"}', 'admitted') as g;
select results_eq(
    'select outcome, execution_id, lane_id, expires_at_ms, missing_capabilities from issued',
    format('values (''granted'', %L, ''default'', 1500::bigint, ''{}''::text[])', :'execution'),
    'a grant names the execution, its lane and its last millisecond');
select matches(
    (select i.grant_key from issued as i),
    '^ffg1:claim:\{fp:86\}:00000000-0000-4000-8000-000000000001:1500:[0-9a-f]{32}$',
    'the key of a grant names kind, execution and expiry, and ends in 32 random hex digits');
select is(
    (select i.grant_id from issued as i), sha256(convert_to((select i.grant_key from issued as i), 'UTF8')),
    'the id of a grant is the SHA-256 of its key');
select is(
    to_jsonb(ff_tap.grant_of(:'execution')) - 'grant_id',
    '{"partition_key": 86, "execution_id": "00000000-0000-4000-8000-000000000001", "grant_ttl_ms": 500,
      "issued_at_ms": 1000, "expires_at_ms": 1500, "kind": "claim", "worker_id": "pool",
      "worker_instance_id": "pool-1", "lane_id": "default", "capability_hash": "hash",
      "worker_capabilities": ["a", "b"], "route_snapshot": {"via": "x"}, "admission_summary": "admitted"}'::jsonb,
    'a grant keeps what the scheduler gave');
select is(
    (ff_tap.grant_of(:'execution')).grant_id, (select i.grant_id from issued as i),
    'the id of a grant is stored');
select is(
    strpos(ff_tap.grant_of(:'execution')::text, right((select i.grant_key from issued as i), 32)), 0,
    'the secret of a grant is not stored');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'a granted execution stays eligible');
select is(ff_tap.lease_events(:'execution'), '{}'::text[], 'a grant is no event');

-- Repeated
prepare issue (text, text, bigint) as select g.outcome, g.expires_at_ms from flowfabric.ff_issue_claim_grant(
    $1, $2, 'pool-1', 'default', p_grant_ttl_ms => $3) as g;
select ff_tap.freeze_time(1500);
select throws_ok(
    format('execute issue(%L, ''pool'', 500)', :'execution'), 'ZS017', 'grant_already_exists',
    'a grant is live in its last millisecond, also for its own worker');
select is(
    ff_tap.error_of(format('execute issue(%L, ''other'', 500)', :'execution')),
    jsonb_build_object(
        'code', 'grant_already_exists', 'fn', 'ff_issue_claim_grant', 'execution_id', :'execution', 'kind', 'claim',
        'grant_expires_at_ms', 1500),
    'the refusal says what grant is out, and until when');
select ff_tap.freeze_time(1501);
select results_eq(
    format('execute issue(%L, ''other'', 60000)', :'execution'), 'values (''granted''::text, 61501::bigint)',
    'an expired grant gives way to the next one');
select is(
    to_jsonb(ff_tap.grant_of(:'execution')) - 'grant_id',
    '{"partition_key": 86, "execution_id": "00000000-0000-4000-8000-000000000001", "grant_ttl_ms": 60000,
      "issued_at_ms": 1501, "expires_at_ms": 61501, "kind": "claim", "worker_id": "other",
      "worker_instance_id": "pool-1", "lane_id": "default", "capability_hash": null, "worker_capabilities": [],
      "route_snapshot": null, "admission_summary": null}'::jsonb,
    'nothing of an expired grant is left in the next one');
select isnt(
    (ff_tap.grant_of(:'execution')).grant_id, (select i.grant_id from issued as i),
    'each grant has a key of its own');
select ff_tap.freeze_time(70000);
select results_eq(
    format(
        'select g.expires_at_ms from flowfabric.ff_issue_claim_grant(%L, ''pool'', ''pool-1'', ''default'') as g',
        :'execution'),
    'values (75000::bigint)', 'a grant lasts five seconds unless told otherwise');

-- Capabilities
select ff_tap.freeze_time(1000);
\set gpu '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.execution(
    :'gpu', '{"routing_requirements": {"required_capabilities": ["torch>=2.3", "gpu", "größe"]}}'::jsonb);
prepare offer_nothing as select g.execution_id, g.lane_id, g.grant_key, g.grant_id, g.expires_at_ms
from flowfabric.ff_issue_claim_grant(:'gpu', 'pool', 'pool-1', 'default') as g;
prepare offer (text[]) as select g.outcome, g.missing_capabilities from flowfabric.ff_issue_claim_grant(
    :'gpu', 'pool', 'pool-1', 'default', $1) as g;
select results_eq(
    $$execute offer('{gpu,größe}')$$, $$values ('capability_mismatch'::text, '{torch>=2.3}'::text[])$$,
    'a worker that lacks a capability is told which');
select results_eq(
    'execute offer_nothing', format('values (%L, ''default'', null::text, null::bytea, null::bigint)', :'gpu'),
    'a mismatch carries no grant');
select results_eq(
    $$execute offer('{Gpu,cpu}')$$, $$values ('capability_mismatch'::text, '{gpu,größe,torch>=2.3}'::text[])$$,
    'missing capabilities come in byte order, and case counts');
select is(
    (ff_tap.note(:'gpu')).last_capability_mismatch_at_ms, 1000::bigint,
    'a mismatch leaves its time on the execution');
select ff_tap.freeze_time(1200);
select results_eq(
    $$execute offer(null)$$, $$values ('capability_mismatch'::text, '{gpu,größe,torch>=2.3}'::text[])$$,
    'no list of capabilities is an empty list');
select is(
    (ff_tap.note(:'gpu')).last_capability_mismatch_at_ms, 1200::bigint, 'the last mismatch counts');
select is(
    ff_tap.vector(:'gpu'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'a mismatch leaves the execution eligible');
select is((ff_tap.grant_of(:'gpu')).execution_id, null, 'a mismatch leaves no grant');
select results_eq(
    $$execute offer('{größe,torch>=2.3,gpu,gpu,extra}')$$, $$values ('granted'::text, '{}'::text[])$$,
    'an unsorted list with duplicates and more than is needed matches');
delete from flowfabric.ff_claim_grant;
select results_eq(
    $$execute offer('{gpu,größe,torch>=2.3}')$$, $$values ('granted'::text, '{}'::text[])$$, 'an exact list matches');

-- The tokens a worker offers
delete from flowfabric.ff_claim_grant;
prepare many_tokens (integer) as select g.outcome from flowfabric.ff_issue_claim_grant(
    :'execution', 'pool', 'pool-1', 'default', array(select 't' || i from generate_series(1, $1) as i)) as g;
prepare tokens (text[]) as select g.outcome from flowfabric.ff_issue_claim_grant(
    :'execution', 'pool', 'pool-1', 'default', $1) as g;
select results_eq(
    'execute many_tokens(256)', $$values ('granted'::text)$$, 'a worker may offer 256 capabilities');
delete from flowfabric.ff_claim_grant;
select is(
    ff_tap.error_of('execute many_tokens(257)') - array['code', 'fn'],
    '{"side": "worker", "reason": "too_many_tokens"}', 'it may not offer 257');
select results_eq(
    $$execute tokens(array[repeat('x', 4096)])$$, $$values ('granted'::text)$$,
    'the capabilities of a worker may have 4096 bytes');
delete from flowfabric.ff_claim_grant;
select is(
    ff_tap.error_of($$execute tokens(array[repeat('x', 4090), 'yyyyyy'])$$) - array['code', 'fn'],
    '{"side": "worker", "reason": "too_many_bytes"}', 'they may not have 4097, commas between them included');
select throws_ok(
    $$execute tokens('{a b}')$$, 'ZV003', 'invalid_capabilities', 'a capability contains no white space');
select is(
    (select array_agg(ff_tap.error_of(format('execute tokens(%L)', bad.tokens)) ->> 'reason' order by bad.number)
     from (values (1, '{NULL}'), (2, '{""}'), (3, '{"a,b"}'), (4, E'{"a\tb"}')) as bad (number, tokens)),
    '{non_string_token,empty_token,comma_in_token,control_or_whitespace}'::text[],
    'each kind of bad capability has its reason');

-- Refusals, in the order of the checks
prepare ask (text, text, text, text, bigint) as select flowfabric.ff_issue_claim_grant(
    $1, $2, $3, $4, array['a b'], $5);
select throws_ok(
    $$execute ask('nonsense', 'pool', 'pool-1', 'default', 500)$$, 'ZV001', 'invalid_input',
    'a malformed execution id is refused');
select is(
    (select array_agg(
        ff_tap.error_of(format('execute ask(%L, %L, %L, %L, %L)', :'execution', b.worker, b.instance, b.lane, b.ttl))
        ->> 'field' order by b.number)
     from (values
        (1, null, 'pool-1', 'default', 500),
        (2, 'a b', 'pool-1', 'default', 500),
        (3, '', 'pool-1', 'default', 500),
        (4, repeat('w', 257), 'pool-1', 'default', 500),
        (5, 'pool', null, 'default', 500),
        (6, 'pool', E'pool\n1', 'default', 500),
        (7, 'pool', 'pool-1', null, 500),
        (8, 'pool', 'pool-1', '', 500),
        (9, 'pool', 'pool-1', repeat('l', 65), 500),
        (10, 'pool', 'pool-1', 'spur-ü', 500),
        (11, 'pool', 'pool-1', 'default', null),
        (12, 'pool', 'pool-1', 'default', 0),
        (13, 'pool', 'pool-1', 'default', 60001)) as b (number, worker, instance, lane, ttl)),
    '{worker_id,worker_id,worker_id,worker_id,worker_instance_id,worker_instance_id,lane_id,lane_id,lane_id,lane_id,
      grant_ttl_ms,grant_ttl_ms,grant_ttl_ms}'::text[],
    'each malformed argument is named');
select throws_ok(
    format('execute ask(%L, ''pool'', ''pool-1'', ''default'', 500)', :'unknown'), 'ZN001', 'execution_not_found',
    'an unknown execution is refused');

\set running '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.leased_execution(:'running');
select throws_ok(
    format('execute ask(%L, ''pool'', ''pool-1'', ''default'', 500)', :'running'), 'ZC012', 'execution_not_eligible',
    'a claimed execution is refused');
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', ''other'', 500)', :'running')),
    jsonb_build_object(
        'code', 'execution_not_eligible', 'fn', 'ff_issue_claim_grant', 'execution_id', :'running',
        'lifecycle_phase', 'active', 'eligibility_state', 'not_applicable', 'blocking_reason', 'none'),
    'the refusal shows the state');
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.execution(:'delayed', p_delay_until_ms => 5000);
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', ''other'', 500)', :'delayed')),
    jsonb_build_object(
        'code', 'execution_not_eligible', 'fn', 'ff_issue_claim_grant', 'execution_id', :'delayed',
        'lifecycle_phase', 'runnable', 'eligibility_state', 'not_eligible_until_time',
        'blocking_reason', 'waiting_for_delay'),
    'a delayed execution is refused');

select flowfabric.ff_issue_claim_grant(:'execution', 'pool', 'pool-1', 'default');
select throws_ok(
    format('execute ask(%L, ''pool'', ''pool-1'', ''other'', 500)', :'execution'), 'ZS017', 'grant_already_exists',
    'a live grant is seen before a wrong lane');
delete from flowfabric.ff_claim_grant;
update flowfabric.ff_lane_registry set lane_state = 'paused' where lane_id = 'default';
select throws_ok(
    format('execute ask(%L, ''pool'', ''pool-1'', ''other'', 500)', :'execution'),
    'ZC013', 'execution_not_in_eligible_set', 'a wrong lane is seen before the state of the lane');
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', ''other'', 500)', :'execution'))
        - array['code', 'fn'],
    jsonb_build_object('execution_id', :'execution', 'lane_id', 'other'), 'the refusal names the lane that was given');
select throws_ok(
    format('execute ask(%L, ''pool'', ''pool-1'', ''default'', 500)', :'execution'),
    'ZC012', 'execution_not_eligible', 'a paused lane is seen before the capabilities of the worker');
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', ''default'', 500)', :'execution')) ->> 'lane_state',
    'paused', 'the refusal shows the state of the lane');
update flowfabric.ff_lane_registry set lane_state = 'disabled' where lane_id = 'default';
select is(
    ff_tap.error_of(format('execute ask(%L, ''pool'', ''pool-1'', ''default'', 500)', :'execution')) ->> 'lane_state',
    'disabled', 'a disabled lane grants nothing');
update flowfabric.ff_lane_registry set lane_state = 'draining' where lane_id = 'default';
select throws_ok(
    format('execute ask(%L, ''pool'', ''pool-1'', ''default'', 500)', :'execution'),
    'ZV003', 'invalid_capabilities', 'a draining lane grants, and then the capabilities count');

-- After the claim
delete from flowfabric.ff_claim_grant;
select flowfabric.ff_issue_claim_grant(:'execution', 'pool', 'pool-1', 'default');
select flowfabric.ff_claim_execution(:'execution', 'pool', 'pool-1');
select throws_ok(
    format('execute issue(%L, ''pool'', 500)', :'execution'), 'ZC012', 'execution_not_eligible',
    'after the claim the execution is no longer eligible');

select * from finish();
rollback;
