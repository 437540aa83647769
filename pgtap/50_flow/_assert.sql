-- What must hold between the edges and the joins of a flow, and that a breach is seen.
begin;
\ir helpers.sql
select plan(10);

create function ff_tap.broken()
returns text
language sql volatile
as $$
    select ff_tap.error_of(format('select flowfabric._ff_assert_edge_group(%L)', ff_tap.flow_id())) ->> 'invariant'
$$;

select ff_tap.flow(6);
select ff_tap.join(4, 'quorum', 'let_run', 2);
select ff_tap.connect('{1, 2, 3}', 4);
select ff_tap.connect('{1}', 5);
select ff_tap.stage(1, 6);
select ff_tap.finish(1);
select lives_ok(
    format('select flowfabric._ff_assert_edge_group(%L)', ff_tap.flow_id()),
    'a flow in the middle of its life is sound');
savepoint sound;
update flowfabric.ff_edge_group as g set n = 4 where g.downstream_eid = ff_tap.eid(4);
select is(ff_tap.broken(), 'group_counts_its_edges', 'edges that are not there are missed');
rollback to savepoint sound;
update flowfabric.ff_edge_group as g set fail_count = 1 where g.downstream_eid = ff_tap.eid(4);
select is(ff_tap.broken(), 'group_counts_its_edges', 'a count without an edge is seen');
rollback to savepoint sound;
delete from flowfabric.ff_edge_group as g where g.downstream_eid = ff_tap.eid(4);
select is(ff_tap.broken(), 'group_counts_its_edges', 'a join that is missing is seen');
rollback to savepoint sound;
update flowfabric.ff_edge_group as g set group_state = 'pending' where g.downstream_eid = ff_tap.eid(5);
select is(ff_tap.broken(), 'satisfied_group_has_fired', 'a join that should have fired is seen');
rollback to savepoint sound;
update flowfabric.ff_edge_group as g set k = 3, fail_count = 1 where g.downstream_eid = ff_tap.eid(4);
update flowfabric.ff_edge as d set dep_state = 'impossible', resolved_outcome = 'failed'
where d.edge_id = ff_tap.edge_id(2, 4);
select is(ff_tap.broken(), 'impossible_group_has_fired', 'so is one that has no chance left');
rollback to savepoint sound;
update flowfabric.ff_edge as d set dep_state = 'unsatisfied', resolved_outcome = null
where d.edge_id = ff_tap.edge_id(1, 4);
update flowfabric.ff_edge_group as g set success_count = 0 where g.downstream_eid = ff_tap.eid(4);
select is(ff_tap.broken(), 'edge_of_ended_is_resolved', 'an end that was not passed on is seen');
insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
values (6, ff_tap.flow_id(), ff_tap.eid(1), 'success', 0);
select lives_ok(
    format('select flowfabric._ff_assert_edge_group(%L)', ff_tap.flow_id()), 'unless the dispatcher has it');
rollback to savepoint sound;
select ff_tap.finish(2, 'failed');
select ff_tap.finish(3, 'failed');
select flowfabric.ff_replay_execution(ff_tap.m(4));
select is(ff_tap.states(4), 'waiting_children', 'a replayed child waits for upstreams that have failed');
select lives_ok(
    format('select flowfabric._ff_assert_edge_group(%L)', ff_tap.flow_id()), 'and that is sound');

select * from finish();
rollback;
