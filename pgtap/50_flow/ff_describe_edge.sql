-- Everything about one edge.
begin;
\ir helpers.sql
select plan(7);

select ff_tap.freeze_time(1000);
select ff_tap.flow(3);
select ff_tap.stage(1, 2, 'ref');
create function ff_tap.described()
returns jsonb
language sql stable
as $$ select to_jsonb(d) from flowfabric.ff_describe_edge(ff_tap.flow_id(), ff_tap.edge_id(1, 2)) as d $$;
select is(
    ff_tap.described(),
    jsonb_build_object(
        'edge_id', ff_tap.edge_id(1, 2), 'flow_id', ff_tap.flow_id(), 'upstream_execution_id', ff_tap.m(1),
        'downstream_execution_id', ff_tap.m(2), 'dependency_kind', 'success_only',
        'satisfaction_condition', 'all_required', 'data_passing_ref', 'ref', 'dep_state', 'staged',
        'resolved_outcome', null, 'created_at_ms', 1000, 'applied_at_ms', null, 'resolved_at_ms', null,
        'created_by', 'engine'),
    'a staged edge');
select ff_tap.freeze_time(2000);
select ff_tap.apply(1, 2);
select ff_tap.freeze_time(3000);
select ff_tap.finish(1, 'expired');
select is(
    ff_tap.described() - array['edge_id', 'flow_id', 'upstream_execution_id', 'downstream_execution_id'],
    '{"dependency_kind": "success_only", "satisfaction_condition": "all_required", "data_passing_ref": "ref",
      "dep_state": "impossible", "resolved_outcome": "expired", "created_at_ms": 1000, "applied_at_ms": 2000,
      "resolved_at_ms": 3000, "created_by": "engine"}'::jsonb,
    'a resolved one');
select is_empty(
    format('select d.* from flowfabric.ff_describe_edge(%L, %L) as d', ff_tap.flow_id(), gen_random_uuid()),
    'an unknown edge gives no row');
select is_empty(
    format('select d.* from flowfabric.ff_describe_edge(%L, %L) as d', gen_random_uuid(), ff_tap.edge_id(1, 2)),
    'nor does one of another flow');
select throws_ok(
    format('select flowfabric.ff_describe_edge(%L, null)', ff_tap.flow_id()), 'ZV001', 'invalid_input',
    'an edge is required');
select throws_ok(
    format('select flowfabric.ff_describe_edge(null, %L)', ff_tap.edge_id(1, 2)), 'ZV001', 'invalid_input',
    'a flow is required');
select is(
    ff_tap.error_of(format('select flowfabric.ff_describe_edge(%L, null)', ff_tap.flow_id())) ->> 'field', 'edge_id',
    'and named if it is missing');

select * from finish();
rollback;
