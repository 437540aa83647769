-- ff_create_pending_waitpoint: open a waitpoint before suspending, so that its token can be given away first.
--
-- Fence:  the whole triple of the current, unexpired lease.
-- Locks:  the ff_exec_core row.
-- Writes: ff_waitpoint_pending.
-- Raises: invalid_input, no_active_lease, waitpoint_already_exists, hmac_secret_not_initialized, invalid_secret and the
--         codes of _ff_check_fence but lease_revoked.
-- Retry:  not by key: a repeat with another id opens another waitpoint, one with the same id answers
--         waitpoint_already_exists. A worker that lost the answer calls again without an id; the orphan ages out.
--
-- A stale worker must not open doors to an execution that is somebody else's, so the fence is whole although nothing of
-- the lease changes. An id is never used again: signals of a closed waitpoint must not reach a new one.
create or replace function flowfabric.ff_create_pending_waitpoint(
    p_execution_id text,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_waitpoint_key text,
    p_expires_in_ms bigint,
    p_waitpoint_id uuid default null,
    p_attempt_index integer default null
)
returns flowfabric.ff_minted_waitpoint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_create_pending_waitpoint';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
    v_waitpoint flowfabric.ff_waitpoint_pending;
begin
    if p_waitpoint_key is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'waitpoint_key', 'null');
    end if;
    perform flowfabric._ff_check_length(p_waitpoint_key, 1, 512, 'waitpoint_key', c_fn);
    if (p_expires_in_ms > 0) is not true then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'expires_in_ms', case when p_expires_in_ms is null then 'null' else 'out_of_range' end,
            p_expires_in_ms::text);
    end if;
    perform flowfabric._ff_check_duration(p_expires_in_ms, 'expires_in_ms', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if num_nulls(p_lease_id, p_lease_epoch, p_attempt_id) = 0
        and v_exec.lifecycle_phase = 'active' and v_exec.ownership_state <> 'leased'
    then
        perform flowfabric._ff_raise(
            'no_active_lease', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec), 'ownership_state', v_exec.ownership_state));
    end if;
    perform flowfabric._ff_check_fence(
        v_exec, p_lease_id, p_lease_epoch, p_attempt_id, false, v_now_ms, c_fn, p_attempt_index);

    perform flowfabric._ff_check_waitpoint_is_new(v_exec.partition_key, p_waitpoint_id, c_fn);

    v_waitpoint := flowfabric._ff_open_waitpoint(
        v_exec, flowfabric._ff_current_hmac(c_fn), coalesce(p_waitpoint_id, gen_random_uuid()), p_waitpoint_key, null,
        null, '{}'::text[], v_now_ms + p_expires_in_ms, v_now_ms, c_fn);
    return row(
        v_waitpoint.waitpoint_id, v_waitpoint.waitpoint_key,
        (flowfabric._ff_token_again(v_waitpoint, v_now_ms, c_fn)).waitpoint_token, v_waitpoint.expires_at_ms
    )::flowfabric.ff_minted_waitpoint;
end;
$$;

comment on function flowfabric.ff_create_pending_waitpoint(
    text, uuid, bigint, uuid, text, bigint, uuid, integer) is
'Opens a waitpoint before the suspension that will use it, and hands out its token.';

grant execute on function flowfabric.ff_create_pending_waitpoint(
    text, uuid, bigint, uuid, text, bigint, uuid, integer)
to flowfabric_worker;
