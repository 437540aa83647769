-- The dispatcher of sibling cancels: none is lost, however long the list.
begin;
\ir helpers.sql
select plan(26);

prepare dispatch (integer) as select d.* from flowfabric.ff_dispatch_sibling_cancels($1) as d;

select is_empty('execute dispatch(256)', 'with nothing pending there is nothing to do');

select ff_tap.freeze_time(1000);
select ff_tap.setting('max_sync_cancels', 48);
select ff_tap.flow(52);
select ff_tap.join(51, 'any_of', 'cancel_remaining');
select ff_tap.connect(array(select generate_series(1, 50)), 51);
select ff_tap.connect('{7}', 52);
select ff_tap.claim(9);
select ff_tap.finish(25);
select is(
    (select count(*) from flowfabric.ff_exec_core as e where ff_tap.public_state(e) = 'cancelled'), 0::bigint,
    'forty-nine siblings are too many for a call that may cancel forty-eight: it cancels none');
select is(ff_tap.states(51), 'waiting', 'the child starts all the same');
select ff_tap.freeze_time(2000);
select results_eq(
    'execute dispatch(20)',
    format('values (%L::uuid, %L, 20, 0, 0, false)', ff_tap.flow_id(), ff_tap.m(51)), 'a first run takes twenty');
select is(ff_tap.states(1, 20, 21), 'cancelled cancelled waiting', 'in order');
select is(
    (select row(n.cancellation_reason, n.cancelled_by) from ff_tap.note(ff_tap.m(9)) as n),
    row('sibling_quorum_satisfied'::text, 'operator_override'::text), 'a sibling knows why');
select is(
    ff_tap.lease_events(ff_tap.m(9)), array['acquired:issue_grant_and_claim', 'released:cancelled'],
    'one that runs loses its lease');
select is(ff_tap.completions(ff_tap.m(1)), array['cancelled'], 'each has a completion event');
select is(ff_tap.states(52), 'skipped', 'and its own children are told');
select is(
    (select cardinality(g.cancel_siblings_pending_members) from flowfabric.ff_edge_group as g
     where g.cancel_siblings_pending_flag), 29, 'the others are still listed');
select ff_tap.finish(30);
select ff_tap.finish(31, 'failed');
delete from flowfabric.ff_exec_core as e where e.execution_id = ff_tap.eid(32);
select results_eq(
    'execute dispatch(28)',
    format('values (%L::uuid, %L, 25, 2, 1, false)', ff_tap.flow_id(), ff_tap.m(51)),
    'those that have ended by themselves or are gone are only taken off the list');
select results_eq(
    'execute dispatch(1)', format('values (%L::uuid, %L, 1, 0, 0, true)', ff_tap.flow_id(), ff_tap.m(51)),
    'a list that fits the limit exactly is done');
select is(
    (select row(g.cancel_siblings_pending_flag, g.cancel_siblings_reason, g.cancel_siblings_pending_members)
     from flowfabric.ff_edge_group as g where g.downstream_eid = ff_tap.eid(51)),
    row(false, 'sibling_quorum_satisfied'::text, '{}'::uuid[]), 'flag and list are cleared, the reason stays');
select is_empty('select from flowfabric.ff_pending_cancel_groups', 'the join has left the queue');
select is(
    ff_tap.edge_group(51), 'any_of(1) of 50: 2 ok, 47 failed, 0 skipped, satisfied@1000',
    'every sibling that ended is counted, and the verdict stands');
select is_empty('execute dispatch(256)', 'a second run does nothing');

-- The other verdict
select ff_tap.setting('max_sync_cancels', 0);
select ff_tap.flow(5, 101);
select ff_tap.join(105, 'quorum', 'cancel_remaining', 3);
select ff_tap.connect('{101, 102, 103, 104}', 105);
select ff_tap.finish(101, 'failed');
select ff_tap.finish(102, 'failed');
select is(ff_tap.states(103, 104, 105), 'waiting waiting skipped', 'a quorum that cannot be reached skips its child');
select results_eq(
    'execute dispatch(256)', format('values (%L::uuid, %L, 2, 0, 0, true)', ff_tap.flow_id(), ff_tap.m(105)),
    'and cancels what is left of its upstreams too');
select is(
    (select n.cancellation_reason from ff_tap.note(ff_tap.m(103)) as n), 'sibling_quorum_impossible',
    'with the other reason');

-- What is not the dispatcher's
insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
values (6, ff_tap.flow_id(), ff_tap.eid(404), 0), (6, ff_tap.flow_id(), ff_tap.eid(105), 1);
select is_empty('execute dispatch(256)', 'a join that is gone, or whose flag is down, gives nothing to do');
select results_eq(
    'select ff_tap.number_of(q.downstream_eid) from flowfabric.ff_pending_cancel_groups as q', 'values (105)',
    'the one leaves the queue, the other is the reconciler''s');
delete from flowfabric.ff_pending_cancel_groups;

-- A join that cannot be dealt with does not stop the others.
select ff_tap.flow(3, 111);
select ff_tap.join(113, 'any_of', 'cancel_remaining');
select ff_tap.connect('{111, 112}', 113);
select ff_tap.finish(111);
update flowfabric.ff_edge_group as g set fail_count = 1 where g.downstream_eid = ff_tap.eid(113);
select is_empty('execute dispatch(256)', 'a join that contradicts its edges gives nothing to do');
select is(
    (select jsonb_build_array(f.scanner, f.failures) from flowfabric.ff_scanner_failure as f),
    '["edge_cancel", 1]'::jsonb, 'and is recorded');
select is(ff_tap.states(112), 'waiting', 'nothing of it is half done');

select throws_ok('execute dispatch(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute dispatch(null)', 'ZV001', 'invalid_input', 'and required');

select * from finish();
rollback;
