-- First attempts: which of them get a row, that all are listed alike, and under which lease an execution ended.
begin;
\ir ../helpers.sql
select plan(40);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;
create function ff_tap.listed(p_number integer, p_index integer default 0)
returns jsonb
language sql stable
as $$
    select jsonb_strip_nulls(to_jsonb(a)) - 'has_more'
    from flowfabric.ff_list_attempts(ff_tap.id(p_number)) as a
    where a.attempt_index = p_index
$$;
create function ff_tap.attempt_rows(p_number integer)
returns bigint
language sql stable
as $$ select count(*) from flowfabric.ff_attempt as a where a.execution_id = right(ff_tap.id(p_number), 36)::uuid $$;
create function ff_tap.ended_under(p_number integer)
returns text
language sql stable
as $$
    select row(e.ended_lease_id, e.ended_worker_id, e.ended_worker_instance_id)::text
    from ff_tap.core(ff_tap.id(p_number)) as e
$$;

-- Every way to end at 2000 what worker-1 has claimed at 1000
create temporary table ending (number integer, what text, call text, told jsonb, is_member boolean) on commit drop;
\set fence '%1$L, ff_tap.lease_id(), 1, ff_tap.attempt_id()'
\set batch 'array[%1$L], array[ff_tap.lease_id()], array[1], array[ff_tap.attempt_id()]'
\set success '{"attempt_state": "ended_success"}'
\set failure '{"attempt_state": "ended_failure", "failure_reason": "broken", "failure_category": "io"}'
insert into ending (number, what, call, told, is_member) values
    (1, 'completed', 'ff_complete_execution(' || :'fence' || ')', :'success', false),
    (2, 'completed in a batch', 'ff_complete_executions(' || :'batch' || ')', :'success', false),
    (3, 'completed by an operator', 'ff_complete_execution(%1$L, p_source => ''operator_override'')', :'success',
        false),
    (4, 'completed in a flow', 'ff_complete_execution(' || :'fence' || ')', :'success', true),
    (5, 'completed in a flow, in a batch', 'ff_complete_executions(' || :'batch' || ')', :'success', true),
    (6, 'failed', 'ff_fail_execution(' || :'fence' || ', ''broken'', ''io'')', :'failure', false),
    (7, 'failed in a batch', 'ff_fail_executions(' || :'batch' || ', ''{broken}'', ''{io}'')', :'failure', false),
    (8, 'failed in a flow', 'ff_fail_execution(' || :'fence' || ', ''broken'', ''io'')', :'failure', true),
    (9, 'cancelled', 'ff_cancel_execution(%1$L, ''unwanted'', ''operator_override'')',
        '{"attempt_state": "ended_cancelled", "failure_reason": "cancelled: unwanted"}', false),
    (10, 'expired', 'ff_expire_execution(%1$L)',
        '{"attempt_state": "ended_failure", "failure_reason": "attempt_timeout"}', false);
select ff_tap.freeze_time(1000);
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms, last_mutation_at_ms)
values (86, '00000000-0000-4000-8000-00000000f10e', 'test', 'default', 'open', 3, 1000, 1000);
select ff_tap.leased_execution(ff_tap.id(e.number)) from ending as e;
update flowfabric.ff_exec_core as e
set flow_id = '00000000-0000-4000-8000-00000000f10e'
from ending as n
where e.execution_id = right(ff_tap.id(n.number), 36)::uuid and n.is_member;
create temporary table begun on commit drop as
select e.number, ff_tap.listed(e.number) as attempt from ending as e;
select ff_tap.freeze_time(2000);
select lives_ok('select flowfabric.' || format(e.call, ff_tap.id(e.number)), 'an execution is ' || e.what)
from ending as e
order by e.number;

select is(
    ff_tap.listed(e.number), b.attempt || e.told || '{"ended_at_ms": 2000}',
    e.what || ': the attempt is listed with its end and all that it had')
from ending as e
join begun as b on b.number = e.number
order by e.number;
select is(
    (select jsonb_object_agg(e.what, ff_tap.attempt_rows(e.number)) from ending as e),
    (select jsonb_object_agg(e.what, case when e.what like 'completed%' then 0 else 1 end) from ending as e),
    'only an attempt that did not succeed gets a row');
select is(
    (select jsonb_object_agg(v.execution_id, jsonb_build_array(v.attempt, v.type, v.state, v.worker, v.started_at,
        v.ended_at, v.failure_reason, v.failure_category)) from flowfabric.ff_v_attempt as v),
    (select jsonb_object_agg(ff_tap.id(e.number), jsonb_build_array(a.attempt_index, a.attempt_type, a.attempt_state,
        a.worker_id, to_timestamp(1), to_timestamp(2), a.failure_reason, a.failure_category))
     from ending as e, flowfabric.ff_list_attempts(ff_tap.id(e.number)) as a),
    'the view for people shows the same');
select is(
    (select array_agg(distinct ff_tap.ended_under(e.number)) from ending as e),
    array[row(ff_tap.lease_id(), 'worker', 'worker-1')::text], 'an end keeps the lease, the worker and its process');

-- Ends without a lease
select ff_tap.execution(ff_tap.id(21));
select flowfabric.ff_cancel_execution(ff_tap.id(21), 'unwanted', 'operator_override');
select is(ff_tap.ended_under(21), '(,,)', 'what never ran ended under no lease');
select ff_tap.suspended_execution(ff_tap.id(22));
select flowfabric.ff_cancel_execution(ff_tap.id(22), 'unwanted', 'operator_override');
select is(ff_tap.ended_under(22), '(,,)', 'nor did what was suspended');
select ff_tap.leased_execution(ff_tap.id(23));
select flowfabric.ff_fail_execution(
    ff_tap.id(23), ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_retry_policy => '{"max_retries": 1}');
select is(ff_tap.ended_under(23), '(,,)', 'an attempt that is retried ends nothing');

-- A replay, at 3000, taken by worker-2
create temporary table ended on commit drop as
select e.number, e.what, ff_tap.listed(e.number) as attempt from ending as e;
select ff_tap.freeze_time(3000);
select flowfabric.ff_replay_execution(ff_tap.id(e.number), p_force => true) from ended as e;
select is(
    (select array_agg(distinct concat_ws(' ', ff_tap.ended_under(e.number), ff_tap.attempt_rows(e.number)))
     from ended as e),
    array['(,,) 1'], 'a replay forgets the end, and the first attempt has its row by then');
select flowfabric.ff_issue_grant_and_claim(
    ff_tap.id(e.number), p_lease_ttl_ms => 30000, p_worker_id => 'other', p_worker_instance_id => 'worker-2',
    p_lease_id => '00000000-0000-4000-8000-00000000002e', p_attempt_id => '00000000-0000-4000-8000-0000000000b7')
from ended as e;
select ff_tap.freeze_time(4000);
select flowfabric.ff_complete_execution(
    ff_tap.id(e.number), '00000000-0000-4000-8000-00000000002e', 2, '00000000-0000-4000-8000-0000000000b7')
from ended as e;
select is(
    ff_tap.listed(e.number), e.attempt, e.what || ', replayed and completed: the first attempt is what it was')
from ended as e
order by e.number;
select is(
    (select jsonb_agg(distinct ff_tap.listed(e.number, 1)) from ended as e),
    jsonb_build_array(jsonb_build_object(
        'attempt_index', 1, 'attempt_id', '00000000-0000-4000-8000-0000000000b7', 'attempt_type', 'replay',
        'attempt_state', 'ended_success', 'lease_id', '00000000-0000-4000-8000-00000000002e', 'lease_epoch', 2,
        'worker_id', 'other', 'worker_instance_id', 'worker-2', 'created_at_ms', 3000, 'started_at_ms', 3000,
        'ended_at_ms', 4000, 'replayed_from_attempt_index', 0)),
    'and the second stands beside it');
select is(
    (select array_agg(distinct ff_tap.ended_under(e.number)) from ended as e),
    array['(00000000-0000-4000-8000-00000000002e,other,worker-2)'], 'the end is that of the second');
select is_empty('select f.* from flowfabric.ff_check_invariants() as f', 'all of that leaves a sound database');
select * from finish();
rollback;
