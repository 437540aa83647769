-- Promotion: a delayed execution becomes eligible at its time, ready for what its next claim must do.
begin;
\ir ../helpers.sql
select plan(22);

prepare promote (text) as select p.* from flowfabric.ff_promote_delayed($1) as p;
\set created '{fp:86}:00000000-0000-4000-8000-000000000001'
\set failed '{fp:86}:00000000-0000-4000-8000-000000000002'
\set paused '{fp:86}:00000000-0000-4000-8000-000000000003'
\set replayed '{fp:86}:00000000-0000-4000-8000-000000000004'

-- Delayed by creation
select ff_tap.freeze_time(1000);
select ff_tap.execution(:'created', p_delay_until_ms => 5000, p_deadline_at_ms => 99000);
select ff_tap.freeze_time(4999);
select results_eq(
    format('execute promote(%L)', :'created'),
    $$values ('not_yet_due', 'delayed'::flowfabric.ff_public_state)$$, 'before its time an execution stays delayed');
select is((ff_tap.core(:'created')).last_mutation_at_ms, 1000::bigint, 'and nothing is written');
select ff_tap.freeze_time(5000);
select results_eq(
    format('execute promote(%L)', :'created'),
    $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$, 'at the instant itself it is promoted');
select is(
    ff_tap.vector(:'created'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'it is eligible, and waits for its first attempt');
select is(
    (select jsonb_build_array(
        e.delay_until_ms, e.blocking_detail, e.last_transition_at_ms, e.last_mutation_at_ms, e.deadline_at_ms,
        e.created_at_ms)
     from ff_tap.core(:'created') as e),
    '[null, null, 5000, 5000, 99000, 1000]'::jsonb, 'the delay is gone; the deadline and its place in the queue stay');
select results_eq(
    format('execute promote(%L)', :'created'),
    $$values ('not_delayed_cleaned', 'waiting'::flowfabric.ff_public_state)$$, 'a repeat finds nothing delayed');

-- Claims start reading at the floor of a queue segment: an old execution that comes back must be announced.
select ff_tap.leased_execution(:'paused');
delete from flowfabric.ff_lane_floor;
insert into flowfabric.ff_lane_floor (
    lane_id, capability_set_id, priority, side, floor_ms, checked_at_ms, raised_at_ms)
values ('default', 1, 0, 1, 9000, 9000, 9000);
select flowfabric.ff_delay_execution(:'paused', 9000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(12000);
select results_eq(
    format('execute promote(%L)', :'paused'),
    $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$, 'an execution that a worker put off is promoted');
select is(
    ff_tap.vector(:'paused'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / attempt_interrupted -> waiting',
    'its paused attempt waits to go on');
select is((ff_tap.attempt(:'paused')).attempt_state, 'suspended', 'the attempt itself is untouched');
select is(
    (select l.floor_ms from flowfabric.ff_lane_floor as l where l.side = 1), (ff_tap.core(:'paused')).created_at_ms,
    'the floor comes down to it');

-- Delayed by a failure
select ff_tap.leased_execution(:'failed', p_policy => '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(:'failed', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.freeze_time(13000);
select results_eq(
    format('execute promote(%L)', :'failed'),
    $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$, 'a retry is promoted after its back-off');
select is(
    ff_tap.vector(:'failed'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_retry_attempt -> waiting',
    'it waits for its retry');
select is(
    (select row(e.retry_count, e.replay_count) from ff_tap.core(:'failed') as e), row(1, 0),
    'a promotion is counted as nothing');

-- Delayed after a replay: a worker's delay is the only way, so the row is put there by the move.
select ff_tap.execution(:'replayed');
select flowfabric._ff_become_delayed(
    ff_tap.core(:'replayed'), 13000, 'waiting_for_delay', null, 'pending_replay_attempt', null, 13000);
execute promote(:'replayed');
select is(
    ff_tap.vector(:'replayed'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_replay_attempt -> waiting',
    'it waits for its replay');

-- Nothing to promote
select results_eq(
    $$execute promote('{fp:86}:00000000-0000-4000-8000-0000000000ee')$$,
    $$values ('not_found_cleaned', null::flowfabric.ff_public_state)$$, 'an unknown execution is an outcome');
select flowfabric.ff_issue_grant_and_claim(:'created', 1000);
select results_eq(
    format('execute promote(%L)', :'created'),
    $$values ('not_runnable_cleaned', 'active'::flowfabric.ff_public_state)$$, 'an active execution is an outcome');
select flowfabric.ff_cancel_execution(:'created', 'test', 'operator_override');
select results_eq(
    format('execute promote(%L)', :'created'),
    $$values ('not_runnable_cleaned', 'cancelled'::flowfabric.ff_public_state)$$, 'an ended execution is an outcome');
select flowfabric.ff_block_execution_for_admission(:'failed', 'waiting_for_quota');
select results_eq(
    format('execute promote(%L)', :'failed'),
    $$values ('not_delayed_cleaned', 'rate_limited'::flowfabric.ff_public_state)$$,
    'a blocked execution is an outcome');
select is(
    (select array_agg(v.event_type) from flowfabric.ff_operator_event as v), array['cancelled'],
    'promotion writes no operator event');
select is(
    ff_tap.lease_events(:'paused'), array['acquired:issue_grant_and_claim', 'released:worker_delay'],
    'promotion writes no lease event');

select throws_ok('execute promote(null)', 'ZV001', 'invalid_input', 'an id is required');
select throws_ok($$execute promote('x')$$, 'ZV001', 'invalid_input', 'a text that is no id is refused');

select * from finish();
rollback;
