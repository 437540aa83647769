-- Resolving one edge by hand: what it says about the edge and the join, and what it does to the child.
begin;
\ir helpers.sql
select plan(40);

prepare resolve (integer, integer, text) as
    select r.* from flowfabric.ff_resolve_dependency(ff_tap.flow_id(), ff_tap.edge_id($1, $2), $3) as r;

-- all_of: the words are about the edge.
select ff_tap.freeze_time(1000);
select ff_tap.flow(5);
select ff_tap.connect('{1, 2}', 3);
select ff_tap.connect('{3}', 4);
select ff_tap.connect('{4}', 5);
select ff_tap.freeze_time(2000);
select results_eq(
    $$execute resolve(1, 3, 'success')$$, $$values ('satisfied', 'pending', false, false, false)$$,
    'a satisfied edge is not yet a satisfied all_of');
select is(
    ff_tap.edge(1, 3) || ', ' || ff_tap.edge_group(3) || ', ' || ff_tap.states(1, 3),
    'satisfied/success@2000, all_of of 2: 1 ok, 0 failed, 0 skipped, pending, waiting waiting_children',
    'a given outcome is taken at its word: the upstream still waits');
select results_eq(
    $$execute resolve(1, 3, 'failed')$$, $$values ('already_resolved', 'pending', false, false, false)$$,
    'an edge is resolved once, whatever the repeat says');
select is(ff_tap.edge(1, 3), 'satisfied/success@2000', 'and keeps its outcome');
select results_eq(
    $$execute resolve(2, 3, 'success')$$, $$values ('satisfied', 'satisfied', true, false, false)$$,
    'the last edge satisfies the join');
select is(
    ff_tap.vector(ff_tap.m(3)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'the child can be claimed');
select results_eq(
    $$execute resolve(3, 4, 'expired')$$, $$values ('impossible', 'impossible', false, true, false)$$,
    'an edge that is not a success makes an all_of impossible');
select is(
    ff_tap.states(4, 5) || ', ' || ff_tap.edge_group(4) || ', ' || ff_tap.edge_group(5),
    'skipped skipped, all_of of 1: 0 ok, 1 failed, 0 skipped, impossible@2000,'
    ' all_of of 1: 0 ok, 0 failed, 1 skipped, impossible@2000',
    'the child is skipped, and so on down');
select ff_tap.finish(2, 'cancelled');
select is(
    ff_tap.edge_group(3), 'all_of of 2: 2 ok, 0 failed, 0 skipped, satisfied@2000',
    'the end of an upstream whose edge was resolved by hand counts no more');

-- The upstream's own end
select ff_tap.flow(9, 11);
select ff_tap.setting('max_sync_edges', 0);
select ff_tap.connect('{11}', 12);
select ff_tap.connect('{13}', 14);
select ff_tap.finish(11, 'success', 'result of 11');
select results_eq(
    $$execute resolve(11, 12, null)$$, $$values ('satisfied', 'satisfied', true, false, false)$$,
    'without an outcome the upstream''s own end counts');
select is(
    ff_tap.error_of($$execute resolve(13, 14, null)$$) - 'fn',
    jsonb_build_object(
        'code', 'execution_not_terminal', 'execution_id', ff_tap.m(13), 'lifecycle_phase', 'runnable'),
    'an upstream that has not ended gives none');
select throws_ok(
    $$execute resolve(13, 14, '')$$, 'ZS013', 'execution_not_terminal', 'an empty outcome is none');
select ff_tap.setting('max_sync_edges', null);
delete from flowfabric.ff_dependency_outbox;

-- Data passing
select ff_tap.flow(12, 21, 'own');
select ff_tap.finish(21, 'success', 'result of 21');
select ff_tap.finish(22, 'success');
select ff_tap.setting('max_sync_edges', 0);
select ff_tap.join(23, 'any_of');
select ff_tap.connect('{21}', 23, 'ref');
select results_eq(
    $$execute resolve(21, 23, 'success')$$, $$values ('satisfied', 'satisfied', true, false, true)$$,
    'a reference passes the result on');
select is(ff_tap.payload(23), 'result of 21/text', 'with its encoding');
select ff_tap.join(24, 'any_of');
select ff_tap.connect('{21}', 24, '');
select results_eq(
    $$execute resolve(21, 24, 'success')$$, $$values ('satisfied', 'satisfied', true, false, false)$$,
    'an empty reference passes nothing');
select is(ff_tap.payload(24), 'own', 'and the child keeps its payload');
select ff_tap.join(25, 'any_of');
select ff_tap.connect('{22}', 25, 'ref');
select results_eq(
    $$execute resolve(22, 25, 'success')$$, $$values ('satisfied', 'satisfied', true, false, false)$$,
    'an upstream without a result passes nothing');
select is(ff_tap.payload(25), 'own', 'and the child keeps its payload');
select ff_tap.join(26, 'any_of');
select ff_tap.connect('{21}', 26, 'ref');
select ff_tap.finish(26, 'cancelled');
select results_eq(
    $$execute resolve(21, 26, 'success')$$, $$values ('satisfied', 'satisfied', false, false, false)$$,
    'a child that has ended is told nothing');
select is(ff_tap.states(26) || ' ' || ff_tap.payload(26), 'cancelled own', 'and gets nothing');
select ff_tap.setting('max_sync_edges', null);
delete from flowfabric.ff_dependency_outbox;

-- any_of and quorum: the words are about the join.
select ff_tap.flow(12, 41);
select ff_tap.join(46, 'quorum', 'let_run', 3);
select ff_tap.connect('{41, 42, 43, 44, 45}', 46);
select results_eq(
    $$execute resolve(41, 46, 'success')$$, $$values ('pending', 'pending', false, false, false)$$,
    'a counted edge leaves a quorum undecided');
select results_eq(
    $$execute resolve(42, 46, 'skipped')$$, $$values ('pending', 'pending', false, false, false)$$,
    'a skipped one too');
select ff_tap.freeze_time(3000);
select results_eq(
    $$execute resolve(43, 46, 'success')$$, $$values ('pending', 'pending', false, false, false)$$,
    'two of three are not enough');
select results_eq(
    $$execute resolve(44, 46, 'success')$$, $$values ('satisfied', 'satisfied', true, false, false)$$,
    'the third success satisfies it');
select ff_tap.freeze_time(4000);
select results_eq(
    $$execute resolve(45, 46, 'failed')$$, $$values ('already_fired', 'satisfied', false, false, false)$$,
    'whatever comes later is only counted');
select is(
    ff_tap.edge_group(46), 'quorum(3) of 5: 3 ok, 1 failed, 1 skipped, satisfied@3000', 'and the verdict stands');
select is(ff_tap.completions(ff_tap.m(46)), '{}', 'let_run touches nobody');
select is(ff_tap.states(41, 42, 43, 44, 45), 'waiting waiting waiting waiting waiting', 'not even those that lost');
select ff_tap.join(52, 'quorum', 'let_run', 3);
select ff_tap.connect('{47, 48, 49, 50, 51}', 52);
select flowfabric.ff_resolve_dependency(ff_tap.flow_id(), ff_tap.edge_id(n, 52), 'failed')
from generate_series(47, 48) as n;
select results_eq(
    $$execute resolve(49, 52, 'cancelled')$$, $$values ('impossible', 'impossible', false, true, false)$$,
    'the third loss of five makes a quorum of three impossible');
select results_eq(
    $$execute resolve(50, 52, 'success')$$, $$values ('already_fired', 'impossible', false, false, false)$$,
    'a later success does not help it');
select is(
    ff_tap.edge_group(52), 'quorum(3) of 5: 1 ok, 3 failed, 0 skipped, impossible@4000', 'it is counted');

-- A child that retention has taken away
select ff_tap.flow(2, 61);
select ff_tap.connect('{61}', 62);
delete from flowfabric.ff_exec_core as e where e.execution_id = ff_tap.eid(62);
select results_eq(
    $$execute resolve(61, 62, 'failed')$$, $$values ('impossible', 'impossible', false, false, false)$$,
    'without the child edge and join are resolved all the same');

-- Refusals
select ff_tap.stage(41, 42);
select ff_tap.everything() as before \gset
select throws_ok($$execute resolve(41, 42, 'success')$$, 'ZV013', 'invalid_dependency',
    'a staged edge is not resolved');
select is(
    ff_tap.error_of($$execute resolve(1, 5, 'success')$$) - 'fn',
    jsonb_build_object('code', 'invalid_dependency', 'edge_id', ff_tap.edge_id(1, 5)), 'an unknown one is refused');
select throws_ok(
    format('select flowfabric.ff_resolve_dependency(%L, %L)', gen_random_uuid(), ff_tap.edge_id(1, 3)), 'ZV013',
    'invalid_dependency', 'so is one of an unknown flow');
select is(
    ff_tap.error_of($$execute resolve(41, 42, 'none')$$) - array['fn', 'code'],
    '{"field": "upstream_outcome", "reason": "unknown", "value": "none"}', 'none is no outcome');
select throws_ok(
    $$execute resolve(41, 42, 'completed')$$, 'ZV001', 'invalid_input', 'and a state is none either');
select throws_ok(
    format('select flowfabric.ff_resolve_dependency(null, %L)', ff_tap.edge_id(1, 3)), 'ZV001', 'invalid_input',
    'a flow is required');
select throws_ok(
    format('select flowfabric.ff_resolve_dependency(%L, null)', ff_tap.flow_id()), 'ZV001', 'invalid_input',
    'an edge is required');
select is(ff_tap.everything(), :'before'::jsonb, 'no refusal writes anything');

select * from finish();
rollback;
