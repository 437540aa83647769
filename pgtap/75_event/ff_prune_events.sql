-- Pruning: old events go in the order in which they are read, and nothing below the pruned position is left.
begin;
\ir helpers.sql
select plan(41);

prepare prune (integer) as select s.* from flowfabric.ff_prune_events($1) as s;
create function ff_tap.left_over()
returns bigint[]
language sql stable
as $$
    select coalesce(array_agg(v.event_id order by v.epoch, v.xact_id, v.event_id), '{}')
    from flowfabric.ff_completion_event as v
$$;
create function ff_tap.pruned(p_stream text default 'completion')
returns text
language sql stable
as $$
    select concat_ws(':', s.pruned_epoch, s.pruned_xact_id, s.pruned_event_id)
    from flowfabric.ff_event_stream as s
    where s.stream = p_stream
$$;

select ff_tap.freeze_time(604800000 + 1000);
select results_eq(
    'select s.* from flowfabric.ff_prune_events() as s', 'values (0, 0, 0, false)', 'without events nothing happens');
select is(ff_tap.pruned(), '0:0:0', 'and nothing is pruned');

-- The window
select ff_tap.completion(10, 5, p_occurred_at_ms => 999);
select ff_tap.completion(10, 7, p_occurred_at_ms => 1000);
select ff_tap.completion(11, 6, p_occurred_at_ms => 500);
select results_eq('execute prune(100)', 'values (1, 0, 0, false)', 'an event is kept for 7 days');
select is(ff_tap.left_over(), array[7, 6]::bigint[], 'one that is too young protects what is read after it');
select is(ff_tap.pruned(), '1:10:5', 'the pruned position is that of the last event that went');
select ff_tap.freeze_time(604800000 + 1001);
select results_eq('execute prune(100)', 'values (2, 0, 0, false)', 'at the instant itself it is still kept, and then not');
select is(ff_tap.left_over(), '{}'::bigint[], 'and what it protected goes too');
select is(ff_tap.pruned(), '1:11:6', 'together');
select results_eq('execute prune(100)', 'values (0, 0, 0, false)', 'a repeat finds nothing');
select is(ff_tap.pruned(), '1:11:6', 'and does not move the position');
select throws_ok(
    $$ select flowfabric.ff_read_events('completion', 'v1:1:11:5') $$, 'ZS035', 'event_cursor_expired',
    'a reader that has not come that far is told');
select lives_ok(
    $$ select flowfabric.ff_read_events('completion', 'v1:1:11:6') $$, 'one that has just come that far is not');

-- Batches
select ff_tap.completion(20 + i, 100 + i, p_occurred_at_ms => 1) from generate_series(1, 5) as i;
select results_eq('execute prune(2)', 'values (2, 0, 0, true)', 'a full batch says that there may be more');
select is(ff_tap.left_over(), array[103, 104, 105]::bigint[], 'the first go first');
select is(ff_tap.pruned(), '1:22:102', 'as far as the batch went');
select results_eq('execute prune(100)', 'values (3, 0, 0, false)', 'the rest comes with the next call');

-- Dates of a clock that was ahead
select ff_tap.completion(26, 110, p_occurred_at_ms => 9000000000);
select ff_tap.completion(26, 111, p_occurred_at_ms => 1);
select ff_tap.completion(27, 112, p_occurred_at_ms => 9000000000);
select ff_tap.completion(27, 113, p_occurred_at_ms => 604800000);
select ff_tap.completion(27, 114, p_occurred_at_ms => 1);
select results_eq('execute prune(100)', 'values (2, 0, 0, false)', 'an event of the future goes with what is behind it');
select is(ff_tap.left_over(), array[112, 113, 114]::bigint[], 'but not before an event that is too young');
select is(ff_tap.pruned(), '1:26:111', 'up to the last that has expired');
select ff_tap.freeze_time(2 * 604800000::bigint + 1);
select results_eq('execute prune(1)', 'values (1, 0, 0, true)', 'a batch of nothing else looks at what comes next');
select results_eq('execute prune(100)', 'values (2, 0, 0, false)', 'and the rest follows');
select ff_tap.completion(28, 115, p_occurred_at_ms => 9000000000);
select results_eq('execute prune(1)', 'values (0, 0, 0, false)', 'with nothing behind it an event of the future stays');
select ff_tap.completion(28, 116, p_occurred_at_ms => 604800001);
select results_eq('execute prune(1)', 'values (0, 0, 0, false)', 'and with something young behind it');
select ff_tap.freeze_time(2 * 604800000::bigint + 2);
select results_eq('execute prune(1)', 'values (1, 0, 0, true)', 'until that has expired');
select results_eq('execute prune(100)', 'values (1, 0, 0, false)', 'with it');
select ff_tap.freeze_time(604800000 + 1001);

-- Epochs
select ff_tap.completion(30, 200, p_occurred_at_ms => 1);
select ff_tap.completion(5, 201, p_occurred_at_ms => 1, p_epoch => 2);
update flowfabric.ff_partition_config as c set event_epoch = 2;
select results_eq('execute prune(100)', 'values (2, 0, 0, false)', 'an older epoch goes before a newer one');
select is(ff_tap.pruned(), '2:5:201', 'and the position is in the newer');

-- The horizon
select ff_tap.leased_execution(ff_tap.id(1));
select flowfabric.ff_complete_execution(ff_tap.id(1), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(10 * 604800000::bigint);
select results_eq('execute prune(100)', 'values (0, 0, 0, false)', 'what is not readable yet is not pruned, however old');

-- Each stream has its own window and shares the limit
insert into flowfabric.ff_lease_event (epoch, xact_id, event_id, partition_key, occurred_at_ms, execution_id, event_type)
select 1, '30', i, 86, 1000, right(ff_tap.id(1), 36)::uuid, 'acquired' from generate_series(1, 3) as i;
insert into flowfabric.ff_signal_event (
    epoch, xact_id, event_id, partition_key, occurred_at_ms, execution_id, signal_id, waitpoint_id, effect)
values (1, '30', 4, 86, 1000, right(ff_tap.id(1), 36)::uuid, gen_random_uuid(), gen_random_uuid(), 'x');
insert into flowfabric.ff_operator_event (epoch, xact_id, event_id, partition_key, occurred_at_ms, event_type)
values (1, '30', 5, 86, 1000, 'lane_state_changed');
insert into flowfabric.ff_worker_registry_event (epoch, xact_id, event_id, occurred_at_ms, worker_instance_id, event_kind)
values (1, '30', 6, 1000, 'w', 'registered');
select flowfabric.ff_set_setting('event_retention_worker_ms', 31536000000000);
select flowfabric.ff_set_setting('event_retention_operator_ms', 0);
select results_eq('execute prune(2)', 'values (2, 0, 0, true)', 'the limit is that of all streams together');
select is(ff_tap.pruned('lease'), '1:30:2', 'the stream that is least far begins');
select results_eq('execute prune(3)', 'values (3, 0, 0, true)', 'then come the others');
select results_eq('execute prune(100)', 'values (0, 0, 0, false)', 'until nothing is left');
select is(
    array[ff_tap.pruned('lease'), ff_tap.pruned('signal'), ff_tap.pruned('operator'), ff_tap.pruned('worker')],
    array['1:30:3', '1:30:4', '1:30:5', '0:0:0'], 'what is kept for ever is kept');
select is((select count(*) from flowfabric.ff_worker_registry_event), 1::bigint, 'as it was');

-- One stream that fails
select flowfabric.ff_set_setting('event_retention_worker_ms', null);
insert into flowfabric.ff_signal_event (
    epoch, xact_id, event_id, partition_key, occurred_at_ms, execution_id, signal_id, waitpoint_id, effect)
values (1, '31', 7, 86, 1000, right(ff_tap.id(1), 36)::uuid, gen_random_uuid(), gen_random_uuid(), 'x');
create function ff_tap.refuse()
returns trigger
language plpgsql
as $$ begin raise exception 'poisoned'; end $$;
create trigger poison before delete on flowfabric.ff_worker_registry_event
for each row execute function ff_tap.refuse();
select results_eq('execute prune(100)', 'values (1, 0, 1, false)', 'a stream that fails does not stop the others');
select is(
    (select row(f.item_key, f.failures, f.last_error)::text from flowfabric.ff_scanner_failure as f),
    '(worker,1,"P0001 poisoned")', 'and is remembered');
execute prune(100);
execute prune(100);
select results_eq('execute prune(100)', 'values (0, 0, 0, false)', 'after its third failure it is left out for a while');

select throws_ok('execute prune(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute prune(10001)', 'ZV001', 'invalid_input', 'and at most 10000');
select is(
    ff_tap.error_of('execute prune(null)'),
    '{"code": "invalid_input", "fn": "ff_prune_events", "field": "limit", "reason": "null"}', 'a limit is required');
select is(current_setting('enable_seqscan') || current_setting('lock_timeout'), 'on0', 'the caller keeps its own settings');

select * from finish();
rollback;
