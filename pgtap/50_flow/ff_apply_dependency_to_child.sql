-- Applying an edge: the child waits, and an upstream that has ended counts at once or after the commit.
begin;
\ir helpers.sql
select plan(51);

prepare apply (integer, integer) as select (ff_tap.apply($1, $2)).*;

select ff_tap.freeze_time(1000);
select ff_tap.flow(6);
select ff_tap.stage(n, 4) from generate_series(1, 3) as n;
select ff_tap.freeze_time(2000);
select results_eq(
    'execute apply(1, 4)', $$values ('applied', 1, 'pending', 'waiting_children'::flowfabric.ff_public_state)$$,
    'the first edge makes its child wait');
select is(
    ff_tap.vector(ff_tap.m(4)),
    'runnable / unowned / blocked_by_dependencies / waiting_for_children / none / pending_first_attempt'
    ' -> waiting_children',
    'the child is blocked by its dependencies');
select is(
    (select row(e.blocking_detail, e.last_transition_at_ms, e.last_mutation_at_ms, e.blocked_at_ms)
     from ff_tap.core(ff_tap.m(4)) as e),
    row('1 dep(s) unresolved incl ' || ff_tap.edge_id(1, 4)::text, 2000::bigint, 2000::bigint, null::bigint),
    'the detail says for how many, and which came last');
select is(
    (select row(d.dep_state, d.applied_at_ms, d.staged_at_ms) from flowfabric.ff_edge as d
     where d.edge_id = ff_tap.edge_id(1, 4)),
    row('unsatisfied'::text, 2000::bigint, 1000::bigint), 'the edge counts from now on');
select is(
    (select to_jsonb(g) - array['partition_key', 'flow_id', 'downstream_eid', 'cancel_siblings_pending_members']
     from flowfabric.ff_edge_group as g),
    '{"policy_kind": "all_of", "k": null, "on_satisfied": null, "n": 1, "success_count": 0, "fail_count": 0,
      "skip_count": 0, "running_count": 1, "group_state": "pending", "satisfied_at_ms": null,
      "impossible_at_ms": null, "created_at_ms": 2000, "last_graph_revision": null,
      "cancel_siblings_pending_flag": false, "cancel_siblings_reason": null}'::jsonb,
    'a join without a declared policy is an all_of');
select is(ff_tap.revision(), 9::bigint, 'the graph has not changed');
select results_eq(
    'execute apply(2, 4)', $$values ('applied', 2, 'pending', 'waiting_children'::flowfabric.ff_public_state)$$,
    'the second one adds to what is waited for');
select results_eq(
    'execute apply(3, 4)', $$values ('applied', 3, 'pending', 'waiting_children'::flowfabric.ff_public_state)$$,
    'the third one too');
select ff_tap.freeze_time(2500);
select ff_tap.everything() as before \gset
select results_eq(
    'execute apply(3, 4)', $$values ('already_applied', 3, 'pending', 'waiting_children'::flowfabric.ff_public_state)$$,
    'the repeat finds it applied');
select is(ff_tap.everything(), :'before'::jsonb, 'and counts nothing twice');
select flowfabric.ff_stage_dependency_edge(
    ff_tap.flow_id(), ff_tap.edge_id(5, 4), ff_tap.m(5), ff_tap.m(4), 9);
select flowfabric.ff_apply_dependency_to_child(
    ff_tap.flow_id(), ff_tap.edge_id(5, 4), ff_tap.m(4), ff_tap.m(5), 10);
select is(
    (select g.last_graph_revision from flowfabric.ff_edge_group as g), 10::bigint,
    'a given revision is kept for information');
select ff_tap.stage(6, 4);
select ff_tap.apply(6, 4);
select is(
    (select g.last_graph_revision from flowfabric.ff_edge_group as g), 10::bigint, 'none given keeps the last one');

-- Refusals, in their order
select ff_tap.stage(1, 2);
select ff_tap.everything() as before \gset
select throws_ok(
    format('select ff_tap.apply(1, 3)'), 'ZV013', 'invalid_dependency', 'an edge that was never staged is refused');
select is(
    ff_tap.error_of('select ff_tap.apply(1, 3)') - 'fn',
    jsonb_build_object('code', 'invalid_dependency', 'edge_id', ff_tap.edge_id(1, 3)), 'with its id');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_apply_dependency_to_child(%L, %L, %L, %L)', b.flow_id, b.edge_id, b.downstream,
        b.upstream)) - array['fn', 'value'],
    jsonb_build_object('code', b.code) || b.facts::jsonb, b.description)
from (values
    (
        ff_tap.flow_id(), null, ff_tap.m(2), ff_tap.m(1), 'invalid_input', '{"field": "edge_id", "reason": "null"}',
        'an edge is required'
    ),
    (
        null, ff_tap.edge_id(1, 2), ff_tap.m(2), ff_tap.m(1), 'invalid_input',
        '{"field": "flow_id", "reason": "null"}', 'a flow is required'
    ),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 2), 'two', ff_tap.m(1), 'invalid_input',
        '{"field": "execution_id", "reason": "missing_tag"}', 'the child must be an id'
    ),
    (
        '00000000-0000-0000-0000-000000000000', ff_tap.edge_id(1, 2), ff_tap.m(2), ff_tap.m(1), 'flow_not_found',
        '{"flow_id": "00000000-0000-0000-0000-000000000000"}', 'an unknown flow is refused'
    ),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 2), ff_tap.m(3), ff_tap.m(1), 'invalid_input',
        '{"field": "downstream_execution_id", "reason": "not_of_edge"}', 'the child must be that of the edge'
    ),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 2), ff_tap.m(2), ff_tap.m(3), 'invalid_input',
        '{"field": "upstream_execution_id", "reason": "not_of_edge"}', 'the upstream too'
    ),
    (
        ff_tap.flow_id(), ff_tap.edge_id(1, 2), '{fp:7}:00000000-0000-4000-8000-000000000002', ff_tap.m(1),
        'invalid_input', '{"field": "downstream_execution_id", "reason": "not_of_edge"}', 'partition and all'
    )
) as b (flow_id, edge_id, downstream, upstream, code, facts, description);
select is(ff_tap.everything(), :'before'::jsonb, 'no refusal writes anything');
savepoint rows_gone;
update flowfabric.ff_exec_core as e set flow_id = gen_random_uuid() where e.execution_id = ff_tap.eid(2);
select throws_ok(
    'select ff_tap.apply(1, 2)', 'ZK004', 'execution_already_in_flow', 'a child of another flow is refused');
delete from flowfabric.ff_exec_core as e where e.execution_id = ff_tap.eid(1);
select is(
    ff_tap.error_of('select ff_tap.apply(1, 2)') - 'fn',
    jsonb_build_object('code', 'execution_not_found', 'execution_id', ff_tap.m(1)),
    'an upstream that is gone is refused, and that comes before the child''s flow');
delete from flowfabric.ff_exec_core as e where e.execution_id = ff_tap.eid(2);
select is(
    ff_tap.error_of('select ff_tap.apply(1, 2)') ->> 'execution_id', ff_tap.m(2), 'a child that is gone too');
rollback to savepoint rows_gone;

-- A child that is not waiting for a worker
select ff_tap.freeze_time(3000);
select ff_tap.flow(10, 11);
select ff_tap.claim(12);
select ff_tap.connect('{11}', 12);
select is(
    ff_tap.vector(ff_tap.m(12)) || ', ' || ff_tap.edge_group(12),
    'active / leased / not_applicable / none / none / running_attempt -> active,'
    ' all_of of 1: 0 ok, 0 failed, 0 skipped, pending',
    'a child that runs is left alone, and the edge is counted');
select ff_tap.execution(ff_tap.m(31), p_delay_until_ms => 9000);
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(31));
select ff_tap.connect('{11}', 31);
select is(
    (select row(ff_tap.public_state(e), e.delay_until_ms) from ff_tap.core(ff_tap.m(31)) as e),
    row('waiting_children'::flowfabric.ff_public_state, 9000::bigint),
    'a child that is delayed waits, and keeps its delay');

-- An upstream that has ended: all_of
select ff_tap.finish(13);
select ff_tap.stage(13, 14);
select results_eq(
    'execute apply(13, 14)', $$values ('applied', 0, 'satisfied', 'waiting'::flowfabric.ff_public_state)$$,
    'an upstream that has succeeded counts at once');
select is(
    ff_tap.edge(13, 14) || ', ' || ff_tap.edge_group(14),
    'satisfied/success@3000, all_of of 1: 1 ok, 0 failed, 0 skipped, satisfied@3000', 'edge and join are satisfied');
select ff_tap.stage(11, 14);
select results_eq(
    'execute apply(11, 14)', $$values ('applied', 1, 'pending', 'waiting_children'::flowfabric.ff_public_state)$$,
    'a later edge makes a satisfied all_of wait again');
select is(
    ff_tap.edge_group(14), 'all_of of 2: 1 ok, 0 failed, 0 skipped, pending', 'its join is open again');
select ff_tap.finish(15, 'failed');
select ff_tap.connect('{17}', 18);
select ff_tap.stage(15, 17);
select results_eq(
    'execute apply(15, 17)', $$values ('applied', 0, 'impossible', 'skipped'::flowfabric.ff_public_state)$$,
    'an upstream that has failed skips the child of an all_of');
select is(ff_tap.states(17, 18), 'skipped skipped', 'and what depends on it');
select ff_tap.finish(16, 'failed');
select ff_tap.stage(16, 17);
select results_eq(
    'execute apply(16, 17)', $$values ('applied', 0, 'impossible', 'skipped'::flowfabric.ff_public_state)$$,
    'a late edge into a child that was skipped is only counted');
select is(
    ff_tap.edge_group(17), 'all_of of 2: 0 ok, 2 failed, 0 skipped, impossible@3000', 'with its outcome');
select is(ff_tap.outbox(), '{}', 'nothing is left for the dispatcher');

-- An upstream that has ended: any_of and quorum
select ff_tap.flow(6, 41);
select ff_tap.finish(41, 'failed');
select ff_tap.join(43, 'any_of');
select ff_tap.stage(n, 43) from generate_series(41, 42) as n;
select results_eq(
    'execute apply(41, 43)', $$values ('applied', 1, 'pending', 'waiting_children'::flowfabric.ff_public_state)$$,
    'an any_of is not judged while its edges are still being applied');
select results_eq(
    'execute apply(42, 43)', $$values ('applied', 2, 'pending', 'waiting_children'::flowfabric.ff_public_state)$$,
    'so its second upstream comes in time');
select is(ff_tap.outbox(), '{41}', 'the one that has ended is left to the dispatcher');
select ff_tap.apply(42, 43);
select is(ff_tap.outbox(), '{41}', 'the one that runs is not');
select flowfabric.ff_dispatch_dependencies();
select is(
    ff_tap.states(43) || ', ' || ff_tap.edge_group(43),
    'waiting_children, any_of(1) of 2: 0 ok, 1 failed, 0 skipped, pending', 'which finds the join still open');
select ff_tap.finish(42);
select is(ff_tap.states(43), 'waiting', 'until the second one succeeds');
select ff_tap.stage(44, 43);
select results_eq(
    'execute apply(44, 43)', $$values ('applied', 1, 'satisfied', 'waiting'::flowfabric.ff_public_state)$$,
    'a late edge does not hold back a child whose any_of is satisfied');
select is(ff_tap.edge_group(43), 'any_of(1) of 3: 1 ok, 1 failed, 0 skipped, satisfied@3000', 'it is counted');
select ff_tap.finish(44, 'cancelled');
select is(
    ff_tap.states(43) || ', ' || ff_tap.edge_group(43),
    'waiting, any_of(1) of 3: 1 ok, 2 failed, 0 skipped, satisfied@3000', 'and counted again when it ends, no more');
select ff_tap.join(46, 'quorum', 'let_run', 2);
select ff_tap.connect('{42}', 46);
select flowfabric.ff_dispatch_dependencies();
select is(
    ff_tap.edge_group(46), 'quorum(2) of 1: 1 ok, 0 failed, 0 skipped, pending',
    'a quorum with fewer edges than it needs waits for the rest');
select ff_tap.connect('{41}', 46);
select flowfabric.ff_dispatch_dependencies();
select is(
    ff_tap.states(46) || ', ' || ff_tap.edge_group(46),
    'skipped, quorum(2) of 2: 1 ok, 1 failed, 0 skipped, impossible@3000', 'and is judged once it has them');

-- A cancelled flow
select ff_tap.stage(11, 20);
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'over', 'flow_only');
select throws_ok(
    'select ff_tap.apply(11, 20)', 'ZS019', 'flow_already_terminal', 'no edge is applied in a cancelled flow');
select throws_ok(
    'select ff_tap.apply(11, 12)', 'ZS019', 'flow_already_terminal',
    'not even one that was applied before');
select throws_ok(
    'select ff_tap.apply(19, 12)', 'ZS019', 'flow_already_terminal', 'and that comes before the edge');

select flowfabric._ff_assert_edge_group(ff_tap.flow_id());
select is_empty('select f.* from flowfabric.ff_check_invariants() as f', 'all of it is consistent');

select * from finish();
rollback;
