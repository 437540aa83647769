-- The moves of the worker registry. Its rows are leaves: each is locked alone and last.

create or replace function flowfabric._ff_check_worker_name(p_namespace text, p_worker_instance_id text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if not flowfabric._ff_is_name(p_namespace) then
        perform flowfabric._ff_raise_invalid_name(p_namespace, 'namespace', p_fn);
    end if;
    if not flowfabric._ff_is_name(p_worker_instance_id) then
        perform flowfabric._ff_raise_invalid_name(p_worker_instance_id, 'worker_instance_id', p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_check_worker_name(text, text, text) is
'Internal: raises invalid_input unless namespace and instance id of a worker are well formed.';

create or replace function flowfabric._ff_check_worker_reason(p_reason text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if octet_length(p_reason) > 256 then
        perform flowfabric._ff_raise_invalid(p_fn, 'reason', 'too_long', p_reason);
    end if;
    if flowfabric._ff_has_control(p_reason) then
        perform flowfabric._ff_raise_invalid(p_fn, 'reason', 'control', p_reason);
    end if;
end;
$$;
comment on function flowfabric._ff_check_worker_reason(text, text) is
'Internal: raises invalid_input for a reason of more than 256 bytes or with control characters.';

create or replace function flowfabric._ff_lock_worker(p_namespace text, p_worker_instance_id text)
returns flowfabric.ff_worker_registry
language plpgsql volatile
as $$
declare
    v_worker flowfabric.ff_worker_registry;
begin
    select w.* into v_worker
    from flowfabric.ff_worker_registry as w
    where w.namespace = p_namespace and w.worker_instance_id = p_worker_instance_id
    for no key update;
    return v_worker;
end;
$$;
comment on function flowfabric._ff_lock_worker(text, text) is
'Internal: locks the row of a worker and returns it, or NULL if there is none.';

-- Lapsed rows count as absent everywhere; ff_sweep_workers deletes them later.
create or replace function flowfabric._ff_is_live_worker(p_worker flowfabric.ff_worker_registry, p_now_ms bigint)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(p_worker.last_heartbeat_ms > p_now_ms - greatest(p_worker.liveness_ttl_ms, 0), false)
$$;
comment on function flowfabric._ff_is_live_worker(flowfabric.ff_worker_registry, bigint) is
'Internal: whether a worker has sent a heartbeat in time; false for NULL.';

create or replace function flowfabric._ff_note_worker(
    p_worker flowfabric.ff_worker_registry,
    p_event_kind text,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_emit_worker(
        array[p_worker.namespace], array[p_worker.worker_instance_id], array[p_worker.worker_id], p_event_kind,
        p_reason, p_now_ms);
end;
$$;
comment on function flowfabric._ff_note_worker(flowfabric.ff_worker_registry, text, text, bigint) is
'Internal: writes the event of one worker.';

create or replace function flowfabric._ff_delete_worker(
    p_worker flowfabric.ff_worker_registry,
    p_event_kind text,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    delete from flowfabric.ff_worker_registry as w
    where w.namespace = p_worker.namespace and w.worker_instance_id = p_worker.worker_instance_id;
    perform flowfabric._ff_note_worker(p_worker, p_event_kind, p_reason, p_now_ms);
end;
$$;
comment on function flowfabric._ff_delete_worker(flowfabric.ff_worker_registry, text, text, bigint) is
'Internal: deletes the locked row of a worker, with the event that says why.';
