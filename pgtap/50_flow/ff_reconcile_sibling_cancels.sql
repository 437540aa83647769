-- The reconciler of sibling cancels: what needs something comes before what still runs.
begin;
\ir helpers.sql
select plan(11);

prepare reconcile (integer) as select r.* from flowfabric.ff_reconcile_sibling_cancels($1) as r;

select results_eq('execute reconcile(50)', 'values (0, 0, 0)', 'with nothing pending there is nothing to do');
select ff_tap.flow(6);
select ff_tap.setting('max_sync_cancels', 0);
select ff_tap.join(n, 'any_of', 'cancel_remaining') from generate_series(4, 6) as n;
select ff_tap.connect('{1, 2}', 4);
select ff_tap.connect('{1, 2}', 5);
select ff_tap.connect('{1, 3}', 6);
select ff_tap.finish(1);
select results_eq('execute reconcile(50)', 'values (0, 0, 3)', 'joins whose siblings run are left alone');
select is((select count(*) from flowfabric.ff_pending_cancel_groups), 3::bigint, 'and stay in the queue');
select ff_tap.finish(3, 'cancelled');
update flowfabric.ff_edge_group as g set cancel_siblings_pending_flag = false where g.downstream_eid = ff_tap.eid(5);
select results_eq(
    'execute reconcile(2)', 'values (1, 1, 0)',
    'a join whose flag is down and one whose siblings have ended come first, although another is older');
select results_eq(
    'select ff_tap.number_of(q.downstream_eid) from flowfabric.ff_pending_cancel_groups as q', 'values (4)',
    'they leave the queue');
select results_eq('execute reconcile(50)', 'values (0, 0, 1)', 'a second run finds only what still runs');
select is(ff_tap.states(2), 'waiting', 'nobody is cancelled here');

-- Flows that are gone, and one flow per call
\set other '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
values (77, :'other', ff_tap.eid(1), 0), (77, :'other', ff_tap.eid(2), 0);
select results_eq('execute reconcile(50)', 'values (2, 0, 0)', 'what a flow has left behind that is gone is removed');
select is((select count(*) from flowfabric.ff_pending_cancel_groups), 1::bigint, 'the other flow had not its turn');
select throws_ok('execute reconcile(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute reconcile(null)', 'ZV001', 'invalid_input', 'and required');

select * from finish();
rollback;
