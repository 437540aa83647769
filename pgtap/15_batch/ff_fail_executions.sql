-- Failure in batches: retries and ends in one call, each item as the single call would, and no item harms another.
begin;
\ir ../helpers.sql
select plan(92);

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
        to_jsonb(ff_tap.note(p_execution_id)), ff_tap.lease_events(p_execution_id),
        ff_tap.completions(p_execution_id))
$$;

create temporary table item (
    number integer,
    execution_id text,
    lease_id uuid default ff_tap.lease_id(),
    lease_epoch bigint default 1,
    attempt_id uuid default ff_tap.attempt_id(),
    failure_reason text,
    failure_category text,
    retry_policy jsonb,
    expected text
);
create function ff_tap.fail()
returns setof flowfabric.ff_failure_item
language sql volatile
as $$
    select r.*
    from (
        select
            array_agg(i.execution_id order by i.number) as execution_ids,
            array_agg(i.lease_id order by i.number) as lease_ids,
            array_agg(i.lease_epoch order by i.number) as lease_epochs,
            array_agg(i.attempt_id order by i.number) as attempt_ids,
            array_agg(i.failure_reason order by i.number) as failure_reasons,
            array_agg(i.failure_category order by i.number) as failure_categories,
            array_agg(i.retry_policy order by i.number) as retry_policies
        from item as i
    ) as b, flowfabric.ff_fail_executions(
        b.execution_ids, b.lease_ids, b.lease_epochs, b.attempt_ids, b.failure_reasons, b.failure_categories,
        b.retry_policies) as r
$$;
-- What the single call would say about an item that it refuses; a raise writes nothing.
create function ff_tap.single_refusal(p_number integer)
returns jsonb
language sql volatile
as $$
    select ff_tap.error_of(format(
        'select flowfabric.ff_fail_execution(%L, %L, %L, %L, %L, %L, %L)', i.execution_id, i.lease_id, i.lease_epoch,
        i.attempt_id, i.failure_reason, i.failure_category, i.retry_policy))
    from item as i
    where i.number = p_number
$$;

-- A retry and an end in one batch
select ff_tap.leased_execution(
    ff_tap.id(1), '{"retry_policy": {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 10}}}',
    p_lease_expires_at_ms => 1600, p_attempt_timeout_ms => 4000, p_deadline_at_ms => 9000);
select ff_tap.leased_execution(
    ff_tap.id(2), '{"stream_policy": {"retention_ttl_ms": 60000}}', p_lease_expires_at_ms => 1600,
    p_deadline_at_ms => 9000);
select ff_tap.burden(ff_tap.id(n)) from generate_series(1, 2) as n;
create temporary table before as
select n, to_jsonb(ff_tap.core(ff_tap.id(n))) as core, to_jsonb(ff_tap.attempt(ff_tap.id(n))) as attempt
from generate_series(1, 2) as n;
insert into item (number, execution_id, failure_reason, failure_category) values
    (1, ff_tap.id(2), 'disk full', 'infra_crash'),
    (2, ff_tap.id(1), 'connection reset', 'transient');
select ff_tap.freeze_time(1599);
select results_eq(
    'select r.* from ff_tap.fail() as r',
    $$ values
        (1, ff_tap.id(2), 'terminal_failed', null::text, null::text, null::jsonb,
            'failed'::flowfabric.ff_public_state, null::bigint, null::integer),
        (2, ff_tap.id(1), 'retry_scheduled', null, null, null, 'delayed', 1609, 1) $$,
    'one item is retried, the other ends, in the last millisecond of their leases');
select is(
    ff_tap.vector(ff_tap.id(1)),
    'runnable / unowned / not_eligible_until_time / waiting_for_retry_backoff / none / pending_retry_attempt'
    ' -> delayed',
    'a retried execution waits for its back-off');
select is(
    to_jsonb(ff_tap.core(ff_tap.id(1))),
    (select b.core from before as b where b.n = 1) || '{
        "lifecycle_phase": "runnable", "ownership_state": "unowned", "eligibility_state": "not_eligible_until_time",
        "blocking_reason": "waiting_for_retry_backoff", "attempt_state": "pending_retry_attempt",
        "blocking_detail": "until=1609 attempt=0 reason=connection reset",
        "delay_until_ms": 1609, "retry_count": 1, "current_attempt_id": null, "current_lease_id": null,
        "current_worker_id": null, "current_worker_instance_id": null, "lease_acquired_at_ms": null,
        "lease_expires_at_ms": null, "lease_last_renewed_at_ms": null, "attempt_is_deferred": false,
        "attempt_timeout_at_ms": null,
        "open_reservation_count": 0, "last_transition_at_ms": 1599, "last_mutation_at_ms": 1599}',
    'the lease and the attempt id are gone, epoch and deadline are kept, the retry is counted');
select is(
    to_jsonb(ff_tap.core(ff_tap.id(2))),
    (select b.core from before as b where b.n = 2) || '{
        "lifecycle_phase": "terminal", "ownership_state": "unowned", "terminal_outcome": "failed",
        "attempt_state": "attempt_terminal", "current_lease_id": null,
        "current_worker_id": null, "current_worker_instance_id": null, "lease_acquired_at_ms": null,
        "lease_expires_at_ms": null, "lease_last_renewed_at_ms": null, "attempt_is_deferred": false,
        "ended_lease_id": "00000000-0000-4000-8000-00000000001e", "ended_worker_id": "worker",
        "ended_worker_instance_id": "worker-1", "deadline_at_ms": null,
        "open_reservation_count": 0, "terminal_at_ms": 1599, "purge_after_ms": 61599, "last_transition_at_ms": 1599,
        "last_mutation_at_ms": 1599}',
    'without a retry policy the execution ends; who held it, epoch and attempt id are kept, retention runs');
select is(
    to_jsonb(ff_tap.attempt(ff_tap.id(b.n))),
    b.attempt || jsonb_build_object(
        'attempt_state', 'ended_failure', 'ended_at_ms', 1599,
        'failure_reason', case b.n when 1 then 'connection reset' else 'disk full' end,
        'failure_category', case b.n when 1 then 'transient' else 'infra_crash' end),
    format('attempt of item %s ends in failure with its own reason and category', 3 - b.n))
from before as b
order by b.n;
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.note(ff_tap.id(1)))) - array['partition_key', 'execution_id'],
    '{"failure_reason": "connection reset", "pending_retry_reason": "connection reset",
      "pending_previous_attempt_index": 0}',
    'it is noted what the retry follows');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.note(ff_tap.id(2)))) - array['partition_key', 'execution_id'],
    '{"failure_reason": "disk full"}', 'it is noted why the execution failed');
select is(
    (select jsonb_agg(
        jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch', 'partition_key', 'namespace']
        order by v.execution_id)
     from flowfabric.ff_lease_event as v
     where v.event_type = 'released' and v.execution_id between ff_tap.uuid(1) and ff_tap.uuid(2)),
    (select jsonb_agg(jsonb_build_object(
        'execution_id', ff_tap.uuid(n), 'event_type', 'released',
        'reason', case n when 1 then 'failed_retry_scheduled' else 'failed_terminal' end,
        'lease_id', ff_tap.lease_id(), 'lease_epoch', 1, 'attempt_index', 0, 'attempt_id', ff_tap.attempt_id(),
        'worker_id', 'worker', 'worker_instance_id', 'worker-1', 'occurred_at_ms', 1599))
     from generate_series(1, 2) as n),
    'both leases are released, each for its own reason');
select is(
    ff_tap.events(ff_tap.id(1)),
    array['acquired:issue_grant_and_claim@1000', 'released:failed_retry_scheduled@1599'],
    'a retry is no completion');
select is(
    ff_tap.events(ff_tap.id(2)),
    array['acquired:issue_grant_and_claim@1000', 'released:failed_terminal@1599', 'failed@1599'],
    'at an end the lease is released before the end is told');
select is(
    (select jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch']
     from flowfabric.ff_completion_event as v where v.execution_id = ff_tap.uuid(2)),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', ff_tap.uuid(2), 'lane_id', 'default', 'attempt_index', 0,
        'outcome', 'failed', 'namespace', 'default', 'occurred_at_ms', 1599),
    'the end writes one completion event');
select is(
    ff_tap.burden_of(ff_tap.id(n)), 'slot free, released:lease_released, 0 open, stream attempt_failure@1599',
    format('quota slot, reservation and stream of item %s are settled', 3 - n))
from generate_series(1, 2) as n;
select is(
    (select u.reserved_value from flowfabric.ff_budget_usage as u where u.budget_id = 'budget'), 0::bigint,
    'the reserved amounts are free again');

-- Again
create temporary table answer as select r.* from ff_tap.fail() as r;
select results_eq(
    'select a.item, a.execution_id, a.outcome, a.code, a.sqlstate, a.public_state::text, a.delay_until_ms,
         a.next_attempt_index from answer as a order by a.item',
    $$ select i.number, i.execution_id, 'refused', 'execution_not_active', 'ZC011', null::text, null::bigint,
           null::integer from item as i order by i.number $$,
    'a repeat is refused item by item');
select is(
    (select a.detail from answer as a where a.item = 2),
    jsonb_build_object(
        'code', 'execution_not_active', 'fn', 'ff_fail_executions', 'execution_id', ff_tap.id(1),
        'lifecycle_phase', 'runnable', 'terminal_outcome', 'none', 'lease_epoch', 1,
        'attempt_state', 'pending_retry_attempt', 'delay_until_ms', 1609),
    'the detail of the retried item shows its epoch and that it waits for a retry');
select is(
    (select a.detail -> 'attempt_id' from answer as a where a.item = 1), to_jsonb(ff_tap.attempt_id()),
    'the detail of the ended item names the attempt');

-- The retry is claimed
select ff_tap.freeze_time(1609);
select flowfabric.ff_promote_delayed(ff_tap.id(1));
select results_eq(
    format($$ select c.attempt_index, c.lease_epoch, c.attempt_type::text
        from flowfabric.ff_issue_grant_and_claim(%L, 1000) as c $$, ff_tap.id(1)),
    $$ values (1, 2::bigint, 'retry') $$, 'the next claim starts attempt 1 of type retry under epoch 2');
select is(
    (ff_tap.attempt(ff_tap.id(1), 1)).retry_reason, 'connection reset', 'the new attempt says what it retries');

-- Who is retried, and when: the policy of the execution, a policy for this call, the category
truncate item;
drop table answer;
select ff_tap.freeze_time(2000);
create temporary table rule (
    number integer, stored jsonb, given jsonb, category text, retry_count integer, delay_ms bigint, description text);
insert into rule (number, stored, given, category, retry_count, delay_ms, description) values
    (1, null, null, null, 0, null, 'no policy: no retry'),
    (2, '{"max_retries": 0}', null, null, 0, null, 'no retries allowed: no retry'),
    (3, '{"max_retries": 2}', null, null, 1, 1000, 'the second of two retries'),
    (4, '{"max_retries": 2}', null, null, 2, null, 'a third failure after two retries: no retry'),
    (5, '{"max_retries": 9, "backoff": {"type": "exponential"}}', null, null, 3, 8000, 'exponential back-off'),
    (6, '{"max_retries": 9, "backoff": {"type": "exponential"}}', null, null, 7, 60000, 'the longest back-off'),
    (7, '{"max_retries": 9, "backoff": {"type": "fixed", "delay_ms": 0}}', null, null, 0, 0, 'no back-off'),
    (8, '{"max_retries": 9}', null, 'permanent', 0, null, 'a permanent failure: no retry'),
    (9, '{"max_retries": 9, "retryable_categories": ["timeout"]}', null, 'timeout', 0, 1000, 'a listed category'),
    (10, '{"max_retries": 9, "retryable_categories": ["timeout"]}', null, 'transient', 0, null,
        'a category that is not listed: no retry'),
    (11, '{"max_retries": 9, "retryable_categories": ["timeout"]}', null, '', 0, null,
        'an empty category is none and not listed: no retry'),
    (12, null, '{"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 77}}', null, 0, 77,
        'a policy of the call where none is stored'),
    (13, '{"max_retries": 9}', '{}', null, 0, null, 'a policy of the call replaces the stored one: no retry');
select ff_tap.leased_execution(
    ff_tap.id(100 + r.number), jsonb_strip_nulls(jsonb_build_object('retry_policy', r.stored)))
from rule as r;
update flowfabric.ff_exec_core as e set retry_count = r.retry_count
from rule as r
where e.execution_id = ff_tap.uuid(100 + r.number);
insert into item (number, execution_id, failure_category, retry_policy)
select r.number, ff_tap.id(100 + r.number), r.category, r.given from rule as r;
create temporary table answer as select r.* from ff_tap.fail() as r;
select results_eq(
    format(
        $$ select a.outcome, a.delay_until_ms, a.next_attempt_index, (ff_tap.core(%1$L)).retry_count,
               (ff_tap.attempt(%1$L)).failure_category from answer as a where a.item = %2$s $$,
        ff_tap.id(100 + r.number), r.number),
    format(
        $$ values (%L, %L::bigint, %L::integer, %s, %L) $$,
        case when r.delay_ms is null then 'terminal_failed' else 'retry_scheduled' end, 2000 + r.delay_ms,
        case when r.delay_ms is not null then 1 end, r.retry_count + (r.delay_ms is not null)::integer,
        nullif(r.category, '')),
    r.description)
from rule as r
order by r.number;
select is(
    (ff_tap.core(ff_tap.id(103))).blocking_detail, 'until=3000 attempt=0', 'without a reason the detail has none');
select is((ff_tap.note(ff_tap.id(103))).pending_retry_reason, null, 'without a reason none is noted');

-- A long reason
truncate item;
drop table answer;
select ff_tap.leased_execution(ff_tap.id(130));
insert into item (number, execution_id, failure_reason, retry_policy)
values (1, ff_tap.id(130), repeat('x', 300), '{"max_retries": 1}');
select is((select r.outcome from ff_tap.fail() as r), 'retry_scheduled', 'a batch of one is retried');
select is(
    (ff_tap.core(ff_tap.id(130))).blocking_detail, 'until=3000 attempt=0 reason=' || repeat('x', 200),
    'the detail of the execution has 200 characters of a long reason');
select is((ff_tap.attempt(ff_tap.id(130))).failure_reason, repeat('x', 300), 'the attempt has all of it');

-- Every refusal, one item each, among good ones
truncate item;
select ff_tap.freeze_time(2000);
select ff_tap.leased_execution(ff_tap.id(n))
from unnest(array[10, 15, 16, 20, 21, 23, 24, 25, 26, 29, 30, 31, 32, 34]) as n;
select ff_tap.leased_execution(ff_tap.id(22), p_lease_epoch => 7, p_lease_expires_at_ms => 2500);
select ff_tap.execution(ff_tap.id(17));
select ff_tap.leased_execution(ff_tap.id(18));
select flowfabric.ff_complete_execution(ff_tap.id(18), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.suspended_execution(ff_tap.id(19));
select flowfabric.ff_revoke_lease(ff_tap.id(20), p_reason => 'maintenance');
select ff_tap.leased_execution(ff_tap.id(27), '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(ff_tap.id(27), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.leased_execution(ff_tap.id(28), p_lease_expires_at_ms => 2400);
insert into item (number, execution_id, lease_id, lease_epoch, attempt_id, expected, retry_policy) values
    (1, ff_tap.id(10), ff_tap.lease_id(), 1, ff_tap.attempt_id(), null, null),
    (2, null, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input', null),
    (3, 'nonsense', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input', null),
    (4, '{fp:086}:00000000-0000-4000-8000-000000000010', null, null, null, 'invalid_input', null),
    (5, '{fp:40000}:00000000-0000-4000-8000-000000000010', null, null, null, 'invalid_input', null),
    (6, '{fp:86}:000000000000-4000-8000-0000-00000010', null, null, null, 'invalid_input', null),
    (7, '', null, null, null, 'invalid_input', null),
    (8, ff_tap.id(14), null, 1, null, 'execution_not_found', null),
    (9, ff_tap.id(15), null, null, null, 'fence_required', null),
    (10, ff_tap.id(16), ff_tap.lease_id(), null, ff_tap.attempt_id(), 'partial_fence_triple', null),
    (11, ff_tap.id(17), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active', null),
    (12, ff_tap.id(18), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active', null),
    (13, ff_tap.id(19), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active', null),
    (14, ff_tap.id(20), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'lease_revoked', null),
    (15, ff_tap.id(22), ff_tap.lease_id(), 7, ff_tap.attempt_id(), 'lease_expired', null),
    (16, ff_tap.id(23), :'other', 1, ff_tap.attempt_id(), 'stale_lease', null),
    (17, ff_tap.id(24), ff_tap.lease_id(), 2, ff_tap.attempt_id(), 'stale_lease', null),
    (18, ff_tap.id(25), ff_tap.lease_id(), 1, :'other', 'stale_lease', null),
    (19, ff_tap.id(26), :'other', 0, :'other', 'stale_lease', null),
    (20, ff_tap.id(27), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active', null),
    (21, ff_tap.id(28), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'lease_expired', null),
    (22, upper(ff_tap.id(29)), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input', null),
    (23, ff_tap.id(21), ff_tap.lease_id(), 1, ff_tap.attempt_id(), null, null),
    (24, ff_tap.id(30), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_policy_json', '7'),
    (25, ff_tap.id(31), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_policy_json', '{"max_retries": "many"}'),
    (26, ff_tap.id(32), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_policy_json', '{"max_retries": "many"}'),
    (27, ff_tap.id(36), null, 1, null, 'invalid_policy_json', '[]'),
    (28, 'nonsense', null, null, null, 'invalid_input', '[]'),
    (29, ff_tap.id(33), null, null, null, 'invalid_policy_json', 'null'),
    (30, ff_tap.id(34), ff_tap.lease_id(), 1, ff_tap.attempt_id(), null, '{"max_retries": 0}');
select ff_tap.freeze_time(2500);
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(28));
create temporary table before_refusals as
select i.number, ff_tap.traces(i.execution_id) as traces
from item as i
where i.number between 9 and 21 or i.number between 24 and 26;
create temporary table answer as select r.* from ff_tap.fail() as r;
select results_eq(
    'select a.item, a.execution_id, a.outcome, a.code from answer as a order by a.item',
    $$ select i.number, i.execution_id, case when i.expected is null then 'terminal_failed' else 'refused' end,
           i.expected from item as i order by i.number $$,
    'exactly the bad items are refused, each with its own code, under the id as it was given');
select results_eq(
    'select a.item, a.sqlstate from answer as a order by a.item',
    $$ select i.number, c.sqlstate from item as i left join flowfabric.ff_list_error_codes() as c
       on c.code = i.expected order by i.number $$,
    'each refusal has the SQLSTATE of its code');
select is(
    a.detail, ff_tap.single_refusal(a.item) || '{"fn": "ff_fail_executions"}',
    format('item %s, %s: the detail is that of the single call', a.item, a.code))
from answer as a
where a.code is not null
order by a.item;
select results_eq(
    'select i.number, ff_tap.traces(i.execution_id) from item as i join before_refusals as b using (number) order by 1',
    'select b.number, b.traces from before_refusals as b order by 1',
    'a refused item leaves no trace');
select is(
    (select array_agg(ff_tap.completions(ff_tap.id(n))) from unnest(array[10, 21, 34]) as n),
    array[['failed'], ['failed'], ['failed']], 'the good items among them have failed');

-- One execution twice
truncate item;
drop table answer;
select ff_tap.leased_execution(ff_tap.id(35));
insert into item (number, execution_id, failure_reason, retry_policy) values
    (1, ff_tap.id(35), 'first', null), (2, ff_tap.id(35), 'second', '{"max_retries": 1}'),
    (3, ff_tap.id(35), 'third', '7');
create temporary table answer as select r.* from ff_tap.fail() as r;
select results_eq(
    'select a.item, a.outcome, a.sqlstate, a.detail from answer as a order by a.item',
    $$ select n, case n when 1 then 'terminal_failed' else 'refused' end, case when n > 1 then 'ZV001' end,
           case when n > 1 then jsonb_build_object(
               'code', 'invalid_input', 'fn', 'ff_fail_executions', 'field', 'execution_ids',
               'reason', 'duplicate_in_batch', 'value', ff_tap.id(35)) end
       from generate_series(1, 3) as n $$,
    'the first occurrence is processed, the others are refused');
select is((ff_tap.note(ff_tap.id(35))).failure_reason, 'first', 'the reason is that of the first occurrence');

-- Lease events are a setting
truncate item;
select ff_tap.leased_execution(ff_tap.id(n)) from generate_series(40, 41) as n;
insert into item (number, execution_id, retry_policy)
values (1, ff_tap.id(40), '{"max_retries": 1}'), (2, ff_tap.id(41), null);
select flowfabric.ff_set_setting('lease_events', 0);
select results_eq(
    'select r.outcome from ff_tap.fail() as r', $$ values ('retry_scheduled'), ('terminal_failed') $$,
    'attempts fail without lease events');
select flowfabric.ff_set_setting('lease_events', 1);
select is(
    (select array_agg(ff_tap.lease_events(ff_tap.id(n))) from generate_series(40, 41) as n),
    array[['acquired:issue_grant_and_claim'], ['acquired:issue_grant_and_claim']],
    'nothing is then written about the leases');

-- Members of flows
truncate item;
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 0, 0);
select ff_tap.leased_execution(ff_tap.id(n)) from generate_series(50, 53) as n;
update flowfabric.ff_exec_core as e set flow_id = :'flow'
where e.execution_id between ff_tap.uuid(50) and ff_tap.uuid(51);
select ff_tap.burden(ff_tap.id(n)) from generate_series(50, 51) as n;
insert into item (number, execution_id, failure_reason, retry_policy) values
    (1, ff_tap.id(51), 'broken', null), (2, ff_tap.id(52), 'broken', null),
    (3, ff_tap.id(50), 'broken', '{"max_retries": 1}'), (4, ff_tap.id(53), 'broken', '{"max_retries": 1}');
select results_eq(
    'select r.item, r.outcome, r.public_state::text, r.delay_until_ms, r.next_attempt_index from ff_tap.fail() as r',
    $$ values (1, 'terminal_failed', 'failed', null::bigint, null::integer),
           (2, 'terminal_failed', 'failed', null, null), (3, 'retry_scheduled', 'delayed', 3500, 1),
           (4, 'retry_scheduled', 'delayed', 3500, 1) $$,
    'members of a flow and others are retried and end together');
select is(
    jsonb_build_array(
        to_jsonb(ff_tap.core(ff_tap.id(m.member))) - array['execution_id', 'flow_id', 'quota_policy_id'],
        to_jsonb(ff_tap.attempt(ff_tap.id(m.member))) - 'execution_id',
        to_jsonb(ff_tap.note(ff_tap.id(m.member))) - 'execution_id', ff_tap.lease_events(ff_tap.id(m.member)),
        ff_tap.completions(ff_tap.id(m.member))),
    jsonb_build_array(
        to_jsonb(ff_tap.core(ff_tap.id(m.single))) - array['execution_id', 'flow_id', 'quota_policy_id'],
        to_jsonb(ff_tap.attempt(ff_tap.id(m.single))) - 'execution_id',
        to_jsonb(ff_tap.note(ff_tap.id(m.single))) - 'execution_id', ff_tap.lease_events(ff_tap.id(m.single)),
        ff_tap.completions(ff_tap.id(m.single))),
    'a member that ' || m.what || ' has the rows of an execution without a flow')
from (values (51, 52, 'ends'), (50, 53, 'is retried')) as m (member, single, what);
select is(
    ff_tap.burden_of(ff_tap.id(n)), 'slot free, released:lease_released, 0 open, stream attempt_failure@2500',
    'the quota slot, the reservation and the stream of a member are settled too')
from generate_series(50, 51) as n;

-- A member that the end of an earlier one has ended. The hook stands in for a flow whose join cancels the remaining.
truncate item;
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
    if p_outcome = 'failed' then
        perform flowfabric._ff_cancel(ff_tap.core(ff_tap.id(60)), 'sibling', 'operator_override', p_now_ms);
    end if;
end;
$$;
insert into item (number, execution_id, retry_policy)
values (1, ff_tap.id(61), null), (2, ff_tap.id(60), '{"max_retries": 1}');
select results_eq(
    $$ select r.item, r.outcome, r.code, r.detail ->> 'terminal_outcome' from ff_tap.fail() as r $$,
    $$ values (1, 'terminal_failed', null, null), (2, 'refused', 'execution_not_active', 'cancelled') $$,
    'an item that the end of an earlier one has cancelled is refused and not retried');

-- The call as a whole
create function ff_tap.call(
    p_ids text[], p_leases uuid[] default '{}', p_epochs bigint[] default '{}', p_attempts uuid[] default '{}',
    p_reasons text[] default null, p_categories text[] default null, p_policies jsonb[] default null)
returns text
language sql immutable
as $$
    select format(
        'select * from flowfabric.ff_fail_executions(%L, %L, %L, %L, %L, %L, %L)',
        p_ids, p_leases, p_epochs, p_attempts, p_reasons, p_categories, p_policies)
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
    (ff_tap.call('{a,b}', '{null,null}', '{1,2,3}', '{null,null}'), 'lease_epochs', 'length_mismatch', '3',
        'an array of another length is refused'),
    (ff_tap.call('{}', '{}', '{}', '{}', '{x}'), 'failure_reasons', 'length_mismatch', '1',
        'reasons must be as many as items'),
    (ff_tap.call('{}', '{}', '{}', '{}', null, '{x}'), 'failure_categories', 'length_mismatch', '1',
        'categories must be as many as items'),
    (ff_tap.call('{}', '{}', '{}', '{}', null, null, '{null}'), 'retry_policies', 'length_mismatch', '1',
        'retry policies must be as many as items'),
    (ff_tap.call('{a,b}', '{null,null}', '{1,2}', '{{null},{null}}'), 'attempt_ids', 'length_mismatch', '[1:2][1:1]',
        'a nested array is refused'),
    (ff_tap.call(array_fill('x'::text, array[1001]), array_fill(null::uuid, array[1001]),
        array_fill(1::bigint, array[1001]), array_fill(null::uuid, array[1001])),
        'execution_ids', 'too_many_items', '1001', 'more than 1000 items are refused as a whole')
) as c (call, field, reason, value, description);
select is(
    (select count(*) from flowfabric.ff_fail_executions(
        (select array_agg(ff_tap.id(n)) from generate_series(2001, 3000) as n), array_fill(:'other'::uuid, array[1000]),
        array_fill(1::bigint, array[1000]), array_fill(:'other'::uuid, array[1000])) as r
     where r.code = 'execution_not_found'),
    1000::bigint, '1000 items are taken');
select * from finish();
rollback;
