-- Marking dead: the process leaves the registry, its leases stay.
begin;
\ir ../helpers.sql
select plan(16);

prepare mark (text, text, text) as select m.outcome from flowfabric.ff_mark_worker_dead($1, $2, $3) as m;
create temporary view event as
select concat_ws(
    ' ', v.namespace, v.worker_instance_id, v.worker_id, v.event_kind, v.occurred_at_ms,
    v.reason) collate "default" as event
from flowfabric.ff_worker_registry_event as v
where v.event_kind <> 'registered'
order by v.event_id;

select ff_tap.freeze_time(1000);
select flowfabric.ff_register_worker('worker', 'worker-1', p_liveness_ttl_ms => 500);
select ff_tap.leased_execution();
select results_eq(
    $$execute mark('worker-1', 'no disk', 'tenant')$$, $$values ('not_registered')$$,
    'in another namespace there is no such process');
select results_eq($$execute mark('worker-1', 'no disk', 'default')$$, $$values ('marked')$$,
    'a live process is marked dead');
select is_empty('select from flowfabric.ff_worker_registry', 'it leaves the registry');
select results_eq(
    'table event', $$values ('default worker-1 worker marked_dead 1000 no disk')$$, 'an event says why');
select is(
    (ff_tap.core('{fp:86}:00000000-0000-4000-8000-000000000001')).ownership_state, 'leased', 'its leases stay');
select results_eq($$execute mark('worker-1', 'no disk', 'default')$$, $$values ('not_registered')$$,
    'a repeat finds nobody');
select is((select count(*) from event), 1::bigint, 'and writes nothing');

select flowfabric.ff_register_worker('worker', 'worker-1', p_liveness_ttl_ms => 500);
select ff_tap.freeze_time(1500);
select results_eq(
    $$execute mark('worker-1', 'no disk', 'default')$$, $$values ('not_registered')$$,
    'a process that lapsed was dead before');
select is_empty('select from flowfabric.ff_worker_registry', 'it leaves the registry all the same');
select results_eq(
    'select e.event from event as e offset 1', $$values ('default worker-1 worker ttl_swept 1500')$$, 'as swept');
select flowfabric.ff_register_worker('worker', 'worker-1');
select is(
    (flowfabric.ff_mark_worker_dead('worker-1')).outcome, 'marked', 'reason and namespace may be left out');
select flowfabric.ff_register_worker('worker', 'worker-1');
select is(
    (flowfabric.ff_mark_worker_dead('worker-1', repeat('r', 256))).outcome, 'marked', 'a reason has up to 256 bytes');

select is(
    ff_tap.error_of(format('execute mark(%L, %L, %L)', b.instance_id, b.reason, b.namespace)) - array['code', 'fn',
    'value'],
    b.detail::jsonb, b.fact)
from (values
    ('worker-1', repeat('r', 257), 'default', '{"field": "reason", "reason": "too_long"}', 'and no more'),
    ('worker-1', E'a\nb', 'default', '{"field": "reason", "reason": "control"}', 'and no control characters'),
    ('a b', null, 'default', '{"field": "worker_instance_id", "reason": "space_or_control"}',
        'an instance id is a name'),
    ('worker-1', null, '', '{"field": "namespace", "reason": "empty"}', 'a namespace is a name')
) as b (instance_id, reason, namespace, detail, fact);

select * from finish();
rollback;
