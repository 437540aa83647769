-- Unblocking: what admission took off a queue goes back.
begin;
\ir ../helpers.sql
select plan(23);

prepare unblock (text, text) as select u.* from flowfabric.ff_unblock_execution($1, $2) as u;
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set retried '{fp:86}:00000000-0000-4000-8000-000000000002'
\set member '{fp:86}:00000000-0000-4000-8000-000000000003'

select ff_tap.freeze_time(1000);
select ff_tap.execution(:'execution');
select flowfabric.ff_block_execution_for_admission(:'execution', 'waiting_for_budget', 'budget tokens');
delete from flowfabric.ff_lane_floor;
insert into flowfabric.ff_lane_floor (
    lane_id, capability_set_id, priority, side, floor_ms, checked_at_ms, raised_at_ms)
values ('default', 1, 0, 1, 4000, 4000, 4000);

select ff_tap.freeze_time(5000);
select throws_ok(
    format('execute unblock(%L, %L)', :'execution', 'waiting_for_quota'), 'ZC012', 'execution_not_eligible',
    'another reason than the expected one keeps it blocked');
select is(
    ff_tap.error_of(format('execute unblock(%L, %L)', :'execution', 'nonsense')),
    jsonb_build_object(
        'code', 'execution_not_eligible', 'fn', 'ff_unblock_execution', 'execution_id', :'execution',
        'lifecycle_phase', 'runnable', 'eligibility_state', 'blocked_by_budget',
        'blocking_reason', 'waiting_for_budget'),
    'the detail has the reason that holds');
select is((ff_tap.core(:'execution')).last_mutation_at_ms, 1000::bigint, 'a refusal writes nothing');
select results_eq(
    format('execute unblock(%L, %L)', :'execution', 'waiting_for_budget'),
    $$values ('unblocked', 'waiting'::flowfabric.ff_public_state)$$, 'the expected reason unblocks');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'it is eligible again');
select is(
    (select jsonb_build_array(
        e.blocking_detail, e.blocked_at_ms, e.last_transition_at_ms, e.last_mutation_at_ms, e.created_at_ms)
     from ff_tap.core(:'execution') as e),
    '[null, null, 5000, 5000, 1000]'::jsonb, 'nothing of the block is left, and its place in the queue is the old one');
select is(
    (select l.floor_ms from flowfabric.ff_lane_floor as l where l.side = 1), 1000::bigint, 'the floor comes down to it');
select throws_ok(
    format('execute unblock(%L, null)', :'execution'), 'ZC012', 'execution_not_eligible',
    'a repeat is refused: it is eligible already');

-- Every admission block can be lifted
create function ff_tap.round_trip(p_execution_id text, p_reason text)
returns text
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_block_execution_for_admission(p_execution_id, p_reason);
    perform flowfabric.ff_unblock_execution(p_execution_id, '');
    return ff_tap.vector(p_execution_id);
end;
$$;
select is(
    ff_tap.round_trip(:'execution', r.reason),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'a block for ' || r.reason || ' can be lifted, and an empty expectation expects nothing')
from unnest(array[
    'waiting_for_budget', 'waiting_for_quota', 'waiting_for_capable_worker', 'paused_by_operator', 'paused_by_policy'
]) as r (reason);

select ff_tap.leased_execution(:'retried', p_policy => '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(:'retried', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select throws_ok(
    format('execute unblock(%L, null)', :'retried'), 'ZC012', 'execution_not_eligible', 'a delay cannot be lifted');
select ff_tap.freeze_time(90000);
select flowfabric.ff_promote_delayed(:'retried');
select flowfabric.ff_block_execution_for_admission(:'retried', 'waiting_for_quota');
select flowfabric.ff_unblock_execution(:'retried');
select is(
    (select row(e.attempt_state, e.retry_count, e.eligibility_state) from ff_tap.core(:'retried') as e),
    row(
        'pending_retry_attempt'::flowfabric.ff_attempt_state, 1, 'eligible_now'::flowfabric.ff_eligibility_state),
    'an unblocked retry stays a retry and is counted once');

-- What others have blocked
select ff_tap.execution(:'member');
select flowfabric._ff_become_blocked(
    ff_tap.core(:'member'), 'blocked_by_dependencies', 'waiting_for_children', null, 'pending_first_attempt', null,
    90000);
select throws_ok(
    format('execute unblock(%L, null)', :'member'), 'ZC012', 'execution_not_eligible',
    'open dependencies cannot be lifted');
select flowfabric._ff_become_blocked(
    ff_tap.core(:'member'), 'blocked_by_operator', 'paused_by_flow_cancel', null, 'pending_first_attempt', null,
    90000);
select throws_ok(
    format('execute unblock(%L, null)', :'member'), 'ZC012', 'execution_not_eligible',
    'what a flow cancel has paused cannot be lifted');
select throws_ok(
    format('execute unblock(%L, %L)', :'member', 'paused_by_flow_cancel'), 'ZC012', 'execution_not_eligible',
    'not even by its own reason');

-- Other refusals
select flowfabric.ff_issue_grant_and_claim(:'execution', 1000);
select throws_ok(
    format('execute unblock(%L, null)', :'execution'), 'ZC012', 'execution_not_eligible',
    'an active execution is refused');
select flowfabric.ff_cancel_execution(:'execution', 'test', 'operator_override');
select throws_ok(
    format('execute unblock(%L, null)', :'execution'), 'ZC012', 'execution_not_eligible',
    'an ended execution is refused');
select throws_ok(
    $$execute unblock('{fp:86}:00000000-0000-4000-8000-0000000000ee', null)$$, 'ZN001', 'execution_not_found',
    'an unknown execution is refused');
select throws_ok('execute unblock(null, null)', 'ZV001', 'invalid_input', 'an id is required');
select throws_ok($$execute unblock('x', null)$$, 'ZV001', 'invalid_input', 'a text that is no id is refused');

select * from finish();
rollback;
