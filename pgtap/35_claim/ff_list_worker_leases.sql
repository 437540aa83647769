-- The leases of a worker: what it holds, so that a lost answer or a drain loses nothing.
begin;
\ir ../helpers.sql
select plan(17);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.held(p_worker text default 'pool-1', p_after text default null, p_limit integer default 1000)
returns integer[]
language sql volatile
as $$
    select coalesce(array_agg(right(l.execution_id, 12)::integer), '{}')
    from flowfabric.ff_list_worker_leases(p_worker, p_after, p_limit) as l
$$;

select ff_tap.freeze_time(1000);
select is(ff_tap.held(), '{}', 'a worker without leases has none');
select ff_tap.execution(ff_tap.id(n), p_lane_id => 'lane') from generate_series(1, 6) as n;
select ff_tap.execution('{fp:3}:00000000-0000-4000-8000-000000000007', p_lane_id => 'lane');
select row_to_json(c) as claim
from flowfabric.ff_claim_next('{lane}', 'pool', 'pool-1', p_lease_ttl_ms => 500) as c \gset
select is(
    (select to_jsonb(l) from flowfabric.ff_list_worker_leases('pool-1') as l),
    jsonb_build_object(
        'execution_id', ff_tap.id(1), 'lease_id', :'claim'::jsonb -> 'lease_id', 'lease_epoch', 1,
        'attempt_id', :'claim'::jsonb -> 'attempt_id', 'attempt_index', 0, 'lease_expires_at_ms', 1500,
        'lane_id', 'lane', 'ownership_state', 'leased', 'has_more', false),
    'a lease is listed with its whole fence');
select flowfabric.ff_claim_next('{lane}', 'pool', 'pool-1', p_max => 4);
select flowfabric.ff_claim_next('{lane}', 'pool', 'pool-2', p_max => 9);
select is(ff_tap.held(), '{1,2,3,4,5}', 'leases are listed by the key of their execution');
select is(ff_tap.held('pool-2'), '{7,6}', 'each worker has its own; the partition comes first');
select is(ff_tap.held('pool'), '{}', 'a pool is no process');

select is(ff_tap.held(p_limit => 2), '{1,2}', 'the first page');
select is(ff_tap.held(p_after => ff_tap.id(2), p_limit => 2), '{3,4}', 'the page behind it');
select is(
    (select array_agg(l.has_more) from flowfabric.ff_list_worker_leases('pool-1', ff_tap.id(2), 2) as l), '{t,t}',
    'every row tells whether there is more');
select is(ff_tap.held(p_limit => 0), '{}', 'a page of 0 is empty');
select is(
    ff_tap.held('pool-2', '{fp:3}:00000000-0000-4000-8000-000000000007'), '{6}', 'a cursor may cross a partition');

select flowfabric.ff_revoke_lease(ff_tap.id(2));
select flowfabric.ff_complete_execution(ff_tap.id(3), p_source => 'operator_override');
select is(ff_tap.held(), '{1,4,5}', 'a lease that was revoked or released is none any more');
select ff_tap.freeze_time(1500);
select flowfabric.ff_scan_expired_leases();
select is(
    (select array_agg(l.ownership_state::text) from flowfabric.ff_list_worker_leases('pool-1') as l),
    '{lease_expired_reclaimable,leased,leased}', 'one that has run out is listed until somebody takes it over');
select flowfabric.ff_reclaim_next('{lane}', 'pool', 'pool-3');
select is(ff_tap.held('pool-3'), '{1}', 'and then belongs to that one');
select is(ff_tap.held(), '{4,5}', 'alone');

select is(
    ff_tap.error_of($$ select flowfabric.ff_list_worker_leases('') $$) ->> 'field', 'worker_instance_id',
    'a worker has a name');
select throws_ok(
    $$ select flowfabric.ff_list_worker_leases('w', p_limit => -1) $$, 'ZV001', 'invalid_input',
    'a page is not negative');
select throws_ok(
    $$ select flowfabric.ff_list_worker_leases('w', 'x') $$, 'ZV001', 'invalid_input', 'a cursor is an id');

select * from finish();
rollback;
