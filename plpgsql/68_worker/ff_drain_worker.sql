-- ff_drain_worker: ask a worker process to take no new work, or let it take work again.
--
-- Fence:  none.
-- Locks:  the ff_worker_registry row.
-- Writes: the drain of ff_worker_registry, ff_worker_registry_event.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers unchanged.
--
-- The process learns of it with its next heartbeat. Claims that name its namespace get nothing from then on, and the
-- capabilities it offers free no blocked execution; its running leases stay.
create or replace function flowfabric.ff_drain_worker(
    p_worker_instance_id text,
    p_draining boolean default true,
    p_reason text default null,
    p_namespace text default 'default'
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_drain_worker';
    v_namespace text := coalesce(p_namespace, 'default');
    v_reason text := nullif(p_reason, '');
    v_worker flowfabric.ff_worker_registry;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_worker_name(v_namespace, p_worker_instance_id, c_fn);
    if p_draining is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'draining', 'null');
    end if;
    perform flowfabric._ff_check_worker_reason(v_reason, c_fn);
    v_worker := flowfabric._ff_lock_worker(v_namespace, p_worker_instance_id);
    v_now_ms := flowfabric.ff_now_ms();
    if not flowfabric._ff_is_live_worker(v_worker, v_now_ms) then
        return row('not_registered')::flowfabric.ff_outcome;
    end if;
    if v_worker.draining = p_draining then
        return row('unchanged')::flowfabric.ff_outcome;
    end if;

    update flowfabric.ff_worker_registry as w
    set draining = p_draining,
        drain_requested_at_ms = case when p_draining then v_now_ms end,
        drain_reason = case when p_draining then v_reason end
    where w.namespace = v_namespace and w.worker_instance_id = p_worker_instance_id;
    perform flowfabric._ff_note_worker(
        v_worker, case when p_draining then 'drain_requested' else 'drain_cancelled' end, v_reason, v_now_ms);
    return row(case when p_draining then 'draining' else 'resumed' end)::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_drain_worker(text, boolean, text, text) is
'Asks a live worker process to take no new work, or lets it take work again.';

grant execute on function flowfabric.ff_drain_worker(text, boolean, text, text) to flowfabric_operator;
