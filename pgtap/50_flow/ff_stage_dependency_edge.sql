-- Staging an edge: under the current revision of the graph, between members, and never round in a circle.
begin;
\ir helpers.sql
select plan(35);

prepare stage (integer, integer, bigint) as
    select s.* from flowfabric.ff_stage_dependency_edge(
        ff_tap.flow_id(), ff_tap.edge_id($1, $2), ff_tap.m($1), ff_tap.m($2), $3) as s;

select ff_tap.freeze_time(1000);
select ff_tap.flow(3);
select to_jsonb(ff_tap.core(ff_tap.m(2))) as child \gset
select ff_tap.freeze_time(2000);
select results_eq(
    'execute stage(1, 2, 3)', format('values (%L::uuid, 4::bigint)', ff_tap.edge_id(1, 2)),
    'with three members the first edge makes revision 4');
select is(
    (select to_jsonb(d) from flowfabric.ff_edge as d),
    jsonb_build_object(
        'partition_key', 6, 'flow_id', ff_tap.flow_id(), 'edge_id', ff_tap.edge_id(1, 2),
        'upstream_eid', ff_tap.eid(1), 'downstream_eid', ff_tap.eid(2), 'dependency_kind', 'success_only',
        'satisfaction_condition', 'all_required', 'data_passing_ref', null, 'dep_state', 'staged',
        'resolved_outcome', null, 'created_by', 'engine', 'created_at_ms', 2000, 'staged_at_ms', 2000,
        'applied_at_ms', null, 'last_resolved_at_ms', null),
    'it is a fact of the graph');
select is(
    (select row(f.graph_revision, f.edge_count, f.node_count, f.last_mutation_at_ms) from flowfabric.ff_flow_core as f),
    row(4::bigint, 1, 3, 2000::bigint), 'the flow counts it');
select is(to_jsonb(ff_tap.core(ff_tap.m(2))), :'child'::jsonb, 'the child does not know of it');
select is_empty('select from flowfabric.ff_edge_group', 'and has no join');
select results_eq(
    'execute stage(2, 3, 4)', format('values (%L::uuid, 5::bigint)', ff_tap.edge_id(2, 3)),
    'the next one takes the revision that the first one gave');
select lives_ok(
    format(
        'select flowfabric.ff_stage_dependency_edge(%L, %L, %L, %L, 5, p_data_passing_ref => %L)', ff_tap.flow_id(),
        ff_tap.edge_id(9, 9), ff_tap.m(1), ff_tap.m(2), ''),
    'a second edge between the same two is one of its own');
select is(
    (select d.data_passing_ref from flowfabric.ff_edge as d where d.edge_id = ff_tap.edge_id(9, 9)), null,
    'an empty reference is none');

-- Refusals, in their order
select ff_tap.everything() as before \gset
select throws_ok('execute stage(1, 3, 5)', 'ZC010', 'stale_graph_revision', 'an old revision is refused');
select is(
    ff_tap.error_of('execute stage(1, 3, 7)') - 'fn',
    jsonb_build_object(
        'code', 'stale_graph_revision', 'flow_id', ff_tap.flow_id(), 'expected_graph_revision', 7,
        'graph_revision', 6),
    'a future one too, and the detail has both');
select throws_ok('execute stage(1, 1, 6)', 'ZK003', 'self_referencing_edge', 'nobody waits for itself');
select is(
    ff_tap.error_of('execute stage(1, 1, 1)') - 'fn',
    jsonb_build_object('code', 'self_referencing_edge', 'execution_id', ff_tap.m(1)),
    'and that comes before the revision');
select throws_ok('execute stage(3, 1, 6)', 'ZK002', 'cycle_detected', 'an edge that closes a circle is refused');
select is(
    ff_tap.error_of('execute stage(3, 1, 6)') - 'fn',
    jsonb_build_object(
        'code', 'cycle_detected', 'flow_id', ff_tap.flow_id(), 'upstream_execution_id', ff_tap.m(3),
        'downstream_execution_id', ff_tap.m(1), 'limit_reached', false),
    'the detail has the edge, and that the circle is real');
select throws_ok('execute stage(2, 1, 6)', 'ZK002', 'cycle_detected', 'so is one that goes straight back');
select is(
    ff_tap.error_of('execute stage(1, 2, 6)') - 'fn',
    jsonb_build_object(
        'code', 'dependency_already_exists', 'flow_id', ff_tap.flow_id(), 'edge_id', ff_tap.edge_id(1, 2),
        'existing', jsonb_build_object(
            'edge_id', ff_tap.edge_id(1, 2), 'flow_id', ff_tap.flow_id(), 'upstream_execution_id', ff_tap.m(1),
            'downstream_execution_id', ff_tap.m(2), 'dependency_kind', 'success_only',
            'satisfaction_condition', 'all_required', 'dep_state', 'staged', 'created_at_ms', 2000,
            'created_by', 'engine')),
    'an id that is taken is refused with the stored edge');
select throws_ok(
    'execute stage(1, 2, 6)', 'ZK001', 'dependency_already_exists', 'which tells a lost answer from a conflict');
select throws_ok(
    'execute stage(1, 404, 6)', 'ZS018', 'execution_not_in_flow', 'an unknown downstream is no member');
select is(
    ff_tap.error_of('execute stage(404, 405, 6)') - 'fn',
    jsonb_build_object('code', 'execution_not_in_flow', 'execution_id', ff_tap.m(404), 'flow_id', ff_tap.flow_id()),
    'an unknown upstream is none either, and comes first');
select ff_tap.execution(ff_tap.m(5));
select throws_ok('execute stage(1, 5, 6)', 'ZS018', 'execution_not_in_flow', 'an execution without a flow is none');
select ff_tap.execution('{fp:77}:00000000-0000-4000-8000-000000000001');
select flowfabric.ff_create_flow('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'dag');
select flowfabric.ff_add_execution_to_flow(
    '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '{fp:77}:00000000-0000-4000-8000-000000000001');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_stage_dependency_edge(%L, %L, %L, %L, 6)', ff_tap.flow_id(), gen_random_uuid(),
        '{fp:77}:00000000-0000-4000-8000-000000000001', ff_tap.m(1))) ->> 'execution_id',
    '{fp:77}:00000000-0000-4000-8000-000000000001', 'nor is a member of another flow: edges do not cross flows');
delete from flowfabric.ff_exec_core as e where e.execution_id = ff_tap.eid(5) or e.partition_key = 77;
delete from flowfabric.ff_exec_payload as e where e.execution_id = ff_tap.eid(5) or e.partition_key = 77;
delete from flowfabric.ff_flow_core as f where f.partition_key = 77;
select throws_ok(
    format(
        'select flowfabric.ff_stage_dependency_edge(%L, %L, %L, %L, 6)', gen_random_uuid(), gen_random_uuid(),
        ff_tap.m(1), ff_tap.m(2)),
    'ZN002', 'flow_not_found', 'an unknown flow is refused');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_stage_dependency_edge(%L, %L, %L, %L, %L, %L)', b.flow_id, b.edge_id, b.upstream,
        b.downstream, b.revision, b.kind)) - array['fn', 'code', 'value'],
    jsonb_build_object('field', b.field, 'reason', b.reason), b.description)
from (values
    (null, ff_tap.edge_id(1, 3), ff_tap.m(1), ff_tap.m(3), 6, 'success_only', 'flow_id', 'null', 'a flow is required'),
    (ff_tap.flow_id(), null, ff_tap.m(1), ff_tap.m(3), 6, 'success_only', 'edge_id', 'null', 'an edge id is required'),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 3), 'one', ff_tap.m(3), 6, 'success_only', 'execution_id', 'missing_tag',
        'the upstream must be an id'
    ),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 3), ff_tap.m(1), null, 6, 'success_only', 'execution_id', 'null',
        'so must the downstream'
    ),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 3), ff_tap.m(1), ff_tap.m(3), null, 'success_only',
        'expected_graph_revision', 'null', 'a revision is required'
    ),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 3), ff_tap.m(1), ff_tap.m(3), 6, 'always', 'dependency_kind', 'unknown',
        'another kind of dependency is refused: it would act as success_only'
    ),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 3), ff_tap.m(1), ff_tap.m(3), 6, null, 'dependency_kind', 'null',
        'and NULL is no kind'
    )
) as b (flow_id, edge_id, upstream, downstream, revision, kind, field, reason, description);
select is(ff_tap.everything(), :'before'::jsonb, 'no refusal writes anything: revision and counts stay');

-- A search that is too long ends.
select ff_tap.setting('max_cycle_check_nodes', 1);
select lives_ok('execute stage(1, 3, 6)', 'a walk of one node is short enough');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_stage_dependency_edge(%L, %L, %L, %L, 7)', ff_tap.flow_id(), gen_random_uuid(),
        ff_tap.m(3), ff_tap.m(1))) -> 'limit_reached',
    'true', 'a walk that meets the limit before it meets the upstream is refused and says so');
select ff_tap.setting('max_cycle_check_nodes', 1000000);
select ff_tap.flow(1, 4);
select lives_ok('execute stage(4, 1, 8)', 'a large limit does no harm');
select ff_tap.setting('max_cycle_check_nodes', 3);
select lives_ok(
    format(
        'select flowfabric.ff_stage_dependency_edge(%L, %L, %L, %L, 9)', ff_tap.flow_id(), ff_tap.edge_id(9, 8),
        ff_tap.m(4), ff_tap.m(1)),
    'a walk of exactly as many nodes as allowed is complete');

-- A cancelled flow
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'over', 'flow_only');
select throws_ok(
    'execute stage(4, 3, 1)', 'ZS019', 'flow_already_terminal',
    'the graph of a cancelled flow is closed, and that comes before the revision');

select * from finish();
rollback;
