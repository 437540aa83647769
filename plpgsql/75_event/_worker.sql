-- The events of the worker registry.

create or replace function flowfabric._ff_emit_worker(
    p_namespaces text[],
    p_worker_instance_ids text[],
    p_worker_ids text[],
    p_event_kind text,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_worker_registry_event (
        epoch, occurred_at_ms, namespace, worker_instance_id, worker_id, event_kind, reason)
    select c.event_epoch, p_now_ms, w.namespace, w.worker_instance_id, w.worker_id, p_event_kind, p_reason
    from flowfabric.ff_partition_config as c
    cross join unnest(p_namespaces, p_worker_instance_ids, p_worker_ids) as w (
        namespace, worker_instance_id, worker_id);
    perform flowfabric._ff_wake('ff_worker_event', '*');
end;
$$;
comment on function flowfabric._ff_emit_worker(text[], text[], text[], text, text, bigint) is
'Internal: writes one event for each of some workers.';
