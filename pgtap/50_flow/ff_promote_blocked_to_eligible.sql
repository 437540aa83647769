-- Letting an execution go that waits for dependencies of which none is open.
begin;
\ir helpers.sql
select plan(20);

prepare promote (integer) as select p.* from flowfabric.ff_promote_blocked_to_eligible(ff_tap.m($1)) as p;

-- As it was before ff_move_to_waiting_children looked at the join itself.
create function ff_tap.block(p_number integer)
returns void
language sql volatile
as $$
    select flowfabric._ff_become_blocked(
        e, 'blocked_by_dependencies', 'waiting_for_children', null, e.attempt_state, null, flowfabric.ff_now_ms())
    from ff_tap.core(ff_tap.m(p_number)) as e
$$;

select ff_tap.freeze_time(1000);
select ff_tap.flow(8);
select ff_tap.block(1);
select ff_tap.freeze_time(2000);
select results_eq(
    'execute promote(1)', $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$,
    'without dependencies it is let go');
select is(
    ff_tap.vector(ff_tap.m(1)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'and can be claimed');
select is((ff_tap.core(ff_tap.m(1))).last_transition_at_ms, 2000::bigint, 'from now on');
select throws_ok('execute promote(1)', 'ZS021', 'not_blocked_by_deps', 'a repeat finds it gone');
select is(
    ff_tap.error_of('execute promote(1)') - 'fn',
    jsonb_build_object('code', 'not_blocked_by_deps', 'execution_id', ff_tap.m(1), 'eligibility_state', 'eligible_now'),
    'with its state');

select ff_tap.connect('{2, 3}', 4);
select throws_ok('execute promote(4)', 'ZS020', 'deps_not_satisfied', 'an open join holds it');
select ff_tap.finish(2);
select is(
    ff_tap.error_of('execute promote(4)') - 'fn',
    jsonb_build_object(
        'code', 'deps_not_satisfied', 'execution_id', ff_tap.m(4), 'unsatisfied', 1, 'unresolved', 1),
    'and the detail says how many edges are open');
select ff_tap.finish(3);
select ff_tap.block(4);
select results_eq(
    'execute promote(4)', $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$, 'a satisfied one does not');
select ff_tap.join(5, 'any_of');
select ff_tap.block(5);
select results_eq(
    'execute promote(5)', $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$,
    'nor does one without edges');

-- An attempt that was paused goes on.
select ff_tap.claim(6);
select flowfabric.ff_move_to_waiting_children(ff_tap.m(6), p_source => 'operator_override');
select ff_tap.block(6);
select results_eq(
    'execute promote(6)', $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$, 'a paused one is let go');
select is(
    ff_tap.vector(ff_tap.m(6)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / attempt_interrupted -> waiting',
    'and its attempt goes on');

-- A delay that is still running
select ff_tap.execution(ff_tap.m(20), p_delay_until_ms => 3000);
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(20));
select ff_tap.block(20);
select results_eq(
    'execute promote(20)', $$values ('promoted', 'delayed'::flowfabric.ff_public_state)$$, 'a delay is kept');
select is(
    (select row(e.eligibility_state, e.blocking_reason, e.blocking_detail, e.delay_until_ms)
     from ff_tap.core(ff_tap.m(20)) as e),
    row(
        'not_eligible_until_time'::flowfabric.ff_eligibility_state,
        'waiting_for_delay'::flowfabric.ff_blocking_reason, 'until=3000'::text, 3000::bigint),
    'it is delayed until then');
select ff_tap.freeze_time(3000);
select ff_tap.block(20);
select results_eq(
    'execute promote(20)', $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$,
    'a delay is over at its instant');

-- The other states
select ff_tap.claim(7);
select throws_ok('execute promote(7)', 'ZS022', 'not_runnable', 'one that runs is refused');
select ff_tap.finish(7);
select is(
    ff_tap.error_of('execute promote(7)') - 'fn',
    jsonb_build_object('code', 'not_runnable', 'execution_id', ff_tap.m(7), 'lifecycle_phase', 'terminal'),
    'one that has ended too, with its phase');
select throws_ok('execute promote(8)', 'ZS021', 'not_blocked_by_deps', 'one that waits for a worker too');
select throws_ok('execute promote(404)', 'ZN001', 'execution_not_found', 'an unknown one is not found');
select throws_ok(
    $$select flowfabric.ff_promote_blocked_to_eligible('x')$$, 'ZV001', 'invalid_input',
    'a text that is no id is refused');
select ff_tap.execution(ff_tap.m(30));
select ff_tap.block(30);
select results_eq(
    'execute promote(30)', $$values ('promoted', 'waiting'::flowfabric.ff_public_state)$$,
    'an execution without a flow can be let go too');

select * from finish();
rollback;
