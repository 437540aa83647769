-- Completion in batches: each item as the single call would, one row per item, and no item harms another.
begin;
\ir ../helpers.sql
select plan(69);

select ff_tap.freeze_time(1000);
\set other '00000000-0000-4000-8000-0000000000ff'
\set flow '00000000-0000-4000-8000-00000000f10f'
create function ff_tap.uuid(p_number integer)
returns uuid
language sql immutable
as $$ select ('00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0'))::uuid $$;
create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:' || ff_tap.uuid(p_number)::text $$;
create function ff_tap.traces(p_execution_id text)
returns jsonb
language sql stable
as $$
    select jsonb_build_array(
        to_jsonb(ff_tap.core(p_execution_id)), to_jsonb(ff_tap.attempt(p_execution_id)),
        to_jsonb(ff_tap.payload_row(p_execution_id)), to_jsonb(ff_tap.note(p_execution_id)),
        ff_tap.lease_events(p_execution_id), ff_tap.completions(p_execution_id))
$$;

create temporary table item (
    number integer,
    execution_id text,
    lease_id uuid default ff_tap.lease_id(),
    lease_epoch bigint default 1,
    attempt_id uuid default ff_tap.attempt_id(),
    result bytea,
    result_encoding text,
    expected_code text
);
create function ff_tap.complete()
returns setof flowfabric.ff_execution_item
language sql volatile
as $$
    select r.*
    from (
        select
            array_agg(i.execution_id order by i.number) as execution_ids,
            array_agg(i.lease_id order by i.number) as lease_ids,
            array_agg(i.lease_epoch order by i.number) as lease_epochs,
            array_agg(i.attempt_id order by i.number) as attempt_ids,
            array_agg(i.result order by i.number) as results,
            array_agg(i.result_encoding order by i.number) as result_encodings
        from item as i
    ) as b, flowfabric.ff_complete_executions(
        b.execution_ids, b.lease_ids, b.lease_epochs, b.attempt_ids, b.results, b.result_encodings) as r
$$;
-- What the single call would say about an item that it refuses; a raise writes nothing.
create function ff_tap.single_refusal(p_number integer)
returns jsonb
language sql volatile
as $$
    select ff_tap.error_of(format(
        'select flowfabric.ff_complete_execution(%L, %L, %L, %L)', i.execution_id, i.lease_id, i.lease_epoch,
        i.attempt_id))
    from item as i
    where i.number = p_number
$$;

-- Completing
select ff_tap.execution(
    ff_tap.id(1),
    '{"timeout_policy": {"attempt_timeout_ms": 4000}, "stream_policy": {"retention_ttl_ms": 60000}}',
    p_namespace => 'tenant', p_lane_id => 'gpu', p_deadline_at_ms => 9000, p_tags => '{"ff.instance_id": "blue"}',
    p_payload => 'input');
select flowfabric.ff_issue_grant_and_claim(
    ff_tap.id(1), 600, p_worker_id => 'pool', p_worker_instance_id => 'pool-1', p_lease_id => ff_tap.lease_id(),
    p_attempt_id => ff_tap.attempt_id());
select ff_tap.burden(ff_tap.id(1));
select ff_tap.leased_execution(ff_tap.id(n)) from generate_series(2, 3) as n;
create temporary table before as
select
    to_jsonb(ff_tap.core(ff_tap.id(1))) as core, to_jsonb(ff_tap.attempt(ff_tap.id(1))) as attempt,
    to_jsonb(ff_tap.payload_row(ff_tap.id(1))) as payload;
insert into item (number, execution_id, result, result_encoding) values
    (1, ff_tap.id(3), '', 'ignored'),
    (2, ff_tap.id(1), '\x00ff10', 'binary'),
    (3, ff_tap.id(2), null, 'ignored');
select ff_tap.freeze_time(1599);
select results_eq(
    'select r.* from ff_tap.complete() as r',
    $$ select i.number, i.execution_id, 'completed', null::text, null::text, null::jsonb,
           'completed'::flowfabric.ff_public_state from item as i order by i.number $$,
    'every item is completed, in input order, one of them in the last millisecond of its lease');
select is(
    ff_tap.vector(ff_tap.id(1)),
    'terminal / unowned / not_applicable / none / success / attempt_terminal -> completed',
    'a completed execution is terminal with success');
select is(
    to_jsonb(ff_tap.core(ff_tap.id(1))),
    (select b.core from before as b) || '{
        "lifecycle_phase": "terminal", "ownership_state": "unowned", "terminal_outcome": "success",
        "attempt_state": "attempt_terminal", "current_lease_id": null,
        "current_worker_id": null, "current_worker_instance_id": null, "lease_acquired_at_ms": null,
        "lease_expires_at_ms": null, "lease_last_renewed_at_ms": null, "attempt_is_deferred": true,
        "ended_lease_id": "00000000-0000-4000-8000-00000000001e", "ended_worker_id": "pool",
        "ended_worker_instance_id": "pool-1",
        "attempt_timeout_at_ms": null,
        "deadline_at_ms": null, "open_reservation_count": 0, "terminal_at_ms": 1599, "purge_after_ms": 61599,
        "last_transition_at_ms": 1599, "last_mutation_at_ms": 1599}',
    'the lease and the timers are gone, who held it, epoch and attempt id are kept, retention runs');
select is(
    to_jsonb(ff_tap.attempt(ff_tap.id(1))),
    (select b.attempt from before as b) || '{"attempt_state": "ended_success", "ended_at_ms": 1599}',
    'the attempt ends in success and keeps the rest');
select is(
    to_jsonb(ff_tap.payload_row(ff_tap.id(1))),
    (select b.payload from before as b) || '{"result": "\\x00ff10", "result_encoding": "binary"}',
    'the result is stored byte for byte beside the payload');
select is(
    (select array_agg(p.result is null and p.result_encoding is null)
     from generate_series(2, 3) as n, ff_tap.payload_row(ff_tap.id(n)) as p),
    array[true, true], 'an item without a result, or with an empty one, stores none');
select is(
    (select jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch']
     from flowfabric.ff_lease_event as v
     where v.event_type = 'released' and v.execution_id = ff_tap.uuid(1)),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'event_type', 'released',
        'reason', 'completed', 'lease_id', ff_tap.lease_id(), 'lease_epoch', 1, 'attempt_index', 0,
        'attempt_id', ff_tap.attempt_id(), 'worker_id', 'pool', 'worker_instance_id', 'pool-1',
        'namespace', 'tenant', 'instance_tag', 'blue', 'occurred_at_ms', 1599),
    'the lease event names the lease that ended');
select is(
    (select jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch']
     from flowfabric.ff_completion_event as v where v.execution_id = ff_tap.uuid(1)),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'lane_id', 'gpu',
        'attempt_index', 0, 'outcome', 'success', 'namespace', 'tenant', 'instance_tag', 'blue',
        'occurred_at_ms', 1599),
    'the completion event has namespace and instance tag');
select ok(
    (select bool_and(v.epoch = c.event_epoch)
     from (
         select v.epoch from flowfabric.ff_completion_event as v where v.execution_id = ff_tap.uuid(1)
         union all
         select v.epoch from flowfabric.ff_lease_event as v where v.execution_id = ff_tap.uuid(1)
     ) as v, flowfabric.ff_partition_config as c),
    'the events belong to the current epoch of events');
select is(
    ff_tap.burden_of(ff_tap.id(1)), 'slot free, released:lease_released, 0 open, stream attempt_success@1599',
    'quota slot and reservation go back, and the stream is closed');
select is(
    (select u.reserved_value from flowfabric.ff_budget_usage as u where u.budget_id = 'budget'), 0::bigint,
    'the reserved amount is free again');

-- Again
create temporary table answer as select r.* from ff_tap.complete() as r;
select results_eq(
    'select a.item, a.execution_id, a.outcome, a.code, a.sqlstate, a.public_state from answer as a order by a.item',
    $$ select i.number, i.execution_id, 'refused', 'execution_not_active', 'ZC011', null::flowfabric.ff_public_state
       from item as i order by i.number $$,
    'a repeat is refused item by item');
select is(
    (select a.detail from answer as a where a.item = 2),
    jsonb_build_object(
        'code', 'execution_not_active', 'fn', 'ff_complete_executions', 'execution_id', ff_tap.id(1),
        'lifecycle_phase', 'terminal', 'terminal_outcome', 'success', 'lease_epoch', 1,
        'attempt_id', ff_tap.attempt_id(), 'attempt_state', 'attempt_terminal'),
    'its detail has what a client needs to see that its first call won');

-- Every refusal, one item each, among good ones
truncate item;
drop table answer;
select ff_tap.freeze_time(2000);
select ff_tap.leased_execution(ff_tap.id(n)) from unnest(array[10, 15, 16, 20, 21, 23, 24, 25, 26, 29]) as n;
select ff_tap.leased_execution(ff_tap.id(22), p_lease_epoch => 7, p_lease_expires_at_ms => 2500);
select ff_tap.execution(ff_tap.id(17));
select ff_tap.leased_execution(ff_tap.id(18));
select flowfabric.ff_complete_execution(ff_tap.id(18), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.suspended_execution(ff_tap.id(19));
select flowfabric.ff_revoke_lease(ff_tap.id(20), p_reason => 'maintenance');
select ff_tap.leased_execution(ff_tap.id(27), '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(ff_tap.id(27), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.leased_execution(ff_tap.id(28), p_lease_expires_at_ms => 2400);
insert into item (number, execution_id, lease_id, lease_epoch, attempt_id, expected_code) values
    (1, ff_tap.id(10), ff_tap.lease_id(), 1, ff_tap.attempt_id(), null),
    (2, null, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input'),
    (3, 'nonsense', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input'),
    (4, '{fp:086}:00000000-0000-4000-8000-000000000010', null, null, null, 'invalid_input'),
    (5, '{fp:40000}:00000000-0000-4000-8000-000000000010', null, null, null, 'invalid_input'),
    (6, '{fp:86}:000000000000-4000-8000-0000-00000010', null, null, null, 'invalid_input'),
    (7, '', null, null, null, 'invalid_input'),
    (8, ff_tap.id(14), null, 1, null, 'execution_not_found'),
    (9, ff_tap.id(15), null, null, null, 'fence_required'),
    (10, ff_tap.id(16), ff_tap.lease_id(), null, ff_tap.attempt_id(), 'partial_fence_triple'),
    (11, ff_tap.id(17), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active'),
    (12, ff_tap.id(18), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active'),
    (13, ff_tap.id(19), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active'),
    (14, ff_tap.id(20), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'lease_revoked'),
    (15, ff_tap.id(22), ff_tap.lease_id(), 7, ff_tap.attempt_id(), 'lease_expired'),
    (16, ff_tap.id(23), :'other', 1, ff_tap.attempt_id(), 'stale_lease'),
    (17, ff_tap.id(24), ff_tap.lease_id(), 2, ff_tap.attempt_id(), 'stale_lease'),
    (18, ff_tap.id(25), ff_tap.lease_id(), 1, :'other', 'stale_lease'),
    (19, ff_tap.id(26), :'other', 0, :'other', 'stale_lease'),
    (20, ff_tap.id(27), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active'),
    (21, ff_tap.id(28), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'lease_expired'),
    (22, upper(ff_tap.id(29)), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input'),
    (23, ff_tap.id(21), ff_tap.lease_id(), 1, ff_tap.attempt_id(), null);
select ff_tap.freeze_time(2500);
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(28));
create temporary table before_refusals as
select i.number, ff_tap.traces(i.execution_id) as traces
from item as i
where i.number between 9 and 21;
create temporary table answer as select r.* from ff_tap.complete() as r;
select results_eq(
    'select a.item, a.execution_id, a.outcome, a.code from answer as a order by a.item',
    $$ select i.number, i.execution_id, case when i.expected_code is null then 'completed' else 'refused' end,
           i.expected_code from item as i order by i.number $$,
    'exactly the bad items are refused, each with its own code, under the id as it was given');
select results_eq(
    'select a.item, a.sqlstate from answer as a order by a.item',
    $$ select i.number, c.sqlstate from item as i left join flowfabric.ff_list_error_codes() as c
       on c.code = i.expected_code order by i.number $$,
    'each refusal has the SQLSTATE of its code');
select is(
    a.detail, ff_tap.single_refusal(a.item) || '{"fn": "ff_complete_executions"}',
    format('item %s, %s: the detail is that of the single call', a.item, a.code))
from answer as a
where a.code is not null
order by a.item;
select results_eq(
    'select i.number, ff_tap.traces(i.execution_id) from item as i join before_refusals as b using (number) order by 1',
    'select b.number, b.traces from before_refusals as b order by 1',
    'a refused item leaves no trace');
select is(
    (select array_agg(ff_tap.completions(ff_tap.id(n))) from unnest(array[10, 21]) as n),
    array[['success'], ['success']], 'the good items among them are completed');

-- One execution twice
truncate item;
drop table answer;
select ff_tap.leased_execution('{fp:86}:0000000a-0000-4000-8000-000000000001');
insert into item (number, execution_id, lease_id, result) values
    (1, '{fp:86}:0000000A-0000-4000-8000-000000000001', ff_tap.lease_id(), 'first'),
    (2, '{fp:86}:0000000a-0000-4000-8000-000000000001', ff_tap.lease_id(), 'second'),
    (3, '{fp:86}:0000000a-0000-4000-8000-000000000001', null, null);
create temporary table answer as select r.* from ff_tap.complete() as r;
select results_eq(
    'select a.item, a.execution_id, a.outcome, a.sqlstate, a.detail from answer as a order by a.item',
    $$ select n, '{fp:86}:0000000a-0000-4000-8000-000000000001', case n when 1 then 'completed' else 'refused' end,
           case when n > 1 then 'ZV001' end,
           case when n > 1 then jsonb_build_object(
               'code', 'invalid_input', 'fn', 'ff_complete_executions', 'field', 'execution_ids',
               'reason', 'duplicate_in_batch', 'value', '{fp:86}:0000000a-0000-4000-8000-000000000001') end
       from generate_series(1, 3) as n $$,
    'the first occurrence is processed, the others are refused; upper and lower case are one id');
select is(
    (ff_tap.payload_row('{fp:86}:0000000a-0000-4000-8000-000000000001')).result, 'first'::bytea,
    'the result is that of the first occurrence');
select is(
    ff_tap.completions('{fp:86}:0000000a-0000-4000-8000-000000000001'), array['success'],
    'an execution that occurs three times ends once');

-- A hundred, out of order
truncate item;
drop table answer;
select ff_tap.leased_execution(ff_tap.id(n)) from generate_series(1001, 1100) as n;
insert into item (number, execution_id)
select row_number() over (order by md5(n::text)), ff_tap.id(n::integer) from generate_series(1001, 1100) as n;
select ff_tap.advance_time(5);
create temporary table answer as
select row_number() over () as position, r.* from ff_tap.complete() as r;
select results_eq(
    'select a.position::integer, a.item, a.execution_id, a.outcome from answer as a order by a.position',
    $$ select i.number, i.number, i.execution_id, 'completed' from item as i order by i.number $$,
    'a hundred items are completed and answered in input order');
select results_eq(
    'select distinct ff_tap.events(i.execution_id) from item as i',
    $$ values (array['acquired:issue_grant_and_claim@2500', 'released:completed@2505', 'success@2505']) $$,
    'of each execution the lease is released before its end is told, and all of it happens at one time');
select is(
    (select count(*) from item as i, ff_tap.attempt(i.execution_id) as a
     where a.attempt_state = 'ended_success' and a.ended_at_ms = 2505),
    100::bigint, 'all their attempts end in success');

-- Lease events are a setting
truncate item;
select ff_tap.leased_execution(ff_tap.id(40));
insert into item (number, execution_id) values (1, ff_tap.id(40));
select flowfabric.ff_set_setting('lease_events', 0);
select is((select r.outcome from ff_tap.complete() as r), 'completed', 'a batch of one is completed');
select flowfabric.ff_set_setting('lease_events', 1);
select is(
    ff_tap.lease_events(ff_tap.id(40)), array['acquired:issue_grant_and_claim'],
    'without lease events nothing is written about the lease');
select is(ff_tap.completions(ff_tap.id(40)), array['success'], 'the completion event is written all the same');

-- Members of flows
truncate item;
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 0, 0);
select ff_tap.leased_execution(ff_tap.id(n)) from generate_series(50, 53) as n;
update flowfabric.ff_exec_core as e
set flow_id = case e.execution_id when ff_tap.uuid(52) then :'other' else :'flow' end::uuid
where e.execution_id between ff_tap.uuid(50) and ff_tap.uuid(52);
select ff_tap.burden(ff_tap.id(51));
insert into item (number, execution_id, result) values
    (1, ff_tap.id(51), 'of 51'), (2, ff_tap.id(53), 'of 53'), (3, ff_tap.id(52), null), (4, ff_tap.id(50), null);
select results_eq(
    'select r.item, r.execution_id, r.outcome, r.public_state::text from ff_tap.complete() as r',
    $$ select i.number, i.execution_id, 'completed', 'completed' from item as i order by i.number $$,
    'members of a flow, of a flow that is gone and of none are completed together');
select is(
    (select array_agg(concat_ws(' ', right(v.execution_id::text, 2), v.flow_id::text) order by v.event_id)
     from flowfabric.ff_completion_event as v
     where v.execution_id between ff_tap.uuid(50) and ff_tap.uuid(53)),
    array['51 ' || :'flow', '52 ' || :'other', '50 ' || :'flow', '53'],
    'the completion event of a member names its flow; members end in input order');
select is(
    (select array_agg(ff_tap.vector(ff_tap.id(n)) = ff_tap.vector(ff_tap.id(53))) from generate_series(50, 52) as n),
    array[true, true, true], 'a member ends in the same state as an execution without a flow');
select is((ff_tap.payload_row(ff_tap.id(51))).result, 'of 51'::bytea, 'the result of a member is stored');
select is(
    ff_tap.burden_of(ff_tap.id(51)), 'slot free, released:lease_released, 0 open, stream attempt_success@2505',
    'the quota slot, the reservation and the stream of a member are settled too');

-- A member that the end of an earlier one has ended. The hook stands in for a flow whose join cancels the remaining.
truncate item;
drop table answer;
select ff_tap.leased_execution(ff_tap.id(n)) from generate_series(60, 61) as n;
update flowfabric.ff_exec_core as e set flow_id = :'flow'
where e.execution_id between ff_tap.uuid(60) and ff_tap.uuid(61);
create or replace function flowfabric._ff_on_execution_terminal(
    p_exec flowfabric.ff_exec_core, p_outcome flowfabric.ff_terminal_outcome, p_now_ms bigint)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_emit_completion(p_exec, p_outcome, p_now_ms);
    if p_outcome = 'success' then
        perform flowfabric._ff_cancel(ff_tap.core(ff_tap.id(60)), 'sibling', 'operator_override', p_now_ms);
    end if;
end;
$$;
insert into item (number, execution_id) values (1, ff_tap.id(61)), (2, ff_tap.id(60));
create temporary table answer as select r.* from ff_tap.complete() as r;
select results_eq(
    'select a.item, a.outcome, a.code from answer as a order by a.item',
    $$ values (1, 'completed', null), (2, 'refused', 'execution_not_active') $$,
    'an item that the end of an earlier one has cancelled is refused');
select is(
    (select a.detail ->> 'terminal_outcome' from answer as a where a.item = 2), 'cancelled',
    'its detail says that it was cancelled');
select is(ff_tap.completions(ff_tap.id(60)), array['cancelled'], 'it has ended once');

-- The call as a whole
create function ff_tap.call(
    p_ids text[], p_leases uuid[] default '{}', p_epochs bigint[] default '{}', p_attempts uuid[] default '{}',
    p_results bytea[] default null, p_encodings text[] default null)
returns text
language sql immutable
as $$
    select format(
        'select * from flowfabric.ff_complete_executions(%L, %L, %L, %L, %L, %L)',
        p_ids, p_leases, p_epochs, p_attempts, p_results, p_encodings)
$$;
select is_empty(ff_tap.call('{}'), 'an empty batch gives no rows');
select throws_ok(ff_tap.call(null), 'ZV001', 'invalid_input', 'the ids are required');
select is(
    ff_tap.error_of(c.call) - 'fn',
    jsonb_strip_nulls(jsonb_build_object(
        'code', 'invalid_input', 'field', c.field, 'reason', c.reason, 'value', c.value)),
    c.description)
from (values
    (ff_tap.call(null), 'execution_ids', 'null', null, 'the ids must be given'),
    (ff_tap.call('{}', null), 'lease_ids', 'null', null, 'the lease ids must be given'),
    (ff_tap.call('{}', '{}', null), 'lease_epochs', 'null', null, 'the lease epochs must be given'),
    (ff_tap.call('{}', '{}', '{}', null), 'attempt_ids', 'null', null, 'the attempt ids must be given'),
    (ff_tap.call('{a,b}', '{null}', '{1,2}', '{null,null}'), 'lease_ids', 'length_mismatch', '1',
        'an array of another length is refused'),
    (ff_tap.call('{}', '{}', '{}', '{}', '{x}'), 'results', 'length_mismatch', '1',
        'results must be as many as items'),
    (ff_tap.call('{}', '{}', '{}', '{}', null, '{x}'), 'result_encodings', 'length_mismatch', '1',
        'result encodings must be as many as items'),
    (ff_tap.call('{{a,b}}', '{null,null}', '{1,2}', '{null,null}'), 'execution_ids', 'length_mismatch', '[1:1][1:2]',
        'a nested array is refused'),
    (ff_tap.call(array_fill('x'::text, array[1001]), array_fill(null::uuid, array[1001]),
        array_fill(1::bigint, array[1001]), array_fill(null::uuid, array[1001])),
        'execution_ids', 'too_many_items', '1001', 'more than 1000 items are refused as a whole')
) as c (call, field, reason, value, description);
select is(
    (select count(*) from flowfabric.ff_complete_executions(
        (select array_agg(ff_tap.id(n)) from generate_series(2001, 3000) as n), array_fill(:'other'::uuid, array[1000]),
        array_fill(1::bigint, array[1000]), array_fill(:'other'::uuid, array[1000])) as r
     where r.code = 'execution_not_found'),
    1000::bigint, '1000 items are taken');
select ff_tap.leased_execution(ff_tap.id(70));
select results_eq(
    $$ select r.item, r.outcome from flowfabric.ff_complete_executions(
        '[5:6]={x,"{fp:86}:00000000-0000-4000-8000-000000000070"}', array[null, ff_tap.lease_id()], '[0:1]={1,1}',
        array[null, ff_tap.attempt_id()], '[-1:0]={other,own}', '[5:6]={NULL,text}') as r $$,
    $$ values (1, 'refused'), (2, 'completed') $$, 'items are counted from 1, whatever the bounds of an array');
select results_eq(
    'select r.* from flowfabric.ff_get_execution_result(ff_tap.id(70)) as r', $$ values ('own'::bytea, 'text') $$,
    'and so are their results');
select * from finish();
rollback;
