-- Suspending: who may pause an execution, what is left of it meanwhile, and what a repeat is told.
begin;
\ir helpers.sql
select plan(117);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare suspend (text, jsonb) as select s.* from flowfabric.ff_suspend_execution(
    $1, ff_tap.lease_id(), 1, ff_tap.attempt_id(), $2, 'waiting_for_approval') as s;

-- The keys
select ff_tap.leased_execution(:'execution', p_attempt_timeout_ms => 60000, p_deadline_at_ms => 900000);
select throws_ok(
    format('execute suspend(%L, %L)', :'execution', ff_tap.single()), 'ZU002', 'hmac_secret_not_initialized',
    'without a signing key there is no waitpoint');
select ff_tap.signing_key();

-- One fresh waitpoint
select ff_tap.burden(:'execution');
create temporary table before as
select to_jsonb(ff_tap.core(:'execution')) as core, to_jsonb(ff_tap.attempt(:'execution')) as attempt;
select ff_tap.freeze_time(21000);
create temporary table suspended as
select s.* from flowfabric.ff_suspend_execution(
    :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'waiting_for_approval', 'policy',
    array[ff_tap.waitpoint_id()], array['wpk:approval'], p_timeout_at_ms => 500000,
    p_timeout_behavior => 'auto_resume', p_resume_delay_ms => 7, p_consume_matched_signals => false,
    p_retain_signal_buffer_until_closed => true, p_continuation_metadata_pointer => 's3://state/1',
    p_suspension_id => ff_tap.suspension_id(), p_attempt_index => 0) as s;
select results_eq(
    'select s.* from suspended as s',
    $$values ('suspended', ff_tap.suspension_id(), 0, ff_tap.waitpoint_id(), 'wpk:approval', ff_tap.token(), false)$$,
    'the answer has a row for the waitpoint, with its token');
select is(
    ff_tap.vector(:'execution'),
    'suspended / unowned / not_applicable / waiting_for_approval / none / attempt_interrupted -> suspended',
    'a suspended execution has no owner and says what it waits for');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core from before as b) || jsonb_build_object(
        'lifecycle_phase', 'suspended', 'ownership_state', 'unowned', 'blocking_reason', 'waiting_for_approval',
        'blocking_detail', 'suspended: waitpoint ' || ff_tap.waitpoint_id()::text || ' awaiting waiting_for_approval',
        'attempt_state', 'attempt_interrupted', 'current_lease_id', null,
        'current_worker_id', null, 'current_worker_instance_id', null, 'lease_acquired_at_ms', null,
        'lease_expires_at_ms', null, 'lease_last_renewed_at_ms', null, 'attempt_is_deferred', false,
        'attempt_timeout_at_ms', null,
        'open_reservation_count', 0, 'current_suspension_id', ff_tap.suspension_id(),
        'current_waitpoint_id', ff_tap.waitpoint_id(), 'last_transition_at_ms', 21000, 'last_mutation_at_ms', 21000),
    'the lease is gone; epoch, attempt and deadline stay');
select is(
    to_jsonb(ff_tap.attempt(:'execution')),
    (select b.attempt from before as b) || jsonb_build_object(
        'attempt_state', 'suspended', 'suspended_at_ms', 21000, 'suspension_id', ff_tap.suspension_id(),
        'timeout_remaining_ms', 40000),
    'the attempt pauses, keeps its lease as history and saves the rest of its timeout');
select is(
    to_jsonb(ff_tap.suspension(:'execution')),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001',
        'suspension_id', ff_tap.suspension_id(), 'attempt_index', 0, 'suspended_at_ms', 21000,
        'reason_code', 'waiting_for_approval', 'requested_by', 'policy', 'condition', ff_tap.single(),
        'timeout_at_ms', 500000, 'timeout_behavior', 'auto_resume_with_timeout_signal', 'resume_delay_ms', 7,
        'consume_matched_signals', false, 'retain_signal_buffer_until_closed', true,
        'close_waitpoint_on_resume', true, 'resume_target', 'runnable',
        'continuation_metadata_pointer', 's3://state/1', 'last_signal_at_ms', null)
    || '{"satisfied_at_ms": null, "closed_at_ms": null, "close_reason": null, "resume_trigger": null,
         "closer_signal_id": null, "satisfier_signal_ids": []}',
    'the suspension is open and has everything that was given');
select is(
    to_jsonb(ff_tap.waitpoint()),
    jsonb_build_object(
        'partition_key', 86, 'waitpoint_id', ff_tap.waitpoint_id(),
        'execution_id', '00000000-0000-4000-8000-000000000001', 'attempt_index', 0, 'waitpoint_key', 'wpk:approval',
        'state', 'active', 'suspension_id', ff_tap.suspension_id(), 'ordinal', 0, 'token_kid', 'kid-1',
        'token_fingerprint', substr(ff_tap.token(), 7, 16), 'created_at_ms', 21000, 'activated_at_ms', 21000,
        'expires_at_ms', 500000, 'satisfied_at_ms', null, 'closed_at_ms', null, 'close_reason', null,
        'required_signal_names', array['approved'], 'signal_count', 0, 'matched_signal_count', 0,
        'last_signal_at_ms', null),
    'the waitpoint is active and knows the fingerprint of its token, not the token');
select is(
    (select jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch']
     from flowfabric.ff_lease_event as v where v.event_type = 'released'),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'event_type', 'released',
        'reason', 'suspend', 'lease_id', ff_tap.lease_id(), 'lease_epoch', 1, 'attempt_index', 0,
        'attempt_id', ff_tap.attempt_id(), 'worker_id', 'worker', 'worker_instance_id', 'worker-1',
        'namespace', 'default', 'occurred_at_ms', 21000),
    'one lease event names the lease that was released');
select is(ff_tap.completions(:'execution'), '{}'::text[], 'a pause is no completion');
select is(
    ff_tap.burden_of(:'execution'), 'slot free, released:lease_released, 0 open, stream open',
    'quota slot and reservations go back, the stream stays open');
select throws_ok(
    format('select flowfabric.ff_renew_lease(%L, ff_tap.lease_id(), 1, ff_tap.attempt_id())', :'execution'),
    'ZC011', 'execution_not_active', 'the old worker has nothing left to renew');
select is(
    ff_tap.error_of(format('execute suspend(%L, %L)', :'execution', ff_tap.single())) ->> 'lifecycle_phase',
    'suspended', 'a repeat without a key is told that it is suspended');
select is_empty('select f.check_name from flowfabric.ff_check_invariants() as f', 'everything fits together');

-- Nothing of the token is at rest
select is_empty(
    format(
        $$select t.name from (
            select 'waitpoint' as name, w::text as content from flowfabric.ff_waitpoint_pending as w
            union all select 'suspension', u::text from flowfabric.ff_suspension_current as u
            union all select 'dedup', d::text from flowfabric.ff_suspend_dedup as d
            union all select 'core', e::text from flowfabric.ff_exec_core as e
            union all select 'event', v::text from flowfabric.ff_lease_event as v) as t
          where strpos(t.content, %L) > 0$$, substr(ff_tap.token(), 7 + 16)),
    'no table has the rest of a token behind its fingerprint');

-- Defaults
\set plain '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'plain');
create temporary table answer as
select s.* from flowfabric.ff_suspend_execution(
    :'plain', ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'step_boundary', null, null, null, null,
    null, null, null, null, null, null, null, null, '', '', null, null) as s;
select is(
    (select to_jsonb(u) - array['partition_key', 'execution_id', 'suspension_id', 'condition', 'satisfier_signal_ids']
     from ff_tap.suspension(:'plain') as u),
    '{"attempt_index": 0, "suspended_at_ms": 21000, "reason_code": "step_boundary", "requested_by": "worker",
      "timeout_at_ms": null, "timeout_behavior": "fail", "resume_delay_ms": 0, "consume_matched_signals": true,
      "retain_signal_buffer_until_closed": false, "close_waitpoint_on_resume": true, "resume_target": "runnable",
      "continuation_metadata_pointer": null, "last_signal_at_ms": null, "satisfied_at_ms": null,
      "closed_at_ms": null, "close_reason": null, "resume_trigger": null, "closer_signal_id": null}'::jsonb,
    'NULL and empty mean the default');
select results_eq(
    'select a.outcome, a.ordinal, a.waitpoint_key, a.replayed from answer as a',
    $$values ('suspended', 0, 'wpk:approval', false)$$, 'the waitpoint is made from the key of the condition');
select is(
    (select row(u.suspension_id, e.current_waitpoint_id)::text
     from ff_tap.suspension(:'plain') as u, ff_tap.core(:'plain') as e),
    (select row(a.suspension_id, a.waitpoint_id)::text from answer as a), 'ids are generated');
select is(
    (select row(a.timeout_remaining_ms, w.expires_at_ms)::text
     from ff_tap.attempt(:'plain') as a, flowfabric.ff_waitpoint_pending as w, answer as n
     where w.waitpoint_id = n.waitpoint_id), '(,)',
    'without timeouts nothing is saved and nothing expires');

-- Reasons
select is(
    (select string_agg(r.reason || '>' || flowfabric._ff_suspension_blocking(r.reason)::text, ' ' order by r.number)
     from unnest(array[
        'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback', 'waiting_for_tool_result',
        'waiting_for_operator_review', 'paused_by_policy', 'paused_by_budget', 'step_boundary', 'manual_pause'
     ]) with ordinality as r (reason, number)),
    'waiting_for_signal>waiting_for_signal waiting_for_approval>waiting_for_approval '
    || 'waiting_for_callback>waiting_for_callback waiting_for_tool_result>waiting_for_tool_result '
    || 'waiting_for_operator_review>paused_by_operator paused_by_policy>paused_by_policy '
    || 'paused_by_budget>waiting_for_budget step_boundary>waiting_for_signal manual_pause>paused_by_operator',
    'each reason shows as a blocking reason');
create function ff_tap.blocking_after(p_reason text)
returns text
language plpgsql volatile
as $$
declare
    c_execution constant text := '{fp:86}:00000000-0000-4000-8000-00000000000e';
    v_vector text;
begin
    begin
        perform ff_tap.leased_execution(c_execution);
        perform flowfabric.ff_suspend_execution(
            c_execution, ff_tap.lease_id(), 1, ff_tap.attempt_id(), '"OperatorOnly"', p_reason);
        v_vector := ff_tap.vector(c_execution);
        raise exception using errcode = 'P0999';
    exception when sqlstate 'P0999' then
        return split_part(v_vector, ' / ', 4);
    end;
end;
$$;
select is(
    ff_tap.blocking_after(r.reason), r.blocking, format('the state model takes a pause with reason %s', r.reason))
from (values
    ('waiting_for_callback', 'waiting_for_callback'), ('waiting_for_tool_result', 'waiting_for_tool_result'),
    ('manual_pause', 'paused_by_operator'), ('paused_by_policy', 'paused_by_policy'),
    ('paused_by_budget', 'waiting_for_budget')) as r (reason, blocking);

-- Several waitpoints
\set three '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.leased_execution(:'three');
create temporary table several as
select s.* from flowfabric.ff_suspend_execution(
    :'three', ff_tap.lease_id(), 1, ff_tap.attempt_id(),
    ff_tap.all_of(ff_tap.single('up', 'db'), ff_tap.single(null, 'cache'), ff_tap.single('set', 'flag')),
    'waiting_for_signal', p_waitpoint_keys => array['flag', 'db', 'cache'], p_timeout_in_ms => 5000) as s;
select results_eq(
    'select s.ordinal, s.waitpoint_key from several as s', $$values (0, 'flag'), (1, 'db'), (2, 'cache')$$,
    'rows come in the order of the bindings, the primary one first');
select is(
    (select row(count(distinct s.waitpoint_token), count(distinct s.waitpoint_id), count(distinct s.suspension_id))
     from several as s)::text, '(3,3,1)', 'each waitpoint has a token of its own');
select results_eq(
    $$select w.ordinal, w.required_signal_names, w.expires_at_ms from flowfabric.ff_waitpoint_pending as w
      join several as s on s.waitpoint_id = w.waitpoint_id order by w.ordinal$$,
    $$values (0, '{set}'::text[], 26000::bigint), (1, '{up}', 26000), (2, '{}', 26000)$$,
    'each shows the names that are asked for there, and a relative timeout counts from now');
select is(
    (ff_tap.core(:'three')).current_waitpoint_id, (select s.waitpoint_id from several as s where s.ordinal = 0),
    'the execution points at the primary one');
\set far '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.leased_execution(:'far');
select flowfabric.ff_suspend_execution(
    :'far', ff_tap.lease_id(), 1, ff_tap.attempt_id(), '"TimeoutOnly"', 'manual_pause',
    p_timeout_in_ms => 31536000000000, p_idempotency_key => 'far');
select is(
    (ff_tap.suspension(:'far')).timeout_at_ms, 21000 + 31536000000000, 'a timeout may be a thousand years away');
select is(
    (select d.expires_at_ms from flowfabric.ff_suspend_dedup as d), (21000 + 604800000)::bigint,
    'a key is kept for a week at most');

-- The fence
select ff_tap.refuses_bad_fences(
    'select flowfabric.ff_suspend_execution(%1$L, %2$L, %3$L, %4$L, ff_tap.single(), ''manual_pause'')', false);
select ff_tap.freeze_time(30000);
\set fenced '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.leased_execution(:'fenced');
prepare suspend_index (integer) as select flowfabric.ff_suspend_execution(
    :'fenced', ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause', p_attempt_index => $1);
select throws_ok(
    'execute suspend_index(1)', 'ZV012', 'invalid_lease_for_suspend', 'an attempt index that is given must be right');
select is(
    ff_tap.error_of('execute suspend_index(1)') - 'fn',
    jsonb_build_object(
        'code', 'invalid_lease_for_suspend', 'execution_id', :'fenced', 'expected_attempt_index', 0,
        'attempt_index', 1), 'the refusal has both');
insert into flowfabric.ff_suspension_current (
    partition_key, execution_id, suspension_id, attempt_index, suspended_at_ms, reason_code, requested_by, condition,
    consume_matched_signals, retain_signal_buffer_until_closed, close_waitpoint_on_resume, resume_target)
select e.partition_key, e.execution_id, ff_tap.waitpoint_id(77), 0, 0, 'manual_pause', 'worker', '"OperatorOnly"', true,
    false, true, 'runnable'
from ff_tap.core(:'fenced') as e;
select is(
    ff_tap.error_of('execute suspend_index(0)') - 'fn',
    jsonb_build_object(
        'code', 'already_suspended', 'execution_id', :'fenced', 'suspension_id', ff_tap.waitpoint_id(77)),
    'an open suspension is never replaced');
delete from flowfabric.ff_suspension_current as u where u.suspension_id = ff_tap.waitpoint_id(77);

-- Ids are used once
select throws_ok(
    format(
        $$select flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_waitpoint_ids => array[ff_tap.waitpoint_id()], p_waitpoint_keys => array['wpk:approval'])$$, :'fenced'),
    'ZK005', 'waitpoint_already_exists', 'a waitpoint of another execution is not taken over');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(),
            ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('x', 'b')), 'manual_pause',
            p_waitpoint_ids => array[ff_tap.waitpoint_id(50), ff_tap.waitpoint_id()],
            p_waitpoint_keys => array['a', 'b'])$$, :'fenced')) - 'fn',
    jsonb_build_object(
        'code', 'waitpoint_already_exists', 'waitpoint_id', ff_tap.waitpoint_id(), 'state', 'active'),
    'nor is an additional one');
select is(ff_tap.waitpoint(50), null, 'a refused suspend leaves no waitpoint behind');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_suspension_id => ff_tap.suspension_id())$$, :'fenced')) - array['fn', 'value'],
    '{"code": "invalid_input", "field": "suspension_id", "reason": "already_used"}',
    'a suspension id is not used twice');

-- Repeats with a key
\set repeated '{fp:86}:00000000-0000-4000-8000-000000000006'
select ff_tap.leased_execution(:'repeated');
prepare suspend_keyed (text, uuid[], text, bigint) as select s.* from flowfabric.ff_suspend_execution(
    $1, ff_tap.lease_id(), 1, ff_tap.attempt_id(),
    ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('x', 'b')), 'manual_pause', p_waitpoint_ids => $2,
    p_waitpoint_keys => array['a', 'b'], p_idempotency_key => $3, p_timeout_at_ms => $4) as s;
create temporary table first_answer as
with s as (
    select s.* from flowfabric.ff_suspend_execution(
        :'repeated', ff_tap.lease_id(), 1, ff_tap.attempt_id(),
        ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('x', 'b')), 'manual_pause',
        p_waitpoint_keys => array['a', 'b'], p_idempotency_key => 'key', p_timeout_at_ms => 40000) as s
)
select s.* from s;
create temporary table held as select ff_tap.suspension_rows() as rows;
select results_eq(
    format(
        $$execute suspend_keyed(%L, %L, 'key', 99999)$$, :'repeated',
        array[ff_tap.waitpoint_id(61), ff_tap.waitpoint_id(62)]),
    $$select a.outcome, a.suspension_id, a.ordinal, a.waitpoint_id, a.waitpoint_key, a.waitpoint_token, true
      from first_answer as a order by a.ordinal$$,
    'a repeat gets the first ids and tokens, although it asks for others');
select is(ff_tap.suspension_rows(), (select h.rows from held as h), 'a repeat writes nothing');
select throws_ok(
    format($$execute suspend_keyed(%L, null, 'other key', null)$$, :'repeated'), 'ZC011', 'execution_not_active',
    'another key is another call');
\set neighbour '{fp:86}:00000000-0000-4000-8000-000000000007'
select ff_tap.leased_execution(:'neighbour');
select results_eq(
    format(
        $$select s.outcome, s.replayed from flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_idempotency_key => 'key') as s$$, :'neighbour'),
    $$values ('suspended', false)$$, 'the same key on another execution is independent');
select is(
    (select d.expires_at_ms from flowfabric.ff_suspend_dedup as d
     where d.execution_id = '00000000-0000-4000-8000-000000000007'), (30000 + 604800000)::bigint,
    'without a timeout a key is kept for a week');
select ff_tap.freeze_time(99999);
select ff_tap.signing_key('kid-2', 0);
select results_eq(
    format(
        $$select count(*), bool_and(s.waitpoint_token like 'kid-1:%%') from flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_idempotency_key => 'key', p_timeout_at_ms => -9000000) as s$$, :'repeated'),
    $$values (2::bigint, true)$$,
    'in the last millisecond of its life a key still answers, also to a call whose timeout has long passed');
select ff_tap.freeze_time(100000);
select throws_ok(
    format($$execute suspend_keyed(%L, null, 'key', 110000)$$, :'repeated'), 'ZC011', 'execution_not_active',
    'a minute after the timeout the key is forgotten');
select results_eq(
    format(
        $$select bool_and(s.waitpoint_token like 'kid-2:%%') from flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_idempotency_key => 'key') as s$$, :'neighbour'),
    $$values (true)$$, 'a repeat after the grace of the key gets tokens under the current one');
select flowfabric.ff_resume_execution(:'repeated');
select ff_tap.reclaim_resumed(:'repeated');
select results_eq(
    format(
        $$select s.replayed from flowfabric.ff_suspend_execution(
            %L, (ff_tap.core(%1$L)).current_lease_id, 2, ff_tap.attempt_id(), '"OperatorOnly"', 'manual_pause',
            p_idempotency_key => 'key', p_timeout_at_ms => 99000) as s$$, :'repeated'),
    $$values (false)$$, 'an expired key can be used again');
select is(
    (select d.expires_at_ms from flowfabric.ff_suspend_dedup as d
     where d.execution_id = '00000000-0000-4000-8000-000000000006'), 160000::bigint,
    'a timeout in the past keeps the key for a minute');

-- A pending waitpoint
\set pending '{fp:86}:00000000-0000-4000-8000-000000000008'
select ff_tap.leased_execution(:'pending');
select ff_tap.pending_waitpoint(:'pending', 81);
create temporary table early as select ff_tap.token(81) as token;
select ff_tap.advance_time(1000);
select is(ff_tap.buffer('rejected', 81), 'buffered_for_pending_waitpoint', 'a signal comes early');
prepare suspend_pending (text, integer, jsonb) as select s.outcome, s.waitpoint_token
from ff_tap.core($1) as e, flowfabric.ff_suspend_execution(
    $1, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id, $3, 'waiting_for_approval',
    p_waitpoint_ids => array[ff_tap.waitpoint_id($2)], p_use_pending => true, p_timeout_in_ms => 5000,
    p_suspension_id => ff_tap.waitpoint_id(1000 + $2)) as s;
select results_eq(
    format('execute suspend_pending(%L, 81, ff_tap.single())', :'pending'),
    $$select 'suspended', e.token from early as e$$,
    'a signal that does not match leaves the execution suspended, and the token stays the one that was handed out');
select is(
    (select to_jsonb(w) - array['partition_key', 'execution_id', 'token_fingerprint']
     from ff_tap.waitpoint(81) as w),
    jsonb_build_object(
        'waitpoint_id', ff_tap.waitpoint_id(81), 'attempt_index', 0, 'waitpoint_key', 'wpk:approval',
        'state', 'active', 'suspension_id', ff_tap.waitpoint_id(1081), 'ordinal', 0, 'token_kid', 'kid-2',
        'created_at_ms', 100000, 'activated_at_ms', 101000, 'expires_at_ms', 106000, 'satisfied_at_ms', null,
        'closed_at_ms', null, 'close_reason', null, 'required_signal_names', array['approved'], 'signal_count', 1,
        'matched_signal_count', 0, 'last_signal_at_ms', 101000),
    'the waitpoint becomes active under its old name and time');
select is(
    ff_tap.deliver('approved', 81), 'resume_condition_satisfied', 'a later signal resumes it, with the same token');
select is(
    ff_tap.signals(:'pending'),
    '{1:rejected:buffered_for_pending_waitpoint,2:approved:resume_condition_satisfied*}'::text[],
    'the early one keeps its effect and did not count');

-- Already satisfied
\set satisfied '{fp:86}:00000000-0000-4000-8000-000000000009'
select ff_tap.leased_execution(:'satisfied');
select ff_tap.pending_waitpoint(:'satisfied', 91);
select ff_tap.buffer(n.name, 91, n.source, n.id)
from (values
    ('noise', '', ff_tap.waitpoint_id(911)), ('yes', 'ann', ff_tap.waitpoint_id(912)),
    ('yes', 'ann', ff_tap.waitpoint_id(913)), ('yes', 'bob', ff_tap.waitpoint_id(914)),
    ('yes', 'cleo', ff_tap.waitpoint_id(915))) as n (name, source, id);
create temporary table running as select ff_tap.core(:'satisfied') as core, ff_tap.attempt(:'satisfied') as attempt;
select ff_tap.advance_time(500);
select results_eq(
    format(
        $$select s.outcome, s.ordinal, s.waitpoint_key, s.replayed from flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(),
            ff_tap.count_of(2, 'DistinctSources', '{wpk:approval}', 'yes'), 'waiting_for_approval',
            p_waitpoint_ids => array[ff_tap.waitpoint_id(91)], p_use_pending => true,
            p_waitpoint_keys => array['wpk:approval'], p_idempotency_key => 'sat') as s$$, :'satisfied'),
    $$values ('already_satisfied', 0, 'wpk:approval', false)$$,
    'buffered signals that satisfy the condition suspend nothing');
select is(ff_tap.core(:'satisfied'), (select r.core from running as r), 'the execution is untouched, lease and all');
select is(ff_tap.attempt(:'satisfied'), (select r.attempt from running as r), 'and so is the attempt');
select is(
    ff_tap.lease_events(:'satisfied'), array['acquired:issue_grant_and_claim'], 'no lease was released');
select is(
    (select jsonb_build_object(
        'suspended', u.suspended_at_ms, 'closed', u.closed_at_ms, 'satisfied', u.satisfied_at_ms,
        'reason', u.close_reason, 'trigger', u.resume_trigger, 'closer', u.closer_signal_id,
        'satisfiers', u.satisfier_signal_ids)
     from ff_tap.suspension(:'satisfied') as u),
    jsonb_build_object(
        'suspended', 101500, 'closed', 101500, 'satisfied', 101500, 'reason', 'resumed', 'trigger', 'signal',
        'closer', ff_tap.waitpoint_id(914),
        'satisfiers', array[ff_tap.waitpoint_id(912), ff_tap.waitpoint_id(914)]),
    'the suspension is recorded closed, with the signals that satisfied it and the one that did so last');
select is(
    (select row(w.state, w.activated_at_ms, w.satisfied_at_ms, w.closed_at_ms, w.close_reason, w.signal_count,
        w.matched_signal_count) from ff_tap.waitpoint(91) as w)::text,
    '(closed,101500,101500,101500,resumed,5,3)',
    'the waitpoint is closed; what came after the last needed signal was not counted');
select is(
    (select array_agg(s.signal_id order by s.seq) from flowfabric.ff_signal as s
     where s.waitpoint_id = ff_tap.waitpoint_id(91) and s.is_satisfier),
    array[ff_tap.waitpoint_id(912), ff_tap.waitpoint_id(914)], 'the signals that counted are marked');
select is(
    (select count(*) from flowfabric.ff_suspension_satisfier as t
     where t.execution_id = '00000000-0000-4000-8000-000000000009'), 0::bigint, 'no satisfier is left');
select results_eq(
    format('select s.signal_id from flowfabric.ff_observe_signals(%L, 0) as s', :'satisfied'),
    $$values (ff_tap.waitpoint_id(912)), (ff_tap.waitpoint_id(914))$$, 'the worker can read them');
select results_eq(
    format(
        $$select s.outcome, s.waitpoint_id, s.replayed from flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), '"OperatorOnly"', 'manual_pause',
            p_idempotency_key => 'sat') as s$$, :'satisfied'),
    $$values ('already_satisfied', ff_tap.waitpoint_id(91), true)$$, 'a repeat is told the same');
select ff_tap.pending_waitpoint(:'satisfied', 92);
select ff_tap.buffer('yes', 92, 'ann'), ff_tap.buffer('no', 92, 'bob');
select results_eq(
    format(
        $$execute suspend_pending(%L, 92, ff_tap.count_of(2, 'DistinctSources', '{wpk:approval}', 'yes'))$$,
        :'satisfied'),
    $$values ('suspended', ff_tap.token(92))$$, 'part of a condition is kept across the suspend');
select is(
    ff_tap.deliver('yes', 92, 'ann'), 'appended_to_waitpoint_duplicate', 'a source that was heard early is not new');
select is(ff_tap.deliver('yes', 92, 'bob'), 'resume_condition_satisfied', 'an early signal counts');
-- The fixture of the fence tests gives its execution a past without attempts.
select is_empty(
    $$select f.* from flowfabric.ff_check_invariants() as f where f.check_name <> 'attempts_are_counted'$$,
    'everything still fits together');

-- Pending waitpoints that cannot be used
\set strict '{fp:86}:00000000-0000-4000-8000-00000000000a'
select ff_tap.leased_execution(:'strict');
select ff_tap.pending_waitpoint(:'strict', 101, p_expires_in_ms => 1000);
select ff_tap.pending_waitpoint(:'strict', 102);
create temporary table now_open as select ff_tap.suspension_rows() as rows;
select is(
    ff_tap.error_of(format('execute suspend_pending(%L, 999, ff_tap.single())', :'strict')) - 'fn',
    jsonb_build_object('code', 'waitpoint_not_found', 'waitpoint_id', ff_tap.waitpoint_id(999)),
    'an unknown waitpoint is not found');
select is(
    ff_tap.error_of(format('execute suspend_pending(%L, 92, ff_tap.single())', :'strict')) - 'fn',
    jsonb_build_object('code', 'waitpoint_not_pending', 'waitpoint_id', ff_tap.waitpoint_id(92), 'state', 'closed'),
    'a closed one is not pending');
select is(
    ff_tap.error_of(format('execute suspend_pending(%L, 102, ff_tap.single(null, ''b''))', :'strict')) ->> 'reason',
    'waitpoint_key_mismatch', 'rule 5 holds for the key of the row');
select is(
    ff_tap.error_of(format(
        $$execute suspend_pending(%L, 102, ff_tap.count_of(1, 'DistinctSignals', '{wpk:approval,b}'))$$, :'strict'))
        - array['code', 'fn', 'field'],
    '{"reason": "referenced_waitpoint_key_missing_binding", "value": "b"}', 'so does rule 7');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_waitpoint_ids => array[ff_tap.waitpoint_id(102)], p_waitpoint_keys => array['other'],
            p_use_pending => true)$$, :'strict')) ->> 'reason',
    'waitpoint_key_mismatch', 'a key that is given must be the one of the row');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_waitpoint_ids => array[ff_tap.waitpoint_id(102)], p_use_pending => true,
            p_suspension_id => ff_tap.suspension_id())$$, :'strict')) ->> 'reason',
    'already_used', 'a suspension id is not used twice here either');
select ff_tap.advance_time(1000);
select is(
    ff_tap.error_of(format('execute suspend_pending(%L, 101, ff_tap.single())', :'strict')) - 'fn',
    jsonb_build_object(
        'code', 'pending_waitpoint_expired', 'waitpoint_id', ff_tap.waitpoint_id(101), 'expires_at_ms', 102500),
    'at the instant of its expiry a waitpoint is over, and the worker is told so');
select is(ff_tap.suspension_rows(), (select n.rows from now_open as n), 'a refused suspend writes nothing');
\set foreign '{fp:86}:00000000-0000-4000-8000-00000000000b'
select ff_tap.leased_execution(:'foreign');
select throws_ok(
    format('execute suspend_pending(%L, 102, ff_tap.single())', :'foreign'), 'ZV014',
    'invalid_waitpoint_for_execution', 'a waitpoint of another execution is refused');
select flowfabric._ff_lose_lease(ff_tap.core(:'strict'), 'lease_expired_reclaimable', null, 102500);
select flowfabric.ff_issue_reclaim_grant(:'strict', 'worker', 'worker-1', 'default');
select flowfabric.ff_reclaim_execution(:'strict', 'worker', 'worker-1');
select is(
    ff_tap.error_of(format('execute suspend_pending(%L, 102, ff_tap.single())', :'strict')) - 'fn',
    jsonb_build_object(
        'code', 'invalid_waitpoint_for_execution', 'waitpoint_id', ff_tap.waitpoint_id(102),
        'execution_id', :'strict'), 'and so is one of an earlier attempt');

-- A new suspension replaces the closed one
\set again '{fp:86}:00000000-0000-4000-8000-00000000000c'
select ff_tap.paused_execution(:'again', p_first_waitpoint => 121);
select ff_tap.deliver('approved', 121);
select ff_tap.reclaim_resumed(:'again');
select is(
    (select row(e.current_lease_epoch, e.current_attempt_id, e.total_attempt_count) from ff_tap.core(:'again') as e),
    row(2::bigint, ff_tap.attempt_id(), 1), 'the epoch grows with the next claim, the attempt is the same');
select ff_tap.suspend(:'again', ff_tap.single('other'), 122);
select is(
    (select row(u.closed_at_ms, u.satisfier_signal_ids, e.current_suspension_id = u.suspension_id)
     from ff_tap.suspension(:'again') as u, ff_tap.core(:'again') as e)::text, '(,{},t)',
    'the next suspension is open and knows no signals of the last one');

-- Arguments
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_suspend_execution(
            '{fp:86}:00000000-0000-4000-8000-00000000ffff', null, null, null, ff_tap.single(), %s)$$, b.arguments))
        - array['code', 'fn', 'value'],
    jsonb_build_object('field', b.field, 'reason', b.reason), b.what)
from (values
    (1, 'null', 'reason_code', 'null', 'a reason is required'),
    (2, '''''', 'reason_code', 'unknown', 'an empty reason is unknown'),
    (3, '''boredom''', 'reason_code', 'unknown', 'a reason must be known'),
    (4, '''manual_pause'', ''stranger''', 'requested_by', 'unknown', 'a requester must be known'),
    (5, '''manual_pause'', p_timeout_behavior => ''explode''', 'timeout_behavior', 'unknown',
        'a timeout behaviour must be known'),
    (6, '''manual_pause'', p_timeout_at_ms => 1, p_timeout_in_ms => 1', 'timeout_at_ms', 'timeout_ambiguous',
        'a timeout is absolute or relative'),
    (7, '''manual_pause'', p_timeout_in_ms => 0', 'timeout_in_ms', 'out_of_range',
        'a relative timeout lies in the future'),
    (8, '''manual_pause'', p_timeout_at_ms => 253402300800000', 'timeout_at_ms', 'out_of_range',
        'a timeout is a time'),
    (9, '''manual_pause'', p_resume_delay_ms => -1', 'resume_delay_ms', 'out_of_range', 'a delay is not negative'),
    (10, '''manual_pause'', p_resume_delay_ms => 31536000001', 'resume_delay_ms', 'out_of_range',
        'a delay is a year at most'),
    (11, '''manual_pause'', p_close_waitpoint_on_resume => false', 'close_waitpoint_on_resume', 'unsupported',
        'a resume always closes the waitpoints'),
    (12, '''manual_pause'', p_resume_target => ''elsewhere''', 'resume_target', 'unknown',
        'a resume leads to runnable'),
    (13, '''manual_pause'', p_continuation_metadata_pointer => repeat(''p'', 4097)',
        'continuation_metadata_pointer', 'length', 'a pointer has 4096 bytes at most'),
    (14, '''manual_pause'', p_idempotency_key => repeat(''k'', 513)', 'idempotency_key', 'length',
        'a key has 512 bytes at most')
) as b (number, arguments, field, reason, what)
order by b.number;
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_timeout_at_ms => flowfabric.ff_now_ms() - 600001)$$, :'foreign')) - array['code', 'fn', 'value'],
    '{"field": "timeout_at_ms", "reason": "timeout_at_in_past"}',
    'rule 11: a timeout more than ten minutes ago is a mistake');
select throws_ok(
    $$select flowfabric.ff_suspend_execution(
        '{fp:86}:00000000-0000-4000-8000-00000000ffff', null, null, null, ff_tap.single(), 'manual_pause',
        p_timeout_at_ms => -900000000)$$, 'ZN001', 'execution_not_found',
    'rule 11 comes after the execution was found');
select throws_ok(
    format(
        $$select flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 9, ff_tap.attempt_id(), ff_tap.single(), 'manual_pause',
            p_timeout_at_ms => -900000000)$$, :'foreign'), 'ZV001', 'invalid_input', 'and before the fence');

select * from finish();
rollback;
