-- Waiting for children: giving work back until its dependencies are resolved, or at once when none is open.
begin;
\ir ../helpers.sql
select plan(48);

select ff_tap.freeze_time(1000);
\set flow '00000000-0000-4000-8000-0000000f1000'
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare wait (text) as select w.* from flowfabric.ff_move_to_waiting_children(
    $1, ff_tap.lease_id(), 1, ff_tap.attempt_id()) as w;
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 0, 0);
-- A leased member of the flow with a join of p_n edges, or without a join.
create function ff_tap.member(p_execution_id text, p_n integer default null, p_group_state text default 'pending')
returns text
language plpgsql volatile
as $$
declare
    v_core flowfabric.ff_exec_core;
begin
    perform ff_tap.leased_execution(p_execution_id, p_attempt_timeout_ms => 4000, p_deadline_at_ms => 9000);
    v_core := ff_tap.core(p_execution_id);
    update flowfabric.ff_exec_core as e
    set flow_id = '00000000-0000-4000-8000-0000000f1000'
    where e.partition_key = v_core.partition_key and e.execution_id = v_core.execution_id;
    insert into flowfabric.ff_edge_group (
        partition_key, flow_id, downstream_eid, policy_kind, n, success_count, group_state, created_at_ms)
    select
        86, '00000000-0000-4000-8000-0000000f1000', v_core.execution_id, 'all_of', p_n,
        case p_group_state when 'satisfied' then p_n else 0 end, p_group_state, 0
    where p_n is not null;
    return p_execution_id;
end;
$$;

-- An open dependency
select ff_tap.member(:'execution', 2);
select ff_tap.burden(:'execution');
create temporary table before as
select to_jsonb(ff_tap.core(:'execution')) as core, to_jsonb(ff_tap.attempt(:'execution')) as attempt;
select ff_tap.freeze_time(1200);
select results_eq(
    format('execute wait(%L)', :'execution'),
    format($$ values ('moved', %L, 'waiting_children'::flowfabric.ff_public_state) $$, :'execution'),
    'a holder with an open dependency waits for it');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / blocked_by_dependencies / waiting_for_children / none / attempt_interrupted'
    ' -> waiting_children',
    'it is blocked with an interrupted attempt');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core from before as b) || '{
        "lifecycle_phase": "runnable", "ownership_state": "unowned", "eligibility_state": "blocked_by_dependencies",
        "blocking_reason": "waiting_for_children", "attempt_state": "attempt_interrupted",
        "current_lease_id": null, "current_worker_id": null,
        "current_worker_instance_id": null, "lease_acquired_at_ms": null, "lease_expires_at_ms": null,
        "lease_last_renewed_at_ms": null, "attempt_is_deferred": false,
        "attempt_timeout_at_ms": null, "open_reservation_count": 0,
        "last_transition_at_ms": 1200, "last_mutation_at_ms": 1200}',
    'the lease is gone; deadline, epoch and attempt id are kept');
select is(
    to_jsonb(ff_tap.attempt(:'execution')),
    (select b.attempt from before as b) || '{
        "attempt_state": "suspended", "suspended_at_ms": 1200, "suspension_id": "waiting_children",
        "timeout_remaining_ms": 3800}',
    'the attempt is paused and keeps the rest of its timeout');
select is(
    ff_tap.lease_events(:'execution'), array['acquired:issue_grant_and_claim', 'released:waiting_children'],
    'the lease event says that it waits for children');
select is(
    ff_tap.burden_of(:'execution'), 'slot free, released:lease_released, 0 open, stream open',
    'slot and reservation go back, and the stream stays open for the same attempt');
select is(ff_tap.completions(:'execution'), '{}'::text[], 'waiting is no completion');
select is(
    ff_tap.error_of(format('execute wait(%L)', :'execution')) - 'fn',
    jsonb_build_object(
        'code', 'execution_not_active', 'execution_id', :'execution', 'lifecycle_phase', 'runnable',
        'terminal_outcome', 'none', 'lease_epoch', 1, 'attempt_id', ff_tap.attempt_id(),
        'attempt_state', 'attempt_interrupted'),
    'a repeat is refused');

-- Its resolution
select flowfabric._ff_become_eligible(ff_tap.core(:'execution'), 'attempt_interrupted', null, 1300);
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / attempt_interrupted -> waiting',
    'a resolved execution is eligible with its interrupted attempt');
select flowfabric.ff_issue_claim_grant(:'execution', 'worker', 'worker-2', 'default');
select is(
    (select row(c.attempt_index, c.attempt_id, c.lease_epoch, c.handle_kind)::text
     from flowfabric.ff_claim_resumed_execution(:'execution', 'worker', 'worker-2') as c),
    format('(0,%s,2,resumed)', ff_tap.attempt_id()), 'the resume claim goes on with the attempt');

-- Nothing to wait for
select is(
    (select row(w.outcome, w.public_state)::text
     from flowfabric.ff_move_to_waiting_children(t.execution_id, ff_tap.lease_id(), 1, ff_tap.attempt_id()) as w),
    '(nothing_to_wait_for,waiting)', t.fact)
from (values
    (ff_tap.leased_execution('{fp:86}:00000000-0000-4000-8000-000000000002'),
        'without a flow there is nothing to wait for'),
    (ff_tap.member('{fp:86}:00000000-0000-4000-8000-000000000003'), 'without a join there is nothing to wait for'),
    (ff_tap.member('{fp:86}:00000000-0000-4000-8000-000000000004', 0), 'a join of no edges is nothing to wait for'),
    (ff_tap.member('{fp:86}:00000000-0000-4000-8000-000000000005', 2, 'satisfied'),
        'a satisfied join is nothing to wait for')
) as t (execution_id, fact);
select is(
    ff_tap.vector('{fp:86}:00000000-0000-4000-8000-000000000005'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / attempt_interrupted -> waiting',
    'an execution with nothing to wait for is eligible at once');
select is(
    (ff_tap.attempt('{fp:86}:00000000-0000-4000-8000-000000000005')).suspension_id, 'waiting_children',
    'its attempt is paused all the same');
select is(
    ff_tap.lease_events('{fp:86}:00000000-0000-4000-8000-000000000005'),
    array['acquired:issue_grant_and_claim', 'released:waiting_children'], 'its lease is released all the same');
\set other_flow '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.member(:'other_flow', 2);
update flowfabric.ff_exec_core as e
set flow_id = '00000000-0000-4000-8000-0000000f1fff'
where e.execution_id = '00000000-0000-4000-8000-000000000006';
select is(
    (select w.outcome from flowfabric.ff_move_to_waiting_children(
        :'other_flow', ff_tap.lease_id(), 1, ff_tap.attempt_id()) as w),
    'nothing_to_wait_for', 'a join of another flow does not count');

-- Who
\set held '{fp:86}:00000000-0000-4000-8000-0000000000c1'
\set overridden '{fp:86}:00000000-0000-4000-8000-0000000000c2'
select ff_tap.member(:'held', 1);
select ff_tap.member(:'overridden', 1);
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_worker',
        format(
            'select flowfabric.ff_move_to_waiting_children(%L, %L, 1, %L)', :'held', ff_tap.lease_id(),
            ff_tap.attempt_id())),
    'a worker lets wait what it holds');
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_operator',
        format(
            'select flowfabric.ff_move_to_waiting_children(%L, p_source => %L)', :'overridden', 'operator_override')),
    'an operator lets a live lease wait without its fence');

-- Everything that a fence is for
select ff_tap.refuses_bad_fences(
    'select flowfabric.ff_move_to_waiting_children(%1$L, %2$L, %3$L, %4$L, p_source => %5$L)');
select * from finish();
rollback;
