-- Undoing an admission: the slot comes back, the token does not.
begin;
\ir ../helpers.sql
select plan(21);

\set first '{fp:86}:00000000-0000-4000-8000-000000000001'
\set second '{fp:86}:00000000-0000-4000-8000-000000000002'
\set unknown '{fp:86}:00000000-0000-4000-8000-000000000009'
select ff_tap.freeze_time(1000);
select flowfabric.ff_create_quota_policy('quota', 60, 2, 1);
select ff_tap.execution(:'first'), ff_tap.execution(:'second');
prepare admit (text) as
select a.outcome from flowfabric.ff_check_admission_and_record('quota', $1) as a;
prepare release (text) as select r.outcome from flowfabric.ff_release_admission('quota', $1) as r;
prepare load as
select q.entries_in_window, q.active_concurrency from flowfabric.ff_get_quota_policy('quota') as q;

select results_eq(format('execute admit(%L)', :'first'), $$values ('admitted')$$, 'an execution is admitted');
select results_eq(
    format('execute admit(%L)', :'second'), $$values ('concurrency_exceeded')$$, 'and holds the only slot');
select results_eq(format('execute release(%L)', :'second'), $$values ('released')$$, 'releasing what was denied');
select results_eq('execute load', 'values (1::bigint, 1::bigint)', 'takes nobody else''s slot');
select results_eq(format('execute release(%L)', :'first'), $$values ('released')$$, 'the admission is released');
select results_eq('execute load', 'values (1::bigint, 0::bigint)', 'its slot is free, its token stays spent');
select results_eq(format('execute release(%L)', :'first'), $$values ('released')$$, 'a repeat is harmless');
select results_eq(format('execute admit(%L)', :'second'), $$values ('admitted')$$, 'another execution takes the slot');
select results_eq(
    format('execute release(%L)', :'second'), $$values ('released')$$, 'and gives it back the same way');
select results_eq(
    format('execute admit(%L)', :'first'), $$values ('rate_exceeded')$$,
    'both tokens of the window are spent, though nothing runs');
select ff_tap.freeze_time(61000);
select results_eq(
    format('execute admit(%L)', :'first'), $$values ('admitted')$$, 'until the window has moved on');
select results_eq(format('execute release(%L)', :'unknown'), $$values ('released')$$, 'unknown executions succeed');
select is(
    (flowfabric.ff_release_admission('no-such-policy', :'first')).outcome, 'released', 'and so do unknown policies');

-- Somebody else was faster
\set fast '{fp:86}:00000000-0000-4000-8000-000000000003'
select flowfabric.ff_create_quota_policy('fast', 60, 0, 1);
select ff_tap.execution(:'fast', '{"quota_policy_id": "fast"}');
create temporary view slot as
select a.slot_held from flowfabric.ff_quota_admitted as a where a.quota_policy_id = 'fast';
select flowfabric.ff_check_admission_and_record('fast', :'fast');
select flowfabric.ff_issue_claim_grant(:'fast', 'pool', 'pool-1', 'default', p_grant_ttl_ms => 100);
select is(
    (flowfabric.ff_release_admission('fast', :'fast')).outcome, 'released',
        'a scheduler whose grant was refused releases');
select results_eq('table slot', 'values (true)', 'but the slot is that of the grant that is out');
select flowfabric.ff_claim_execution(:'fast', 'pool', 'pool-1', p_lease_ttl_ms => 500);
select is((flowfabric.ff_release_admission('fast', :'fast')).outcome, 'released', 'or of the execution that runs');
select results_eq('table slot', 'values (true)', 'which keeps it');
select ff_tap.advance_time(500);
select flowfabric.ff_release_admission('fast', :'fast');
select results_eq('table slot', 'values (true)', 'also while its lease is lost');
select flowfabric.ff_cancel_execution(:'fast', 'stop', p_source => 'operator_override');
select results_eq('table slot', 'values (false)', 'until its activity ends');
select flowfabric.ff_release_admission('fast', :'fast');
select is_empty('table slot', 'then the admission can be forgotten');

select is(
    (select array_agg(ff_tap.error_of(b.call) ->> 'field' order by b.number)
     from (values
         (1, $$select flowfabric.ff_release_admission('', '{fp:86}:00000000-0000-4000-8000-000000000001')$$),
         (2, $$select flowfabric.ff_release_admission('quota', 'x')$$)) as b (number, call)),
    array['quota_policy_id', 'execution_id'], 'malformed ids are refused');

select * from finish();
rollback;
