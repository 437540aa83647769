-- Delivering a signal: what a token opens, what a signal does, and what a repeat or a latecomer is told.
begin;
\ir helpers.sql
select plan(93);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.execution(
    :'execution', p_namespace => 'tenant', p_lane_id => 'gpu', p_tags => '{"ff.instance_id": "blue"}');
select flowfabric.ff_issue_grant_and_claim(
    :'execution', 600, p_worker_id => 'pool', p_worker_instance_id => 'pool-1', p_lease_id => ff_tap.lease_id(),
    p_attempt_id => ff_tap.attempt_id());
select ff_tap.suspend(:'execution', p_suspension_id => ff_tap.suspension_id());
create temporary table before as
select to_jsonb(ff_tap.core(:'execution')) as core, to_jsonb(ff_tap.attempt(:'execution')) as attempt,
    to_jsonb(ff_tap.waitpoint()) as waitpoint, to_jsonb(ff_tap.suspension(:'execution')) as suspension;

-- A signal that does not match
select ff_tap.freeze_time(2000);
select results_eq(
    format(
        $$select d.outcome, d.signal_id, d.effect from flowfabric.ff_deliver_signal(
            %L, ff_tap.waitpoint_id(), %L, 'rejected', ff_tap.waitpoint_id(901), 'human', 'person', 'ann',
            '\x00ff', 'raw', 'first', 5000, 'ticket-7', 'execution', 1999) as d$$, :'execution', ff_tap.token()),
    $$values ('accepted', ff_tap.waitpoint_id(901), 'no_op')$$,
    'a signal that does not match a Single is accepted and does nothing');
select is(
    (select to_jsonb(s) from flowfabric.ff_signal as s),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001',
        'signal_id', ff_tap.waitpoint_id(901), 'seq', 1, 'waitpoint_id', ff_tap.waitpoint_id(),
        'signal_name', 'rejected', 'signal_category', 'human', 'source_type', 'person', 'source_identity', 'ann',
        'correlation_id', 'ticket-7', 'idempotency_key', 'first', 'target_scope', 'execution',
        'payload', '\x00ff', 'payload_encoding', 'raw', 'created_at_ms', 1999, 'accepted_at_ms', 2000,
        'observed_effect', 'no_op', 'is_satisfier', false), 'everything that was sent is recorded');
select is(
    to_jsonb(ff_tap.waitpoint()),
    (select b.waitpoint from before as b) || '{"signal_count": 1, "last_signal_at_ms": 2000}',
    'the waitpoint counts it, not as a match');
select is(
    to_jsonb(ff_tap.suspension(:'execution')),
    (select b.suspension from before as b) || '{"last_signal_at_ms": 2000}', 'the suspension knows when it came');
select is(
    to_jsonb(ff_tap.core(:'execution')), (select b.core from before as b),
    'the execution is not written');
select is(
    (select to_jsonb(d) from flowfabric.ff_signal_dedup as d),
    jsonb_build_object(
        'partition_key', 86, 'waitpoint_id', ff_tap.waitpoint_id(), 'idempotency_key', 'first',
        'signal_id', ff_tap.waitpoint_id(901), 'expires_at_ms', 7000), 'the key is kept for the time that was asked');
select is(
    (select to_jsonb(v) - array['event_id', 'xact_id', 'epoch'] from flowfabric.ff_signal_event as v),
    jsonb_build_object(
        'partition_key', 86, 'occurred_at_ms', 2000, 'execution_id', '00000000-0000-4000-8000-000000000001',
        'signal_id', ff_tap.waitpoint_id(901), 'waitpoint_id', ff_tap.waitpoint_id(), 'namespace', 'tenant',
        'instance_tag', 'blue', 'signal_name', 'rejected', 'source_type', 'person', 'source_identity', 'ann',
        'effect', 'no_op'), 'one event says what it did');

-- The signal that satisfies the condition
select ff_tap.freeze_time(3000);
create temporary table closing as
select d.* from flowfabric.ff_deliver_signal(
    :'execution', ff_tap.waitpoint_id(), ff_tap.token(), 'approved', p_idempotency_key => 'second') as d;
select results_eq(
    'select c.outcome, c.effect from closing as c', $$values ('accepted', 'resume_condition_satisfied')$$,
    'the signal that matches satisfies the condition');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / attempt_interrupted -> waiting',
    'the execution waits for a worker, with its paused attempt');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core from before as b) || '{
        "lifecycle_phase": "runnable", "eligibility_state": "eligible_now", "blocking_reason": "waiting_for_worker",
        "blocking_detail": null, "current_suspension_id": null,
        "current_waitpoint_id": null, "last_transition_at_ms": 3000, "last_mutation_at_ms": 3000}',
    'epoch, attempt, priority and creation time stay');
select is(
    to_jsonb(ff_tap.attempt(:'execution')), (select b.attempt from before as b), 'the attempt stays paused');
select is(
    to_jsonb(ff_tap.suspension(:'execution')),
    (select b.suspension || jsonb_build_object(
        'last_signal_at_ms', 3000, 'satisfied_at_ms', 3000, 'closed_at_ms', 3000, 'close_reason', 'resumed',
        'resume_trigger', 'signal', 'closer_signal_id', c.signal_id,
        'satisfier_signal_ids', array[c.signal_id]) from before as b, closing as c),
    'the suspension is closed and names its signals');
select is(
    to_jsonb(ff_tap.waitpoint()),
    (select b.waitpoint from before as b) || '{
        "state": "closed", "signal_count": 2, "matched_signal_count": 1, "last_signal_at_ms": 3000,
        "satisfied_at_ms": 3000, "closed_at_ms": 3000, "close_reason": "resumed"}',
    'the waitpoint is closed with it');
select is((select count(*) from flowfabric.ff_suspension_satisfier), 0::bigint, 'the satisfiers are gone');
select is(
    (select to_jsonb(s) - array['signal_id', 'partition_key', 'execution_id', 'waitpoint_id']
     from flowfabric.ff_signal as s where s.seq = 2),
    '{"seq": 2, "signal_name": "approved", "signal_category": "external", "source_type": "external",
      "source_identity": "", "correlation_id": null, "idempotency_key": "second", "target_scope": "waitpoint",
      "payload": null, "payload_encoding": "json", "created_at_ms": 3000, "accepted_at_ms": 3000,
      "observed_effect": "resume_condition_satisfied", "is_satisfier": true}'::jsonb,
    'a signal needs a name and nothing else');
select is(
    ff_tap.signal_events(:'execution'), '{rejected:no_op,approved:resume_condition_satisfied}'::text[],
    'each accepted signal is one event');
select is(ff_tap.completions(:'execution'), '{}'::text[], 'a resume is no completion');
select is(
    ff_tap.lease_events(:'execution'), '{acquired:issue_grant_and_claim,released:suspend}'::text[],
    'nor does it concern a lease');
select is_empty('select f.check_name from flowfabric.ff_check_invariants() as f', 'everything fits together');

-- Repeats
create temporary table held as select ff_tap.suspension_rows() as rows;
select results_eq(
    format(
        $$select d.outcome, d.signal_id, d.effect from flowfabric.ff_deliver_signal(
            %L, ff_tap.waitpoint_id(), %L, 'something else', p_idempotency_key => 'second') as d$$,
        :'execution', (select flowfabric._ff_token_again(ff_tap.waitpoint(), 3000, '')).waitpoint_token),
    $$select 'duplicate', c.signal_id, null::text from closing as c$$,
    'a sender whose answer was lost learns that its signal was accepted, also after the resume');
select results_eq(
    format(
        $$select d.outcome, d.signal_id, d.effect from flowfabric.ff_deliver_signal(
            %L, ff_tap.waitpoint_id(), %L, 'something else', ff_tap.waitpoint_id(901)) as d$$,
        :'execution', ff_tap.token()),
    $$values ('duplicate', ff_tap.waitpoint_id(901), null::text)$$, 'the same signal id again is a duplicate too');
select is(ff_tap.suspension_rows(), (select h.rows from held as h), 'a duplicate writes nothing, not even an event');
select throws_ok(
    format(
        $$select flowfabric.ff_deliver_signal(
            %L, ff_tap.waitpoint_id(), 'kid-1:0', 'x', p_idempotency_key => 'second')$$, :'execution'),
    'ZV009', 'invalid_token', 'a repeat needs a good token as well');

-- Late signals
select is(
    ff_tap.error_of($$select ff_tap.deliver()$$),
    jsonb_build_object(
        'code', 'target_not_signalable', 'fn', 'ff_deliver_signal', 'execution_id', :'execution',
        'lifecycle_phase', 'runnable'), 'a signal after the resume comes too late');
select ff_tap.reclaim_resumed(:'execution');
select is(
    ff_tap.error_of($$select ff_tap.deliver()$$) ->> 'lifecycle_phase', 'active', 'and while the execution runs');
select ff_tap.suspend(:'execution', ff_tap.single(), 2);
create temporary table next_pause as select ff_tap.suspension_rows() as rows;
select is(
    ff_tap.error_of($$select ff_tap.deliver()$$),
    jsonb_build_object(
        'code', 'waitpoint_closed', 'fn', 'ff_deliver_signal', 'waitpoint_id', ff_tap.waitpoint_id(),
        'close_reason', 'resumed'), 'and while it is suspended again: an old token is useless for the new suspension');
update flowfabric.ff_waitpoint_pending as w
set state = 'active', closed_at_ms = null where w.waitpoint_id = ff_tap.waitpoint_id();
select is(
    ff_tap.error_of($$select ff_tap.deliver()$$) ->> 'code', 'waitpoint_closed',
    'even if the old waitpoint were open, it is none of the new suspension');
update flowfabric.ff_waitpoint_pending as w
set state = 'closed', closed_at_ms = 3000 where w.waitpoint_id = ff_tap.waitpoint_id();
select is(ff_tap.suspension_rows(), (select n.rows from next_pause as n), 'late signals leave no trace');
update flowfabric.ff_suspension_current as u set closed_at_ms = 1, close_reason = 'x';
select throws_ok(
    'select ff_tap.deliver(p_number => 2)', 'ZC008', 'waitpoint_not_found',
    'a suspended execution without a suspension cannot arise and takes no signal');
update flowfabric.ff_suspension_current as u set closed_at_ms = null, close_reason = null;
select flowfabric.ff_cancel_execution(:'execution', 'stop', 'operator_override');
select is(
    ff_tap.error_of($$select ff_tap.deliver(p_number => 2)$$) ->> 'lifecycle_phase', 'terminal',
    'an ended execution takes no signals');
select is((ff_tap.waitpoint(2)).close_reason, 'cancelled', 'its waitpoints were closed with it');
select is(
    ff_tap.error_of($$select ff_tap.deliver(p_number => 2)$$) ->> 'code', 'target_not_signalable',
    'the end is told before the waitpoint');

-- An operator's resume kills the tokens, too
\set overridden '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(:'overridden', p_first_waitpoint => 21);
select flowfabric.ff_resume_execution(:'overridden');
select throws_ok(
    'select ff_tap.deliver(p_number => 21)', 'ZS007', 'target_not_signalable', 'after an operator''s resume too');
select ff_tap.reclaim_resumed(:'overridden');
select ff_tap.suspend(:'overridden', ff_tap.single(), 22);
select throws_ok(
    'select ff_tap.deliver(p_number => 21)', 'ZS006', 'waitpoint_closed',
    'and the old token does not touch the next suspension');
select is(
    (ff_tap.suspension(:'overridden')).last_signal_at_ms, null::bigint, 'which has heard nothing');

-- Pending waitpoints have a function of their own
\set pending '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.leased_execution(:'pending');
select ff_tap.pending_waitpoint(:'pending', 31, p_expires_in_ms => 100);
select is(
    ff_tap.error_of('select ff_tap.deliver(p_number => 31)'),
    jsonb_build_object(
        'code', 'waitpoint_pending_use_buffer_script', 'fn', 'ff_deliver_signal',
        'waitpoint_id', ff_tap.waitpoint_id(31)), 'an early signal is sent to the buffer');
select ff_tap.freeze_time(3100);
select is(
    ff_tap.error_of('select ff_tap.deliver(p_number => 31)'),
    jsonb_build_object(
        'code', 'waitpoint_closed', 'fn', 'ff_deliver_signal', 'waitpoint_id', ff_tap.waitpoint_id(31)),
    'unless the waitpoint has expired');

-- Keys and their windows
\set keyed '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.freeze_time(10000);
select ff_tap.paused_execution(
    :'keyed', ff_tap.count_of(9, 'DistinctSignals', '{a,b}'), p_first_waitpoint => 41);
prepare keyed (integer, text, bigint) as select d.outcome from flowfabric.ff_deliver_signal(
    :'keyed', ff_tap.waitpoint_id($1), ff_tap.token($1), 'x', p_idempotency_key => $2, p_dedup_ttl_ms => $3) as d;
select results_eq($$execute keyed(41, 'k', 100)$$, $$values ('accepted')$$, 'a key is new once');
select results_eq($$execute keyed(42, 'k', 100)$$, $$values ('accepted')$$, 'at another waitpoint it is another key');
select results_eq($$execute keyed(41, 'K', 100)$$, $$values ('accepted')$$, 'case matters');
select ff_tap.freeze_time(10099);
select results_eq($$execute keyed(41, 'k', 100)$$, $$values ('duplicate')$$, 'it is known to its last millisecond');
select results_eq($$execute keyed(41, 'k', 0)$$, $$values ('accepted')$$, 'a window of 0 switches it off');
select ff_tap.freeze_time(10100);
select results_eq($$execute keyed(41, 'k', 2592000000)$$, $$values ('accepted')$$, 'at its expiry it is forgotten');
select is(
    (select row(d.expires_at_ms, s.seq) from flowfabric.ff_signal_dedup as d
     join flowfabric.ff_signal as s on s.signal_id = d.signal_id
     where d.waitpoint_id = ff_tap.waitpoint_id(41) and d.idempotency_key = 'k'),
    row(2592010100::bigint, 5::bigint), 'and then stands for the new signal');
select results_eq($$execute keyed(41, '', 100)$$, $$values ('accepted')$$, 'an empty key is none');
select results_eq($$execute keyed(41, null, null)$$, $$values ('accepted')$$, 'without a key every call is a signal');
select is(
    (select row(w.signal_count, w.matched_signal_count) from ff_tap.waitpoint(41) as w), row(6, 6),
    'duplicates are not counted');

-- Limits
\set limited '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.paused_execution(
    :'limited', ff_tap.count_of(9, 'DistinctSignals', '{a,b}'), p_first_waitpoint => 51,
    p_policy => '{"max_signals_per_execution": 2.9}');
select ff_tap.deliver(p_number => 51, p_idempotency_key => 'k'), ff_tap.deliver(p_number => 52);
select is(
    ff_tap.error_of('select ff_tap.deliver(p_number => 51)') - 'fn',
    jsonb_build_object('code', 'signal_limit_exceeded', 'execution_id', :'limited', 'limit', 2, 'current', 2),
    'the policy limits the signals of an execution, over all its waitpoints');
select is(
    ff_tap.deliver(p_number => 51, p_idempotency_key => 'k'), 'duplicate', 'a duplicate is no further signal');
\set unlimited '{fp:86}:00000000-0000-4000-8000-000000000006'
select flowfabric.ff_set_setting('max_signals_per_execution', 1);
select ff_tap.paused_execution(
    :'unlimited', ff_tap.count_of(9, 'DistinctSignals', '{a}'), p_first_waitpoint => 61,
    p_policy => '{"max_signals_per_execution": 0}');
select ff_tap.deliver(p_number => 61);
select is(ff_tap.deliver(p_number => 61), 'appended_to_waitpoint', 'a limit of 0 is none');
\set standard '{fp:86}:00000000-0000-4000-8000-000000000007'
select ff_tap.paused_execution(
    :'standard', ff_tap.count_of(9, 'DistinctSignals', '{a}'), p_first_waitpoint => 71);
select ff_tap.deliver(p_number => 71);
select throws_ok(
    'select ff_tap.deliver(p_number => 71)', 'ZV007', 'signal_limit_exceeded',
    'without a policy the setting is the limit');

-- Payloads
create function ff_tap.every_byte()
returns bytea
language sql immutable
as $$
    select string_agg(set_byte('\x00'::bytea, 0, b), '\x'::bytea order by b) from generate_series(0, 255) as b
$$;
select flowfabric.ff_set_setting('max_signals_per_execution', 10000);
select is(
    ff_tap.deliver(p_number => 71, p_payload => ff_tap.every_byte()), 'appended_to_waitpoint',
    'a payload of every byte value is accepted');
select is(
    (select s.payload from flowfabric.ff_signal as s
     where s.waitpoint_id = ff_tap.waitpoint_id(71) and s.seq = 2), ff_tap.every_byte(),
    'and comes back byte for byte');
select is(
    ff_tap.deliver(p_number => 71, p_payload => decode(repeat('00', 65536), 'hex')), 'appended_to_waitpoint',
    'a payload may have 65536 bytes');
select is(
    ff_tap.error_of($$select ff_tap.deliver(p_number => 71, p_payload => decode(repeat('00', 65537), 'hex'))$$) - 'fn',
    '{"code": "payload_too_large", "limit_bytes": 65536, "actual_bytes": 65537}', 'and no more');
select ff_tap.deliver(p_number => 71, p_payload => '');
select is(
    (select s.payload from flowfabric.ff_signal as s
     where s.waitpoint_id = ff_tap.waitpoint_id(71) and s.seq = 4), null::bytea, 'an empty payload is none');

-- The resume delay is the worker's
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000008'
select ff_tap.freeze_time(20000);
select ff_tap.paused_execution(:'delayed', p_first_waitpoint => 81, p_resume_delay_ms => 5000);
select is(ff_tap.deliver(p_number => 81), 'resume_condition_satisfied', 'with a delay the condition is satisfied, too');
select is(
    ff_tap.vector(:'delayed'),
    'runnable / unowned / not_eligible_until_time / waiting_for_resume_delay / none / attempt_interrupted -> delayed',
    'and the execution is delayed');
select is(
    (select row(e.delay_until_ms, e.blocking_detail, e.current_suspension_id) from ff_tap.core(:'delayed') as e),
    row(25000::bigint, 'resume delay 5000ms after signal approved'::text, null::uuid), 'until the delay is over');
select ff_tap.freeze_time(25000);
select is(
    (select p.processed from flowfabric.ff_promote_due() as p), 1, 'then it is promoted');
select is(ff_tap.public_state(ff_tap.core(:'delayed'))::text, 'waiting', 'and can be claimed');

-- The whole cycle
select flowfabric.ff_issue_claim_grant(:'delayed', 'pool', 'pool-1', 'default');
select throws_ok(
    format($$select flowfabric.ff_claim_execution(%L, 'pool', 'pool-1')$$, :'delayed'), 'ZC001',
    'use_claim_resumed_execution', 'a plain claim is sent to the one for paused attempts');
select results_eq(
    format(
        $$select c.attempt_id, c.attempt_index, c.lease_epoch, c.handle_kind
          from flowfabric.ff_claim_resumed_execution(%L, 'pool', 'pool-1') as c$$, :'delayed'),
    $$values (ff_tap.attempt_id(), 0, 2::bigint, 'resumed')$$, 'which goes on with the same attempt');
select throws_ok(
    format('select flowfabric.ff_complete_execution(%L, ff_tap.lease_id(), 1, ff_tap.attempt_id())', :'delayed'),
    'ZS001', 'stale_lease', 'the worker that suspended is fenced off');
\set hour '{fp:86}:00000000-0000-4000-8000-000000000009'
select ff_tap.leased_execution(:'hour', p_attempt_timeout_ms => 60000);
select ff_tap.advance_time(20000);
select ff_tap.suspend(:'hour', ff_tap.single(), 91);
select ff_tap.advance_time(3600000);
select ff_tap.deliver(p_number => 91);
select ff_tap.reclaim_resumed(:'hour');
select is(
    (ff_tap.core(:'hour')).attempt_timeout_at_ms - flowfabric.ff_now_ms(), 40000::bigint,
    'of 60 seconds 20 were used before the pause, so 40 are left after an hour');

-- A quorum by three waitpoints
\set quorum '{fp:86}:00000000-0000-4000-8000-00000000000a'
select ff_tap.paused_execution(
    :'quorum', ff_tap.count_of(2, 'DistinctWaitpoints', '{a,b,c}', 'yes'), p_first_waitpoint => 101);
select is(
    array[
        ff_tap.deliver('no', 101), ff_tap.deliver('yes', 101), ff_tap.deliver('yes', 101), ff_tap.deliver('yes', 103)],
    '{signal_ignored_matcher_failed,appended_to_waitpoint,appended_to_waitpoint_duplicate,
      resume_condition_satisfied}'::text[], 'two of three waitpoints make a quorum');
select results_eq(
    $$select w.waitpoint_key collate "default", w.state, w.close_reason, w.signal_count, w.matched_signal_count
      from flowfabric.ff_waitpoint_pending as w
      where w.execution_id = '00000000-0000-4000-8000-00000000000a' order by w.ordinal$$,
    $$values ('a', 'closed', 'resumed', 3, 2), ('b', 'closed', 'resumed', 0, 0), ('c', 'closed', 'resumed', 1, 1)$$,
    'all waitpoints close, and each has counted its own signals');
select is(
    ff_tap.signals(:'quorum'),
    '{1:no:signal_ignored_matcher_failed,2:yes:appended_to_waitpoint*,3:yes:appended_to_waitpoint_duplicate,
      4:yes:resume_condition_satisfied*}'::text[], 'the signals that counted are marked');

-- Reserved names
\set operator '{fp:86}:00000000-0000-4000-8000-00000000000b'
select ff_tap.paused_execution(:'operator', '"OperatorOnly"', p_first_waitpoint => 111);
select is(
    ff_tap.error_of($$select ff_tap.deliver('__operator_only__', 111)$$) - 'fn',
    '{"code": "invalid_input", "field": "signal_name", "reason": "reserved_signal_name",
      "value": "__operator_only__"}', 'a signal cannot pretend to be an operator');
select is(ff_tap.deliver('operator_only', 111), 'no_op', 'nor satisfy what waits for one');
select is(ff_tap.public_state(ff_tap.core(:'operator'))::text, 'suspended', 'so the execution stays suspended');

-- Grace of the keys: A, B and C, each to its own deadline
\set graced '{fp:86}:00000000-0000-4000-8000-00000000000c'
select ff_tap.freeze_time(5000000);
select ff_tap.signing_key('A');
select ff_tap.paused_execution(
    :'graced', ff_tap.count_of(99, 'DistinctSignals', '{a}'), p_first_waitpoint => 121);
create temporary table graced as select ff_tap.token(121) as a, null::text as b, null::text as c;
select ff_tap.signing_key('B', 1000);
update graced set b = (
    select flowfabric._ff_mint_waitpoint_token(
        h, row(w.partition_key, w.execution_id)::flowfabric.ff_execution_key, w.waitpoint_id, w.created_at_ms,
        w.waitpoint_key)
    from flowfabric.ff_waitpoint_hmac as h, ff_tap.waitpoint(121) as w where h.kid = 'B');
select ff_tap.freeze_time(5000500);
select ff_tap.signing_key('C', 2000);
update graced set c = (
    select flowfabric._ff_mint_waitpoint_token(
        h, row(w.partition_key, w.execution_id)::flowfabric.ff_execution_key, w.waitpoint_id, w.created_at_ms,
        w.waitpoint_key)
    from flowfabric.ff_waitpoint_hmac as h, ff_tap.waitpoint(121) as w where h.kid = 'C');
create function ff_tap.accepted_kids()
returns text
language plpgsql volatile
as $$
declare
    v_token text;
    v_answers text := '';
begin
    foreach v_token in array (select array[g.a, g.b, g.c] from graced as g) loop
        begin
            v_answers := v_answers || ' ' || (
                select d.outcome from flowfabric.ff_deliver_signal(
                    ff_tap.execution_of(121), ff_tap.waitpoint_id(121), v_token, 'x') as d);
        exception when sqlstate 'ZV030' then
            v_answers := v_answers || ' ' || sqlerrm;
        end;
    end loop;
    return ltrim(v_answers);
end;
$$;
select is(ff_tap.accepted_kids(), 'accepted accepted accepted', 'within the grace all three keys are good');
select ff_tap.freeze_time(5001000);
select is(ff_tap.accepted_kids(), 'accepted accepted accepted', 'the last millisecond of a grace belongs to it');
select ff_tap.freeze_time(5001001);
select is(ff_tap.accepted_kids(), 'token_expired accepted accepted', 'and not one more');
select ff_tap.freeze_time(5002500);
select is(ff_tap.accepted_kids(), 'token_expired accepted accepted', 'each key has its own deadline');
select ff_tap.freeze_time(5002501);
select is(ff_tap.accepted_kids(), 'token_expired token_expired accepted', 'the current one has none');
select ff_tap.signing_key('D', 0);
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_deliver_signal(ff_tap.execution_of(121), ff_tap.waitpoint_id(121), %L, 'x')$$,
        (select g.a from graced as g))) - 'fn', '{"code": "invalid_token"}',
    'a key that was cleaned up is unknown');

-- Arguments
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_deliver_signal('{fp:86}:00000000-0000-4000-8000-00000000ffff', %s)$$, b.arguments))
        - array['code', 'fn', 'value'],
    jsonb_build_object('field', b.field, 'reason', b.reason), b.what)
from (values
    (1, 'null, null, ''x''', 'waitpoint_id', 'null', 'a waitpoint is required'),
    (2, 'ff_tap.waitpoint_id(), null, null', 'signal_name', 'null', 'a name is required'),
    (3, 'ff_tap.waitpoint_id(), null, ''''', 'signal_name', 'length', 'a name is not empty'),
    (4, 'ff_tap.waitpoint_id(), null, repeat(''ü'', 129)', 'signal_name', 'length', 'a name has 256 bytes at most'),
    (5, 'ff_tap.waitpoint_id(), null, ''x'', p_signal_category => ''''', 'signal_category', 'length',
        'a category is not empty'),
    (6, 'ff_tap.waitpoint_id(), null, ''x'', p_source_type => repeat(''s'', 65)', 'source_type', 'length',
        'a source type has 64 bytes at most'),
    (7, 'ff_tap.waitpoint_id(), null, ''x'', p_source_identity => repeat(''s'', 257)', 'source_identity', 'length',
        'a source has 256 bytes at most'),
    (8, 'ff_tap.waitpoint_id(), null, ''x'', p_payload_encoding => repeat(''e'', 33)', 'payload_encoding', 'length',
        'an encoding has 32 bytes at most'),
    (9, 'ff_tap.waitpoint_id(), null, ''x'', p_idempotency_key => repeat(''k'', 513)', 'idempotency_key', 'length',
        'a key has 512 bytes at most'),
    (10, 'ff_tap.waitpoint_id(), null, ''x'', p_correlation_id => repeat(''c'', 257)', 'correlation_id', 'length',
        'a correlation id has 256 bytes at most'),
    (11, 'ff_tap.waitpoint_id(), null, ''x'', p_target_scope => ''world''', 'target_scope', 'unknown',
        'a scope must be known'),
    (12, 'ff_tap.waitpoint_id(), null, ''x'', p_created_at_ms => -1', 'created_at_ms', 'out_of_range',
        'a time is not negative'),
    (13, 'ff_tap.waitpoint_id(), null, ''x'', p_dedup_ttl_ms => 2592000001', 'dedup_ttl_ms', 'out_of_range',
        'a window is 30 days at most'),
    (14, 'ff_tap.waitpoint_id(), null, ''x'', p_dedup_ttl_ms => -1', 'dedup_ttl_ms', 'out_of_range',
        'a window is not negative')
) as b (number, arguments, field, reason, what)
order by b.number;
select throws_ok(
    $$select flowfabric.ff_deliver_signal(
        '{fp:86}:00000000-0000-4000-8000-00000000ffff', ff_tap.waitpoint_id(), '', 'x')$$, 'ZN001',
    'execution_not_found', 'an unknown execution is refused before the token');
select throws_ok(
    $$select flowfabric.ff_deliver_signal('{fp:86}:x', ff_tap.waitpoint_id(), '', 'x')$$, 'ZV001',
    'invalid_input', 'a malformed execution id is refused');

select * from finish();
rollback;
