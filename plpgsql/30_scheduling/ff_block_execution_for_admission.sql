-- ff_block_execution_for_admission: take an eligible execution off its queue because admission denied it.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row.
-- Writes: ff_exec_core.
-- Raises: invalid_input, execution_not_found, execution_not_active, execution_not_eligible, invalid_blocking_reason.
-- Retry:  safe; a repeat answers already_blocked.
--
-- Only an eligible execution can be blocked: a block over a delay or over open dependencies would be lifted into
-- eligible_now by somebody who knows nothing of them. A grant that is out stays; its claim finds the block.
create or replace function flowfabric.ff_block_execution_for_admission(
    p_execution_id text,
    p_blocking_reason text,
    p_blocking_detail text default null
)
returns flowfabric.ff_admission_block
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_block_execution_for_admission';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_eligibility flowfabric.ff_eligibility_state := flowfabric._ff_admission_eligibility(p_blocking_reason);
    v_exec flowfabric.ff_exec_core;
begin
    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    if v_exec.lifecycle_phase = 'terminal' then
        perform flowfabric._ff_raise('execution_not_active', c_fn, flowfabric._ff_not_active_detail(v_exec));
    end if;
    if v_exec.lifecycle_phase <> 'runnable' then
        perform flowfabric._ff_raise_not_eligible(v_exec, c_fn);
    end if;
    if v_eligibility is null then
        perform flowfabric._ff_raise_with_hint(
            'invalid_blocking_reason', c_fn, jsonb_build_object('blocking_reason', left(p_blocking_reason, 200)),
            'Set blocking_reason to one of: waiting_for_budget, waiting_for_quota, waiting_for_capable_worker,'
            ' paused_by_operator, paused_by_policy.');
    end if;
    if v_exec.eligibility_state = v_eligibility and v_exec.blocking_reason::text = p_blocking_reason then
        return row('already_blocked', v_eligibility)::flowfabric.ff_admission_block;
    end if;
    if v_exec.eligibility_state <> 'eligible_now' then
        perform flowfabric._ff_raise_not_eligible(v_exec, c_fn);
    end if;

    perform flowfabric._ff_become_blocked(
        v_exec, v_eligibility, p_blocking_reason::flowfabric.ff_blocking_reason,
        flowfabric._ff_truncate_bytes(nullif(p_blocking_detail, ''), 1024), v_exec.attempt_state, null,
        flowfabric.ff_now_ms());
    return row('blocked', v_eligibility)::flowfabric.ff_admission_block;
end;
$$;

comment on function flowfabric.ff_block_execution_for_admission(text, text, text) is
'Takes an eligible execution off its queue because admission denied it, for one of five reasons.';

grant execute on function flowfabric.ff_block_execution_for_admission(text, text, text) to flowfabric_operator;
