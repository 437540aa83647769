-- Reading a budget: labels, breaches, resets.
begin;
\ir ../helpers.sql
select plan(5);

select ff_tap.freeze_time(1000);
select flowfabric.ff_create_budget(
    'b1', 'tenant', 'acme', '{tokens}', '{10}', '{5}', 60000, 'warn', 'stop', 'log');
select results_eq(
    $$select to_jsonb(s) from flowfabric.ff_get_budget_status('b1') as s$$,
    $$values ('{"budget_id": "b1", "scope_type": "tenant", "scope_id": "acme", "enforcement_mode": "warn",
        "on_hard_limit": "stop", "on_soft_limit": "log", "reset_interval_ms": 60000, "breach_count": 0,
        "soft_breach_count": 0, "reset_count": 0, "last_breach_at_ms": null, "last_breach_dim": null,
        "last_reset_at_ms": null, "next_reset_at_ms": 61000, "created_at_ms": 1000, "updated_at_ms": 1000}'::jsonb)$$,
    'a fresh budget has its labels and its first reset');
select ff_tap.freeze_time(2000);
select flowfabric.ff_report_usage_and_check('b1', '{tokens}', '{7}', p_source => 'operator_override');
select flowfabric.ff_report_usage_and_check('b1', '{tokens}', '{7}', p_source => 'operator_override');
select results_eq(
    $$select s.breach_count, s.soft_breach_count, s.last_breach_at_ms, s.last_breach_dim, s.updated_at_ms
      from flowfabric.ff_get_budget_status('b1') as s$$,
    $$values (1::bigint, 1::bigint, 2000::bigint, 'tokens', 2000::bigint)$$, 'breaches show');
select throws_ok(
    $$select flowfabric.ff_get_budget_status('unknown')$$, 'ZN004', 'budget_not_found', 'an unknown budget is refused');
select throws_ok(
    $$select flowfabric.ff_get_budget_status('a b')$$, 'ZV001', 'invalid_input', 'a malformed id too');
select is(
    ff_tap.error_of('select flowfabric.ff_get_budget_status(null)') - array['code', 'fn'],
    '{"field": "budget_id", "reason": "null"}', 'an id is required');

select * from finish();
rollback;
