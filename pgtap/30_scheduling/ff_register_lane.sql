-- Registering a lane: known before its first execution, once.
begin;
\ir ../helpers.sql
select plan(14);

prepare register (text, text) as select r.outcome from flowfabric.ff_register_lane($1, $2) as r;
create function ff_tap.refusal(p_arguments text)
returns text
language sql volatile
as $$
    select concat_ws(' ', e ->> 'code', e ->> 'field', e ->> 'reason')
    from ff_tap.error_of('select flowfabric.ff_register_lane(' || p_arguments || ')') as e
$$;

select ff_tap.freeze_time(1000);
select results_eq($$ execute register('mail', 'boot') $$, $$ values ('registered') $$, 'a new lane is registered');
select is(
    (select jsonb_build_array(
        l.lane_state, l.registered_at_ms, l.registered_by, l.state_changed_at_ms, l.state_reason, l.lane_crc)
     from flowfabric.ff_lane_registry as l where l.lane_id = 'mail'),
    jsonb_build_array('active', 1000, 'boot', null, null, flowfabric._ff_crc16('mail')), 'as active, by whom and when');
select ff_tap.freeze_time(2000);
select results_eq(
    $$ execute register('mail', 'other') $$, $$ values ('already_registered') $$, 'a second time it is known');
select is(
    (select row(l.registered_at_ms, l.registered_by) from flowfabric.ff_lane_registry as l where l.lane_id = 'mail'),
    row(1000::bigint, 'boot'::text), 'and stays as it was');
select is((select r.outcome from flowfabric.ff_register_lane('ops') as r), 'registered', 'by default');
select is(
    (select l.registered_by from flowfabric.ff_lane_registry as l where l.lane_id = 'ops'), 'operator',
    'by the operator');
select results_eq($$ execute register('empty', '') $$, $$ values ('registered') $$, 'an empty name is none');
select is(
    (select l.registered_by from flowfabric.ff_lane_registry as l where l.lane_id = 'empty'), 'operator',
    'and means the operator');
select ff_tap.execution(p_lane_id => 'used');
select results_eq(
    $$ execute register('used', null) $$, $$ values ('already_registered') $$, 'a lane that was used is registered');
select is(ff_tap.refusal('null'), 'invalid_input lane_id null', 'a lane has a name');
select is(ff_tap.refusal($$ '' $$), 'invalid_input lane_id empty', 'not an empty one');
select is(ff_tap.refusal($$ repeat('x', 65) $$), 'invalid_input lane_id too_long', 'of 64 bytes at most');
select is(ff_tap.refusal($$ E'a\tb' $$), 'invalid_input lane_id not_printable_ascii', 'of printable ASCII');
select is(
    ff_tap.refusal($$ 'a', 'b c' $$), 'invalid_input registered_by space_or_control', 'who registers has a clean name');

select * from finish();
rollback;
