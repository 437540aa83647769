-- The number of partitions: chosen before anything is stored, and fixed from then on.
begin;
\ir ../helpers.sql
select plan(17);

prepare set_count (integer) as select outcome from flowfabric.ff_set_partition_count($1);
create function pg_temp.configured() returns integer language sql
as $$ select num_flow_partitions from flowfabric.ff_partition_config $$;

select is(pg_temp.configured(), 256, 'there are 256 partitions by default');
select results_eq('execute set_count(256)', $$ values ('unchanged') $$, 'the count in force is left unchanged');
select results_eq('execute set_count(32767)', $$ values ('changed') $$, '32767 partitions are possible');
select results_eq('execute set_count(1)', $$ values ('changed') $$, 'one partition is possible');
select is(pg_temp.configured(), 1, 'the count is stored');
select flowfabric.ff_register_lane('lane');
select results_eq('execute set_count(100)', $$ values ('changed') $$, 'lanes are no obstacle');
select is(
    (select array_agg(l.home_partition = flowfabric.ff_solo_partition(l.lane_id)) from flowfabric.ff_lane_registry as l),
    '{t}', 'they move with it');
select flowfabric.ff_set_partition_count(1);

select throws_ok('execute set_count(0)', 'ZV001', 'invalid_input', 'no partition is refused');
select throws_ok('execute set_count(-1)', 'ZV001', 'invalid_input', 'fewer than none are refused');
select throws_ok('execute set_count(32768)', 'ZV001', 'invalid_input', 'one more than 32767 is refused');
select throws_ok('execute set_count(null)', 'ZV001', 'invalid_input', 'a missing number is refused');
select is(
    ff_tap.error_of('execute set_count(32768)') - 'code',
    '{"fn": "ff_set_partition_count", "field": "n", "reason": "out_of_range", "value": "32768"}',
    'the refusal names the number');

savepoint nothing_stored;
select ff_tap.execution('{fp:0}:00000000-0000-4000-8000-000000000001');
select throws_ok(
    'execute set_count(256)', 'ZU004', 'partition_config_mismatch', 'with an execution stored the count is fixed');
select is(
    ff_tap.error_of('execute set_count(256)') - 'code',
    '{"fn": "ff_set_partition_count", "configured": 1, "expected": 256}', 'the refusal names both counts');
select results_eq('execute set_count(1)', $$ values ('unchanged') $$, 'the count in force is still unchanged');
rollback to savepoint nothing_stored;

insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
values (0, gen_random_uuid(), 'test', 'default', 'open', 0, 0);
select throws_ok(
    'execute set_count(256)', 'ZU004', 'partition_config_mismatch', 'with a flow stored the count is fixed');
select is(pg_temp.configured(), 1, 'a refusal leaves the count as it was');

select * from finish();
rollback;
