-- How large a creation may be and how late its times: at the limit, beyond it, alone and in a batch.
begin;
\ir ../helpers.sql
select plan(70);

select ff_tap.freeze_time(1000);
select flowfabric.ff_register_lane('default');
\set last 253402300799999
\set longest 31536000000000

-- What goes with an execution: its name, the largest or latest that is accepted, the first that is refused, and how.
create temporary table bound (argument text, type text, accepted text, refused text, code text, field text, reason text);
insert into bound
values
    ('execution_kind', 'text', repeat('k', 256), repeat('k', 257), 'invalid_input', 'execution_kind', 'too_long'),
    ('execution_kind', 'text', repeat('é', 128), repeat('é', 129), 'invalid_input', 'execution_kind', 'too_long'),
    ('payload_encoding', 'text', repeat('e', 256), repeat('e', 257), 'invalid_input', 'payload_encoding', 'too_long'),
    ('payload', 'bytea', null, null, 'payload_too_large', 'payload', null),
    (
        'tags', 'jsonb', jsonb_build_object('a.b', repeat('t', 65500)), jsonb_build_object('a.b', repeat('t', 65536)),
        'invalid_input', 'tags', 'too_large'
    ),
    (
        'tags', 'jsonb', (select jsonb_object_agg('a.' || n, 'x') from generate_series(1, 3000) as n),
        (select jsonb_object_agg('a.' || n, 'x') from generate_series(1, 6000) as n), 'invalid_input', 'tags', 'too_large'
    ),
    (
        'policy', 'jsonb',
        jsonb_build_object('retry_policy', jsonb_build_object('retryable_categories', jsonb_build_array(repeat('p', 65450)))),
        jsonb_build_object('retry_policy', jsonb_build_object('retryable_categories', jsonb_build_array(repeat('p', 65536)))),
        'invalid_policy_json', null, 'too_large'
    ),
    -- A few bytes as it is stored, and many as text.
    ('policy', 'jsonb', '{}', '{"max_replay_count": 1e70000}', 'invalid_policy_json', null, 'too_large'),
    ('delay_until_ms', 'bigint', :'last', '253402300800000', 'invalid_input', 'delay_until_ms', 'out_of_range'),
    ('delay_until_ms', 'bigint', '0', '-1', 'invalid_input', 'delay_until_ms', 'out_of_range'),
    (
        'execution_deadline_at_ms', 'bigint', :'last', '253402300800000', 'invalid_input', 'execution_deadline_at_ms',
        'out_of_range'
    ),
    ('execution_deadline_at_ms', 'bigint', '0', '-1', 'invalid_input', 'execution_deadline_at_ms', 'out_of_range'),
    (
        'policy', 'jsonb', '{"timeout_policy": {"attempt_timeout_ms": 31536000000000}}',
        '{"timeout_policy": {"attempt_timeout_ms": 31536000000001}}', 'invalid_policy_json', null, 'out_of_range'
    ),
    (
        'policy', 'jsonb', '{"stream_policy": {"retention_ttl_ms": 31536000000000}}',
        '{"stream_policy": {"retention_ttl_ms": 31536000000001}}', 'invalid_policy_json', null, 'out_of_range'
    ),
    (
        'policy', 'jsonb', '{"retry_policy": {"backoff": {"type": "exponential", "max_delay_ms": 31536000000000}}}',
        '{"retry_policy": {"backoff": {"type": "exponential", "max_delay_ms": 31536000000001}}}', 'invalid_policy_json', null, 'out_of_range'
    );
update bound set
    accepted = convert_to(repeat('x', 100000), 'UTF8')::text, refused = convert_to(repeat('x', 100001), 'UTF8')::text
where type = 'bytea';
select flowfabric.ff_set_setting('max_payload_bytes', 100000);

create function ff_tap.alone(p_argument text, p_value text, p_type text) returns text language sql immutable
as $$
    select format(
        'select (flowfabric.ff_create_execution(%sp_%s => %L::%s)).outcome',
        case when p_argument <> 'execution_kind' then 'p_execution_kind => ''test'', ' end, p_argument, p_value, p_type)
$$;
-- The other item is ordinary: whatever becomes of this one, it is created.
create function ff_tap.in_batch(p_argument text, p_value text, p_type text) returns text language sql immutable
as $$
    select format(
        'select outcome, code from flowfabric.ff_create_executions(%sp_%s => array[%s, %L]::%s[]) order by item',
        case when p_argument <> 'execution_kind' then 'p_execution_kinds => ''{test,test}'', ' end,
        case p_argument when 'execution_kind' then 'execution_kinds' when 'payload_encoding' then 'payload_encodings'
            when 'payload' then 'payloads' when 'policy' then 'policies'
            when 'execution_deadline_at_ms' then 'execution_deadlines_at_ms' else p_argument end,
        case when p_argument = 'execution_kind' then '''test''' else 'null' end, p_value, p_type)
$$;

select results_eq(
    ff_tap.alone(b.argument, b.accepted, b.type), $$values ('created')$$,
    b.argument || ' up to ' || left(b.accepted, 40) || ' is accepted')
from bound as b;
select is(
    ff_tap.error_of(ff_tap.alone(b.argument, b.refused, b.type)) - '{fn,value,path,limit_bytes,actual_bytes}'::text[],
    jsonb_strip_nulls(jsonb_build_object('code', b.code, 'field', b.field, 'reason', b.reason)),
    b.argument || ' from ' || left(b.refused, 40) || ' on is refused')
from bound as b;
select results_eq(
    ff_tap.in_batch(b.argument, b.accepted, b.type), $$values ('created', null), ('created', null)$$,
    'in a batch ' || b.argument || ' up to ' || left(b.accepted, 40) || ' is accepted')
from bound as b;
select results_eq(
    ff_tap.in_batch(b.argument, b.refused, b.type), format($$values ('created', null), ('refused', %L)$$, b.code),
    'in a batch ' || b.argument || ' from ' || left(b.refused, 40) || ' on is refused, and nothing else')
from bound as b;

-- For a whole call
select is(
    ff_tap.error_of(format('select flowfabric.ff_create_execution%s', c.arguments)) ->> 'field', c.field,
    'refused: ' || left(c.arguments, 80))
from (values
    (format('(''test'', p_creator_identity => %L)', repeat('c', 257)), 'creator_identity'),
    (format('(''test'', p_dedup_ttl_ms => %s)', :longest + 1), 'dedup_ttl_ms'),
    (format('s(''{test}'', p_creator_identity => %L)', repeat('c', 257)), 'creator_identity'),
    (format('s(''{test}'', p_dedup_ttl_ms => %s)', :longest + 1), 'dedup_ttl_ms')
) as c (arguments, field);
select lives_ok(
    format('select flowfabric.ff_create_execution%s', c.arguments), 'accepted: ' || left(c.arguments, 80))
from (values
    (format('(''test'', p_creator_identity => %L, p_idempotency_key => ''a'')', repeat('c', 256))),
    (format('(''test'', p_dedup_ttl_ms => %s, p_idempotency_key => ''b'')', :longest)),
    (format('s(''{test}'', p_creator_identity => %L)', repeat('c', 256))),
    (format('s(''{test}'', p_dedup_ttl_ms => %s, p_idempotency_keys => ''{c}'')', :longest))
) as c (arguments);

-- The limit of payloads is a setting
select flowfabric.ff_set_setting('max_payload_bytes', 65536);
select is(
    ff_tap.error_of($$select flowfabric.ff_create_execution('test', convert_to(repeat('x', 65537), 'UTF8'))$$) - 'fn',
    '{"code": "payload_too_large", "field": "payload", "limit_bytes": 65536, "actual_bytes": 65537}',
    'a refusal names the size and the limit');
select flowfabric.ff_set_setting('max_payload_bytes', null);
select lives_ok(
    $$select flowfabric.ff_create_execution('test', convert_to(repeat('x', 16777216), 'UTF8'))$$,
    '16 MiB are allowed by default');

select * from finish();
rollback;
