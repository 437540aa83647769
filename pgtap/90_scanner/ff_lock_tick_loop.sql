-- The lock of the loop: for operators, again and again within a transaction; tests/scanner has two sessions.
begin;
\ir ../helpers.sql
select plan(5);

select is(flowfabric.ff_lock_tick_loop(), true, 'the first transaction that asks gets the loop');
select is(flowfabric.ff_lock_tick_loop(), true, 'and gets it again');
select is_empty(
    'select l.singleton_lock from flowfabric.ff_tick_loop_lock as l', 'the table that is locked has no rows');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_operator', 'select flowfabric.ff_lock_tick_loop()')$$, 'an operator may ask');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_lock_tick_loop()')$$, '42501', null,
    'a worker may not');

select * from finish();
rollback;
