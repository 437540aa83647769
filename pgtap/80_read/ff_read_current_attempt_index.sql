-- ff_read_current_attempt_index: a diagnostic number.
begin;
\ir ../helpers.sql
select plan(5);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select throws_ok(
    format('select flowfabric.ff_read_current_attempt_index(%L)', :'execution'),
    'ZN001', 'execution_not_found', 'an unknown execution is refused');
select throws_ok('select flowfabric.ff_read_current_attempt_index(null)', 'ZV001', 'invalid_input', 'a missing id is refused');
select ff_tap.execution(:'execution');
select is(flowfabric.ff_read_current_attempt_index(:'execution'), 0, 'before the first claim it is 0');
select flowfabric.ff_issue_grant_and_claim(
    :'execution', 30000, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
select is(flowfabric.ff_read_current_attempt_index(:'execution'), 0, 'in the first attempt it is 0');
select flowfabric.ff_complete_execution(:'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select flowfabric.ff_replay_execution(:'execution', p_force => true);
select flowfabric.ff_issue_grant_and_claim(:'execution', 30000);
select is(flowfabric.ff_read_current_attempt_index(:'execution'), 1, 'in the second attempt it is 1');
select * from finish();
rollback;
