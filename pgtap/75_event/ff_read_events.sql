-- Reading events: their order, paging, filters, the horizon, and what becomes of an old cursor.
begin;
\ir helpers.sql
select plan(87);

-- What a read returns, in short: the ids of its events, whether there is more, and the next cursor.
create function ff_tap.read(
    p_cursor text,
    p_limit integer default 256,
    p_stream text default 'completion',
    p_namespace text default null,
    p_tag_key text default null,
    p_tag_value text default null,
    p_partition_key integer default null,
    p_event_types text[] default null,
    p_execution_id text default null
)
returns text
language sql volatile
as $$
    select string_agg(
        case
            when e.event_id is not null then e.event_id::text
            else format('%s %s', case when e.more then 'more' else 'end' end,
                        replace(e.cursor, ff_tap.horizon() || ':0', 'now'))
        end, ' ' order by e.ordinality)
    from flowfabric.ff_read_events(
        p_stream, p_cursor, p_limit, p_namespace, p_tag_key, p_tag_value, p_partition_key::smallint, p_event_types,
        p_execution_id) with ordinality as e
$$;

-- An empty stream
select ff_tap.freeze_time(1000);
select results_eq(
    $$ select e.cursor, e.more, e.stream, e.event_id from flowfabric.ff_read_events('completion', 'v1:0:0:0') as e $$,
    format($$ values ('v1:1:%s:0', false, 'completion', null::bigint) $$, ff_tap.horizon()),
    'without events there is one row: where to read on');
select is(ff_tap.read('v1:1:20:5'), 'end v1:1:now', 'a cursor moves to the horizon, past what will never come');
select is(
    ff_tap.read('v1:1:18446744073709551615:3'), 'end v1:1:18446744073709551615:3',
    'a cursor above the horizon stays where it is');
select is(ff_tap.read('v1:2:5:0'), 'end v1:2:5:0', 'so does one of a later epoch');

-- Order and paging: transaction by transaction, not by the ids
select ff_tap.completion(11, 10, 3);
select ff_tap.completion(10, 7, 1);
select ff_tap.completion(12, 9, 4);
select ff_tap.completion(10, 11, 2);
select ff_tap.completion(12, 8, 5);
select is(
    ff_tap.read('v1:0:0:0'), '7 11 10 8 9 end v1:1:now',
    'events come in the order of their transactions, and by id within one');
select is(
    (select array_agg(e.cursor) from flowfabric.ff_read_events('completion', 'v1:0:0:0') as e where e.event_id is not null),
    array['v1:1:10:7', 'v1:1:10:11', 'v1:1:11:10', 'v1:1:12:8', 'v1:1:12:9'], 'each carries its own cursor');
select is(
    (select array_agg(distinct coalesce(e.more::text, 'null') || ' ' || (e.event_id is null)::text)
     from flowfabric.ff_read_events('completion', 'v1:0:0:0') as e),
    array['false true', 'null false'], 'only the last row says whether there is more');
select is(ff_tap.read('v1:0:0:0', 1), '7 more v1:1:10:7', 'a page of one');
select is(ff_tap.read('v1:1:10:7', 1), '11 more v1:1:10:11', 'goes on within a transaction');
select is(ff_tap.read('v1:1:10:11', 1), '10 more v1:1:11:10', 'and to the next');
select is(ff_tap.read('v1:1:12:8', 1), '9 end v1:1:now', 'until nothing is left');
select is(ff_tap.read('v1:0:0:0', 5), '7 11 10 8 9 end v1:1:now', 'a page that is just full knows that it is the last');
select is(ff_tap.read('v1:0:0:0', 4), '7 11 10 8 more v1:1:12:8', 'one that leaves something says so');
select is(ff_tap.read('v1:1:10:8'), '11 10 8 9 end v1:1:now', 'a cursor need not be that of an event');
select is(ff_tap.read('v1:1:11:0'), '10 8 9 end v1:1:now', 'nor name one');
select is(ff_tap.read('v1:1:10:7'), ff_tap.read('v1:1:10:7'), 'the same cursor gives the same events again');
select is(ff_tap.read('v1:0:0:0', p_stream => 'lease'), 'end v1:1:now', 'other streams have none of it');

-- The horizon
select is(
    (select count(*) from flowfabric.ff_completion_event as v where v.execution_id = right(ff_tap.id(9), 36)::uuid),
    0::bigint, 'nothing is known of the ninth');
select ff_tap.leased_execution(ff_tap.id(9));
select flowfabric.ff_complete_execution(ff_tap.id(9), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.completions(ff_tap.id(9)), array['success'], 'its event is written and visible');
select is(
    ff_tap.read('v1:1:12:9'), 'end v1:1:now', 'but it is not delivered before its transaction is over');
select is(
    (select v.xact_id >= pg_snapshot_xmin(pg_current_snapshot()) from flowfabric.ff_completion_event as v
     where v.execution_id = right(ff_tap.id(9), 36)::uuid), true, 'nor passed over by the cursor that comes back');

-- Epochs
select ff_tap.completion(5, 40, 6, p_epoch => 2);
select is(
    ff_tap.read('v1:1:12:9'), 'end v1:1:now', 'an epoch that has not begun is not read');
select flowfabric.ff_bump_event_epoch();
select is(
    regexp_replace(ff_tap.read('v1:1:12:9'), '^[0-9]+ ', 'ninth '), 'ninth 40 end v1:2:now',
    'an older epoch is over, with whatever it holds, and the new one follows though its transactions are lower');
select is(
    ff_tap.read('v1:1:18446744073709551615:9'), '40 end v1:2:now', 'a cursor of the old epoch passes over to the new');
select is(ff_tap.read('v1:2:5:40'), 'end v1:2:now', 'each is delivered once');
delete from flowfabric.ff_completion_event as v where v.event_id = 40 or v.xact_id > '100';
update flowfabric.ff_partition_config as c set event_epoch = 1;

-- Filters
select ff_tap.completion(20, 101, 11, 'success', 'blue', 'one');
select ff_tap.completion(21, 102, 12, 'failed', 'blue', 'two');
select ff_tap.completion(22, 103, 13, 'success', 'green', null);
select ff_tap.completion(23, 104, 14, 'expired', null, 'one', p_partition_key => 7);
select ff_tap.execution(ff_tap.id(11), p_tags => '{"app.team": "red"}');
select ff_tap.execution(ff_tap.id(12), p_tags => '{"app.team": "white"}');
select is(ff_tap.read('v1:1:12:9', p_namespace => 'blue'), '101 102 end v1:1:now', 'by namespace');
select is(ff_tap.read('v1:1:12:9', p_namespace => 'Blue'), 'end v1:1:now', 'exactly as it is spelt');
select is(
    ff_tap.read('v1:1:12:9', p_event_types => '{failed,expired}'), '102 104 end v1:1:now', 'by type, here the outcome');
select is(ff_tap.read('v1:1:12:9', p_partition_key => 7), '104 end v1:1:now', 'by partition');
select is(
    ff_tap.read('v1:1:12:9', p_execution_id => ff_tap.id(13)), '103 end v1:1:now', 'by execution');
select is(
    ff_tap.read('v1:1:12:9', p_execution_id => ff_tap.id(14)), 'end v1:1:now', 'of which the partition is a part');
select is(
    ff_tap.read('v1:1:12:9', p_tag_key => 'ff.instance_id', p_tag_value => 'one'), '101 104 end v1:1:now',
    'by the instance tag that the event carries');
select is(
    ff_tap.read('v1:1:12:9', p_tag_key => 'app.team', p_tag_value => 'red'), '101 end v1:1:now',
    'by any other tag that the execution has now');
select flowfabric.ff_set_execution_tags(ff_tap.id(12), '{"app.team": "red"}');
select is(
    ff_tap.read('v1:1:12:9', p_tag_key => 'app.team', p_tag_value => 'red'), '101 102 end v1:1:now',
    'not the one that it had then');
update flowfabric.ff_partition_config as c set instance_tag_key = 'app.team';
select is(
    ff_tap.read('v1:1:12:9', p_tag_key => 'app.team', p_tag_value => 'two'), '102 end v1:1:now',
    'which tag events carry is configured');
update flowfabric.ff_partition_config as c set instance_tag_key = 'ff.instance_id';
select is(
    ff_tap.read('v1:1:12:9', p_namespace => 'blue', p_event_types => '{failed}', p_partition_key => 86),
    '102 end v1:1:now', 'filters add up');
select is(
    ff_tap.read('v1:1:12:9', p_namespace => 'grey'), 'end v1:1:now', 'a filter that matches nothing moves the cursor on');
select is(
    ff_tap.read('v1:1:12:9', p_namespace => '', p_tag_key => '', p_event_types => '{}', p_execution_id => ''),
    '101 102 103 104 end v1:1:now', 'what is empty is no filter');
select is(
    ff_tap.read('v1:1:12:9', 1, p_namespace => 'grey'), 'end v1:1:now', 'four times the limit are looked at');
select ff_tap.completion(24, 105, 15);
select is(
    ff_tap.read('v1:1:12:9', 1, p_namespace => 'grey'), 'more v1:1:23:104', 'and then the read is cut off');
select is(
    ff_tap.read('v1:1:12:9', 1, p_namespace => 'blue'), '101 more v1:1:20:101', 'or when it has found enough');
select is(
    ff_tap.read('v1:1:20:101', 2, p_event_types => '{failed,expired}'), '102 104 more v1:1:23:104',
    'past events that it did not want');
select is(
    ff_tap.read('v1:1:20:101', 2, p_event_types => '{success}'), '103 105 end v1:1:now', 'to the very end');

-- The five families
insert into flowfabric.ff_lease_event (
    epoch, xact_id, event_id, partition_key, occurred_at_ms, namespace, instance_tag, execution_id, event_type, lease_id,
    lease_epoch, old_lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
values (
    1, '30', 201, 86, 1001, 'blue', 'one', right(ff_tap.id(1), 36)::uuid, 'reclaimed', ff_tap.lease_id(), 8, 7, 2,
    ff_tap.attempt_id(), 'worker', 'worker-1', 'lease_expired');
insert into flowfabric.ff_signal_event (
    epoch, xact_id, event_id, partition_key, occurred_at_ms, namespace, instance_tag, execution_id, signal_id,
    signal_name, waitpoint_id, source_type, source_identity, effect)
values (
    1, '30', 202, 86, 1002, 'blue', 'one', right(ff_tap.id(1), 36)::uuid, ff_tap.lease_id(), 'approved',
    ff_tap.attempt_id(), 'user', 'ada', 'resume_condition_satisfied');
insert into flowfabric.ff_operator_event (
    epoch, xact_id, event_id, partition_key, occurred_at_ms, namespace, flow_id, event_type, details)
values (1, '30', 203, 86, 1003, 'blue', ff_tap.lease_id(), 'flow_cancel_requested', '{"reason": "x"}');
insert into flowfabric.ff_operator_event (
    epoch, xact_id, event_id, partition_key, occurred_at_ms, event_type, details)
values (1, '30', 204, 0, 1004, 'lane_state_changed', '{"lane_id": "l"}');
insert into flowfabric.ff_worker_registry_event (
    epoch, xact_id, event_id, occurred_at_ms, namespace, worker_instance_id, worker_id, event_kind, reason)
values (1, '30', 205, 1005, 'blue', 'worker-1', 'worker', 'marked_dead', 'gone');
create function ff_tap.fields(p_stream text, p_event_id bigint)
returns jsonb
language sql volatile
as $$
    select jsonb_strip_nulls(to_jsonb(e)) - array['cursor', 'stream', 'event_id']
    from flowfabric.ff_read_events(p_stream, 'v1:0:0:0') as e
    where e.event_id = p_event_id
$$;
select is(
    ff_tap.fields('completion', 102),
    jsonb_build_object(
        'partition_key', 86, 'occurred_at_ms', 1000, 'namespace', 'blue', 'instance_tag', 'two', 'execution_id',
        ff_tap.id(12), 'event_type', 'failed', 'outcome', 'failed', 'lane_id', 'default'),
    'a completion names outcome and lane');
select is(
    ff_tap.fields('lease', 201),
    jsonb_build_object(
        'partition_key', 86, 'occurred_at_ms', 1001, 'namespace', 'blue', 'instance_tag', 'one', 'execution_id',
        ff_tap.id(1), 'event_type', 'reclaimed', 'lease_id', ff_tap.lease_id(), 'lease_epoch', 8, 'old_lease_epoch', 7,
        'attempt_index', 2, 'attempt_id', ff_tap.attempt_id(), 'worker_id', 'worker', 'worker_instance_id', 'worker-1',
        'reason', 'lease_expired'),
    'a lease event names lease, attempt and worker');
select is(
    ff_tap.fields('signal', 202),
    jsonb_build_object(
        'partition_key', 86, 'occurred_at_ms', 1002, 'namespace', 'blue', 'instance_tag', 'one', 'execution_id',
        ff_tap.id(1), 'event_type', 'signal', 'signal_id', ff_tap.lease_id(), 'signal_name', 'approved',
        'waitpoint_id', ff_tap.attempt_id(), 'source_type', 'user', 'source_identity', 'ada', 'effect',
        'resume_condition_satisfied'),
    'a signal event names signal, sender and effect');
select is(
    ff_tap.fields('operator', 203),
    jsonb_build_object(
        'partition_key', 86, 'occurred_at_ms', 1003, 'namespace', 'blue', 'flow_id', ff_tap.lease_id(), 'event_type',
        'flow_cancel_requested', 'details', '{"reason": "x"}'::jsonb),
    'an operator event about a flow has no execution');
select is(
    ff_tap.fields('operator', 204),
    '{"partition_key": 0, "occurred_at_ms": 1004, "event_type": "lane_state_changed", "details": {"lane_id": "l"}}',
    'one about a lane has neither');
select is(
    ff_tap.fields('worker', 205),
    '{"partition_key": 0, "occurred_at_ms": 1005, "namespace": "blue", "event_type": "marked_dead", "worker_id": "worker",
      "worker_instance_id": "worker-1", "reason": "gone"}',
    'a worker event names the worker');
select is(
    ff_tap.read('v1:0:0:0', p_stream => 'operator', p_execution_id => ff_tap.id(1)), 'end v1:1:now',
    'an event without an execution matches no execution');
select is(
    ff_tap.read('v1:0:0:0', p_stream => 'worker', p_tag_key => 'app.team', p_tag_value => 'red'), 'end v1:1:now',
    'nor a tag');
select is(
    ff_tap.read('v1:0:0:0', p_stream => 'signal', p_event_types => '{signal}'), '202 end v1:1:now',
    'signals have one type');

-- What the engine itself writes comes back through the same door
update flowfabric.ff_partition_config as c set event_epoch = 2;
select results_eq(
    format(
        $$ select e.event_type, e.reason from flowfabric.ff_read_events('lease', 'v1:0:0:0', p_execution_id => %L) as e
           where e.event_id is not null $$, ff_tap.id(9)),
    $$ values ('acquired', 'issue_grant_and_claim'), ('released', 'completed') $$,
    'the life of a lease can be read');
update flowfabric.ff_partition_config as c set event_epoch = 1;

-- Pruned events
update flowfabric.ff_event_stream as s
set pruned_epoch = 1, pruned_xact_id = '12', pruned_event_id = 8
where s.stream = 'completion';
select throws_ok(
    $$ select ff_tap.read('v1:1:12:7') $$, 'ZS035', 'event_cursor_expired', 'a cursor below what is pruned is refused');
select is(
    ff_tap.error_of($$ select ff_tap.read('v1:1:12:7') $$),
    '{"code": "event_cursor_expired", "fn": "ff_read_events", "stream": "completion", "cursor": "v1:1:12:7",
      "oldest_cursor": "v1:1:12:8"}',
    'and told where to begin again');
select is(ff_tap.read('v1:1:12:8', 1), '9 more v1:1:12:9', 'from there it reads on');
select is(ff_tap.read('v1:0:0:0', 1), '9 more v1:1:12:9', 'the start means whatever is left');
select throws_ok(
    $$ select ff_tap.read('v1:0:0:1') $$, 'ZS035', 'event_cursor_expired', 'and nothing else is that low');
select lives_ok($$ select ff_tap.read('v1:1:0:1', p_stream => 'lease') $$, 'other streams are not concerned');
select throws_ok(
    $$ select ff_tap.read('v1:0:5:5', p_namespace => 'grey') $$, 'ZS035', 'event_cursor_expired', 'a filter changes nothing');

-- Refusals, in their order
select throws_ok(
    format('select ff_tap.read(%L)', c.cursor), 'ZV016', 'invalid_offset', format('%s is no cursor', to_json(c.cursor)))
from unnest(array[
    '', 'x', 'start', 'v1:0:0', 'v1:0:0:0:0', 'v2:0:0:0', 'V1:0:0:0', 'v1:-1:0:0', 'v1:1:0:-1', 'v1: 1:0:0', 'v1:1.0:0:0',
    'v1:32768:0:0', 'v1:1:18446744073709551616:0', 'v1:1:0:9223372036854775808', 'v1:1:0:0 ', E'v1:1:0:0\n'
]) as c (cursor);
select is(
    ff_tap.error_of(format('select ff_tap.read(%L)', repeat('9', 100000))),
    jsonb_build_object('code', 'invalid_offset', 'fn', 'ff_read_events', 'offset', repeat('9', 200)),
    'of a text without end the refusal shows the beginning');
select throws_ok('select ff_tap.read(null)', 'ZV016', 'invalid_offset', 'a cursor is required');
select is(ff_tap.read('v1:1:18446744073709551615:9223372036854775807') is not null, true, 'the largest numbers are numbers');
select is(
    ff_tap.error_of(c.call) - array['fn', 'value'],
    jsonb_build_object('code', 'invalid_input', 'field', c.field, 'reason', c.reason), c.description)
from (values
    ($$ select ff_tap.read('x', 0, 'leases') $$, 'stream', 'unknown', 'an unknown stream is refused first'),
    ($$ select ff_tap.read('x', 0, null) $$, 'stream', 'null', 'a stream is required'),
    ($$ select ff_tap.read('x', 0, p_tag_key => 'a') $$, 'limit', 'out_of_range', 'then a limit below 1'),
    ($$ select ff_tap.read('x', 1001) $$, 'limit', 'out_of_range', 'or above 1000'),
    ($$ select ff_tap.read('x', null) $$, 'limit', 'null', 'or NULL'),
    ($$ select ff_tap.read('x', p_tag_key => 'app.team') $$, 'tag_value', 'null', 'then a tag without a value'),
    ($$ select ff_tap.read('x', p_tag_value => 'red') $$, 'tag_key', 'null', 'or a value without a tag'),
    ($$ select ff_tap.read('x', p_execution_id => 'y') $$, 'execution_id', 'missing_tag', 'then a malformed execution id')
) as c (call, field, reason, description);

select * from finish();
rollback;
