-- ff_move_to_waiting_children: give a leased execution back until its dependencies are resolved.
--
-- Fence:  the whole triple of the current, unexpired lease; an operator may leave it out with source operator_override.
-- Locks:  the ff_flow_core row of a member, the ff_exec_core row, the ff_attempt row.
-- Writes: ff_exec_core, ff_attempt, ff_lease_event; the quota slot and the open budget reservations go back.
-- Raises: invalid_input, flow_membership_changed and the codes of _ff_check_fence.
-- Retry:  safe; a repeat answers execution_not_active.
--
-- Without an open dependency nothing would ever unblock the execution, so it becomes eligible at once. A worker
-- therefore applies its edges before this call, best in the same transaction. Edge groups change only under the flow
-- lock, which is why reading the group without a lock of its own is enough.
create or replace function flowfabric.ff_move_to_waiting_children(
    p_execution_id text,
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null,
    p_source text default null
)
returns flowfabric.ff_execution_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_move_to_waiting_children';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_override boolean := flowfabric._ff_is_override(p_source, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    v_exec := flowfabric._ff_lock_execution_with_flow(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_fence(
        v_exec, p_lease_id, p_lease_epoch, p_attempt_id, v_override, v_now_ms, c_fn);

    perform flowfabric._ff_pause_attempt(v_exec, 'waiting_children', v_now_ms);
    if exists (
        select from flowfabric.ff_edge_group as g
        where g.partition_key = v_exec.partition_key and g.flow_id = v_exec.flow_id
            and g.downstream_eid = v_exec.execution_id and g.n > 0 and g.group_state <> 'satisfied')
    then
        perform flowfabric._ff_become_blocked(
            v_exec, 'blocked_by_dependencies', 'waiting_for_children', null, 'attempt_interrupted',
            'waiting_children', v_now_ms);
        return row('moved', flowfabric._ff_wire_id(v_exec), 'waiting_children')::flowfabric.ff_execution_outcome;
    end if;
    perform flowfabric._ff_become_eligible(v_exec, 'attempt_interrupted', 'waiting_children', v_now_ms);
    return row('nothing_to_wait_for', flowfabric._ff_wire_id(v_exec), 'waiting')::flowfabric.ff_execution_outcome;
end;
$$;

comment on function flowfabric.ff_move_to_waiting_children(text, uuid, bigint, uuid, text) is
'Gives a leased execution back until its dependencies are resolved, or at once if it has none open.';

grant execute on function flowfabric.ff_move_to_waiting_children(text, uuid, bigint, uuid, text)
to flowfabric_worker, flowfabric_operator;
