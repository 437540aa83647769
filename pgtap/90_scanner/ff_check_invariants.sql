-- The invariants: a sound database has no findings, and each rule that is broken shows by its name.
begin;
\ir ../helpers.sql
select plan(78);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

-- What is found after a statement that corrupts the database, whose effect is undone again: check names, and the
-- number of the execution.
create function ff_tap.findings_after(p_sql text)
returns text[]
language plpgsql volatile
as $$
declare
    v_findings text[];
begin
    execute 'alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal';
    execute p_sql;
    select array_agg(
        concat_ws(' ', f.check_name, ltrim(right(f.execution_id, 12), '0'))
        order by f.check_name collate "C", f.execution_id collate "C")
    into v_findings
    from flowfabric.ff_check_invariants() as f;
    raise sqlstate 'UNDO1';
exception when sqlstate 'UNDO1' then
    return coalesce(v_findings, '{}');
end;
$$;

create function ff_tap.detail_after(p_sql text)
returns jsonb
language plpgsql volatile
as $$
declare
    v_detail jsonb;
begin
    execute 'alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal';
    execute p_sql;
    select f.detail into strict v_detail from flowfabric.ff_check_invariants() as f;
    raise sqlstate 'UNDO1';
exception when sqlstate 'UNDO1' then
    return v_detail;
end;
$$;

-- A sound database, with something in every state: 1 waiting, 2 delayed, 3 active, 4 failed, 5 retrying, 6 suspended,
-- 7 lost lease, 8 paused, 9 and 10 members of a flow, 11 never run and cancelled, 12 granted, 13 active with a first
-- attempt that has no row, 14 completed with an attempt that has no row and with a result beside its payload.
\set flow '00000000-0000-4000-8000-00000000f10e'
\set suspension '00000000-0000-4000-8000-000000005059'
select ff_tap.freeze_time(1000);
select is(ff_tap.findings_after('select 1'), '{}', 'an empty database is sound');
select ff_tap.execution(ff_tap.id(1));
select ff_tap.execution(ff_tap.id(2), p_delay_until_ms => 9000);
select ff_tap.execution(ff_tap.id(3));
select flowfabric.ff_issue_grant_and_claim(
    ff_tap.id(3), 30000, p_worker_id => 'worker', p_worker_instance_id => 'worker-1', p_lease_id => ff_tap.lease_id(),
    p_attempt_id => ff_tap.attempt_id(), p_attempt_policy => '{}');
select ff_tap.leased_execution(ff_tap.id(13));
select ff_tap.leased_execution(ff_tap.id(4));
select flowfabric.ff_fail_execution(ff_tap.id(4), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.leased_execution(ff_tap.id(14));
select flowfabric.ff_complete_execution(ff_tap.id(14), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'result');
select ff_tap.leased_execution(ff_tap.id(5), p_policy => '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(ff_tap.id(5), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.leased_execution(ff_tap.id(6));
select flowfabric._ff_pause_attempt(ff_tap.core(ff_tap.id(6)), :'suspension', 1000);
select flowfabric._ff_set_unowned_state(
    ff_tap.core(ff_tap.id(6)), 'suspended', 'not_applicable', 'waiting_for_signal', null, 'none',
    'attempt_interrupted', null, :'suspension', '00000000-0000-4000-8000-000000003a17', 'suspend', 1000);
insert into flowfabric.ff_suspension_current (
    partition_key, execution_id, suspension_id, attempt_index, suspended_at_ms, reason_code, requested_by, condition,
    consume_matched_signals, retain_signal_buffer_until_closed, close_waitpoint_on_resume, resume_target)
values (
    86, right(ff_tap.id(6), 36)::uuid, :'suspension', 0, 1000, 'waiting_for_signal', 'worker', '{}', true, false,
    true, 'runnable');
insert into flowfabric.ff_waitpoint_pending (
    partition_key, waitpoint_id, execution_id, attempt_index, waitpoint_key, state, suspension_id, ordinal, token_kid,
    token_fingerprint, created_at_ms, activated_at_ms)
values (
    86, '00000000-0000-4000-8000-000000003a17', right(ff_tap.id(6), 36)::uuid, 0, 'wp', 'active', :'suspension', 0,
    'k1', '0123456789abcdef', 1000, 1000);
select ff_tap.leased_execution(ff_tap.id(7), p_lease_expires_at_ms => 1500);
select ff_tap.leased_execution(ff_tap.id(8));
select flowfabric.ff_delay_execution(ff_tap.id(8), 9000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 2, 1000, 1000);
select ff_tap.execution(ff_tap.id(9));
select ff_tap.execution(ff_tap.id(10));
update flowfabric.ff_exec_core as e set flow_id = :'flow'
where e.execution_id in (right(ff_tap.id(9), 36)::uuid, right(ff_tap.id(10), 36)::uuid);
select flowfabric._ff_become_blocked(
    ff_tap.core(ff_tap.id(10)), 'blocked_by_dependencies', 'waiting_for_children', null, 'pending_first_attempt', null,
    1000);
insert into flowfabric.ff_edge (
    partition_key, flow_id, edge_id, upstream_eid, downstream_eid, dep_state, created_at_ms, staged_at_ms)
values
(
    86, :'flow', '00000000-0000-4000-8000-0000000000e1', right(ff_tap.id(9), 36)::uuid, right(ff_tap.id(10), 36)::uuid,
    'unsatisfied', 1000, 1000
),
(
    86, :'flow', '00000000-0000-4000-8000-0000000000e2', right(ff_tap.id(10), 36)::uuid, right(ff_tap.id(9), 36)::uuid,
    'staged', 1000, 1000
);
insert into flowfabric.ff_edge_group (partition_key, flow_id, downstream_eid, policy_kind, n, created_at_ms)
values (86, :'flow', right(ff_tap.id(10), 36)::uuid, 'all_of', 1, 1000);
select ff_tap.execution(ff_tap.id(11));
select flowfabric.ff_cancel_execution(ff_tap.id(11), 'test', 'operator_override');
select ff_tap.execution(ff_tap.id(12));
select flowfabric.ff_issue_claim_grant(ff_tap.id(12), 'worker', 'worker-1', 'default', p_grant_ttl_ms => 60000);
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms, closed_at_ms)
values
(86, right(ff_tap.id(3), 36)::uuid, 0, 1000, null),
(86, right(ff_tap.id(4), 36)::uuid, 0, 1000, 1000);
insert into flowfabric.ff_quota_admitted (
    quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
values
('q', 86, right(ff_tap.id(3), 36)::uuid, 1000, 61000, true),
('q', 86, right(ff_tap.id(4), 36)::uuid, 1000, 61000, false),
('q', 86, right(ff_tap.id(12), 36)::uuid, 1000, 61000, true);
insert into flowfabric.ff_budget_usage (budget_id, dimension, current_value, reserved_value, updated_at_ms)
values ('b', 'tokens', 5, 30, 1000), ('b', 'calls', 1, 0, 1000);
insert into flowfabric.ff_budget_reservation (
    budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts,
    reserved_at_ms)
values ('b', 'r', 86, right(ff_tap.id(3), 36)::uuid, ff_tap.attempt_id(), 1, '{tokens}', '{30}', 1000);
insert into flowfabric.ff_budget_reservation (
    budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts, state,
    reserved_at_ms, closed_at_ms, close_reason, expires_at_ms)
values (
    'b', 's', 86, right(ff_tap.id(3), 36)::uuid, ff_tap.attempt_id(), 1, '{tokens}', '{99}', 'settled', 1000, 1000,
    'settled', 9000);
update flowfabric.ff_exec_core as e set open_reservation_count = 1
where e.execution_id = right(ff_tap.id(3), 36)::uuid;
select ff_tap.freeze_time(2000);
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(7));
select is(ff_tap.findings_after('select 1'), '{}', 'executions in every state are sound');

-- The state vector
create function ff_tap.after_setting(p_assignments text, p_number integer, p_table text default 'ff_exec_core')
returns text[]
language sql volatile
as $$
    select ff_tap.findings_after(format(
        'update flowfabric.%I set %s where execution_id = %L', p_table, p_assignments,
        right(ff_tap.id(p_number), 36)))
$$;
select is(
    ff_tap.after_setting('terminal_at_ms = null', 4), array['terminal_iff_outcome 4'], 'an end has a time');
select is(
    ff_tap.after_setting($$terminal_outcome = 'failed'$$, 1), array['terminal_iff_outcome 1'],
    'only an end has an outcome');
select is(
    ff_tap.after_setting($$ownership_state = 'lease_revoked'$$, 1), array['active_iff_owned 1'],
    'only an active execution is owned');
select is(
    ff_tap.after_setting($$eligibility_state = 'eligible_now', blocking_reason = 'none'$$, 3),
    array['runnable_iff_eligibility_applies 3'], 'only a runnable execution is eligible');
select is(
    ff_tap.after_setting($$blocking_reason = 'waiting_for_quota'$$, 1), array['blocking_reason_fits 1'],
    'a blocking reason fits the state');
select is(
    ff_tap.after_setting($$attempt_state = 'none'$$, 1), array['attempt_state_fits 1'],
    'an attempt state fits the phase');
select is(
    ff_tap.after_setting('delay_until_ms = null', 7), array['lost_lease_has_takeover_time 7'],
    'a marked lease has a time from which it may be taken over');
select is(
    ff_tap.after_setting('lease_reclaim_count = 1', 8), array['progress_ends_losses 8'],
    'what was paused has lost nothing in a row');
select is(
    ff_tap.after_setting('current_worker_id = null', 3), array['lease_iff_active 3'], 'a lease has a worker');
select is(
    ff_tap.after_setting('current_lease_id = null', 3), array['lease_iff_active 3'], 'a lease has an id');
select is(
    ff_tap.after_setting('lease_expires_at_ms = null', 3), array['lease_iff_active 3'], 'a lease has an expiry');
select is(
    ff_tap.after_setting('lease_expires_at_ms = 1', 1), array['lease_iff_active 1'],
    'only an active execution has a lease');
select is(
    ff_tap.after_setting('delay_until_ms = null', 2), array['delayed_has_time 2'], 'a delay has a time');
select is(
    ff_tap.after_setting(format('current_suspension_id = %L', :'suspension'), 1),
    array['suspended_iff_suspension 1'], 'only a suspended execution has a suspension');
select is(
    ff_tap.after_setting('priority = 9001', 1), array['numbers_in_range 1'], 'a priority is at most 9000');
select is(
    ff_tap.detail_after(format(
        'update flowfabric.ff_exec_core set priority = -1 where execution_id = %L', right(ff_tap.id(1), 36))),
    '{"lifecycle_phase": "runnable", "ownership_state": "unowned", "eligibility_state": "eligible_now",
      "blocking_reason": "waiting_for_worker", "terminal_outcome": "none", "attempt_state": "pending_first_attempt"}',
    'the detail of a broken state is the state');

-- Leases and attempts
select is(
    ff_tap.after_setting('current_attempt_id = null', 3), array['lease_has_fence 3'], 'a lease has an attempt');
select is(
    ff_tap.findings_after(format(
        'delete from flowfabric.ff_attempt where execution_id = %1$L;
         update flowfabric.ff_exec_core set total_attempt_count = 0, current_lease_epoch = 0 where execution_id = %1$L',
        right(ff_tap.id(3), 36))),
    array['lease_has_fence 3', 'unfinished_iff_running_or_paused 3'], 'a lease has an epoch');
select is(
    ff_tap.findings_after(format(
        'update flowfabric.ff_attempt set attempt_index = 1 where execution_id = %L', right(ff_tap.id(4), 36))),
    array['current_attempt_exists 4'], 'the current attempt exists');
select is(
    ff_tap.findings_after(format(
        'delete from flowfabric.ff_attempt where execution_id = %L', right(ff_tap.id(4), 36))),
    array['attempts_are_counted 4', 'current_attempt_exists 4'], 'as many attempts exist as are counted');
create function ff_tap.add_attempt(p_number integer, p_index integer, p_state text)
returns text
language sql volatile
as $$
    select format(
        'insert into flowfabric.ff_attempt (
             partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id, lease_epoch,
             created_at_ms, started_at_ms, worker_id, worker_instance_id)
         values (86, %L, %s, %L, %L, gen_random_uuid(), gen_random_uuid(), 1, 1000, 1000, %L, %L);',
        right(ff_tap.id(p_number), 36), p_index, 'retry', p_state, 'w', 'w-1')
$$;
select is(
    ff_tap.findings_after(ff_tap.add_attempt(4, 1, 'ended_failure')), array['attempts_are_counted 4'],
    'and no more of them');
select is(
    ff_tap.findings_after(ff_tap.add_attempt(3, 1, 'started')),
    array['attempts_are_counted 3', 'one_unfinished_attempt 3', 'unfinished_iff_running_or_paused 3'],
    'at most one attempt is unfinished');
select is(
    ff_tap.findings_after(format(
        $$update flowfabric.ff_attempt set attempt_state = 'suspended' where execution_id = %L$$,
        right(ff_tap.id(4), 36))),
    array['unfinished_iff_running_or_paused 4'], 'an ended execution has no unfinished attempt');
select is(
    ff_tap.findings_after(format(
        $$update flowfabric.ff_attempt set attempt_state = 'ended_failure' where execution_id = %L$$,
        right(ff_tap.id(3), 36))),
    array['unfinished_iff_running_or_paused 3'], 'an active execution has an unfinished attempt');
select is(
    ff_tap.findings_after(format(
        $$update flowfabric.ff_attempt set attempt_state = 'ended_failure' where execution_id = %L$$,
        right(ff_tap.id(8), 36))),
    array['unfinished_iff_running_or_paused 8'], 'so has one that is paused');
select is(
    ff_tap.findings_after(
        ff_tap.add_attempt(3, 1, 'ended_failure') || format(
            'update flowfabric.ff_exec_core set total_attempt_count = 2 where execution_id = %L',
            right(ff_tap.id(3), 36))),
    array['attempt_has_fence_id 3', 'unfinished_iff_running_or_paused 3'], 'and it is the current one');
select is(
    (select array_agg(a.execution_id order by a.execution_id) from flowfabric._ff_all_attempts() as a
     where a.attempt_state = 'started'),
    array[right(ff_tap.id(3), 36), right(ff_tap.id(7), 36), right(ff_tap.id(13), 36)]::uuid[],
    'a first attempt counts although its row is not written yet');
select is(
    ff_tap.findings_after(ff_tap.add_attempt(13, 0, 'started')),
    array[
        'attempt_has_fence_id 13', 'attempts_are_counted 13', 'deferred_attempt_is_sound_and_unwritten 13',
        'one_unfinished_attempt 13', 'unfinished_iff_running_or_paused 13'],
    'an attempt whose row is deferred has none');
select is(
    ff_tap.findings_after(ff_tap.add_attempt(14, 0, 'ended_success')),
    array['attempt_has_fence_id 14', 'attempts_are_counted 14', 'deferred_attempt_is_sound_and_unwritten 14'],
    'nor has it one when it has succeeded');
select is(
    ff_tap.after_setting('attempt_is_deferred = false', 13),
    array['attempts_are_counted 13', 'current_attempt_exists 13', 'unfinished_iff_running_or_paused 13'],
    'an attempt whose row is not deferred has one');
select is(
    ff_tap.after_setting('attempt_is_deferred = false', 14),
    array['attempts_are_counted 14', 'current_attempt_exists 14'], 'also when it has succeeded');
select is(
    ff_tap.after_setting('attempt_is_deferred = true', 1),
    array['attempts_are_counted 1', 'deferred_attempt_is_sound_and_unwritten 1', 'unfinished_iff_running_or_paused 1'],
    'only an attempt that runs or has succeeded is deferred');
select is(
    ff_tap.after_setting($$terminal_outcome = 'failed'$$, 14), array['deferred_attempt_is_sound_and_unwritten 14'],
    'not one that has failed');
select is(
    ff_tap.after_setting(c.name || ' = null', 14), array['deferred_attempt_is_sound_and_unwritten 14'],
    'one that has succeeded keeps its ' || c.name)
from (values ('ended_lease_id'), ('ended_worker_id'), ('ended_worker_instance_id')) as c (name);
select is(
    ff_tap.after_setting('current_lease_epoch = 2', 4), array['attempt_has_lease_epoch 4'],
    'the current attempt has the epoch of the execution');
select is(
    ff_tap.after_setting('current_attempt_id = gen_random_uuid()', 3), array['attempt_has_fence_id 3'],
    'and its attempt id');

-- Payloads
select is(
    ff_tap.after_setting('small_payload = null', 1), array['payload_has_one_place 1'], 'a payload stands somewhere');
select is(
    ff_tap.after_setting($$small_payload = ''$$, 5), array['payload_has_one_place 5'],
    'one that has company stands beside its execution');
select is(
    ff_tap.after_setting(a.assignment, 14, 'ff_exec_payload'), array['payload_has_one_place 14'],
    'beside a small one there is nothing but a result, so not: ' || a.assignment)
from (values
    ($$payload = 'other'$$), ($$payload_encoding = 'text'$$), ($$policy = '{}'$$), ($$creator_identity = 'cron'$$),
    ($$tags = '{"app.run": "7"}'$$)
) as a (assignment);
select is(
    ff_tap.detail_after(format(
        'delete from flowfabric.ff_exec_payload where execution_id = %L', right(ff_tap.id(5), 36))),
    '{"is_small": false, "has_row": false}', 'the detail says where it was looked for');

-- Suspensions, waitpoints, streams
select is(
    ff_tap.findings_after('update flowfabric.ff_suspension_current set suspension_id = gen_random_uuid()'),
    array['suspension_open_iff_suspended 6'], 'a suspended execution has its own suspension');
select is(
    ff_tap.findings_after('delete from flowfabric.ff_suspension_current'), array['suspension_open_iff_suspended 6'],
    'a suspended execution has a suspension');
select is(
    ff_tap.findings_after($$update flowfabric.ff_suspension_current set closed_at_ms = 1, close_reason = 'resumed'$$),
    array['suspension_open_iff_suspended 6'], 'which is open');
select is(
    ff_tap.findings_after(format(
        'update flowfabric.ff_suspension_current set execution_id = %L', right(ff_tap.id(1), 36))),
    array['suspension_open_iff_suspended 1', 'suspension_open_iff_suspended 6'],
    'only a suspended execution has an open one');
select is(
    ff_tap.findings_after(format(
        'update flowfabric.ff_waitpoint_pending set execution_id = %L', right(ff_tap.id(4), 36))),
    array['waitpoint_of_ended_is_closed 4'], 'an ended execution has no active waitpoint');
select is(
    ff_tap.findings_after(format(
        $$update flowfabric.ff_waitpoint_pending
          set execution_id = %L, state = 'pending', suspension_id = null, expires_at_ms = 2001$$,
        right(ff_tap.id(4), 36))),
    '{}', 'a pending one may wait for its expiry');
select is(
    ff_tap.findings_after(format(
        $$update flowfabric.ff_waitpoint_pending
          set execution_id = %L, state = 'pending', suspension_id = null, expires_at_ms = 2000$$,
        right(ff_tap.id(4), 36))),
    array['waitpoint_of_ended_is_closed 4'], 'but not longer');
select is(
    ff_tap.findings_after('update flowfabric.ff_stream_meta set closed_at_ms = null'),
    array['stream_of_ended_is_closed 4'], 'an ended execution has no open stream');

-- Grants and slots
select is(
    ff_tap.findings_after(format(
        'update flowfabric.ff_claim_grant set execution_id = %L', right(ff_tap.id(3), 36))),
    array['grant_is_usable 3', 'slot_is_used 12'], 'a leased execution has no grant');
select is(
    ff_tap.findings_after(format(
        'delete from flowfabric.ff_quota_admitted; update flowfabric.ff_claim_grant set execution_id = %L',
        right(ff_tap.id(4), 36))),
    array['grant_is_usable 4'], 'nor has an ended one');
select is(
    ff_tap.findings_after(format(
        'delete from flowfabric.ff_quota_admitted; update flowfabric.ff_claim_grant set execution_id = %L',
        right(ff_tap.id(404), 36))),
    array['grant_is_usable 404'], 'nor has one that does not exist');
select is(
    ff_tap.findings_after(format(
        $$delete from flowfabric.ff_quota_admitted;
          update flowfabric.ff_claim_grant set execution_id = %L, kind = 'reclaim'$$,
        right(ff_tap.id(7), 36))),
    '{}', 'one whose lease is lost may have one');
select is(
    ff_tap.findings_after('update flowfabric.ff_quota_admitted set slot_held = true'), array['slot_is_used 4'],
    'an ended execution holds no quota slot');
select is(
    ff_tap.findings_after('delete from flowfabric.ff_claim_grant'), array['slot_is_used 12'],
    'a waiting one holds one only for a grant');
select is(
    ff_tap.findings_after(format(
        'update flowfabric.ff_quota_admitted set execution_id = %L where execution_id = %L', right(ff_tap.id(404), 36),
        right(ff_tap.id(3), 36))),
    array['slot_is_used 404'], 'one that does not exist holds none');

-- Flows
select is(
    ff_tap.findings_after('update flowfabric.ff_edge_group set success_count = 1'),
    array['group_counts_its_edges 10'], 'a group counts its successes');
select is(
    ff_tap.findings_after('update flowfabric.ff_edge_group set n = 2'), array['group_counts_its_edges 10'],
    'and its applied edges');
select is(
    ff_tap.findings_after(
        $$update flowfabric.ff_edge set dep_state = 'impossible', resolved_outcome = 'skipped'
          where dep_state = 'unsatisfied'; update flowfabric.ff_edge_group set fail_count = 1$$),
    array['group_counts_its_edges 10'], 'and tells failures from skips');
select is(
    ff_tap.detail_after('delete from flowfabric.ff_edge_group'),
    jsonb_build_object(
        'flow_id', :'flow', 'stored', '{"n": null, "success": null, "fail": null, "skip": null}'::jsonb,
        'counted', '{"n": 1, "success": 0, "fail": 0, "skip": 0}'::jsonb),
    'applied edges have a group; the detail has both counts');
select is(
    ff_tap.detail_after('update flowfabric.ff_flow_core set node_count = 1'),
    jsonb_build_object('flow_id', :'flow', 'members', 2, 'node_count', 1), 'a flow counts its members');

-- Budgets
select is(
    ff_tap.detail_after('update flowfabric.ff_budget_usage set reserved_value = 31 where reserved_value = 30'),
    '{"budget_id": "b", "dimension": "tokens", "reserved_value": 31, "open_reservations": 30}',
    'a budget counts what is set aside');
select is(
    ff_tap.findings_after('delete from flowfabric.ff_budget_usage'), array['budget_counts_its_reservations'],
    'also where nothing was used yet');
select is(
    ff_tap.after_setting('open_reservation_count = 2', 3), array['execution_counts_its_reservations 3'],
    'an execution counts its reservations');
select is(
    ff_tap.after_setting('open_reservation_count = 0', 3), array['execution_counts_its_reservations 3'],
    'all of them');

-- Limits
alter table flowfabric.ff_exec_core drop constraint ff_exec_core_state_is_legal;
update flowfabric.ff_exec_core as e set priority = 9001;
select is((select count(*) from flowfabric.ff_check_invariants()), 14::bigint, 'every execution can be a finding');
select is((select count(*) from flowfabric.ff_check_invariants(5)), 5::bigint, 'a limit cuts');
select is((select count(*) from flowfabric.ff_check_invariants(0)), 0::bigint, 'a limit of 0 asks for nothing');
select is(
    (select count(*) from flowfabric.ff_check_invariants(2147483647)), 14::bigint,
    'a limit above 1000 counts as 1000');
select throws_ok(
    'select flowfabric.ff_check_invariants(-1)', 'ZV001', 'invalid_input', 'a limit is not negative');
select is(
    ff_tap.error_of('select flowfabric.ff_check_invariants(null)'),
    '{"code": "invalid_input", "fn": "ff_check_invariants", "field": "limit", "reason": "null"}',
    'a limit is required');

select * from finish();
rollback;
