-- ff_deregister_worker: take a worker process out of the registry, because it ends.
--
-- Fence:  the pool of the process; a process of another pool is not there for the caller.
-- Locks:  the ff_worker_registry row.
-- Writes: deletes the ff_worker_registry row; ff_worker_registry_event.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers not_registered.
--
-- A drain that was asked of the process ends with it. Leases that it still holds stay until they expire. A row that had
-- lapsed before goes as swept.
create or replace function flowfabric.ff_deregister_worker(
    p_worker_id text,
    p_worker_instance_id text,
    p_namespace text default 'default'
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_deregister_worker';
    v_namespace text := coalesce(p_namespace, 'default');
    v_worker flowfabric.ff_worker_registry;
    v_is_live boolean;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_worker_name(v_namespace, p_worker_instance_id, c_fn);
    if not flowfabric._ff_is_name(p_worker_id) then
        perform flowfabric._ff_raise_invalid_name(p_worker_id, 'worker_id', c_fn);
    end if;
    v_worker := flowfabric._ff_lock_worker(v_namespace, p_worker_instance_id);
    if (v_worker.worker_id = p_worker_id) is not true then
        return row('not_registered')::flowfabric.ff_outcome;
    end if;
    v_now_ms := flowfabric.ff_now_ms();
    v_is_live := flowfabric._ff_is_live_worker(v_worker, v_now_ms);
    perform flowfabric._ff_delete_worker(
        v_worker, case when v_is_live then 'deregistered' else 'ttl_swept' end, null, v_now_ms);
    return row(case when v_is_live then 'deregistered' else 'not_registered' end)::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_deregister_worker(text, text, text) is
'Takes a worker process that ends out of the registry; leases that it still holds stay until they expire.';

grant execute on function flowfabric.ff_deregister_worker(text, text, text) to flowfabric_worker;
