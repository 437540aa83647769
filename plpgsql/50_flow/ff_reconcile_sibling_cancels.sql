-- ff_reconcile_sibling_cancels: check joins of one flow whose sibling cancels are said to be pending.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row of the flow, without waiting.
-- Writes: as ff_reconcile_sibling_cancel_group, per join; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with a flow is recorded, and the next one gets its turn.
-- Retry:  safe, and from any number of callers at once.
--
-- Joins that need something come first, so that those whose siblings still run never stand in front of them. Should
-- find nothing to do; its counts are worth a look.
create or replace function flowfabric.ff_reconcile_sibling_cancels(p_limit integer default 50)
returns flowfabric.ff_sibling_reconcile_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_reconcile_sibling_cancels';
    c_scanner constant text := 'edge_cancel_reconcile';
    v_row record;
    v_looked_at uuid[] := '{}'::uuid[];
    v_scan flowfabric.ff_sibling_reconcile_scan;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_row in
        select q.partition_key, q.flow_id
        from flowfabric.ff_pending_cancel_groups as q
        cross join lateral flowfabric._ff_judge_siblings(q.partition_key, q.flow_id, q.downstream_eid) as j
        order by j.action = 'no_op', q.enqueued_at_ms
    loop
        continue when v_row.flow_id = any (v_looked_at);
        v_looked_at := v_looked_at || v_row.flow_id;
        continue when flowfabric._ff_flow_is_paused(c_scanner, v_row.flow_id, v_now_ms);
        begin
            continue when flowfabric._ff_try_lock_flow(v_row.partition_key, v_row.flow_id) = 'busy';
            select
                (count(*) filter (where r.action = 'sremmed_stale'))::integer,
                (count(*) filter (where r.action = 'completed_drain'))::integer,
                (count(*) filter (where r.action = 'no_op'))::integer
            into v_scan
            from (
                select q.downstream_eid
                from flowfabric.ff_pending_cancel_groups as q
                cross join lateral flowfabric._ff_judge_siblings(q.partition_key, q.flow_id, q.downstream_eid) as j
                where q.partition_key = v_row.partition_key and q.flow_id = v_row.flow_id
                order by j.action = 'no_op', q.enqueued_at_ms
                limit p_limit
            ) as due
            cross join lateral flowfabric._ff_reconcile_siblings(
                v_row.partition_key, v_row.flow_id, due.downstream_eid) as r;
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_row.flow_id::text);
            return v_scan;
        exception
            when lock_not_available or deadlock_detected then
                null; -- Somebody else is at it.
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_row.flow_id::text, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    return row(0, 0, 0)::flowfabric.ff_sibling_reconcile_scan;
end;
$$;

comment on function flowfabric.ff_reconcile_sibling_cancels(integer) is
'Scanner: checks joins of one flow whose sibling cancels are said to be pending, and clears what is stale.';

grant execute on function flowfabric.ff_reconcile_sibling_cancels(integer) to flowfabric_operator;
