-- The state of a lane: what it accepts and what it hands out, from the moment of the change.
begin;
\ir ../helpers.sql
select plan(23);

prepare set_state (text, text, text) as select s.* from flowfabric.ff_set_lane_state($1, $2, $3) as s;
create function ff_tap.refusal(p_arguments text)
returns text
language sql volatile
as $$
    select concat_ws(' ', e ->> 'code', e ->> 'field', e ->> 'reason')
    from ff_tap.error_of('select flowfabric.ff_set_lane_state(' || p_arguments || ')') as e
$$;
create function ff_tap.creates()
returns text
language sql volatile
as $$
    select c.outcome from flowfabric.ff_create_execution('test', p_lane_id => 'lane') as c
$$;
create function ff_tap.claims()
returns bigint
language sql volatile
as $$
    select count(*) from flowfabric.ff_claim_next('{lane}', 'pool', 'pool-1')
$$;

select ff_tap.freeze_time(1000);
select results_eq(
    $$ execute set_state('lane', 'paused', 'maintenance') $$, $$ values ('changed', 'active') $$,
    'a lane can be paused before its first use');
select is(
    (select jsonb_build_array(
        l.lane_state, l.registered_at_ms, l.registered_by, l.state_changed_at_ms, l.state_reason, l.lane_crc)
     from flowfabric.ff_lane_registry as l where l.lane_id = 'lane'),
    jsonb_build_array('paused', 1000, 'operator', 1000, 'maintenance', flowfabric._ff_crc16('lane')),
    'and is registered then');
select is(
    (select jsonb_build_array(
        v.event_type, v.details, v.occurred_at_ms, v.execution_id, v.flow_id, v.namespace, v.partition_key)
     from flowfabric.ff_operator_event as v),
    jsonb_build_array(
        'lane_state_changed',
        '{"lane_id": "lane", "previous_state": "active", "lane_state": "paused", "reason": "maintenance"}'::jsonb
        || jsonb_build_object('login', session_user),
        1000, null, null, null, flowfabric._ff_partition_of(flowfabric._ff_crc16('lane'))),
    'one operator event tells of it');
select ff_tap.freeze_time(2000);
select results_eq(
    $$ execute set_state('lane', 'paused', 'again') $$, $$ values ('unchanged', 'paused') $$, 'the same state again');
select is(
    (select row(l.state_changed_at_ms, l.state_reason, (select count(*) from flowfabric.ff_operator_event))
     from flowfabric.ff_lane_registry as l where l.lane_id = 'lane'),
    row(1000::bigint, 'maintenance'::text, 1::bigint), 'changes nothing and writes no event');

select is(array[ff_tap.creates(), ff_tap.claims()::text], '{created,0}', 'paused: accepts and does not serve');
select flowfabric.ff_set_lane_state('lane', 'draining');
select is(
    (select row(l.state_changed_at_ms, l.state_reason) from flowfabric.ff_lane_registry as l where l.lane_id = 'lane'),
    row(2000::bigint, null::text), 'a change without a reason has none');
select throws_ok('select ff_tap.creates()', 'ZS034', 'lane_not_accepting', 'draining: does not accept');
select is(
    ff_tap.error_of('select ff_tap.creates()') - array['code', 'fn'], '{"lane_id": "lane", "lane_state": "draining"}',
    'and says so');
select is(ff_tap.claims(), 1::bigint, 'and serves');
select flowfabric.ff_set_lane_state('lane', 'active');
select is(array[ff_tap.creates(), ff_tap.claims()::text], '{created,1}', 'active: both');
select ff_tap.creates();
select row_to_json(e)::text as before from flowfabric.ff_exec_core as e where e.lifecycle_phase = 'runnable' \gset
select flowfabric.ff_set_lane_state('lane', 'disabled');
select throws_ok('select ff_tap.creates()', 'ZS034', 'lane_not_accepting', 'disabled: does not accept');
select is(ff_tap.claims(), 0::bigint, 'and does not serve');
select is(
    (select row_to_json(e)::text from flowfabric.ff_exec_core as e where e.lifecycle_phase = 'runnable'), :'before',
    'no execution is touched');
select lives_ok(
    $$ select flowfabric.ff_complete_execution(
        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id), e.current_lease_id, e.current_lease_epoch,
        e.current_attempt_id)
       from flowfabric.ff_exec_core as e where e.ownership_state = 'leased' $$, 'what runs may end');
select is(
    (select array_agg(v.details ->> 'lane_state' order by v.event_id) from flowfabric.ff_operator_event as v),
    '{paused,draining,active,disabled}', 'every change was told');
select flowfabric.ff_set_lane_state('lane', 'active', 'x' || repeat('ä', 600));
select is(
    (select octet_length(l.state_reason) from flowfabric.ff_lane_registry as l where l.lane_id = 'lane'), 1023,
    'a reason is cut to 1024 bytes, at a character');

select is(ff_tap.refusal($$ null, 'active' $$), 'invalid_input lane_id null', 'a lane has a name');
select is(ff_tap.refusal($$ 'ä', 'active' $$), 'invalid_input lane_id not_printable_ascii', 'of printable ASCII');
select is(ff_tap.refusal($$ 'lane', null $$), 'invalid_input lane_state null', 'and a state');
select is(ff_tap.refusal($$ 'lane', '' $$), 'invalid_input lane_state unknown', 'not an empty one');
select is(ff_tap.refusal($$ 'lane', 'Active' $$), 'invalid_input lane_state unknown', 'but one of four');
select is(
    ff_tap.error_of($$ select flowfabric.ff_set_lane_state('lane', 'stopped') $$) ->> 'value', 'stopped',
    'it says what was wrong');

select * from finish();
rollback;
