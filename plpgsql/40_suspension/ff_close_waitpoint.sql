-- ff_close_waitpoint: close one waitpoint and leave the execution as it is.
--
-- Fence:  the whole triple of the current, unexpired lease; an operator may leave it out with source operator_override.
-- Locks:  the ff_exec_core row, which covers its waitpoints.
-- Writes: ff_waitpoint_pending.
-- Raises: invalid_input, unauthorized, waitpoint_not_found, invalid_waitpoint_for_execution and the codes of
--         _ff_check_fence.
-- Retry:  safe; a repeat answers `already_closed`.
--
-- A fence needs an active execution, so a worker can close only what is pending in its own attempt. To close an active
-- waitpoint is to revoke somebody's token, which is an operator's decision; the suspension stays open for its other
-- waitpoints, its timeout or an operator, even when the last one closes: a close must not be a hidden resume.
create or replace function flowfabric.ff_close_waitpoint(
    p_execution_id text,
    p_waitpoint_id uuid,
    p_reason text default 'proactive_close',
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null,
    p_source text default null
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_close_waitpoint';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_override boolean := flowfabric._ff_is_override(p_source, c_fn);
    v_reason text := coalesce(p_reason, 'proactive_close');
    v_has_fence boolean := num_nulls(p_lease_id, p_lease_epoch, p_attempt_id) < 3;
    v_exec flowfabric.ff_exec_core;
    v_waitpoint flowfabric.ff_waitpoint_pending;
    v_now_ms bigint;
begin
    if p_waitpoint_id is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'waitpoint_id', 'null');
    end if;
    perform flowfabric._ff_check_length(v_reason, 1, 256, 'reason', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_override and not v_has_fence then
        -- Not by _ff_check_fence, which holds an override to an active lease: here the execution may be suspended.
        perform flowfabric._ff_require_role('flowfabric_operator', c_fn);
    else
        perform flowfabric._ff_check_fence(
            v_exec, p_lease_id, p_lease_epoch, p_attempt_id, v_override, v_now_ms, c_fn);
    end if;
    select w.* into v_waitpoint
    from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = v_exec.partition_key and w.waitpoint_id = p_waitpoint_id
        and w.execution_id = v_exec.execution_id;
    if not found then
        perform flowfabric._ff_raise(
            'waitpoint_not_found', c_fn, jsonb_build_object('waitpoint_id', p_waitpoint_id));
    end if;
    if v_has_fence and v_waitpoint.attempt_index <> v_exec.total_attempt_count - 1 then
        perform flowfabric._ff_raise_foreign_waitpoint(v_exec, p_waitpoint_id, c_fn);
    end if;

    if not flowfabric._ff_is_open_waitpoint(v_waitpoint, v_now_ms) then
        return row('already_closed')::flowfabric.ff_outcome;
    end if;
    perform flowfabric._ff_close_waitpoint(v_waitpoint, v_reason, v_now_ms);
    return row('closed')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_close_waitpoint(text, uuid, text, uuid, bigint, uuid, text) is
'Closes one waitpoint, so that its token is refused; the suspension, if there is one, stays open.';

grant execute on function flowfabric.ff_close_waitpoint(text, uuid, text, uuid, bigint, uuid, text)
to flowfabric_worker, flowfabric_operator;

create or replace function flowfabric._ff_raise_foreign_waitpoint(
    p_exec flowfabric.ff_exec_core,
    p_waitpoint_id uuid,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'invalid_waitpoint_for_execution', p_fn,
        jsonb_build_object('waitpoint_id', p_waitpoint_id, 'execution_id', flowfabric._ff_wire_id(p_exec)));
end;
$$;
comment on function flowfabric._ff_raise_foreign_waitpoint(flowfabric.ff_exec_core, uuid, text) is
'Internal: raises invalid_waitpoint_for_execution for a waitpoint of another execution or attempt.';
