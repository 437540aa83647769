-- ff_reconcile_sibling_cancel_group: check one join whose sibling cancels are said to be pending.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row, if there is one.
-- Writes: deletes a stale ff_pending_cancel_groups row; the flag and the list of an ff_edge_group that has none left.
-- Raises: invalid_input.
-- Retry:  safe; the repeat answers no_op.
--
-- Never cancels anything: siblings that still run are the dispatcher's work. Flag, list and queue row change in one
-- transaction, so crashes leave nothing to repair; this is the audit that shows it.
create or replace function flowfabric.ff_reconcile_sibling_cancel_group(
    p_flow_id uuid,
    p_downstream_execution_id text
)
returns flowfabric.ff_sibling_reconciliation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_reconcile_sibling_cancel_group';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_downstream_execution_id, c_fn);
begin
    perform flowfabric._ff_find_flow(p_flow_id, c_fn);
    return flowfabric._ff_reconcile_siblings(v_key.partition_key, p_flow_id, v_key.execution_id);
end;
$$;

comment on function flowfabric.ff_reconcile_sibling_cancel_group(uuid, text) is
'Checks one join whose sibling cancels are said to be pending, and clears what is stale; cancels nothing.';

grant execute on function flowfabric.ff_reconcile_sibling_cancel_group(uuid, text) to flowfabric_operator;

-- The decision table of spec 30 section 4.12, as a reading: what would be done with a queue row, and why.
create or replace function flowfabric._ff_judge_siblings(
    p_partition_key smallint,
    p_flow_id uuid,
    p_downstream_eid uuid
)
returns flowfabric.ff_sibling_reconciliation
language plpgsql stable
as $$
declare
    v_is_pending boolean;
    v_members uuid[];
begin
    if not exists (
        select from flowfabric.ff_pending_cancel_groups as q
        where q.partition_key = p_partition_key and q.flow_id = p_flow_id and q.downstream_eid = p_downstream_eid)
    then
        return row('no_op', 'not_in_set')::flowfabric.ff_sibling_reconciliation;
    end if;
    select g.cancel_siblings_pending_flag, g.cancel_siblings_pending_members into v_is_pending, v_members
    from flowfabric.ff_edge_group as g
    where g.partition_key = p_partition_key and g.flow_id = p_flow_id and g.downstream_eid = p_downstream_eid;
    if not found then
        return row('sremmed_stale', 'missing_edgegroup')::flowfabric.ff_sibling_reconciliation;
    end if;
    if not v_is_pending then
        return row('sremmed_stale', 'flag_cleared')::flowfabric.ff_sibling_reconciliation;
    end if;
    if exists (
        select from flowfabric.ff_exec_core as e
        where e.partition_key = p_partition_key and e.execution_id = any (v_members)
            and e.lifecycle_phase <> 'terminal')
    then
        return row('no_op', 'siblings_running')::flowfabric.ff_sibling_reconciliation;
    end if;
    return row('completed_drain', null)::flowfabric.ff_sibling_reconciliation;
end;
$$;
comment on function flowfabric._ff_judge_siblings(smallint, uuid, uuid) is
'Internal: what a pending sibling cancel needs: nothing, to be forgotten as stale, or to be marked as done.';

create or replace function flowfabric._ff_reconcile_siblings(
    p_partition_key smallint,
    p_flow_id uuid,
    p_downstream_eid uuid
)
returns flowfabric.ff_sibling_reconciliation
language plpgsql volatile
as $$
declare
    v_verdict flowfabric.ff_sibling_reconciliation
        := flowfabric._ff_judge_siblings(p_partition_key, p_flow_id, p_downstream_eid);
begin
    if v_verdict.action <> 'no_op' then
        perform flowfabric._ff_drain_siblings(p_partition_key, p_flow_id, p_downstream_eid);
    end if;
    return v_verdict;
end;
$$;
comment on function flowfabric._ff_reconcile_siblings(smallint, uuid, uuid) is
'Internal: does what _ff_judge_siblings says.';
