-- Progress: what a worker says about its running attempt.
begin;
\ir ../helpers.sql
select plan(45);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare report (integer, text) as select p.* from flowfabric.ff_update_progress(
    :'execution', ff_tap.lease_id(), 7, ff_tap.attempt_id(), $1, $2) as p;
prepare progress as select n.progress_pct, n.progress_message, n.progress_updated_at_ms
from ff_tap.note(:'execution') as n;

select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(:'execution', p_lease_epoch => 7, p_lease_expires_at_ms => 9000);

select ff_tap.freeze_time(2000);
select results_eq(
    $$execute report(50, 'half way')$$, format($$values ('updated', %L)$$, :'execution'),
    'a report is acknowledged with the execution');
select results_eq(
    'execute progress', $$values (50::smallint, 'half way', 2000::bigint)$$, 'percentage and message are stored');
select is(
    (select row(
        e.last_mutation_at_ms, e.last_transition_at_ms, e.lease_expires_at_ms, e.lease_last_renewed_at_ms)
     from ff_tap.core(:'execution') as e),
    row(2000::bigint, 1000::bigint, 9000::bigint, 1000::bigint),
    'a report is a mutation, no transition, and renews no lease');
select is(
    ff_tap.vector(:'execution'), 'active / leased / not_applicable / none / none / running_attempt -> active',
    'the state does not change');
select is(
    ff_tap.lease_events(:'execution'), array['acquired:issue_grant_and_claim'], 'a report writes no event');

select ff_tap.freeze_time(3000);
execute report(null, 'nearly there');
select results_eq(
    'execute progress', $$values (50::smallint, 'nearly there', 3000::bigint)$$,
    'a message alone leaves the percentage');
execute report(75, null);
select results_eq(
    'execute progress', $$values (75::smallint, 'nearly there', 3000::bigint)$$,
    'a percentage alone leaves the message');
execute report(0, '');
select results_eq(
    'execute progress', $$values (0::smallint, 'nearly there', 3000::bigint)$$,
    'progress may go back to 0, and an empty message clears nothing');
select ff_tap.freeze_time(4000);
execute report(null, null);
select results_eq(
    'execute progress', $$values (0::smallint, 'nearly there', 4000::bigint)$$,
    'a report without values still says that the attempt is alive');
execute report(100, null);
select results_eq(
    'execute progress', $$values (100::smallint, 'nearly there', 4000::bigint)$$, '100 is the most');
select lives_ok(
    $$execute report(null, repeat('é', 4096))$$, 'a message of 8192 bytes is accepted');

select flowfabric._ff_note_failure(ff_tap.core(:'execution'), 'kept');
execute report(1, null);
select is((ff_tap.note(:'execution')).failure_reason, 'kept', 'a report leaves the other notes alone');

-- Refusals
select throws_ok('execute report(-1, null)', 'ZV001', 'invalid_input', 'a percentage below 0 is refused');
select throws_ok('execute report(101, null)', 'ZV001', 'invalid_input', 'a percentage above 100 is refused');
select is(
    ff_tap.error_of('execute report(2147483647, null)'),
    '{"code": "invalid_input", "fn": "ff_update_progress", "field": "progress_pct", "reason": "out_of_range",
      "value": "2147483647"}',
    'the detail names the percentage');
select throws_ok(
    $$execute report(null, repeat('é', 4096) || 'x')$$, 'ZV001', 'invalid_input',
    'a message of more than 8192 bytes is refused');
select is(
    ff_tap.error_of($$execute report(null, repeat('x', 1000000))$$) - 'value',
    '{"code": "invalid_input", "fn": "ff_update_progress", "field": "progress_message", "reason": "too_long"}',
    'the detail names the message');
select throws_ok(
    format(
        'select flowfabric.ff_update_progress(%L, null, null, null, 101)',
        '{fp:86}:00000000-0000-4000-8000-0000000000ee'),
    'ZV001', 'invalid_input', 'values are looked at before the execution and its fence');
select throws_ok(
    'select flowfabric.ff_update_progress(null, null, null, null)', 'ZV001', 'invalid_input', 'an id is required');
select ff_tap.freeze_time(8999);
select lives_ok('execute report(99, null)', 'the last millisecond of a lease is good');
select ff_tap.freeze_time(9000);
select throws_ok('execute report(100, null)', 'ZS002', 'lease_expired', 'at its expiry the lease is over');
select is((ff_tap.note(:'execution')).progress_pct, 99::smallint, 'a refusal writes nothing');
select is(
    (ff_tap.core(:'execution')).ownership_state, 'leased', 'a refusal does not mark the lease expired');

select ff_tap.refuses_bad_fences(
    'select flowfabric.ff_update_progress(%1$L, %2$L, %3$L, %4$L, 50)', p_has_override => false);

select * from finish();
rollback;
