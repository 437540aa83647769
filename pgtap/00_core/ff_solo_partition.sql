-- The partition of a lane's executions that belong to no flow.
begin;
\ir ../helpers.sql
select plan(20);

-- The vectors of the specification.
create temporary table vector (lane_id text, crc integer) on commit drop;
insert into vector values
    ('default', 54870),
    ('workers-a', 11969),
    ('workers-b', 7842),
    ('lane-0', 10892),
    ('gpu', 14480),
    ('a', 31879),
    ('high-priority', 22219);

select is(
    flowfabric.ff_solo_partition(v.lane_id), (v.crc % 256)::smallint,
    'lane ' || v.lane_id || ' lies on partition ' || v.crc % 256 || ' of 256')
from vector as v;
select flowfabric.ff_set_partition_count(32);
select results_eq(
    'select flowfabric.ff_solo_partition(v.lane_id) from vector as v order by v.lane_id',
    'select (v.crc % 32)::smallint from vector as v order by v.lane_id',
    'with 32 partitions the same hashes are reduced to 32');

-- The rules of a lane id, which every function with a lane shares.
select lives_ok(
    format('select flowfabric.ff_solo_partition(%L)', l.lane_id), l.what || ' is a lane')
from (values
    (' ', 'a space'), ('~', 'the last printable character'), (repeat('x', 64), 'a text of 64 bytes')
) as l (lane_id, what);
select is(
    ff_tap.error_of(format('select flowfabric.ff_solo_partition(%L)', l.lane_id)) ->> 'reason', l.reason,
    l.what || ' is refused as ' || l.reason)
from (values
    (null, 'null', 'no lane'),
    ('', 'empty', 'an empty lane'),
    (repeat('x', 65), 'too_long', 'a text of 65 bytes'),
    (repeat('é', 33), 'too_long', 'a text of 33 characters in 66 bytes'),
    ('größe', 'not_printable_ascii', 'a letter beyond ASCII'),
    (E'a\tb', 'not_printable_ascii', 'a tab'),
    (E'a\n', 'not_printable_ascii', 'a trailing line end')
) as l (lane_id, reason, what);
select throws_ok(
    $$ select flowfabric.ff_solo_partition(E'\x7f') $$, 'ZV001', 'invalid_input', 'DEL is no part of a lane');
select is(
    ff_tap.error_of($$ select flowfabric.ff_solo_partition('') $$),
    '{"code": "invalid_input", "fn": "ff_solo_partition", "field": "lane_id", "reason": "empty", "value": ""}',
    'the refusal names the field');

select * from finish();
rollback;
