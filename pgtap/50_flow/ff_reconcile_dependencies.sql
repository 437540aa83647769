-- The safety net behind edge resolution. Whatever it finds was put there by hand.
begin;
\ir helpers.sql
select plan(24);

prepare reconcile (integer) as select r.* from flowfabric.ff_reconcile_dependencies($1) as r;

create function ff_tap.block(p_number integer)
returns void
language sql volatile
as $$
    select flowfabric._ff_become_blocked(
        e, 'blocked_by_dependencies', 'waiting_for_children', null, 'pending_first_attempt', null,
        flowfabric.ff_now_ms())
    from ff_tap.core(ff_tap.m(p_number)) as e
$$;

create function ff_tap.forget(p_upstream integer, p_downstream integer)
returns void
language sql volatile
as $$
    update flowfabric.ff_edge as d set dep_state = 'unsatisfied', resolved_outcome = null, last_resolved_at_ms = null
    where d.edge_id = ff_tap.edge_id(p_upstream, p_downstream);
    update flowfabric.ff_edge_group as g
    set success_count = 0, fail_count = 0, skip_count = 0, group_state = 'pending', satisfied_at_ms = null
    where g.downstream_eid = ff_tap.eid(p_downstream);
    select ff_tap.block(p_downstream);
$$;

select ff_tap.freeze_time(1000);
select results_eq('execute reconcile(50)', 'values (0, 0, 0, 0, 0)', 'an empty database needs nothing');
select ff_tap.flow(12);
select ff_tap.connect('{1, 2}', 3);
select ff_tap.connect('{4}', 5);
select ff_tap.connect('{5}', 6);
select ff_tap.finish(1);
select ff_tap.finish(4, 'failed');
select results_eq('execute reconcile(50)', 'values (0, 0, 0, 0, 0)', 'a sound one neither');

-- An end that was not passed on
select ff_tap.connect('{7}', 8);
select ff_tap.finish(7);
select ff_tap.forget(7, 8);
select is(ff_tap.states(7, 8), 'completed waiting_children', 'somebody forgot to tell the child');
select ff_tap.freeze_time(2000);
select results_eq('execute reconcile(50)', 'values (1, 0, 0, 0, 0)', 'which is found');
select is(
    (select row(ff_tap.number_of(o.upstream_eid), o.outcome, o.enqueued_at_ms)
     from flowfabric.ff_dependency_outbox as o),
    row(7, 'success'::flowfabric.ff_terminal_outcome, 2000::bigint), 'and left to the dispatcher');
select results_eq('execute reconcile(50)', 'values (0, 0, 0, 0, 0)', 'once');
select flowfabric.ff_dispatch_dependencies();
select is(ff_tap.states(8), 'waiting', 'who lets the child go');

-- A replayed child rightly waits for an upstream that failed.
select flowfabric.ff_replay_execution(ff_tap.m(5));
select is(ff_tap.states(4, 5), 'failed waiting_children', 'a replayed child waits for a failed upstream');
select results_eq('execute reconcile(50)', 'values (0, 0, 0, 0, 0)', 'which is as it should be');

-- A child that waits for nothing
select ff_tap.block(9);
select ff_tap.block(8);
select ff_tap.execution(ff_tap.m(20));
select ff_tap.block(20);
select results_eq(
    'execute reconcile(50)', 'values (0, 3, 0, 0, 0)',
    'a child without a join, with a satisfied one, or without a flow is let go');
select is(ff_tap.states(8, 9, 20), 'waiting waiting waiting', 'and can be claimed');

-- A child whose join is impossible
select ff_tap.connect('{10}', 11);
select ff_tap.connect('{11}', 12);
select ff_tap.finish(10, 'failed');
select ff_tap.block(11);
update flowfabric.ff_edge as d set dep_state = 'unsatisfied', resolved_outcome = null
where d.edge_id = ff_tap.edge_id(11, 12);
update flowfabric.ff_edge_group as g set skip_count = 0, group_state = 'pending'
where g.downstream_eid = ff_tap.eid(12);
select ff_tap.block(12);
select results_eq('execute reconcile(50)', 'values (0, 0, 1, 0, 0)', 'is skipped');
select is(ff_tap.states(11, 12), 'skipped skipped', 'with all that depends on it');

-- The limit is shared.
select ff_tap.block(n) from unnest('{8, 9, 20}'::integer[]) as n;
select results_eq('execute reconcile(2)', 'values (0, 2, 0, 0, 0)', 'no more than the limit is repaired');
select results_eq('execute reconcile(2)', 'values (0, 1, 0, 0, 0)', 'the rest is the next call''s');

-- An item that fails
select ff_tap.flow(3, 31);
select ff_tap.connect('{31}', 32);
select ff_tap.connect('{32}', 33);
select ff_tap.finish(31, 'failed');
select ff_tap.block(32);
update flowfabric.ff_edge as d set dep_state = 'unsatisfied', resolved_outcome = null
where d.edge_id = ff_tap.edge_id(32, 33);
select ff_tap.block(9);
select results_eq(
    'execute reconcile(50)', 'values (0, 1, 0, 0, 1)',
    'one that cannot be repaired is counted, and the next one is done');
select is(
    (select jsonb_build_array(f.scanner, f.item_key, f.failures) from flowfabric.ff_scanner_failure as f),
    jsonb_build_array('dependency_reconcile', ff_tap.m(32), 1), 'and recorded');
select flowfabric.ff_reconcile_dependencies() from generate_series(1, 2);
select results_eq('execute reconcile(50)', 'values (0, 0, 0, 0, 0)', 'after the third time it is left out for a while');
update flowfabric.ff_edge_group as g set skip_count = 0, group_state = 'pending', impossible_at_ms = null
where g.downstream_eid = ff_tap.eid(33);
select ff_tap.freeze_time(200000);
select results_eq('execute reconcile(50)', 'values (0, 0, 1, 0, 0)', 'then it gets a try');
select is_empty('select from flowfabric.ff_scanner_failure', 'and a success is forgotten');

-- The flow's cancel decides what a skip is called.
select ff_tap.flow(2, 41);
select ff_tap.connect('{41}', 42);
select ff_tap.finish(41, 'failed');
select ff_tap.block(42);
insert into flowfabric.ff_cancel_backlog_member (partition_key, flow_id, execution_id)
values (6, ff_tap.flow_id(), ff_tap.eid(42));
select results_eq('execute reconcile(50)', 'values (0, 0, 1, 0, 0)', 'a child that waits to be cancelled');
select is(ff_tap.states(42), 'cancelled', 'is cancelled');

select throws_ok('execute reconcile(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute reconcile(null)', 'ZV001', 'invalid_input', 'and required');

select * from finish();
rollback;
