-- Usage reports: all dimensions or none, never beyond a hard limit, once per key.
begin;
\ir ../helpers.sql
select plan(103);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 80000000);
select flowfabric.ff_create_budget(
    'b1', 'tenant', 'acme', '{tokens,cost,calls}', '{100,10,0}', '{80,8,3}', p_on_hard_limit => 'stop',
    p_on_soft_limit => 'log');
select flowfabric.ff_create_budget('b2', 'tenant', 'acme', '{tokens}', '{5}', '{0}');
create function ff_tap.report(
    p_dimensions text[], p_deltas bigint[], p_key text default null, p_budget_id text default 'b1')
returns flowfabric.ff_usage_report
language sql volatile
as $$
    select r.*
    from flowfabric.ff_report_usage_and_check(
        p_budget_id, p_dimensions, p_deltas, p_key, '{fp:86}:00000000-0000-4000-8000-000000000001', ff_tap.lease_id(),
        1,
        ff_tap.attempt_id()) as r
$$;
create function ff_tap.usage(p_budget_id text default 'b1')
returns jsonb
language sql stable
as $$
    select coalesce(jsonb_object_agg(u.dimension, u.current_value), '{}')
    from flowfabric.ff_budget_usage as u
    where u.budget_id = p_budget_id
$$;
create function ff_tap.breaches(p_budget_id text default 'b1')
returns text
language sql stable
as $$
    select format(
        'hard %s, soft %s, last %s@%s, updated %s', b.breach_count, b.soft_breach_count, b.last_breach_dim,
        b.last_breach_at_ms, b.updated_at_ms)
    from flowfabric.ff_budget_policy as b
    where b.budget_id = p_budget_id
$$;

-- Limits
select results_eq(
    $$select r.* from ff_tap.report('{tokens}', '{60}') as r$$,
    $$values ('ok', null::text, null::bigint, null::bigint, null::text)$$, 'usage below the limits is booked');
select is(ff_tap.usage(), '{"tokens": 60}', 'in its dimension');
select is(ff_tap.breaches(), 'hard 0, soft 0, last @, updated 1000', 'and is no breach');
select ff_tap.freeze_time(1100);
select results_eq(
    $$select r.* from ff_tap.report('{tokens}', '{25}') as r$$,
    $$values ('soft_breach', 'tokens', 85::bigint, 80::bigint, 'log')$$,
    'usage above a soft limit is booked and reported, with the action of the budget');
select is(ff_tap.breaches(), 'hard 0, soft 1, last @, updated 1100', 'it counts as a soft breach');
select ff_tap.freeze_time(1200);
select results_eq(
    $$select r.* from ff_tap.report('{tokens}', '{50}') as r$$,
    $$values ('hard_breach', 'tokens', 85::bigint, 100::bigint, 'stop')$$,
    'usage beyond a hard limit is refused, with the usage before');
select is(ff_tap.usage(), '{"tokens": 85}', 'and is not booked');
select is(ff_tap.breaches(), 'hard 1, soft 1, last tokens@1200, updated 1200', 'it counts as a hard breach');
select is((ff_tap.report('{tokens}', '{16}')).outcome, 'hard_breach', 'one beyond the hard limit is a breach');
select is((ff_tap.report('{tokens}', '{15}')).outcome, 'soft_breach', 'exactly the hard limit is none');
select is((ff_tap.report('{cost}', '{8}')).outcome, 'ok', 'exactly the soft limit is no breach');
select is((ff_tap.report('{cost}', '{1}')).outcome, 'soft_breach', 'one more is one');

-- Several dimensions
select results_eq(
    $$select r.* from ff_tap.report('{calls,cost,tokens}', '{1,2,1}') as r$$,
    $$values ('hard_breach', 'cost', 9::bigint, 10::bigint, 'stop')$$,
    'the first breaching dimension in the caller''s order is reported');
select is(ff_tap.usage(), '{"tokens": 100, "cost": 9}', 'and no dimension is booked');
select results_eq(
    $$select r.* from ff_tap.report('{tokens,cost}', '{1,2}') as r$$,
    $$values ('hard_breach', 'tokens', 100::bigint, 100::bigint, 'stop')$$, 'in another order it is another one');
select is(ff_tap.breaches(), 'hard 4, soft 3, last tokens@1200, updated 1200', 'each report counts once');
select results_eq(
    $$select r.* from ff_tap.report('{calls,cost}', '{4,1}') as r$$,
    $$values ('soft_breach', 'calls', 4::bigint, 3::bigint, 'log')$$,
    'so it is with soft limits; a hard limit of 0 is none');
select is((ff_tap.report('{calls}', '{1000000}')).outcome, 'soft_breach', 'however much is used');
select is((ff_tap.report('{unheard of}', '{7}')).outcome, 'ok', 'a dimension without limits is counted');
select is((ff_tap.report('{free}', '{0}')).outcome, 'ok', 'a report of nothing is welcome');
select is(
    ff_tap.usage(), '{"tokens": 100, "cost": 10, "calls": 1000004, "unheard of": 7, "free": 0}',
    'and opens its dimension');
select is((ff_tap.report('{}', '{}')).outcome, 'ok', 'a report may name no dimension');
select is((ff_tap.report('{tokens}', '{0}')).outcome, 'soft_breach', 'above a soft limit even nothing is reported');

-- Keys
select is((ff_tap.report('{keyed}', '{1}', 'k1')).outcome, 'ok', 'a report with a key is booked');
select results_eq(
    $$select r.* from ff_tap.report('{keyed}', '{1}', 'k1') as r$$,
    $$values ('already_applied', null::text, null::bigint, null::bigint, null::text)$$, 'once');
select is(
    (ff_tap.report('{keyed}', '{9223372036854775807}', 'k1')).outcome, 'already_applied',
        'whatever the repeat says');
select is(ff_tap.usage() -> 'keyed', '1', 'and nothing is booked twice');
select is((ff_tap.report('{keyed}', '{1}', '')).outcome, 'ok', 'an empty key is none');
select is((ff_tap.report('{keyed}', '{1}', '')).outcome, 'ok', 'so it counts again');
select is((ff_tap.report('{keyed}', '{1}')).outcome, 'ok', 'and so does a report without a key');
select is((ff_tap.report('{keyed}', '{1}', 'k1', 'b2')).outcome, 'ok', 'the key of one budget is not that of another');
select is((ff_tap.report('{keyed}', '{1}', repeat('k', 512))).outcome, 'ok', 'a key has up to 512 bytes');
select results_eq(
    $$select k.applied_at_ms, k.expires_at_ms from flowfabric.ff_budget_usage_dedup as k
      where k.budget_id = 'b1' and k.dedup_key = 'k1'$$,
    'values (1200::bigint, 86401200::bigint)', 'a key is kept for 24 hours');
select is((ff_tap.report('{tokens}', '{6}', 'big', 'b2')).outcome, 'hard_breach', 'a refused report');
select is_empty(
    $$select from flowfabric.ff_budget_usage_dedup as k where k.dedup_key = 'big'$$, 'leaves no key');
select is((ff_tap.report('{tokens}', '{6}', 'big', 'b2')).outcome, 'hard_breach', 'so its repeat is judged afresh');
select is(ff_tap.breaches('b2'), 'hard 2, soft 0, last tokens@1200, updated 1200', 'and counts another breach');
select is((ff_tap.report('{tokens}', '{5}', 'fits', 'b2')).outcome, 'ok', 'the budget is used up');
select is((ff_tap.report('{tokens}', '{1}', 'later', 'b2')).outcome, 'hard_breach', 'for the next report');
select flowfabric.ff_reset_budget('b2');
select is((ff_tap.report('{tokens}', '{1}', 'later', 'b2')).outcome, 'ok', 'after a reset the same key is applied');
select ff_tap.freeze_time(86401199);
update flowfabric.ff_exec_core set lease_expires_at_ms = 99999999;
select is((ff_tap.report('{keyed}', '{1}', 'k1')).outcome, 'already_applied', 'until the last millisecond');
select ff_tap.freeze_time(86401200);
select is((ff_tap.report('{keyed}', '{1}', 'k1')).outcome, 'ok', 'then the key is unknown, swept or not');
select is((ff_tap.report('{keyed}', '{1}', 'k1')).outcome, 'already_applied', 'and known again');

-- Numbers at the end of the range
select ff_tap.freeze_time(86401300);
select is((ff_tap.report('{huge}', '{9223372036854775806}')).outcome, 'ok', 'usage may fill the range');
select is((ff_tap.report('{huge}', '{1}')).outcome, 'ok', 'to the last');
select is(
    ff_tap.error_of($$select ff_tap.report('{keyed,huge}', '{1,2}')$$),
    '{"code": "invalid_input", "fn": "ff_report_usage_and_check", "field": "deltas", "reason": "out_of_range",
    "value": "2"}',
    'beyond it a report is refused');
select is((ff_tap.report('{huge}', '{0}')).outcome, 'ok', 'nothing always fits');
select is(
    (ff_tap.report('{cost}', '{9223372036854775797}')).outcome, 'hard_breach',
        'a limit is compared without overflow');
select is(ff_tap.usage() -> 'huge', '9223372036854775807', 'what was refused is not booked');

-- Reservations count against the hard limit
select flowfabric.ff_create_budget('b3', 'tenant', 'acme', '{tokens}', '{100}', '{60}');
select flowfabric.ff_reserve_budget(
    'b3', '{tokens}', '{30}', :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'r1');
select results_eq(
    $$select r.* from ff_tap.report('{tokens}', '{71}', null, 'b3') as r$$,
    $$values ('hard_breach', 'tokens', 0::bigint, 100::bigint, 'fail')$$,
    'beside a reservation of 30 a report of 71 does not fit');
select is((ff_tap.report('{tokens}', '{60}', null, 'b3')).outcome, 'ok', 'the soft limit looks at usage alone');
select is((ff_tap.report('{tokens}', '{10}', null, 'b3')).outcome, 'soft_breach', 'a report reaches hard minus 30');
select is((ff_tap.report('{tokens}', '{1}', null, 'b3')).outcome, 'hard_breach', 'and no further');

-- Admission looks at the same numbers, in the order of the execution
select is(
    flowfabric._ff_exhausted_budget('{b2,b3}'::text[]), row('b3',
    'budget b3: tokens 100/100')::flowfabric.ff_budget_denial,
    'a budget is exhausted when usage and reservations reach a hard limit');
select is(
    (flowfabric._ff_exhausted_budget('{b3,b1}'::text[])).detail, 'budget b3: tokens 100/100',
        'of several the first in the given order is named');
select is(
    (flowfabric._ff_exhausted_budget('{b1,b3}'::text[])).detail, 'budget b1: cost 10/10',
        'and of its dimensions the first by name');
select is((flowfabric._ff_exhausted_budget('{b2}'::text[])).budget_id, null, 'a budget with room is not exhausted');
select is(
    (flowfabric._ff_exhausted_budget('{unknown}'::text[])).budget_id, null, 'nor is one that does not exist');
select is((flowfabric._ff_exhausted_budget(null::text[])).budget_id, null, 'nor is none');

-- Operators
select is(
    (flowfabric.ff_report_usage_and_check('b2', '{tokens}', '{1}', p_source => 'operator_override')).outcome, 'ok',
        'an operator needs no execution');
select is(
    (flowfabric.ff_report_usage_and_check(
        'b2', '{tokens}', '{1}', p_execution_id => :'execution', p_source => 'operator_override')).outcome, 'ok',
    'but may name one that is running');
select throws_ok(
    format(
        $$select flowfabric.ff_report_usage_and_check('b2', '{tokens}', '{1}', p_execution_id => %L,
            p_source => 'operator_override')$$, :'other'),
    'ZN001', 'execution_not_found', 'if it exists');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', $q$select flowfabric.ff_report_usage_and_check(
        'unknown', '{tokens}', '{1}', p_source => 'operator_override')$q$)$$,
    'ZV017', 'unauthorized', 'a worker cannot override, and learns nothing about the budget');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_operator', $q$select flowfabric.ff_report_usage_and_check(
        'b2', '{tokens}', '{0}', p_source => 'operator_override')$q$)$$,
    'an operator can');

-- The fence, before anything about the budget
select ff_tap.refuses_bad_fences($$select flowfabric.ff_report_usage_and_check(
    'unknown', '{tokens}', '{1}', null, %1$L, %2$L, %3$L, %4$L, %5$L)$$);
select is(
    ff_tap.error_of($$select flowfabric.ff_report_usage_and_check('unknown', '{tokens}', '{1}')$$),
    '{"code": "fence_required", "fn": "ff_report_usage_and_check"}', 'without anything a fence is asked for');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_report_usage_and_check('b1', '{tokens}', '{1}', null, null, %L, 1, %L)$$,
        ff_tap.lease_id(),
        ff_tap.attempt_id())) - array['code', 'fn'],
    '{"field": "execution_id", "reason": "null"}', 'a fence belongs to an execution');
select throws_ok(
    $$select ff_tap.report('{tokens}', '{1}', null, 'unknown')$$, 'ZN004', 'budget_not_found',
    'after a good fence an unknown budget is refused');
select is(
    ff_tap.error_of($$select ff_tap.report('{tokens}', '{1}', null, 'unknown')$$),
    '{"code": "budget_not_found", "fn": "ff_report_usage_and_check", "budget_id": "unknown"}', 'by its name');
select is_empty(
    $$select from flowfabric.ff_budget_usage as u where u.budget_id = 'unknown'$$, 'and nothing is counted for it');

-- Arguments, before the fence
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_report_usage_and_check(%L, %L, %L, %L)$$, b.budget_id, b.dimensions, b.deltas, b.key))
    - array['code', 'fn', 'value'],
    b.detail::jsonb, b.fact)
from (values
    ('a b', '{a}', '{1}', null, '{"field": "budget_id", "reason": "space_or_control"}', 'a budget id is a name'),
    ('b1', null, '{1}', null, '{"field": "dimensions", "reason": "null"}', 'dimensions are required'),
    ('b1', '{a}', '{1,2}', null, '{"field": "deltas", "reason": "length_mismatch"}', 'one delta per dimension'),
    ('b1', '{a,a}', '{1,2}', null, '{"field": "dimensions", "reason": "duplicate"}', 'a dimension is named once'),
    ('b1', '{a}', '{-1}', null, '{"field": "deltas", "reason": "out_of_range"}', 'usage does not shrink'),
    ('b1', '{a}', '{1}', repeat('k', 513), '{"field": "dedup_key", "reason": "too_long"}',
        'a key has at most 512 bytes')
) as b (budget_id, dimensions, deltas, key, detail, fact);

select * from finish();
rollback;
