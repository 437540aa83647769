-- The one label for users.
begin;
\ir ../helpers.sql
select plan(4);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select is(flowfabric.ff_read_execution_state(:'execution'), null, 'an unknown execution has no state');
select throws_ok(
    'select flowfabric.ff_read_execution_state('''')', 'ZV001', 'invalid_input', 'a malformed id is refused');
select ff_tap.execution(:'execution');
select is(flowfabric.ff_read_execution_state(:'execution'), 'waiting', 'a fresh execution is waiting');
select flowfabric.ff_cancel_execution(:'execution', '', 'operator_override');
select is(flowfabric.ff_read_execution_state(:'execution'), 'cancelled', 'a cancelled one is cancelled');
select * from finish();
rollback;
