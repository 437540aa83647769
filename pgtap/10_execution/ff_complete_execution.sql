-- Completion: who may end an execution successfully, what is left afterwards, and what a repeat is told.
begin;
\ir ../helpers.sql
select plan(70);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare complete (text) as select c.* from flowfabric.ff_complete_execution(
    $1, ff_tap.lease_id(), 1, ff_tap.attempt_id()) as c;

-- Create, claim, complete
select ff_tap.execution(
    :'execution',
    '{"timeout_policy": {"attempt_timeout_ms": 4000}, "stream_policy": {"retention_ttl_ms": 60000}}',
    p_namespace => 'tenant', p_lane_id => 'gpu', p_deadline_at_ms => 9000, p_tags => '{"ff.instance_id": "blue"}');
select flowfabric.ff_issue_grant_and_claim(
    :'execution', 600, p_worker_id => 'pool', p_worker_instance_id => 'pool-1', p_lease_id => ff_tap.lease_id(),
    p_attempt_id => ff_tap.attempt_id());
create temporary table before as
select to_jsonb(ff_tap.core(:'execution')) as core, to_jsonb(ff_tap.attempt(:'execution')) as attempt,
    to_jsonb(ff_tap.payload_row(:'execution')) as payload;
select ff_tap.freeze_time(1599);
select results_eq(
    format('execute complete(%L)', :'execution'),
    format($$ values ('completed', %L, 'completed'::flowfabric.ff_public_state) $$, :'execution'),
    'the holder completes in the last millisecond of its lease');
select is(
    ff_tap.vector(:'execution'),
    'terminal / unowned / not_applicable / none / success / attempt_terminal -> completed',
    'a completed execution is terminal with success');
select is(
    to_jsonb(ff_tap.core(:'execution')),
    (select b.core from before as b) || '{
        "lifecycle_phase": "terminal", "ownership_state": "unowned", "terminal_outcome": "success",
        "attempt_state": "attempt_terminal", "current_lease_id": null,
        "current_worker_id": null, "current_worker_instance_id": null, "lease_acquired_at_ms": null,
        "lease_expires_at_ms": null, "lease_last_renewed_at_ms": null, "attempt_is_deferred": true,
        "ended_lease_id": "00000000-0000-4000-8000-00000000001e", "ended_worker_id": "pool",
        "ended_worker_instance_id": "pool-1",
        "attempt_timeout_at_ms": null,
        "deadline_at_ms": null, "terminal_at_ms": 1599, "purge_after_ms": 61599, "last_transition_at_ms": 1599,
        "last_mutation_at_ms": 1599}',
    'the lease and the timers are gone, who held it, epoch and attempt id are kept, retention runs');
select is(
    to_jsonb(ff_tap.attempt(:'execution')),
    (select b.attempt from before as b) || '{"attempt_state": "ended_success", "ended_at_ms": 1599}',
    'the attempt ends in success and keeps the rest');
select is(
    to_jsonb(ff_tap.payload_row(:'execution')), (select b.payload from before as b),
    'without a result nothing is written beside the execution');
select is(
    (select jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch']
     from flowfabric.ff_lease_event as v where v.event_type = 'released'),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'event_type', 'released',
        'reason', 'completed', 'lease_id', ff_tap.lease_id(), 'lease_epoch', 1, 'attempt_index', 0,
        'attempt_id', ff_tap.attempt_id(), 'worker_id', 'pool', 'worker_instance_id', 'pool-1',
        'namespace', 'tenant', 'instance_tag', 'blue', 'occurred_at_ms', 1599),
    'the lease event names the lease that ended');
select is(
    (select jsonb_agg(jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch'])
     from flowfabric.ff_completion_event as v),
    jsonb_build_array(jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'lane_id', 'gpu',
        'attempt_index', 0, 'outcome', 'success', 'namespace', 'tenant', 'instance_tag', 'blue',
        'occurred_at_ms', 1599)),
    'one completion event has namespace and instance tag, also without a flow');
select ok(
    (select v.epoch = c.event_epoch from flowfabric.ff_completion_event as v, flowfabric.ff_partition_config as c),
    'the event belongs to the current epoch of events');

-- Again
select throws_ok(
    format('execute complete(%L)', :'execution'), 'ZC011', 'execution_not_active', 'a repeat is refused');
select is(
    ff_tap.error_of(format('execute complete(%L)', :'execution')),
    jsonb_build_object(
        'code', 'execution_not_active', 'fn', 'ff_complete_execution', 'execution_id', :'execution',
        'lifecycle_phase', 'terminal', 'terminal_outcome', 'success', 'lease_epoch', 1,
        'attempt_id', ff_tap.attempt_id(), 'attempt_state', 'attempt_terminal'),
    'a repeat learns from outcome, epoch and attempt id that the first call won');
select is(ff_tap.completions(:'execution'), array['success'], 'a repeat writes no second event');

-- The result
\set result '{fp:86}:00000000-0000-4000-8000-0000000000a1'
create function ff_tap.every_byte()
returns bytea
language sql immutable
as $$
    select string_agg(set_byte('\x00'::bytea, 0, b), '\x'::bytea order by b) from generate_series(0, 255) as b
$$;
select ff_tap.leased_execution(:'result');
select lives_ok(
    format(
        'select flowfabric.ff_complete_execution('
        '%L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.every_byte(), %L)', :'result', 'raw'),
    'a result of every byte value is accepted');
select results_eq(
    format('select r.* from flowfabric.ff_get_execution_result(%L) as r', :'result'),
    $$ values (ff_tap.every_byte(), 'raw') $$, 'a result comes back byte for byte, with its encoding');
\set empty '{fp:86}:00000000-0000-4000-8000-0000000000a2'
select ff_tap.leased_execution(:'empty');
select flowfabric.ff_complete_execution(:'empty', ff_tap.lease_id(), 1, ff_tap.attempt_id(), '', 'raw');
select results_eq(
    format('select r.* from flowfabric.ff_get_execution_result(%L) as r', :'empty'),
    $$ values (null::bytea, null::text) $$, 'an empty result is none, and an encoding without bytes is dropped');
\set plain '{fp:86}:00000000-0000-4000-8000-0000000000a3'
select ff_tap.leased_execution(:'plain');
select flowfabric.ff_complete_execution(:'plain', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'x', '');
select results_eq(
    format('select r.* from flowfabric.ff_get_execution_result(%L) as r', :'plain'),
    $$ values ('x'::bytea, null::text) $$, 'an empty encoding is none');

-- What a lease carries goes with it
\set laden '{fp:86}:00000000-0000-4000-8000-0000000000b1'
\set neighbour '{fp:86}:00000000-0000-4000-8000-0000000000b2'
select ff_tap.leased_execution(:'laden');
select ff_tap.leased_execution(:'neighbour');
select ff_tap.burden(:'laden');
select ff_tap.burden(:'neighbour');
update flowfabric.ff_stream_meta as m set closed_at_ms = 5, closed_reason = 'lease_expired';
select lives_ok(format('execute complete(%L)', :'laden'), 'an execution with slot, reservation and stream completes');
select is(
    ff_tap.burden_of(:'laden'), 'slot free, released:lease_released, 0 open, stream attempt_success@1599',
    'slot and reservation go back; the stream is closed, whatever had closed it before');
select is(
    ff_tap.burden_of(:'neighbour'), 'slot held, open, 1 open, stream lease_expired@5',
    'another execution keeps its own');
select is(
    (select u.reserved_value from flowfabric.ff_budget_usage as u), 40::bigint,
    'the budget has back what was set aside, and only that');
select is(
    (select count(*) from flowfabric.ff_stream_meta), 2::bigint, 'no stream is made for an attempt that wrote none');

-- Who
\set fenced '{fp:86}:00000000-0000-4000-8000-0000000000c1'
\set overridden '{fp:86}:00000000-0000-4000-8000-0000000000c2'
select ff_tap.leased_execution(:'fenced');
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_worker',
        format(
            'select flowfabric.ff_complete_execution(%L, %L, 1, %L, %L)', :'fenced', ff_tap.lease_id(),
            ff_tap.attempt_id(), 'done')),
    'a worker completes what it holds');
select ff_tap.leased_execution(:'overridden');
select lives_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_operator',
        format(
            'select flowfabric.ff_complete_execution(%L, p_result => %L, p_source => %L)', :'overridden', 'done',
            'operator_override')),
    'an operator completes a live lease without its fence');
select is(
    (ff_tap.payload_row(:'overridden')).result, 'done'::bytea, 'an override stores its result');
select throws_ok(
    format(
        'select ff_tap.as_role(%L, %L)', 'flowfabric_producer',
        format('select flowfabric.ff_complete_execution(%L)', :'overridden')),
    '42501', null, 'a producer has no right to call it');

-- Lease events are a setting, completion events are not
\set quiet '{fp:86}:00000000-0000-4000-8000-0000000000d1'
select ff_tap.leased_execution(:'quiet');
select flowfabric.ff_set_setting('lease_events', 0);
select lives_ok(format('execute complete(%L)', :'quiet'), 'an execution completes without lease events');
select is(
    ff_tap.lease_events(:'quiet'), array['acquired:issue_grant_and_claim'],
    'with lease_events 0 no lease event is written');
select is(ff_tap.completions(:'quiet'), array['success'], 'with lease_events 0 a completion event is written');
select flowfabric.ff_set_setting('lease_events', 1);

-- A flow member
\set flow '00000000-0000-4000-8000-0000000f1000'
\set member '{fp:86}:00000000-0000-4000-8000-0000000000e1'
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 0, 0);
select ff_tap.leased_execution(:'member');
update flowfabric.ff_exec_core as e
set flow_id = :'flow'
where e.execution_id = '00000000-0000-4000-8000-0000000000e1';
select lives_ok(format('execute complete(%L)', :'member'), 'a flow member completes');
select is(
    (select v.flow_id from flowfabric.ff_completion_event as v
     where v.execution_id = '00000000-0000-4000-8000-0000000000e1'),
    :'flow'::uuid, 'its completion event names the flow');
select is(
    ff_tap.vector(:'member'), 'terminal / unowned / not_applicable / none / success / attempt_terminal -> completed',
    'a member ends in the same state');
select throws_ok(
    format('execute complete(%L)', :'member'), 'ZC011', 'execution_not_active', 'a repeat for a member is refused');
\set orphan '{fp:86}:00000000-0000-4000-8000-0000000000e2'
select ff_tap.leased_execution(:'orphan');
update flowfabric.ff_exec_core as e
set flow_id = '00000000-0000-4000-8000-0000000f1fff'
where e.execution_id = '00000000-0000-4000-8000-0000000000e2';
select lives_ok(
    format('execute complete(%L)', :'orphan'), 'a member completes although retention has removed its flow');

-- The quick way and the moves leave the same rows: three histories, each completed both ways
create function ff_tap.history(p_execution_id text, p_kind text)
returns void
language plpgsql volatile
as $$
begin
    perform ff_tap.freeze_time(2000);
    perform ff_tap.execution(
        p_execution_id,
        '{"timeout_policy": {"attempt_timeout_ms": 4000}, "stream_policy": {"retention_ttl_ms": 60000},
          "retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}',
        p_deadline_at_ms => 9000, p_tags => '{"ff.instance_id": "blue"}');
    perform flowfabric.ff_issue_grant_and_claim(
        p_execution_id, 600, p_worker_id => 'worker', p_worker_instance_id => 'worker-1',
        p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
    if p_kind = 'renewed' then
        perform ff_tap.freeze_time(2100);
        perform flowfabric.ff_renew_lease(p_execution_id, ff_tap.lease_id(), 1, ff_tap.attempt_id());
        perform ff_tap.burden(p_execution_id);
    elsif p_kind = 'resumed' then
        perform flowfabric.ff_delay_execution(p_execution_id, 2100, ff_tap.lease_id(), 1, ff_tap.attempt_id());
        perform ff_tap.freeze_time(2200);
        perform flowfabric.ff_issue_grant_and_claim(p_execution_id, 600, p_lease_id => ff_tap.lease_id());
    elsif p_kind = 'revoked and reclaimed' then
        perform flowfabric._ff_lose_lease(ff_tap.core(p_execution_id), 'lease_revoked', 'maintenance', 2000);
        perform flowfabric._ff_reclaim_attempt(
            ff_tap.core(p_execution_id), 'worker', 'worker-2', 600, ff_tap.lease_id(), ff_tap.attempt_id(), null,
            null, 10, 2000);
    end if;
    perform ff_tap.freeze_time(2300);
end;
$$;
create function ff_tap.traces(p_execution_id text)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'core', to_jsonb(ff_tap.core(p_execution_id)) - 'execution_id',
        'payload', to_jsonb(ff_tap.payload_row(p_execution_id)) - 'execution_id',
        'note', to_jsonb(ff_tap.note(p_execution_id)) - 'execution_id',
        'burden', ff_tap.burden_of(p_execution_id),
        'attempts', (
            select jsonb_agg(to_jsonb(a) - 'execution_id' order by a.attempt_index)
            from flowfabric._ff_all_attempts() as a, flowfabric.ff_parse_execution_id(p_execution_id) as k
            where a.partition_key = k.partition_key and a.execution_id = k.execution_id),
        'lease events', (
            select jsonb_agg(to_jsonb(v) - array['execution_id', 'event_id'] order by v.event_id)
            from flowfabric.ff_lease_event as v, flowfabric.ff_parse_execution_id(p_execution_id) as k
            where v.partition_key = k.partition_key and v.execution_id = k.execution_id),
        'completion events', (
            select jsonb_agg(to_jsonb(v) - array['execution_id', 'event_id'] order by v.event_id)
            from flowfabric.ff_completion_event as v, flowfabric.ff_parse_execution_id(p_execution_id) as k
            where v.partition_key = k.partition_key and v.execution_id = k.execution_id))
$$;
create temporary table history (kind text, quick text, by_moves text);
insert into history
select
    h.kind, '{fp:86}:00000000-0000-4000-8000-00000000100' || h.n,
    '{fp:86}:00000000-0000-4000-8000-00000000200' || h.n
from unnest(array['fresh', 'renewed', 'resumed', 'revoked and reclaimed']) with ordinality as h (kind, n);
do $$
declare
    v_history record;
begin
    for v_history in select h.* from history as h loop
        perform ff_tap.history(v_history.quick, v_history.kind);
        perform ff_tap.history(v_history.by_moves, v_history.kind);
    end loop;
end;
$$;
select results_eq(
    format(
        $$ select c.outcome from history as h, ff_tap.core(h.quick) as e,
            flowfabric.ff_complete_execution(
                h.quick, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id, %L, 'text') as c $$, 'done'),
    $$ select 'completed' from history $$, 'every history is completed by its lease holder');
select results_eq(
    format(
        $$ select c.outcome from history as h,
            flowfabric.ff_complete_execution(h.by_moves, p_result => %L, p_result_encoding => 'text',
                p_source => 'operator_override') as c $$, 'done'),
    $$ select 'completed' from history $$, 'every history is completed through the moves');
select is(ff_tap.traces(h.quick), ff_tap.traces(h.by_moves), 'a lease that is ' || h.kind || ' ends alike both ways')
from history as h;

-- The premise of the quick way: beside a live lease there is no grant
\set granted '{fp:86}:00000000-0000-4000-8000-0000000000f1'
select ff_tap.execution(:'granted');
select flowfabric.ff_issue_claim_grant(:'granted', 'worker', 'worker-1', 'default');
select flowfabric.ff_claim_execution(
    :'granted', 'worker', 'worker-1', p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
select is_empty('select from flowfabric.ff_claim_grant', 'a claim leaves no grant');
select throws_ok(
    format('select flowfabric.ff_issue_claim_grant(%L, %L, %L, %L)', :'granted', 'worker', 'worker-2', 'default'),
    'ZC012', 'execution_not_eligible', 'no claim grant is issued for a leased execution');
select throws_ok(
    format('select flowfabric.ff_issue_reclaim_grant(%L, %L, %L)', :'granted', 'worker', 'worker-2'),
    'ZC014', 'execution_not_reclaimable', 'no reclaim grant is issued for a live lease');

-- A plan for a small table must not scan it when it has grown
select is(
    ff_tap.sequential_scans(format(
        'select flowfabric.ff_complete_execution(%L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), %L)', :'granted', 'x')),
    0::bigint, 'a completion finds every row by its key');

-- Everything that a fence is for
select ff_tap.refuses_bad_fences(
    'select flowfabric.ff_complete_execution(%1$L, %2$L, %3$L, %4$L, p_source => %5$L)');
select * from finish();
rollback;
