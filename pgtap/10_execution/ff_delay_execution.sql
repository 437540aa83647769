-- Delay: giving work back until a time, with the same attempt to go on later.
begin;
\ir ../helpers.sql
select plan(58);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare delay (text, bigint) as select d.* from flowfabric.ff_delay_execution(
    $1, $2, ff_tap.lease_id(), 1, ff_tap.attempt_id()) as d;

-- Giving back
select ff_tap.leased_execution(:'execution', p_attempt_timeout_ms => 4000, p_deadline_at_ms => 9000);
select ff_tap.burden(:'execution');
create temporary table before as
select to_jsonb(ff_tap.core(:'execution')) as core, to_jsonb(ff_tap.attempt(:'execution')) as attempt;
select ff_tap.freeze_time(1200);
select results_eq(
    format('execute delay(%L, 7000)', :'execution'),
    format($$ values ('delayed', %L, 7000::bigint, 'delayed'::flowfabric.ff_public_state) $$, :'execution'),
    'the holder gives the execution back until a time');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / not_eligible_until_time / waiting_for_delay / none / attempt_interrupted -> delayed',
    'it is delayed with an interrupted attempt');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core from before as b) || '{
        "lifecycle_phase": "runnable", "ownership_state": "unowned", "eligibility_state": "not_eligible_until_time",
        "blocking_reason": "waiting_for_delay", "attempt_state": "attempt_interrupted",
        "blocking_detail": "until=7000", "delay_until_ms": 7000, "current_lease_id": null,
        "current_worker_id": null, "current_worker_instance_id": null, "lease_acquired_at_ms": null,
        "lease_expires_at_ms": null, "lease_last_renewed_at_ms": null, "attempt_is_deferred": false,
        "attempt_timeout_at_ms": null,
        "open_reservation_count": 0, "last_transition_at_ms": 1200, "last_mutation_at_ms": 1200}',
    'the lease is gone; deadline, epoch and attempt id are kept');
select is(
    to_jsonb(ff_tap.attempt(:'execution')),
    (select b.attempt from before as b) || '{
        "attempt_state": "suspended", "suspended_at_ms": 1200, "suspension_id": "worker_delay",
        "timeout_remaining_ms": 3800}',
    'the attempt is paused and keeps the rest of its timeout');
select is(
    ff_tap.lease_events(:'execution'), array['acquired:issue_grant_and_claim', 'released:worker_delay'],
    'the lease event says that the worker delayed');
select is(ff_tap.completions(:'execution'), '{}'::text[], 'a delay is no completion');
select is(
    ff_tap.burden_of(:'execution'), 'slot free, released:lease_released, 0 open, stream open',
    'slot and reservation go back, and the stream stays open for the same attempt');
select is(
    ff_tap.error_of(format('execute delay(%L, 7000)', :'execution')),
    jsonb_build_object(
        'code', 'execution_not_active', 'fn', 'ff_delay_execution', 'execution_id', :'execution',
        'lifecycle_phase', 'runnable', 'terminal_outcome', 'none', 'lease_epoch', 1,
        'attempt_id', ff_tap.attempt_id(), 'attempt_state', 'attempt_interrupted', 'delay_until_ms', 7000),
    'a repeat learns from epoch, attempt id and delay that the delay is its own');

-- Going on
select throws_ok(
    format('select flowfabric.ff_issue_claim_grant(%L, %L, %L, %L)', :'execution', 'worker', 'worker-2', 'default'),
    'ZC012', 'execution_not_eligible', 'a delayed execution is not granted');
select ff_tap.freeze_time(7000);
select flowfabric._ff_become_eligible(ff_tap.core(:'execution'), 'attempt_interrupted', null, 7000);
select flowfabric.ff_issue_claim_grant(:'execution', 'worker', 'worker-2', 'default');
select throws_ok(
    format('select flowfabric.ff_claim_execution(%L, %L, %L)', :'execution', 'worker', 'worker-2'),
    'ZC001', 'use_claim_resumed_execution', 'a paused attempt cannot be claimed anew');
select is(
    (select row(c.attempt_index, c.attempt_id, c.lease_epoch, c.handle_kind)::text
     from flowfabric.ff_claim_resumed_execution(:'execution', 'worker', 'worker-2') as c),
    format('(0,%s,2,resumed)', ff_tap.attempt_id()), 'the resume claim goes on with the attempt under the next epoch');
select is(
    (ff_tap.core(:'execution')).attempt_timeout_at_ms, 10800::bigint,
    'the attempt timeout is armed again with the rest that was saved');
select is((ff_tap.core(:'execution')).deadline_at_ms, 9000::bigint, 'the deadline survives delay and resumption');

-- The rest of a timeout
\set untimed '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'untimed');
select flowfabric.ff_delay_execution(:'untimed', 9000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is((ff_tap.attempt(:'untimed')).timeout_remaining_ms, null, 'an attempt without a timeout saves no rest');
select flowfabric.ff_issue_grant_and_claim(:'untimed', 600);
select is((ff_tap.core(:'untimed')).attempt_timeout_at_ms, null, 'an attempt without a timeout resumes without one');
\set overdue '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.leased_execution(:'overdue', p_attempt_timeout_ms => 100);
select ff_tap.freeze_time(7100);
select flowfabric.ff_delay_execution(:'overdue', 9000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    (ff_tap.attempt(:'overdue')).timeout_remaining_ms, 1::bigint,
    'an attempt at the end of its timeout comes back with 1 ms, not without a timeout');

-- Any time
select is(
    (flowfabric.ff_delay_execution(
        ff_tap.leased_execution('{fp:86}:00000000-0000-4000-8000-00000000000' || t.n), t.until_ms, ff_tap.lease_id(),
        1, ff_tap.attempt_id())).delay_until_ms,
    t.until_ms, t.fact)
from (values
    (4, 5::bigint, 'a time in the past is kept: the next scan promotes'),
    (5, 7100, 'the present is kept, too'),
    (6, 0, 'time begins in 1970'),
    (7, 253402300799999, 'and ends with the year 9999')
) as t (n, until_ms, fact);
select is(
    ff_tap.public_state(ff_tap.core('{fp:86}:00000000-0000-4000-8000-000000000004')), 'delayed'::flowfabric.ff_public_state,
    'a delay until the past is a delay');
select is(
    ff_tap.error_of(format('execute delay(%L, %s)', '{fp:86}:00000000-0000-4000-8000-0000ffffffff', t.until_ms)) - 'fn',
    jsonb_build_object(
        'code', 'invalid_input', 'field', 'delay_until_ms', 'reason', 'out_of_range', 'value', t.until_ms::text),
    t.until_ms || ' is no time')
from (values (-1::bigint), (-9223372036854775808), (253402300800000), (9223372036854775807)) as t (until_ms);
select is(
    ff_tap.error_of(format('execute delay(%L, null)', '{fp:86}:00000000-0000-4000-8000-0000ffffffff')) - 'fn',
    '{"code": "invalid_input", "field": "delay_until_ms", "reason": "null"}',
    'no time is refused before the execution is looked up');

-- Who
\set held '{fp:86}:00000000-0000-4000-8000-0000000000c1'
\set overridden '{fp:86}:00000000-0000-4000-8000-0000000000c2'
select ff_tap.leased_execution(:'held');
select ff_tap.leased_execution(:'overridden');
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_worker',
        format(
            'select flowfabric.ff_delay_execution(%L, 9000, %L, 1, %L)', :'held', ff_tap.lease_id(),
            ff_tap.attempt_id())),
    'a worker delays what it holds');
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_operator',
        format('select flowfabric.ff_delay_execution(%L, 9000, p_source => %L)', :'overridden', 'operator_override')),
    'an operator delays a live lease without its fence');
select is(
    array[ff_tap.public_state(ff_tap.core(:'held')), ff_tap.public_state(ff_tap.core(:'overridden'))],
    '{delayed,delayed}'::flowfabric.ff_public_state[], 'both executions are delayed');
select is(
    (ff_tap.attempt(:'overridden')).suspension_id, 'worker_delay', 'an override pauses the attempt alike');

-- Everything that a fence is for
select ff_tap.refuses_bad_fences(
    'select flowfabric.ff_delay_execution(%1$L, 5000, %2$L, %3$L, %4$L, p_source => %5$L)');
select * from finish();
rollback;
