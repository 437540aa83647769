-- Retention: what has ended long enough ago goes, with everything that belongs to it, except events.
begin;
\ir ../helpers.sql
select plan(66);

prepare trim (integer, text, bigint) as
select t.* from flowfabric.ff_trim_retention($1, p_lane_id => $2, p_retention_ms => $3) as t;

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.ended_execution(p_number integer, p_policy jsonb default null, p_lane_id text default 'default')
returns text
language plpgsql volatile
as $$
begin
    perform ff_tap.execution(ff_tap.id(p_number), p_policy, p_lane_id);
    perform flowfabric.ff_cancel_execution(ff_tap.id(p_number), 'test', 'operator_override');
    return ff_tap.id(p_number);
end;
$$;

create function ff_tap.remaining()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(right(e.execution_id::text, 12)::integer order by e.execution_id), '{}')
    from flowfabric.ff_exec_core as e
$$;

-- For the next chapter, which uses the same ids.
create function ff_tap.forget_executions()
returns void
language sql volatile
as $$
    delete from flowfabric.ff_attempt;
    delete from flowfabric.ff_exec_note;
    delete from flowfabric.ff_exec_payload;
    delete from flowfabric.ff_exec_core;
$$;

-- Tables with a row about an execution, by their column execution_id.
create function ff_tap.traces(p_execution_id uuid)
returns text[]
language plpgsql stable
as $$
declare
    v_table regclass;
    v_has_row boolean;
    v_tables text[] := '{}';
begin
    for v_table in
        select a.attrelid::regclass
        from pg_attribute as a
        join pg_class as c on c.oid = a.attrelid
        where c.relnamespace = 'flowfabric'::regnamespace and c.relkind in ('r', 'p')
            and a.attname = 'execution_id' and not a.attisdropped
        order by c.relname
    loop
        execute format('select exists (select from %s as t where t.execution_id = $1)', v_table)
        into v_has_row using p_execution_id;
        if v_has_row then
            v_tables := v_tables || split_part(v_table::text, '.', 2);
        end if;
    end loop;
    return v_tables;
end;
$$;

-- Which tables know an execution, and which of them outlive it
create temporary table outliving (table_name text primary key, reason text not null) on commit drop;
insert into outliving values
    ('ff_completion_event', 'events have a window of their own'),
    ('ff_lease_event', 'events have a window of their own'),
    ('ff_operator_event', 'events have a window of their own'),
    ('ff_signal_event', 'events have a window of their own'),
    ('ff_execution_idempotency', 'a key lives until it expires'),
    ('ff_budget_reservation', 'a key lives until it expires'),
    ('ff_quota_window', 'a start counts until its window has passed'),
    ('ff_cancel_backlog_member', 'protects its execution, and goes when that ends');

\set flow '00000000-0000-4000-8000-00000000f10e'
\set upstream '00000000-0000-4000-8000-000000000a01'
select right(ff_tap.id(1), 36) as uuid, ff_tap.id(1) as execution \gset
select ff_tap.freeze_time(1000);
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 3, 1000, 9007199254740991);
select flowfabric.ff_create_execution(
    'test', p_execution_id => :'execution', p_idempotency_key => 'key', p_dedup_ttl_ms => 31536000000000);
-- An attempt with a policy of its own has its row from the start.
select flowfabric.ff_issue_grant_and_claim(
    :'execution', 30000, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id(),
    p_attempt_policy => '{}');
update flowfabric.ff_exec_core as e set flow_id = :'flow';
select flowfabric.ff_set_execution_tags(:'execution', '{"app.run": "7"}');
select flowfabric.ff_complete_execution(:'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'result');
select flowfabric._ff_note_failure(ff_tap.core(:'execution'), 'a note');
insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms, closed_at_ms)
values (86, :'uuid', 0, 1000, 1000);
insert into flowfabric.ff_stream_frame (
    partition_key, execution_id, attempt_index, ts_ms, seq, frame_type, frame_ts_ms, payload, encoding, source, mode)
values (86, :'uuid', 0, 1000, 0, 'log', 1000, 'x', 'utf8', 'worker', 'durable');
insert into flowfabric.ff_stream_summary (
    partition_key, execution_id, attempt_index, document_json, version, patch_kind, last_updated_ms, first_applied_ms)
values (86, :'uuid', 0, '{}', 1, 'json-merge-patch', 1000, 1000);
insert into flowfabric.ff_claim_grant (
    partition_key, execution_id, grant_ttl_ms, issued_at_ms, expires_at_ms, grant_id, kind, worker_id,
    worker_instance_id)
values (86, :'uuid', 1, 1000, 1001, 'x', 'claim', 'w', 'w-1');
insert into flowfabric.ff_suspension_current (
    partition_key, execution_id, suspension_id, attempt_index, suspended_at_ms, reason_code, requested_by, condition,
    consume_matched_signals, retain_signal_buffer_until_closed, close_waitpoint_on_resume, resume_target, closed_at_ms,
    close_reason)
values (
    86, :'uuid', '00000000-0000-4000-8000-000000005059', 0, 1000, 'waiting_for_signal', 'worker', '{}', true, false,
    true, 'runnable', 1000, 'resumed');
insert into flowfabric.ff_suspension_satisfier (
    partition_key, suspension_id, node_path, token, execution_id, signal_id)
values (86, '00000000-0000-4000-8000-000000005059', '', 't', :'uuid', '00000000-0000-4000-8000-0000000051c1');
insert into flowfabric.ff_waitpoint_pending (
    partition_key, waitpoint_id, execution_id, attempt_index, waitpoint_key, state, token_kid, token_fingerprint,
    created_at_ms, closed_at_ms, close_reason)
values (
    86, '00000000-0000-4000-8000-000000003a17', :'uuid', 0, 'wp', 'closed', 'k1', '0123456789abcdef', 1000, 1000,
    'resumed');
insert into flowfabric.ff_signal (
    partition_key, execution_id, signal_id, seq, waitpoint_id, signal_name, created_at_ms, accepted_at_ms,
    observed_effect)
values (
    86, :'uuid', '00000000-0000-4000-8000-0000000051c1', 1, '00000000-0000-4000-8000-000000003a17', 'go', 1000, 1000,
    'no_op');
insert into flowfabric.ff_signal_dedup (partition_key, waitpoint_id, idempotency_key, signal_id, expires_at_ms)
values (86, '00000000-0000-4000-8000-000000003a17', 'k', '00000000-0000-4000-8000-0000000051c1', 9007199254740991);
insert into flowfabric.ff_suspend_dedup (
    partition_key, execution_id, idempotency_key, outcome, created_at_ms, expires_at_ms)
values (86, :'uuid', 'k', 'suspended', 1000, 9007199254740991);
insert into flowfabric.ff_quota_window (quota_policy_id, partition_key, execution_id, admitted_at_ms)
values ('q', 86, :'uuid', 1000);
insert into flowfabric.ff_quota_admitted (
    quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
values ('q', 86, :'uuid', 1000, 61000, false);
insert into flowfabric.ff_budget_usage_by_exec (
    budget_id, partition_key, execution_id, dimension, delta_total, updated_at_ms)
values ('b', 86, :'uuid', 'tokens', 5, 1000);
insert into flowfabric.ff_budget_reservation (
    budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts, state,
    reserved_at_ms, closed_at_ms, close_reason, expires_at_ms)
values (
    'b', 'r', 86, :'uuid', ff_tap.attempt_id(), 1, '{tokens}', '{30}', 'settled', 1000, 1000, 'settled',
    9007199254740991);
-- Its group, the edge that it waited for, and a resolved edge to somebody who waited for it.
insert into flowfabric.ff_edge (
    partition_key, flow_id, edge_id, upstream_eid, downstream_eid, dep_state, resolved_outcome, created_at_ms,
    staged_at_ms)
values
(86, :'flow', '00000000-0000-4000-8000-0000000000e1', :'upstream', :'uuid', 'satisfied', 'success', 1000, 1000),
(86, :'flow', '00000000-0000-4000-8000-0000000000e2', :'uuid', :'upstream', 'satisfied', 'success', 1000, 1000);
insert into flowfabric.ff_edge_group (
    partition_key, flow_id, downstream_eid, policy_kind, n, success_count, group_state, created_at_ms)
values
(86, :'flow', :'uuid', 'all_of', 1, 1, 'satisfied', 1000),
(86, :'flow', :'upstream', 'all_of', 1, 1, 'satisfied', 1000);
insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
values (86, :'flow', :'uuid', 1000);
insert into flowfabric.ff_scanner_failure (scanner, item_key, failures, last_failed_at_ms)
values ('attempt_timeout', :'execution', 1, 1000);

select is(
    ff_tap.traces(:'uuid'),
    array(
        select k.table_name
        from (
            select c.relname::text
            from pg_attribute as a
            join pg_class as c on c.oid = a.attrelid
            where c.relnamespace = 'flowfabric'::regnamespace and c.relkind in ('r', 'p')
                and a.attname = 'execution_id' and not a.attisdropped
                and c.relname not in (select o.table_name from outliving as o)
            union
            values
                ('ff_completion_event'), ('ff_lease_event'), ('ff_execution_idempotency'), ('ff_budget_reservation'),
                ('ff_quota_window')
        ) as k (table_name)
        order by k.table_name collate "C"),
    'every table that knows an execution has a row about this one, or is known to outlive it');

-- When
select ff_tap.freeze_time(1000 + 86400000 - 1);
select results_eq(
    'select t.* from flowfabric.ff_trim_retention() as t', 'values (0, 0, 0, 0, false)',
    'an ended execution is kept for 24 hours');
select ff_tap.freeze_time(1000 + 86400000);
select results_eq('execute trim(100, null, null)', 'values (1, 0, 0, 0, false)', 'at the instant itself it goes');
select is(
    ff_tap.traces(:'uuid'),
    array[
        'ff_budget_reservation', 'ff_completion_event', 'ff_execution_idempotency', 'ff_lease_event',
        'ff_quota_window'],
    'with everything but its events and what has a lifetime of its own');
select is_empty('select k.signal_id from flowfabric.ff_signal_dedup as k', 'the keys of its signals too');
select results_eq(
    'select d.edge_id from flowfabric.ff_edge as d',
    $$values ('00000000-0000-4000-8000-0000000000e2'::uuid)$$,
    'the edges that it waited for go, those that waited for it stay');
select results_eq(
    'select g.downstream_eid from flowfabric.ff_edge_group as g', format('values (%L::uuid)', :'upstream'),
    'so do their groups');
select is_empty('select g.flow_id from flowfabric.ff_pending_cancel_groups as g', 'and its pending cancels');
select is_empty('select f.scanner from flowfabric.ff_scanner_failure as f', 'and what scanners remember of it');
select is_empty(
    format('select x.execution_id from flowfabric.ff_describe_execution(%L) as x', :'execution'),
    'a reader finds nothing');
select results_eq('execute trim(100, null, null)', 'values (0, 0, 0, 0, false)', 'a repeat finds nothing');

-- A key outlives its execution
prepare create_again (text, text) as
select c.outcome, c.execution_id, c.public_state
from flowfabric.ff_create_execution('test', p_execution_id => $1, p_idempotency_key => $2) as c;
prepare create_batch_again (text) as
select c.outcome, c.execution_id, c.public_state
from flowfabric.ff_create_executions(array['test'], p_idempotency_keys => array[$1]) as c;
select results_eq(
    $$execute create_again(null, 'key')$$, format('values (''duplicate'', %L, null::flowfabric.ff_public_state)', :'execution'),
    'its key still answers with its id and no state');
select results_eq(
    $$execute create_batch_again('key')$$,
    format('values (''duplicate'', %L, null::flowfabric.ff_public_state)', :'execution'), 'in a batch too');
select results_eq(
    format('execute create_again(%L, %L)', :'execution', 'key'),
    format('values (''duplicate'', %L, null::flowfabric.ff_public_state)', :'execution'),
    'also when the call names the id');
select is(ff_tap.vector(:'execution') is null, true, 'none of them creates anything');
update flowfabric.ff_execution_idempotency as i set expires_at_ms = flowfabric.ff_now_ms() + 1;
select results_eq('select k.processed from flowfabric.ff_sweep_dedup() as k', 'values (0)', 'no sweep takes it before its time');
select results_eq(
    $$execute create_again(null, 'key')$$, format('values (''duplicate'', %L, null::flowfabric.ff_public_state)', :'execution'),
    'it counts until the instant itself');
select ff_tap.advance_time(1);
select results_eq(
    format('execute create_again(%L, %L)', :'execution', 'key'),
    format('values (''created'', %L, ''waiting''::flowfabric.ff_public_state)', :'execution'),
    'then its id and its key can be used again');
select is(ff_tap.vector(:'execution') is not null, true, 'and are');

-- A retention of its own, shorter or longer
select ff_tap.forget_executions();
select ff_tap.freeze_time(1000);
select ff_tap.ended_execution(1, '{"stream_policy": {"retention_ttl_ms": 5000}}');
select ff_tap.ended_execution(2, '{"stream_policy": {"retention_ttl_ms": 900000000}}');
select ff_tap.ended_execution(3, '{"stream_policy": {"retention_ttl_ms": 0}}');
select ff_tap.ended_execution(4);
select results_eq('execute trim(100, null, null)', 'values (1, 0, 0, 0, false)', 'a retention of 0 keeps nothing');
select is(ff_tap.remaining(), array[1, 2, 4], 'that one only');
select ff_tap.freeze_time(5999);
select results_eq('execute trim(100, null, null)', 'values (0, 0, 0, 0, false)', 'a shorter retention is kept');
select ff_tap.freeze_time(6000);
select results_eq('execute trim(100, null, null)', 'values (1, 0, 0, 0, false)', 'and no longer');
select ff_tap.freeze_time(2000 + 86400000);
select results_eq(
    'execute trim(1, null, null)', 'values (1, 0, 0, 0, true)', 'a longer one does not stand before the default');
select is(ff_tap.remaining(), array[2], 'and outlasts it');
select results_eq(
    'execute trim(100, null, 0)', 'values (0, 0, 0, 0, false)', 'a given retention does not touch it');
select ff_tap.freeze_time(1000 + 900000000);
select results_eq('execute trim(100, null, null)', 'values (1, 0, 0, 0, false)', 'until its own is over');

-- Another default, given or set
select ff_tap.freeze_time(1000);
select ff_tap.ended_execution(1);
select ff_tap.ended_execution(2);
select ff_tap.freeze_time(3000);
select results_eq('execute trim(1, null, 2000)', 'values (1, 0, 0, 0, true)', 'a retention can be given');
select flowfabric.ff_set_setting('default_retention_ms', 2001);
select results_eq('execute trim(100, null, null)', 'values (0, 0, 0, 0, false)', 'the setting decides otherwise');
select flowfabric.ff_set_setting('default_retention_ms', 2000);
select results_eq('execute trim(100, null, null)', 'values (1, 0, 0, 0, false)', 'at once');
select flowfabric.ff_set_setting('default_retention_ms', 31536000000000);
select results_eq('execute trim(100, null, null)', 'values (0, 0, 0, 0, false)', 'the largest value keeps all');
select flowfabric.ff_set_setting('default_retention_ms', 86400000);

-- Order, over both kinds
select ff_tap.freeze_time(1000);
select ff_tap.ended_execution(1, '{"stream_policy": {"retention_ttl_ms": 4000}}');
select ff_tap.ended_execution(2, '{"stream_policy": {"retention_ttl_ms": 6000}}');
select ff_tap.freeze_time(3000);
select ff_tap.ended_execution(3);
select ff_tap.freeze_time(9000);
select flowfabric.ff_trim_retention(1, p_retention_ms => 3000);
select is(ff_tap.remaining(), array[2, 3], 'the first that was due goes first');
select flowfabric.ff_trim_retention(1, p_retention_ms => 3000);
select is(ff_tap.remaining(), array[2], 'whichever retention it has');
select ff_tap.forget_executions();

-- What has not ended, or no longer
select ff_tap.freeze_time(1000);
select ff_tap.execution(ff_tap.id(1));
select ff_tap.leased_execution(ff_tap.id(2));
select ff_tap.ended_execution(3, '{"stream_policy": {"retention_ttl_ms": 1}}');
select flowfabric.ff_replay_execution(ff_tap.id(3));
select ff_tap.freeze_time(900000000);
select results_eq(
    'execute trim(100, null, 0)', 'values (0, 0, 0, 0, false)', 'waiting, active and replayed executions stay');
select is(ff_tap.remaining(), array[1, 2, 3], 'all of them');

-- What is still needed
select ff_tap.ended_execution(n) from generate_series(4, 8) as n;
update flowfabric.ff_exec_core as e set flow_id = :'flow' where right(e.execution_id::text, 1)::integer between 4 and 7;
insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
values (86, :'flow', right(ff_tap.id(4), 36)::uuid, 'cancelled', 1000);
insert into flowfabric.ff_edge (
    partition_key, flow_id, edge_id, upstream_eid, downstream_eid, dep_state, created_at_ms, staged_at_ms)
values
(86, :'flow', gen_random_uuid(), right(ff_tap.id(5), 36)::uuid, :'upstream', 'unsatisfied', 1000, 1000),
(86, :'flow', gen_random_uuid(), :'upstream', right(ff_tap.id(7), 36)::uuid, 'unsatisfied', 1000, 1000);
insert into flowfabric.ff_cancel_backlog_member (partition_key, flow_id, execution_id)
values (86, :'flow', right(ff_tap.id(6), 36)::uuid);
select results_eq(
    'execute trim(1, null, 0)', 'values (1, 0, 0, 0, true)', 'what is needed does not stand in the way of the rest');
select results_eq('execute trim(100, null, 0)', 'values (1, 0, 0, 0, false)', 'all the rest goes');
select is(
    ff_tap.remaining(), array[1, 2, 3, 4, 5, 6],
    'the outbox, an open outgoing edge and a cancel backlog keep an execution; an open inbound edge does not');
select is_empty(
    format('select d.edge_id from flowfabric.ff_edge as d where d.downstream_eid = %L', right(ff_tap.id(7), 36)),
    'which goes with its child');
delete from flowfabric.ff_dependency_outbox;
delete from flowfabric.ff_cancel_backlog_member;
update flowfabric.ff_edge as d set dep_state = 'impossible', resolved_outcome = 'cancelled'
where d.dep_state = 'unsatisfied';
select results_eq('execute trim(100, null, 0)', 'values (3, 0, 0, 0, false)', 'until they are dealt with');

-- One lane, one partition
select ff_tap.forget_executions();
select ff_tap.ended_execution(1, p_lane_id => 'a');
select ff_tap.ended_execution(2, p_lane_id => 'b');
select results_eq($$execute trim(100, 'b', 0)$$, 'values (1, 0, 0, 0, false)', 'a call can be limited to a lane');
select is(ff_tap.remaining(), array[1], 'and leaves the others alone');
select results_eq($$execute trim(100, '', 0)$$, 'values (1, 0, 0, 0, false)', 'an empty lane is every lane');
select ff_tap.execution('{fp:1}:00000000-0000-4000-8000-000000000031');
select ff_tap.execution('{fp:2}:00000000-0000-4000-8000-000000000032');
select flowfabric.ff_cancel_execution('{fp:1}:00000000-0000-4000-8000-000000000031', 'test', 'operator_override');
select flowfabric.ff_cancel_execution('{fp:2}:00000000-0000-4000-8000-000000000032', 'test', 'operator_override');
select results_eq(
    'select t.* from flowfabric.ff_trim_retention(100, 2::smallint, p_retention_ms => 0) as t',
    'values (1, 0, 0, 0, false)', 'a call can be limited to a partition');
select is(ff_tap.remaining(), array[31], 'and leaves the others alone');

-- A long stream
select ff_tap.forget_executions();
select ff_tap.ended_execution(1);
select ff_tap.ended_execution(2);
insert into flowfabric.ff_stream_frame (
    partition_key, execution_id, attempt_index, ts_ms, seq, frame_type, frame_ts_ms, payload, encoding, source, mode)
select 86, right(ff_tap.id(1), 36)::uuid, i / 5000, i, 0, 'log', 1000, '', 'utf8', 'worker', 'durable'
from generate_series(0, 20000) as i;
select results_eq(
    'execute trim(100, null, 0)', 'values (1, 0, 0, 0, true)',
    'a long stream is not deleted at once, asks for another call and does not stop the others');
select is(
    (select row(count(*), min(f.ts_ms)) from flowfabric.ff_stream_frame as f), row(10001::bigint, 10000::bigint),
    'the first 10000 frames are gone');
select is(ff_tap.remaining(), array[1], 'and the execution is still there');
select results_eq('execute trim(100, null, 0)', 'values (0, 0, 0, 0, true)', 'the next call goes on');
select results_eq('execute trim(100, null, 0)', 'values (1, 0, 0, 0, false)', 'the last one takes the execution too');
select is(
    (select row(count(*), cardinality(ff_tap.remaining())) from flowfabric.ff_stream_frame as f), row(0::bigint, 0),
    'nothing is left');

-- Flows
delete from flowfabric.ff_edge;
delete from flowfabric.ff_edge_group;
delete from flowfabric.ff_flow_core;
create function ff_tap.flow(p_number integer, p_state text, p_nodes integer, p_mutated_at_ms bigint)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_flow_core (
        partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms,
        last_mutation_at_ms)
    values (86, right(ff_tap.id(p_number), 36)::uuid, 'test', 'default', p_state, p_nodes, 1000, p_mutated_at_ms)
$$;
select ff_tap.freeze_time(2000000000);
select ff_tap.flow(1, 'open', 2, 2000000000 - 604800000);
select ff_tap.flow(2, 'open', 2, 2000000000 - 604800000 + 1);
select ff_tap.flow(3, 'open', 0, 1000);
select ff_tap.flow(4, 'cancelled', 0, 1000);
select ff_tap.flow(5, 'open', 1, 1000);
select ff_tap.execution(ff_tap.id(9));
update flowfabric.ff_exec_core as e set flow_id = right(ff_tap.id(5), 36)::uuid;
insert into flowfabric.ff_edge (
    partition_key, flow_id, edge_id, upstream_eid, downstream_eid, dep_state, resolved_outcome, created_at_ms,
    staged_at_ms)
values (
    86, right(ff_tap.id(1), 36)::uuid, gen_random_uuid(), :'upstream', :'uuid', 'satisfied', 'success', 1000, 1000);
insert into flowfabric.ff_edge_group (
    partition_key, flow_id, downstream_eid, policy_kind, n, success_count, created_at_ms)
values (86, right(ff_tap.id(1), 36)::uuid, :'uuid', 'all_of', 1, 1, 1000);
insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
values (86, right(ff_tap.id(1), 36)::uuid, :'uuid', 1000);
insert into flowfabric.ff_cancel_backlog (
    partition_key, flow_id, requested_at_ms, grace_until_ms, cancellation_policy)
values (86, right(ff_tap.id(1), 36)::uuid, 1000, 1000, 'cancel_all');
insert into flowfabric.ff_cancel_backlog_member (partition_key, flow_id, execution_id)
values (86, right(ff_tap.id(1), 36)::uuid, :'uuid');
insert into flowfabric.ff_flow_summary (
    partition_key, flow_id, total_members, sampled_members, public_flow_state, last_summary_update_at)
values (86, right(ff_tap.id(1), 36)::uuid, 2, 2, 'completed', 1000);
insert into flowfabric.ff_flow_tag (partition_key, flow_id, tags, updated_at_ms)
values (86, right(ff_tap.id(1), 36)::uuid, '{"app.run": "7"}', 1000);
select results_eq(
    $$execute trim(100, 'default', null)$$, 'values (0, 0, 0, 0, false)', 'a call for a lane leaves flows alone');
select results_eq(
    'execute trim(1, null, null)', 'values (0, 1, 0, 0, true)', 'flows are limited like executions');
select results_eq('execute trim(100, null, null)', 'values (0, 1, 0, 0, false)', 'the rest follows');
select results_eq(
    'select right(f.flow_id::text, 12)::integer from flowfabric.ff_flow_core as f order by 1', 'values (2), (3), (5)',
    'a flow goes seven days after its last change, once its members are gone or when it was cancelled without any');
select is(
    (select array_agg(t.name order by t.name)
     from (
         select 'ff_edge' as name from flowfabric.ff_edge union all
         select 'ff_edge_group' from flowfabric.ff_edge_group union all
         select 'ff_pending_cancel_groups' from flowfabric.ff_pending_cancel_groups union all
         select 'ff_cancel_backlog' from flowfabric.ff_cancel_backlog union all
         select 'ff_cancel_backlog_member' from flowfabric.ff_cancel_backlog_member union all
         select 'ff_flow_summary' from flowfabric.ff_flow_summary union all
         select 'ff_flow_tag' from flowfabric.ff_flow_tag
     ) as t),
    null, 'with everything that belongs to it');

-- A failing item
create function ff_tap.refuse() returns trigger language plpgsql
as $$ begin raise exception 'poisoned'; end $$;
create trigger poison before delete on flowfabric.ff_exec_core
for each row when (old.execution_id = '00000000-0000-4000-8000-000000000011') execute function ff_tap.refuse();
create trigger poison before delete on flowfabric.ff_flow_core for each row execute function ff_tap.refuse();
select ff_tap.ended_execution(11, '{"max_replay_count": 1}');
select ff_tap.ended_execution(12);
select ff_tap.flow(4, 'cancelled', 0, 1000);
select results_eq(
    'execute trim(100, null, 0)', 'values (1, 0, 0, 2, false)', 'what fails does not stop the others');
select is(
    (select jsonb_object_agg(f.item_key, f.last_error) from flowfabric.ff_scanner_failure as f),
    jsonb_build_object(right(ff_tap.id(4), 36), 'P0001 poisoned', ff_tap.id(11), 'P0001 poisoned'), 'and is recorded');
select isnt(ff_tap.payload_row(ff_tap.id(11)), null, 'nothing of it was deleted');

-- Refusals
select throws_ok('execute trim(0, null, null)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute trim(10001, null, null)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select throws_ok('execute trim(null, null, null)', 'ZV001', 'invalid_input', 'a limit is required');
select throws_ok('execute trim(1, null, -1)', 'ZV001', 'invalid_input', 'a retention is not negative');
select is(
    ff_tap.error_of('execute trim(1, null, 31536000000001)'),
    '{"code": "invalid_input", "fn": "ff_trim_retention", "field": "retention_ms", "reason": "out_of_range",
      "value": "31536000000001"}',
    'and is a number that every client can hold');
select throws_ok($$execute trim(1, 'ä', null)$$, 'ZV001', 'invalid_input', 'a lane is printable ASCII');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');

select * from finish();
rollback;
