-- Budgets: what can be defined, and that limits never change afterwards.
begin;
\ir ../helpers.sql
select plan(42);

select ff_tap.freeze_time(1000);
prepare policy (text) as
select
    b.scope_type, b.scope_id, b.enforcement_mode, b.on_hard_limit, b.on_soft_limit, b.reset_interval_ms,
    b.next_reset_at_ms, b.breach_count, b.soft_breach_count, b.reset_count, b.created_at_ms, b.updated_at_ms
from flowfabric.ff_budget_policy as b
where b.budget_id = $1;
create function ff_tap.limits(p_budget_id text)
returns jsonb
language sql stable
as $$
    select jsonb_object_agg(l.dimension, array[l.hard_limit, l.soft_limit])
    from flowfabric.ff_budget_limit as l
    where l.budget_id = p_budget_id
$$;

select results_eq(
    $$select c.* from flowfabric.ff_create_budget(
        'b1', 'tenant', 'acme', '{tokens,cost}', '{100,50}', '{80,60}', 60000, 'warn', 'suspend', 'log') as c$$,
    $$values ('created', 'b1')$$, 'a budget is defined');
select results_eq(
    $$execute policy('b1')$$,
    $$values ('tenant', 'acme', 'warn', 'suspend', 'log', 60000::bigint, 61000::bigint, 0::bigint, 0::bigint, 0::bigint,
        1000::bigint, 1000::bigint)$$,
    'with its labels, its times and its first reset');
select is(
    ff_tap.limits('b1'), '{"cost": [50, 60], "tokens": [100, 80]}',
    'with a row per dimension; a soft limit may be above the hard one');
select is_empty('select from flowfabric.ff_budget_usage', 'and without usage');
select flowfabric.ff_create_budget('b0', 's', 'i', p_dimensions => '{a,b}', p_hard_limits => '{1,2}');
select is(
    ff_tap.limits('b0'), '{"a": [1, 0], "b": [2, 0]}', 'soft limits that are left out are no limits');

select ff_tap.freeze_time(2000);
select results_eq(
    $$select c.* from flowfabric.ff_create_budget('b1', 'lane', 'x', '{other}', '{1}', '{1}') as c$$,
    $$values ('already_satisfied', 'b1')$$, 'a second definition is answered with the first');
select is(ff_tap.limits('b1'), '{"cost": [50, 60], "tokens": [100, 80]}', 'whose limits stay');
select is(
    (flowfabric.ff_create_budget('b1', 'lane', 'x', '{a,a}', '{-1}', null)).outcome, 'already_satisfied',
        'an existing budget is found before the limits are looked at');

select is(
    (flowfabric.ff_create_budget('plain', 'lane', 'x')).outcome, 'created', 'a budget may limit nothing');
select results_eq(
    $$execute policy('plain')$$,
    $$values ('lane', 'x', 'strict', 'fail', 'warn', 0::bigint, null::bigint, 0::bigint, 0::bigint, 0::bigint,
        2000::bigint, 2000::bigint)$$,
    'the labels have defaults, and without an interval no reset is scheduled');
select flowfabric.ff_create_budget(
    'blank', 's', 'i', p_enforcement_mode => '', p_on_hard_limit => null, p_on_soft_limit => '',
    p_reset_interval_ms => null);
select results_eq(
    $$select b.enforcement_mode, b.on_hard_limit, b.on_soft_limit, b.reset_interval_ms
      from flowfabric.ff_get_budget_status('blank') as b$$,
    $$values ('strict', 'fail', 'warn', 0::bigint)$$, 'an empty label is the default');
select is(
    (flowfabric.ff_create_budget(
        'wide', 's', 'i', array(select 'd' || i::text from generate_series(1, 64) as i),
        array(select 9223372036854775807 from generate_series(1, 64)), array(select 0 from generate_series(1, 64)))
    ).outcome,
    'created', '64 dimensions and the largest limits are accepted');
select is(
    (flowfabric.ff_create_budget(
        repeat('x', 256), repeat('t', 64), repeat('i', 256), array[repeat('d', 128), 'a b c', 'größe'], '{0,0,0}',
        '{0,0,0}', 31536000000000)).outcome,
    'created', 'so are the longest texts and the longest interval; a dimension may have spaces');

-- Refusals, in their order
prepare create_budget (text, text, text, bigint, text[], bigint[], bigint[]) as
select flowfabric.ff_create_budget(
    $1, $2, $3, p_reset_interval_ms => $4, p_dimensions => $5, p_hard_limits => $6, p_soft_limits => $7);
select throws_ok(
    $$execute create_budget('a b', '', '', -1, null, null, null)$$, 'ZV001', 'invalid_input',
    'an id has no white space, and that comes first');
select is(
    ff_tap.error_of(format($$execute create_budget(%L, '', '', -1, null, null, null)$$, b.id)) ->> 'reason', b.reason,
    format('an id of which this holds is refused: %s', b.reason))
from (values (null, 'null'), ('', 'empty'), (repeat('x', 257), 'too_long')) as b (id, reason);
select is(
    ff_tap.error_of($$execute create_budget('b', '', '', -1, null, null, null)$$),
    '{"code": "invalid_input", "fn": "ff_create_budget", "field": "reset_interval_ms", "reason": "out_of_range",
    "value": "-1"}',
    'an interval is not negative, and that comes before the scope');
select is(
    ff_tap.error_of($$execute create_budget('b', 's', 'i', 31536000000001, '{}', '{}', '{}')$$) ->> 'field',
    'reset_interval_ms', 'an interval is a thousand years at most');
select is(
    (select array_agg(ff_tap.error_of(format(
        'select flowfabric.ff_create_budget(%L, %L, %L, %s => %L)', 'b', 's', 'i', 'p_' || l.field, repeat('x', 257)))
        - array['value', 'code', 'fn'] order by l.field)
     from (values ('enforcement_mode'), ('on_hard_limit'), ('on_soft_limit')) as l (field)),
    array[
        '{"field": "enforcement_mode", "reason": "too_long"}', '{"field": "on_hard_limit", "reason": "too_long"}',
        '{"field": "on_soft_limit", "reason": "too_long"}']::jsonb[],
    'labels have at most 256 bytes');
select throws_ok(
    $$execute create_budget('b', '', 'i', 0, '{a}', '{-1}', '{0}')$$, 'ZV018', 'invalid_budget_scope',
    'a scope has a type, and that comes before the limits');
select is(
    ff_tap.error_of($$execute create_budget('b', 'tenant', null, 0, '{}', '{}', '{}')$$),
    '{"code": "invalid_budget_scope", "fn": "ff_create_budget", "scope_type": "tenant"}', 'a scope has an id');
select throws_ok(
    $$execute create_budget('b', repeat('x', 65), 'i', 0, '{}', '{}', '{}')$$, 'ZV018', 'invalid_budget_scope',
    'a scope type has at most 64 bytes');
select throws_ok(
    $$execute create_budget('b', 's', repeat('x', 257), 0, '{}', '{}', '{}')$$, 'ZV018', 'invalid_budget_scope',
    'a scope id has at most 256 bytes');
select throws_ok(
    $$execute create_budget('b', 's', 'i', 0, '{a}', '{1,2}', '{1}')$$, 'ZV001', 'invalid_input',
    'limits have the length of the dimensions');
select is(
    ff_tap.error_of(format(
        $$execute create_budget('b', 's', 'i', 0, %L, %L, %L)$$, b.dimensions, b.hard_limits, b.soft_limits))
    - array['code', 'fn'],
    b.detail::jsonb, b.fact)
from (values
    (null, '{1}', '{1}', '{"field": "dimensions", "reason": "null"}', 'dimensions are required'),
    ('{a}', null, '{1}', '{"field": "hard_limits", "reason": "null"}', 'hard limits are required'),
    ('{a}', '{1}', null, '{"field": "soft_limits", "reason": "null"}', 'soft limits are required'),
    ('{a}', '{1,2}', '{1}', '{"field": "hard_limits", "reason": "length_mismatch", "value": "[1:2]"}',
        'more hard limits'),
    ('{a,b}', '{1,2}', '{1}', '{"field": "soft_limits", "reason": "length_mismatch", "value": "[1:1]"}',
        'fewer soft limits'),
    ('{{a,b}}', '{1,2}', '{1,2}', '{"field": "dimensions", "reason": "length_mismatch", "value": "[1:1][1:2]"}',
        'nested dimensions'),
    ('{a,b}', '{{1,2}}', '{1,2}', '{"field": "hard_limits", "reason": "length_mismatch", "value": "[1:1][1:2]"}',
        'nested limits'),
    ('{a,NULL}', '{1,2}', '{1,2}', '{"field": "dimension", "reason": "null"}', 'a dimension without a name'),
    ('{a,""}', '{1,2}', '{1,2}', '{"field": "dimension", "reason": "empty", "value": ""}', 'an empty name'),
    (E'{a\x01b}', '{1}', '{1}', '{"field": "dimension", "reason": "control", "value": "a\u0001b"}',
        'a control character'),
    ('{a,b,a}', '{1,2,3}', '{1,2,3}', '{"field": "dimensions", "reason": "duplicate", "value": "a"}',
        'a repeated name'),
    ('{a}', '{-1}', '{0}', '{"field": "hard_limits", "reason": "out_of_range", "value": "-1"}',
        'a negative hard limit'),
    ('{a}', '{1}', '{-1}', '{"field": "soft_limits", "reason": "out_of_range", "value": "-1"}',
        'a negative soft limit'),
    ('{a}', '{NULL}', '{1}', '{"field": "hard_limits", "reason": "null"}', 'a limit that is no number')
) as b (dimensions, hard_limits, soft_limits, detail, fact);
select is(
    ff_tap.error_of(format(
        $$execute create_budget('b', 's', 'i', 0, %L, '{1}', '{1}')$$, array[repeat('d', 129)])) ->> 'reason',
        'too_long',
    'a dimension has at most 128 bytes');
select is(
    ff_tap.error_of(format(
        $$execute create_budget('b', 's', 'i', 0, %L, %L, %L)$$,
        array(select 'd' || i::text from generate_series(1, 65) as i),
        array(select 1 from generate_series(1, 65)), array(select 1 from generate_series(1, 65)))) - array['code',
        'fn'],
    '{"field": "dimensions", "reason": "too_many_items", "value": "65"}', '65 dimensions are too many');
select is_empty(
    $$select from flowfabric.ff_budget_policy as b where b.budget_id = 'b'$$, 'a refusal defines nothing');

select * from finish();
rollback;
