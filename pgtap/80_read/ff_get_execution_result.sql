-- The result: exact bytes, and gone after a replay.
begin;
\ir ../helpers.sql
select plan(7);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set void '{fp:86}:00000000-0000-4000-8000-000000000002'
prepare result (text) as select r.* from flowfabric.ff_get_execution_result($1) as r;
select is_empty(format('execute result(%L)', :'execution'), 'an unknown execution gives no row');
select throws_ok('execute result('''')', 'ZV001', 'invalid_input', 'a malformed id is refused');
select ff_tap.leased_execution(:'execution');
select results_eq(
    format('execute result(%L)', :'execution'), 'values (null::bytea, null::text)', 'before completion it is NULL');
select flowfabric.ff_complete_execution(
    :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), '\x7b00ff', 'cbor');
select results_eq(
    format('execute result(%L)', :'execution'), 'values (''\x7b00ff''::bytea, ''cbor'')', 'the bytes are exact');
select flowfabric.ff_replay_execution(:'execution', p_force => true);
select results_eq(
    format('execute result(%L)', :'execution'), 'values (null::bytea, null::text)', 'a replay clears it');
select ff_tap.leased_execution(:'void');
select flowfabric.ff_complete_execution(:'void', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select results_eq(
    format('execute result(%L)', :'void'), 'values (null::bytea, null::text)', 'a void completion has none');
select ff_tap.leased_execution('{fp:86}:00000000-0000-4000-8000-000000000003');
select flowfabric.ff_complete_execution(
    '{fp:86}:00000000-0000-4000-8000-000000000003', ff_tap.lease_id(), 1, ff_tap.attempt_id(), '');
select results_eq(
    'execute result(''{fp:86}:00000000-0000-4000-8000-000000000003'')', 'values (null::bytea, null::text)',
    'an empty result is none');
select * from finish();
rollback;
