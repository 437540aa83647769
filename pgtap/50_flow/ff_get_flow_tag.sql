-- Reading one tag of a flow.
begin;
\ir helpers.sql
select plan(7);

select ff_tap.flow(1);
select flowfabric.ff_set_flow_tags(ff_tap.flow_id(), '{"app.team": "blue", "app.empty": ""}');
select is(flowfabric.ff_get_flow_tag(ff_tap.flow_id(), 'app.team'), 'blue', 'a tag is read');
select is(flowfabric.ff_get_flow_tag(ff_tap.flow_id(), 'app.empty'), '', 'an empty one too');
select is(flowfabric.ff_get_flow_tag(ff_tap.flow_id(), 'app.other'), null, 'a tag that is not there is NULL');
select is(flowfabric.ff_get_flow_tag(gen_random_uuid(), 'app.team'), null, 'so is a tag of an unknown flow');
select throws_ok(
    format('select flowfabric.ff_get_flow_tag(%L, %L)', ff_tap.flow_id(), 'team'), 'ZV005', 'invalid_tag_key',
    'a text that cannot be a key is refused');
select throws_ok(
    format('select flowfabric.ff_get_flow_tag(%L, null)', ff_tap.flow_id()), 'ZV005', 'invalid_tag_key',
    'a key is required');
select throws_ok(
    'select flowfabric.ff_get_flow_tag(null, ''app.team'')', 'ZV001', 'invalid_input', 'a flow is required');

select * from finish();
rollback;
