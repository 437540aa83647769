-- Releasing a reservation: the amount is available again, and nothing was used.
begin;
\ir ../helpers.sql
select plan(56);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 80000000);
select ff_tap.leased_execution(:'other', p_lease_expires_at_ms => 80000000);
select flowfabric.ff_create_budget('b1', 'tenant', 'acme', '{tokens}', '{100}', '{0}');
create function ff_tap.reserve(p_amount bigint, p_key text)
returns text
language sql volatile
as $$
    select r.outcome
    from flowfabric.ff_reserve_budget(
        'b1', '{tokens,calls}', array[p_amount, 1], '{fp:86}:00000000-0000-4000-8000-000000000001', ff_tap.lease_id(),
        1,
        ff_tap.attempt_id(), p_key) as r
$$;
create function ff_tap.release(
    p_key text, p_execution_id text default '{fp:86}:00000000-0000-4000-8000-000000000001')
returns text
language sql volatile
as $$
    select r.outcome
    from flowfabric.ff_release_reservation(
        'b1', p_key, p_execution_id, ff_tap.lease_id(), 1, ff_tap.attempt_id()) as r
$$;
create function ff_tap.usage()
returns jsonb
language sql stable
as $$
    select jsonb_object_agg(u.dimension, array[u.current_value, u.reserved_value])
    from flowfabric.ff_budget_usage as u where u.budget_id = 'b1'
$$;

select is(ff_tap.reserve(60, 'r1'), 'reserved', 'an amount is set aside');
select is(ff_tap.reserve(60, 'r2'), 'hard_breach', 'and leaves no room for another');
select ff_tap.freeze_time(2000);
select is(ff_tap.release('r1'), 'released', 'it is given back');
select is(ff_tap.usage(), '{"tokens": [0, 0], "calls": [0, 0]}', 'in every dimension, and nothing was used');
select is(
    (select jsonb_build_array(r.state, r.closed_at_ms, r.close_reason, r.expires_at_ms)
     from flowfabric.ff_budget_reservation as r),
    '["released", 2000, "released", 86402000]', 'the reservation is closed');
select is(
    (select jsonb_build_array(e.open_reservation_count, e.last_mutation_at_ms) from ff_tap.core(:'execution') as e),
    '[0, 2000]', 'and the execution counts it no longer');
select results_eq(
    $$select b.breach_count, b.updated_at_ms from flowfabric.ff_get_budget_status('b1') as b$$,
    'values (1::bigint, 2000::bigint)', 'breaches that happened have happened');
select is(ff_tap.reserve(60, 'r2'), 'reserved', 'there is room again at once');
select is(ff_tap.release('r1'), 'already_released', 'a repeat says so');
select is(ff_tap.usage() -> 'tokens', '[0, 60]', 'and gives nothing back');

select ff_tap.reserve(1, 'r3');
select flowfabric.ff_settle_reservation(
    'b1', 'r3', '{tokens}', '{1}', :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.error_of($$select ff_tap.release('r3')$$),
    '{"code": "reservation_not_open", "fn": "ff_release_reservation", "budget_id": "b1", "reservation_key": "r3",
    "state": "settled"}',
    'what was settled cannot be given back');
select throws_ok($$select ff_tap.release('r3')$$, 'ZS036', 'reservation_not_open', 'with a code of its own');
select throws_ok(
    $$select ff_tap.release('unknown')$$, 'ZN007', 'reservation_not_found', 'an unknown key is not found');
select is(
    ff_tap.error_of(format($$select ff_tap.release('r2', %L)$$, :'other')),
    '{"code": "reservation_not_found", "fn": "ff_release_reservation", "budget_id": "b1", "reservation_key": "r2"}',
    'nor is that of another execution');

-- Operators
select throws_ok(
    format(
        $$select flowfabric.ff_release_reservation('b1', 'r2', %L, p_source => 'operator_override')$$, :'other'),
    'ZN007', 'reservation_not_found', 'an operator names the execution that holds it');
select is(
    (flowfabric.ff_release_reservation('b1', 'r2', :'execution', p_source => 'operator_override')).outcome, 'released',
        'and then needs no fence');
select is(ff_tap.usage() -> 'tokens', '[1, 0]', 'the amount is back');
select is((ff_tap.core(:'execution')).open_reservation_count, 0, 'and counted no longer');
select ff_tap.reserve(5, 'r4');
select throws_ok(
    format(
        $$select ff_tap.as_role('flowfabric_worker', %L)$$,
        format(
            $$select flowfabric.ff_release_reservation('b1', 'r4', %L, p_source => 'operator_override')$$,
            :'execution')),
    'ZV017', 'unauthorized', 'a worker cannot override');
select lives_ok(
    format(
        $$select ff_tap.as_role('flowfabric_operator', %L)$$,
        format(
            $$select flowfabric.ff_release_reservation('b1', 'r4', %L, p_source => 'operator_override')$$,
            :'execution')),
    'an operator can');
select flowfabric.ff_revoke_lease(:'execution');
select flowfabric.ff_issue_reclaim_grant(:'execution', 'pool', 'pool-1');
select flowfabric.ff_reclaim_execution(:'execution', 'pool', 'pool-1');
select is(
    (flowfabric.ff_release_reservation('b1', 'r4', :'execution', p_source => 'operator_override')).outcome,
        'already_released', 'an operator also finds what an earlier lease gave back');
select throws_ok(
    format(
        $$select flowfabric.ff_release_reservation('b1', 'r4', %L, %L, %s, %L)$$, e.id, e.lease_id, e.epoch,
        e.attempt_id),
    'ZN007', 'reservation_not_found', 'a worker does not')
from (
    select :'execution' as id, c.current_lease_id as lease_id, c.current_lease_epoch as epoch,
        c.current_attempt_id as attempt_id
    from ff_tap.core(:'execution') as c
) as e;

-- The fence, before anything about the budget
select ff_tap.refuses_bad_fences(
    $$select flowfabric.ff_release_reservation('unknown', 'key', %1$L, %2$L, %3$L, %4$L, %5$L)$$);
select throws_ok(
    format(
        $$select flowfabric.ff_release_reservation('unknown', 'key', %L, p_source => 'operator_override')$$, :'other'),
    'ZN004', 'budget_not_found', 'after a good fence an unknown budget is refused');

-- Arguments, before the fence
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_release_reservation(%L, %L, %L)$$, b.budget_id, b.key, :'execution'))
    - array['code', 'fn', 'value'],
    b.detail::jsonb, b.fact)
from (values
    (null, 'k', '{"field": "budget_id", "reason": "null"}', 'a budget id is required'),
    ('b1', null, '{"field": "reservation_key", "reason": "null"}', 'a key is required'),
    ('b1', '', '{"field": "reservation_key", "reason": "empty"}', 'and not empty'),
    ('b1', repeat('k', 513), '{"field": "reservation_key", "reason": "too_long"}', 'with at most 512 bytes')
) as b (budget_id, key, detail, fact);
select is_empty(
    $$select from flowfabric.ff_check_invariants() as i where i.check_name like '%reservations'$$,
    'the sums are right');

select * from finish();
rollback;
