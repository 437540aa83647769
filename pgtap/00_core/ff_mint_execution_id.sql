-- Ids for members of a flow.
begin;
\ir ../helpers.sql
select plan(8);

\set flow '550e8400-e29b-41d4-a716-446655440000'

select is(
    flowfabric.ff_mint_execution_id(:'flow', '00000000-0000-4000-8000-000000000001'),
    '{fp:24}:00000000-0000-4000-8000-000000000001', 'a member lies on the partition of its flow');
select is(
    flowfabric.ff_mint_execution_id(:'flow', '00000000-0000-4000-8000-000000000001'),
    flowfabric.ff_mint_execution_id(:'flow', '00000000-0000-4000-8000-000000000001'),
    'the same flow and uuid give the same id');
select is(
    flowfabric.ff_mint_execution_id(:'flow', '00000000-0000-0000-0000-000000000000'),
    '{fp:24}:00000000-0000-0000-0000-000000000000', 'a uuid of any version is accepted');
select matches(
    flowfabric.ff_mint_execution_id(:'flow'),
    '^\{fp:24\}:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
    'without a uuid a random one is minted');
select isnt(
    flowfabric.ff_mint_execution_id(:'flow'), flowfabric.ff_mint_execution_id(:'flow'),
    'and another one each time');

select flowfabric.ff_set_partition_count(16);
select is(
    flowfabric.ff_mint_execution_id(:'flow', '00000000-0000-4000-8000-000000000001'),
    '{fp:8}:00000000-0000-4000-8000-000000000001', 'with 16 partitions the id names another one');

select throws_ok(
    'select flowfabric.ff_mint_execution_id(null)', 'ZV001', 'invalid_input', 'a member needs a flow');
select is(
    ff_tap.error_of('select flowfabric.ff_mint_execution_id(null)') - 'code',
    '{"fn": "ff_mint_execution_id", "field": "flow_id", "reason": "null"}', 'the refusal names the field');

select * from finish();
rollback;
