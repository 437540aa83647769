-- Recorded spends: as usage reports, with a ledger per execution.
begin;
\ir ../helpers.sql
select plan(54);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'
\set gone '{fp:86}:00000000-0000-4000-8000-000000000009'
select ff_tap.leased_execution(:'execution'), ff_tap.leased_execution(:'other');
select flowfabric.ff_create_budget('b1', 'tenant', 'acme', '{tokens}', '{100}', '{80}');
create function ff_tap.spend(
    p_execution_id text, p_dimensions text[], p_deltas bigint[], p_key text default null, p_budget_id text default 'b1')
returns flowfabric.ff_usage_report
language sql volatile
as $$
    select r.*
    from flowfabric.ff_record_spend(
        p_budget_id, p_dimensions, p_deltas, p_execution_id, p_key, ff_tap.lease_id(), 1, ff_tap.attempt_id()) as r
$$;
create function ff_tap.ledger(p_execution_id text)
returns jsonb
language sql stable
as $$
    select coalesce(jsonb_object_agg(x.budget_id || ':' || x.dimension, array[x.delta_total, x.updated_at_ms]), '{}')
    from flowfabric.ff_budget_usage_by_exec as x, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where x.partition_key = k.partition_key and x.execution_id = k.execution_id
$$;
create function ff_tap.usage(p_dimension text)
returns bigint
language sql stable
as $$ select u.current_value from flowfabric.ff_budget_usage as u
    where u.budget_id = 'b1' and u.dimension = p_dimension $$;

select results_eq(
    format($$select r.* from ff_tap.spend(%L, '{tokens,calls}', '{30,1}', 'k1') as r$$, :'execution'),
    $$values ('ok', null::text, null::bigint, null::bigint, null::text)$$, 'a spend is booked');
select is(ff_tap.ledger(:'execution'), '{"b1:tokens": [30, 1000], "b1:calls": [1, 1000]}',
    'and mirrored in the ledger');
select ff_tap.freeze_time(1100);
select is(
    (ff_tap.spend(:'execution', '{tokens}', '{30}', 'k1')).outcome, 'already_applied', 'a repeat is not booked');
select is(ff_tap.ledger(:'execution'), '{"b1:tokens": [30, 1000], "b1:calls": [1, 1000]}', 'and leaves the ledger');
select is((ff_tap.spend(:'execution', '{tokens}', '{10}', 'k2')).outcome, 'ok', 'another spend');
select is(
    ff_tap.ledger(:'execution'), '{"b1:tokens": [40, 1100], "b1:calls": [1, 1000]}', 'accumulates');
select results_eq(
    format($$select r.* from ff_tap.spend(%L, '{tokens}', '{45}') as r$$, :'other'),
    $$values ('soft_breach', 'tokens', 85::bigint, 80::bigint, 'warn')$$, 'a soft breach is booked');
select is(ff_tap.ledger(:'other'), '{"b1:tokens": [45, 1100]}', 'into the ledger of its own execution');
select results_eq(
    format($$select r.* from ff_tap.spend(%L, '{calls,tokens}', '{1,16}', 'k3') as r$$, :'other'),
    $$values ('hard_breach', 'tokens', 85::bigint, 100::bigint, 'fail')$$, 'a hard breach is not');
select is(
    row(ff_tap.ledger(:'other'), ff_tap.usage('tokens'), ff_tap.usage('calls')),
    row('{"b1:tokens": [45, 1100]}'::jsonb, 85::bigint, 1::bigint), 'neither into the usage nor into the ledger');
select flowfabric.ff_reset_budget('b1');
select is((ff_tap.spend(:'other', '{calls,tokens}', '{1,16}', 'k3')).outcome, 'ok', 'its key is free after a reset');
select is(
    ff_tap.ledger(:'other'), '{"b1:tokens": [16, 1100], "b1:calls": [1, 1100]}',
    'and the ledger holds what was spent since');
select is(
    (flowfabric.ff_report_usage_and_check(
        'b1', '{tokens}', '{1}', 'k3', :'other', ff_tap.lease_id(), 1, ff_tap.attempt_id())).outcome, 'already_applied',
    'reports and spends share the keys of a budget');
select is((ff_tap.spend(:'other', '{calls}', '{0}')).outcome, 'ok', 'a spend of nothing is welcome');

-- Overflow
select is((ff_tap.spend(:'other', '{huge}', '{9223372036854775807}')).outcome, 'ok', 'a ledger may fill the range');
select is(
    ff_tap.error_of(format($$select ff_tap.spend(%L, '{huge}', '{1}')$$, :'execution')) - array['code', 'fn'],
    '{"field": "deltas", "reason": "out_of_range", "value": "1"}', 'usage beyond it is refused');

-- Operators
select is(
    (flowfabric.ff_record_spend('b1', '{tokens}', '{2}', :'gone', p_source => 'operator_override')).outcome, 'ok',
        'an operator may book for an execution that is gone');
select is(ff_tap.ledger(:'gone'), '{"b1:tokens": [2, 1100]}', 'into its ledger');
select flowfabric.ff_complete_execution(:'other', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    (flowfabric.ff_record_spend('b1', '{tokens}', '{2}', :'other', p_source => 'operator_override')).outcome, 'ok',
        'or that has ended');
select throws_ok(
    format(
        $$select flowfabric.ff_record_spend('b1', '{tokens}', '{2}', %L, null, %L, 2, %L, 'operator_override')$$,
        :'execution', ff_tap.lease_id(), ff_tap.attempt_id()),
    'ZS001', 'stale_lease', 'an override that shows a fence is held to it');
select throws_ok(
    format(
        $$select ff_tap.as_role('flowfabric_worker', %L)$$,
        format(
            $$select flowfabric.ff_record_spend('unknown', '{tokens}', '{2}', %L, p_source => 'operator_override')$$,
            :'execution')),
    'ZV017', 'unauthorized', 'a worker cannot override');
select throws_ok(
    format(
        $$select ff_tap.as_role('flowfabric_worker', %L)$$,
        format(
            $$select flowfabric.ff_record_spend('b1', '{tokens}', '{2}', %L, null, %L, 1, %L, 'operator_override')$$,
            :'execution', ff_tap.lease_id(), ff_tap.attempt_id())),
    'ZV017', 'unauthorized', 'not even with a good fence');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_record_spend('b1', '{tokens}', '{2}', %L, p_source => 'me')$$, :'execution'))
    - array['code', 'fn'],
    '{"field": "source", "reason": "unknown", "value": "me"}', 'there is one source');

-- The fence, before anything about the budget
select ff_tap.refuses_bad_fences(
    $$select flowfabric.ff_record_spend('unknown', '{tokens}', '{1}', %1$L, null, %2$L, %3$L, %4$L)$$, false);
select throws_ok(
    format($$select ff_tap.spend(%L, '{tokens}', '{1}', null, 'unknown')$$, :'execution'), 'ZN004', 'budget_not_found',
    'after a good fence an unknown budget is refused');

-- Arguments
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_record_spend(%L, %L, %L, %L, %L)$$, b.budget_id, b.dimensions, b.deltas, b.execution_id,
        b.key)) - array['code', 'fn', 'value'],
    b.detail::jsonb, b.fact)
from (values
    ('', '{a}', '{1}', :'execution', null, '{"field": "budget_id", "reason": "empty"}', 'a budget id is a name'),
    ('b1', '{a}', null, :'execution', null, '{"field": "deltas", "reason": "null"}', 'deltas are required'),
    ('b1', '{a,b}', '{1}', :'execution', null, '{"field": "deltas", "reason": "length_mismatch"}',
        'one delta per dimension'),
    ('b1', '{a,b,a}', '{1,2,3}', :'execution', null, '{"field": "dimensions", "reason": "duplicate"}',
        'a dimension is named once'),
    ('b1', '{a,b}', '{1,-2}', :'execution', null, '{"field": "deltas", "reason": "out_of_range"}',
        'a spend is not negative'),
    ('b1', '{a}', '{1}', null, null, '{"field": "execution_id", "reason": "null"}', 'an execution is required'),
    ('b1', '{a}', '{1}', :'execution', repeat('k', 513), '{"field": "idempotency_key", "reason": "too_long"}',
        'a key has at most 512 bytes')
) as b (budget_id, dimensions, deltas, execution_id, key, detail, fact);
select is(
    (select array_agg(b.x order by b.x) from (select x.budget_id || ':' || x.dimension as x
     from flowfabric.ff_budget_usage_by_exec as x where x.dimension in ('a', 'b')) as b), null,
    'a refusal books nothing');

select * from finish();
rollback;
