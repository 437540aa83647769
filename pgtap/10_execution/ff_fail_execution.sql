-- Failure: when an attempt is retried and when the execution ends, and how long a retry waits.
begin;
\ir ../helpers.sql
select plan(105);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare fail (text, bigint, text, text, jsonb) as select f.* from flowfabric.ff_fail_execution(
    $1, ff_tap.lease_id(), $2, ff_tap.attempt_id(), $3, $4, $5) as f;
-- Fails a fresh execution and says what became of it.
create function ff_tap.failure(
    p_execution_id text, p_policy jsonb, p_category text default null, p_retry_policy jsonb default null)
returns text
language plpgsql volatile
as $$
begin
    perform ff_tap.leased_execution(p_execution_id, p_policy);
    return (flowfabric.ff_fail_execution(
        p_execution_id, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken', p_category, p_retry_policy)).outcome;
end;
$$;
create function ff_tap.promote(p_execution_id text)
returns void
language plpgsql volatile
as $$
declare
    v_core flowfabric.ff_exec_core := ff_tap.core(p_execution_id);
begin
    perform flowfabric._ff_become_eligible(v_core, v_core.attempt_state, null, flowfabric.ff_now_ms());
end;
$$;

-- A retry
select ff_tap.leased_execution(
    :'execution',
    '{"retry_policy": {"max_retries": 2, "backoff": {"type": "fixed", "delay_ms": 10}},
      "timeout_policy": {"attempt_timeout_ms": 4000}}',
    p_deadline_at_ms => 9000);
create temporary table before as
select to_jsonb(ff_tap.core(:'execution')) as core, to_jsonb(ff_tap.attempt(:'execution')) as attempt;
select ff_tap.freeze_time(1200);
select results_eq(
    format('execute fail(%L, 1, %L, %L, null)', :'execution', 'no route', 'transient'),
    format(
        $$ values ('retry_scheduled', %L, 'delayed'::flowfabric.ff_public_state, 1210::bigint, 1) $$, :'execution'),
    'a failure with a retry left answers when the next attempt is due and what its index will be');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / not_eligible_until_time / waiting_for_retry_backoff / none / pending_retry_attempt'
    ' -> delayed',
    'an execution that will be retried is delayed');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core from before as b) || '{
        "lifecycle_phase": "runnable", "ownership_state": "unowned", "eligibility_state": "not_eligible_until_time",
        "blocking_reason": "waiting_for_retry_backoff", "attempt_state": "pending_retry_attempt",
        "blocking_detail": "until=1210 attempt=0 reason=no route", "delay_until_ms": 1210,
        "retry_count": 1, "current_attempt_id": null, "current_lease_id": null, "current_worker_id": null,
        "current_worker_instance_id": null, "lease_acquired_at_ms": null, "lease_expires_at_ms": null,
        "lease_last_renewed_at_ms": null, "attempt_is_deferred": false,
        "attempt_timeout_at_ms": null, "last_transition_at_ms": 1200,
        "last_mutation_at_ms": 1200}',
    'the lease and the attempt id are gone, epoch, deadline and the rest are kept');
select is(
    to_jsonb(ff_tap.attempt(:'execution')),
    (select b.attempt from before as b) || '{
        "attempt_state": "ended_failure", "ended_at_ms": 1200, "failure_reason": "no route",
        "failure_category": "transient"}',
    'the attempt ends with reason and category');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.note(:'execution'))) - array['partition_key', 'execution_id'],
    '{"failure_reason": "no route", "pending_retry_reason": "no route", "pending_previous_attempt_index": 0}',
    'what the retry will follow is noted');
select is(
    ff_tap.lease_events(:'execution'), array['acquired:issue_grant_and_claim', 'released:failed_retry_scheduled'],
    'the lease event says that a retry was scheduled');
select is(ff_tap.completions(:'execution'), '{}'::text[], 'a retry is no completion');
select is(
    ff_tap.error_of(format('execute fail(%L, 1, %L, %L, null)', :'execution', 'no route', 'transient')),
    jsonb_build_object(
        'code', 'execution_not_active', 'fn', 'ff_fail_execution', 'execution_id', :'execution',
        'lifecycle_phase', 'runnable', 'terminal_outcome', 'none', 'lease_epoch', 1,
        'attempt_state', 'pending_retry_attempt', 'delay_until_ms', 1210),
    'a repeat learns from phase, attempt state and epoch that its retry is scheduled; the attempt id is absent');

-- The next attempts
select ff_tap.freeze_time(1210);
select ff_tap.promote(:'execution');
select is(
    (select row(c.attempt_index, c.lease_epoch, c.attempt_type, c.handle_kind)::text
     from flowfabric.ff_issue_grant_and_claim(
        :'execution', 600, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id()) as c),
    '(1,2,retry,fresh)', 'the next claim starts a retry under the next index and epoch');
select is(
    row((ff_tap.attempt(:'execution', 1)).retry_reason, (ff_tap.attempt(:'execution', 1)).previous_attempt_index)::text,
    '("no route",0)', 'the retry knows what it retries');
select is(
    (ff_tap.core(:'execution')).deadline_at_ms, 9000::bigint, 'the deadline survives a retry');
select is(
    (ff_tap.core(:'execution')).attempt_timeout_at_ms, 5210::bigint, 'the attempt timeout starts anew');
select lives_ok(
    format('execute fail(%L, 2, %L, null, null)', :'execution', ''), 'the second failure needs no reason');
select is(
    row((ff_tap.core(:'execution')).retry_count, (ff_tap.core(:'execution')).blocking_detail)::text,
    '(2,"until=1220 attempt=1")', 'the second failure is retried, too');
select is(
    (select row(n.failure_reason, n.pending_retry_reason, n.pending_previous_attempt_index)::text
     from ff_tap.note(:'execution') as n),
    '(,,1)', 'an empty reason is none, also where there was one before');
select ff_tap.freeze_time(1220);
select ff_tap.promote(:'execution');
select flowfabric.ff_issue_grant_and_claim(
    :'execution', 600, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
select results_eq(
    format('execute fail(%L, 3, %L, %L, null)', :'execution', 'still no route', 'transient'),
    format(
        $$ values ('terminal_failed', %L, 'failed'::flowfabric.ff_public_state, null::bigint, null::integer) $$,
        :'execution'),
    'the third failure of two retries ends the execution');
select is(
    ff_tap.vector(:'execution'), 'terminal / unowned / not_applicable / none / failed / attempt_terminal -> failed',
    'an execution without a retry left is terminal and failed');
select is(
    (select row(e.retry_count, e.terminal_at_ms, e.deadline_at_ms, e.delay_until_ms, e.current_attempt_id)::text
     from ff_tap.core(:'execution') as e),
    format('(2,1220,,,%s)', ff_tap.attempt_id()),
    'the end counts no retry, clears the timers and keeps the attempt id');
select is(
    (ff_tap.note(:'execution')).failure_reason, 'still no route', 'the end notes the last reason');
select is(
    (ff_tap.attempt(:'execution', 2)).attempt_state, 'ended_failure'::flowfabric.ff_attempt_row_state,
    'the last attempt has failed');
select is(
    (ff_tap.lease_events(:'execution'))[6], 'released:failed_terminal', 'the lease event says that it was the end');
select is(
    (select jsonb_agg(jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch'])
     from flowfabric.ff_completion_event as v),
    jsonb_build_array(jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'lane_id', 'default',
        'attempt_index', 2, 'outcome', 'failed', 'namespace', 'default', 'occurred_at_ms', 1220)),
    'there is one completion event');
select is(
    ff_tap.error_of(format('execute fail(%L, 3, %L, %L, null)', :'execution', 'still no route', 'transient')) - 'fn',
    jsonb_build_object(
        'code', 'execution_not_active', 'execution_id', :'execution', 'lifecycle_phase', 'terminal',
        'terminal_outcome', 'failed', 'lease_epoch', 3, 'attempt_id', ff_tap.attempt_id(),
        'attempt_state', 'attempt_terminal'),
    'a repeat learns from outcome, epoch and attempt id that the first call won');

-- Whether there is a retry
select is(
    ff_tap.failure('{fp:86}:00000000-0000-4000-8000-000000000101', null), 'terminal_failed',
    'without a policy there is no retry');
select is(
    ff_tap.failure('{fp:86}:00000000-0000-4000-8000-000000000102', '{"retry_policy": {"max_retries": 0}}'),
    'terminal_failed', 'max_retries 0 allows no retry');
select is(
    ff_tap.failure('{fp:86}:00000000-0000-4000-8000-000000000103', '{"retry_policy": {}}'), 'terminal_failed',
    'a retry policy without a number allows none');
select is(
    ff_tap.failure('{fp:86}:00000000-0000-4000-8000-000000000104', '{"retry_policy": {"max_retries": 1}}'),
    'retry_scheduled', 'a failure without a category is retried');
select is(
    (ff_tap.core('{fp:86}:00000000-0000-4000-8000-000000000104')).delay_until_ms, 2220::bigint,
    'a policy without a back-off waits a second');
select is(
    ff_tap.failure(
        '{fp:86}:00000000-0000-4000-8000-000000000105', '{"retry_policy": {"max_retries": 1}}', 'permanent'),
    'terminal_failed', 'a permanent failure is not retried');
select is(
    ff_tap.failure(
        '{fp:86}:00000000-0000-4000-8000-000000000106',
        '{"retry_policy": {"max_retries": 1, "retryable_categories": ["permanent"]}}', 'permanent'),
    'terminal_failed', 'a permanent failure is not retried even if the list names it');
select is(
    ff_tap.failure(
        '{fp:86}:00000000-0000-4000-8000-000000000107',
        '{"retry_policy": {"max_retries": 1, "retryable_categories": ["timeout", "transient"]}}', 'transient'),
    'retry_scheduled', 'a category of the list is retried');
select is(
    ff_tap.failure(
        '{fp:86}:00000000-0000-4000-8000-000000000108',
        '{"retry_policy": {"max_retries": 1, "retryable_categories": ["timeout"]}}', 'transient'),
    'terminal_failed', 'a category that is not on the list is not');
select is(
    ff_tap.failure(
        '{fp:86}:00000000-0000-4000-8000-000000000109',
        '{"retry_policy": {"max_retries": 1, "retryable_categories": ["timeout"]}}', ''),
    'terminal_failed', 'no category is on no list');
select is(
    (ff_tap.attempt('{fp:86}:00000000-0000-4000-8000-000000000109')).failure_category, null,
    'an empty category is none');
select is(
    ff_tap.failure(
        '{fp:86}:00000000-0000-4000-8000-00000000010a',
        '{"retry_policy": {"max_retries": 1, "retryable_categories": []}}', 'anything'),
    'retry_scheduled', 'an empty list holds every category');
select is(
    ff_tap.failure(
        '{fp:86}:00000000-0000-4000-8000-00000000010b', null, null,
        '{"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}'),
    'retry_scheduled', 'the retry policy of the call counts where there is none stored');
select is(
    (select row(e.delay_until_ms, ff_tap.public_state(e))::text
     from ff_tap.core('{fp:86}:00000000-0000-4000-8000-00000000010b') as e),
    '(1220,delayed)', 'a back-off of 0 is due at once and is still a delay');
select is(
    ff_tap.failure('{fp:86}:00000000-0000-4000-8000-00000000010c', '{"retry_policy": {"max_retries": 9}}', null, '{}'),
    'terminal_failed', 'the retry policy of the call replaces the stored one');
select is(
    ff_tap.failure(
        '{fp:86}:00000000-0000-4000-8000-00000000010d', null, null,
        '{"max_retries": 9007199254740991, "backoff": {"type": "fixed", "delay_ms": 31536000000000}}'),
    'retry_scheduled', 'the largest numbers are fine');
select is(
    (ff_tap.core('{fp:86}:00000000-0000-4000-8000-00000000010d')).delay_until_ms, 31536000001220,
    'the longest delay is a thousand years');

-- A long reason
select ff_tap.leased_execution(
    '{fp:86}:00000000-0000-4000-8000-00000000010e', '{"retry_policy": {"max_retries": 1}}');
select lives_ok(
    format(
        'execute fail(%L, 1, %L, null, null)', '{fp:86}:00000000-0000-4000-8000-00000000010e', repeat('é', 100000)),
    'a reason of any length is accepted');
select is(
    (ff_tap.attempt('{fp:86}:00000000-0000-4000-8000-00000000010e')).failure_reason, repeat('é', 4096),
    'the attempt has its first 8192 bytes');
select is(
    length((ff_tap.core('{fp:86}:00000000-0000-4000-8000-00000000010e')).blocking_detail),
    length('until=2220 attempt=0 reason=') + 200, 'the row that every operation rewrites has the beginning');

-- The back-off: vectors
select is(
    array(select flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential"}}', n)
          from generate_series(0, 7) as n),
    array[1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]::bigint[], 'exponential by default');
select is(
    array(select flowfabric._ff_retry_delay_ms(
              '{"backoff": {"type": "exponential", "initial_delay_ms": 1000, "multiplier": 1.5,
                            "max_delay_ms": 60000}}', n)
          from generate_series(0, 4) as n),
    array[1000, 1500, 2250, 3375, 5062]::bigint[], 'fractions are rounded down');
select is(t.actual, t.wanted, t.fact)
from (values
    (flowfabric._ff_retry_delay_ms(null, 0), 1000::bigint, 'no policy waits a second'),
    (flowfabric._ff_retry_delay_ms('{}', 5), 1000, 'no back-off waits a second'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {}}', 5), 1000, 'a back-off without a type waits a second'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "linear", "delay_ms": 5}}', 5), 1000,
        'an unknown type waits a second'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "fixed"}}', 5), 1000, 'fixed waits a second by default'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "fixed", "delay_ms": 2.9, "jitter": true}}', 5), 2,
        'fixed is rounded down, and a jitter that is no number is none'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential"}}', 2147483647), 60000,
        'two thousand million retries wait the maximum'),
    (flowfabric._ff_retry_delay_ms(
        '{"backoff": {"type": "exponential", "multiplier": 9007199254740991, "max_delay_ms": 9007199254740991}}',
        2147483647), 9007199254740991, 'the largest multiplier waits the maximum'),
    (flowfabric._ff_retry_delay_ms(
        '{"backoff": {"type": "exponential", "multiplier": 1.000000001}}', 2147483647), 8563,
        'the smallest growth is computed'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "multiplier": 1}}', 2147483647), 1000,
        'a multiplier of 1 does not grow'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "multiplier": 0.5}}', 2), 250,
        'a multiplier below 1 shrinks'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "multiplier": 0.5}}', 2147483647), 0,
        'a shrinking delay ends at 0'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "multiplier": 0}}', 0), 1000,
        'the first retry waits the initial delay, whatever the multiplier'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "multiplier": 0}}', 1), 0,
        'a multiplier of 0 waits only once'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "initial_delay_ms": 0}}', 9), 0,
        'nothing grows from 0'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "max_delay_ms": 0}}', 9), 0,
        'a maximum of 0 waits for nothing'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "max_delay_ms": 700}}', 0), 700,
        'the maximum holds for the first retry, too'),
    (flowfabric._ff_retry_delay_ms(
        format('{"backoff": {"type": "exponential", "multiplier": 1.%s}}', repeat('9', 10000))::jsonb, 3), 8000,
        'a multiplier of ten thousand digits is rounded'),
    (flowfabric._ff_retry_delay_ms('{"backoff": {"type": "exponential", "multiplier": 1e-400}}', 3), 0,
        'a multiplier too small for a float is rounded')
) as t (actual, wanted, fact);

-- Malformed retry policies are refused before anything is looked up
select is(
    ff_tap.error_of(format(
        'execute fail(%L, 1, null, null, %L)', '{fp:86}:00000000-0000-4000-8000-0000ffffffff', t.policy)) - 'fn',
    jsonb_build_object('code', 'invalid_policy_json', 'path', t.path, 'reason', t.reason), t.fact)
from (values
    ('[]', '$', 'not_object', 'a retry policy is an object'),
    ('{"max_retries": "3"}', 'max_retries', 'not_number', 'a number is not a text'),
    ('{"max_retries": -1}', 'max_retries', 'not_number', 'a number is not negative'),
    ('{"backoff": 5}', 'backoff', 'not_object', 'a back-off is an object'),
    ('{"backoff": {"delay_ms": null}}', 'backoff.delay_ms', 'not_number', 'null is no number'),
    ('{"backoff": {"multiplier": 1e300}}', 'backoff.multiplier', 'out_of_range', 'no client means such a number'),
    ('{"retryable_categories": [1]}', 'retryable_categories', 'not_array', 'a category is a text')
) as t (policy, path, reason, fact);
select is(
    ff_tap.error_of(
        $$ select ff_tap.execution('{fp:86}:00000000-0000-4000-8000-00000000010f',
            '{"retry_policy": {"backoff": {"delay_ms": true}}}') $$) ->> 'path',
    'retry_policy.backoff.delay_ms', 'at a creation the path starts at the whole policy');

-- What a lease carries goes with it, whether there is a retry or not
\set retried '{fp:86}:00000000-0000-4000-8000-0000000000b1'
\set ended '{fp:86}:00000000-0000-4000-8000-0000000000b2'
select ff_tap.leased_execution(:'retried', '{"retry_policy": {"max_retries": 1}}');
select ff_tap.leased_execution(:'ended');
select ff_tap.burden(:'retried');
select ff_tap.burden(:'ended');
select flowfabric.ff_fail_execution(:'retried', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.burden_of(:'retried'), 'slot free, released:lease_released, 0 open, stream attempt_failure@1220',
    'a retry gives slot and reservation back and closes the stream of the failed attempt');
select flowfabric.ff_fail_execution(:'ended', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.burden_of(:'ended'), 'slot free, released:lease_released, 0 open, stream attempt_failure@1220',
    'the end of the execution does the same');
select is((ff_tap.note(:'ended')).failure_reason, null, 'a failure without a reason notes none');

-- Who
\set overridden '{fp:86}:00000000-0000-4000-8000-0000000000c1'
select ff_tap.leased_execution(:'overridden');
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_operator',
        format('select flowfabric.ff_fail_execution(%L, p_source => %L)', :'overridden', 'operator_override')),
    'an operator fails a live lease without its fence');
select is(
    ff_tap.public_state(ff_tap.core(:'overridden')), 'failed'::flowfabric.ff_public_state,
    'the execution of an overridden lease has failed');

-- Everything that a fence is for
select ff_tap.refuses_bad_fences('select flowfabric.ff_fail_execution(%1$L, %2$L, %3$L, %4$L, p_source => %5$L)');
select * from finish();
rollback;
