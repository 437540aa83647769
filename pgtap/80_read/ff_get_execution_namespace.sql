-- The namespace of an execution.
begin;
\ir ../helpers.sql
select plan(3);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select is(flowfabric.ff_get_execution_namespace(:'execution'), null, 'an unknown execution has none');
select ff_tap.execution(:'execution', p_namespace => 'tenant-7');
select is(flowfabric.ff_get_execution_namespace(:'execution'), 'tenant-7', 'an execution has the one it was created in');
select throws_ok(
    'select flowfabric.ff_get_execution_namespace(null)', 'ZV001', 'invalid_input', 'a missing id is refused');
select * from finish();
rollback;
