-- The attempts of an execution: lineage, pages, and the end of their streams.
begin;
\ir ../helpers.sql
select plan(13);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select is_empty(
    format('select flowfabric.ff_list_attempts(%L)', :'execution'), 'an unknown execution has no attempts');
select ff_tap.leased_execution(
    :'execution', p_policy => '{"retry_policy": {"max_retries": 5, "backoff": {"type": "fixed", "delay_ms": 0}}}');
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms, frame_count)
values (86, '00000000-0000-4000-8000-000000000001', 0, 1000, 3);
select flowfabric.ff_fail_execution(
    :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken', 'transient');
select flowfabric.ff_promote_delayed(:'execution');
select flowfabric.ff_issue_grant_and_claim(
    :'execution', 30000, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
select flowfabric.ff_complete_execution(:'execution', ff_tap.lease_id(), 2, ff_tap.attempt_id());
select flowfabric.ff_replay_execution(:'execution', 'again', 'me', p_force => true);
select flowfabric.ff_issue_grant_and_claim(:'execution', 30000);

select results_eq(
    format(
        'select attempt_index, attempt_type::text, attempt_state::text, failure_reason, failure_category, retry_reason,
            previous_attempt_index, replay_reason, replay_requested_by, replayed_from_attempt_index
        from flowfabric.ff_list_attempts(%L)', :'execution'),
    $want$values
        (0, 'initial', 'ended_failure', 'broken', 'transient', null, null::integer, null, null, null::integer),
        (1, 'retry', 'ended_success', null, null, 'broken', 0, null, null, null),
        (2, 'replay', 'started', null, null, null, null, 'again', 'me', 1)$want$,
    'each attempt says what it follows and how it ended');
select is(
    array_agg(a.lease_epoch order by a.attempt_index), array[1, 2, 3]::bigint[], 'epochs grow over all attempts')
from flowfabric.ff_list_attempts(:'execution') as a;
select results_eq(
    format(
        'select stream_closed_at_ms, stream_closed_reason, frame_count from flowfabric.ff_list_attempts(%L, null, 1)',
        :'execution'),
    'values (1000::bigint, ''attempt_failure'', 3::bigint)', 'the end of its stream is shown');
select is(array_agg(a.attempt_index), array[1], 'a page starts behind its cursor')
from flowfabric.ff_list_attempts(:'execution', 0, 1) as a;
select is(bool_and(a.has_more), true, 'a full page says that there is more')
from flowfabric.ff_list_attempts(:'execution', 0, 1) as a;
select is(bool_or(a.has_more), false, 'the last page says that there is none')
from flowfabric.ff_list_attempts(:'execution', 1, 1) as a;

-- A first attempt has no row while it runs, and is listed like any other.
\set running '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'running');
create temporary table listed as
select to_jsonb(a) as attempt from flowfabric.ff_list_attempts(:'running') as a;
select is(
    (select jsonb_strip_nulls(l.attempt) from listed as l),
    jsonb_build_object(
        'attempt_index', 0, 'attempt_id', ff_tap.attempt_id(), 'attempt_type', 'initial', 'attempt_state', 'started',
        'created_at_ms', 1000, 'started_at_ms', 1000, 'lease_id', ff_tap.lease_id(), 'lease_epoch', 1,
        'worker_id', 'worker', 'worker_instance_id', 'worker-1', 'has_more', false),
    'a first attempt is listed while it runs');
select is_empty(
    format('select flowfabric.ff_list_attempts(%L, 0)', :'running'), 'behind it there is nothing');
select ff_tap.freeze_time(2000);
select flowfabric.ff_delay_execution(:'running', 9000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    (select to_jsonb(a) from flowfabric.ff_list_attempts(:'running') as a),
    (select l.attempt || '{"attempt_state": "suspended", "suspended_at_ms": 2000}' from listed as l),
    'the row that it gets when it pauses says the same');
select flowfabric.ff_promote_delayed(:'running') from ff_tap.freeze_time(9000);
select flowfabric.ff_claim_next('{default}', 'other', 'other-1');
select results_eq(
    format('select attempt_state::text, worker_id, lease_epoch, started_at_ms, resumed_at_ms
            from flowfabric.ff_list_attempts(%L)', :'running'),
    $$values ('started', 'other', 2::bigint, 1000::bigint, 9000::bigint)$$,
    'when it goes on it is the same attempt');
select throws_ok(
    format('select flowfabric.ff_list_attempts(%L, null, -1)', :'execution'), 'ZV001', 'invalid_input',
    'a negative limit is refused');
select throws_ok('select flowfabric.ff_list_attempts(null)', 'ZV001', 'invalid_input', 'a missing id is refused');
select * from finish();
rollback;
