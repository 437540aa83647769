-- Everything about a flow but its members.
begin;
\ir helpers.sql
select plan(5);

select ff_tap.freeze_time(1000);
select ff_tap.flow(2);
select ff_tap.connect('{1}', 2);
select flowfabric.ff_set_flow_tags(ff_tap.flow_id(), '{"app.team": "blue"}');
select is(
    (select to_jsonb(f) from flowfabric.ff_describe_flow(ff_tap.flow_id()) as f),
    jsonb_build_object(
        'flow_id', ff_tap.flow_id(), 'partition_key', 6, 'flow_kind', 'dag', 'namespace', 'default',
        'public_flow_state', 'open', 'graph_revision', 3, 'node_count', 2, 'edge_count', 1, 'created_at_ms', 1000,
        'last_mutation_at_ms', 1000, 'cancelled_at_ms', null, 'terminal_at_ms', null, 'cancel_reason', null,
        'cancellation_policy', null, 'tags', '{"app.team": "blue"}'::jsonb),
    'an open flow');
select ff_tap.finish(1);
select ff_tap.finish(2);
select is(
    (select f.public_flow_state from flowfabric.ff_describe_flow(ff_tap.flow_id()) as f), 'open',
    'is open however its members fare');
select ff_tap.freeze_time(2000);
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'over', 'cancel_all');
select is(
    (select row(f.public_flow_state, f.cancelled_at_ms, f.terminal_at_ms, f.cancel_reason, f.cancellation_policy)
     from flowfabric.ff_describe_flow(ff_tap.flow_id()) as f),
    row('cancelled'::text, 2000::bigint, 2000::bigint, 'over'::text, 'cancel_all'::text), 'until it is cancelled');
select is_empty(
    format('select f.* from flowfabric.ff_describe_flow(%L) as f', gen_random_uuid()), 'an unknown flow gives no row');
select throws_ok(
    'select flowfabric.ff_describe_flow(null)', 'ZV001', 'invalid_input', 'a flow is required');

select * from finish();
rollback;
