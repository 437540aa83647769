-- ff_mark_worker_dead: take a worker process out of the registry, because an operator knows that it is gone.
--
-- Fence:  none.
-- Locks:  the ff_worker_registry row.
-- Writes: deletes the ff_worker_registry row; ff_worker_registry_event.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers not_registered.
--
-- Its leases stay: they expire by themselves, or the operator revokes them. A row that had lapsed before goes as swept.
create or replace function flowfabric.ff_mark_worker_dead(
    p_worker_instance_id text,
    p_reason text default null,
    p_namespace text default 'default'
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_mark_worker_dead';
    v_namespace text := coalesce(p_namespace, 'default');
    v_reason text := nullif(p_reason, '');
    v_worker flowfabric.ff_worker_registry;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_worker_name(v_namespace, p_worker_instance_id, c_fn);
    perform flowfabric._ff_check_worker_reason(v_reason, c_fn);
    v_worker := flowfabric._ff_lock_worker(v_namespace, p_worker_instance_id);
    v_now_ms := flowfabric.ff_now_ms();
    if flowfabric._ff_is_live_worker(v_worker, v_now_ms) then
        perform flowfabric._ff_delete_worker(v_worker, 'marked_dead', v_reason, v_now_ms);
        return row('marked')::flowfabric.ff_outcome;
    end if;
    if v_worker.worker_id is not null then
        perform flowfabric._ff_delete_worker(v_worker, 'ttl_swept', null, v_now_ms);
    end if;
    return row('not_registered')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_mark_worker_dead(text, text, text) is
'Takes a worker process out of the registry; its leases stay until they expire or are revoked.';

grant execute on function flowfabric.ff_mark_worker_dead(text, text, text) to flowfabric_operator;
