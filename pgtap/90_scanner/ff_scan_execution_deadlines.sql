-- The deadline scanner: an execution that takes too long ends, in whatever phase it is.
begin;
\ir ../helpers.sql
select plan(28);

prepare scan (integer) as select s.* from flowfabric.ff_scan_execution_deadlines($1) as s;

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.expired()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(right(e.execution_id::text, 12)::integer order by e.execution_id), '{}')
    from flowfabric.ff_exec_core as e
    where ff_tap.public_state(e) = 'expired'
$$;

-- One execution in every phase, all with the same deadline
select ff_tap.freeze_time(1000);
select results_eq(
    'select s.* from flowfabric.ff_scan_execution_deadlines() as s', 'values (0, 0, 0, false)',
    'without executions nothing happens');
select ff_tap.execution(ff_tap.id(1), p_deadline_at_ms => 5000);
select ff_tap.execution(ff_tap.id(2), p_deadline_at_ms => 5000, p_delay_until_ms => 9000);
select ff_tap.execution(ff_tap.id(3), p_deadline_at_ms => 5000);
select flowfabric.ff_block_execution_for_admission(ff_tap.id(3), 'waiting_for_quota');
select ff_tap.leased_execution(ff_tap.id(4), p_deadline_at_ms => 5000);
select ff_tap.leased_execution(ff_tap.id(5), p_deadline_at_ms => 5000, p_lease_expires_at_ms => 2000);
select ff_tap.leased_execution(ff_tap.id(6), p_deadline_at_ms => 5000);
select flowfabric.ff_delay_execution(ff_tap.id(6), 9000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.leased_execution(
    ff_tap.id(7), p_policy => '{"retry_policy": {"max_retries": 5}}', p_deadline_at_ms => 5000);
select flowfabric.ff_fail_execution(ff_tap.id(7), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.leased_execution(ff_tap.id(8), p_deadline_at_ms => 5000);
select flowfabric._ff_pause_attempt(ff_tap.core(ff_tap.id(8)), '00000000-0000-4000-8000-000000005059', 1000);
select flowfabric._ff_set_unowned_state(
    ff_tap.core(ff_tap.id(8)), 'suspended', 'not_applicable', 'waiting_for_signal', null, 'none',
    'attempt_interrupted', null, '00000000-0000-4000-8000-000000005059', '00000000-0000-4000-8000-000000003a17',
    'suspend', 1000);
insert into flowfabric.ff_suspension_current (
    partition_key, execution_id, suspension_id, attempt_index, suspended_at_ms, reason_code, requested_by, condition,
    consume_matched_signals, retain_signal_buffer_until_closed, close_waitpoint_on_resume, resume_target)
values (
    86, right(ff_tap.id(8), 36)::uuid, '00000000-0000-4000-8000-000000005059', 0, 1000, 'waiting_for_signal',
    'worker', '{}', true, false, true, 'runnable');
insert into flowfabric.ff_waitpoint_pending (
    partition_key, waitpoint_id, execution_id, attempt_index, waitpoint_key, state, suspension_id, ordinal, token_kid,
    token_fingerprint, created_at_ms, activated_at_ms)
values (
    86, '00000000-0000-4000-8000-000000003a17', right(ff_tap.id(8), 36)::uuid, 0, 'wp', 'active',
    '00000000-0000-4000-8000-000000005059', 0, 'k1', '0123456789abcdef', 1000, 1000);
select ff_tap.leased_execution(ff_tap.id(9), p_deadline_at_ms => 5000);
select flowfabric.ff_complete_execution(ff_tap.id(9), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.execution(ff_tap.id(10));

select ff_tap.freeze_time(4999);
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'before the deadline nothing is due');
select ff_tap.freeze_time(5000);
select results_eq('execute scan(50)', 'values (8, 0, 0, false)', 'at the instant itself everything unfinished is due');
select is(
    ff_tap.expired(), array[1, 2, 3, 4, 5, 6, 7, 8],
    'waiting, delayed, blocked, active, lost, paused, retrying and suspended executions expire');
select is(
    ff_tap.vector(ff_tap.id(1)),
    'terminal / unowned / not_applicable / none / expired / pending_first_attempt -> expired',
    'what was never claimed has no attempt to end');
select is_empty(
    format(
        'select a.attempt_index from flowfabric.ff_attempt as a where a.execution_id = %L', right(ff_tap.id(1), 36)),
    'and gets none');
select is(
    ff_tap.vector(ff_tap.id(8)),
    'terminal / unowned / not_applicable / none / expired / attempt_terminal -> expired',
    'a suspended execution expires');
select is(
    (select row(u.closed_at_ms, u.close_reason, u.resume_trigger) from flowfabric.ff_suspension_current as u),
    row(5000::bigint, 'expired:execution_deadline'::text, null::text), 'its suspension is closed');
select is(
    (select row(w.state, w.close_reason) from flowfabric.ff_waitpoint_pending as w),
    row('closed'::text, 'expired:execution_deadline'::text), 'and the waitpoint with it');
select is(
    (select row(a.attempt_state, a.failure_reason) from ff_tap.attempt(ff_tap.id(8)) as a),
    row('ended_failure'::flowfabric.ff_attempt_row_state, 'execution_deadline'::text),
    'its paused attempt has failed');
select is(
    (ff_tap.attempt(ff_tap.id(6))).attempt_state, 'ended_failure', 'so has the attempt of one that was put off');
select is(
    (select row(a.attempt_state, a.failure_reason) from ff_tap.attempt(ff_tap.id(7)) as a),
    row('ended_failure'::flowfabric.ff_attempt_row_state, 'broken'::text),
    'an attempt that had failed before keeps its own reason');
select is((ff_tap.note(ff_tap.id(7))).failure_reason, 'execution_deadline', 'the execution notes the deadline');
select is(
    ff_tap.lease_events(ff_tap.id(4)),
    array['acquired:issue_grant_and_claim', 'released:expired:execution_deadline'], 'a lease is released');
select is(
    ff_tap.lease_events(ff_tap.id(8)), array['acquired:issue_grant_and_claim', 'released:suspend'],
    'where none was held, none is released');
select is(
    (select array_agg(v.outcome::text order by v.execution_id) from flowfabric.ff_completion_event as v
     where v.outcome <> 'success'),
    array_fill('expired'::text, array[8]), 'each end is an event');
select is((ff_tap.core(ff_tap.id(4))).deadline_at_ms, null, 'an end clears the deadline');
select is(ff_tap.public_state(ff_tap.core(ff_tap.id(9))), 'completed', 'what had ended before its deadline stays as it is');
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'a repeat finds nothing');

-- Batches
select ff_tap.execution(ff_tap.id(20 + i), p_deadline_at_ms => 7000 - i) from generate_series(1, 5) as i;
select ff_tap.freeze_time(8000);
select results_eq('execute scan(2)', 'values (2, 0, 0, true)', 'a full batch says that there may be more');
select is(
    array(select n from unnest(ff_tap.expired()) as n where n > 20), array[24, 25], 'the longest overdue go first');
select results_eq('execute scan(50)', 'values (3, 0, 0, false)', 'the rest follows');

-- One partition
select ff_tap.execution('{fp:1}:00000000-0000-4000-8000-000000000031', p_deadline_at_ms => 8500);
select ff_tap.execution('{fp:2}:00000000-0000-4000-8000-000000000032', p_deadline_at_ms => 8500);
select ff_tap.freeze_time(9000);
select results_eq(
    'select s.* from flowfabric.ff_scan_execution_deadlines(50, 2::smallint) as s', 'values (1, 0, 0, false)',
    'a scan can be limited to a partition');
select is(
    ff_tap.public_state(ff_tap.core('{fp:1}:00000000-0000-4000-8000-000000000031')), 'waiting',
    'and leaves the others alone');

-- Refusals
select throws_ok('execute scan(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute scan(10001)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select is(
    ff_tap.error_of('execute scan(null)'),
    '{"code": "invalid_input", "fn": "ff_scan_execution_deadlines", "field": "limit", "reason": "null"}',
    'a limit is required');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');

select * from finish();
rollback;
