-- A new epoch: everything written from now on is read after everything that was written before.
begin;
\ir helpers.sql
select plan(12);

select ff_tap.freeze_time(1000);
select is(flowfabric.ff_bump_event_epoch(), 2::smallint, 'the epoch after the first is the second');
select is(flowfabric.ff_bump_event_epoch(), 3::smallint, 'each call begins another');
select is((select c.event_epoch from flowfabric.ff_partition_config as c), 3::smallint, 'it is in force at once');
select ff_tap.leased_execution();
select is(
    (select array_agg(v.epoch) from flowfabric.ff_lease_event as v), array[3::smallint], 'events are written in it');
select is(
    flowfabric.ff_event_position('lease'), 'v1:3:' || ff_tap.horizon() || ':0', 'and cursors begin in it');
update flowfabric.ff_partition_config as c set event_epoch = 32767;
select throws_ok(
    'select flowfabric.ff_bump_event_epoch()', 'ZU001', 'unavailable', 'there is no epoch after the last');
select is(
    ff_tap.error_of('select flowfabric.ff_bump_event_epoch()'),
    '{"code": "unavailable", "fn": "ff_bump_event_epoch", "op": "ff_bump_event_epoch",
      "reason": "event_epochs_used_up"}',
    'which the refusal says');
select throws_ok(
    'select flowfabric.ff_bump_event_epoch(0)', 'ZV001', 'invalid_input', 'a wait is at least a millisecond');
select throws_ok(
    'select flowfabric.ff_bump_event_epoch(600001)', 'ZV001', 'invalid_input', 'and at most 10 minutes');
select is(
    ff_tap.error_of('select flowfabric.ff_bump_event_epoch(null)'),
    '{"code": "invalid_input", "fn": "ff_bump_event_epoch", "field": "wait_ms", "reason": "null"}', 'it is required');
update flowfabric.ff_partition_config as c set event_epoch = 7;
select is(flowfabric.ff_bump_event_epoch(600000), 8::smallint, 'a call that need not wait succeeds');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');

select * from finish();
rollback;
