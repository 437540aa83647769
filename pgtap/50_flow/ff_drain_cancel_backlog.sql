-- Draining the cancel backlog: after the grace, or at once for a flow that is named.
begin;
\ir helpers.sql
select plan(28);

prepare drain (integer, uuid) as select d.* from flowfabric.ff_drain_cancel_backlog($1, $2) as d;

select is_empty('execute drain(500, null)', 'with no backlog there is nothing to do');

select ff_tap.freeze_time(1000);
select ff_tap.flow(8);
select ff_tap.connect('{1}', 2);
select ff_tap.connect('{8}', 3);
select ff_tap.claim(4);
select ff_tap.burden(ff_tap.m(4));
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'wrong order', 'cancel_all', 5000, p_sync_limit => 0);
select is(ff_tap.backlog(), '{1, 2, 3, 4, 5, 6, 7, 8}', 'everybody is in the backlog');
select ff_tap.freeze_time(5999);
select is_empty('execute drain(500, null)', 'during the grace nobody is taken');
select ff_tap.freeze_time(6000);
savepoint grace_over;
select results_eq(
    'execute drain(3, null)', format('values (%L::uuid, 3, 0, 5)', ff_tap.flow_id()),
    'at its end the first three are cancelled');
select is(
    ff_tap.states(1, 2, 3, 4, 8), 'cancelled cancelled cancelled active waiting', 'in order');
select is(
    (select row(n.cancellation_reason, n.cancelled_by) from ff_tap.note(ff_tap.m(2)) as n),
    row('wrong order'::text, 'operator_override'::text), 'with the reason of the flow');
select is(ff_tap.edge(1, 2), 'impossible/cancelled@6000', 'edges between them are resolved');
select is(ff_tap.backlog(), '{4, 5, 6, 7, 8}', 'they have left the backlog');
select ff_tap.finish(5, 'expired');
select results_eq(
    'execute drain(500, null)', format('values (%L::uuid, 4, 0, 0)', ff_tap.flow_id()),
    'the next run takes the rest; one that ended by itself had left');
select is(ff_tap.states(4, 5, 8), 'cancelled expired cancelled', 'one that runs is cancelled too');
select is(
    ff_tap.burden_of(ff_tap.m(4)), 'slot free, released:lease_released, 0 open, stream attempt_cancelled@6000',
    'slot, reservation and stream with it');
select is(
    ff_tap.lease_events(ff_tap.m(4)), array['acquired:issue_grant_and_claim', 'released:cancelled'], 'and its lease');
select is(ff_tap.edge(8, 3), 'impossible/cancelled@6000', 'the last edge is resolved');
select is_empty('select from flowfabric.ff_cancel_backlog', 'the backlog is gone');
select is_empty('execute drain(500, null)', 'a further run does nothing');

-- A member that a cascade reaches first
rollback to savepoint grace_over;
select ff_tap.finish(1, 'expired');
select is(
    ff_tap.states(1, 2) || ' ' || (select n.cancellation_reason from ff_tap.note(ff_tap.m(2)) as n),
    'expired cancelled wrong order', 'a queued child of a member that ends otherwise is cancelled, not skipped');
select is(ff_tap.backlog(), '{3, 4, 5, 6, 7, 8}', 'and leaves the backlog with it');

-- By name
rollback to savepoint grace_over;
select ff_tap.freeze_time(2000);
select results_eq(
    format('execute drain(5, %L)', ff_tap.flow_id()), format('values (%L::uuid, 5, 0, 3)', ff_tap.flow_id()),
    'a flow that is named is drained during its grace');
-- As after a cancel by somebody who did not use the engine.
insert into flowfabric.ff_cancel_backlog_member (partition_key, flow_id, execution_id)
values (6, ff_tap.flow_id(), ff_tap.eid(1)), (6, ff_tap.flow_id(), ff_tap.eid(404));
select results_eq(
    format('execute drain(500, %L)', ff_tap.flow_id()), format('values (%L::uuid, 3, 2, 0)', ff_tap.flow_id()),
    'members that have ended or are gone are only removed');
select results_eq(
    format('execute drain(500, %L)', ff_tap.flow_id()), format('values (%L::uuid, 0, 0, 0)', ff_tap.flow_id()),
    'a flow without a backlog has nothing remaining');
select results_eq(
    format('execute drain(500, %L)', '6ba7b810-9dad-11d1-80b4-00c04fd430c8'),
    $$values ('6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid, 0, 0, 0)$$, 'nor has an unknown one');

-- Without a reason, and of a flow that is gone
rollback to savepoint grace_over;
update flowfabric.ff_flow_core as f set cancel_reason = null;
select flowfabric.ff_drain_cancel_backlog(1);
select is(
    (select n.cancellation_reason from ff_tap.note(ff_tap.m(1)) as n), 'flow_cancelled',
    'a member always has a reason');
insert into flowfabric.ff_cancel_backlog (partition_key, flow_id, requested_at_ms, grace_until_ms, cancellation_policy)
values (77, '6ba7b810-9dad-11d1-80b4-00c04fd430c8', 0, 0, 'cancel_all');
select results_eq(
    'execute drain(500, null)', $$values ('6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid, 0, 0, 0)$$,
    'the backlog of a flow that is gone has its turn');
select is((select count(*) from flowfabric.ff_cancel_backlog), 1::bigint, 'and is removed');

-- The limits of a call
rollback to savepoint grace_over;
select ff_tap.setting('max_sync_edges', 0);
select flowfabric.ff_drain_cancel_backlog();
select is(ff_tap.outbox(), '{1, 8}', 'edges that a call may not resolve are left to the dispatcher');
select is_empty('select f.* from flowfabric.ff_check_invariants() as f', 'all of it is consistent');

select throws_ok('execute drain(0, null)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute drain(null, null)', 'ZV001', 'invalid_input', 'and required');

select * from finish();
rollback;
