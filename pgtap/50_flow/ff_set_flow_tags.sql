-- Tags of a flow: merged, never taken away, all of them or none.
begin;
\ir helpers.sql
select plan(24);

prepare tag (uuid, jsonb) as select t.* from flowfabric.ff_set_flow_tags($1, $2) as t;

select ff_tap.freeze_time(1000);
select ff_tap.flow(1);
select ff_tap.freeze_time(2000);
select results_eq(
    format('execute tag(%L, %L)', ff_tap.flow_id(), '{"app.team": "blue"}'), 'values (1)', 'one tag is set');
select is(
    (select row(f.tags, f.last_mutation_at_ms, f.graph_revision)
     from flowfabric.ff_describe_flow(ff_tap.flow_id()) as f),
    row('{"app.team": "blue"}'::jsonb, 2000::bigint, 1::bigint), 'the flow has changed, its graph has not');
select is(
    (select row(f.tags, f.last_mutation_at_ms) from flowfabric.ff_flow_core as f),
    row('{}'::jsonb, 1000::bigint), 'and not the row that the ends of its members need');
select results_eq(
    format('execute tag(%L, %L)', ff_tap.flow_id(), '{"app.team": "red", "app.sub.field": "x", "a.1": ""}'),
    'values (3)', 'three tags are set');
select is(
    (select f.tags from flowfabric.ff_describe_flow(ff_tap.flow_id()) as f),
    '{"app.team": "red", "app.sub.field": "x", "a.1": ""}'::jsonb, 'old ones are replaced, new ones added');
select is(
    (select row(v.tags ->> 'app.team', flowfabric.ff_get_flow_tag(v.flow_id, 'app.team'))::text
     from flowfabric.ff_v_flow as v),
    '(red,red)', 'every reader has the newest value');
select results_eq(
    format('execute tag(%L, %L)', ff_tap.flow_id(), '{"a.1": ""}'), 'values (1)',
    'the repeat counts what it was given');

select ff_tap.everything() as before \gset
select is(
    ff_tap.error_of(format('execute tag(%L, %L)', ff_tap.flow_id(), jsonb_build_object('app.good', 'x', k.key, 'x')))
    - 'fn',
    jsonb_build_object('code', 'invalid_tag_key', 'key', k.key), format('%L is no key', k.key))
from (values
    ('no_dot'), ('Cairn.x'), ('1a.b'), ('cairn.'), ('cairn..x'), ('cairn.Foo'), ('ca-irn.x'), ('')
) as k (key);
select throws_ok(
    format('execute tag(%L, %L)', ff_tap.flow_id(), '{"no_dot": "x"}'), 'ZV005', 'invalid_tag_key',
    'a malformed key has its own code');
select is(
    ff_tap.error_of(format('execute tag(%L, %L)', ff_tap.flow_id(), b.tags)) - array['fn', 'value'],
    jsonb_build_object('code', 'invalid_input', 'field', 'tags', 'reason', b.reason), b.description)
from (values
    ('{}'::jsonb, 'empty', 'at least one tag is required'),
    ('[]'::jsonb, 'not_object', 'tags are an object'),
    ('{"a.b": 1}'::jsonb, 'not_string', 'of strings'),
    (null, 'null', 'and not NULL')
) as b (tags, reason, description);
select is(ff_tap.everything(), :'before'::jsonb, 'no refusal writes anything, not even the good keys');
select throws_ok(
    format('execute tag(%L, %L)', gen_random_uuid(), '{"no_dot": "x"}'), 'ZN002', 'flow_not_found',
    'an unknown flow is refused before the keys are looked at');
select throws_ok('execute tag(null, ''{"a.b": "x"}'')', 'ZV001', 'invalid_input', 'a flow is required');

select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'over', 'flow_only');
select results_eq(
    format('execute tag(%L, %L)', ff_tap.flow_id(), '{"app.team": "grey"}'), 'values (1)',
    'a cancelled flow can be tagged too');

select * from finish();
rollback;
