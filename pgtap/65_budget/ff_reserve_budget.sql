-- Reserving: an amount is set aside for a lease, or does not fit.
begin;
\ir ../helpers.sql
select plan(74);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 80000000);
select ff_tap.leased_execution(:'other', p_lease_expires_at_ms => 80000000);
select flowfabric.ff_create_budget(
    'b1', 'tenant', 'acme', '{tokens,cost}', '{100,10}', '{50,0}', p_on_hard_limit => 'stop');
select flowfabric.ff_create_budget('b2', 'tenant', 'acme');
create function ff_tap.reserve(
    p_dimensions text[], p_amounts bigint[], p_key text default null,
    p_execution_id text default '{fp:86}:00000000-0000-4000-8000-000000000001', p_budget_id text default 'b1')
returns flowfabric.ff_reservation
language sql volatile
as $$
    select r.*
    from flowfabric.ff_reserve_budget(
        p_budget_id, p_dimensions, p_amounts, p_execution_id, ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_key) as r
$$;
create function ff_tap.report(p_amount bigint)
returns text
language sql volatile
as $$
    select r.outcome
    from flowfabric.ff_report_usage_and_check(
        'b1', '{tokens}', array[p_amount], p_source => 'operator_override') as r
$$;
create function ff_tap.usage(p_budget_id text default 'b1')
returns jsonb
language sql stable
as $$
    select jsonb_object_agg(u.dimension, array[u.current_value, u.reserved_value])
    from flowfabric.ff_budget_usage as u
    where u.budget_id = p_budget_id
$$;

-- An amount
select results_eq(
    $$select to_jsonb(r) from ff_tap.reserve('{tokens}', '{60}', 'r1') as r$$,
    $$values ('{"outcome": "reserved", "budget_id": "b1", "reservation_key": "r1", "dimensions": ["tokens"],
    "amounts": [60],
        "dimension": null, "current_usage": null, "reserved_usage": null, "limit_value": null,
        "action": null}'::jsonb)$$,
    'an amount that fits is set aside');
select is(
    (select to_jsonb(r) from flowfabric.ff_budget_reservation as r),
    jsonb_build_object(
        'budget_id', 'b1', 'reservation_key', 'r1', 'partition_key', 86,
        'execution_id', '00000000-0000-4000-8000-000000000001', 'attempt_id', ff_tap.attempt_id(), 'lease_epoch', 1,
        'dimensions', '{tokens}'::text[], 'amounts', '{60}'::bigint[], 'state', 'open', 'reserved_at_ms', 1000,
        'closed_at_ms', null, 'close_reason', null, 'expires_at_ms', null),
    'for the lease that asked');
select is(ff_tap.usage(), '{"tokens": [0, 60]}', 'beside the usage');
select is(
    (select jsonb_build_array(e.open_reservation_count, e.last_mutation_at_ms) from ff_tap.core(:'execution') as e),
    '[1, 1000]', 'the execution counts it');
select is((flowfabric.ff_get_budget_status('b1')).updated_at_ms, 1000::bigint, 'the budget is dated');

-- The hard limit
select ff_tap.freeze_time(2000);
select results_eq(
    $$select to_jsonb(r) from ff_tap.reserve('{tokens}', '{60}', 'r2') as r$$,
    $$values ('{"outcome": "hard_breach", "budget_id": "b1", "reservation_key": "r2", "dimensions": null,
    "amounts": null,
        "dimension": "tokens", "current_usage": 0, "reserved_usage": 60, "limit_value": 100,
        "action": "stop"}'::jsonb)$$,
    'what does not fit beside it is refused, with the numbers');
select results_eq(
    $$select b.breach_count, b.soft_breach_count, b.last_breach_dim, b.last_breach_at_ms, b.updated_at_ms
      from flowfabric.ff_get_budget_status('b1') as b$$,
    $$values (1::bigint, 0::bigint, 'tokens', 2000::bigint, 2000::bigint)$$, 'and counts as a breach');
select is(ff_tap.usage(), '{"tokens": [0, 60]}', 'nothing is set aside');
select is((ff_tap.core(:'execution')).open_reservation_count, 1, 'and nothing is counted');
select is(ff_tap.report(41), 'hard_breach', 'a report of 41 does not fit either');
select is(ff_tap.report(40), 'ok', 'one of 40 does');
select is((ff_tap.reserve('{tokens}', '{1}')).outcome, 'hard_breach', 'nothing is left');
select flowfabric.ff_reset_budget('b1');
select is((ff_tap.reserve('{tokens}', '{40}', 'r2')).outcome, 'reserved',
    'a refused key is judged afresh; exactly the limit fits');
select is(
    (flowfabric._ff_exhausted_budget('{b1}'::text[])).detail, 'budget b1: tokens 100/100',
        'admission sees what is set aside');

-- Several dimensions
select results_eq(
    $$select r.outcome, r.dimension, r.current_usage, r.reserved_usage, r.limit_value
      from ff_tap.reserve('{free,cost}', '{5,11}', 'r3') as r$$,
    $$values ('hard_breach', 'cost', 0::bigint, 0::bigint, 10::bigint)$$, 'if one dimension does not fit');
select is(ff_tap.usage(), '{"tokens": [0, 100]}', 'none is set aside');
select is((ff_tap.reserve('{free,cost}', '{5,10}', 'r3')).outcome, 'reserved', 'if all fit');
select is(
    ff_tap.usage(), '{"tokens": [0, 100], "free": [0, 5], "cost": [0, 10]}', 'all are, also without a limit');
select is((ff_tap.core(:'execution')).open_reservation_count, 3, 'as one reservation');

-- Keys
select results_eq(
    $$select r.outcome, r.reservation_key, r.dimensions, r.amounts from ff_tap.reserve('{x}', '{7}', 'r3') as r$$,
    $$values ('already_reserved', 'r3', '{free,cost}'::text[], '{5,10}'::bigint[])$$,
    'the same key answers with what was set aside, whatever is asked for');
select is((ff_tap.core(:'execution')).open_reservation_count, 3, 'and nothing is counted twice');
select ok(
    (select r.outcome = 'reserved' and r.reservation_key ~ '^[0-9a-f-]{36}$'
     from ff_tap.reserve('{x}', '{1}', p_budget_id => 'b2') as r), 'without a key one is made');
select ok(
    (select r.outcome = 'reserved' and r.reservation_key ~ '^[0-9a-f-]{36}$'
     from ff_tap.reserve('{x}', '{1}', '', p_budget_id => 'b2') as r), 'an empty key is none');
select is(
    (ff_tap.reserve('{x}', '{1}', 'r1', p_budget_id => 'b2')).outcome, 'reserved',
        'the key of one budget is not that of another');
select is(
    (ff_tap.reserve('{x}', '{1}', repeat('k', 512), p_budget_id => 'b2')).outcome, 'reserved',
        'a key has up to 512 bytes');
select is(
    ff_tap.error_of(format($$select ff_tap.reserve('{x}', '{1}', 'r3', %L)$$, :'other')),
    '{"code": "invalid_input", "fn": "ff_reserve_budget", "field": "reservation_key", "reason": "in_use",
    "value": "r3"}',
    'the key of another execution''s reservation is in use');
select flowfabric.ff_settle_reservation(
    'b1', 'r3', '{free}', '{5}', :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.error_of($$select ff_tap.reserve('{x}', '{1}', 'r3')$$),
    '{"code": "reservation_not_open", "fn": "ff_reserve_budget", "budget_id": "b1", "reservation_key": "r3",
    "state": "settled"}',
    'a key that was settled is not open');
select throws_ok(
    $$select ff_tap.reserve('{x}', '{1}', 'r3')$$, 'ZS036', 'reservation_not_open', 'with a code of its own');
select flowfabric.ff_release_reservation(
    'b1', 'r2', :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.error_of(format($$select ff_tap.reserve('{x}', '{1}', 'r2', %L)$$, :'other')) ->> 'state', 'released',
    'nor is one that was released, for anybody');
select ff_tap.freeze_time(86401999);
update flowfabric.ff_exec_core set lease_expires_at_ms = 99999999;
select throws_ok(
    $$select ff_tap.reserve('{x}', '{1}', 'r2')$$, 'ZS036', 'reservation_not_open', 'for 24 hours');
select ff_tap.freeze_time(86402000);
select is((ff_tap.reserve('{x}', '{1}', 'r2')).outcome, 'reserved', 'then the key is free, swept or not');
select is(
    (select jsonb_build_array(r.state, r.dimensions, r.reserved_at_ms, r.closed_at_ms)
     from flowfabric.ff_budget_reservation as r where r.budget_id = 'b1' and r.reservation_key = 'r2'),
    '["open", ["x"], 86402000, null]', 'and belongs to the new reservation');
select is(
    (select r.outcome from ff_tap.reserve('{x}', '{1}', 'r1') as r), 'already_reserved',
        'an open reservation does not age');

-- Numbers at the end of the range
select is(
    (ff_tap.reserve('{huge}', '{9223372036854775807}', 'h1', p_budget_id => 'b2')).outcome, 'reserved',
        'the whole range may be set aside');
select is(
    ff_tap.error_of($$select ff_tap.reserve('{huge}', '{1}', 'h2', p_budget_id => 'b2')$$) - array['code', 'fn'],
    '{"field": "amounts", "reason": "out_of_range", "value": "1"}', 'and no more');
select is(
    ff_tap.error_of($$select flowfabric.ff_report_usage_and_check(
        'b2', '{huge}', '{1}', p_source => 'operator_override')$$) ->> 'field', 'deltas',
    'usage beside it would not fit either');
select is(
    (ff_tap.reserve('{tokens}', '{9223372036854775700}', 'h3')).outcome, 'hard_breach',
        'a limit is compared without overflow');
select is_empty(
    $$select from flowfabric.ff_check_invariants() as i where i.check_name like '%reservations'$$,
    'the sums are right');

-- The fence, before anything about the budget
select ff_tap.refuses_bad_fences(
    $$select flowfabric.ff_reserve_budget('unknown', '{tokens}', '{1}', %1$L, %2$L, %3$L, %4$L)$$, false);
select throws_ok(
    $$select ff_tap.reserve('{tokens}', '{1}', p_budget_id => 'unknown')$$, 'ZN004', 'budget_not_found',
    'after a good fence an unknown budget is refused');

-- A lease later: the old reservations are back, their keys are closed
select ff_tap.freeze_time(99999999);
select flowfabric.ff_issue_reclaim_grant(:'execution', 'pool', 'pool-1');
select flowfabric.ff_reclaim_execution(:'execution', 'pool', 'pool-1');
select is((ff_tap.usage()) -> 'tokens', '[0, 0]', 'a reclaim returns what the lost lease had set aside');
select is(
    (select ff_tap.error_of(format(
        $$select flowfabric.ff_reserve_budget('b1', '{x}', '{1}', %L, %L, %s, %L, 'r1')$$, :'execution',
        e.current_lease_id,
        e.current_lease_epoch, e.current_attempt_id)) ->> 'state' from ff_tap.core(:'execution') as e), 'released',
    'the next lease needs keys of its own');

-- Arguments, before the fence
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_reserve_budget(%L, %L, %L, %L, null, null, null, %L)$$, b.budget_id, b.dimensions,
        b.amounts,
        :'execution', b.key)) - array['code', 'fn', 'value'],
    b.detail::jsonb, b.fact)
from (values
    ('a b', '{a}', '{1}', null, '{"field": "budget_id", "reason": "space_or_control"}', 'a budget id is a name'),
    ('b1', '{}', '{}', null, '{"field": "dimensions", "reason": "empty"}', 'something is to be set aside'),
    ('b1', '{a}', '{1,2}', null, '{"field": "amounts", "reason": "length_mismatch"}', 'one amount per dimension'),
    ('b1', '{a,a}', '{1,2}', null, '{"field": "dimensions", "reason": "duplicate"}', 'a dimension is named once'),
    ('b1', '{a}', '{0}', null, '{"field": "amounts", "reason": "out_of_range"}', 'an amount is at least 1'),
    ('b1', '{a}', '{-5}', null, '{"field": "amounts", "reason": "out_of_range"}', 'and not negative'),
    ('b1', '{a}', '{NULL}', null, '{"field": "amounts", "reason": "null"}', 'and a number'),
    ('b1', '{a}', '{1}', repeat('k', 513), '{"field": "reservation_key", "reason": "too_long"}',
        'a key has at most 512 bytes')
) as b (budget_id, dimensions, amounts, key, detail, fact);

-- A key outlives its execution
\set brief '{fp:86}:00000000-0000-4000-8000-00000000000b'
\set later '{fp:86}:00000000-0000-4000-8000-00000000000c'
select ff_tap.freeze_time(200000000);
select ff_tap.leased_execution(:'brief');
select ff_tap.reserve('{tokens}', '{1}', 'once', :'brief', 'b2');
select flowfabric.ff_complete_execution(:'brief', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select flowfabric.ff_trim_retention(p_retention_ms => 0);
select ff_tap.leased_execution(:'later', p_lease_expires_at_ms => 200000000 + 86400000);
select is(
    ff_tap.error_of(format($$select ff_tap.reserve('{tokens}', '{1}', 'once', %L, 'b2')$$, :'later')) ->> 'code',
    'reservation_not_open', 'the key of a closed reservation stays used when its execution is deleted');
select ff_tap.freeze_time(200000000 + 86400000 - 1);
select is(
    ff_tap.error_of(format($$select ff_tap.reserve('{tokens}', '{1}', 'once', %L, 'b2')$$, :'later')) ->> 'code',
    'reservation_not_open', 'until it expires');
select flowfabric.ff_renew_lease(
    :'later', ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_lease_ttl_ms => 60000);
select ff_tap.freeze_time(200000000 + 86400000);
select is(
    (select r.outcome from ff_tap.reserve('{tokens}', '{1}', 'once', :'later', 'b2') as r), 'reserved',
    'then it can be used again');

select * from finish();
rollback;
