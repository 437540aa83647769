-- ff_dispatch_dependencies: resolve edges of one flow that ended members still owe.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row of the flow, without waiting; then what the cascade of _cascade.sql changes.
-- Writes: ff_edge, ff_edge_group, ff_dependency_outbox and what the resolutions mean for children and siblings;
--         ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with a flow is recorded, and the next flow gets its turn.
-- Retry:  safe, and from any number of callers at once: a flow is worked on by one of them.
--
-- Takes the flow that has waited longest and resolves up to p_limit of its edges; a large fan-out takes several calls,
-- and how far it got is the state of the edges. No row means that there was nothing to do, or every flow was busy.
create or replace function flowfabric.ff_dispatch_dependencies(p_limit integer default 1000)
returns setof flowfabric.ff_dependency_dispatch
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_dispatch_dependencies';
    c_scanner constant text := 'dependency';
    v_row record;
    v_done flowfabric.ff_cascade_report;
    v_looked_at uuid[] := '{}'::uuid[];
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_row in
        select o.partition_key, o.flow_id from flowfabric.ff_dependency_outbox as o order by o.outbox_id
    loop
        continue when v_row.flow_id = any (v_looked_at);
        v_looked_at := v_looked_at || v_row.flow_id;
        continue when flowfabric._ff_flow_is_paused(c_scanner, v_row.flow_id, v_now_ms);
        begin
            case flowfabric._ff_try_lock_flow(v_row.partition_key, v_row.flow_id)
                when 'busy' then continue;
                when 'gone' then
                    delete from flowfabric.ff_dependency_outbox as o
                    where o.partition_key = v_row.partition_key and o.flow_id = v_row.flow_id;
                    continue;
                else v_done := flowfabric._ff_dispatch_flow(v_row.partition_key, v_row.flow_id, p_limit);
            end case;
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_row.flow_id::text);
            return next row(
                v_row.flow_id, v_done.outbox_done, v_done.edges_resolved, v_done.children_eligible,
                v_done.children_skipped, exists (select from flowfabric.ff_dependency_outbox)
            )::flowfabric.ff_dependency_dispatch;
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

comment on function flowfabric.ff_dispatch_dependencies(integer) is
'Scanner: resolves edges that ended members of one flow still owe, up to a limit; no row if there is nothing to do.';

grant execute on function flowfabric.ff_dispatch_dependencies(integer) to flowfabric_operator;

-- A row has at least one edge as a rule, so as many rows as edges are enough. Members that end on the way are handled
-- too while the limit lasts; else they are in the outbox by then.
create or replace function flowfabric._ff_dispatch_flow(p_partition_key smallint, p_flow_id uuid, p_limit integer)
returns flowfabric.ff_cascade_report
language plpgsql volatile
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_limits flowfabric.ff_cascade_allowance := flowfabric._ff_cascade_limits();
    v_upstreams uuid[];
    v_outcomes flowfabric.ff_terminal_outcome[];
    v_done flowfabric.ff_cascade_report;
begin
    v_limits.edges := p_limit::bigint;
    select array_agg(d.upstream_eid order by d.outbox_id), array_agg(d.outcome order by d.outbox_id)
    into v_upstreams, v_outcomes
    from (
        select o.upstream_eid, o.outcome, o.outbox_id
        from flowfabric.ff_dependency_outbox as o
        where o.partition_key = p_partition_key and o.flow_id = p_flow_id
        order by o.outbox_id
        limit p_limit
    ) as d;
    if v_upstreams is null then
        return row(0, 0, 0, 0, 0, 0, '{}')::flowfabric.ff_cascade_report;
    end if;
    v_done := flowfabric._ff_resolve_out_edges(
        p_partition_key, p_flow_id, v_upstreams, v_outcomes, null, true, true, v_limits, v_now_ms);
    perform flowfabric._ff_return_member_reservations(p_partition_key, v_done.reserved, v_now_ms);
    return v_done;
end;
$$;
comment on function flowfabric._ff_dispatch_flow(smallint, uuid, integer) is
'Internal: resolves up to so many edges that ended members of a locked flow still owe, longest waiting first.';
