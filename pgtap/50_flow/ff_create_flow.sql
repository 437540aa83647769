-- Creating a flow: once per id, with nothing in it.
begin;
\ir helpers.sql
select plan(17);

prepare make (uuid, text, text) as select c.* from flowfabric.ff_create_flow($1, $2, $3) as c;

select ff_tap.freeze_time(1000);
select results_eq(
    format('execute make(%L, %L, %L)', ff_tap.flow_id(), 'dag', 'tenant'),
    format('values (%L::uuid, %L)', ff_tap.flow_id(), 'created'), 'a flow is created');
select is(
    (select to_jsonb(f) from flowfabric.ff_flow_core as f),
    jsonb_build_object(
        'partition_key', 6, 'flow_id', ff_tap.flow_id(), 'flow_kind', 'dag', 'namespace', 'tenant',
        'public_flow_state', 'open', 'graph_revision', 0, 'node_count', 0, 'edge_count', 0, 'created_at_ms', 1000,
        'last_mutation_at_ms', 1000, 'cancelled_at_ms', null, 'terminal_at_ms', null, 'cancel_reason', null,
        'cancellation_policy', null, 'tags', '{}'::jsonb),
    'it is open, empty and on the partition of its id');

select ff_tap.freeze_time(2000);
select ff_tap.everything() as before \gset
select results_eq(
    format('execute make(%L, %L, %L)', ff_tap.flow_id(), 'dag', 'tenant'),
    format('values (%L::uuid, %L)', ff_tap.flow_id(), 'already_satisfied'), 'the repeat finds it there');
select results_eq(
    format('execute make(%L, %L, %L)', ff_tap.flow_id(), 'other', 'elsewhere'),
    format('values (%L::uuid, %L)', ff_tap.flow_id(), 'already_satisfied'),
    'another kind and namespace are not compared');
select is(ff_tap.everything(), :'before'::jsonb, 'neither repeat changes anything');
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'over', 'flow_only');
select results_eq(
    format('execute make(%L, %L, %L)', ff_tap.flow_id(), 'dag', 'tenant'),
    format('values (%L::uuid, %L)', ff_tap.flow_id(), 'already_satisfied'), 'a cancelled flow is there too');

select flowfabric.ff_create_flow('22222222-2222-2222-2222-222222222222', 'dag');
select is(
    (select f.namespace from flowfabric.ff_flow_core as f where f.flow_id = '22222222-2222-2222-2222-222222222222'),
    'default', 'without a namespace it is the default one');

select throws_ok('execute make(null, ''dag'', ''tenant'')', 'ZV001', 'invalid_input', 'an id is required');
select is(
    ff_tap.error_of('execute make(null, ''dag'', ''tenant'')'),
    '{"code": "invalid_input", "fn": "ff_create_flow", "field": "flow_id", "reason": "null"}',
    'the refusal names the argument');
select is(
    ff_tap.error_of(format('execute make(%L, %L, %L)', gen_random_uuid(), b.kind, b.namespace)) - 'value',
    jsonb_build_object('code', 'invalid_input', 'fn', 'ff_create_flow', 'field', b.field, 'reason', b.reason),
    b.description)
from (values
    (null, 'tenant', 'flow_kind', 'null', 'a kind is required'),
    ('', 'tenant', 'flow_kind', 'empty', 'an empty kind is refused'),
    (repeat('k', 257), 'tenant', 'flow_kind', 'too_long', 'a kind has at most 256 bytes'),
    ('dag', null, 'namespace', 'null', 'a namespace that is NULL is refused'),
    ('dag', '', 'namespace', 'empty', 'an empty namespace is refused'),
    ('dag', 'a b', 'namespace', 'space_or_control', 'white space in a namespace is refused'),
    ('dag', repeat('n', 257), 'namespace', 'too_long', 'a namespace has at most 256 bytes')
) as b (kind, namespace, field, reason, description);
select lives_ok(
    format('execute make(%L, %L, %L)', gen_random_uuid(), repeat('k', 256), repeat('n', 256)),
    '256 bytes are enough for both');

select * from finish();
rollback;
