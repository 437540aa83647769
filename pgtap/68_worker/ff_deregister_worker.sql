-- Deregistering: a process that ends leaves the registry at once.
begin;
\ir ../helpers.sql
select plan(15);

prepare leave (text, text, text) as select d.outcome from flowfabric.ff_deregister_worker($1, $2, $3) as d;
create temporary view event as
select concat_ws(' ', v.namespace, v.worker_instance_id, v.worker_id, v.event_kind, v.occurred_at_ms)
    collate "default" as event
from flowfabric.ff_worker_registry_event as v
where v.event_kind <> 'registered'
order by v.event_id;

select ff_tap.freeze_time(1000);
select flowfabric.ff_register_worker('worker', 'worker-1', p_liveness_ttl_ms => 500);
select ff_tap.leased_execution();
select results_eq(
    $$execute leave('worker', 'worker-1', 'tenant')$$, $$values ('not_registered')$$,
    'in another namespace there is no such process');
select results_eq(
    $$execute leave('other', 'worker-1', 'default')$$, $$values ('not_registered')$$,
    'nor is there in another pool');
select is((select count(*) from flowfabric.ff_worker_registry), 1::bigint, 'which leaves the process alone');
select results_eq(
    $$execute leave('worker', 'worker-1', 'default')$$, $$values ('deregistered')$$, 'a process leaves its pool');
select is_empty('select from flowfabric.ff_worker_registry', 'and the registry');
select results_eq('table event', $$values ('default worker-1 worker deregistered 1000')$$, 'an event says so');
select is(
    (ff_tap.core('{fp:86}:00000000-0000-4000-8000-000000000001')).ownership_state, 'leased', 'its leases stay');
select results_eq(
    $$execute leave('worker', 'worker-1', 'default')$$, $$values ('not_registered')$$, 'a repeat finds no process');
select is((select count(*) from event), 1::bigint, 'and writes nothing');

select flowfabric.ff_register_worker('worker', 'worker-1', p_liveness_ttl_ms => 500);
select ff_tap.freeze_time(1500);
select results_eq(
    $$execute leave('worker', 'worker-1', null)$$, $$values ('not_registered')$$,
    'a process that lapsed at this instant was gone before');
select results_eq(
    'select e.event from event as e offset 1', $$values ('default worker-1 worker ttl_swept 1500')$$, 'as swept');
select flowfabric.ff_register_worker('worker', 'worker-1');
select flowfabric.ff_drain_worker('worker-1');
select flowfabric.ff_deregister_worker('worker', 'worker-1');
select is(
    (flowfabric.ff_register_worker('worker', 'worker-1')).draining, false, 'a drain ends with the process');

select throws_ok($$execute leave(null, 'worker-1', 'default')$$, 'ZV001', 'invalid_input', 'a pool is required');
select throws_ok($$execute leave('worker', 'a b', 'default')$$, 'ZV001', 'invalid_input', 'an instance id is a name');
select throws_ok($$execute leave('worker', 'worker-1', '')$$, 'ZV001', 'invalid_input', 'a namespace is a name');

select * from finish();
rollback;
