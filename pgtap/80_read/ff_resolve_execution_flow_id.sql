-- The flow that an execution belongs to.
begin;
\ir ../helpers.sql
select plan(4);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select is(flowfabric.ff_resolve_execution_flow_id(:'execution'), null, 'an unknown execution has none');
select ff_tap.execution(:'execution');
select is(flowfabric.ff_resolve_execution_flow_id(:'execution'), null, 'a standalone execution has none');
update flowfabric.ff_exec_core set flow_id = '00000000-0000-4000-8000-0000000000f1';
select is(
    flowfabric.ff_resolve_execution_flow_id(:'execution'), '00000000-0000-4000-8000-0000000000f1'::uuid,
    'a member has its flow, as a bare uuid');
select throws_ok(
    'select flowfabric.ff_resolve_execution_flow_id('''')', 'ZV001', 'invalid_input', 'a malformed id is refused');
select * from finish();
rollback;
