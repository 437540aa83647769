-- The partition of a flow: the hash, bit by bit, and its reduction.
begin;
\ir ../helpers.sql
select plan(23);

-- The vectors of the specification.
create temporary table vector (flow_id uuid, crc integer) on commit drop;
insert into vector values
    ('00000000-0000-0000-0000-000000000000', 0),
    ('550e8400-e29b-41d4-a716-446655440000', 36888),
    ('ffffffff-ffff-ffff-ffff-ffffffffffff', 65),
    ('11111111-1111-1111-1111-111111111111', 20486),
    ('01234567-89ab-cdef-0123-456789abcdef', 58757),
    ('5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a', 49186),
    ('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 62285);

select is(flowfabric._ff_crc16('123456789'), 12739, 'the check value of CRC-16/XMODEM is 0x31C3');
select is(flowfabric._ff_crc16(''), 0, 'nothing has the hash 0');
select is(flowfabric._ff_crc16(null), null, 'no input has no hash');
select is(
    (select max(flowfabric._ff_crc16(decode(lpad(to_hex(b.n), 2, '0') || 'ff', 'hex'))) <= 65535
        and min(flowfabric._ff_crc16(decode(lpad(to_hex(b.n), 2, '0') || 'ff', 'hex'))) >= 0
     from generate_series(0, 255) as b (n)), true, 'the hash stays within 16 bits');

select is(flowfabric._ff_crc16(uuid_send(v.flow_id)), v.crc, 'the hash of ' || v.flow_id || ' is ' || v.crc)
from vector as v;
select is(
    flowfabric.ff_flow_partition(v.flow_id), (v.crc % 256)::smallint,
    v.flow_id || ' lies on partition ' || v.crc % 256 || ' of 256')
from vector as v;

select is(
    flowfabric.ff_flow_partition('11111111-1111-4111-8111-111111111111'), 191::smallint,
    'a flow id of version 4 is hashed like any other');

select flowfabric.ff_set_partition_count(32);
select results_eq(
    'select flowfabric.ff_flow_partition(v.flow_id) from vector as v order by v.flow_id',
    'select (v.crc % 32)::smallint from vector as v order by v.flow_id',
    'with 32 partitions the same hashes are reduced to 32');
select flowfabric.ff_set_partition_count(1);
select is(
    (select max(flowfabric.ff_flow_partition(v.flow_id)) from vector as v), 0::smallint,
    'with one partition everything lies on partition 0');

select throws_ok(
    'select flowfabric.ff_flow_partition(null)', 'ZV001', 'invalid_input', 'no flow has no partition');
select is(
    ff_tap.error_of('select flowfabric.ff_flow_partition(null)') - 'code',
    '{"fn": "ff_flow_partition", "field": "flow_id", "reason": "null"}', 'the refusal names the field');

select * from finish();
rollback;
