-- Marking the deferred sibling cancels of one join as done.
begin;
\ir helpers.sql
select plan(12);

prepare drain (integer) as
    select d.* from flowfabric.ff_drain_sibling_cancel_group(ff_tap.flow_id(), ff_tap.m($1)) as d;

select ff_tap.freeze_time(1000);
select ff_tap.setting('max_sync_cancels', 0);
select ff_tap.flow(4);
select ff_tap.join(4, 'any_of', 'cancel_remaining');
select ff_tap.connect('{1, 2, 3}', 4);
select ff_tap.finish(2);
select is(
    (select row(
        g.cancel_siblings_pending_flag, g.cancel_siblings_reason, g.cancel_siblings_pending_members,
        q.enqueued_at_ms)
     from flowfabric.ff_edge_group as g
     join flowfabric.ff_pending_cancel_groups as q on q.downstream_eid = g.downstream_eid),
    row(true, 'sibling_quorum_satisfied'::text, array[ff_tap.eid(1), ff_tap.eid(3)], 1000::bigint),
    'a join that fired has siblings left');
select results_eq('execute drain(4)', $$values ('drained')$$, 'it is marked as done');
select is(
    (select row(
        g.cancel_siblings_pending_flag, g.cancel_siblings_reason, g.cancel_siblings_pending_members, g.satisfied_at_ms)
     from flowfabric.ff_edge_group as g),
    row(false, 'sibling_quorum_satisfied'::text, '{}'::uuid[], 1000::bigint),
    'flag and list are cleared; reason and verdict stay for whoever looks');
select is_empty('select from flowfabric.ff_pending_cancel_groups', 'nobody looks for it any more');
select is(ff_tap.states(1, 3), 'waiting waiting', 'the siblings are not touched');
select results_eq('execute drain(4)', $$values ('already_drained')$$, 'the repeat finds it done');
update flowfabric.ff_edge_group as g
set cancel_siblings_pending_flag = true, cancel_siblings_pending_members = array[ff_tap.eid(1)];
select results_eq('execute drain(4)', $$values ('already_drained')$$, 'without a row in the queue it is done');
select is(
    (select row(g.cancel_siblings_pending_flag, g.cancel_siblings_pending_members) from flowfabric.ff_edge_group as g),
    row(false, '{}'::uuid[]), 'and a flag that is still up comes down');
insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
values (6, ff_tap.flow_id(), ff_tap.eid(404), 0);
select results_eq('execute drain(404)', $$values ('drained_sans_group')$$, 'a join that is gone leaves the queue');
select is_empty('select from flowfabric.ff_pending_cancel_groups', 'for good');
select throws_ok(
    format('select flowfabric.ff_drain_sibling_cancel_group(null, %L)', ff_tap.m(4)), 'ZV001', 'invalid_input',
    'a flow is required');
select throws_ok(
    format('select flowfabric.ff_drain_sibling_cancel_group(%L, %L)', ff_tap.flow_id(), ''), 'ZV001', 'invalid_input',
    'a child is required');

select * from finish();
rollback;
