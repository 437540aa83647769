-- Draining: a process is asked to take no new work, and may be asked to go on.
begin;
\ir ../helpers.sql
select plan(20);

prepare drain (text, boolean, text, text) as
select d.outcome from flowfabric.ff_drain_worker($1, $2, $3, $4) as d;
create temporary view drained as
select jsonb_build_array(w.draining, w.drain_requested_at_ms, w.drain_reason, w.last_heartbeat_ms) as drain
from flowfabric.ff_worker_registry as w;
create temporary view event as
select concat_ws(
    ' ', v.namespace, v.worker_instance_id, v.worker_id, v.event_kind, v.occurred_at_ms,
    v.reason) collate "default" as event
from flowfabric.ff_worker_registry_event as v
where v.event_kind like 'drain%'
order by v.event_id;

select ff_tap.freeze_time(1000);
select flowfabric.ff_register_worker('pool', 'pool-1', p_namespace => 'tenant', p_liveness_ttl_ms => 5000);
select ff_tap.freeze_time(2000);
select results_eq(
    $$execute drain('pool-1', true, 'upgrade', 'tenant')$$, $$values ('draining')$$,
    'a live process is asked to drain');
select is((table drained), '[true, 2000, "upgrade", 1000]', 'since now and for a reason');
select results_eq('table event', $$values ('tenant pool-1 pool drain_requested 2000 upgrade')$$, 'an event says so');
select ff_tap.freeze_time(3000);
select results_eq(
    $$execute drain('pool-1', true, 'other', 'tenant')$$, $$values ('unchanged')$$, 'asked again, nothing changes');
select is((table drained), '[true, 2000, "upgrade", 1000]', 'neither time nor reason');
select results_eq(
    $$execute drain('pool-1', false, 'done', 'tenant')$$, $$values ('resumed')$$, 'it may go on');
select is((table drained), '[false, null, null, 1000]', 'as if nobody had asked');
select results_eq(
    'select e.event from event as e offset 1', $$values ('tenant pool-1 pool drain_cancelled 3000 done')$$,
    'an event says so');
select results_eq(
    $$execute drain('pool-1', false, null, 'tenant')$$, $$values ('unchanged')$$, 'asked again, nothing changes');
select is((select count(*) from event), 2::bigint, 'and no event is written');
select results_eq(
    $$execute drain('pool-1', true, null, 'default')$$, $$values ('not_registered')$$,
    'in another namespace there is no such process');
select ff_tap.freeze_time(6000);
select results_eq(
    $$execute drain('pool-1', true, null, 'tenant')$$, $$values ('not_registered')$$, 'nor is one that lapsed');
select is((table drained), '[false, null, null, 1000]', 'it is left to the sweep');
select flowfabric.ff_register_worker('pool', 'pool-2');
select is((flowfabric.ff_drain_worker('pool-2')).outcome, 'draining', 'all but the instance id may be left out');
select is(
    (flowfabric.ff_heartbeat_worker('pool-2')).draining, true, 'the process learns it with its heartbeat');

select is(
    ff_tap.error_of(format('execute drain(%L, %L, %L, %L)', b.instance_id, b.draining, b.reason, b.namespace))
    - array['code', 'fn', 'value'],
    b.detail::jsonb, b.fact)
from (values
    ('pool-1', null, null, 'tenant', '{"field": "draining", "reason": "null"}', 'it is yes or no'),
    ('pool-1', true, repeat('r', 257), 'tenant', '{"field": "reason", "reason": "too_long"}',
        'a reason has at most 256 bytes'),
    ('pool-1', true, E'\u0007', 'tenant', '{"field": "reason", "reason": "control"}', 'and no control characters'),
    ('', true, null, 'tenant', '{"field": "worker_instance_id", "reason": "empty"}', 'an instance id is a name'),
    ('pool-1', true, null, 'a b', '{"field": "namespace", "reason": "space_or_control"}', 'a namespace is a name')
) as b (instance_id, draining, reason, namespace, detail, fact);

select * from finish();
rollback;
