-- Reading the usage of a budget beside its limits.
begin;
\ir ../helpers.sql
select plan(8);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
select flowfabric.ff_create_budget('b1', 'tenant', 'acme', '{tokens,Cost,calls}', '{10,5,0}', '{0,4,3}');
select flowfabric.ff_create_budget('bare', 'tenant', 'acme');
prepare usage as
select jsonb_build_array(
    u.dimension, u.current_value, u.reserved_value, u.hard_limit, u.soft_limit, u.hard_reached)
from flowfabric.ff_get_budget_usage('b1') as u;

select results_eq(
    'execute usage',
    $$values ('["Cost", 0, 0, 5, 4, false]'::jsonb), ('["calls", 0, 0, 0, 3, false]'), ('["tokens", 0, 0, 10, 0,
    false]')$$,
    'a fresh budget shows its limits with nothing used, in byte order');
select is_empty($$select from flowfabric.ff_get_budget_usage('bare')$$,
    'without limits and usage there is nothing to show');
select flowfabric.ff_report_usage_and_check(
    'b1', '{tokens,calls,extra}', '{9,100,2}', p_source => 'operator_override');
select results_eq(
    'execute usage',
    $$values ('["Cost", 0, 0, 5, 4, false]'::jsonb), ('["calls", 100, 0, 0, 3, false]'), ('["extra", 2, 0, 0, 0,
    false]'),
        ('["tokens", 9, 0, 10, 0, false]')$$,
    'usage shows with and without limits');
select flowfabric.ff_reserve_budget(
    'b1', '{tokens,extra}', '{1,5}', :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select results_eq(
    'execute usage',
    $$values ('["Cost", 0, 0, 5, 4, false]'::jsonb), ('["calls", 100, 0, 0, 3, false]'), ('["extra", 2, 5, 0, 0,
    false]'),
        ('["tokens", 9, 1, 10, 0, true]')$$,
    'what is set aside shows, and a hard limit is reached together with it');
select flowfabric.ff_report_usage_and_check(
    'bare', '{huge}', '{9223372036854775807}', p_source => 'operator_override');
select is(
    (select u.current_value from flowfabric.ff_get_budget_usage('bare') as u), 9223372036854775807,
        'the largest usage can be read');
select throws_ok(
    $$select flowfabric.ff_get_budget_usage('unknown')$$, 'ZN004', 'budget_not_found', 'an unknown budget is refused');
select throws_ok(
    $$select flowfabric.ff_get_budget_usage('')$$, 'ZV001', 'invalid_input', 'a malformed id too');
select is(
    ff_tap.error_of('select flowfabric.ff_get_budget_usage(null)') - array['code', 'fn'],
    '{"field": "budget_id", "reason": "null"}', 'an id is required');

select * from finish();
rollback;
