-- Granting the next: reservations in the order of claims, for workers that somebody else hands work to.
begin;
\ir ../helpers.sql
select plan(31);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.granted(
    p_max integer default 1,
    p_lanes text[] default '{default}',
    p_capabilities text[] default '{}'
)
returns integer[]
language sql volatile
as $$
    select coalesce(array_agg(right(g.execution_id, 12)::integer), '{}')
    from flowfabric.ff_grant_next(p_lanes, 'pool', 'pool-1', p_capabilities, p_max, p_grant_ttl_ms => 500) as g
$$;

create function ff_tap.refusal(p_arguments text)
returns text
language sql volatile
as $$
    select concat_ws(' ', e ->> 'code', coalesce(e ->> 'field', e ->> 'side'), e ->> 'reason')
    from ff_tap.error_of('select flowfabric.ff_grant_next(' || p_arguments || ')') as e
$$;

select ff_tap.freeze_time(1000);
select ff_tap.execution(ff_tap.id(1)), ff_tap.execution(ff_tap.id(2), p_priority => 1);
select ff_tap.execution(ff_tap.id(3), '{"routing_requirements": {"required_capabilities": ["gpu"]}}', p_priority => 9);
savepoint queue;

-- A grant
select row_to_json(ff_tap.core(ff_tap.id(2)))::text as before \gset
select row_to_json(g) as granted, g.grant_key, g.grant_id
from flowfabric.ff_grant_next('{default}', 'pool', 'pool-1', p_grant_ttl_ms => 500) as g \gset
select is(
    :'granted'::jsonb - 'grant_key' - 'grant_id',
    jsonb_build_object(
        'execution_id', ff_tap.id(2), 'lane_id', 'default', 'resumed', false, 'expires_at_ms', 1500),
    'the best execution that the worker can do is granted');
select matches(
    :'grant_key'::text, '^ffg1:claim:\{fp:86\}:00000000-0000-4000-8000-000000000002:1500:[0-9a-f]{32}$',
    'with a key that tells what it is for');
select is(
    (select jsonb_build_array(
        g.kind, g.worker_id, g.worker_instance_id, g.lane_id, g.worker_capabilities, g.issued_at_ms, g.expires_at_ms,
        g.grant_ttl_ms, g.grant_id = sha256(convert_to(:'grant_key', 'UTF8')))
     from flowfabric.ff_claim_grant as g),
    '["claim", "pool", "pool-1", "default", [], 1000, 1500, 500, true]', 'the grant is stored, its key as a hash');
select is(row_to_json(ff_tap.core(ff_tap.id(2)))::text, :'before', 'the execution is not touched');
select is(ff_tap.lease_events(ff_tap.id(2)), '{}', 'and has no event');
select is(ff_tap.granted(), '{1}', 'the next call grants the next');
select is(ff_tap.granted(), '{}', 'until there is none');
select results_eq(
    format('select c.outcome from flowfabric.ff_claim_execution(%L, %L, %L, p_grant_key => %L) as c',
        ff_tap.id(2), 'pool', 'pool-7', :'grant_key'),
    $$ values ('claimed') $$, 'any process of the pool consumes the grant');
rollback to queue;

-- Order, capabilities, lanes: those of claims
select is(ff_tap.granted(p_max => 9), '{2,1}', 'a batch is granted in queue order');
rollback to queue;
select is(ff_tap.granted(p_max => 9, p_capabilities => '{gpu,gpu}'), '{3,2,1}', 'capabilities open what requires them');
select is(
    (select array_agg(distinct g.worker_capabilities) from flowfabric.ff_claim_grant as g), '{{gpu}}',
    'they are stored with the grant, normalised');
rollback to queue;
select flowfabric.ff_set_lane_state('default', 'paused');
select is(ff_tap.granted(p_max => 9), '{}', 'a paused lane grants nothing');
rollback to queue;
select flowfabric.ff_register_worker('pool', 'pool-1'), flowfabric.ff_drain_worker('pool-1');
select is(
    (select count(*) from flowfabric.ff_grant_next('{default}', 'pool', 'pool-1', p_namespace => 'default')), 0::bigint,
    'a draining worker is granted nothing');
rollback to queue;

-- Life of a grant
select ff_tap.granted();
select ff_tap.freeze_time(1500);
savepoint granted;
select is(ff_tap.granted(), '{1}', 'in the millisecond it expires a grant still reserves');
rollback to granted;
select ff_tap.freeze_time(1501);
select is(ff_tap.granted(), '{2}', 'a lapsed one is replaced');
select is((select count(*) from flowfabric.ff_claim_grant), 1::bigint, 'by one grant');
rollback to queue;

-- Delayed and paused
select ff_tap.execution(ff_tap.id(4), p_lane_id => 'late', p_delay_until_ms => 1400);
select is(ff_tap.granted(p_lanes => '{late}'), '{}', 'a delayed execution is not granted');
select ff_tap.freeze_time(1400);
select is(ff_tap.granted(p_lanes => '{late}'), '{4}', 'one that is due is promoted and granted');
select is(ff_tap.vector(ff_tap.id(4)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'and waits to be claimed');
select ff_tap.execution(ff_tap.id(5), p_lane_id => 'pause');
select flowfabric.ff_issue_grant_and_claim(ff_tap.id(5), p_lease_ttl_ms => 500);
select flowfabric.ff_delay_execution(ff_tap.id(5), 1401, p_source => 'operator_override');
select ff_tap.freeze_time(1401);
savepoint paused;
select is(
    (select count(*) from flowfabric.ff_grant_next('{pause}', 'pool', 'pool-1', p_include_resumed => false)), 0::bigint,
    'paused attempts can be left out');
rollback to paused;
select is(
    (select g.resumed from flowfabric.ff_grant_next('{pause}', 'pool', 'pool-1') as g), true,
    'a paused attempt is marked as such');
select throws_ok(
    format('select flowfabric.ff_claim_execution(%L, %L, %L)', ff_tap.id(5), 'pool', 'pool-1'), 'ZC001',
    'use_claim_resumed_execution', 'because it is not to be claimed as a new one');
select is(
    (select c.handle_kind from flowfabric.ff_claim_resumed_execution(ff_tap.id(5), 'pool', 'pool-1') as c), 'resumed',
    'but resumed');

-- Bad input
select is(ff_tap.refusal($$ null, 'p', 'p-1' $$), 'invalid_input lanes null', 'lanes are required');
select is(ff_tap.refusal($$ '{a}', '', 'p-1' $$), 'invalid_input worker_id empty', 'the worker has a name');
select is(ff_tap.refusal($$ '{a}', 'p', 'p-1', p_max => 101 $$), 'invalid_input max out_of_range', '100 at most');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_grant_ttl_ms => 60001 $$), 'invalid_input grant_ttl_ms out_of_range',
    'a grant lasts a minute at most');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_grant_ttl_ms => 0 $$), 'invalid_input grant_ttl_ms out_of_range',
    'and a millisecond at least');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_promote_due => null $$), 'invalid_input promote_due null',
    'a flag is yes or no');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', array[' '] $$), 'invalid_capabilities worker control_or_whitespace',
    'capabilities are clean');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_lane_order => null $$), 'invalid_input lane_order null',
    'lanes have an order');

select * from finish();
rollback;
