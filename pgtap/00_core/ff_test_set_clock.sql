-- The test clock: freeze, advance, offset, reset.
begin;
\ir ../helpers.sql
select plan(32);

prepare set_clock (text, bigint) as select mode, now_ms from flowfabric.ff_test_set_clock($1, $2);
create function pg_temp.stored(p_name text) returns bigint language sql
as $$ select value from flowfabric.ff_setting where name = p_name $$;
create function pg_temp.distance_from_wall_clock_ms() returns bigint language sql volatile
as $$ select flowfabric.ff_now_ms() - floor(extract(epoch from clock_timestamp()) * 1000)::bigint $$;

-- Freeze

select results_eq(
    $$ execute set_clock('freeze', 5000) $$, $$ values ('freeze', 5000::bigint) $$,
    'a frozen clock shows the given time');
select is(flowfabric.ff_now_ms(), 5000::bigint, 'and stands still');
select results_eq(
    $$ execute set_clock('freeze', 4000) $$, $$ values ('freeze', 4000::bigint) $$, 'it can be set back');
select results_eq(
    $$ execute set_clock('freeze', 0) $$, $$ values ('freeze', 0::bigint) $$, 'it can stand at the epoch');
select results_eq(
    $$ execute set_clock('advance', 30000) $$, $$ values ('advance', 30000::bigint) $$,
    'an advance moves a frozen clock');
select results_eq(
    $$ execute set_clock('advance', 1) $$, $$ values ('advance', 30001::bigint) $$, 'advances add up');
select results_eq(
    $$ execute set_clock('advance', 0) $$, $$ values ('advance', 30001::bigint) $$, 'an advance of 0 moves nothing');
select is(pg_temp.stored('test_clock_offset_ms'), null, 'a frozen clock has no offset');

-- Offset: between two readings of a running clock lies less than a minute.

select lives_ok($$ execute set_clock('offset', 3600000) $$, 'a clock can run ahead');
select ok(pg_temp.distance_from_wall_clock_ms() between 3540000 and 3600000, 'by the offset');
select is(pg_temp.stored('test_clock_frozen_at_ms'), null, 'it runs again');
select lives_ok($$ execute set_clock('advance', 3600000) $$, 'an advance moves a running clock');
select is(pg_temp.stored('test_clock_offset_ms'), 7200000::bigint, 'by adding to its offset');
select lives_ok($$ execute set_clock('offset', -3600000) $$, 'a clock can run behind');
select ok(pg_temp.distance_from_wall_clock_ms() between -3660000 and -3600000, 'by the offset');

-- Reset

select results_eq($$ select mode from flowfabric.ff_test_set_clock('reset') $$, $$ values ('reset') $$,
    'a reset needs no amount');
select ok(pg_temp.distance_from_wall_clock_ms() between -60000 and 0, 'the clock is the wall clock again');
select is(
    (select count(*) from flowfabric.ff_setting where name in ('test_clock_frozen_at_ms', 'test_clock_offset_ms')),
    0::bigint, 'and nothing of it is left');
select lives_ok($$ execute set_clock('advance', 1000) $$, 'the wall clock can be advanced');
select is(pg_temp.stored('test_clock_offset_ms'), 1000::bigint, 'and then runs with an offset');

-- Refusals

select ff_tap.freeze_time(5000);
select throws_ok($$ execute set_clock('stop', 1) $$, 'ZV001', 'invalid_input', 'an unknown mode is refused');
select throws_ok('execute set_clock(null, 1)', 'ZV001', 'invalid_input', 'a missing mode is refused');
select throws_ok($$ execute set_clock('freeze', null) $$, 'ZV001', 'invalid_input', 'freezing needs a time');
select throws_ok($$ execute set_clock('freeze', -1) $$, 'ZV001', 'invalid_input', 'no clock stands before the epoch');
select throws_ok($$ execute set_clock('advance', -1) $$, 'ZV001', 'invalid_input', 'an advance goes forward');
select throws_ok(
    $$ execute set_clock('freeze', 253402300800000) $$, 'ZV001', 'invalid_input', 'the year 10000 is out of range');
select throws_ok(
    $$ execute set_clock('offset', -9223372036854775808) $$, 'ZV001', 'invalid_input',
    'the smallest number is out of range, not an overflow');
select is(
    ff_tap.error_of($$ select flowfabric.ff_test_set_clock('advance', -1) $$) - 'code',
    '{"fn": "ff_test_set_clock", "field": "ms", "reason": "out_of_range", "value": "-1"}',
    'a refusal names the amount');
select is(flowfabric.ff_now_ms(), 5000::bigint, 'a refusal leaves the clock as it was');

update flowfabric.ff_setting set value = 0 where name = 'test_clock';
select throws_ok(
    $$ execute set_clock('freeze', 1) $$, 'ZU001', 'unavailable', 'a test clock that is switched off is refused');
delete from flowfabric.ff_setting where name = 'test_clock';
select throws_ok(
    $$ execute set_clock('nonsense', null) $$, 'ZU001', 'unavailable',
    'without a test clock every call is refused, whatever its arguments');
select is(
    ff_tap.error_of($$ execute set_clock('freeze', 1) $$) - 'code',
    '{"fn": "ff_test_set_clock", "op": "ff_test_set_clock", "reason": "test_clock_not_installed"}',
    'the refusal says what is missing');

select * from finish();
rollback;
