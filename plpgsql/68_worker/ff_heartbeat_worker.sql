-- ff_heartbeat_worker: say that a worker process is still there, and learn whether it should stop taking work.
--
-- Fence:  none.
-- Locks:  the ff_worker_registry row.
-- Writes: the heartbeat of ff_worker_registry; no event.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- A worker that lapsed or was marked dead is not revived by a heartbeat: others have counted it as gone, so it must
-- register again.
create or replace function flowfabric.ff_heartbeat_worker(
    p_worker_instance_id text,
    p_namespace text default 'default'
)
returns flowfabric.ff_worker_heartbeat
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_heartbeat_worker';
    v_namespace text := coalesce(p_namespace, 'default');
    v_worker flowfabric.ff_worker_registry;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_worker_name(v_namespace, p_worker_instance_id, c_fn);
    v_worker := flowfabric._ff_lock_worker(v_namespace, p_worker_instance_id);
    v_now_ms := flowfabric.ff_now_ms();
    if not flowfabric._ff_is_live_worker(v_worker, v_now_ms) then
        return row('not_registered', null, null, null)::flowfabric.ff_worker_heartbeat;
    end if;
    update flowfabric.ff_worker_registry as w
    set last_heartbeat_ms = v_now_ms
    where w.namespace = v_namespace and w.worker_instance_id = p_worker_instance_id;
    return row('refreshed', v_now_ms + v_worker.liveness_ttl_ms, v_worker.draining, v_worker.drain_reason)
    ::flowfabric.ff_worker_heartbeat;
end;
$$;

comment on function flowfabric.ff_heartbeat_worker(text, text) is
'Extends the registration of a live worker process and tells it whether to drain.';

grant execute on function flowfabric.ff_heartbeat_worker(text, text) to flowfabric_worker;
