-- Lease renewal: who may extend a lease, and until when.
begin;
\ir ../helpers.sql
select plan(46);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '00000000-0000-4000-8000-0000000000ff'
select ff_tap.leased_execution(:'execution', p_lease_epoch => 7, p_lease_expires_at_ms => 1500);
prepare renew (bigint, integer) as select r.* from flowfabric.ff_renew_lease(
    :'execution', ff_tap.lease_id(), 7, ff_tap.attempt_id(), p_lease_ttl_ms => $1, p_attempt_index => $2) as r;
create temporary table before as select e.* from ff_tap.core(:'execution') as e;

-- Extending
select ff_tap.freeze_time(1200);
select results_eq(
    'execute renew(600, null)',
    format($$ values ('renewed', %L, 1800::bigint, 1600::bigint, 7::bigint) $$, :'execution'),
    'the holder gets now + ttl, and two thirds of it as the advised time to renew');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select to_jsonb(b) from before as b)
    || '{"lease_expires_at_ms": 1800, "lease_last_renewed_at_ms": 1200, "last_mutation_at_ms": 1200}',
    'a renewal changes the lease times and nothing else');
select is(
    ff_tap.lease_events(:'execution'), array['acquired:issue_grant_and_claim'], 'a renewal writes no event');
select results_eq(
    'execute renew(600, null)',
    format($$ values ('renewed', %L, 1800::bigint, 1600::bigint, 7::bigint) $$, :'execution'),
    'a repeated renewal gives the same answer in the same instant');
select is(
    (select r.lease_expires_at_ms from flowfabric.ff_renew_lease(
        :'execution', ff_tap.lease_id(), 7, ff_tap.attempt_id()) as r),
    31200::bigint, 'the ttl is 30 seconds unless given');
select results_eq(
    'execute renew(100, 1)',
    format($$ values ('renewed', %L, 1300::bigint, 1266::bigint, 7::bigint) $$, :'execution'),
    'a shorter lease replaces a longer one; the advised time is rounded down');
select throws_ok(
    'execute renew(600, 0)', 'ZS001', 'stale_lease', 'the index of another attempt is fenced off');
select is(
    ff_tap.error_of('execute renew(600, 0)') - 'fn',
    jsonb_build_object(
        'code', 'stale_lease', 'execution_id', :'execution', 'lease_epoch', 7,
        'mismatch', jsonb_build_array('attempt_index')),
    'it says that the index differs');

-- A plan for a small table must not scan it when it has grown
select is(
    ff_tap.sequential_scans('execute renew(600, null)'), 0::bigint, 'a renewal finds its row by its key');

-- The event of a renewal is a setting
select lives_ok($$ select flowfabric.ff_set_setting('emit_lease_renewed', 1) $$, 'the event can be switched on');
select lives_ok('execute renew(600, null)', 'a lease is renewed with the event switched on');
select is(
    (select jsonb_agg(jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch'])
     from flowfabric.ff_lease_event as v where v.event_type = 'renewed'),
    jsonb_build_array(jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'event_type', 'renewed',
        'lease_id', ff_tap.lease_id(), 'lease_epoch', 7, 'attempt_index', 1, 'attempt_id', ff_tap.attempt_id(),
        'worker_id', 'worker', 'worker_instance_id', 'worker-1', 'namespace', 'default', 'occurred_at_ms', 1200)),
    'the event names the lease that was renewed');
select lives_ok($$ select flowfabric.ff_set_setting('lease_events', 0) $$, 'all lease events can be switched off');
select lives_ok('execute renew(600, null)', 'a lease is renewed without lease events');
select is(
    (select count(*) from flowfabric.ff_lease_event as v where v.event_type = 'renewed'), 1::bigint,
    'without lease events there is none of a renewal either');
select flowfabric.ff_set_setting('lease_events', 1);
select flowfabric.ff_set_setting('emit_lease_renewed', 0);

-- The end of a lease
select ff_tap.freeze_time(1799);
select lives_ok('execute renew(1, null)', 'a lease can be renewed in its last millisecond');
select ff_tap.freeze_time(1800);
select throws_ok('execute renew(600, null)', 'ZS002', 'lease_expired', 'a lease of 1 ms is over 1 ms later');
select is(
    (select e.ownership_state from ff_tap.core(:'execution') as e), 'leased'::flowfabric.ff_ownership_state,
    'a refused renewal does not mark the lease');

-- A lease that somebody else took over
select ok(
    (flowfabric._ff_reclaim_attempt(
        ff_tap.core(:'execution'), 'worker', 'worker-2', 500, :'other', :'other', null, null, 1000, 1800)).outcome
    = 'reclaimed',
    'another worker reclaims the execution');
select is(
    ff_tap.error_of('execute renew(600, 1)') -> 'mismatch',
    '["lease_id", "lease_epoch", "attempt_id", "attempt_index"]',
    'the old holder is fenced off by every field');
select is(
    (select row(r.lease_expires_at_ms, r.lease_epoch) from flowfabric.ff_renew_lease(
        :'execution', :'other', 8, :'other', p_lease_ttl_ms => 600, p_attempt_index => 2) as r),
    row(2400::bigint, 8::bigint), 'the new holder renews under the next epoch');

-- Bad times
select is(
    ff_tap.error_of('execute renew(0, null)') - 'fn',
    '{"code": "invalid_input", "field": "lease_ttl_ms", "reason": "out_of_range", "value": "0"}',
    'a lease of no length is refused');
select throws_ok('execute renew(86400001, null)', 'ZV001', 'invalid_input', 'a lease of more than a day is refused');
select is(
    ff_tap.error_of('execute renew(null, null)') ->> 'reason', 'null', 'a ttl of NULL is refused');

-- Everything else that a fence is for
select ff_tap.refuses_bad_fences(
    'select flowfabric.ff_renew_lease(%1$L, %2$L, %3$L, %4$L)', p_has_override => false);
select * from finish();
rollback;
