-- ff_update_progress: report how far the running attempt has come.
--
-- Fence:  lease id, lease epoch and attempt id must all name the current, unexpired lease.
-- Locks:  the ff_exec_core row.
-- Writes: the progress in ff_exec_note; the mutation time of ff_exec_core.
-- Raises: invalid_input, execution_not_found and the codes of _ff_check_fence.
-- Retry:  safe; the last report wins.
--
-- A value can be replaced and never cleared. The lease is not renewed: progress of a worker that forgets to renew must
-- not keep the execution from those who would take it over.
create or replace function flowfabric.ff_update_progress(
    p_execution_id text,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_progress_pct integer default null,
    p_progress_message text default null
)
returns flowfabric.ff_progress
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_update_progress';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    if p_progress_pct not between 0 and 100 then
        perform flowfabric._ff_raise_invalid(c_fn, 'progress_pct', 'out_of_range', p_progress_pct::text);
    end if;
    if octet_length(p_progress_message) > 8192 then
        perform flowfabric._ff_raise_invalid(c_fn, 'progress_message', 'too_long', p_progress_message);
    end if;

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_fence(v_exec, p_lease_id, p_lease_epoch, p_attempt_id, false, v_now_ms, c_fn);

    insert into flowfabric.ff_exec_note as n (
        partition_key, execution_id, progress_pct, progress_message, progress_updated_at_ms)
    values (
        v_exec.partition_key, v_exec.execution_id, p_progress_pct, nullif(p_progress_message, ''), v_now_ms)
    on conflict (partition_key, execution_id) do update
    set progress_pct = coalesce(excluded.progress_pct, n.progress_pct),
        progress_message = coalesce(excluded.progress_message, n.progress_message),
        progress_updated_at_ms = excluded.progress_updated_at_ms;
    update flowfabric.ff_exec_core as e
    set last_mutation_at_ms = v_now_ms
    where e.partition_key = v_exec.partition_key and e.execution_id = v_exec.execution_id;
    return row('updated', flowfabric._ff_wire_id(v_exec))::flowfabric.ff_progress;
end;
$$;

comment on function flowfabric.ff_update_progress(text, uuid, bigint, uuid, integer, text) is
'Reports how far the attempt of the lease holder has come, as a percentage, a message or both.';

grant execute on function flowfabric.ff_update_progress(text, uuid, bigint, uuid, integer, text)
to flowfabric_worker;
