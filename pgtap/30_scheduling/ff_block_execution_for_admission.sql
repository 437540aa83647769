-- Blocking: admission takes an eligible execution off its queue.
begin;
\ir ../helpers.sql
select plan(31);

prepare block (text, text, text) as select b.* from flowfabric.ff_block_execution_for_admission($1, $2, $3) as b;
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set retried '{fp:86}:00000000-0000-4000-8000-000000000002'
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000003'
\set ended '{fp:86}:00000000-0000-4000-8000-000000000004'

select ff_tap.freeze_time(1000);
select ff_tap.execution(:'execution');
select ff_tap.freeze_time(2000);

-- Each reason
select results_eq(
    format('execute block(%L, %L, %L)', :'execution', 'waiting_for_budget', 'budget tokens'),
    $$values ('blocked', 'blocked_by_budget'::flowfabric.ff_eligibility_state)$$, 'a budget blocks');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / blocked_by_budget / waiting_for_budget / none / pending_first_attempt -> rate_limited',
    'who waits for a budget is rate limited');
select is(
    (select jsonb_build_array(
        e.blocking_detail, e.blocked_at_ms, e.last_transition_at_ms, e.last_mutation_at_ms, e.delay_until_ms)
     from ff_tap.core(:'execution') as e),
    '["budget tokens", 2000, 2000, 2000, null]'::jsonb, 'detail and time of the block are stored');
select ff_tap.freeze_time(3000);
select results_eq(
    format('execute block(%L, %L, %L)', :'execution', 'waiting_for_budget', 'another'),
    $$values ('already_blocked', 'blocked_by_budget'::flowfabric.ff_eligibility_state)$$,
    'a repeat answers already_blocked');
select is(
    (select row(e.blocking_detail, e.blocked_at_ms, e.last_mutation_at_ms) from ff_tap.core(:'execution') as e),
    row('budget tokens'::text, 2000::bigint, 2000::bigint), 'and writes nothing');
select throws_ok(
    format('execute block(%L, %L, null)', :'execution', 'waiting_for_quota'), 'ZC012', 'execution_not_eligible',
    'a block for another reason is refused');

select flowfabric.ff_unblock_execution(:'execution');
select results_eq(
    format('execute block(%L, %L, null)', :'execution', 'waiting_for_quota'),
    $$values ('blocked', 'blocked_by_quota'::flowfabric.ff_eligibility_state)$$, 'a quota blocks');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / blocked_by_quota / waiting_for_quota / none / pending_first_attempt -> rate_limited',
    'who waits for a quota is rate limited');
select is((ff_tap.core(:'execution')).blocking_detail, null, 'without a detail there is none');

select flowfabric.ff_unblock_execution(:'execution');
select results_eq(
    format('execute block(%L, %L, %L)', :'execution', 'waiting_for_capable_worker', ''),
    $$values ('blocked', 'blocked_by_route'::flowfabric.ff_eligibility_state)$$, 'a missing capability blocks');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / blocked_by_route / waiting_for_capable_worker / none / pending_first_attempt -> waiting',
    'who waits for a capable worker is waiting');
select is((ff_tap.core(:'execution')).blocking_detail, null, 'an empty detail is none');

select flowfabric.ff_unblock_execution(:'execution');
select results_eq(
    format('execute block(%L, %L, null)', :'execution', 'paused_by_operator'),
    $$values ('blocked', 'blocked_by_operator'::flowfabric.ff_eligibility_state)$$, 'an operator blocks');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / blocked_by_operator / paused_by_operator / none / pending_first_attempt -> waiting',
    'who is paused by an operator is waiting');

select flowfabric.ff_unblock_execution(:'execution');
select results_eq(
    format('execute block(%L, %L, null)', :'execution', 'paused_by_policy'),
    $$values ('blocked', 'blocked_by_lane_state'::flowfabric.ff_eligibility_state)$$, 'a lane blocks');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / blocked_by_lane_state / paused_by_policy / none / pending_first_attempt -> waiting',
    'who is paused by policy is waiting');

-- Details are bounded
select flowfabric.ff_unblock_execution(:'execution');
select flowfabric.ff_block_execution_for_admission(:'execution', 'waiting_for_quota', repeat('x', 1024));
select is((ff_tap.core(:'execution')).blocking_detail, repeat('x', 1024), 'a detail of 1024 bytes is kept whole');
select flowfabric.ff_unblock_execution(:'execution');
select flowfabric.ff_block_execution_for_admission(:'execution', 'waiting_for_quota', repeat('x', 1000000));
select is((ff_tap.core(:'execution')).blocking_detail, repeat('x', 1024), 'a longer one is cut');
select flowfabric.ff_unblock_execution(:'execution');
select flowfabric.ff_block_execution_for_admission(
    :'execution', 'waiting_for_quota', 'x' || repeat('😀', 300));
select is(
    (ff_tap.core(:'execution')).blocking_detail, 'x' || repeat('😀', 255), 'the cut is between two characters');

-- What the next claim must do is kept
select ff_tap.leased_execution(:'retried', p_policy => '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(:'retried', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.freeze_time(90000);
select flowfabric.ff_promote_delayed(:'retried');
select flowfabric.ff_block_execution_for_admission(:'retried', 'waiting_for_quota');
select is(
    (select row(e.attempt_state, e.retry_count) from ff_tap.core(:'retried') as e),
    row('pending_retry_attempt'::flowfabric.ff_attempt_state, 1), 'a blocked retry stays a retry');

-- Refusals, in their order
select throws_ok(
    $$execute block('x', 'nonsense', null)$$, 'ZV001', 'invalid_input', 'a text that is no id is refused');
select throws_ok(
    $$execute block('{fp:86}:00000000-0000-4000-8000-0000000000ee', 'nonsense', null)$$, 'ZN001',
    'execution_not_found', 'an unknown execution is refused before the reason is looked at');
select ff_tap.leased_execution(:'ended');
select throws_ok(
    format('execute block(%L, %L, null)', :'ended', 'nonsense'), 'ZC012', 'execution_not_eligible',
    'an active execution is refused before the reason is looked at');
select flowfabric.ff_cancel_execution(:'ended', 'test', 'operator_override');
select throws_ok(
    format('execute block(%L, %L, null)', :'ended', 'nonsense'), 'ZC011', 'execution_not_active',
    'an ended execution is refused before the reason is looked at');
select is(
    ff_tap.error_of(format('execute block(%L, %L, null)', :'ended', 'waiting_for_quota')),
    jsonb_build_object(
        'code', 'execution_not_active', 'fn', 'ff_block_execution_for_admission', 'execution_id', :'ended',
        'lifecycle_phase', 'terminal', 'terminal_outcome', 'cancelled', 'lease_epoch', 1,
        'attempt_id', ff_tap.attempt_id(), 'attempt_state', 'attempt_terminal'),
    'the detail says how it ended');
select ff_tap.execution(:'delayed', p_delay_until_ms => 99000);
select throws_ok(
    format('execute block(%L, %L, null)', :'delayed', 'waiting_for_delay'), 'ZV015', 'invalid_blocking_reason',
    'a reason that is not one of admission is refused before the eligibility is looked at');
select is(
    ff_tap.error_of(format('execute block(%L, %L, null)', :'delayed', 'nonsense')),
    '{"code": "invalid_blocking_reason", "fn": "ff_block_execution_for_admission", "blocking_reason": "nonsense"}',
    'the detail names the reason');
select throws_ok(
    format('execute block(%L, null, null)', :'delayed'), 'ZV015', 'invalid_blocking_reason', 'a reason is required');
select throws_ok(
    format('execute block(%L, %L, null)', :'delayed', 'waiting_for_quota'), 'ZC012', 'execution_not_eligible',
    'a delayed execution is refused');
select is((ff_tap.core(:'delayed')).delay_until_ms, 99000::bigint, 'and keeps its delay');
select flowfabric._ff_become_blocked(
    ff_tap.core(:'delayed'), 'blocked_by_dependencies', 'waiting_for_children', null, 'pending_first_attempt', null,
    90000);
select throws_ok(
    format('execute block(%L, %L, null)', :'delayed', 'waiting_for_quota'), 'ZC012', 'execution_not_eligible',
    'an execution that waits for others is refused');

select * from finish();
rollback;
