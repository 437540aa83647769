-- Sweeping: processes whose heartbeats stopped leave with an event each; forgotten waiters go too.
begin;
\ir ../helpers.sql
select plan(26);

prepare sweep (integer) as select s.* from flowfabric.ff_sweep_workers($1) as s;
create temporary view worker as
select w.worker_instance_id::text collate "default" as id from flowfabric.ff_worker_registry as w order by 1;
create temporary view swept as
select concat_ws(' ', v.namespace, v.worker_instance_id, v.worker_id, v.occurred_at_ms) collate "default" as event
from flowfabric.ff_worker_registry_event as v
where v.event_kind = 'ttl_swept'
order by v.event_id;

select ff_tap.freeze_time(1000);
select results_eq(
    'select s.* from flowfabric.ff_sweep_workers() as s', 'values (0, 0, 0, false)', 'without workers nothing happens');
select flowfabric.ff_register_worker('pool', 'w-' || i::text, p_namespace => 'tenant', p_liveness_ttl_ms => 100 * i)
from generate_series(1, 5) as i;

select ff_tap.freeze_time(1099);
select results_eq('execute sweep(500)', 'values (0, 0, 0, false)', 'a live process stays');
select ff_tap.freeze_time(1100);
select results_eq('execute sweep(500)', 'values (1, 0, 0, false)', 'at the instant its time runs out it is swept');
select results_eq('table worker', $$values ('w-2'), ('w-3'), ('w-4'), ('w-5')$$, 'only it');
select results_eq('table swept', $$values ('tenant w-1 pool 1100')$$, 'an event says so');
select results_eq('execute sweep(500)', 'values (0, 0, 0, false)', 'a repeat finds nothing');
select ff_tap.freeze_time(1450);
select flowfabric.ff_heartbeat_worker('w-5', 'tenant');
select results_eq('execute sweep(2)', 'values (2, 0, 0, true)', 'a full batch says that there may be more');
select results_eq('table worker', $$values ('w-4'), ('w-5')$$, 'the longest lapsed go first');
select ff_tap.freeze_time(1500);
select results_eq('execute sweep(2)', 'values (1, 0, 0, false)', 'then the others');
select results_eq('table worker', $$values ('w-5')$$, 'a heartbeat keeps a process');
select is((select count(*) from swept), 4::bigint, 'each process is swept once');

-- Waiters
insert into flowfabric.ff_waiter (channel, key, waiter_id, until_ms)
values ('ff_eligible', 'default', 'w-old', 1000), ('ff_eligible', 'default', 'w-new', 1001);
select ff_tap.freeze_time(61000);
select flowfabric.ff_sweep_workers();
select is((select count(*) from flowfabric.ff_waiter), 2::bigint, 'a waiter is kept for 60 seconds after its time');
select ff_tap.freeze_time(61001);
select results_eq('execute sweep(500)', 'values (1, 0, 0, false)', 'then it goes and is counted');
select results_eq(
    'select w.waiter_id collate "default" from flowfabric.ff_waiter as w', $$values ('w-new')$$, 'one by one');
delete from flowfabric.ff_waiter;
insert into flowfabric.ff_waiter (channel, key, waiter_id, until_ms)
select 'ff_eligible', 'default', 'w-' || i::text, 1000 from generate_series(1, 5) as i;
select results_eq('execute sweep(2)', 'values (2, 0, 0, true)', 'a full batch of waiters asks for another call');
select results_eq('execute sweep(2)', 'values (2, 0, 0, true)', 'and so does the next');
select results_eq('execute sweep(2)', 'values (1, 0, 0, false)', 'until none is left');
select is((select count(*) from flowfabric.ff_waiter), 0::bigint, 'all of them are gone');
insert into flowfabric.ff_waiter (channel, key, waiter_id, until_ms)
values ('ff_eligible', 'default', 'w-last', 61001 + 660000), ('ff_eligible', 'default', 'w-beyond', 61001 + 660001);
select results_eq('execute sweep(2)', 'values (1, 0, 0, false)', 'a waiter beyond the longest wait goes too');
select results_eq(
    'select w.waiter_id collate "default" from flowfabric.ff_waiter as w', $$values ('w-last')$$,
    'it was written before the clock went back');

-- The header of an event
select is(
    (select count(*) from flowfabric.ff_worker_registry_event as v
     where v.partition_key <> 0 or v.epoch <> (select c.event_epoch from flowfabric.ff_partition_config as c)),
     0::bigint,
    'events of workers belong to partition 0 and the present epoch');

select throws_ok('execute sweep(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute sweep(10001)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select is(
    ff_tap.error_of('execute sweep(null)'),
    '{"code": "invalid_input", "fn": "ff_sweep_workers", "field": "limit", "reason": "null"}', 'a limit is required');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');
select is(
    (select count(*) from swept), 5::bigint, 'and the last process was swept when its time came');

select * from finish();
rollback;
