-- Settling: the actual amount takes the place of the reservation, whatever the limits say.
begin;
\ir ../helpers.sql
select plan(71);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 80000000);
select ff_tap.leased_execution(:'other', p_lease_expires_at_ms => 80000000);
select flowfabric.ff_create_budget(
    'b1', 'tenant', 'acme', '{tokens,cost}', '{70,10}', '{50,5}', p_on_hard_limit => 'stop', p_on_soft_limit => 'log');
create function ff_tap.reserve(p_dimensions text[], p_amounts bigint[], p_key text)
returns text
language sql volatile
as $$
    select r.outcome
    from flowfabric.ff_reserve_budget(
        'b1', p_dimensions, p_amounts, '{fp:86}:00000000-0000-4000-8000-000000000001', ff_tap.lease_id(), 1,
        ff_tap.attempt_id(), p_key) as r
$$;
create function ff_tap.settle(
    p_key text, p_dimensions text[], p_actuals bigint[],
    p_execution_id text default '{fp:86}:00000000-0000-4000-8000-000000000001')
returns flowfabric.ff_usage_report
language sql volatile
as $$
    select s.*
    from flowfabric.ff_settle_reservation(
        'b1', p_key, p_dimensions, p_actuals, p_execution_id, ff_tap.lease_id(), 1, ff_tap.attempt_id()) as s
$$;
create function ff_tap.usage()
returns jsonb
language sql stable
as $$
    select jsonb_object_agg(u.dimension, array[u.current_value, u.reserved_value])
    from flowfabric.ff_budget_usage as u where u.budget_id = 'b1'
$$;
create function ff_tap.ledger()
returns jsonb
language sql stable
as $$ select jsonb_object_agg(x.dimension, x.delta_total) from flowfabric.ff_budget_usage_by_exec as x $$;
create function ff_tap.breaches()
returns text
language sql stable
as $$
    select format('hard %s, soft %s, last %s@%s', b.breach_count, b.soft_breach_count, b.last_breach_dim,
    b.last_breach_at_ms)
    from flowfabric.ff_budget_policy as b where b.budget_id = 'b1'
$$;

-- Less than reserved
select is(ff_tap.reserve('{tokens}', '{60}', 'r1'), 'reserved', 'an amount is set aside');
select ff_tap.freeze_time(2000);
select results_eq(
    $$select s.* from ff_tap.settle('r1', '{tokens}', '{25}') as s$$,
    $$values ('settled', null::text, null::bigint, null::bigint, null::text)$$, 'and settled with less');
select is(ff_tap.usage(), '{"tokens": [25, 0]}', 'what was used is usage, nothing is set aside');
select is(ff_tap.ledger(), '{"tokens": 25}', 'the ledger of the execution has it');
select is(
    (select jsonb_build_array(r.state, r.closed_at_ms, r.close_reason, r.expires_at_ms, r.amounts)
     from flowfabric.ff_budget_reservation as r),
    '["settled", 2000, "settled", 86402000, [60]]', 'the reservation is closed');
select is(
    (select jsonb_build_array(e.open_reservation_count, e.last_mutation_at_ms) from ff_tap.core(:'execution') as e),
    '[0, 2000]', 'and the execution counts it no longer');
select is(ff_tap.breaches(), 'hard 0, soft 0, last @', 'without a breach');
select results_eq(
    $$select s.* from ff_tap.settle('r1', '{tokens}', '{99}') as s$$,
    $$values ('already_settled', null::text, null::bigint, null::bigint, null::text)$$, 'a repeat says so');
select is(ff_tap.usage(), '{"tokens": [25, 0]}', 'and books nothing');

-- Other dimensions than reserved
select ff_tap.reserve('{tokens,cost}', '{10,5}', 'r2');
select results_eq(
    $$select s.* from ff_tap.settle('r2', '{calls,cost}', '{3,5}') as s$$,
    $$values ('settled', null::text, null::bigint, null::bigint, null::text)$$,
    'a dimension that is left out counts nothing, one that was not reserved is welcome');
select is(ff_tap.usage(), '{"tokens": [25, 0], "cost": [5, 0], "calls": [3, 0]}', 'what was used is booked');
select is(ff_tap.ledger(), '{"tokens": 25, "cost": 5, "calls": 3}', 'in the ledger too');
select ff_tap.reserve('{tokens}', '{10}', 'r3');
select is((ff_tap.settle('r3', '{}', '{}')).outcome, 'settled', 'nothing used is nothing booked');
select is(ff_tap.usage() -> 'tokens', '[25, 0]', 'and nothing set aside');

-- More than reserved, and limits
select ff_tap.reserve('{tokens}', '{10}', 'r4');
select is((ff_tap.settle('r4', '{tokens}', '{25}')).outcome, 'settled', 'exactly the soft limit is no breach');
select ff_tap.reserve('{tokens}', '{10}', 'r5');
select results_eq(
    $$select s.* from ff_tap.settle('r5', '{tokens}', '{20}') as s$$,
    $$values ('soft_breach', 'tokens', 70::bigint, 50::bigint, 'log')$$,
    'above it is one; exactly the hard limit is no hard one');
select is(ff_tap.breaches(), 'hard 0, soft 1, last @', 'and is counted');
select flowfabric.ff_reset_budget('b1');
select ff_tap.freeze_time(3000);
select ff_tap.reserve('{tokens}', '{60}', 'r6');
select results_eq(
    $$select s.* from ff_tap.settle('r6', '{tokens}', '{80}') as s$$,
    $$values ('hard_breach', 'tokens', 80::bigint, 70::bigint, 'stop')$$,
    'beyond the hard limit it is booked all the same');
select is(ff_tap.usage() -> 'tokens', '[80, 0]', 'for the money is spent');
select is(ff_tap.ledger(), '{"tokens": 80}', 'and can be traced');
select is(ff_tap.breaches(), 'hard 1, soft 1, last tokens@3000', 'as a hard breach and no soft one');
select is(ff_tap.reserve('{tokens}', '{1}', 'r7'), 'hard_breach', 'the next reservation is refused');
select is(
    (flowfabric.ff_report_usage_and_check('b1', '{tokens}', '{1}', p_source => 'operator_override')).outcome,
        'hard_breach', 'and so is the next report');
select ff_tap.reserve('{cost}', '{1}', 'r8');
select results_eq(
    $$select s.outcome, s.dimension from ff_tap.settle('r8', '{cost,tokens}', '{6,1}') as s$$,
    $$values ('hard_breach', 'tokens')$$, 'a hard breach goes before a soft one, in whatever order');

-- Numbers at the end of the range
select flowfabric.ff_reset_budget('b1');
select ff_tap.reserve('{huge}', '{9223372036854775807}', 'h1');
select is(
    (ff_tap.settle('h1', '{huge}', '{9223372036854775807}')).outcome, 'settled',
        'all that was set aside may be used');
select is(ff_tap.usage() -> 'huge', '[9223372036854775807, 0]', 'to the last');
select ff_tap.reserve('{other}', '{1}', 'h2');
select is(
    ff_tap.error_of($$select ff_tap.settle('h2', '{other,huge}', '{1,1}')$$) - array['code', 'fn'],
    '{"field": "actuals", "reason": "out_of_range", "value": "1"}', 'usage beyond the range is refused');
select is(ff_tap.usage() -> 'other', '[0, 1]', 'and the reservation stays open');

-- Whose it is
select throws_ok(
    $$select ff_tap.settle('unknown', '{tokens}', '{1}')$$, 'ZN007', 'reservation_not_found', 'an unknown key');
select is(
    ff_tap.error_of(format($$select ff_tap.settle('h2', '{tokens}', '{1}', %L)$$, :'other')),
    '{"code": "reservation_not_found", "fn": "ff_settle_reservation", "budget_id": "b1", "reservation_key": "h2"}',
    'another execution does not find it');
-- By hand: no lease leaves an open reservation to the next one.
update flowfabric.ff_budget_reservation as r set lease_epoch = 0 where r.reservation_key = 'h2';
select throws_ok(
    $$select ff_tap.settle('h2', '{tokens}', '{1}')$$, 'ZN007', 'reservation_not_found', 'nor does another lease');
update flowfabric.ff_budget_reservation as r set lease_epoch = 1, attempt_id = gen_random_uuid()
where r.reservation_key = 'h2';
select throws_ok(
    $$select ff_tap.settle('h2', '{tokens}', '{1}')$$, 'ZN007', 'reservation_not_found', 'or another attempt');
update flowfabric.ff_budget_reservation as r set attempt_id = ff_tap.attempt_id() where r.reservation_key = 'h2';
select flowfabric.ff_release_reservation('b1', 'h2', :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.error_of($$select ff_tap.settle('h2', '{tokens}', '{1}')$$),
    '{"code": "reservation_not_open", "fn": "ff_settle_reservation", "budget_id": "b1", "reservation_key": "h2",
    "state": "released"}',
    'what was given back cannot be settled');
select throws_ok(
    $$select ff_tap.settle('h2', '{tokens}', '{1}')$$, 'ZS036', 'reservation_not_open', 'with a code of its own');
select ff_tap.freeze_time(86401999);
update flowfabric.ff_exec_core set lease_expires_at_ms = 99999999;
select is((ff_tap.settle('r1', '{tokens}', '{1}')).outcome, 'already_settled', 'a settlement is known for 24 hours');
select ff_tap.freeze_time(86402000);
select throws_ok(
    $$select ff_tap.settle('r1', '{tokens}', '{1}')$$, 'ZN007', 'reservation_not_found', 'then its key is unknown');

-- A lost lease
select ff_tap.reserve('{tokens}', '{9}', 'late');
select ff_tap.freeze_time(99999999);
select throws_ok(
    $$select ff_tap.settle('late', '{tokens}', '{9}')$$, 'ZS002', 'lease_expired',
    'after its lease a worker settles nothing');
select flowfabric.ff_mark_lease_expired_if_due(:'execution');
select is(ff_tap.usage() -> 'tokens', '[0, 0]', 'with the mark of the expiry the amount is back');
select flowfabric.ff_issue_reclaim_grant(:'execution', 'pool', 'pool-1');
select flowfabric.ff_reclaim_execution(:'execution', 'pool', 'pool-1');
select throws_ok(
    $$select ff_tap.settle('late', '{tokens}', '{9}')$$, 'ZS001', 'stale_lease', 'after a reclaim even less');
select is(ff_tap.usage() -> 'tokens', '[0, 0]', 'the amount came back once');

-- The fence, before anything about the budget
select ff_tap.refuses_bad_fences(
    $$select flowfabric.ff_settle_reservation('unknown', 'key', '{tokens}', '{1}', %1$L, %2$L, %3$L, %4$L)$$, false);
select throws_ok(
    format(
        $$select flowfabric.ff_settle_reservation('unknown', 'key', '{tokens}', '{1}', %L, %L, 1, %L)$$, :'other',
        ff_tap.lease_id(), ff_tap.attempt_id()),
    'ZN004', 'budget_not_found', 'after a good fence an unknown budget is refused');

-- Arguments, before the fence
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_settle_reservation(%L, %L, %L, %L, %L, null, null, null)$$, b.budget_id, b.key,
        b.dimensions,
        b.actuals, :'execution')) - array['code', 'fn', 'value'],
    b.detail::jsonb, b.fact)
from (values
    ('', 'k', '{a}', '{1}', '{"field": "budget_id", "reason": "empty"}', 'a budget id is a name'),
    ('b1', null, '{a}', '{1}', '{"field": "reservation_key", "reason": "null"}', 'a key is required'),
    ('b1', '', '{a}', '{1}', '{"field": "reservation_key", "reason": "empty"}', 'and not empty'),
    ('b1', repeat('k', 513), '{a}', '{1}', '{"field": "reservation_key", "reason": "too_long"}',
        'with at most 512 bytes'),
    ('b1', 'k', '{a}', '{1,2}', '{"field": "actuals", "reason": "length_mismatch"}', 'one amount per dimension'),
    ('b1', 'k', '{a,a}', '{1,2}', '{"field": "dimensions", "reason": "duplicate"}', 'a dimension is named once'),
    ('b1', 'k', '{a}', '{-1}', '{"field": "actuals", "reason": "out_of_range"}', 'an amount is not negative')
) as b (budget_id, key, dimensions, actuals, detail, fact);
select is_empty(
    $$select from flowfabric.ff_check_invariants() as i where i.check_name like '%reservations'$$,
    'the sums are right');

select * from finish();
rollback;
