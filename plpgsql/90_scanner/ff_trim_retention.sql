-- ff_trim_retention: delete ended executions, and flows without members, that have been kept long enough.
--
-- Fence:  none.
-- Locks:  the flow of each execution, if it has one, then its ff_exec_core row, without waiting; each flow likewise.
-- Writes: deletes everything that belongs to an execution or a flow, except its events and what has a lifetime of its
--         own (below); ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one execution or flow is counted and recorded.
-- Retry:  safe, and from any number of callers at once.
--
-- What has a lifetime of its own stays until that is over. Events have a window: deleting them here would take them
-- away from a slow reader. Idempotency keys of creations and keys of closed reservations live until they expire, or a
-- repeat would be taken for a first call. Starts count in the window of their quota until it has passed. Keys of
-- signals and suspends go: what they could repeat is refused, because their waitpoint or execution is gone.
--
-- An execution is kept as long as its end has still to be passed on: by the outbox, over an unsatisfied edge or in a
-- cancel backlog. Executions with a retention of their own are found by their own index, so that neither kind stands in
-- front of the other. A flow belongs to no lane: a call for one lane leaves flows alone.
create or replace function flowfabric.ff_trim_retention(
    p_limit integer default 100,
    p_partition_key smallint default null,
    p_lane_id text default null,
    p_retention_ms bigint default null
)
returns flowfabric.ff_retention_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_trim_retention';
    c_scanner constant text := 'retention';
    v_lane_id text := nullif(p_lane_id, '');
    v_retention_ms bigint := coalesce(p_retention_ms, flowfabric._ff_setting_value('default_retention_ms'));
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_due flowfabric.ff_execution_key[];
    v_executions flowfabric.ff_scan;
    v_flows flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    perform flowfabric._ff_check_duration(p_retention_ms, 'retention_ms', c_fn);
    if v_lane_id is not null and not flowfabric._ff_is_lane_id(v_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(v_lane_id, c_fn);
    end if;

    v_due := array(
        select row(d.partition_key, d.execution_id)::flowfabric.ff_execution_key
        from (
            (
                select e.partition_key, e.execution_id, e.terminal_at_ms + v_retention_ms as due_at_ms
                from flowfabric.ff_exec_core as e
                where e.purge_after_ms is null and e.terminal_at_ms <= v_now_ms - v_retention_ms
                    and (p_partition_key is null or e.partition_key = p_partition_key)
                    and (v_lane_id is null or e.lane_id = v_lane_id)
                    and (e.flow_id is null or not flowfabric._ff_is_needed(e))
                    and not exists (
                        select from flowfabric.ff_scanner_failure as f
                        where f.scanner = c_scanner and f.skip_until_ms > v_now_ms
                            and f.item_key = flowfabric.ff_format_execution_id(e.partition_key, e.execution_id))
                order by e.terminal_at_ms
                limit flowfabric._ff_scan_window(p_limit)
            )
            union all
            (
                select e.partition_key, e.execution_id, e.purge_after_ms
                from flowfabric.ff_exec_core as e
                where e.purge_after_ms <= v_now_ms
                    and (p_partition_key is null or e.partition_key = p_partition_key)
                    and (v_lane_id is null or e.lane_id = v_lane_id)
                    and (e.flow_id is null or not flowfabric._ff_is_needed(e))
                    and not exists (
                        select from flowfabric.ff_scanner_failure as f
                        where f.scanner = c_scanner and f.skip_until_ms > v_now_ms
                            and f.item_key = flowfabric.ff_format_execution_id(e.partition_key, e.execution_id))
                order by e.purge_after_ms
                limit flowfabric._ff_scan_window(p_limit)
            )
        ) as d
        order by d.due_at_ms
        limit flowfabric._ff_scan_window(p_limit));
    v_executions := flowfabric._ff_scan_executions(c_scanner, v_due, p_limit, true, v_retention_ms);
    if v_lane_id is null then
        v_flows := flowfabric._ff_trim_flows(c_scanner, p_limit, p_partition_key);
    end if;
    return row(
        v_executions.processed, v_flows.processed, v_executions.skipped + v_flows.skipped,
        v_executions.errors + v_flows.errors, v_executions.more or v_flows.more)::flowfabric.ff_retention_scan;
end;
$$;

comment on function flowfabric.ff_trim_retention(integer, smallint, text, bigint) is
'Scanner: deletes ended executions past their retention, and flows whose members are all gone; never events.';

grant execute on function flowfabric.ff_trim_retention(integer, smallint, text, bigint) to flowfabric_operator;

create or replace function flowfabric._ff_is_needed(p_exec flowfabric.ff_exec_core)
returns boolean
language sql stable
as $$
    select exists (
        select from flowfabric.ff_dependency_outbox as o
        where o.partition_key = p_exec.partition_key and o.flow_id = p_exec.flow_id
            and o.upstream_eid = p_exec.execution_id)
    or exists (
        select from flowfabric.ff_edge as d
        where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
            and d.upstream_eid = p_exec.execution_id and d.dep_state = 'unsatisfied')
    or exists (
        select from flowfabric.ff_cancel_backlog_member as m
        where m.partition_key = p_exec.partition_key and m.flow_id = p_exec.flow_id
            and m.execution_id = p_exec.execution_id)
$$;
comment on function flowfabric._ff_is_needed(flowfabric.ff_exec_core) is
'Internal: whether the end of a flow member has still to be passed on, so that it may not be deleted.';

create or replace function flowfabric._ff_is_purgeable(
    p_exec flowfabric.ff_exec_core,
    p_retention_ms bigint,
    p_now_ms bigint
)
returns boolean
language sql stable
as $$
    -- The subtraction cannot overflow, whatever the retention; the sum could.
    select p_exec.lifecycle_phase = 'terminal'
        and case
            when p_exec.purge_after_ms is not null then p_exec.purge_after_ms <= p_now_ms
            else p_exec.terminal_at_ms <= p_now_ms - p_retention_ms
        end
        and (p_exec.flow_id is null or not flowfabric._ff_is_needed(p_exec))
$$;
comment on function flowfabric._ff_is_purgeable(flowfabric.ff_exec_core, bigint, bigint) is
'Internal: whether a locked execution has been kept long enough and nothing needs it any more.';

-- Children before the execution row. Outgoing edges are left: they are resolved, and history of the other end.
create or replace function flowfabric._ff_purge_execution(p_exec flowfabric.ff_exec_core)
returns boolean
language plpgsql volatile
as $$
declare
    c_frames_per_call constant integer := 10000;
    v_partition_key smallint := p_exec.partition_key;
    v_execution_id uuid := p_exec.execution_id;
    v_last record;
begin
    select f.attempt_index, f.ts_ms, f.seq into v_last
    from flowfabric.ff_stream_frame as f
    where f.partition_key = v_partition_key and f.execution_id = v_execution_id
    order by f.attempt_index, f.ts_ms, f.seq
    offset c_frames_per_call - 1
    limit 1;
    if found then
        delete from flowfabric.ff_stream_frame as f
        where f.partition_key = v_partition_key and f.execution_id = v_execution_id
            and (f.attempt_index, f.ts_ms, f.seq) <= (v_last.attempt_index, v_last.ts_ms, v_last.seq);
        if exists (
            select from flowfabric.ff_stream_frame as f
            where f.partition_key = v_partition_key and f.execution_id = v_execution_id)
        then
            return false;
        end if;
    else
        delete from flowfabric.ff_stream_frame as f
        where f.partition_key = v_partition_key and f.execution_id = v_execution_id;
    end if;
    delete from flowfabric.ff_stream_meta as m
    where m.partition_key = v_partition_key and m.execution_id = v_execution_id;
    delete from flowfabric.ff_stream_summary as s
    where s.partition_key = v_partition_key and s.execution_id = v_execution_id;
    delete from flowfabric.ff_attempt as a
    where a.partition_key = v_partition_key and a.execution_id = v_execution_id;
    delete from flowfabric.ff_claim_grant as g
    where g.partition_key = v_partition_key and g.execution_id = v_execution_id;

    delete from flowfabric.ff_suspension_current as u
    where u.partition_key = v_partition_key and u.execution_id = v_execution_id;
    delete from flowfabric.ff_suspension_satisfier as t
    where t.partition_key = v_partition_key and t.execution_id = v_execution_id;
    -- Keys of deliveries know their waitpoint only, so they go before it.
    delete from flowfabric.ff_signal_dedup as k
    where k.partition_key = v_partition_key and k.waitpoint_id in (
        select w.waitpoint_id from flowfabric.ff_waitpoint_pending as w
        where w.partition_key = v_partition_key and w.execution_id = v_execution_id);
    delete from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = v_partition_key and w.execution_id = v_execution_id;
    delete from flowfabric.ff_signal as s
    where s.partition_key = v_partition_key and s.execution_id = v_execution_id;
    delete from flowfabric.ff_suspend_dedup as k
    where k.partition_key = v_partition_key and k.execution_id = v_execution_id;

    if p_exec.flow_id is not null then
        delete from flowfabric.ff_edge as d
        where d.partition_key = v_partition_key and d.flow_id = p_exec.flow_id
            and d.downstream_eid = v_execution_id;
        delete from flowfabric.ff_edge_group as g
        where g.partition_key = v_partition_key and g.flow_id = p_exec.flow_id
            and g.downstream_eid = v_execution_id;
        delete from flowfabric.ff_pending_cancel_groups as g
        where g.partition_key = v_partition_key and g.flow_id = p_exec.flow_id
            and g.downstream_eid = v_execution_id;
    end if;

    delete from flowfabric.ff_quota_admitted as q
    where q.partition_key = v_partition_key and q.execution_id = v_execution_id;
    delete from flowfabric.ff_budget_usage_by_exec as u
    where u.partition_key = v_partition_key and u.execution_id = v_execution_id;

    delete from flowfabric.ff_scanner_failure as f
    where f.item_key = flowfabric._ff_wire_id(p_exec);
    delete from flowfabric.ff_exec_note as n
    where n.partition_key = v_partition_key and n.execution_id = v_execution_id;
    delete from flowfabric.ff_exec_tag as t
    where t.partition_key = v_partition_key and t.execution_id = v_execution_id;
    delete from flowfabric.ff_exec_payload as p
    where p.partition_key = v_partition_key and p.execution_id = v_execution_id;
    delete from flowfabric.ff_exec_core as e
    where e.partition_key = v_partition_key and e.execution_id = v_execution_id;
    return true;
end;
$$;
comment on function flowfabric._ff_purge_execution(flowfabric.ff_exec_core) is
'Internal: deletes a locked execution with all that ends with it; false if frames are left for another call.';

-- A flow is kept while it has a member; one that never had any and is open may still get one.
create or replace function flowfabric._ff_trim_flows(p_scanner text, p_limit integer, p_partition_key smallint)
returns flowfabric.ff_scan
language plpgsql volatile
as $$
declare
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_last_due_ms bigint := v_now_ms - flowfabric._ff_setting_value('flow_retention_ms');
    v_flow record;
    v_detail text;
begin
    for v_flow in
        select f.partition_key, f.flow_id
        from flowfabric.ff_flow_core as f
        where f.last_mutation_at_ms <= v_last_due_ms
            and (f.node_count > 0 or f.public_flow_state = 'cancelled')
            and (p_partition_key is null or f.partition_key = p_partition_key)
            and not exists (
                select from flowfabric.ff_exec_core as e
                where e.partition_key = f.partition_key and e.flow_id = f.flow_id)
            and not exists (
                select from flowfabric.ff_scanner_failure as s
                where s.scanner = p_scanner and s.skip_until_ms > v_now_ms and s.item_key = f.flow_id::text)
        order by f.last_mutation_at_ms
        limit p_limit
    loop
        begin
            perform from flowfabric.ff_flow_core as f
            where f.partition_key = v_flow.partition_key and f.flow_id = v_flow.flow_id
                and f.last_mutation_at_ms <= v_last_due_ms
            for update skip locked;
            if not found then
                raise lock_not_available;
            end if;
            -- Membership changes only under the lock that is held now; a member that joined before it stays.
            if exists (
                select from flowfabric.ff_exec_core as e
                where e.partition_key = v_flow.partition_key and e.flow_id = v_flow.flow_id)
            then
                raise lock_not_available;
            end if;
            delete from flowfabric.ff_edge as d
            where d.partition_key = v_flow.partition_key and d.flow_id = v_flow.flow_id;
            delete from flowfabric.ff_edge_group as g
            where g.partition_key = v_flow.partition_key and g.flow_id = v_flow.flow_id;
            delete from flowfabric.ff_pending_cancel_groups as g
            where g.partition_key = v_flow.partition_key and g.flow_id = v_flow.flow_id;
            delete from flowfabric.ff_cancel_backlog_member as m
            where m.partition_key = v_flow.partition_key and m.flow_id = v_flow.flow_id;
            delete from flowfabric.ff_cancel_backlog as b
            where b.partition_key = v_flow.partition_key and b.flow_id = v_flow.flow_id;
            delete from flowfabric.ff_flow_summary as s
            where s.partition_key = v_flow.partition_key and s.flow_id = v_flow.flow_id;
            delete from flowfabric.ff_flow_tag as t
            where t.partition_key = v_flow.partition_key and t.flow_id = v_flow.flow_id;
            delete from flowfabric.ff_flow_core as f
            where f.partition_key = v_flow.partition_key and f.flow_id = v_flow.flow_id;
            perform flowfabric._ff_scanner_item_ok(p_scanner, v_flow.flow_id::text);
            v_scan.processed := v_scan.processed + 1;
        exception
            when lock_not_available or deadlock_detected then
                v_scan.skipped := v_scan.skipped + 1;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_scan.errors := v_scan.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    p_scanner, v_flow.flow_id::text, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    v_scan.more := v_scan.processed >= p_limit;
    return v_scan;
end;
$$;
comment on function flowfabric._ff_trim_flows(text, integer, smallint) is
'Internal: deletes flows whose members are all gone and that have not changed for the retention of flows.';
