-- Registration: a worker process is known, refreshed, and known anew after it lapsed.
begin;
\ir ../helpers.sql
select plan(40);

select ff_tap.freeze_time(1000);
create function ff_tap.worker(p_instance text, p_namespace text default 'default')
returns jsonb
language sql stable
as $$
    select to_jsonb(w) - array['namespace', 'worker_instance_id']
    from flowfabric.ff_worker_registry as w
    where w.namespace = p_namespace and w.worker_instance_id = p_instance
$$;
create function ff_tap.events()
returns text[]
language sql stable
as $$
    select array_agg(concat_ws(
        ' ', v.namespace, v.worker_instance_id, v.worker_id, v.event_kind, v.occurred_at_ms,
        v.reason) order by v.event_id)
    from flowfabric.ff_worker_registry_event as v
$$;

-- The first time
select results_eq(
    $$select r.* from flowfabric.ff_register_worker(
        'pool', 'pool-1', '{b,a,b}', '{torch>=2.3,gpu,gpu}', 'tenant', 5000) as r$$,
    $$values ('registered', 6000::bigint, false)$$, 'a process is registered until its time runs out');
select is(
    ff_tap.worker('pool-1', 'tenant'),
    '{"worker_id": "pool", "lanes": ["a", "b"], "capabilities": ["gpu", "torch>=2.3"], "last_heartbeat_ms": 1000,
      "liveness_ttl_ms": 5000, "registered_at_ms": 1000, "draining": false, "drain_requested_at_ms": null,
      "drain_reason": null}', 'with its lanes and capabilities in byte order, each once');
select is(ff_tap.events(), array['tenant pool-1 pool registered 1000'], 'and an event says so');
select results_eq(
    $$select r.* from flowfabric.ff_register_worker('pool', 'pool-1') as r$$,
    $$values ('registered', 61000::bigint, false)$$, 'the same instance id in another namespace is another process');
select is(
    ff_tap.worker('pool-1') - array['last_heartbeat_ms', 'registered_at_ms'],
    '{"worker_id": "pool", "lanes": ["default"], "capabilities": [], "liveness_ttl_ms": 60000, "draining": false,
      "drain_requested_at_ms": null, "drain_reason": null}', 'lanes, capabilities and time have defaults');

-- Refreshed
select flowfabric.ff_drain_worker('pool-1', p_reason => 'upgrade', p_namespace => 'tenant');
select ff_tap.freeze_time(5999);
select results_eq(
    $$select r.* from flowfabric.ff_register_worker('pool', 'pool-1', '{c}', '{cpu}', 'tenant', 2000) as r$$,
    $$values ('refreshed', 7999::bigint, true)$$, 'a live process is refreshed and told to drain');
select is(
    ff_tap.worker('pool-1', 'tenant'),
    '{"worker_id": "pool", "lanes": ["c"], "capabilities": ["cpu"], "last_heartbeat_ms": 5999, "liveness_ttl_ms": 2000,
      "registered_at_ms": 1000, "draining": true, "drain_requested_at_ms": 1000, "drain_reason": "upgrade"}',
    'with what it offers now; its registration and its drain stay');
select is(
    (ff_tap.events())[4], 'tenant pool-1 pool refreshed 5999', 'and an event says so');

-- Another pool under the same instance id
select is(
    ff_tap.error_of($$select flowfabric.ff_register_worker('other', 'pool-1', p_namespace => 'tenant')$$),
    '{"code": "invalid_input", "fn": "ff_register_worker", "field": "worker_instance_id", "reason": "reassigned",
      "value": "pool-1"}', 'an instance id of a live process belongs to its pool');
select ff_tap.freeze_time(7998);
select throws_ok(
    $$select flowfabric.ff_register_worker('other', 'pool-1', p_namespace => 'tenant')$$, 'ZV001', 'invalid_input',
    'to the last millisecond');
select ff_tap.freeze_time(7999);
select results_eq(
    $$select r.* from flowfabric.ff_register_worker('other', 'pool-1', p_namespace => 'tenant') as r$$,
    $$values ('registered', 67999::bigint, false)$$, 'a process that lapsed is gone, and its drain with it');
select is(
    ff_tap.worker('pool-1', 'tenant'),
    '{"worker_id": "other", "lanes": ["default"], "capabilities": [], "last_heartbeat_ms": 7999,
    "liveness_ttl_ms": 60000,
      "registered_at_ms": 7999, "draining": false, "drain_requested_at_ms": null, "drain_reason": null}',
    'the new one starts anew');
select is(
    (ff_tap.events())[5:6],
        array['tenant pool-1 pool ttl_swept 7999', 'tenant pool-1 other registered 7999'],
    'the old one is swept before the new one is registered');

-- Sizes
select is(
    (flowfabric.ff_register_worker(
        repeat('w', 256), repeat('i', 256), array(select 'lane ' || i::text from generate_series(1, 64) as i),
        array(select 'c' || i::text from generate_series(1, 256) as i), repeat('n', 256), 86400000)).outcome,
    'registered', '64 lanes, 256 capabilities and the longest names are accepted');
select is(
    (flowfabric.ff_register_worker('pool', 'many', array_fill('a'::text, array[1000]))).outcome, 'registered',
        'a lane that is named often is one lane');
select is(
    (flowfabric.ff_register_worker('pool', 'null-namespace', p_namespace => null)).outcome, 'registered',
        'no namespace is the default one');
select isnt(ff_tap.worker('null-namespace'), null, 'and nothing else');

-- Refusals
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_register_worker(%L, %L, %L, '{}', %L, %L)$$, b.worker_id, b.instance_id, b.lanes,
        b.namespace,
        b.ttl)) - array['code', 'fn', 'value'],
    b.detail::jsonb, b.fact)
from (values
    (null, 'i', '{a}', 'n', 1, '{"field": "worker_id", "reason": "null"}', 'a pool is required'),
    ('a b', 'i', '{a}', 'n', 1, '{"field": "worker_id", "reason": "space_or_control"}', 'a pool is a name'),
    ('w', '', '{a}', 'n', 1, '{"field": "worker_instance_id", "reason": "empty"}', 'an instance id is required'),
    ('w', repeat('i', 257), '{a}', 'n', 1, '{"field": "worker_instance_id", "reason": "too_long"}',
        'an instance id has at most 256 bytes'),
    ('w', 'i', '{a}', '', 1, '{"field": "namespace", "reason": "empty"}', 'a namespace is a name'),
    ('w', 'i', '{a}', E'n\n', 1, '{"field": "namespace", "reason": "space_or_control"}', 'without control characters'),
    ('w', 'i', null, 'n', 1, '{"field": "lanes", "reason": "null"}', 'lanes are required'),
    ('w', 'i', '{}', 'n', 1, '{"field": "lanes", "reason": "empty"}', 'a process serves at least one lane'),
    ('w', 'i', '{a,NULL}', 'n', 1, '{"field": "lanes", "reason": "null"}', 'a lane is not null'),
    ('w', 'i', '{a,""}', 'n', 1, '{"field": "lanes", "reason": "empty"}', 'a lane is not empty'),
    ('w', 'i', '{größe}', 'n', 1, '{"field": "lanes", "reason": "not_printable_ascii"}', 'a lane is printable ASCII'),
    ('w', 'i', '{a}', 'n', 0, '{"field": "liveness_ttl_ms", "reason": "out_of_range"}', 'a time is at least 1'),
    ('w', 'i', '{a}', 'n', 86400001, '{"field": "liveness_ttl_ms", "reason": "out_of_range"}',
        'a time is at most a day'),
    ('w', 'i', '{a}', 'n', null, '{"field": "liveness_ttl_ms", "reason": "out_of_range"}', 'a time is a number')
) as b (worker_id, instance_id, lanes, namespace, ttl, detail, fact);
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_register_worker('w', 'i', %L)$$,
        array(select 'l' || i::text from generate_series(1, 65) as i)))
    - array['code', 'fn'],
    '{"field": "lanes", "reason": "too_many_items", "value": "65"}', '65 lanes are too many');
select throws_ok(
    $$select flowfabric.ff_register_worker('w', 'i', '{a}', '{"two words"}')$$, 'ZV003', 'invalid_capabilities',
    'capabilities have no white space');
select is(
    ff_tap.error_of(format($$select flowfabric.ff_register_worker('w', 'i', '{a}', %L)$$, b.tokens)) - array['code',
    'fn'],
    jsonb_build_object('side', 'worker', 'reason', b.reason), format('a capability of which this holds is refused: %s',
    b.reason))
from (values
    ('{a,NULL}'::text[], 'non_string_token'), ('{""}', 'empty_token'), ('{"a,b"}', 'comma_in_token'),
    (array[E'a\u2003b'], 'control_or_whitespace'),
    (array(select 'c' || i::text from generate_series(1, 257) as i), 'too_many_tokens'),
    (array[repeat('c', 4097)], 'too_many_bytes')
) as b (tokens, reason);
select is(
    (select count(*) from flowfabric.ff_worker_registry as w where w.worker_instance_id = 'i'), 0::bigint,
        'a refusal registers nobody');

select * from finish();
rollback;
