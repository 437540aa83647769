-- Heartbeats: a live process stays known, a lapsed one must register again.
begin;
\ir ../helpers.sql
select plan(15);

prepare beat (text, text) as select h.* from flowfabric.ff_heartbeat_worker($1, $2) as h;
select ff_tap.freeze_time(1000);
select flowfabric.ff_register_worker('pool', 'pool-1', p_namespace => 'tenant', p_liveness_ttl_ms => 500);
select ff_tap.freeze_time(1499);
select results_eq(
    $$execute beat('pool-1', 'tenant')$$, $$values ('refreshed', 1999::bigint, false, null::text)$$,
    'a heartbeat in time extends the registration by its own time');
select is(
    (select jsonb_build_array(w.last_heartbeat_ms, w.registered_at_ms) from flowfabric.ff_worker_registry as w),
    '[1499, 1000]', 'which began when it began');
select is(
    (select count(*) from flowfabric.ff_worker_registry_event), 1::bigint, 'a heartbeat is no event');
select results_eq(
    $$execute beat('pool-1', 'default')$$, $$values ('not_registered', null::bigint, null::boolean, null::text)$$,
    'in another namespace the process is unknown');
select flowfabric.ff_drain_worker('pool-1', p_reason => 'upgrade', p_namespace => 'tenant');
select results_eq(
    $$execute beat('pool-1', 'tenant')$$, $$values ('refreshed', 1999::bigint, true, 'upgrade')$$,
    'a process that should drain is told so, and why');
select ff_tap.freeze_time(1999);
select results_eq(
    $$execute beat('pool-1', 'tenant')$$, $$values ('not_registered', null::bigint, null::boolean, null::text)$$,
    'at the instant its time runs out a process has lapsed');
select is(
    (select w.last_heartbeat_ms from flowfabric.ff_worker_registry as w), 1499::bigint, 'and is not revived');
select flowfabric.ff_register_worker('pool', 'pool-1', p_namespace => 'tenant');
select results_eq(
    $$execute beat('pool-1', 'tenant')$$, $$values ('refreshed', 61999::bigint, false, null::text)$$,
    'after it registered again it is known');
select flowfabric.ff_mark_worker_dead('pool-1', p_namespace => 'tenant');
select is(
    (flowfabric.ff_heartbeat_worker('pool-1', 'tenant')).outcome, 'not_registered',
        'one that was marked dead is not');
select flowfabric.ff_register_worker('pool', 'pool-2');
select is((flowfabric.ff_heartbeat_worker('pool-2')).outcome, 'refreshed', 'the namespace has a default');
select is((flowfabric.ff_heartbeat_worker('pool-2', null)).outcome, 'refreshed', 'which is meant by none');

select throws_ok($$execute beat('a b', 'tenant')$$, 'ZV001', 'invalid_input', 'an instance id is a name');
select is(
    ff_tap.error_of($$execute beat(null, 'tenant')$$) - array['code', 'fn'],
    '{"field": "worker_instance_id", "reason": "null"}', 'and required');
select is(
    ff_tap.error_of($$execute beat('pool-1', '')$$) - array['code', 'fn', 'value'],
    '{"field": "namespace", "reason": "empty"}', 'a namespace is a name');
select is(
    ff_tap.error_of(format('execute beat(%L, %L)', 'pool-1', repeat('n', 257))) ->> 'reason', 'too_long',
    'with at most 256 bytes');

select * from finish();
rollback;
