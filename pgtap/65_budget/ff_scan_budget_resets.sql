-- Resets by time: budgets that are due, longest due first, and only those.
begin;
\ir ../helpers.sql
select plan(24);

prepare scan (integer) as select s from flowfabric.ff_scan_budget_resets($1) as s;
create function ff_tap.resets()
returns jsonb
language sql stable
as $$
    select jsonb_object_agg(b.budget_id, array[b.reset_count, b.next_reset_at_ms]) from flowfabric.ff_budget_policy as b
$$;

select ff_tap.freeze_time(1000);
select is(flowfabric.ff_scan_budget_resets(), 0, 'without budgets nothing happens');
select flowfabric.ff_create_budget('a', 'tenant', 'acme', p_reset_interval_ms => 3000);
select flowfabric.ff_create_budget('b', 'tenant', 'acme', p_reset_interval_ms => 2000);
select flowfabric.ff_create_budget('c', 'tenant', 'acme', p_reset_interval_ms => 9000);
select flowfabric.ff_create_budget('never', 'tenant', 'acme');
select flowfabric.ff_report_usage_and_check(b.budget_id, '{tokens}', '{7}', p_source => 'operator_override')
from flowfabric.ff_budget_policy as b;

select ff_tap.freeze_time(2999);
select results_eq('execute scan(20)', 'values (0)', 'before its time nothing is due');
select ff_tap.freeze_time(3000);
select results_eq('execute scan(20)', 'values (1)', 'at the instant itself it is');
select is(
    ff_tap.resets(), '{"a": [0, 4000], "b": [1, 5000], "c": [0, 10000], "never": [0, null]}',
    'the next reset is counted from this one');
select is(
    (select array_agg(u.current_value order by u.budget_id) from flowfabric.ff_budget_usage as u),
    array[7, 0, 7, 7]::bigint[], 'its usage is zero, that of the others is not');
select results_eq('execute scan(20)', 'values (0)', 'a repeat finds nothing');
select ff_tap.freeze_time(5500);
select results_eq('execute scan(1)', 'values (1)', 'no more are reset than asked for');
select is(ff_tap.resets() -> 'a', '[1, 8500]', 'the longest due first');
select results_eq('execute scan(1)', 'values (1)', 'then the next');
select is(ff_tap.resets() -> 'b', '[2, 7500]', 'periods that were missed are not made up for');

-- A manual reset that gets in first
select ff_tap.freeze_time(7400);
select flowfabric.ff_reset_budget('b');
select ff_tap.freeze_time(8000);
select results_eq('execute scan(20)', 'values (0)', 'after a manual reset the old date means nothing');
select is(ff_tap.resets() -> 'b', '[3, 9400]', 'the period began with it');

-- A failing item
select flowfabric.ff_report_usage_and_check('a', '{tokens}', '{5}', p_source => 'operator_override');
create function ff_tap.refuse() returns trigger language plpgsql
as $$ begin raise exception 'this one is poisoned'; end $$;
create trigger poison before update on flowfabric.ff_budget_policy
for each row when (old.budget_id = 'a') execute function ff_tap.refuse();
select ff_tap.freeze_time(20000);
select results_eq('execute scan(20)', 'values (2)', 'a budget that fails does not stop the others');
select is(
    (select to_jsonb(f) from flowfabric.ff_scanner_failure as f),
    '{"scanner": "budget_reset", "item_key": "a", "failures": 1, "skip_until_ms": null,
      "last_error": "P0001 this one is poisoned", "last_failed_at_ms": 20000}'::jsonb, 'its failure is recorded');
select is(
    (select u.current_value from flowfabric.ff_budget_usage as u where u.budget_id = 'a'), 5::bigint,
        'and what was done to it is undone');
select flowfabric.ff_scan_budget_resets();
select flowfabric.ff_scan_budget_resets();
select is((select f.failures from flowfabric.ff_scanner_failure as f), 3, 'it is tried three times');
select flowfabric.ff_scan_budget_resets();
select is((select f.failures from flowfabric.ff_scanner_failure as f), 3, 'and then left out');
drop trigger poison on flowfabric.ff_budget_policy;
select ff_tap.freeze_time(170000);
select results_eq('execute scan(20)', 'values (3)', 'until its pause is over');
select is_empty('select from flowfabric.ff_scanner_failure', 'a success forgets the failures');
select is(ff_tap.resets() -> 'never', '[0, null]', 'a budget without an interval is never reset by time');

select throws_ok('execute scan(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute scan(10001)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select is(
    ff_tap.error_of('execute scan(null)'),
    '{"code": "invalid_input", "fn": "ff_scan_budget_resets", "field": "limit", "reason": "null"}',
    'a limit is required');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');

select * from finish();
rollback;
