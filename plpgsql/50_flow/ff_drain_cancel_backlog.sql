-- ff_drain_cancel_backlog: cancel members of one cancelled flow that the cancelling call left.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row: waited for if the flow is named, else without waiting; then the members, ascending, and
--         what the cascade of _cascade.sql changes.
-- Writes: per member what ff_cancel_execution writes; deletes from ff_cancel_backlog_member and ff_cancel_backlog;
--         ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with a flow that was not named is recorded, and the next one gets its turn.
-- Retry:  safe, and from any number of callers at once: a member is cancelled once.
--
-- Without a flow, the one whose grace ended first; no row means that there is none, or every one is busy. With a flow
-- its grace is over: to wait until a cancel is done, call this until `remaining` is 0.
create or replace function flowfabric.ff_drain_cancel_backlog(p_limit integer default 500, p_flow_id uuid default null)
returns setof flowfabric.ff_backlog_drain
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_drain_cancel_backlog';
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    if p_flow_id is null then
        return query select d.* from flowfabric._ff_drain_due_backlog(p_limit) as d;
        return;
    end if;
    perform flowfabric._ff_find_flow(p_flow_id, c_fn);
    return next flowfabric._ff_drain_backlog(flowfabric.ff_flow_partition(p_flow_id), p_flow_id, p_limit);
end;
$$;

comment on function flowfabric.ff_drain_cancel_backlog(integer, uuid) is
'Scanner: cancels members that a flow cancel left over: of the flow named, or of one whose grace is over.';

grant execute on function flowfabric.ff_drain_cancel_backlog(integer, uuid) to flowfabric_operator;

-- The clause that keeps a scanner from waiting stands here and not on the public function, which waits if it is told
-- the flow.
create or replace function flowfabric._ff_drain_due_backlog(p_limit integer)
returns setof flowfabric.ff_backlog_drain
language plpgsql volatile
set lock_timeout = '100ms'
as $$
declare
    c_scanner constant text := 'cancel_backlog';
    v_row record;
    v_drain flowfabric.ff_backlog_drain;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_detail text;
begin
    for v_row in
        select b.partition_key, b.flow_id
        from flowfabric.ff_cancel_backlog as b
        where b.grace_until_ms <= v_now_ms
        order by b.grace_until_ms, b.partition_key, b.flow_id
    loop
        continue when flowfabric._ff_flow_is_paused(c_scanner, v_row.flow_id, v_now_ms);
        begin
            continue when flowfabric._ff_try_lock_flow(v_row.partition_key, v_row.flow_id) = 'busy';
            v_drain := flowfabric._ff_drain_backlog(v_row.partition_key, v_row.flow_id, p_limit);
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_row.flow_id::text);
            return next v_drain;
            return;
        exception
            when lock_not_available or deadlock_detected then
                null; -- A worker holds a member; the flow has its turn again at the next call.
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_row.flow_id::text, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
end;
$$;
comment on function flowfabric._ff_drain_due_backlog(integer) is
'Internal: drains the backlog of the first cancelled flow whose grace is over and that nobody holds.';

create or replace function flowfabric._ff_drain_backlog(p_partition_key smallint, p_flow_id uuid, p_limit integer)
returns flowfabric.ff_backlog_drain
language plpgsql volatile
set enable_seqscan = off -- these two: 15_batch/_moves.sql
set jit = off
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_reason text;
    v_members uuid[];
    v_ended flowfabric.ff_ended_members := row(0, 0, 0, '{}', '{}')::flowfabric.ff_ended_members;
    v_remaining integer;
begin
    select f.cancel_reason into v_reason
    from flowfabric.ff_flow_core as f
    where f.partition_key = p_partition_key and f.flow_id = p_flow_id;
    v_members := array(
        select m.execution_id
        from flowfabric.ff_cancel_backlog_member as m
        where m.partition_key = p_partition_key and m.flow_id = p_flow_id
        order by m.execution_id
        limit p_limit);
    if cardinality(v_members) > 0 then
        v_ended := flowfabric._ff_cancel_members(
            p_partition_key, p_flow_id, v_members, flowfabric._ff_member_cancel_reason(v_reason), v_now_ms);
    end if;
    -- Those that had ended or are gone; the end of the others has taken them out already.
    delete from flowfabric.ff_cancel_backlog_member as m
    where m.partition_key = p_partition_key and m.flow_id = p_flow_id and m.execution_id = any (v_members);
    perform flowfabric._ff_close_cancel_backlog(p_partition_key, p_flow_id);
    perform flowfabric._ff_cascade(
        p_partition_key, p_flow_id, v_ended.queued, 'cancelled', null, true, v_ended.reserved, v_now_ms);
    select count(*)::integer into v_remaining
    from flowfabric.ff_cancel_backlog_member as m
    where m.partition_key = p_partition_key and m.flow_id = p_flow_id;
    return row(
        p_flow_id, v_ended.cancelled, v_ended.already_terminal + v_ended.not_found, v_remaining
    )::flowfabric.ff_backlog_drain;
end;
$$;
comment on function flowfabric._ff_drain_backlog(smallint, uuid, integer) is
'Internal: cancels up to so many members from the backlog of a locked flow, and resolves their edges.';
