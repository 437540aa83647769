-- The fields of a policy: what is legal where, and what the refusal of anything else says.
begin;
\ir ../helpers.sql
select plan(96);
select ff_tap.freeze_time(1000000);
create function ff_tap.id(p_number integer) returns text language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

-- The detail of a refusal, without the code and the function, which the first test has.
create function pg_temp.refusal_of(p_policy jsonb) returns jsonb language sql volatile
as $$
    select ff_tap.error_of(format('select flowfabric.ff_create_execution(%L, p_policy => %L)', 'test', p_policy))
        - array['code', 'fn']
$$;
create function pg_temp.nested(p_path text[], p_value jsonb) returns jsonb language plpgsql immutable
as $$
begin
    for v_place in reverse cardinality(p_path) .. 1 loop
        p_value := jsonb_build_object(p_path[v_place], p_value);
    end loop;
    return p_value;
end;
$$;

select throws_ok(
    $$ select flowfabric.ff_create_execution('test', p_policy => '{"max_attempts": 3}') $$,
    'ZV004', 'invalid_policy_json', 'a key that the engine does not know is refused');
select is(
    ff_tap.error_of($$ select flowfabric.ff_create_execution('test', p_policy => '{"bogus": 3}') $$),
    '{"code": "invalid_policy_json", "fn": "ff_create_execution", "path": "bogus", "reason": "unknown_key",
      "key": "bogus", "legal": ["routing_requirements", "retry_policy", "timeout_policy", "max_reclaim_count",
      "max_replay_count", "max_signals_per_execution", "dedup_window_ms", "stream_policy", "budget_ids",
      "quota_policy_id"]}', 'the refusal has the path, the key and the legal keys of the place');

-- What is near

select is(pg_temp.refusal_of(c.policy::jsonb) - array['legal', 'instead'], c.detail::jsonb, c.policy || ': ' || c.fact)
from (values
    ('{"retries": 3}',
        '{"path": "retries", "reason": "unknown_key", "key": "retries", "nearest": "retry_policy.max_retries"}',
        'the nearest field may be in another object'),
    ('{"max_attempts": 3}',
        '{"path": "max_attempts", "reason": "unknown_key", "key": "max_attempts",
          "nearest": "retry_policy.max_retries"}', 'other systems'' words are known'),
    ('{"retry_policy": {"max_attempts": 3}}',
        '{"path": "retry_policy.max_attempts", "reason": "unknown_key", "key": "max_attempts",
          "nearest": "retry_policy.max_retries"}', 'also inside the retry policy'),
    ('{"retry_policy": {"bogus": 3}}',
        '{"path": "retry_policy.bogus", "reason": "unknown_key", "key": "bogus"}', 'nothing is near'),
    ('{"retry_policy": {"maxRetries": 3}}',
        '{"path": "retry_policy.maxRetries", "reason": "unknown_key", "key": "maxRetries",
          "nearest": "retry_policy.max_retries"}', 'capitals and underscores do not count'),
    ('{"backoff": {"type": "fixed"}}',
        '{"path": "backoff", "reason": "unknown_key", "key": "backoff", "nearest": "retry_policy.backoff"}',
        'the same name in another object'),
    ('{"timeout_ms": 3}',
        '{"path": "timeout_ms", "reason": "unknown_key", "key": "timeout_ms",
          "nearest": "timeout_policy.attempt_timeout_ms"}', 'a part of the name'),
    ('{"capabilities": ["gpu"]}',
        '{"path": "capabilities", "reason": "unknown_key", "key": "capabilities",
          "nearest": "routing_requirements.required_capabilities"}', 'a part of the name in another object'),
    ('{"quota": "q"}',
        '{"path": "quota", "reason": "unknown_key", "key": "quota", "nearest": "quota_policy_id"}', 'its beginning'),
    ('{"timeout_policy": {"max_reclaim_count": 3}}',
        '{"path": "timeout_policy.max_reclaim_count", "reason": "unknown_key", "key": "max_reclaim_count",
          "nearest": "max_reclaim_count"}', 'the right field in the wrong object'),
    ('{"retry_policy": {"backoff": {"type": "exponential", "mutliplier": 3}}}',
        '{"path": "retry_policy.backoff.mutliplier", "reason": "unknown_key", "key": "mutliplier",
          "nearest": "retry_policy.backoff.multiplier"}', 'letters in the wrong order'),
    ('{"": 1}', '{"path": "", "reason": "unknown_key", "key": ""}', 'an empty key is like nothing'),
    ('{"retry_policy": {"backoff": {"type": "expontial"}}}',
        '{"path": "retry_policy.backoff.type", "reason": "unknown_value", "value": "expontial",
          "nearest": "exponential"}', 'a value has a nearest one, too')
) as c (policy, detail, fact);

-- What belongs elsewhere

select is(pg_temp.refusal_of(c.policy::jsonb) ->> 'instead', c.instead, c.policy || ' says what to use instead')
from (values
    ('{"priority": 5}', 'Give p_priority to the creation.'),
    ('{"delay_until": 5}', 'Give p_delay_until_ms to the creation.'),
    ('{"timeout_policy": {"execution_deadline_ms": 5}}', 'Give p_execution_deadline_at_ms to the creation.'),
    ('{"suspension_policy": {}}', 'Give p_timeout_at_ms and p_timeout_behavior to ff_suspend_execution.'),
    ('{"fallback_policy": {}}', 'An execution has no fallback: leave the field out.'),
    ('{"preferred_locality": "here"}', 'Choose the lane of the creation, or require a capability.'),
    ('{"isolation_level": "high"}', 'An execution has no isolation level: leave the field out.'),
    ('{"max_attempts": 5}', 'max_retries counts the attempts after the first.')
) as c (policy, instead);
select is_empty(
    $$ select a.path from flowfabric._ff_policy_advice() as a
       where exists (select from flowfabric._ff_policy_keys() as k where k.path = a.path)
           or (a.nearest is not null and not exists (
               select from flowfabric._ff_policy_keys() as k where k.path = a.nearest))
           or num_nonnulls(a.nearest, a.instead) = 0 $$,
    'no advice is about a legal field, and each names a legal one or says what to do');

-- Back-offs

select is(
    pg_temp.refusal_of(pg_temp.nested(array['retry_policy', 'backoff'], c.backoff::jsonb)), c.detail::jsonb,
    c.backoff || ': ' || c.fact)
from (values
    ('{"type": "linear"}',
        '{"path": "retry_policy.backoff.type", "reason": "unknown_value", "value": "linear",
          "legal": ["exponential", "fixed"]}', 'there are two types'),
    ('{"type": 5}',
        '{"path": "retry_policy.backoff.type", "reason": "not_string", "value": "5",
          "legal": ["exponential", "fixed"]}', 'a type is a text'),
    ('{"type": null}',
        '{"path": "retry_policy.backoff.type", "reason": "not_string", "legal": ["exponential", "fixed"]}',
        'null is no type'),
    ('{"delay_ms": 5}',
        '{"path": "retry_policy.backoff.type", "reason": "missing", "legal": ["exponential", "fixed"]}',
        'a delay without a type would not count'),
    ('{"jitter": 0.5}',
        '{"path": "retry_policy.backoff.type", "reason": "missing", "legal": ["exponential", "fixed"]}',
        'nor would a jitter'),
    ('{"type": "fixed", "multiplier": 2}',
        '{"path": "retry_policy.backoff.multiplier", "reason": "unknown_key", "key": "multiplier",
          "legal": ["type", "delay_ms", "jitter"]}', 'fixed has no multiplier'),
    ('{"type": "exponential", "delay_ms": 5}',
        '{"path": "retry_policy.backoff.delay_ms", "reason": "unknown_key", "key": "delay_ms",
          "legal": ["type", "initial_delay_ms", "max_delay_ms", "multiplier", "jitter"],
          "nearest": "retry_policy.backoff.max_delay_ms"}', 'exponential has no single delay'),
    ('{"type": "fixed", "jitter": 1.1}', '{"path": "retry_policy.backoff.jitter", "reason": "out_of_range"}',
        'jitter is at most the whole delay'),
    ('{"type": "fixed", "jitter": -0.1}', '{"path": "retry_policy.backoff.jitter", "reason": "not_number"}',
        'jitter is not negative'),
    ('{"type": "fixed", "jitter": true}', '{"path": "retry_policy.backoff.jitter", "reason": "not_number"}',
        'jitter is a number')
) as c (backoff, detail, fact);

-- Every field of the list

create temporary table field on commit drop as
select k.path, k.kind, k.variant from flowfabric._ff_policy_keys() as k;
create temporary table sample (kind text, good jsonb, bad jsonb, reason text) on commit drop;
insert into sample values
    ('object', '{}', '[]', 'not_object'),
    ('number', '3', '"3"', 'not_number'),
    ('duration', '3', '31536000000001', 'out_of_range'),
    ('fraction', '0.25', '2', 'out_of_range'),
    ('texts', '[]', '"a"', 'not_array'),
    ('text', '"known"', '3', 'not_string'),
    ('word', '"exponential"', '"bogus"', 'unknown_value'),
    ('capabilities', '["gpu"]', null, null);
select flowfabric.ff_create_quota_policy('known', 60, 10, 1);
-- The document with one field; a field of a back-off has the type that it needs beside it.
create function pg_temp.document(p_path text[], p_value jsonb, p_variant text) returns jsonb language sql immutable
as $$
    select case
        when p_path[2] = 'backoff' and p_path[3] <> 'type' then jsonb_build_object(
            'retry_policy', jsonb_build_object(
                'backoff', jsonb_build_object('type', coalesce(p_variant, 'fixed'), p_path[3], p_value)))
        else pg_temp.nested(p_path, p_value)
    end
$$;
select is(
    (flowfabric.ff_create_execution('test', p_policy => pg_temp.document(f.path, s.good, f.variant))).outcome, 'created',
    array_to_string(f.path, '.') || ' is legal')
from field as f left join sample as s on s.kind = f.kind;
select is(
    pg_temp.refusal_of(pg_temp.document(f.path, s.bad, f.variant)) - array['legal', 'value'],
    jsonb_build_object('path', array_to_string(f.path, '.'), 'reason', s.reason),
    array_to_string(f.path, '.') || ' must be what the list says')
from field as f join sample as s on s.kind = f.kind where s.bad is not null;
select is(
    pg_temp.refusal_of(pg_temp.document(f.path || 'bogus'::text, '1', null)) - array['legal', 'nearest'],
    jsonb_build_object('path', array_to_string(f.path || 'bogus'::text, '.'), 'reason', 'unknown_key', 'key', 'bogus'),
    array_to_string(f.path, '.') || ' has no other keys')
from field as f where f.kind = 'object';

select is(
    (select count(*) from flowfabric.ff_exec_core), (select count(*) from field),
    'nothing was written but by the legal documents');

-- Where else a policy comes in

select is(
    (select jsonb_build_object('outcome', i.outcome, 'code', i.code, 'path', i.detail ->> 'path')
     from flowfabric.ff_create_executions(array['test'], p_policies => array['{"retries": 3}'::jsonb]) as i),
    '{"outcome": "refused", "code": "invalid_policy_json", "path": "retries"}', 'a batch refuses the item');
select is(
    ff_tap.error_of($$ select flowfabric.ff_submit_flow('{"namespace": "default", "members": [
        {"name": "a", "lane_id": "default", "execution_kind": "k", "policy": {"retry_policy": {"bogus": 3}}}]}') $$)
    - array['legal', 'fn'],
    '{"code": "invalid_policy_json", "path": "retry_policy.bogus", "flow_path": "members[0].policy",
      "reason": "unknown_key", "key": "bogus"}', 'a flow refuses its member');
select ff_tap.leased_execution(ff_tap.id(1), p_lease_expires_at_ms => 2000000);
select ff_tap.leased_execution(ff_tap.id(2), p_lease_expires_at_ms => 2000000);
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_fail_execution(%L, %L, 1, %L, p_retry_policy => %L)', ff_tap.id(1), ff_tap.lease_id(),
        ff_tap.attempt_id(), c.retry_policy)) - array['code', 'fn'],
    c.detail::jsonb, 'a failing call with ' || c.retry_policy || ' is refused')
from (values
    ('{"retries": 3}',
        '{"path": "retries", "reason": "unknown_key", "key": "retries", "nearest": "max_retries",
          "legal": ["max_retries", "backoff", "retryable_categories"]}'),
    ('{"retry_policy": {"max_retries": 3}}',
        '{"path": "retry_policy", "reason": "unknown_key", "key": "retry_policy",
          "instead": "Give what is inside of retry_policy, without the name around it.",
          "legal": ["max_retries", "backoff", "retryable_categories"]}'),
    ('{"timeout_ms": 3}',
        '{"path": "timeout_ms", "reason": "unknown_key", "key": "timeout_ms",
          "legal": ["max_retries", "backoff", "retryable_categories"]}'),
    ('{"backoff": {"type": "linear"}}',
        '{"path": "backoff.type", "reason": "unknown_value", "value": "linear", "legal": ["exponential", "fixed"]}')
) as c (retry_policy, detail);
select results_eq(
    format($$ select i.outcome, i.code, i.detail ->> 'path'
              from flowfabric.ff_fail_executions(
                  array[%1$L, %2$L], array[%3$L, %3$L]::uuid[], array[1, 1], array[%4$L, %4$L]::uuid[],
                  p_retry_policies => array['{"bogus": 1}', '{"max_retries": 1}']::jsonb[]) as i $$,
        ff_tap.id(1), ff_tap.id(2), ff_tap.lease_id(), ff_tap.attempt_id()),
    $$ values ('refused', 'invalid_policy_json', 'bogus'), ('retry_scheduled', null, null) $$,
    'a batch of failures refuses the item and takes the other');
select is(
    (ff_tap.core(ff_tap.id(1))).lifecycle_phase, 'active'::flowfabric.ff_lifecycle_phase,
    'a refused failure changes nothing');

-- Jitter

select is(
    array(select flowfabric._ff_retry_delay_ms(
              '{"backoff": {"type": "exponential", "jitter": 0.2}}', r.retry_count, r.random)
          from (values (0, 0), (0, 0.5), (0, 1), (3, 0.25), (9, 1)) as r (retry_count, random)),
    array[1000, 900, 800, 7600, 48000]::bigint[], 'jitter shortens a delay by up to its fraction');
select is(
    flowfabric._ff_retry_delay_ms('{"backoff": {"type": "fixed", "delay_ms": 500, "jitter": 1}}', 0, 1), 0::bigint,
    'a jitter of 1 spreads over the whole delay');
select is(
    flowfabric._ff_retry_delay_ms('{"backoff": {"type": "fixed", "delay_ms": 500}}', 0, 1), 500::bigint,
    'without jitter the delay is exact');
select ff_tap.leased_execution(ff_tap.id(n), p_lease_expires_at_ms => 2000000) from generate_series(101, 160) as g (n);
create temporary table delayed on commit drop as
select f.delay_until_ms - 1000000 as delay_ms
from generate_series(101, 130) as g (n)
cross join lateral flowfabric.ff_fail_execution(
    ff_tap.id(g.n), ff_tap.lease_id(), 1, ff_tap.attempt_id(),
    p_retry_policy => '{"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 100000, "jitter": 0.5}}') as f
union all
select i.delay_until_ms - 1000000
from flowfabric.ff_fail_executions(
    array(select ff_tap.id(n) from generate_series(131, 160) as g (n)),
    array_fill(ff_tap.lease_id(), array[30]), array_fill(1::bigint, array[30]),
    array_fill(ff_tap.attempt_id(), array[30]), p_retry_policies => array_fill(
        '{"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 100000, "jitter": 0.5}}'::jsonb, array[30])) as i;
select is(
    (select count(*) filter (where d.delay_ms between 50000 and 100000) from delayed as d), 60::bigint,
    'every delay is within the jitter, in single calls and in a batch');
select cmp_ok(
    (select count(distinct d.delay_ms) from delayed as d), '>', 30::bigint, 'and they differ');
select * from finish();
rollback;
