-- The wire form of an id.
begin;
\ir ../helpers.sql
select plan(4);

select is(
    flowfabric.ff_format_execution_id(86::smallint, '550E8400-E29B-41D4-A716-446655440000'),
    '{fp:86}:550e8400-e29b-41d4-a716-446655440000', 'the number has no leading zero and the uuid is lower case');
select is(
    flowfabric.ff_format_execution_id(0::smallint, '00000000-0000-0000-0000-000000000000'),
    '{fp:0}:00000000-0000-0000-0000-000000000000', 'zeros are written like anything else');
select is(
    (select count(*)
     from (select p.n::smallint as partition_key, gen_random_uuid() as execution_id
           from generate_series(0, 32767, 37) as p (n)) as k
     cross join lateral flowfabric.ff_parse_execution_id(
         flowfabric.ff_format_execution_id(k.partition_key, k.execution_id)) as parsed
     where (parsed.partition_key, parsed.execution_id) is distinct from (k.partition_key, k.execution_id)),
    0::bigint, 'parsing what was formatted gives the same key, on every partition');
select is(
    flowfabric.ff_format_execution_id(1::smallint, null), null, 'half a key has no wire form');

select * from finish();
rollback;
