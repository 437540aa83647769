-- Creation: what an execution starts as, what counts as the same one, and what is refused.
begin;
\ir ../helpers.sql
select plan(202);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'

-- Every table that a creation may write, as one number per table.
create function pg_temp.rows_written() returns text language sql stable
as $$
    select concat_ws(
        ' ',
        (select count(*) from flowfabric.ff_exec_core), (select count(*) from flowfabric.ff_exec_payload),
        (select count(*) from flowfabric.ff_execution_idempotency), (select count(*) from flowfabric.ff_lane_registry),
        (select count(*) from flowfabric.ff_capability_set))
$$;
-- Creates and answers with the outcome; the id is minted unless one is given.
create function pg_temp.outcome(
    p_policy jsonb default null, p_tags jsonb default '{}', p_execution_id text default null,
    p_idempotency_key text default null, p_dedup_ttl_ms bigint default null)
returns text language sql volatile
as $$
    select c.outcome
    from flowfabric.ff_create_execution(
        'test', p_policy => p_policy, p_tags => p_tags, p_execution_id => p_execution_id,
        p_idempotency_key => p_idempotency_key, p_dedup_ttl_ms => p_dedup_ttl_ms) as c
$$;
-- Creates with any arguments and answers with the new row; a function of its own statements sees what it created.
create function pg_temp.created(p_arguments text) returns flowfabric.ff_exec_core language plpgsql volatile
as $$
declare
    v_execution_id text;
begin
    execute format('select execution_id from flowfabric.ff_create_execution(%s)', p_arguments) into v_execution_id;
    return ff_tap.core(v_execution_id);
end;
$$;
create function pg_temp.created_payload(p_arguments text) returns flowfabric.ff_exec_payload language plpgsql volatile
as $$
declare
    v_execution_id text;
begin
    execute format('select execution_id from flowfabric.ff_create_execution(%s)', p_arguments) into v_execution_id;
    return ff_tap.payload_row(v_execution_id);
end;
$$;
create function pg_temp.refusal(p_sql text) returns jsonb language sql volatile
as $$ select ff_tap.error_of(p_sql) - 'fn' $$;

-- Into the queue, and behind it

select results_eq(
    format('select outcome, execution_id, public_state
            from flowfabric.ff_create_execution(%L, p_execution_id => %L)', 'mail', :'execution'),
    format($$ values ('created', %L, 'waiting'::flowfabric.ff_public_state) $$, :'execution'),
    'a kind is enough for an execution');
select is(
    ff_tap.vector(:'execution'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'it waits for a worker');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.core(:'execution'))),
    '{"partition_key": 86, "execution_id": "00000000-0000-4000-8000-000000000001", "namespace": "default",
      "lane_id": "default", "execution_kind": "mail", "priority": 0, "capability_set_id": 1,
      "attempt_is_deferred": false,
      "total_attempt_count": 0, "retry_count": 0, "replay_count": 0, "lease_reclaim_count": 0,
      "open_reservation_count": 0, "current_lease_epoch": 0, "created_at_ms": 1000, "last_transition_at_ms": 1000,
      "last_mutation_at_ms": 1000, "lifecycle_phase": "runnable", "ownership_state": "unowned",
      "eligibility_state": "eligible_now", "blocking_reason": "waiting_for_worker", "terminal_outcome": "none",
      "attempt_state": "pending_first_attempt", "small_payload": "\\x"}'::jsonb,
    'counters and epoch are 0, the times are now, the payload is empty, and everything else is null');
select is(ff_tap.payload_row(:'execution'), null, 'beside it lies nothing');
select is(ff_tap.lease_events(:'execution') || ff_tap.completions(:'execution'), '{}', 'a creation is no event');
select is(
    (select (l.lane_state, l.lane_crc, l.registered_at_ms, l.registered_by)::text
     from flowfabric.ff_lane_registry as l where l.lane_id = 'default'),
    '(active,54870,1000,create_execution)', 'the first execution of a lane registers the lane');
select is(
    (select count(*) from flowfabric.ff_execution_idempotency), 0::bigint, 'without a key no key is recorded');

select flowfabric.ff_create_execution(
    'mail', p_execution_id => :'other', p_delay_until_ms => 1001, p_namespace => 'tenant', p_lane_id => 'gpu',
    p_payload => '\x00ff10', p_payload_encoding => 'msgpack', p_priority => 50, p_creator_identity => 'cron',
    p_execution_deadline_at_ms => 9000, p_tags => '{"app.run": "7", "ff.instance_id": "blue"}',
    p_policy => '{"timeout_policy": {"attempt_timeout_ms": 4000.9}, "stream_policy": {"retention_ttl_ms": 60000},
                  "max_replay_count": 1}') as created;
select is(
    ff_tap.vector(:'other'),
    'runnable / unowned / not_eligible_until_time / waiting_for_delay / none / pending_first_attempt -> delayed',
    'with a delay of one millisecond it is delayed');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.core(:'other'))) - array[
        'partition_key', 'execution_id', 'total_attempt_count', 'retry_count', 'replay_count', 'lease_reclaim_count',
        'open_reservation_count', 'current_lease_epoch', 'lifecycle_phase', 'ownership_state', 'eligibility_state',
        'blocking_reason', 'terminal_outcome', 'attempt_state', 'created_at_ms',
        'last_transition_at_ms', 'last_mutation_at_ms'],
    '{"namespace": "tenant", "lane_id": "gpu", "execution_kind": "mail", "priority": 50, "capability_set_id": 1,
      "attempt_is_deferred": false,
      "delay_until_ms": 1001, "blocking_detail": "until=1001", "deadline_at_ms": 9000, "attempt_timeout_ms": 4000,
      "retention_ms": 60000, "instance_tag": "blue"}'::jsonb,
    'the row holds what the engine reads of the arguments, the policy and the tags');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.payload_row(:'other'))) - array['partition_key', 'execution_id'],
    '{"payload": "\\x00ff10", "payload_encoding": "msgpack", "creator_identity": "cron",
      "tags": {"app.run": "7", "ff.instance_id": "blue"},
      "policy": {"timeout_policy": {"attempt_timeout_ms": 4000.9}, "stream_policy": {"retention_ttl_ms": 60000},
                 "max_replay_count": 1}}'::jsonb,
    'the side row holds bytes, policy and tags as they were given');

select is(
    (select (ff_tap.public_state(e), e.delay_until_ms, e.blocking_detail)::text
     from pg_temp.created(format('%L, p_delay_until_ms => %L', 'test', d.at_ms)) as e),
    d.stored, 'a delay until ' || d.at_ms || ' at 1000 is ' || d.stored)
from (values
    (1000::bigint, '(waiting,,)'), (999, '(waiting,,)'), (0, '(waiting,,)'),
    (253402300799999, '(delayed,253402300799999,until=253402300799999)')
) as d (at_ms, stored);
select is(
    (pg_temp.created(format('%L, p_execution_deadline_at_ms => %L', 'test', d.at_ms))).deadline_at_ms, d.at_ms,
    'a deadline of ' || d.at_ms || ' is stored')
from (values (999::bigint), (0), (253402300799999)) as d (at_ms);
select is(
    (pg_temp.created(format('%L, p_priority => %L', 'test', p.given))).priority, p.stored,
    'a priority of ' || coalesce(p.given::text, 'null') || ' is stored as ' || p.stored)
from (values
    (50, 50), (0, 0), (9000, 9000), (9001, 9000), (10000, 9000), (2147483647, 9000), (-5, 0), (-2147483648, 0),
    (null, 0)
) as p (given, stored);
select is(
    pg_temp.created_payload(
        $$ 'test', p_payload => '', p_payload_encoding => '', p_creator_identity => '', p_policy => '{}',
           p_tags => null, p_idempotency_key => '', p_execution_id => '', p_namespace => null, p_lane_id => null $$),
    null, 'empty arguments count as absent');
select is(
    octet_length((pg_temp.created_payload(
        $$ repeat('k', 256), convert_to(repeat('x', 2000000), 'UTF8'),
           p_policy => jsonb_build_object('retry_policy', jsonb_build_object(
               'retryable_categories', jsonb_build_array(repeat('y', 60000)))) $$)).payload),
    2000000, 'kind, payload and policy may be large');

-- Ids

select matches(
    (select c.execution_id from flowfabric.ff_create_execution('test') as c),
    '^\{fp:86\}:[0-9a-f]{8}-[0-9a-f]{4}-4', 'without an id one is minted on the partition of the lane');
select matches(
    (select c.execution_id from flowfabric.ff_create_execution('test', p_lane_id => 'gpu') as c),
    '^\{fp:144\}:', 'of the very lane');
select is(
    (select c.execution_id
     from flowfabric.ff_create_execution(
         'test', p_execution_id => '{fp:255}:ABCDEF00-0000-0000-0000-000000000000') as c),
    '{fp:255}:abcdef00-0000-0000-0000-000000000000', 'an id may name any partition there is');
select is(
    pg_temp.outcome(p_execution_id => '{fp:255}:abcdef00-0000-0000-0000-000000000000'), 'duplicate',
    'its spelling does not make it another id');

-- The same execution again

select results_eq(
    format('select outcome, execution_id, public_state
            from flowfabric.ff_create_execution(%L, p_execution_id => %L, p_lane_id => %L, p_priority => 7)',
        'other kind', :'other', 'gpu'),
    format($$ values ('duplicate', %L, 'delayed'::flowfabric.ff_public_state) $$, :'other'),
    'an id that exists is a duplicate in its present state');
select is(
    (select (e.execution_kind, e.priority)::text from ff_tap.core(:'other') as e), '(mail,50)',
    'and keeps what it was created with');
select is(
    pg_temp.outcome(p_execution_id => :'execution', p_policy => '[]', p_tags => '3'), 'duplicate',
    'it is a duplicate even if policy and tags are malformed now');

\set keyed '{fp:86}:00000000-0000-4000-8000-00000000000a'
\set later '{fp:86}:00000000-0000-4000-8000-00000000000b'
prepare keyed (text, text) as select outcome, execution_id, public_state from flowfabric.ff_create_execution(
    'test', p_execution_id => $1, p_idempotency_key => $2, p_dedup_ttl_ms => 500);
select results_eq(
    format('execute keyed(%L, %L)', :'keyed', 'order-1'),
    format($$ values ('created', %L, 'waiting'::flowfabric.ff_public_state) $$, :'keyed'),
    'a key that is new creates');
select is(
    (select to_jsonb(i) from flowfabric.ff_execution_idempotency as i where i.idempotency_key = 'order-1'),
    '{"namespace": "default", "idempotency_key": "order-1", "partition_key": 86,
      "execution_id": "00000000-0000-4000-8000-00000000000a", "created_at_ms": 1000, "expires_at_ms": 1500}'::jsonb,
    'the key is recorded until now + ttl');
select pg_temp.rows_written() as rows_before \gset
select results_eq(
    format('execute keyed(%L, %L)', :'later', 'order-1'),
    format($$ values ('duplicate', %L, 'waiting'::flowfabric.ff_public_state) $$, :'keyed'),
    'a known key answers with its execution, whatever id is given');
select results_eq(
    $$ select outcome, execution_id from flowfabric.ff_create_execution(
           'test', p_idempotency_key => 'order-1', p_policy => '"malformed"', p_tags => '{"Bad": 1}') $$,
    format($$ values ('duplicate', %L) $$, :'keyed'),
    'even if policy and tags are malformed now');
select is(pg_temp.rows_written(), :'rows_before', 'a duplicate writes nothing');
select is(
    (select c.outcome from flowfabric.ff_create_execution(
        'test', p_idempotency_key => 'order-1', p_namespace => 'tenant') as c),
    'created', 'another namespace has keys of its own');

select ff_tap.freeze_time(1499);
select is(pg_temp.outcome(p_idempotency_key => 'order-1'), 'duplicate', 'a key lives to its last millisecond');
select ff_tap.freeze_time(1500);
select results_eq(
    format('execute keyed(%L, %L)', :'later', 'order-1'),
    format($$ values ('created', %L, 'waiting'::flowfabric.ff_public_state) $$, :'later'),
    'at its expiry it creates anew');
select is(
    (select (i.execution_id, i.created_at_ms, i.expires_at_ms)::text
     from flowfabric.ff_execution_idempotency as i
     where i.namespace = 'default' and i.idempotency_key = 'order-1'),
    '(00000000-0000-4000-8000-00000000000b,1500,2000)', 'and from then on names the new execution');
select ff_tap.freeze_time(2000);
select is(
    pg_temp.outcome(p_idempotency_key => 'order-1', p_execution_id => :'later'), 'duplicate',
    'an expired key with an id that exists is a duplicate by its id');
select is(
    (select i.expires_at_ms from flowfabric.ff_execution_idempotency as i
     where i.namespace = 'default' and i.idempotency_key = 'order-1'),
    2000::bigint, 'and does not prolong the key');
select ff_tap.freeze_time(1000);

select is(pg_temp.outcome(p_idempotency_key => 'none', p_dedup_ttl_ms => t.ttl_ms), 'created',
    'a ttl of ' || t.ttl_ms || ' records no key')
from (values (0::bigint), (-1), (-9223372036854775808), (0)) as t (ttl_ms);
select is(
    pg_temp.outcome(p_idempotency_key => 'order-1', p_dedup_ttl_ms => 0), 'duplicate', 'but a live one is found');
select is(
    (select count(*) from flowfabric.ff_execution_idempotency where idempotency_key = 'none'), 0::bigint,
    'and nothing was recorded');
select pg_temp.outcome(p_idempotency_key => 'by-default'),
    pg_temp.outcome(p_idempotency_key => 'by-policy', p_policy => '{"dedup_window_ms": 7}'),
    pg_temp.outcome(p_idempotency_key => 'by-policy-0', p_policy => '{"dedup_window_ms": 0}'),
    pg_temp.outcome(p_idempotency_key => 'by-argument', p_policy => '{"dedup_window_ms": 7}', p_dedup_ttl_ms => 9),
    pg_temp.outcome(p_idempotency_key => 'for-ever', p_dedup_ttl_ms => 31536000000000);
select results_eq(
    $$ select idempotency_key collate "default", expires_at_ms - 1000 from flowfabric.ff_execution_idempotency
       where idempotency_key in ('by-default', 'by-policy', 'by-policy-0', 'by-argument', 'for-ever') order by 1 $$,
    $$ values ('by-argument', 9::bigint), ('by-default', 86400000), ('by-policy', 7), ('for-ever', 31536000000000) $$,
    'the window is the argument, else the policy, else 24 hours');

select is(pg_temp.outcome(p_idempotency_key => repeat('é', 256)), 'created', 'a key may have 512 bytes');
select throws_ok(
    $$ select pg_temp.outcome(p_idempotency_key => repeat('x', 513)) $$, 'ZV001', 'invalid_input',
    'a key of 513 bytes is refused');
select is(pg_temp.outcome(p_idempotency_key => E' two\nwords\t'), 'created', 'a key may contain anything');

select pg_temp.outcome(p_execution_id => :'execution', p_idempotency_key => 'not mine');
select is(
    (select count(*) from flowfabric.ff_execution_idempotency where idempotency_key = 'not mine'), 0::bigint,
    'a key does not come to name an execution that it did not create');

delete from flowfabric.ff_exec_payload where execution_id = '00000000-0000-4000-8000-00000000000b';
delete from flowfabric.ff_exec_core where execution_id = '00000000-0000-4000-8000-00000000000b';
select results_eq(
    $$ select outcome, execution_id, public_state
       from flowfabric.ff_create_execution('test', p_idempotency_key => 'order-1') $$,
    format($$ values ('duplicate', %L, null::flowfabric.ff_public_state) $$, :'later'),
    'the key of an execution that retention has removed is a duplicate without a state');

-- Malformed arguments

create temporary table malformed (arguments text, field text, reason text, what text) on commit drop;
insert into malformed values
    ($$ null $$, 'execution_kind', 'null', 'no kind'),
    ($$ '' $$, 'execution_kind', 'empty', 'an empty kind'),
    ($$ 'k', p_lane_id => '' $$, 'lane_id', 'empty', 'an empty lane'),
    ($$ 'k', p_lane_id => repeat('x', 65) $$, 'lane_id', 'too_long', 'a lane of 65 bytes'),
    ($$ 'k', p_lane_id => 'größe' $$, 'lane_id', 'not_printable_ascii', 'a lane beyond ASCII'),
    ($$ 'k', p_lane_id => E'a\nb' $$, 'lane_id', 'not_printable_ascii', 'a lane of two lines'),
    ($$ 'k', p_namespace => '' $$, 'namespace', 'empty', 'an empty namespace'),
    ($$ 'k', p_namespace => repeat('x', 257) $$, 'namespace', 'too_long', 'a namespace of 257 bytes'),
    ($$ 'k', p_namespace => 'a b' $$, 'namespace', 'space_or_control', 'a namespace with a space'),
    ($$ 'k', p_namespace => E'a\u2003b' $$, 'namespace', 'space_or_control', 'a namespace with an em space'),
    ($$ 'k', p_namespace => E'a\u0085' $$, 'namespace', 'space_or_control', 'a namespace with a C1 control character'),
    ($$ 'k', p_idempotency_key => repeat('x', 513) $$, 'idempotency_key', 'too_long', 'a key of 513 bytes'),
    ($$ 'k', p_execution_id => 'x' $$, 'execution_id', 'missing_tag', 'an id without a tag'),
    ($$ 'k', p_execution_id => '{fp:x}:00000000-0000-4000-8000-000000000001' $$, 'execution_id', 'bad_partition',
        'an id without a partition number'),
    ($$ 'k', p_execution_id => '{fp:86}:00000000' $$, 'execution_id', 'bad_uuid', 'an id without a uuid'),
    ($$ 'k', p_execution_id => '{fp:256}:00000000-0000-4000-8000-000000000001' $$, 'execution_id', 'bad_partition',
        'an id on a partition that there is not'),
    ($$ 'k', p_tags => '[]' $$, 'tags', 'not_object', 'a list of tags'),
    ($$ 'k', p_tags => 'null' $$, 'tags', 'not_object', 'a JSON null for tags'),
    ($$ 'k', p_tags => '{"app.a": 1}' $$, 'tags', 'not_string', 'a tag that is a number'),
    ($$ 'k', p_tags => '{"app.a": null}' $$, 'tags', 'not_string', 'a tag that is null'),
    ($$ 'k', p_policy => '{"budget_ids": ["known", "b", "a"]}' $$, 'policy.budget_ids', 'unknown', 'an unknown budget'),
    ($$ 'k', p_policy => '{"budget_ids": [""]}' $$, 'policy.budget_ids', 'unknown', 'an empty budget id'),
    ($$ 'k', p_policy => '{"quota_policy_id": "unknown"}' $$, 'policy.quota_policy_id', 'unknown', 'an unknown quota'),
    ($$ 'k', p_policy => '{"quota_policy_id": ""}' $$, 'policy.quota_policy_id', 'unknown', 'an empty quota id');
insert into flowfabric.ff_budget_policy (
    budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit, created_at_ms, updated_at_ms)
values ('known', 'test', 'test', 'strict', 'fail', 'warn', 0, 0);
insert into flowfabric.ff_quota_policy (
    quota_policy_id, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, created_at_ms,
    updated_at_ms)
values ('known', 1, 1, 1, 0, 0);

select pg_temp.rows_written() as rows_before \gset
select is(
    pg_temp.refusal(format('select flowfabric.ff_create_execution(%s)', m.arguments)) - 'value',
    jsonb_build_object('code', 'invalid_input', 'field', m.field, 'reason', m.reason),
    m.what || ' is refused: ' || m.reason)
from malformed as m;
select throws_ok(
    $$ select flowfabric.ff_create_execution(null) $$, 'ZV001', 'invalid_input', 'its SQLSTATE is ZV001');
select is(
    ff_tap.error_of($$ select flowfabric.ff_create_execution('k', p_policy => '{"budget_ids": ["b", "a"]}') $$),
    '{"code": "invalid_input", "fn": "ff_create_execution", "field": "policy.budget_ids", "reason": "unknown",
      "value": "a"}', 'of several unknown budgets the first is named');

-- Policies

create temporary table bad_policy (policy jsonb, refusal jsonb) on commit drop;
insert into bad_policy
select p.policy::jsonb, jsonb_build_object('code', 'invalid_policy_json', 'path', p.path, 'reason', p.reason)
from (values
    ('[]', '$', 'not_object'),
    ('null', '$', 'not_object'),
    ('"text"', '$', 'not_object'),
    ('7', '$', 'not_object'),
    ('{"routing_requirements": null}', 'routing_requirements', 'not_object'),
    ('{"routing_requirements": []}', 'routing_requirements', 'not_object'),
    ('{"retry_policy": 3}', 'retry_policy', 'not_object'),
    ('{"retry_policy": {"max_retries": "3"}}', 'retry_policy.max_retries', 'not_number'),
    ('{"retry_policy": {"max_retries": null}}', 'retry_policy.max_retries', 'not_number'),
    ('{"retry_policy": {"max_retries": -1}}', 'retry_policy.max_retries', 'not_number'),
    ('{"retry_policy": {"max_retries": 9007199254740992}}', 'retry_policy.max_retries', 'out_of_range'),
    ('{"retry_policy": {"max_retries": 1e400}}', 'retry_policy.max_retries', 'out_of_range'),
    ('{"retry_policy": {"backoff": "fixed"}}', 'retry_policy.backoff', 'not_object'),
    ('{"retry_policy": {"backoff": {"initial_delay_ms": true}}}', 'retry_policy.backoff.initial_delay_ms',
        'not_number'),
    ('{"retry_policy": {"backoff": {"max_delay_ms": "1"}}}', 'retry_policy.backoff.max_delay_ms', 'not_number'),
    ('{"retry_policy": {"backoff": {"multiplier": []}}}', 'retry_policy.backoff.multiplier', 'not_number'),
    ('{"retry_policy": {"backoff": {"delay_ms": {}}}}', 'retry_policy.backoff.delay_ms', 'not_number'),
    ('{"retry_policy": {"retryable_categories": "a"}}', 'retry_policy.retryable_categories', 'not_array'),
    ('{"retry_policy": {"retryable_categories": [["a"]]}}', 'retry_policy.retryable_categories', 'not_array'),
    ('{"timeout_policy": []}', 'timeout_policy', 'not_object'),
    ('{"timeout_policy": {"attempt_timeout_ms": "1"}}', 'timeout_policy.attempt_timeout_ms', 'not_number'),
    ('{"max_reclaim_count": -0.5}', 'max_reclaim_count', 'not_number'),
    ('{"max_replay_count": "x"}', 'max_replay_count', 'not_number'),
    ('{"max_signals_per_execution": false}', 'max_signals_per_execution', 'not_number'),
    ('{"dedup_window_ms": null}', 'dedup_window_ms', 'not_number'),
    ('{"stream_policy": 1}', 'stream_policy', 'not_object'),
    ('{"stream_policy": {"retention_ttl_ms": "1"}}', 'stream_policy.retention_ttl_ms', 'not_number'),
    ('{"budget_ids": "known"}', 'budget_ids', 'not_array'),
    ('{"budget_ids": ["known", 1]}', 'budget_ids', 'not_array'),
    ('{"budget_ids": null}', 'budget_ids', 'not_array'),
    ('{"quota_policy_id": 1}', 'quota_policy_id', 'not_string'),
    ('{"quota_policy_id": null}', 'quota_policy_id', 'not_string')
) as p (policy, path, reason);
insert into bad_policy
select
    jsonb_build_object('routing_requirements', jsonb_build_object('required_capabilities', p.capabilities)),
    jsonb_build_object('code', 'invalid_capabilities', 'side', 'required', 'reason', p.reason)
from (values
    ('null'::jsonb, 'not_array'),
    ('{}', 'not_array'),
    ('"gpu"', 'not_array'),
    ('["gpu", 1]', 'non_string_token'),
    ('[null]', 'non_string_token'),
    ('[["gpu"]]', 'non_string_token'),
    ('["gpu", ""]', 'empty_token'),
    ('["a,b"]', 'comma_in_token'),
    ('["a b"]', 'control_or_whitespace'),
    ('["a\tb"]', 'control_or_whitespace'),
    ('["a\u001f"]', 'control_or_whitespace'),
    ('["a\u007f"]', 'control_or_whitespace'),
    ('["a\u0085"]', 'control_or_whitespace'),
    ('["a\u00a0b"]', 'control_or_whitespace'),
    ('["a\u1680b"]', 'control_or_whitespace'),
    ('["a\u200ab"]', 'control_or_whitespace'),
    ('["a\u2028b"]', 'control_or_whitespace'),
    ('["a\u202fb"]', 'control_or_whitespace'),
    ('["a\u205fb"]', 'control_or_whitespace'),
    ('["a\u3000b"]', 'control_or_whitespace'),
    ('["", 1]', 'empty_token'),
    ('[1, ""]', 'non_string_token'),
    ((select jsonb_agg('c' || n) from generate_series(1, 257) as g (n)), 'too_many_tokens'),
    (jsonb_build_array(repeat('x', 2000), repeat('y', 2096)), 'too_many_bytes'),
    (jsonb_build_array(repeat('é', 2049)), 'too_many_bytes')
) as p (capabilities, reason);

select is(
    pg_temp.refusal(format('select pg_temp.outcome(%L)', b.policy)), b.refusal,
    'the policy ' || left(b.policy::text, 60) || ' is refused: ' || (b.refusal ->> 'reason'))
from bad_policy as b;
select throws_ok(
    $$ select pg_temp.outcome('[]') $$, 'ZV004', 'invalid_policy_json', 'a malformed policy has SQLSTATE ZV004');
select throws_ok(
    $$ select pg_temp.outcome('{"routing_requirements": {"required_capabilities": [""]}}') $$,
    'ZV003', 'invalid_capabilities', 'malformed capabilities have SQLSTATE ZV003');
select is(
    ff_tap.error_of($$ select pg_temp.outcome('{"routing_requirements": {"required_capabilities": {}}}') $$) ->> 'fn',
    'ff_create_execution', 'the refusal names the public function');
select is(
    pg_temp.refusal($$ select pg_temp.outcome('{"budget_ids": ["unknown"], "quota_policy_id": "unknown",
        "max_replay_count": "x", "retry_policy": {"max_retries": "x"},
        "routing_requirements": {"required_capabilities": [""]}}') $$) ->> 'code',
    'invalid_capabilities', 'capabilities are looked at first');
select is(
    pg_temp.refusal($$ select pg_temp.outcome('{"budget_ids": ["unknown"], "quota_policy_id": "unknown",
        "max_replay_count": "x", "retry_policy": {"max_retries": "x"}}') $$) ->> 'path',
    'retry_policy.max_retries', 'then the fields in the order of the documentation');
select is(pg_temp.rows_written(), :'rows_before', 'no refusal has written anything');

create temporary table good_policy (policy jsonb, what text) on commit drop;
insert into good_policy values
    ('{"retry_policy": {}, "timeout_policy": {}, "stream_policy": {}}', 'objects without a field'),
    ('{"retry_policy": {"backoff": {}}}', 'a back-off without a field'),
    ('{"routing_requirements": {}}', 'requirements without capabilities'),
    ('{"routing_requirements": {"required_capabilities": []}}', 'an empty list of capabilities'),
    ('{"retry_policy": {"max_retries": 9007199254740991, "backoff": {"type": "exponential", "multiplier": 1.5}}}',
        'large and fractional numbers'),
    ('{"retry_policy": {"retryable_categories": []}, "budget_ids": []}', 'empty lists'),
    ('{"max_reclaim_count": 0, "max_replay_count": 0, "max_signals_per_execution": 0}', 'zeros');
select is(pg_temp.outcome(g.policy), 'created', 'a policy may have ' || g.what) from good_policy as g;

select is(
    (select (e.attempt_timeout_ms, e.retention_ms, e.budget_ids, e.quota_policy_id)::text
     from pg_temp.created(
         $$ 'test', p_policy => '{"timeout_policy": {"attempt_timeout_ms": 0}, "stream_policy": {"retention_ttl_ms": 0},
                                  "budget_ids": ["known"], "quota_policy_id": "known"}' $$) as e),
    '(,0,{known},known)', 'a timeout of 0 is none, a retention of 0 is at once, budget and quota are stored');

-- Capabilities

create function pg_temp.required(p_tokens jsonb) returns text[] language plpgsql volatile
as $$
declare
    v_exec flowfabric.ff_exec_core;
begin
    v_exec := pg_temp.created(format(
        '%L, p_policy => %L', 'test',
        jsonb_build_object('routing_requirements', jsonb_build_object('required_capabilities', p_tokens))));
    return (
        select s.tokens from flowfabric.ff_capability_set as s where s.capability_set_id = v_exec.capability_set_id);
end;
$$;
select is(
    pg_temp.required('["b", "B", "a", "é", "b", "torch>=2.3"]'), '{B,a,b,torch>=2.3,é}'::text[],
    'required capabilities are distinct and sorted by bytes');
select pg_temp.required('["a", "b"]'), pg_temp.required('["b", "a", "a"]');
select is(
    (select count(*) from flowfabric.ff_capability_set where tokens = '{a,b}'), 1::bigint,
    'the same set, given otherwise, is stored once');
select is(
    cardinality(pg_temp.required((select jsonb_agg('c' || n) from generate_series(1, 256) as g (n)))), 256,
    '256 capabilities are accepted');
select is(
    cardinality(pg_temp.required(
        (select jsonb_agg('c' || n) || jsonb_agg('c' || n) from generate_series(1, 256) as g (n)))), 256,
    'repeated ones do not count');
select is(
    octet_length(array_to_string(pg_temp.required(jsonb_build_array(repeat('x', 2000), repeat('y', 2095))), ',')), 4096,
    '4096 bytes are accepted, commas included');
select is(
    pg_temp.required('["\u200b", "日本語", "naïve", "a\u00adb"]'), array[E'a\u00adb', 'naïve', E'\u200b', '日本語'],
    'anything but white space and control characters may be in a capability');

-- Tags

select is(pg_temp.outcome(p_tags => jsonb_build_object(t.key, 'x')), 'created', 'the tag ' || t.key || ' is accepted')
from (values ('app.run_id'), ('a.b'), ('a1_2.x'), ('app.sub.field'), ('a._'), ('a.0'), ('a.b.')) as t (key);
select throws_ok(
    format('select pg_temp.outcome(p_tags => %L)', jsonb_build_object('app.ok', 'x', t.key, 'x')), 'ZV005',
    'invalid_tag_key', 'the tag ' || to_jsonb(t.key)::text || ' is refused')
from (values
    (''), ('App.x'), ('1app.x'), ('_a.x'), ('app'), ('app.'), ('app..x'), ('.app'), ('ap p.x'), ('a-p.x'), ('app.Foo'),
    ('app.foo bar'), ('app.foo-bar'), (E'app.x\n'), ('äpp.x'), ('app.é')
) as t (key);
select is(
    ff_tap.error_of($$ select pg_temp.outcome(p_tags => '{"b": "x", "app.ok": "x", "Z": "x", "a": "x"}') $$),
    '{"code": "invalid_tag_key", "fn": "ff_create_execution", "key": "Z"}',
    'of several malformed keys the first in byte order is named');
select is(
    length(ff_tap.error_of(format(
        'select pg_temp.outcome(p_tags => %L)', jsonb_build_object(repeat('x', 1000), 'x'))) ->> 'key'), 200,
    'a long one is cut');
select throws_ok(
    $$ select pg_temp.outcome(p_tags => '{"BAD": 1}') $$, 'ZV001', 'invalid_input', 'values are looked at before keys');
update flowfabric.ff_partition_config set instance_tag_key = 'app.instance';
select is(
    (pg_temp.created($$ 'test', p_tags => '{"app.instance": "green", "ff.instance_id": "blue"}' $$)).instance_tag,
    'green', 'the instance tag is the one that is configured');

-- Lanes

select ff_tap.execution(p_execution_id => null, p_lane_id => lane.id)
from (values ('l-paused'), ('l-draining'), ('l-disabled')) as lane (id);
update flowfabric.ff_lane_registry set lane_state = substr(lane_id, 3) where lane_id like 'l-%';
select pg_temp.rows_written() as rows_before \gset
select throws_ok(
    format('select flowfabric.ff_create_execution(%L, p_lane_id => %L)', 'test', 'l-' || s.state), 'ZS034',
    'lane_not_accepting', 'a lane that is ' || s.state || ' accepts nothing')
from (values ('draining'), ('disabled')) as s (state);
select is(
    ff_tap.error_of($$ select flowfabric.ff_create_execution('test', p_lane_id => 'l-draining') $$),
    '{"code": "lane_not_accepting", "fn": "ff_create_execution", "lane_id": "l-draining", "lane_state": "draining"}',
    'the refusal names the lane and its state');
select throws_ok(
    $$ select flowfabric.ff_create_execution('test', p_lane_id => 'l-disabled', p_policy => '[]', p_tags => '[]') $$,
    'ZS034', 'lane_not_accepting', 'the lane is looked at before the policy');
select throws_ok(
    $$ select flowfabric.ff_create_execution('test', p_policy => '[]', p_tags => '[]') $$,
    'ZV004', 'invalid_policy_json', 'the policy is looked at before the tags');
select throws_ok(
    $$ select flowfabric.ff_create_execution('', p_lane_id => 'l-disabled') $$,
    'ZV001', 'invalid_input', 'the arguments are looked at before the lane');
select throws_ok(
    $$ select flowfabric.ff_create_execution('', p_idempotency_key => 'by-default') $$,
    'ZV001', 'invalid_input', 'and before the key');
select is(
    (select c.outcome from flowfabric.ff_create_execution(
        'test', p_lane_id => 'l-disabled', p_idempotency_key => 'by-default') as c),
    'duplicate', 'the key is looked at before the lane');
select is(
    (select c.outcome from flowfabric.ff_create_execution(
        'test', p_lane_id => 'l-disabled', p_execution_id => :'execution') as c),
    'duplicate', 'and so is the id');
select throws_ok(
    $$ select flowfabric.ff_create_execution('test', p_lane_id => 'l-disabled', p_idempotency_key => 'refused') $$,
    'ZS034', 'lane_not_accepting', 'a refusal with a key');
select is(pg_temp.rows_written(), :'rows_before', 'records neither the key nor anything else');
select is(
    (select c.outcome from flowfabric.ff_create_execution('test', p_lane_id => 'l-paused') as c), 'created',
    'a paused lane accepts');

-- Two ways to one row: a plain creation, and one whose id was given

select is(
    to_jsonb(pg_temp.created($$'same', p_priority => 7, p_execution_deadline_at_ms => 9000$$)) - 'execution_id',
    to_jsonb(pg_temp.created(
        $$'same', p_priority => 7, p_execution_deadline_at_ms => 9000,
        p_execution_id => '{fp:86}:00000000-0000-4000-8000-0000000000aa'$$)) - 'execution_id',
    'a minted id and a given one begin with the same row');

-- Who may create

set local role flowfabric_producer;
select outcome as producer_outcome from flowfabric.ff_create_execution('test') \gset
reset role;
select is(:'producer_outcome'::text, 'created', 'a producer creates without any privilege on a table');

select * from finish();
rollback;
