-- ff_change_priority: move a waiting execution within the queue of its lane.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row.
-- Writes: the priority of ff_exec_core; ff_operator_event.
-- Raises: invalid_input, execution_not_found, execution_not_eligible.
-- Retry:  safe; a repeat succeeds with old = new and writes another event.
--
-- An execution that nobody could claim now keeps its priority: delayed and blocked ones are refused.
create or replace function flowfabric.ff_change_priority(p_execution_id text, p_new_priority integer)
returns flowfabric.ff_priority_change
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_change_priority';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_new_priority integer := least(greatest(p_new_priority, 0), 9000);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    if p_new_priority is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'new_priority', 'null');
    end if;

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    if v_exec.eligibility_state <> 'eligible_now' then
        perform flowfabric._ff_raise_not_eligible(v_exec, c_fn);
    end if;

    v_now_ms := flowfabric.ff_now_ms();
    update flowfabric.ff_exec_core as e
    set priority = v_new_priority, last_mutation_at_ms = v_now_ms
    where e.partition_key = v_exec.partition_key and e.execution_id = v_exec.execution_id;
    -- It comes into another queue segment with its old creation time, below the floor that claims may have put there.
    perform flowfabric._ff_announce_eligible(
        v_exec.lane_id, v_exec.capability_set_id, v_new_priority, v_exec.namespace, v_exec.created_at_ms, v_now_ms);
    perform flowfabric._ff_emit_operator(
        v_exec.partition_key, v_exec.namespace, v_exec.instance_tag, v_exec.execution_id, null, 'priority_changed',
        jsonb_build_object('old_priority', v_exec.priority, 'new_priority', v_new_priority), v_now_ms);
    return row(v_exec.priority, v_new_priority)::flowfabric.ff_priority_change;
end;
$$;

comment on function flowfabric.ff_change_priority(text, integer) is
'Moves a waiting execution within the queue of its lane; the new priority is brought into 0 to 9000.';

grant execute on function flowfabric.ff_change_priority(text, integer) to flowfabric_operator;
