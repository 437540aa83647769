-- ff_promote_delayed: make one delayed execution eligible once its time has come.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row.
-- Writes: ff_exec_core.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers not_delayed_cleaned.
--
-- The outcomes that end in "cleaned" are upstream's words for an index entry that it removes; here is nothing to
-- clean, and they say why there was nothing to promote.
create or replace function flowfabric.ff_promote_delayed(p_execution_id text)
returns flowfabric.ff_state_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_promote_delayed';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
    v_refusal text;
begin
    select e.* into v_exec
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    for no key update;
    v_now_ms := flowfabric.ff_now_ms();
    v_refusal := case
        when v_exec.execution_id is null then 'not_found_cleaned'
        when v_exec.lifecycle_phase <> 'runnable' then 'not_runnable_cleaned'
        when v_exec.eligibility_state <> 'not_eligible_until_time' then 'not_delayed_cleaned'
        when v_exec.delay_until_ms > v_now_ms then 'not_yet_due'
    end;
    if v_refusal is not null then
        return row(
            v_refusal,
            flowfabric._ff_public_state(v_exec.lifecycle_phase, v_exec.terminal_outcome, v_exec.eligibility_state)
        )::flowfabric.ff_state_outcome;
    end if;
    perform flowfabric._ff_become_eligible(v_exec, v_exec.attempt_state, null, v_now_ms);
    return row('promoted', 'waiting')::flowfabric.ff_state_outcome;
end;
$$;

comment on function flowfabric.ff_promote_delayed(text) is
'Makes a delayed execution eligible once its time has come; says why not if there is nothing to promote.';

grant execute on function flowfabric.ff_promote_delayed(text) to flowfabric_operator;
