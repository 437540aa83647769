-- Notifications by the tick: one for each channel and key that somebody waits for and that has news.
begin;
\ir helpers.sql
select plan(32);

-- How many notifications the next run sends.
create function ff_tap.sent()
returns integer
language sql volatile
as $$ select s.processed from flowfabric.ff_scan_event_notify() as s $$;
create function ff_tap.by_tick(p_group text)
returns void
language plpgsql volatile
as $$ begin perform flowfabric.ff_set_setting('notify_' || p_group, 2); end $$;

select ff_tap.freeze_time(1000);
select results_eq(
    'select s.* from flowfabric.ff_scan_event_notify() as s', 'values (0, 0, 0, false)',
    'without waiters nothing is sent');
select is_empty(
    'select c.channel
    from flowfabric._ff_channels() as c
    join flowfabric._ff_known_settings() as k on k.name = c.setting
    where k.default_value <> 1',
    'by default every channel is notified at once, and not by the tick');

-- Event streams
select ff_tap.completion(10, 5);
select flowfabric.ff_wait_for_events('a', '{completion,lease}', p_wait_ms => 1000);
select flowfabric.ff_wait_for_events('b', '{completion}', p_wait_ms => 1000);
select is(ff_tap.sent(), 0, 'a channel that operations notify is none of the tick''s business');
select flowfabric.ff_set_setting('notify_completion', 0);
select is(ff_tap.sent(), 0, 'nor is one that is switched off');
select ff_tap.by_tick('completion');
select is(ff_tap.sent(), 1, 'several waiters get one notification');
select is(
    (select s.notified_event_id from flowfabric.ff_event_stream as s where s.stream = 'completion'), 5::bigint,
    'which is remembered');
select is(ff_tap.sent(), 0, 'what was announced is not announced again');
select ff_tap.completion(11, 4);
select is(ff_tap.sent(), 1, 'a later transaction is news, even if its ids are lower');
select is(ff_tap.sent(), 0, 'once');
select ff_tap.leased_execution(ff_tap.id(1));
select flowfabric.ff_complete_execution(ff_tap.id(1), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.sent(), 0, 'what cannot be read yet is not announced');
update flowfabric.ff_partition_config as c set event_epoch = 2;
select is(ff_tap.sent(), 1, 'but as soon as it can');
update flowfabric.ff_partition_config as c set event_epoch = 1;
select ff_tap.by_tick('lease');
delete from flowfabric.ff_lease_event;
select is(ff_tap.sent(), 1, 'a stream without events has no news, whatever its neighbour has');
select ff_tap.sent();
delete from flowfabric.ff_completion_event;
select is(ff_tap.sent(), 0, 'pruned events are no news');
select ff_tap.completion(12, 6);
select ff_tap.freeze_time(2000);
select is(ff_tap.sent(), 0, 'a waiter whose time is over counts as absent');
select flowfabric.ff_wait_for_events('b', '{completion}', p_wait_ms => 1000);
select is(ff_tap.sent(), 1, 'news waits for the next one');

-- Lanes
select flowfabric.ff_set_setting('notify_completion', 1);
insert into flowfabric.ff_waiter (channel, key, waiter_id, until_ms)
values ('ff_eligible', 'default', 'w', 9000), ('ff_eligible', 'other', 'w', 9000);
select ff_tap.by_tick('eligible');
select is(ff_tap.sent(), 0, 'an empty lane has no news');
select ff_tap.execution(ff_tap.id(2));
select is(ff_tap.sent(), 1, 'a lane with work has, and no other');
select is(ff_tap.sent(), 1, 'as long as the work is there');
select ff_tap.execution(ff_tap.id(3), p_lane_id => 'other', p_delay_until_ms => 5000);
select is(ff_tap.sent(), 1, 'work that is not due is none');
select flowfabric.ff_set_setting('notify_eligible', 1);

-- Deferred work of flows
select flowfabric.ff_wait_for_events('d', '{dispatch}', p_wait_ms => 9000);
select ff_tap.by_tick('dispatch');
select is(ff_tap.sent(), 0, 'without deferred work there is nothing to dispatch');
insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
values (86, gen_random_uuid(), gen_random_uuid(), 'success', 1000);
select is(ff_tap.sent(), 1, 'an end that has to be passed on is');
delete from flowfabric.ff_dependency_outbox;
insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
values (86, gen_random_uuid(), gen_random_uuid(), 1000);
select is(ff_tap.sent(), 1, 'so are siblings to cancel');
delete from flowfabric.ff_pending_cancel_groups;
insert into flowfabric.ff_cancel_backlog (
    partition_key, flow_id, requested_at_ms, grace_until_ms, cancellation_policy, requester, reason)
values (86, gen_random_uuid(), 1000, 2001, 'cancel_all', '', '');
select is(ff_tap.sent(), 0, 'members to cancel are not, while their grace lasts');
select ff_tap.freeze_time(2001);
select is(ff_tap.sent(), 1, 'but at its end');
select flowfabric.ff_set_setting('notify_dispatch', 1);

-- Output streams
insert into flowfabric.ff_scanner (scanner, function_name, run_order, interval_ms, batch_limit, last_run_at_ms)
values ('event_notify', 'ff_scan_event_notify', 160, 250, 1, null)
on conflict (scanner) do update set last_run_at_ms = null;
select ff_tap.by_tick('stream');
select ff_tap.leased_execution(ff_tap.id(4));
select flowfabric.ff_wait_for_events(
    't', p_execution_id => ff_tap.id(4), p_attempt_index => 0, p_wait_ms => 9000);
select flowfabric.ff_wait_for_events(
    't', p_execution_id => ff_tap.id(4), p_attempt_index => 1, p_wait_ms => 9000);
select is(ff_tap.sent(), 0, 'a stream that was never written has no news');
select flowfabric.ff_append_frame(ff_tap.id(4), 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout', 'x');
select is(ff_tap.sent(), 1, 'a frame is news for its attempt');
update flowfabric.ff_scanner as s set last_run_at_ms = 2001 where s.scanner = 'event_notify';
select is(ff_tap.sent(), 1, 'also if it came within the millisecond of the last run');
update flowfabric.ff_scanner as s set last_run_at_ms = 2002 where s.scanner = 'event_notify';
select is(ff_tap.sent(), 0, 'but not before it');
select ff_tap.freeze_time(3000);
select flowfabric.ff_complete_execution(ff_tap.id(4), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.sent(), 1, 'the end of a stream is news too');
select ff_tap.leased_execution('{fp:255}:00000000-0000-4000-8000-000000000005');
select flowfabric.ff_append_frame(
    '{fp:255}:00000000-0000-4000-8000-000000000005', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout', 'x');
select flowfabric.ff_wait_for_events(
    't', p_execution_id => '{fp:255}:00000000-0000-4000-8000-000000000005', p_attempt_index => 0, p_wait_ms => 9000);
select is(ff_tap.sent(), 2, 'in whatever partition it is');

select results_eq(
    'select s.skipped, s.errors, s.more from flowfabric.ff_scan_event_notify() as s', 'values (0, 0, false)',
    'a run does everything there is to do');
select is(current_setting('enable_sort') || current_setting('lock_timeout'), 'on0', 'the caller keeps its own settings');

select * from finish();
rollback;
