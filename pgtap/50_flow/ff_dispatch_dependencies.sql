-- The dispatcher of edge resolutions: one flow per call, in slices, until nothing is owed.
begin;
\ir helpers.sql
select plan(34);

prepare dispatch (integer) as select d.* from flowfabric.ff_dispatch_dependencies($1) as d;

select is_empty('execute dispatch(1000)', 'with nothing owed there is nothing to do');

-- Everything asynchronous
select ff_tap.freeze_time(1000);
select ff_tap.setting('max_sync_edges', 0);
select ff_tap.flow(4);
select ff_tap.connect('{1}', 2);
select ff_tap.connect('{2}', 3);
select ff_tap.connect('{3}', 4);
select ff_tap.finish(1);
select is(ff_tap.states(1, 2), 'completed waiting_children',
    'a call that may resolve nothing leaves the child waiting');
select is(
    (select row(ff_tap.number_of(o.upstream_eid), o.outcome, o.enqueued_at_ms)
     from flowfabric.ff_dependency_outbox as o),
    row(1, 'success'::flowfabric.ff_terminal_outcome, 1000::bigint), 'and its upstream in the outbox');
select ff_tap.freeze_time(2000);
select results_eq(
    'execute dispatch(1000)', format('values (%L::uuid, 1, 1, 1, 0, false)', ff_tap.flow_id()),
    'the dispatcher resolves it');
select is(
    ff_tap.states(2) || ', ' || ff_tap.edge(1, 2) || ', ' || ff_tap.edge_group(2),
    'waiting, satisfied/success@2000, all_of of 1: 1 ok, 0 failed, 0 skipped, satisfied@2000',
    'and the child can be claimed');
select is(ff_tap.outbox(), '{}', 'nothing is owed any more');
select is_empty('execute dispatch(1000)', 'a second run does nothing');

-- Levels
select ff_tap.finish(2, 'failed');
select is(ff_tap.states(3, 4), 'waiting_children waiting_children', 'a failure is passed on by the dispatcher too');
select results_eq(
    'execute dispatch(1)', format('values (%L::uuid, 1, 1, 0, 1, true)', ff_tap.flow_id()),
    'with a limit of one edge it takes one level');
select is(ff_tap.states(3, 4), 'skipped waiting_children', 'of two');
select is(ff_tap.outbox(), '{3}', 'who was skipped owes the next');
select results_eq(
    'execute dispatch(1)', format('values (%L::uuid, 1, 1, 0, 1, false)', ff_tap.flow_id()),
    'which is the next call''s');
select is(ff_tap.states(3, 4), 'skipped skipped', 'until the end');
select ff_tap.flow(60, 101);
select ff_tap.connect(array[n], n + 1) from generate_series(101, 159) as n;
select ff_tap.finish(101, 'cancelled');
select results_eq(
    'execute dispatch(1000)', format('values (%L::uuid, 59, 59, 0, 59, false)', ff_tap.flow_id()),
    'a chain of sixty is done in one call: the dispatcher knows no depth');

-- Slices
select ff_tap.flow(1000, 1001);
select ff_tap.flow(1, 1000);
select ff_tap.connect('{1000}', n) from generate_series(1001, 2000) as n;
select ff_tap.finish(1000);
select results_eq(
    'execute dispatch(300)', format('values (%L::uuid, 0, 300, 300, 0, true)', ff_tap.flow_id()),
    'a fan-out of a thousand is cut into slices');
select is(
    ff_tap.states(1001, 1300, 1301, 2000), 'waiting waiting waiting_children waiting_children',
    'in the order of the children');
select is(ff_tap.outbox(), '{1000}', 'the upstream stays until it owes nothing');
select throws_ok(
    format('select flowfabric.ff_replay_execution(%L, p_force => true)', ff_tap.m(1000)), 'ZC019',
    'completion_dispatch_pending', 'and stays ended');
savepoint between_slices;
select flowfabric.ff_dispatch_dependencies(300);
rollback to savepoint between_slices;
select results_eq(
    'execute dispatch(300)', format('values (%L::uuid, 0, 300, 300, 0, true)', ff_tap.flow_id()),
    'a slice that was rolled back is done again');
select results_eq(
    'execute dispatch(300)', format('values (%L::uuid, 0, 300, 300, 0, true)', ff_tap.flow_id()), 'the third slice');
select results_eq(
    'execute dispatch(300)', format('values (%L::uuid, 1, 100, 100, 0, false)', ff_tap.flow_id()),
    'the fourth ends it');
select is(
    (select count(*) from flowfabric.ff_exec_core as e
     where e.execution_id between ff_tap.eid(1001) and ff_tap.eid(2000) and e.eligibility_state = 'eligible_now'),
    1000::bigint, 'every child can be claimed');

-- Several upstreams, first come, first served
select ff_tap.flow(6, 201);
select ff_tap.connect('{201}', 204);
select ff_tap.connect('{202}', 205);
select ff_tap.connect('{203}', 206);
select ff_tap.finish(203);
select ff_tap.finish(201);
select ff_tap.finish(202);
select is(ff_tap.outbox(), '{203, 201, 202}', 'upstreams wait in the order of their ends');
select results_eq(
    'execute dispatch(2)', format('values (%L::uuid, 2, 2, 2, 0, true)', ff_tap.flow_id()), 'and are taken in it');
select is(ff_tap.outbox(), '{202}', 'so the last one is left');
select flowfabric.ff_dispatch_dependencies();

-- Siblings are cancelled from here as well, within their own limit.
select ff_tap.flow(4, 211);
select ff_tap.join(214, 'any_of', 'cancel_remaining');
select ff_tap.connect('{211, 212, 213}', 214);
select ff_tap.finish(212);
select flowfabric.ff_dispatch_dependencies();
select is(
    ff_tap.states(211, 212, 213, 214), 'cancelled completed cancelled waiting',
    'a join that fires here cancels what is left of its upstreams');

-- One flow per call, the longest waiting first
\set other '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
delete from flowfabric.ff_dependency_outbox;
insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
values (77, :'other', gen_random_uuid(), 'success', 0);
select ff_tap.flow(2, 221);
select ff_tap.connect('{221}', 222);
select ff_tap.finish(221);
select results_eq(
    'execute dispatch(1000)', format('values (%L::uuid, 1, 1, 1, 0, false)', ff_tap.flow_id()),
    'what is owed in a flow that is gone is forgotten, and the next flow has its turn');
select is(ff_tap.outbox(), '{}', 'nothing is left');
select flowfabric.ff_create_flow(:'other', 'dag');
insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
values (77, :'other', gen_random_uuid(), 'success', 0), (6, ff_tap.flow_id(), ff_tap.eid(221), 'success', 0);
select results_eq(
    'execute dispatch(1000)', format('values (%L::uuid, 1, 0, 0, 0, true)', :'other'),
    'a row without an open edge is just removed, and more says that another flow waits');
select flowfabric.ff_dispatch_dependencies();

-- A flow that cannot be repaired does not stop the others.
select ff_tap.flow(2, 231);
select ff_tap.connect('{231}', 232);
select ff_tap.finish(231);
update flowfabric.ff_edge_group as g set success_count = 1 where g.downstream_eid = ff_tap.eid(232);
insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
values (77, :'other', gen_random_uuid(), 'success', 0);
select results_eq(
    'execute dispatch(1000)', format('values (%L::uuid, 1, 0, 0, 0, true)', :'other'),
    'a flow whose joins contradict its edges is passed over');
select is(
    (select jsonb_build_array(f.scanner, f.item_key, f.failures, left(f.last_error, 25))
     from flowfabric.ff_scanner_failure as f),
    jsonb_build_array('dependency', ff_tap.flow_id(), 1, 'ZX002 invariant_violation'), 'and recorded');
select flowfabric.ff_dispatch_dependencies() from generate_series(1, 2);
select is(
    (select f.skip_until_ms from flowfabric.ff_scanner_failure as f), 12000::bigint,
    'the third time it is left out for a while');

select throws_ok('execute dispatch(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute dispatch(null)', 'ZV001', 'invalid_input', 'and required');

select * from finish();
rollback;
