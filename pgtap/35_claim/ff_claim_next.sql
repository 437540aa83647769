-- Claiming the next: which execution a worker gets, in what order, and everything that it is told about it.
begin;
\ir ../helpers.sql
select plan(116);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.claimed(
    p_max integer default 1,
    p_lanes text[] default '{default}',
    p_capabilities text[] default '{}',
    p_lane_order text default 'fair',
    p_namespace text default null,
    p_include_resumed boolean default true,
    p_promote_due boolean default true,
    p_partition_key integer default null
)
returns integer[]
language sql volatile
as $$
    select coalesce(array_agg(right(c.execution_id, 12)::integer), '{}')
    from flowfabric.ff_claim_next(
        p_lanes, 'pool', 'pool-1', p_capabilities, p_max, p_lane_order => p_lane_order, p_namespace => p_namespace,
        p_include_resumed => p_include_resumed, p_promote_due => p_promote_due,
        p_partition_key => p_partition_key::smallint) as c
$$;

create function ff_tap.requiring(variadic p_tokens text[])
returns jsonb
language sql immutable
as $$ select jsonb_build_object('routing_requirements', jsonb_build_object('required_capabilities', p_tokens)) $$;

create function ff_tap.refusal(p_arguments text)
returns text
language sql volatile
as $$
    select concat_ws(' ', e ->> 'code', coalesce(e ->> 'field', e ->> 'side'), e ->> 'reason')
    from ff_tap.error_of('select flowfabric.ff_claim_next(' || p_arguments || ')') as e
$$;

-- What a claim does
select ff_tap.freeze_time(1000);
select ff_tap.execution(
    ff_tap.id(1), '{"timeout_policy": {"attempt_timeout_ms": 700}}', p_priority => 7, p_deadline_at_ms => 90000,
    p_tags => '{"app.part": "x"}', p_payload => 'input');
select ff_tap.freeze_time(1500);
select row_to_json(c) as claim, c.lease_id, c.attempt_id
from flowfabric.ff_claim_next('{default}', 'pool', 'pool-1', p_lease_ttl_ms => 3001) as c \gset
select is(
    (:'claim'::jsonb - 'lease_id' - 'attempt_id') - 'policy',
    jsonb_build_object(
        'execution_id', ff_tap.id(1), 'lane_id', 'default', 'namespace', 'default', 'execution_kind', 'test',
        'priority', 7, 'lease_epoch', 1, 'lease_expires_at_ms', 4501, 'lease_renewal_deadline_ms', 3500,
        'attempt_index', 0, 'attempt_type', 'initial', 'handle_kind', 'fresh', 'worker_instance_id', 'pool-1',
        'lease_ttl_ms', 3001, 'payload', '\x696e707574', 'payload_encoding', null, 'tags', '{"app.part": "x"}'::jsonb,
        'flow_id', null, 'required_capabilities', '[]'::jsonb, 'created_at_ms', 1000, 'started_at_ms', 1500,
        'deadline_at_ms', 90000, 'attempt_timeout_at_ms', 2200, 'total_attempt_count', 1),
    'a claim returns everything needed to run the execution');
select is(
    :'claim'::jsonb -> 'policy', '{"timeout_policy": {"attempt_timeout_ms": 700}}', 'with the policy document');
select is(
    ff_tap.vector(ff_tap.id(1)), 'active / leased / not_applicable / none / none / running_attempt -> active',
    'the execution is leased');
select is(
    (select jsonb_build_array(
        e.current_lease_id, e.current_attempt_id, e.current_lease_epoch, e.total_attempt_count, e.current_worker_id,
        e.current_worker_instance_id, e.lease_acquired_at_ms, e.lease_last_renewed_at_ms, e.lease_expires_at_ms,
        e.started_at_ms, e.attempt_timeout_at_ms, e.deadline_at_ms, e.last_transition_at_ms, e.last_mutation_at_ms)
     from ff_tap.core(ff_tap.id(1)) as e),
    jsonb_build_array(
        :'lease_id', :'attempt_id', 1, 1, 'pool', 'pool-1', 1500, 1500, 4501, 1500, 2200, 90000, 1500, 1500),
    'the row has the lease, the attempt and the times');
select is(
    (select jsonb_build_array(
        a.attempt_type, a.attempt_state, a.attempt_id, a.lease_id, a.lease_epoch, a.worker_id, a.worker_instance_id,
        a.created_at_ms, a.started_at_ms, a.last_usage_report_seq, a.policy, a.retry_reason)
     from ff_tap.attempt(ff_tap.id(1)) as a),
    jsonb_build_array(
        'initial', 'started', :'attempt_id', :'lease_id', 1, 'pool', 'pool-1', 1500, 1500, 0, null, null),
    'the attempt has started, without a copy of the policy');
select is(
    (select jsonb_build_array(
        v.event_type, v.reason, v.lease_id, v.lease_epoch, v.attempt_index, v.attempt_id, v.worker_id,
        v.worker_instance_id, v.occurred_at_ms, v.namespace)
     from flowfabric.ff_lease_event as v),
    jsonb_build_array(
        'acquired', 'claim_next', :'lease_id', 1, 0, :'attempt_id', 'pool', 'pool-1', 1500, 'default'),
    'one lease event tells of it');
select is(ff_tap.claimed(), '{}', 'what is claimed is claimed by nobody else');
select is(ff_tap.claimed(p_max => 100), '{}', 'nor by a batch');
select lives_ok(
    format(
        'select flowfabric.ff_complete_execution(%L, %L, 1, %L)', ff_tap.id(1), :'lease_id', :'attempt_id'),
    'the fence that was returned is good');

select ff_tap.execution(ff_tap.id(2), p_payload => 'input', p_tags => '{"app.part": "y"}');
select results_eq(
    $$ select c.payload, c.tags ->> 'app.part' from flowfabric.ff_claim_next(
        '{default}', 'pool', 'pool-1', p_with_payload => false) as c $$,
    $$ values (null::bytea, 'y') $$, 'without payload only the payload is missing');
select flowfabric.ff_set_setting('lease_events', 0);
select ff_tap.execution(ff_tap.id(3)), ff_tap.execution(ff_tap.id(4));
select is(array[ff_tap.claimed(), ff_tap.claimed(p_max => 2)], '{{3},{4}}', 'claims work without lease events');
select is(
    array[ff_tap.lease_events(ff_tap.id(3)), ff_tap.lease_events(ff_tap.id(4))], '{}',
    'with lease events switched off none is written');
select flowfabric.ff_set_setting('lease_events', null);

-- Order within a lane
select ff_tap.freeze_time(2000);
select ff_tap.execution(ff_tap.id(15)), ff_tap.execution(ff_tap.id(14));
select ff_tap.execution(ff_tap.id(13), p_priority => 5);
select ff_tap.freeze_time(1999);
select ff_tap.execution(ff_tap.id(16)), ff_tap.execution(ff_tap.id(12), p_priority => 10000);
select ff_tap.execution(ff_tap.id(11), p_priority => 9000), ff_tap.execution(ff_tap.id(17), p_priority => -3);
select ff_tap.freeze_time(2500);
savepoint queue;
select is(
    ff_tap.claimed(p_max => 100), '{11,12,13,16,17,14,15}',
    'the higher priority goes first, then the older, then the smaller id; priorities end at 9000 and 0');
rollback to queue;
select is(
    array[
        ff_tap.claimed(), ff_tap.claimed(), ff_tap.claimed(), ff_tap.claimed(), ff_tap.claimed(), ff_tap.claimed(),
        ff_tap.claimed()],
    '{{11},{12},{13},{16},{17},{14},{15}}', 'one at a time they come in the same order');
rollback to queue;
select is(
    array[ff_tap.claimed(p_max => 3), ff_tap.claimed(p_max => 2) || array[null::integer]], '{{11,12,13},{16,17,null}}',
    'and so they do in batches');
select is(ff_tap.claimed(p_max => 100), '{14,15}', 'a batch larger than the supply gets the supply');
rollback to queue;

-- A batch
select ff_tap.execution(ff_tap.id(n), p_lane_id => 'batch', p_payload => convert_to(n::text, 'UTF8'))
from generate_series(101, 220) as n;
create temporary table batch on commit drop as
select c.*, row_number() over () as number
from flowfabric.ff_claim_next('{batch}', 'pool', 'pool-1', p_max => 100) as c;
select is((select count(*) from batch), 100::bigint, 'a batch claims 100');
select is(
    (select array_agg(convert_from(b.payload, 'UTF8')::integer order by b.number) from batch as b),
    (select array_agg(n) from generate_series(101, 200) as n), 'in queue order, each with its own payload');
select is(
    (select row(
        count(distinct b.lease_id), count(distinct b.attempt_id), bool_and(b.lease_epoch = 1),
        bool_and(b.attempt_index = 0), bool_and(b.lease_id <> b.attempt_id)) from batch as b),
    row(100::bigint, 100::bigint, true, true, true), 'every lease and every attempt has an id of its own');
select is(
    (select count(*) from batch as b
     join flowfabric.ff_exec_core as e on flowfabric.ff_format_execution_id(e.partition_key, e.execution_id)
         = b.execution_id and e.current_lease_id = b.lease_id and e.current_attempt_id = b.attempt_id
     join flowfabric._ff_all_attempts() as a on a.partition_key = e.partition_key and a.execution_id = e.execution_id
         and a.lease_id = b.lease_id and a.attempt_id = b.attempt_id and a.attempt_state = 'started'),
    100::bigint, 'executions and attempts have the ids that were returned');
select is(
    (select array_agg(v.lease_id order by v.event_id) from flowfabric.ff_lease_event as v
     where v.lease_id in (select b.lease_id from batch as b)),
    (select array_agg(b.lease_id order by b.number) from batch as b), 'one event each, in the order of the claims');
rollback to queue;

-- Capabilities
select is(ff_tap.claimed(p_max => 100), '{11,12,13,16,17,14,15}', 'an empty requirement is met by any worker');
select ff_tap.execution(ff_tap.id(20), ff_tap.requiring('gpu', 'torch>=2.3'), p_priority => 9);
select ff_tap.execution(ff_tap.id(21), ff_tap.requiring('gpu'), p_priority => 8);
select ff_tap.execution(ff_tap.id(22), ff_tap.requiring('größe'), p_priority => 7);
select ff_tap.execution(ff_tap.id(23));
savepoint required;
select row_to_json(ff_tap.core(ff_tap.id(20)))::text as before \gset
select is(ff_tap.claimed(), '{23}', 'what the worker cannot do hides nothing behind it');
select is(row_to_json(ff_tap.core(ff_tap.id(20)))::text, :'before', 'and is left as it was');
select is(ff_tap.note(ff_tap.id(20)), null, 'without a stamp');
rollback to required;
select is(ff_tap.claimed(p_max => 9, p_capabilities => '{gpu}'), '{21,23}', 'every required token must be offered');
rollback to required;
select is(
    ff_tap.claimed(p_max => 9, p_capabilities => '{torch>=2.3,gpu,gpu,extra}'), '{20,21,23}',
    'the order and repetition of the offer do not matter');
rollback to required;
select is(
    ff_tap.claimed(p_max => 9, p_capabilities => '{größe,GPU}'), '{22,23}',
    'tokens are any UTF-8 and case matters');
select is(
    (select c.required_capabilities from flowfabric.ff_claim_next(
        '{default}', 'pool', 'pool-1', '{torch>=2.3,gpu}') as c), '{gpu,torch>=2.3}',
    'the answer has the requirement, sorted');
select is(ff_tap.claimed(p_capabilities => '{gpu}'), '{21}', 'a single claim with capabilities works too');
rollback to queue;
select ff_tap.execution(ff_tap.id(1000 + n), ff_tap.requiring('gpu'), p_priority => 9000)
from generate_series(1, 1000) as n;
select is(ff_tap.claimed(), '{11}', 'a thousand executions for others at the head hide nothing');
rollback to queue;

-- Lanes
select ff_tap.execution(ff_tap.id(30 + n), p_lane_id => 'a', p_priority => 1) from generate_series(1, 4) as n;
select ff_tap.execution(ff_tap.id(40 + n), p_lane_id => 'b') from generate_series(1, 3) as n;
select ff_tap.execution(ff_tap.id(50 + n), p_lane_id => 'c', p_priority => 5) from generate_series(1, 2) as n;
savepoint lanes;
select is(
    ff_tap.claimed(p_max => 6, p_lanes => '{b,a,c}', p_lane_order => 'strict'), '{41,42,43,31,32,33}',
    'strict drains the first lane before it looks at the second');
rollback to lanes;
select is(
    ff_tap.claimed(p_max => 6, p_lanes => '{b,a,c}', p_lane_order => 'global'), '{51,52,31,32,33,34}',
    'global takes all lanes for one queue');
rollback to lanes;
select is(
    (select array_agg(x order by x) from unnest(ff_tap.claimed(p_max => 6, p_lanes => '{b,a,c}')) as x),
    '{31,32,41,42,51,52}', 'fair gives each of three lanes its share');
rollback to lanes;
select is(
    (select array_agg(x order by n) from unnest(ff_tap.claimed(p_max => 100, p_lanes => '{b,a,c}'))
        with ordinality as u (x, n) where x / 10 = 3), '{31,32,33,34}',
    'fair keeps the queue order within a lane, and gives the rest to who has more');
rollback to lanes;
create temporary table first_lane (lane integer) on commit drop;
do $$
declare
    v_claimed integer[];
begin
    for i in 1 .. 200 loop
        begin
            v_claimed := ff_tap.claimed(p_lanes => '{a,b,c}');
            raise exception using errcode = 'ZZ000';
        exception when sqlstate 'ZZ000' then
            insert into first_lane values (v_claimed[1] / 10);
        end;
    end loop;
end;
$$;
select ok(
    (select count(*) = 3 and min(f.n) > 30 from (select count(*) as n from first_lane group by lane) as f),
    'fair draws the first lane by lot, anew for every call');
rollback to lanes;
select is(
    (select array_agg(ff_tap.claimed(p_lanes => '{c,b,a}', p_lane_order => 'strict') order by n)
     from generate_series(1, 9) as n), '{{51},{52},{41},{42},{43},{31},{32},{33},{34}}',
    'one at a time, strict goes on to the next lane when one is empty');
select is(ff_tap.claimed(p_lanes => '{a,b,c}'), '{}', 'until all are');
rollback to lanes;
select is(
    ff_tap.claimed(p_lanes => '{b,a,c}', p_lane_order => 'global'), '{51}', 'one at a time, global takes the best of all');
rollback to lanes;
select is(
    (select array_agg(x order by x)
     from (select ff_tap.claimed(p_lanes => '{a,b,c}') as ids from generate_series(1, 9)) as c
     cross join unnest(c.ids) as x), '{31,32,33,34,41,42,43,51,52}',
    'one at a time, fair leaves nothing in any lane');
rollback to lanes;
select is(ff_tap.claimed(p_max => 100, p_lanes => '{a}'), '{31,32,33,34}', 'other lanes are left alone');
rollback to lanes;
select is(ff_tap.claimed(p_lanes => '{nobody,"has this"}'), '{}', 'unknown lanes are empty');
select is(ff_tap.claimed(p_lanes => '{nobody,b}'), '{41}', 'and hide no others');
rollback to lanes;
select is(ff_tap.claimed(p_lanes => '[7:7]={b}'::text[]), '{41}', 'an array may start anywhere');
rollback to lanes;
select flowfabric.ff_set_lane_state('a', 'paused'), flowfabric.ff_set_lane_state('c', 'draining');
select flowfabric.ff_set_lane_state('b', 'disabled');
select is(ff_tap.claimed(p_lanes => '{a}'), '{}', 'a paused lane is not served');
select is(ff_tap.claimed(p_max => 3, p_lanes => '{b}'), '{}', 'nor is a disabled one');
select is(ff_tap.claimed(p_max => 100, p_lanes => '{a,b,c}'), '{51,52}', 'a draining lane is');
select flowfabric.ff_set_lane_state('a', 'active');
select is(ff_tap.claimed(p_lanes => '{a}'), '{31}', 'a lane that is active again is served');
rollback to queue;

-- Namespace, partition, worker
select ff_tap.execution(ff_tap.id(60), p_namespace => 'tenant');
select is(ff_tap.claimed(p_max => 100, p_namespace => 'tenant'), '{60}', 'a namespace sees its own executions only');
rollback to queue;
select ff_tap.execution('{fp:3}:00000000-0000-4000-8000-000000000061');
select is(ff_tap.claimed(p_max => 100, p_partition_key => 3), '{61}', 'a partition sees its own executions only');
rollback to queue;
select flowfabric.ff_register_worker('pool', 'pool-1', p_namespace => 'default', p_liveness_ttl_ms => 1000);
select flowfabric.ff_drain_worker('pool-1', p_namespace => 'default');
select is(ff_tap.claimed(p_namespace => 'default'), '{}', 'a draining worker gets nothing');
select is(ff_tap.claimed(), '{11}', 'a worker that names no namespace is not looked up');
select is(ff_tap.claimed(p_namespace => 'tenant'), '{}', 'the registration of another namespace does not count');
select ff_tap.advance_time(1000);
select is(ff_tap.claimed(p_namespace => 'default'), '{12}', 'a lapsed registration drains nobody');
select flowfabric.ff_register_worker('pool', 'pool-1', p_namespace => 'default', p_liveness_ttl_ms => 1000);
select is(ff_tap.claimed(p_namespace => 'default'), '{13}', 'a registered worker that is not draining is served');
rollback to queue;

-- Grants of others
select ff_tap.freeze_time(3000);
select flowfabric.ff_issue_claim_grant(ff_tap.id(11), 'other', 'other-1', 'default', p_grant_ttl_ms => 500);
savepoint granted;
select is(ff_tap.claimed(), '{12}', 'what is granted to another worker is left to it');
select is(ff_tap.claimed(p_max => 2), '{13,16}', 'by a batch too');
select is((select count(*) from flowfabric.ff_claim_grant), 1::bigint, 'and the grant stands');
rollback to granted;
select ff_tap.freeze_time(3500);
select is(ff_tap.claimed(), '{12}', 'in the millisecond it expires a grant is still good');
rollback to granted;
select ff_tap.freeze_time(3501);
select is(ff_tap.claimed(), '{11}', 'an expired grant holds nobody off');
select is_empty('select from flowfabric.ff_claim_grant', 'and is deleted with the claim');
rollback to granted;
select ff_tap.freeze_time(3501);
select is(ff_tap.claimed(p_max => 2), '{11,12}', 'an expired grant holds no batch off');
select is_empty('select from flowfabric.ff_claim_grant', 'and is deleted there too');
rollback to queue;
-- As if another session had issued it between the view of the queue and the lock.
create temporary table held on commit drop as
select h.candidates from flowfabric._ff_lock_head(
    'default', 1, 3, row(null, true, null, '{}', '{}', '{}', true, 2500)::flowfabric.ff_claim_filter) as h;
select flowfabric.ff_issue_claim_grant(ff_tap.id(12), 'other', 'other-1', 'default');
select is(
    (select array_agg(right(c.execution_id, 12)::integer)
     from held as h, flowfabric._ff_claim_taken(h.candidates, 'pool', 'pool-1', 1000, true, true, 2500) as c),
    '{11,13}', 'what was granted at the last moment is left to whom it was granted');
select is(
    ff_tap.vector(ff_tap.id(12)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting', 'untouched');
rollback to queue;

-- Delays
select ff_tap.freeze_time(1500);
select ff_tap.execution(ff_tap.id(70), p_priority => 9000, p_delay_until_ms => 3000);
select ff_tap.execution(ff_tap.id(71), p_priority => 9000, p_delay_until_ms => 2900);
select ff_tap.freeze_time(2899);
savepoint delayed;
select is(ff_tap.claimed(), '{11}', 'a delayed execution waits');
rollback to delayed;
select ff_tap.freeze_time(2900);
select is(ff_tap.claimed(), '{71}', 'one that is due is claimed at that instant, without a scanner');
select is(ff_tap.claimed(), '{11}', 'one that is not due is not');
rollback to delayed;
select ff_tap.freeze_time(3000);
select is(ff_tap.claimed(p_promote_due => false), '{11}', 'a call may leave delays alone');
select is(ff_tap.claimed(p_max => 3), '{70,71,12}', 'the promoted come back to their place in the queue');
select is(
    (select row(e.delay_until_ms, e.blocking_detail, e.blocked_at_ms) from ff_tap.core(ff_tap.id(70)) as e),
    row(null::bigint, null::text, null::bigint), 'nothing of the delay is left');
rollback to delayed;
select ff_tap.execution(ff_tap.id(2000 + n), p_lane_id => 'late', p_delay_until_ms => 2900 + n)
from generate_series(1, 60) as n;
select ff_tap.freeze_time(3000);
select is(ff_tap.claimed(p_lanes => '{late}'), '{2001}', 'many that are due');
select is(
    (select array_agg(distinct (right(e.execution_id::text, 12)::integer <= 2050)::text || ' '
        || ff_tap.public_state(e)::text)
     from flowfabric.ff_exec_core as e where e.lane_id = 'late'),
    '{"false delayed","true active","true waiting"}', 'are promoted 50 per call, longest due first');
select is(ff_tap.claimed(p_max => 100, p_lanes => '{late}'), array(select 2001 + n from generate_series(1, 59) as n),
    'and the rest by the next call');
rollback to queue;

-- Retry, replay, resume
create function ff_tap.fence(p_execution_id text)
returns text
language sql stable
as $$
    select format(
        'p_execution_id => %L, p_lease_id => %L, p_lease_epoch => %s, p_attempt_id => %L', p_execution_id,
        e.current_lease_id, e.current_lease_epoch, e.current_attempt_id)
    from ff_tap.core(p_execution_id) as e
$$;
create function ff_tap.run(p_call text)
returns void
language plpgsql volatile
as $$ begin execute p_call; end; $$;
select ff_tap.freeze_time(4000);
select ff_tap.execution(
    ff_tap.id(80), '{"retry_policy": {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}}}',
    p_lane_id => 'again');
select ff_tap.claimed(p_lanes => '{again}');
select ff_tap.run(format(
    'select flowfabric.ff_fail_execution(%s, p_failure_reason => %L)', ff_tap.fence(ff_tap.id(80)), 'oops'));
select ff_tap.freeze_time(4100);
savepoint failed;
select results_eq(
    $$ select c.lease_epoch, c.attempt_index, c.attempt_type::text, c.handle_kind, c.started_at_ms,
              c.total_attempt_count
       from flowfabric.ff_claim_next('{again}', 'pool', 'pool-1') as c $$,
    $$ values (2::bigint, 1, 'retry', 'fresh', 4000::bigint, 2) $$, 'a retry is a new attempt under the next epoch');
select is(
    (select jsonb_build_array(a.attempt_type, a.retry_reason, a.previous_attempt_index, a.replay_reason)
     from ff_tap.attempt(ff_tap.id(80), 1) as a), '["retry", "oops", 0, null]', 'with its reason and what it follows');
select is(
    (select row(n.pending_retry_reason, n.pending_previous_attempt_index, n.failure_reason)
     from ff_tap.note(ff_tap.id(80)) as n), row(null::text, null::integer, 'oops'::text),
    'the pending lineage is consumed, the failure stays noted');
rollback to failed;
select ff_tap.execution(ff_tap.id(81), p_lane_id => 'again');
select is(ff_tap.claimed(p_max => 2, p_lanes => '{again}'), '{80,81}', 'a retry shares a batch with others');
select is(
    (select array_agg(a.attempt_type::text order by a.execution_id) from flowfabric._ff_all_attempts() as a
     where a.attempt_state = 'started' and a.worker_instance_id = 'pool-1' and a.started_at_ms = 4100),
    '{retry,initial}', 'each gets its own type of attempt');
select ff_tap.run(format('select flowfabric.ff_complete_execution(%s)', ff_tap.fence(ff_tap.id(80))));
select flowfabric.ff_replay_execution(ff_tap.id(80), 'again please', p_requested_by => 'ops', p_force => true);
select is(
    (select row(c.attempt_index, c.attempt_type::text, c.lease_epoch)
     from flowfabric.ff_claim_next('{again}', 'pool', 'pool-1') as c), row(2, 'replay'::text, 3::bigint),
    'a replay is a new attempt too');
select is(
    (select jsonb_build_array(a.replay_reason, a.replay_requested_by, a.replayed_from_attempt_index, a.retry_reason)
     from ff_tap.attempt(ff_tap.id(80), 2) as a), '["again please", "ops", 1, null]', 'with who asked for it');

select ff_tap.execution(
    ff_tap.id(82), '{"timeout_policy": {"attempt_timeout_ms": 600}}', p_lane_id => 'pause');
select ff_tap.claimed(p_lanes => '{pause}');
select e.current_attempt_id as attempt_id from ff_tap.core(ff_tap.id(82)) as e \gset
select ff_tap.freeze_time(4300);
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 5000)', ff_tap.fence(ff_tap.id(82))));
select ff_tap.freeze_time(5000);
savepoint paused;
select is(
    ff_tap.claimed(p_lanes => '{pause}', p_include_resumed => false), '{}',
    'a worker may leave paused attempts to others');
select is(
    (select row(c.attempt_id, c.attempt_index, c.attempt_type::text, c.handle_kind, c.lease_epoch,
        c.attempt_timeout_at_ms, c.total_attempt_count)
     from flowfabric.ff_claim_next('{pause}', 'pool', 'pool-2') as c),
    row(:'attempt_id'::uuid, 0, 'initial'::text, 'resumed'::text, 2::bigint, 5400::bigint, 1),
    'a paused attempt goes on: same index and id, next epoch, the rest of its timeout');
select is(
    (select jsonb_build_array(
        a.attempt_state, a.resumed_at_ms, a.lease_epoch, a.worker_instance_id, a.suspended_at_ms, a.suspension_id,
        a.timeout_remaining_ms, a.started_at_ms)
     from ff_tap.attempt(ff_tap.id(82)) as a),
    '["started", 5000, 2, "pool-2", null, null, null, 4100]', 'its row says so');
select is(
    ff_tap.lease_events(ff_tap.id(82)), '{acquired:claim_next,released:worker_delay,acquired:claim_next}',
    'and so does an event');
rollback to queue;

-- Rolling back
select count(*) as floors from flowfabric.ff_lane_floor \gset
savepoint before_claim;
select is(ff_tap.claimed(p_max => 100), '{11,12,13,16,17,14,15}', 'a claim');
rollback to before_claim;
select is(
    (select row(count(*), (select count(*) from flowfabric.ff_lane_floor))
     from flowfabric.ff_lease_event as v where v.occurred_at_ms = 2500), row(0::bigint, :floors::bigint),
    'that is rolled back leaves nothing, not even a floor');

-- Bad input
select is(ff_tap.refusal($$ null, 'p', 'p-1' $$), 'invalid_input lanes null', 'lanes are required');
select is(ff_tap.refusal($$ '{}', 'p', 'p-1' $$), 'invalid_input lanes empty', 'one lane at least');
select is(
    ff_tap.refusal($$ array(select 'l' || n from generate_series(1, 33) as n), 'p', 'p-1' $$),
    'invalid_input lanes too_many_items', '33 lanes are too many');
select lives_ok(
    $$ select flowfabric.ff_claim_next(array(select 'l' || n from generate_series(1, 32) as n), 'p', 'p-1') $$,
    '32 are not');
select is(ff_tap.refusal($$ '{a,b,a}', 'p', 'p-1' $$), 'invalid_input lanes duplicate', 'a lane counts once');
select is(ff_tap.refusal($$ '{a,null}', 'p', 'p-1' $$), 'invalid_input lanes null', 'a lane has a name');
select is(ff_tap.refusal($$ '{""}', 'p', 'p-1' $$), 'invalid_input lanes empty', 'not an empty one');
select is(
    ff_tap.refusal($$ array[repeat('x', 65)], 'p', 'p-1' $$), 'invalid_input lanes too_long', 'of 64 bytes at most');
select is(
    ff_tap.refusal($$ '{ä}', 'p', 'p-1' $$), 'invalid_input lanes not_printable_ascii', 'in printable ASCII');
select is(ff_tap.refusal($$ '{{a,b}}', 'p', 'p-1' $$), 'invalid_input lanes nested', 'in one dimension');
select ff_tap.execution(ff_tap.id(800 + n), p_lane_id => 'l' || n::text) from generate_series(1, 33) as n;
select is(ff_tap.refusal($$ '{{l1}}', 'p', 'p-1' $$), 'invalid_input lanes nested', 'a known lane too');
select is(
    ff_tap.refusal($$ array(select 'l' || n from generate_series(1, 33) as n), 'p', 'p-1' $$),
    'invalid_input lanes too_many_items', 'and no more than 32, known or not');
select is(ff_tap.refusal($$ '{a}', null, 'p-1' $$), 'invalid_input worker_id null', 'the worker has a name');
select is(
    ff_tap.refusal($$ '{a}', 'p', E'p\t1' $$), 'invalid_input worker_instance_id space_or_control',
    'and its process a clean one');
select is(ff_tap.refusal($$ '{a}', 'p', 'p-1', p_max => 0 $$), 'invalid_input max out_of_range', 'one at least');
select is(ff_tap.refusal($$ '{a}', 'p', 'p-1', p_max => 101 $$), 'invalid_input max out_of_range', '100 at most');
select is(ff_tap.refusal($$ '{a}', 'p', 'p-1', p_max => null $$), 'invalid_input max null', 'or the default');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_lease_ttl_ms => 0 $$), 'invalid_input lease_ttl_ms out_of_range',
    'a lease lasts a millisecond at least');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_lease_ttl_ms => 86400001 $$), 'invalid_input lease_ttl_ms out_of_range',
    'and a day at most');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_namespace => '' $$), 'invalid_input namespace empty',
    'an empty namespace does not mean all of them');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_lane_order => 'random' $$), 'invalid_input lane_order unknown',
    'lane orders have names');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_include_resumed => null $$), 'invalid_input include_resumed null',
    'a flag is yes or no');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', p_partition_key => -1::smallint $$),
    'invalid_input partition_key out_of_range', 'partitions are not negative');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', array(select 't' || n from generate_series(1, 257) as n) $$),
    'invalid_capabilities worker too_many_tokens', '257 capabilities are too many');
select lives_ok(
    $$ select flowfabric.ff_claim_next(
        '{default}', 'p', 'p-1', array(select 't' || n from generate_series(1, 256) as n)) $$, '256 are not');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', array[repeat('x', 4097)] $$), 'invalid_capabilities worker too_many_bytes',
    '4097 bytes are too many');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', array['a,b'] $$), 'invalid_capabilities worker comma_in_token',
    'a token has no comma');
select is(
    ff_tap.refusal($$ '{a}', 'p', 'p-1', array['a', null] $$), 'invalid_capabilities worker non_string_token',
    'a token is a text');
select throws_ok(
    $$ select flowfabric.ff_claim_next('{a}', 'p', 'p-1', array[E'\u00a0']) $$, 'ZV003', 'invalid_capabilities',
    'without white space of any script');

select * from finish();
rollback;
