-- ff_dispatch_sibling_cancels: cancel siblings of one decided join that the deciding call left.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row of the flow, without waiting; then the siblings, ascending, and what the cascade of
--         _cascade.sql changes.
-- Writes: per sibling what ff_cancel_execution writes; the list of ff_edge_group, ff_pending_cancel_groups;
--         ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with a flow is recorded, and the next one gets its turn.
-- Retry:  safe, and from any number of callers at once: a sibling is cancelled once.
--
-- Takes the join that has waited longest and up to p_limit of its siblings; a longer list takes several calls. No row
-- means that there was nothing to do, or every flow was busy.
create or replace function flowfabric.ff_dispatch_sibling_cancels(p_limit integer default 256)
returns setof flowfabric.ff_sibling_dispatch
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_dispatch_sibling_cancels';
    c_scanner constant text := 'edge_cancel';
    v_row record;
    v_done flowfabric.ff_sibling_dispatch;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_row in
        select q.partition_key, q.flow_id, q.downstream_eid
        from flowfabric.ff_pending_cancel_groups as q
        order by q.enqueued_at_ms, q.partition_key, q.flow_id, q.downstream_eid
    loop
        continue when flowfabric._ff_flow_is_paused(c_scanner, v_row.flow_id, v_now_ms);
        begin
            continue when flowfabric._ff_try_lock_flow(v_row.partition_key, v_row.flow_id) = 'busy';
            v_done := flowfabric._ff_cancel_pending_siblings(
                v_row.partition_key, v_row.flow_id, v_row.downstream_eid, p_limit);
            continue when v_done.flow_id is null;
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_row.flow_id::text);
            return next v_done;
            return;
        exception
            when lock_not_available or deadlock_detected then
                null; -- A worker holds a sibling; the join has its turn again at the next call.
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_row.flow_id::text, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
end;
$$;

comment on function flowfabric.ff_dispatch_sibling_cancels(integer) is
'Scanner: cancels siblings of one decided join that were left over, up to a limit; no row if there is nothing to do.';

grant execute on function flowfabric.ff_dispatch_sibling_cancels(integer) to flowfabric_operator;

-- NULL when there is nothing to do here: the queue row was of a join that is gone, and goes too, or of one whose flag
-- is down, which is the reconciler's. The list is ascending, so whoever was handled is its beginning.
create or replace function flowfabric._ff_cancel_pending_siblings(
    p_partition_key smallint,
    p_flow_id uuid,
    p_downstream_eid uuid,
    p_limit integer
)
returns flowfabric.ff_sibling_dispatch
language plpgsql volatile
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_group flowfabric.ff_edge_group;
    v_ended flowfabric.ff_ended_members;
    v_is_drained boolean;
begin
    select g.* into v_group
    from flowfabric.ff_edge_group as g
    where g.partition_key = p_partition_key and g.flow_id = p_flow_id and g.downstream_eid = p_downstream_eid;
    if not found then
        perform flowfabric._ff_drain_siblings(p_partition_key, p_flow_id, p_downstream_eid);
        return null;
    end if;
    if not v_group.cancel_siblings_pending_flag then
        return null;
    end if;
    v_ended := flowfabric._ff_cancel_members(
        p_partition_key, p_flow_id, v_group.cancel_siblings_pending_members[1 : p_limit],
        v_group.cancel_siblings_reason, v_now_ms);
    v_is_drained := cardinality(v_group.cancel_siblings_pending_members) <= p_limit;
    if v_is_drained then
        perform flowfabric._ff_drain_siblings(p_partition_key, p_flow_id, p_downstream_eid);
    else
        update flowfabric.ff_edge_group as g
        set cancel_siblings_pending_members = g.cancel_siblings_pending_members[p_limit + 1 :]
        where g.partition_key = p_partition_key and g.flow_id = p_flow_id and g.downstream_eid = p_downstream_eid;
    end if;
    perform flowfabric._ff_cascade(
        p_partition_key, p_flow_id, v_ended.queued, 'cancelled', null, true, v_ended.reserved, v_now_ms);
    return row(
        p_flow_id, flowfabric.ff_format_execution_id(p_partition_key, p_downstream_eid), v_ended.cancelled,
        v_ended.already_terminal, v_ended.not_found, v_is_drained)::flowfabric.ff_sibling_dispatch;
end;
$$;
comment on function flowfabric._ff_cancel_pending_siblings(smallint, uuid, uuid, integer) is
'Internal: cancels up to so many of the siblings that a decided join has left over; NULL if there are none to cancel.';
