-- Promotion in batches: whatever is due becomes eligible, earliest first, in every lane.
begin;
\ir ../helpers.sql
select plan(30);

prepare promote (integer, text[]) as select p.* from flowfabric.ff_promote_due($1, $2) as p;

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.eligible()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(right(e.execution_id::text, 12)::integer order by e.execution_id), '{}')
    from flowfabric.ff_exec_core as e
    where e.eligibility_state = 'eligible_now'
$$;

select ff_tap.freeze_time(1000);
select results_eq(
    'select p.* from flowfabric.ff_promote_due() as p', 'values (0, 0, 0, false)', 'without delays nothing happens');

-- Lane b is due before lane a, which comes first in the index.
select ff_tap.execution(ff_tap.id(1), p_lane_id => 'a', p_delay_until_ms => 5000);
select ff_tap.execution(ff_tap.id(2), p_lane_id => 'a', p_delay_until_ms => 3000);
select ff_tap.execution(ff_tap.id(3), p_lane_id => 'b', p_delay_until_ms => 2000);
select ff_tap.execution(ff_tap.id(4), p_lane_id => 'b', p_delay_until_ms => 4000);
select ff_tap.execution(ff_tap.id(5), p_lane_id => 'c', p_delay_until_ms => 9000);

select ff_tap.freeze_time(1999);
select results_eq('execute promote(50, null)', 'values (0, 0, 0, false)', 'before its time nothing is due');
select ff_tap.freeze_time(2000);
select results_eq('execute promote(50, null)', 'values (1, 0, 0, false)', 'at the instant itself it is due');
select is(ff_tap.eligible(), array[3], 'and is promoted');
select is(
    ff_tap.vector(ff_tap.id(3)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'it is eligible');
select is(
    (select jsonb_build_array(e.delay_until_ms, e.blocking_detail, e.last_transition_at_ms, e.last_mutation_at_ms)
     from ff_tap.core(ff_tap.id(3)) as e),
    '[null, null, 2000, 2000]'::jsonb, 'its delay is gone');
select results_eq('execute promote(50, null)', 'values (0, 0, 0, false)', 'a repeat finds nothing');

select ff_tap.freeze_time(5000);
select results_eq(
    'execute promote(2, null)', 'values (2, 0, 0, true)', 'a full batch says that there may be more');
select is(ff_tap.eligible(), array[2, 3, 4], 'the earliest due go first, over all lanes');
select results_eq(
    'execute promote(2, null)', 'values (1, 0, 0, false)', 'a batch that is not full says that there is no more');
select is(ff_tap.eligible(), array[1, 2, 3, 4], 'what is not due stays');

-- Some lanes only
select ff_tap.freeze_time(9000);
select results_eq(
    $$execute promote(50, '{a,b,unknown}')$$, 'values (0, 0, 0, false)', 'other lanes are left alone');
select results_eq($$execute promote(50, '{}')$$, 'values (0, 0, 0, false)', 'no lanes is no work');
select results_eq(
    $$execute promote(50, '{c,c}')$$, 'values (1, 0, 0, false)', 'a lane that is named twice is read once');

-- One lane with many, many lanes with one
select ff_tap.execution(ff_tap.id(100 + i), p_lane_id => 'big', p_delay_until_ms => 20000 + i)
from generate_series(1, 40) as i;
select ff_tap.execution(ff_tap.id(200 + i), p_lane_id => 'lane-' || i::text, p_delay_until_ms => 30000)
from generate_series(1, 30) as i;
select ff_tap.freeze_time(30000);
select results_eq(
    'execute promote(20, null)', 'values (20, 0, 0, true)', 'a lane alone can fill a batch beside many lanes');
select results_eq('execute promote(50, null)', 'values (50, 0, 0, true)', 'all lanes together fill a batch');
select is(cardinality(ff_tap.eligible()), 75, 'nothing is left behind');

-- What the next claim must do is kept, and the deadline too
select ff_tap.leased_execution(
    ff_tap.id(301), p_policy => '{"retry_policy": {"max_retries": 1}}', p_deadline_at_ms => 900000);
select flowfabric.ff_fail_execution(ff_tap.id(301), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.leased_execution(ff_tap.id(302));
select flowfabric.ff_delay_execution(ff_tap.id(302), 31000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(32000);
select results_eq('execute promote(50, null)', 'values (2, 0, 0, false)', 'retries and pauses are promoted too');
select is(
    (select row(e.attempt_state, e.deadline_at_ms, e.retry_count) from ff_tap.core(ff_tap.id(301)) as e),
    row('pending_retry_attempt'::flowfabric.ff_attempt_state, 900000::bigint, 1), 'a retry stays a retry');
select is(
    (ff_tap.core(ff_tap.id(302))).attempt_state, 'attempt_interrupted', 'a paused attempt stays a paused attempt');

-- A failing item
create function ff_tap.refuse() returns trigger language plpgsql
as $$ begin raise exception 'this one is poisoned'; end $$;
create trigger poison before update on flowfabric.ff_exec_core
for each row when (old.execution_id = '00000000-0000-4000-8000-000000000401') execute function ff_tap.refuse();
select ff_tap.execution(ff_tap.id(401), p_delay_until_ms => 40000);
select ff_tap.execution(ff_tap.id(402), p_delay_until_ms => 40001);
select ff_tap.freeze_time(41000);
select results_eq(
    'execute promote(50, null)', 'values (1, 0, 1, false)', 'an execution that fails does not stop the others');
select is(
    (select to_jsonb(f) from flowfabric.ff_scanner_failure as f),
    jsonb_build_object(
        'scanner', 'delayed', 'item_key', ff_tap.id(401), 'failures', 1, 'skip_until_ms', null,
        'last_error', 'P0001 this one is poisoned', 'last_failed_at_ms', 41000),
    'its failure is recorded');
drop trigger poison on flowfabric.ff_exec_core;
select results_eq('execute promote(50, null)', 'values (1, 0, 0, false)', 'the next call tries it again');
select is((select count(*) from flowfabric.ff_scanner_failure), 0::bigint, 'and a success forgets the failure');

-- Refusals
select throws_ok('execute promote(0, null)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute promote(10001, null)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select is(
    ff_tap.error_of('execute promote(null, null)'),
    '{"code": "invalid_input", "fn": "ff_promote_due", "field": "limit", "reason": "null"}', 'a limit is required');
select throws_ok($$execute promote(1, '{a,NULL}')$$, 'ZV001', 'invalid_input', 'a lane is not null');
select is(
    ff_tap.error_of($$execute promote(1, array['a', repeat('x', 65)])$$) - 'value',
    '{"code": "invalid_input", "fn": "ff_promote_due", "field": "lanes", "reason": "too_long"}',
    'a lane has at most 64 bytes');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');

select * from finish();
rollback;
