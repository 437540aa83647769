-- ff_revoke_lease: take the lease away from its owner without ending the execution.
--
-- Fence:  optional: only this lease, only this worker instance.
-- Locks:  the ff_exec_core row.
-- Writes: ff_exec_core, the reason in ff_exec_note, ff_lease_event, open reservations; ff_operator_event.
-- Raises: invalid_input, execution_not_found, execution_not_active, no_active_lease, stale_lease.
-- Retry:  safe; a repeat answers already_satisfied.
--
-- The execution stays active until somebody reclaims, cancels or expires it, and keeps its quota slot. Works on a
-- lease that is expired by the clock and not yet marked: nobody else has acted on it. The row names the lease that the
-- execution has, whatever the outcome.
create or replace function flowfabric.ff_revoke_lease(
    p_execution_id text,
    p_expected_lease_id uuid default null,
    p_worker_instance_id text default null,
    p_reason text default 'operator'
)
returns flowfabric.ff_revocation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_revoke_lease';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_worker_instance_id text := nullif(p_worker_instance_id, '');
    v_exec flowfabric.ff_exec_core;
    v_satisfied text;
    v_reason text := coalesce(nullif(p_reason, ''), 'operator');
    v_now_ms bigint;
begin
    if v_worker_instance_id is not null and not flowfabric._ff_is_name(v_worker_instance_id) then
        perform flowfabric._ff_raise_invalid_name(v_worker_instance_id, 'worker_instance_id', c_fn);
    end if;
    perform flowfabric._ff_check_reason(p_reason, 'reason', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    if v_exec.lifecycle_phase <> 'active' then
        perform flowfabric._ff_raise('execution_not_active', c_fn, flowfabric._ff_not_active_detail(v_exec));
    end if;
    v_satisfied := case v_exec.ownership_state
        when 'lease_revoked' then 'already_revoked'
        when 'lease_expired_reclaimable' then 'already_expired'
    end;
    if v_satisfied is null then
        if v_exec.ownership_state <> 'leased' then
            perform flowfabric._ff_raise(
                'no_active_lease', c_fn,
                jsonb_build_object(
                    'execution_id', flowfabric._ff_wire_id(v_exec), 'ownership_state', v_exec.ownership_state));
        end if;
        if p_expected_lease_id <> v_exec.current_lease_id then
            perform flowfabric._ff_raise(
                'stale_lease', c_fn,
                jsonb_build_object(
                    'execution_id', flowfabric._ff_wire_id(v_exec),
                    'mismatch', array['lease_id'],
                    'lease_epoch', v_exec.current_lease_epoch,
                    'expected_lease_id', p_expected_lease_id,
                    'lease_id', v_exec.current_lease_id));
        end if;
        if v_worker_instance_id <> v_exec.current_worker_instance_id then
            v_satisfied := 'different_worker_instance_id';
        end if;
    end if;

    if v_satisfied is null then
        v_now_ms := flowfabric.ff_now_ms();
        perform flowfabric._ff_lose_lease(v_exec, 'lease_revoked', v_reason, v_now_ms);
        perform flowfabric._ff_emit_operator(
            v_exec.partition_key, v_exec.namespace, v_exec.instance_tag, v_exec.execution_id, null, 'lease_revoked',
            jsonb_build_object(
                'lease_epoch', v_exec.current_lease_epoch, 'worker_id', v_exec.current_worker_id,
                'worker_instance_id', v_exec.current_worker_instance_id, 'reason', v_reason),
            v_now_ms);
    end if;
    return row(
        case when v_satisfied is null then 'revoked' else 'already_satisfied' end, v_satisfied,
        v_exec.current_lease_id, v_exec.current_lease_epoch)::flowfabric.ff_revocation;
end;
$$;

comment on function flowfabric.ff_revoke_lease(text, uuid, text, text) is
'Takes the lease away from its owner; the execution waits for somebody to reclaim or cancel it.';

grant execute on function flowfabric.ff_revoke_lease(text, uuid, text, text) to flowfabric_operator;
