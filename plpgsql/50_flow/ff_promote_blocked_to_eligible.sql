-- ff_promote_blocked_to_eligible: let an execution go that waits for dependencies of which none is open.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row of a member, then the ff_exec_core row.
-- Writes: ff_exec_core.
-- Raises: invalid_input, execution_not_found, flow_membership_changed, not_runnable, not_blocked_by_deps,
--         deps_not_satisfied.
-- Retry:  a repeat raises not_blocked_by_deps: it was let go.
--
-- A tool for repairs: joins let their children go by themselves, and ff_move_to_waiting_children does not wait for
-- nothing. Upstream's code `terminal` cannot occur behind not_runnable: what has ended is not runnable.
create or replace function flowfabric.ff_promote_blocked_to_eligible(p_execution_id text)
returns flowfabric.ff_state_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_promote_blocked_to_eligible';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_unsatisfied integer;
    v_now_ms bigint;
begin
    v_exec := flowfabric._ff_lock_execution_with_flow(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_exec.lifecycle_phase <> 'runnable' then
        perform flowfabric._ff_raise(
            'not_runnable', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec), 'lifecycle_phase', v_exec.lifecycle_phase));
    end if;
    if v_exec.eligibility_state <> 'blocked_by_dependencies' then
        perform flowfabric._ff_raise(
            'not_blocked_by_deps', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec), 'eligibility_state', v_exec.eligibility_state));
    end if;
    if exists (
        select from flowfabric.ff_edge_group as g
        where g.partition_key = v_exec.partition_key and g.flow_id = v_exec.flow_id
            and g.downstream_eid = v_exec.execution_id and g.n > 0 and g.group_state <> 'satisfied')
    then
        select count(*)::integer into v_unsatisfied
        from flowfabric.ff_edge as d
        where d.partition_key = v_exec.partition_key and d.flow_id = v_exec.flow_id
            and d.downstream_eid = v_exec.execution_id and d.dep_state = 'unsatisfied';
        perform flowfabric._ff_raise(
            'deps_not_satisfied', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec), 'unsatisfied', v_unsatisfied,
                'unresolved', v_unsatisfied));
    end if;

    perform flowfabric._ff_unblock_child(v_exec, v_now_ms);
    return row(
        'promoted',
        case when v_exec.delay_until_ms > v_now_ms then 'delayed'::flowfabric.ff_public_state else 'waiting' end
    )::flowfabric.ff_state_outcome;
end;
$$;

comment on function flowfabric.ff_promote_blocked_to_eligible(text) is
'Lets an execution go that waits for dependencies although none of them is open; for repairs.';

grant execute on function flowfabric.ff_promote_blocked_to_eligible(text) to flowfabric_operator;
