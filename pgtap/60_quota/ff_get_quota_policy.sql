-- Reading a quota policy: limits, and what of them is in use now.
begin;
\ir ../helpers.sql
select plan(7);

\set first '{fp:86}:00000000-0000-4000-8000-000000000001'
\set second '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.freeze_time(1000);
select flowfabric.ff_create_quota_policy('quota', 60, 5, 3, 7);
select flowfabric.ff_create_quota_policy('open', 60, 0, 0);
select ff_tap.execution(:'first'), ff_tap.execution(:'second');
prepare policy (text) as select q.* from flowfabric.ff_get_quota_policy($1) as q;

select results_eq(
    $$execute policy('quota')$$,
    $$values ('quota', 60::bigint, 5::bigint, 3::bigint, 7::bigint, 0::bigint, 0::bigint, false, 1000::bigint)$$,
    'a fresh policy has nothing in use');
select flowfabric.ff_check_admission_and_record('quota', :'first');
select ff_tap.freeze_time(2000);
select flowfabric.ff_check_admission_and_record('quota', :'second');
select results_eq(
    $$select q.entries_in_window, q.active_concurrency from flowfabric.ff_get_quota_policy('quota') as q$$,
    'values (2::bigint, 2::bigint)', 'tokens and slots are counted');
select ff_tap.freeze_time(61000);
select results_eq(
    $$select q.entries_in_window, q.active_concurrency from flowfabric.ff_get_quota_policy('quota') as q$$,
    'values (1::bigint, 2::bigint)', 'a token leaves the window when it is one window old, a slot does not');
select is(
    (select q.is_unlimited from flowfabric.ff_get_quota_policy('open') as q), true,
        'a policy without limits says so');
select is_empty($$execute policy('unknown')$$, 'an unknown policy gives no row');
select throws_ok($$execute policy('a b')$$, 'ZV001', 'invalid_input', 'a malformed id is refused');
select is(
    ff_tap.error_of('execute policy(null)') - array['code', 'fn'],
    '{"field": "quota_policy_id", "reason": "null"}', 'an id is required');

select * from finish();
rollback;
