-- Priority: who may be moved within a queue, and how far.
begin;
\ir ../helpers.sql
select plan(23);

\set old '{fp:86}:00000000-0000-4000-8000-000000000001'
\set young '{fp:86}:00000000-0000-4000-8000-000000000002'
prepare change (text, integer) as select c.* from flowfabric.ff_change_priority($1, $2) as c;

select ff_tap.freeze_time(1000);
select ff_tap.execution(:'old');
select ff_tap.freeze_time(2000);
select ff_tap.execution(:'young', p_tags => '{"ff.instance_id": "blue"}', p_namespace => 'tenant');

select ff_tap.freeze_time(3000);
select results_eq(
    format('execute change(%L, 10)', :'young'), 'values (0, 10)', 'the answer is the priority before and after');
select is((ff_tap.core(:'young')).priority, 10, 'the priority is stored');
select results_eq(
    $$ select e.execution_id from flowfabric.ff_exec_core as e
       where e.eligibility_state = 'eligible_now' order by e.priority desc, e.created_at_ms, e.execution_id $$,
    format('values (%L::uuid), (%L::uuid)', right(:'young', 36), right(:'old', 36)),
    'the higher priority overtakes the older execution');
select is(
    (select row(e.last_transition_at_ms, e.last_mutation_at_ms, e.created_at_ms) from ff_tap.core(:'young') as e),
    row(2000::bigint, 3000::bigint, 2000::bigint), 'a change of priority is a mutation and no transition');
select is(
    ff_tap.vector(:'young'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'the state does not change');
select is(
    (select to_jsonb(v) - array['event_id', 'xact_id', 'epoch'] from flowfabric.ff_operator_event as v),
    jsonb_build_object(
        'occurred_at_ms', 3000, 'partition_key', 86, 'execution_id', right(:'young', 36), 'flow_id', null,
        'namespace', 'tenant', 'instance_tag', 'blue', 'event_type', 'priority_changed',
        'details', jsonb_build_object('old_priority', 0, 'new_priority', 10, 'login', session_user)),
    'an operator event tells of it, and who did it');

select results_eq(
    format('execute change(%L, 10)', :'young'), 'values (10, 10)', 'the same priority again succeeds');
select is((select count(*) from flowfabric.ff_operator_event), 2::bigint, 'and writes another event');

select results_eq(format('execute change(%L, -5)', :'old'), 'values (0, 0)', 'below 0 is 0');
select results_eq(format('execute change(%L, 10000)', :'old'), 'values (0, 9000)', 'above 9000 is 9000');
select results_eq(
    format('execute change(%L, 2147483647)', :'old'), 'values (9000, 9000)', 'the largest integer is 9000');

-- Claims start reading at the floor of a queue segment: an old execution that comes into one must be announced.
delete from flowfabric.ff_lane_floor;
insert into flowfabric.ff_lane_floor (
    lane_id, capability_set_id, priority, side, floor_ms, checked_at_ms, raised_at_ms)
values ('default', 1, 7, 1, 5000, 5000, 5000), ('default', 1, 8, 1, 5000, 5000, 5000);
select ff_tap.freeze_time(9000);
select flowfabric.ff_change_priority(:'old', 7);
select results_eq(
    'select l.priority, l.floor_ms from flowfabric.ff_lane_floor as l where l.side = 1 order by l.priority',
    format('values (7, %s::bigint), (8, 5000::bigint)', (ff_tap.core(:'old')).created_at_ms),
    'the floor of the new priority comes down to it');

-- Refusals
select throws_ok(
    format('execute change(%L, null)', :'old'), 'ZV001', 'invalid_input', 'a priority is required');
select is(
    ff_tap.error_of(format('execute change(%L, null)', :'old')),
    '{"code": "invalid_input", "fn": "ff_change_priority", "field": "new_priority", "reason": "null"}',
    'the detail names the argument');
select throws_ok('execute change(null, 1)', 'ZV001', 'invalid_input', 'an id is required');
select throws_ok($$execute change('x', 1)$$, 'ZV001', 'invalid_input', 'a text that is no id is refused');
select throws_ok(
    $$execute change('{fp:86}:00000000-0000-4000-8000-0000000000ee', 1)$$, 'ZN001', 'execution_not_found',
    'an unknown execution is refused');

select flowfabric.ff_issue_grant_and_claim(:'old', 1000);
select throws_ok(
    format('execute change(%L, 1)', :'old'), 'ZC012', 'execution_not_eligible', 'an active execution is refused');
select is(
    ff_tap.error_of(format('execute change(%L, 1)', :'old')),
    jsonb_build_object(
        'code', 'execution_not_eligible', 'fn', 'ff_change_priority', 'execution_id', :'old',
        'lifecycle_phase', 'active', 'eligibility_state', 'not_applicable', 'blocking_reason', 'none'),
    'the detail has the state that forbids it');
select flowfabric.ff_cancel_execution(:'old', 'test', 'operator_override');
select throws_ok(
    format('execute change(%L, 1)', :'old'), 'ZC012', 'execution_not_eligible', 'an ended execution is refused');
select flowfabric.ff_block_execution_for_admission(:'young', 'paused_by_operator');
select throws_ok(
    format('execute change(%L, 1)', :'young'), 'ZC012', 'execution_not_eligible', 'a blocked execution is refused');
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.execution(:'delayed', p_delay_until_ms => 99000);
select throws_ok(
    format('execute change(%L, 1)', :'delayed'), 'ZC012', 'execution_not_eligible', 'a delayed execution is refused');
select is(
    (select count(*) from flowfabric.ff_operator_event as v where v.event_type = 'priority_changed'), 6::bigint,
    'a refusal writes no event');

select * from finish();
rollback;
