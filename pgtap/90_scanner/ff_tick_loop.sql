-- The loop for pg_cron, as far as one transaction can show it: it must commit. tests/scanner/test_tick_loop.py has the rest.
begin;
\ir ../helpers.sql
select plan(8);

select throws_ok(
    'call flowfabric.ff_tick_loop(10, 10)', '2D000', null, 'inside a transaction it cannot commit, and says so');
select is(
    ff_tap.error_of('call flowfabric.ff_tick_loop(0)'),
    '{"code": "invalid_input", "fn": "ff_tick_loop", "field": "duration_ms", "reason": "out_of_range", "value": "0"}',
    'a duration below 1 ms is refused');
select throws_ok(
    'call flowfabric.ff_tick_loop(86400001)', 'ZV001', 'invalid_input', 'a duration of more than a day is refused');
select throws_ok(
    'call flowfabric.ff_tick_loop(p_interval_ms => 0)', 'ZV001', 'invalid_input', 'an interval below 1 ms is refused');
select throws_ok(
    'call flowfabric.ff_tick_loop(p_interval_ms => 3600001)', 'ZV001', 'invalid_input',
    'an interval of more than an hour is refused');
select is(
    ff_tap.error_of('call flowfabric.ff_tick_loop(p_limit => null)'),
    '{"code": "invalid_input", "fn": "ff_tick_loop", "field": "limit", "reason": "null"}', 'a limit of NULL is refused');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_operator', 'call flowfabric.ff_tick_loop(0)')$$, 'ZV001', 'invalid_input',
    'the refusal is typed for an operator too, who may call no internal function');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'call flowfabric.ff_tick_loop(0)')$$, '42501', null,
    'a worker may not run the loop');
select * from finish();
rollback;
