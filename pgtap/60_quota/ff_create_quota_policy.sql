-- Quota policies: what can be defined, and that a definition never changes.
begin;
\ir ../helpers.sql
select plan(21);

select ff_tap.freeze_time(1000);
prepare policy as
select
    q.requests_per_window_seconds, q.max_requests_per_window, q.active_concurrency_cap, q.jitter_ms, q.created_at_ms,
    q.updated_at_ms
from flowfabric.ff_quota_policy as q
where q.quota_policy_id = 'api';

select results_eq(
    $$select c.* from flowfabric.ff_create_quota_policy('api', 60, 100, 5, 250) as c$$,
    $$values ('created', 'api')$$, 'a policy is defined');
select results_eq(
    'execute policy', 'values (60::bigint, 100::bigint, 5::bigint, 250::bigint, 1000::bigint, 1000::bigint)',
    'with its limits and times');
select ff_tap.freeze_time(2000);
select results_eq(
    $$select c.* from flowfabric.ff_create_quota_policy('api', 1, 1, 1, 1) as c$$,
    $$values ('already_satisfied', 'api')$$, 'a second definition is answered with the first');
select results_eq(
    'execute policy', 'values (60::bigint, 100::bigint, 5::bigint, 250::bigint, 1000::bigint, 1000::bigint)',
    'whose limits stay');
select is(
    (flowfabric.ff_create_quota_policy('open', 0, 0, 0)).outcome, 'created',
        'a policy may limit nothing, and jitter is optional');
select is((flowfabric.ff_create_quota_policy('cap', 0, 0, 3)).outcome, 'created', 'a cap needs no window');
select is(
    (flowfabric.ff_create_quota_policy(
        repeat('x', 256), 31536000000, 9007199254740991, 9007199254740991, 31536000000000)).outcome, 'created',
    'the largest numbers and the longest id are accepted');

-- Wrong numbers
prepare create_policy (bigint, bigint, bigint, bigint) as
select flowfabric.ff_create_quota_policy('bad', $1, $2, $3, $4);
select throws_ok(
    'execute create_policy(-1, 0, 0, 0)', 'ZV020', 'invalid_quota_spec', 'a window is not negative');
select is(
    ff_tap.error_of('execute create_policy(-1, -1, -1, -1)'),
    '{"code": "invalid_quota_spec", "fn": "ff_create_quota_policy", "field": "window_seconds", "reason": "negative"}',
    'the first wrong number is named');
select is(
    ff_tap.error_of('execute create_policy(1, -1, 0, 0)') ->> 'field', 'max_requests_per_window',
    'a rate is not negative');
select is(
    ff_tap.error_of('execute create_policy(1, 0, -1, 0)') ->> 'field', 'max_concurrent', 'a cap is not negative');
select is(ff_tap.error_of('execute create_policy(1, 0, 0, -1)') ->> 'field', 'jitter_ms', 'jitter is not negative');
select is(
    ff_tap.error_of('execute create_policy(0, 1, 0, 0)') - array['code', 'fn'],
    '{"field": "window_seconds", "reason": "rate_needs_window"}', 'a rate needs a window');
select is(
    ff_tap.error_of('execute create_policy(1, null, 0, 0)') - array['code', 'fn'],
    '{"field": "max_requests_per_window", "reason": "null"}', 'a limit is a number');
select is(
    ff_tap.error_of('execute create_policy(31536000001, 0, 0, 0)') - array['code', 'fn'],
    '{"field": "window_seconds", "reason": "out_of_range"}', 'a window is a thousand years at most');
select is(
    ff_tap.error_of('execute create_policy(1, 9223372036854775807, 0, 0)') ->> 'reason', 'out_of_range',
    'so do the other numbers');
select is_empty(
    $$select from flowfabric.ff_quota_policy as q where q.quota_policy_id = 'bad'$$, 'a refusal defines nothing');

-- Wrong ids
select throws_ok(
    $$select flowfabric.ff_create_quota_policy('two words', -1, 0, 0)$$, 'ZV001', 'invalid_input',
    'an id has no white space, and that comes before the numbers');
select is(
    ff_tap.error_of($$select flowfabric.ff_create_quota_policy(repeat('x', 257), 1, 0, 0)$$) ->> 'reason', 'too_long',
    'an id has at most 256 bytes');
select is(
    ff_tap.error_of($$select flowfabric.ff_create_quota_policy('', 1, 0, 0)$$) - array['value', 'fn', 'code'],
    '{"field": "quota_policy_id", "reason": "empty"}', 'an id is not empty');
select is(
    ff_tap.error_of($$select flowfabric.ff_create_quota_policy(null, 1, 0, 0)$$) ->> 'reason', 'null',
    'an id is required');

select * from finish();
rollback;
