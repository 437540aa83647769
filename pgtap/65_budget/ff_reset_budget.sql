-- A reset: usage starts at zero, the past stays countable, what is set aside stays set aside.
begin;
\ir ../helpers.sql
select plan(17);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
select flowfabric.ff_create_budget('b1', 'tenant', 'acme', '{tokens,cost}', '{500,0}', '{400,0}', 60000);
select flowfabric.ff_create_budget('never', 'tenant', 'acme');
create function ff_tap.report(p_amount bigint, p_key text default null)
returns text
language sql volatile
as $$
    select r.outcome
    from flowfabric.ff_record_spend(
        'b1', '{tokens,cost}', array[p_amount, 1], '{fp:86}:00000000-0000-4000-8000-000000000001', p_key,
        ff_tap.lease_id(), 1, ff_tap.attempt_id()) as r
$$;
create temporary view status as
select
    b.breach_count, b.soft_breach_count, b.reset_count, b.last_breach_at_ms, b.last_breach_dim, b.last_reset_at_ms,
    b.next_reset_at_ms, b.updated_at_ms
from flowfabric.ff_get_budget_status('b1') as b;
create temporary view usage as
select jsonb_object_agg(u.dimension, array[u.current_value, u.reserved_value, u.last_reset_at_ms,
    u.updated_at_ms]) as usage
from flowfabric.ff_budget_usage as u
where u.budget_id = 'b1';

select is(ff_tap.report(450, 'k'), 'soft_breach', 'usage is booked');
select flowfabric.ff_reserve_budget(
    'b1', '{tokens}', '{50}', :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'r');
select is(ff_tap.report(1), 'hard_breach', 'and beside a reservation the limit is reached');
select results_eq(
    'table status',
    $$values (1::bigint, 1::bigint, 0::bigint, 1000::bigint, 'tokens', null::bigint, 61000::bigint, 1000::bigint)$$,
    'the breaches are counted');

select ff_tap.freeze_time(2000);
select results_eq(
    $$select r.* from flowfabric.ff_reset_budget('b1') as r$$, 'values (62000::bigint, 1::bigint)',
    'a reset says when the next one is due, and how many there were');
select results_eq(
    'table status',
    $$values (1::bigint, 1::bigint, 1::bigint, null::bigint, null::text, 2000::bigint, 62000::bigint, 2000::bigint)$$,
    'the last breach is forgotten, the counts stay');
select is(
    (table usage), '{"tokens": [0, 50, 2000, 2000], "cost": [0, 0, 2000, 2000]}',
        'usage is zero in every dimension; what is set aside stays so');
select is_empty(
    $$select from flowfabric.ff_budget_usage_by_exec as x where x.budget_id = 'b1'$$, 'ledgers start anew');
select is(ff_tap.report(450, 'k'), 'already_applied', 'keys stay known');
select is(ff_tap.report(450), 'soft_breach', 'there is room again');
select is(ff_tap.report(1), 'hard_breach', 'beside what is set aside');
select is(
    (flowfabric.ff_settle_reservation(
        'b1', 'r', '{tokens}', '{10}', :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id())).outcome, 'soft_breach',
    'a reservation outlives a reset and is settled in the new period');
select is(((table usage) -> 'tokens'), '[460, 0, 2000, 2000]', 'to whose usage the actual amount goes');

select ff_tap.freeze_time(3000);
select results_eq(
    $$select r.* from flowfabric.ff_reset_budget('b1') as r$$, 'values (63000::bigint, 2::bigint)',
    'each call is another reset');
select results_eq(
    $$select r.* from flowfabric.ff_reset_budget('never') as r$$, 'values (0::bigint, 1::bigint)',
    'without an interval there is no next one');
select is(
    (flowfabric.ff_get_budget_status('never')).next_reset_at_ms, null, 'and none is scheduled');
select throws_ok(
    $$select flowfabric.ff_reset_budget('unknown')$$, 'ZN004', 'budget_not_found', 'an unknown budget is refused');
select throws_ok(
    $$select flowfabric.ff_reset_budget('')$$, 'ZV001', 'invalid_input', 'a budget id is a name');

select * from finish();
rollback;
