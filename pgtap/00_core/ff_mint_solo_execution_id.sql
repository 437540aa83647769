-- Ids for executions without a flow.
begin;
\ir ../helpers.sql
select plan(12);

\set uuid '00000000-0000-4000-8000-000000000001'

select is(
    flowfabric.ff_mint_solo_execution_id('default', :'uuid'), '{fp:86}:' || :'uuid',
    'an execution lies on the partition of its lane');
select is(
    flowfabric.ff_mint_solo_execution_id('default', :'uuid'), flowfabric.ff_mint_solo_execution_id('default', :'uuid'),
    'the same lane and uuid give the same id');
select is(
    flowfabric.ff_mint_solo_execution_id('gpu', :'uuid'), '{fp:144}:' || :'uuid', 'another lane gives another id');
select matches(
    flowfabric.ff_mint_solo_execution_id('default'), '^\{fp:86\}:[0-9a-f]{8}-[0-9a-f]{4}-4',
    'without a uuid a random one is minted');
select isnt(
    flowfabric.ff_mint_solo_execution_id('default'), flowfabric.ff_mint_solo_execution_id('default'),
    'and another one each time');

-- 400 draws that all fall on fewer than 100 of 256 partitions have a chance below 10^-100.
create temporary table spread on commit drop as
select (flowfabric.ff_parse_execution_id(
    flowfabric.ff_mint_solo_execution_id('default', p_spread => true))).partition_key
from generate_series(1, 400);
select cmp_ok(
    (select count(distinct s.partition_key) from spread as s), '>=', 100::bigint,
    'with p_spread the partitions are random');
select is_empty('select from spread where partition_key not between 0 and 255', 'and within the configured count');
select is(
    flowfabric.ff_mint_solo_execution_id('default', :'uuid', null), '{fp:86}:' || :'uuid',
    'a null for p_spread means no');

select flowfabric.ff_set_partition_count(1);
select is(
    flowfabric.ff_mint_solo_execution_id('default', :'uuid', true), '{fp:0}:' || :'uuid',
    'with one partition there is nothing to spread over');

select throws_ok(
    'select flowfabric.ff_mint_solo_execution_id(null)', 'ZV001', 'invalid_input', 'an execution needs a lane');
select throws_ok(
    $$ select flowfabric.ff_mint_solo_execution_id('größe') $$, 'ZV001', 'invalid_input',
    'a lane is printable ASCII');
select is(
    ff_tap.error_of($$ select flowfabric.ff_mint_solo_execution_id('') $$) - 'code' - 'value',
    '{"fn": "ff_mint_solo_execution_id", "field": "lane_id", "reason": "empty"}', 'the refusal names the field');

select * from finish();
rollback;
