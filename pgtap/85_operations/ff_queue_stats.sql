-- The queues at a glance: every execution that has not ended is counted once, by its public state.
begin;
\ir ../helpers.sql
select plan(13);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

prepare stats (text) as
select s.* from flowfabric.ff_queue_stats($1) as s;

-- What the states of the executions themselves say.
prepare truth (text) as
select
    (count(*) filter (where ff_tap.public_state(e) = 'waiting'))::bigint,
    (count(*) filter (where ff_tap.public_state(e) = 'delayed'))::bigint,
    (count(*) filter (where ff_tap.public_state(e) = 'rate_limited'))::bigint,
    (count(*) filter (where ff_tap.public_state(e) = 'waiting_children'))::bigint,
    (count(*) filter (where ff_tap.public_state(e) = 'active'))::bigint,
    (count(*) filter (where ff_tap.public_state(e) = 'suspended'))::bigint
from flowfabric.ff_exec_core as e
where e.lane_id = $1;

select ff_tap.freeze_time(1000);
select is_empty('execute stats(null)', 'without lanes there is nothing to count');
select flowfabric.ff_register_lane('empty');
select results_eq(
    'execute stats(null)', $$values ('empty', 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
        null::bigint, 0::bigint)$$, 'a lane without executions has zeros');

-- One execution of every kind in lane default, some in another.
select ff_tap.execution(ff_tap.id(1));
select ff_tap.freeze_time(2000);
select ff_tap.execution(ff_tap.id(2), p_priority => 5);
select ff_tap.execution(ff_tap.id(3), p_delay_until_ms => 99000);
select ff_tap.execution(ff_tap.id(n)) from generate_series(4, 9) as n;
select flowfabric.ff_block_execution_for_admission(ff_tap.id(4), 'waiting_for_budget');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(5), 'waiting_for_quota');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(6), 'waiting_for_capable_worker');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(7), 'paused_by_policy');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(8), 'paused_by_operator');
select flowfabric.ff_block_execution_for_admission(ff_tap.id(9), 'paused_by_operator');
select ff_tap.leased_execution(ff_tap.id(n), p_lease_expires_at_ms => 2000 + n) from generate_series(20, 22) as n;
select flowfabric._ff_lose_lease(ff_tap.core(ff_tap.id(20)), 'lease_expired_reclaimable', null, 2000);
select flowfabric.ff_revoke_lease(ff_tap.id(21), p_reason => 'test');
select ff_tap.leased_execution(ff_tap.id(23));
select ff_tap.suspended_execution(ff_tap.id(30));
select ff_tap.execution(ff_tap.id(31));
select flowfabric._ff_become_blocked(
    ff_tap.core(ff_tap.id(31)), 'blocked_by_dependencies', 'waiting_for_children', null, 'pending_first_attempt', null,
    2000);
select ff_tap.leased_execution(ff_tap.id(40));
select flowfabric.ff_complete_execution(ff_tap.id(40), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.execution(
    ff_tap.id(n), p_lane_id => 'other',
    p_policy => '{"routing_requirements": {"required_capabilities": ["gpu"]}}')
from generate_series(50, 52) as n;
select ff_tap.freeze_time(2022);

select results_eq(
    $$execute stats('default')$$,
    $$values ('default', 6::bigint, 1::bigint, 2::bigint, 1::bigint, 4::bigint, 1::bigint, 1000::bigint, 2::bigint)$$,
    'each state is counted, an ended execution is not; a lease that ran out counts as expired, marked or not');
select results_eq(
    $$select s.waiting, s.delayed, s.rate_limited, s.waiting_children, s.active, s.suspended
      from flowfabric.ff_queue_stats('default') as s$$,
    $$execute truth('default')$$, 'the counts are those of the public states');
select results_eq(
    'select s.lane_id, s.waiting from flowfabric.ff_queue_stats() as s',
    $$values ('default', 6::bigint), ('empty', 0::bigint), ('other', 3::bigint)$$, 'lanes are listed by their names');
select is(
    (select s.oldest_eligible_created_at_ms from flowfabric.ff_queue_stats('other') as s), 2000::bigint,
    'the oldest that can be claimed is found in every set of capabilities');
select ff_tap.execution(ff_tap.id(60), p_lane_id => 'mixed', p_priority => 9);
select ff_tap.freeze_time(1500);
select ff_tap.execution(ff_tap.id(61), p_lane_id => 'mixed', p_priority => 7);
select ff_tap.freeze_time(1400);
select ff_tap.execution(
    ff_tap.id(62), p_lane_id => 'mixed', p_priority => 8,
    p_policy => '{"routing_requirements": {"required_capabilities": ["gpu"]}}');
select ff_tap.freeze_time(3000);
select is(
    (select s.oldest_eligible_created_at_ms from flowfabric.ff_queue_stats('mixed') as s), 1400::bigint,
    'whatever its priority and its set');
select flowfabric.ff_cancel_execution(ff_tap.id(62), 'test', 'operator_override');
select is(
    (select s.oldest_eligible_created_at_ms from flowfabric.ff_queue_stats('mixed') as s), 1500::bigint,
    'also below a higher priority');
select is(
    ff_tap.sequential_scans('select flowfabric.ff_queue_stats()'), 0::bigint,
    'the executions are found by indexes of those that have not ended');

select is_empty($$execute stats('unknown')$$, 'an unknown lane has no row');
select is(
    (select count(*) from flowfabric.ff_queue_stats('')), 4::bigint, 'an empty name is none: all lanes are listed');
select is(
    ff_tap.error_of($$select flowfabric.ff_queue_stats(repeat('x', 65))$$) ->> 'reason', 'too_long',
    'a malformed lane is refused');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_queue_stats()')$$, '42501', null,
    'a worker may not look');
select * from finish();
rollback;
