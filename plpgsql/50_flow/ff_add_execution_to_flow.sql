-- ff_add_execution_to_flow: make an existing execution a member of a flow.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row, then the ff_exec_core row.
-- Writes: the flow id of ff_exec_core; the counts of ff_flow_core.
-- Raises: invalid_input, flow_not_found, flow_already_terminal, execution_not_found, already_member_of_different_flow.
-- Retry:  safe; the repeat answers already_member.
--
-- Membership is for life. An execution in any state may join, even one that has ended; whoever ends it at this moment
-- is refused with flow_membership_changed and repeats its call under the lock of the flow.
create or replace function flowfabric.ff_add_execution_to_flow(p_flow_id uuid, p_execution_id text)
returns flowfabric.ff_flow_membership
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_add_execution_to_flow';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_flow flowfabric.ff_flow_core;
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    v_flow := flowfabric._ff_lock_flow(p_flow_id, c_fn);
    perform flowfabric._ff_check_flow_is_open(v_flow, c_fn);
    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_exec.flow_id = p_flow_id then
        return row(
            flowfabric._ff_wire_id(v_exec), v_flow.node_count, v_flow.graph_revision, 'already_member'
        )::flowfabric.ff_flow_membership;
    end if;
    if v_exec.flow_id is not null then
        perform flowfabric._ff_raise(
            'already_member_of_different_flow', c_fn,
            jsonb_build_object('execution_id', flowfabric._ff_wire_id(v_exec), 'flow_id', v_exec.flow_id));
    end if;
    -- Last, so that it hides none of the more telling refusals above.
    if v_exec.partition_key <> v_flow.partition_key then
        perform flowfabric._ff_raise_invalid(c_fn, 'execution_id', 'partition_mismatch', p_execution_id);
    end if;

    update flowfabric.ff_exec_core as e
    set flow_id = p_flow_id, last_mutation_at_ms = v_now_ms
    where e.partition_key = v_exec.partition_key and e.execution_id = v_exec.execution_id;
    update flowfabric.ff_flow_core as f
    set node_count = f.node_count + 1,
        graph_revision = f.graph_revision + 1,
        last_mutation_at_ms = v_now_ms
    where f.partition_key = v_flow.partition_key and f.flow_id = p_flow_id;
    return row(
        flowfabric._ff_wire_id(v_exec), v_flow.node_count + 1, v_flow.graph_revision + 1, 'added'
    )::flowfabric.ff_flow_membership;
end;
$$;

comment on function flowfabric.ff_add_execution_to_flow(uuid, text) is
'Makes an execution a member of a flow, for life; its id must lie on the partition of the flow.';

grant execute on function flowfabric.ff_add_execution_to_flow(uuid, text) to flowfabric_producer;
