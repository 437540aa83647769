-- Splitting a wire id: what is an id, and why something is not.
begin;
\ir ../helpers.sql
select plan(35);

prepare parse (text) as select partition_key, execution_id from flowfabric.ff_parse_execution_id($1);

select results_eq(
    $$ execute parse('{fp:86}:550e8400-e29b-41d4-a716-446655440000') $$,
    $$ values (86::smallint, '550e8400-e29b-41d4-a716-446655440000'::uuid) $$,
    'a wire id is a partition number and a uuid');
select results_eq(
    $$ execute parse('{fp:0}:00000000-0000-0000-0000-000000000000') $$,
    $$ values (0::smallint, '00000000-0000-0000-0000-000000000000'::uuid) $$,
    'partition 0 and the nil uuid are an id');
select results_eq(
    $$ execute parse('{fp:32767}:ffffffff-ffff-ffff-ffff-ffffffffffff') $$,
    $$ values (32767::smallint, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) $$,
    'the partition goes up to 32767, whatever count is configured');
select results_eq(
    $$ execute parse('{fp:7}:550E8400-E29B-41D4-A716-44665544000A') $$,
    $$ values (7::smallint, '550e8400-e29b-41d4-a716-44665544000a'::uuid) $$,
    'hex digits may be upper case');
select is(
    (select flowfabric.ff_format_execution_id(k.partition_key, k.execution_id)
     from flowfabric.ff_parse_execution_id('{fp:7}:550E8400-E29B-41D4-A716-44665544000A') as k),
    '{fp:7}:550e8400-e29b-41d4-a716-44665544000a', 'and are lower case in the wire form');

create temporary table malformed (given text, reason text, why text) on commit drop;
insert into malformed values
    (null, 'null', 'no id at all'),
    ('', 'missing_tag', 'an empty text'),
    ('x', 'missing_tag', 'a short text'),
    ('550e8400-e29b-41d4-a716-446655440000', 'missing_tag', 'a bare uuid'),
    ('fp:86:550e8400-e29b-41d4-a716-446655440000', 'missing_tag', 'a tag without braces'),
    ('{fp:86}550e8400-e29b-41d4-a716-446655440000', 'missing_tag', 'a tag without its colon'),
    (' {fp:86}:550e8400-e29b-41d4-a716-446655440000', 'missing_tag', 'a leading space'),
    ('{FP:86}:550e8400-e29b-41d4-a716-446655440000', 'missing_tag', 'an upper-case tag'),
    ('{b:86}:550e8400-e29b-41d4-a716-446655440000', 'missing_tag', 'another kind of tag'),
    ('{fp:}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'no partition number'),
    ('{fp:-1}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'a negative partition'),
    ('{fp:+1}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'a partition with a sign'),
    ('{fp:01}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'a leading zero'),
    ('{fp:00}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'two zeros'),
    ('{fp: 1}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'a space before the number'),
    ('{fp:1e2}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'a number in another notation'),
    ('{fp:٣}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'a digit of another script'),
    ('{fp:32768}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'one partition too many'),
    ('{fp:99999}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition', 'a partition far out of range'),
    ('{fp:' || repeat('9', 1000) || '}:550e8400-e29b-41d4-a716-446655440000', 'bad_partition',
        'a number of 1000 digits'),
    ('{fp:86}:', 'bad_uuid', 'no uuid'),
    ('{fp:86}:550e8400e29b41d4a716446655440000', 'bad_uuid', 'a uuid without hyphens'),
    ('{fp:86}:{550e8400-e29b-41d4-a716-446655440000}', 'bad_uuid', 'a uuid in braces'),
    ('{fp:86}:550e8400-e29b-41d4-a716-44665544000', 'bad_uuid', 'a uuid that is too short'),
    ('{fp:86}:550e8400-e29b-41d4-a716-4466554400000', 'bad_uuid', 'a uuid that is too long'),
    ('{fp:86}:550e8400-e29b-41d4-a716-44665544000g', 'bad_uuid', 'a digit that is not hex'),
    ('{fp:86}:550e-8400e29b-41d4-a716-446655440000', 'bad_uuid', 'hyphens in other places'),
    (E'{fp:86}:550e8400-e29b-41d4-a716-446655440000\n', 'bad_uuid', 'a trailing line end');

select is(
    ff_tap.error_of(format('select flowfabric.ff_parse_execution_id(%L)', m.given)) ->> 'reason', m.reason,
    m.why || ' is refused as ' || m.reason)
from malformed as m;

select throws_ok(
    $$ execute parse('x') $$, 'ZV001', 'invalid_input', 'a malformed id is invalid_input');
select is(
    ff_tap.error_of($$ select flowfabric.ff_parse_execution_id(repeat('x', 5000)) $$),
    jsonb_build_object(
        'code', 'invalid_input', 'fn', 'ff_parse_execution_id', 'field', 'execution_id', 'reason', 'missing_tag',
        'value', repeat('x', 200)),
    'the refusal names the field and shows the first 200 characters');

select * from finish();
rollback;
