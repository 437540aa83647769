-- ff_cancel_execution: end an execution in any phase but terminal.
--
-- Fence:  the whole triple of the current, unexpired lease for source lease_holder; none for the other sources.
-- Locks:  the ff_flow_core row of a member, the ff_exec_core row, the ff_attempt row, the open suspension and its
--         waitpoints.
-- Writes: ff_exec_core, ff_attempt, ff_exec_note, ff_completion_event; ff_lease_event if it was active; ff_stream_meta
--         of a stream that exists; ff_suspension_current and ff_waitpoint_pending if it was suspended; deletes a grant;
--         the quota slot, the open budget reservations and the edges of a flow member; ff_operator_event, unless the
--         lease holder itself cancels.
-- Raises: invalid_input, unauthorized, execution_not_found, execution_not_active, flow_membership_changed and, for a
--         lease holder, the codes of _ff_check_fence.
-- Retry:  safe; a repeat answers execution_not_active with outcome cancelled.
--
-- A lease holder can end only what it holds at this moment. Queued, delayed, blocked and suspended executions, and
-- those with a lost lease, are an operator's to cancel: naming another source needs the operator role, and that is
-- asked before anything is said about the execution.
create or replace function flowfabric.ff_cancel_execution(
    p_execution_id text,
    p_reason text,
    p_source text default 'lease_holder',
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null
)
returns flowfabric.ff_cancellation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_cancel_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_source text := coalesce(nullif(p_source, ''), 'lease_holder');
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    if p_reason is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'reason', 'null');
    end if;
    perform flowfabric._ff_check_reason(p_reason, 'reason', c_fn);
    if v_source <> all (flowfabric._ff_legal_values('ff_cancel_execution.source')) then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'source', p_source, flowfabric._ff_legal_values('ff_cancel_execution.source'));
    end if;
    if v_source <> 'lease_holder' then
        perform flowfabric._ff_require_role('flowfabric_operator', c_fn);
    end if;

    v_exec := flowfabric._ff_lock_execution_with_flow(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_exec.lifecycle_phase = 'terminal' then
        perform flowfabric._ff_raise('execution_not_active', c_fn, flowfabric._ff_not_active_detail(v_exec));
    end if;
    if v_source = 'lease_holder' then
        perform flowfabric._ff_check_fence(
            v_exec, p_lease_id, p_lease_epoch, p_attempt_id, false, v_now_ms, c_fn);
    end if;

    perform flowfabric._ff_cancel(v_exec, p_reason, v_source, v_now_ms);
    if v_source <> 'lease_holder' then
        perform flowfabric._ff_emit_operator(
            v_exec.partition_key, v_exec.namespace, v_exec.instance_tag, v_exec.execution_id, null, 'cancelled',
            jsonb_build_object(
                'source', v_source, 'cancelled_from', v_exec.lifecycle_phase, 'reason', nullif(p_reason, '')),
            v_now_ms);
    end if;
    return row(
        'cancelled', flowfabric._ff_wire_id(v_exec), v_exec.lifecycle_phase, 'cancelled')::flowfabric.ff_cancellation;
end;
$$;

comment on function flowfabric.ff_cancel_execution(text, text, text, uuid, bigint, uuid) is
'Ends an execution in any phase but terminal: what a worker holds, or whatever an operator names.';

grant execute on function flowfabric.ff_cancel_execution(text, text, text, uuid, bigint, uuid)
to flowfabric_worker, flowfabric_operator;
