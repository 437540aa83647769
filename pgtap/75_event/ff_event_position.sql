-- Where to begin: before everything that is left, or now.
begin;
\ir helpers.sql
select plan(10);

select is(flowfabric.ff_event_position('lease', 'start'), 'v1:0:0:0', 'the start is before every event');
select is(
    flowfabric.ff_event_position('lease', 'tail'), 'v1:1:' || ff_tap.horizon() || ':0',
    'the tail is where the oldest running transaction stands');
select is(
    flowfabric.ff_event_position('lease'), flowfabric.ff_event_position('lease', 'tail'), 'the tail is the default');
select lives_ok(
    format('select flowfabric.ff_event_position(%L)', s.stream), format('%s is a stream', s.stream))
from unnest(array['completion', 'signal', 'operator', 'worker']) as s (stream);
update flowfabric.ff_partition_config as c set event_epoch = 7;
select is(
    flowfabric.ff_event_position('worker'), 'v1:7:' || ff_tap.horizon() || ':0', 'the tail is in the current epoch');
select is(
    ff_tap.error_of('select flowfabric.ff_event_position(''dispatch'')'),
    '{"code": "invalid_input", "fn": "ff_event_position", "field": "stream", "reason": "unknown", "value": "dispatch"}',
    'an unknown stream is refused');
select is(
    array[
        ff_tap.error_of('select flowfabric.ff_event_position(null)') ->> 'reason',
        ff_tap.error_of('select flowfabric.ff_event_position(''lease'', null)') ->> 'reason',
        ff_tap.error_of('select flowfabric.ff_event_position(''lease'', ''end'')') ->> 'field'],
    array['null', 'null', 'where'], 'so are an unknown place and NULL');

select * from finish();
rollback;
