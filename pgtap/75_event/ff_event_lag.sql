-- Lag: what is there to read, what is held back, by whom, and where consumers stand.
begin;
\ir helpers.sql
select plan(16);

create function ff_tap.lag(p_stream text default 'completion')
returns flowfabric.ff_event_stream_lag
language sql volatile
as $$ select l.* from flowfabric.ff_event_lag(p_stream) as l $$;

select results_eq(
    'select l.stream from flowfabric.ff_event_lag() as l',
    $$ values ('completion'), ('lease'), ('operator'), ('signal'), ('worker') $$, 'every stream has a row');
select is(
    (select row(l.newest_occurred_at_ms, l.deliverable_rows, l.held_back_rows, l.consumers) from ff_tap.lag() as l),
    row(null::bigint, 0::bigint, 0::bigint, '[]'::jsonb), 'an empty stream has nothing');
select is((ff_tap.lag()).prepared_xact_count, (select count(*) from pg_prepared_xacts), 'prepared transactions are counted');

select ff_tap.freeze_time(5000);
select ff_tap.completion(10, 2, 1, p_occurred_at_ms => 4000);
select ff_tap.completion(11, 1, 2, p_occurred_at_ms => 3000);
select is(
    (select row(l.newest_occurred_at_ms, l.deliverable_rows, l.held_back_rows) from ff_tap.lag() as l),
    row(3000::bigint, 2::bigint, 0::bigint), 'the newest event is the last to be read');
select ff_tap.leased_execution(ff_tap.id(3));
select flowfabric.ff_complete_execution(ff_tap.id(3), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    (select row(l.newest_occurred_at_ms, l.deliverable_rows, l.held_back_rows) from ff_tap.lag() as l),
    row(5000::bigint, 2::bigint, 1::bigint), 'what the running transaction wrote is held back');
select is((ff_tap.lag('lease')).held_back_rows, 2::bigint, 'in each of its streams');
select is(
    (select row(l.oldest_running_xact, l.oldest_running_pid, l.oldest_running_since_ms) from ff_tap.lag() as l),
    row(pg_current_xact_id(), pg_backend_pid(), floor(extract(epoch from now()) * 1000)::bigint),
    'by itself: transaction, session and since when');

-- Consumers
select flowfabric.ff_commit_event_cursor('b', 'completion', 'v1:1:10:2');
select flowfabric.ff_commit_event_cursor('a', 'completion', 'v1:0:0:0');
select flowfabric.ff_commit_event_cursor('c', 'lease', 'v1:0:0:0');
select is(
    (ff_tap.lag()).consumers,
    replace('[{"consumer": "a", "owner": "me", "cursor": "v1:0:0:0", "updated_at_ms": 5000, "behind_rows": 2, "is_expired": false},
      {"consumer": "b", "owner": "me", "cursor": "v1:1:10:2", "updated_at_ms": 5000, "behind_rows": 1,
       "is_expired": false}]', '"me"', to_json(session_user)::text)::jsonb,
    'consumers are shown with what they have still to read');
update flowfabric.ff_event_stream as s
set pruned_epoch = 1, pruned_xact_id = '10', pruned_event_id = 2
where s.stream = 'completion';
select flowfabric.ff_commit_event_cursor('d', 'completion', 'v1:1:10:1');
select is((ff_tap.lag()).deliverable_rows, 1::bigint, 'what is pruned is not deliverable');
select is(
    (select jsonb_object_agg(c.value ->> 'consumer', c.value -> 'is_expired')
     from jsonb_array_elements((ff_tap.lag()).consumers) as c (value)),
    '{"a": false, "b": false, "d": true}'::jsonb,
    'a consumer whose cursor would be refused is shown as such, and the start never is');

-- Counts have an end
select ff_tap.completion(12, 100 + i) from generate_series(1, 10010) as i;
select is((ff_tap.lag()).deliverable_rows, 10000::bigint, 'rows are counted up to 10000');
select is(
    (select c.value ->> 'behind_rows' from jsonb_array_elements((ff_tap.lag()).consumers) as c (value)
     where c.value ->> 'consumer' = 'b'), '10000', 'for a consumer as well');
update flowfabric.ff_partition_config as c set event_epoch = 0;
select is(
    (select row(l.deliverable_rows, l.held_back_rows) from ff_tap.lag() as l), row(0::bigint, 10000::bigint),
    'and so is what is held back');
update flowfabric.ff_partition_config as c set event_epoch = 1;

select is(
    ff_tap.error_of('select flowfabric.ff_event_lag(''x'')') - 'fn',
    '{"code": "invalid_input", "field": "stream", "reason": "unknown", "value": "x"}', 'an unknown stream is refused');
select lives_ok(
    $$ select ff_tap.as_role('flowfabric_reader', 'select flowfabric.ff_event_lag()') $$, 'a reader may ask');
select throws_ok(
    $$ select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_event_lag()') $$, '42501', null,
    'a worker may not');

select * from finish();
rollback;
