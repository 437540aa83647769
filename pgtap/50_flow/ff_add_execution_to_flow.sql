-- Membership: an execution joins a flow once, for life, on the flow's own partition.
begin;
\ir helpers.sql
select plan(25);

prepare add (uuid, text) as select a.* from flowfabric.ff_add_execution_to_flow($1, $2) as a;

select ff_tap.freeze_time(1000);
select flowfabric.ff_create_flow(ff_tap.flow_id(), 'dag');
select ff_tap.execution(ff_tap.m(n)) from generate_series(1, 4) as n;
select to_jsonb(ff_tap.core(ff_tap.m(1))) as before \gset
select ff_tap.freeze_time(2000);
select results_eq(
    format('execute add(%L, %L)', ff_tap.flow_id(), ff_tap.m(1)),
    format('values (%L, 1, 1::bigint, %L)', ff_tap.m(1), 'added'), 'an execution becomes a member');
select is(
    to_jsonb(ff_tap.core(ff_tap.m(1))),
    :'before'::jsonb || jsonb_build_object('flow_id', ff_tap.flow_id(), 'last_mutation_at_ms', 2000),
    'nothing of it changes but its flow');
select is(
    (select row(f.node_count, f.graph_revision, f.edge_count, f.last_mutation_at_ms, f.created_at_ms)
     from flowfabric.ff_flow_core as f),
    row(1, 1::bigint, 0, 2000::bigint, 1000::bigint), 'the flow counts it and has a new revision');
select is(
    (select count(*) from flowfabric.ff_operator_event), 0::bigint, 'no event tells of it');

select ff_tap.freeze_time(3000);
select ff_tap.everything() as before \gset
select results_eq(
    format('execute add(%L, %L)', ff_tap.flow_id(), ff_tap.m(1)),
    format('values (%L, 1, 1::bigint, %L)', ff_tap.m(1), 'already_member'), 'the repeat finds it there');
select is(ff_tap.everything(), :'before'::jsonb, 'and counts nothing twice');

-- In any state
select ff_tap.claim(2);
select ff_tap.finish(3, 'failed');
select results_eq(
    format('execute add(%L, %L)', ff_tap.flow_id(), ff_tap.m(2)),
    format('values (%L, 2, 2::bigint, %L)', ff_tap.m(2), 'added'), 'an active execution may join');
select results_eq(
    format('execute add(%L, %L)', ff_tap.flow_id(), ff_tap.m(3)),
    format('values (%L, 3, 3::bigint, %L)', ff_tap.m(3), 'added'), 'an ended one too');
select is(ff_tap.states(1, 2, 3), 'waiting active failed', 'their states stay');
select ff_tap.finish(2);
select is(
    (select v.flow_id from flowfabric.ff_completion_event as v where v.execution_id = ff_tap.eid(2)),
    ff_tap.flow_id(), 'from then on its events have the flow');

-- Refusals
\set other '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
select flowfabric.ff_create_flow(:'other', 'dag');
select ff_tap.everything() as before \gset
select throws_ok(
    format('execute add(%L, %L)', gen_random_uuid(), ff_tap.m(4)), 'ZN002', 'flow_not_found',
    'an unknown flow is refused');
select is(
    ff_tap.error_of(format('execute add(%L, %L)', '00000000-0000-0000-0000-000000000000', ff_tap.m(404))) - 'fn',
    '{"code": "flow_not_found", "flow_id": "00000000-0000-0000-0000-000000000000"}',
    'the detail names the flow, and that comes before the execution');
select throws_ok(
    format('execute add(%L, %L)', ff_tap.flow_id(), ff_tap.m(404)), 'ZN001', 'execution_not_found',
    'an unknown execution is refused');
select is(
    ff_tap.error_of(format('execute add(%L, %L)', :'other', ff_tap.m(1))) - 'fn',
    jsonb_build_object(
        'code', 'already_member_of_different_flow', 'execution_id', ff_tap.m(1), 'flow_id', ff_tap.flow_id()),
    'a member of another flow is refused with the name of that flow, before its partition is looked at');
select throws_ok(
    format('execute add(%L, %L)', :'other', ff_tap.m(1)), 'ZK010', 'already_member_of_different_flow',
    'a member stays where it is');
select is(
    ff_tap.error_of(format('execute add(%L, %L)', :'other', ff_tap.m(4))) - 'fn',
    jsonb_build_object(
        'code', 'invalid_input', 'field', 'execution_id', 'reason', 'partition_mismatch', 'value', ff_tap.m(4)),
    'an id of another partition is refused');
select throws_ok(
    format('execute add(null, %L)', ff_tap.m(4)), 'ZV001', 'invalid_input', 'a flow is required');
select throws_ok(
    format('execute add(%L, null)', ff_tap.flow_id()), 'ZV001', 'invalid_input', 'an execution is required');
select throws_ok(
    format('execute add(%L, %L)', ff_tap.flow_id(), 'four'), 'ZV001', 'invalid_input',
    'a text that is no id is refused');
select is(ff_tap.everything(), :'before'::jsonb, 'no refusal writes anything');

-- A cancelled flow takes nobody, not even a member again.
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'over', 'flow_only');
select throws_ok(
    format('execute add(%L, %L)', ff_tap.flow_id(), ff_tap.m(4)), 'ZS019', 'flow_already_terminal',
    'a cancelled flow takes no new member');
select is(
    ff_tap.error_of(format('execute add(%L, %L)', ff_tap.flow_id(), ff_tap.m(1))) - 'fn',
    jsonb_build_object(
        'code', 'flow_already_terminal', 'flow_id', ff_tap.flow_id(), 'public_flow_state', 'cancelled',
        'cancellation_policy', 'flow_only', 'cancel_reason', 'over'),
    'nor an old one again; the detail has what the cancel decided');
select throws_ok(
    format('execute add(%L, %L)', ff_tap.flow_id(), ff_tap.m(404)), 'ZS019', 'flow_already_terminal',
    'and that comes before the execution');
update flowfabric.ff_flow_core as f set public_flow_state = 'completed' where f.flow_id = :'other';
select throws_ok(
    format('execute add(%L, %L)', :'other', ff_tap.m(4)), 'ZS019', 'flow_already_terminal',
    'a flow brought over as completed takes nobody either');
select is(
    (select f.node_count from flowfabric.ff_flow_core as f where f.flow_id = ff_tap.flow_id()), 3,
    'the count stays');

select * from finish();
rollback;
