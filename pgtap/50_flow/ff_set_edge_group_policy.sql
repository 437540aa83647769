-- How a child judges its upstreams: declared before the first edge, whole, and then fixed.
begin;
\ir helpers.sql
select plan(35);

prepare set_policy (text, text, integer) as
    select p.* from flowfabric.ff_set_edge_group_policy(ff_tap.flow_id(), ff_tap.m(3), $1, $2, $3) as p;

select ff_tap.freeze_time(1000);
select ff_tap.flow(3);
select results_eq($$execute set_policy('quorum', 'let_run', 2)$$, $$values ('set')$$, 'a quorum is declared');
select is(
    (select to_jsonb(g) from flowfabric.ff_edge_group as g),
    jsonb_build_object(
        'partition_key', 6, 'flow_id', ff_tap.flow_id(), 'downstream_eid', ff_tap.eid(3), 'policy_kind', 'quorum',
        'k', 2, 'on_satisfied', 'let_run', 'n', 0, 'success_count', 0, 'fail_count', 0, 'skip_count', 0,
        'running_count', 0, 'group_state', 'pending', 'satisfied_at_ms', null, 'impossible_at_ms', null,
        'created_at_ms', 1000, 'last_graph_revision', null, 'cancel_siblings_pending_flag', false,
        'cancel_siblings_reason', null, 'cancel_siblings_pending_members', '[]'::jsonb),
    'its join has nothing to count yet');
select is(ff_tap.revision(), 3::bigint, 'the graph has not changed');
select is(ff_tap.states(3), 'waiting', 'nor has the child');

select ff_tap.freeze_time(2000);
select ff_tap.everything() as before \gset
select results_eq($$execute set_policy('quorum', 'let_run', 2)$$, $$values ('already_set')$$, 'the repeat finds it');
select is(ff_tap.everything(), :'before'::jsonb, 'and changes nothing');
select results_eq($$execute set_policy('quorum', 'let_run', 3)$$, $$values ('set')$$, 'another k replaces it');
select is(ff_tap.edge_group(3), 'quorum(3) of 0: 0 ok, 0 failed, 0 skipped, pending', 'and is stored');
select results_eq(
    $$execute set_policy('quorum', 'cancel_remaining', 3)$$, $$values ('set')$$, 'what becomes of the others does too');
select is(
    (select row(g.on_satisfied, g.created_at_ms) from flowfabric.ff_edge_group as g),
    row('cancel_remaining'::text, 2000::bigint), 'and is stored');
select results_eq(
    $$execute set_policy('any_of', 'let_run', 7)$$, $$values ('set')$$, 'an any_of needs no k');
select is(ff_tap.edge_group(3), 'any_of(1) of 0: 0 ok, 0 failed, 0 skipped, pending', 'a given one is ignored');
select results_eq(
    $$execute set_policy('any_of', 'let_run', null)$$, $$values ('already_set')$$, 'so that it makes no difference');
select results_eq(
    $$execute set_policy('all_of', 'let_run', 7)$$, $$values ('set')$$, 'an all_of needs nothing else');
select is(
    (select row(g.policy_kind, g.k, g.on_satisfied) from flowfabric.ff_edge_group as g),
    row('all_of'::text, null::integer, null::text), 'and stores nothing else');
select results_eq(
    $$execute set_policy('all_of', null, null)$$, $$values ('already_set')$$, 'however it is declared');

-- Wherever there is a flow
select is(
    flowfabric.ff_set_edge_group_policy(ff_tap.flow_id(), ff_tap.m(404), 'all_of'),
    row('set')::flowfabric.ff_outcome, 'the child need not exist yet');

-- Refusals
select ff_tap.everything() as before \gset
select throws_ok($$execute set_policy('some_of', 'let_run', 1)$$, 'ZV001', 'invalid_input', 'a kind must be known');
select is(
    ff_tap.error_of(format('execute set_policy(%L, %L, %L)', b.kind, b.on_satisfied, b.k)) - array['fn', 'code'],
    jsonb_strip_nulls(jsonb_build_object('field', b.field, 'reason', b.reason, 'value', b.value)), b.description)
from (values
    ('some_of', 'let_run', 1, 'policy_kind', 'unsupported_policy_variant: some_of', 'some_of', 'some_of is none'),
    ('', 'let_run', 1, 'policy_kind', 'unsupported_policy_variant: ', '', 'nor is the empty text'),
    (null, 'let_run', 1, 'policy_kind', 'unsupported_policy_variant: null', null, 'nor is NULL'),
    ('quorum', 'let_run', null, 'k', 'quorum k must be >= 1', null, 'a quorum needs k'),
    ('quorum', 'let_run', 0, 'k', 'quorum k must be >= 1', '0', 'of at least 1'),
    ('quorum', 'let_run', -2147483648, 'k', 'quorum k must be >= 1', '-2147483648', 'and not below'),
    (
        'quorum', null, 2, 'on_satisfied', 'on_satisfied required for any_of/quorum: cancel_remaining | let_run', null,
        'a quorum says what becomes of the others'
    ),
    (
        'any_of', null, null, 'on_satisfied', 'on_satisfied required for any_of/quorum: cancel_remaining | let_run',
        null, 'an any_of too'
    ),
    (
        'any_of', 'kill', null, 'on_satisfied', 'on_satisfied required for any_of/quorum: cancel_remaining | let_run',
        'kill', 'in one of two words'
    )
) as b (kind, on_satisfied, k, field, reason, value, description);
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_set_edge_group_policy(%L, %L, %L)', gen_random_uuid(), ff_tap.m(3), 'some_of'))
    ->> 'code', 'flow_not_found', 'an unknown flow is refused before the policy is looked at');
select throws_ok(
    format('select flowfabric.ff_set_edge_group_policy(%L, %L, %L)', gen_random_uuid(), ff_tap.m(3), 'all_of'),
    'ZN002', 'flow_not_found', 'with its own code');
select throws_ok(
    format('select flowfabric.ff_set_edge_group_policy(%L, %L, %L)', ff_tap.flow_id(), 'three', 'all_of'),
    'ZV001', 'invalid_input', 'a text that is no id is refused');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_set_edge_group_policy(%L, %L, %L)', ff_tap.flow_id(),
        '{fp:7}:00000000-0000-4000-8000-000000000003', 'all_of')) - array['fn', 'value'],
    '{"code": "invalid_input", "field": "downstream_execution_id", "reason": "partition_mismatch"}',
    'an id of another partition can never be a child here');
select throws_ok(
    format('select flowfabric.ff_set_edge_group_policy(null, %L, %L)', ff_tap.m(3), 'all_of'),
    'ZV001', 'invalid_input', 'a flow is required');
select is(ff_tap.everything(), :'before'::jsonb, 'no refusal writes anything');

-- The first staged edge fixes it.
select ff_tap.stage(1, 3);
select is(
    ff_tap.error_of($$execute set_policy('all_of', null, null)$$) - array['fn', 'code'],
    '{"field": "policy_kind", "reason": "edge_group_policy_already_fixed: dependencies already staged",
      "value": "all_of"}',
    'once an edge is staged even the same policy is refused');
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'over', 'flow_only');
select is(
    flowfabric.ff_set_edge_group_policy(ff_tap.flow_id(), ff_tap.m(2), 'all_of'),
    row('set')::flowfabric.ff_outcome, 'a cancelled flow does not mind');

select * from finish();
rollback;
