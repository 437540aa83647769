-- ff_reconcile_dependencies: find edges and children that the resolution of dependencies has forgotten.
--
-- Fence:  none.
-- Locks:  per item the ff_flow_core row, and for a child its ff_exec_core row, without waiting; then as the resolution
--         of its join.
-- Writes: ff_dependency_outbox; ff_exec_core of a child that waits for nothing; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one item is counted and recorded.
-- Retry:  safe, and from any number of callers at once.
--
-- A safety net that should catch nothing: edges resolve in the transaction that ends their upstream. Any count above
-- zero is worth an alarm. A child that was replayed rightly waits for an upstream that failed, until that is replayed
-- too. Reads every open edge and every waiting child, so it is run seldom.
create or replace function flowfabric.ff_reconcile_dependencies(p_limit integer default 50)
returns flowfabric.ff_dependency_reconciliation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_reconcile_dependencies';
    c_scanner constant text := 'dependency_reconcile';
    v_item record;
    v_item_key text;
    v_did text;
    v_tried integer := 0;
    v_scan flowfabric.ff_dependency_reconciliation
        := row(0, 0, 0, 0, 0)::flowfabric.ff_dependency_reconciliation;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_item in
        select f.is_upstream, f.partition_key, f.execution_id
        from flowfabric._ff_forgotten_dependencies() as f
        where not exists (
            select from flowfabric.ff_scanner_failure as s
            where s.scanner = c_scanner and s.skip_until_ms > v_now_ms
                and s.item_key = flowfabric.ff_format_execution_id(f.partition_key, f.execution_id))
        limit flowfabric._ff_scan_window(p_limit)
    loop
        exit when v_tried >= p_limit;
        v_item_key := flowfabric.ff_format_execution_id(v_item.partition_key, v_item.execution_id);
        begin
            v_did := flowfabric._ff_reconcile_dependency(
                flowfabric._ff_scanner_lock_execution(
                    row(v_item.partition_key, v_item.execution_id)::flowfabric.ff_execution_key, true),
                v_item.is_upstream, flowfabric.ff_now_ms());
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_item_key);
            v_tried := v_tried + (v_did <> 'nothing')::integer;
            v_scan.rearmed := v_scan.rearmed + (v_did = 'rearmed')::integer;
            v_scan.promoted := v_scan.promoted + (v_did = 'promoted')::integer;
            v_scan.skipped_children := v_scan.skipped_children + (v_did = 'skipped')::integer;
        exception
            when lock_not_available or deadlock_detected then
                v_scan.skipped := v_scan.skipped + 1;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_tried := v_tried + 1;
                v_scan.errors := v_scan.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_item_key, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    return v_scan;
end;
$$;

comment on function flowfabric.ff_reconcile_dependencies(integer) is
'Scanner: the safety net behind the resolution of dependencies; in a sound database it finds nothing.';

grant execute on function flowfabric.ff_reconcile_dependencies(integer) to flowfabric_operator;

create or replace function flowfabric._ff_owes_edges(p_exec flowfabric.ff_exec_core)
returns boolean
language sql stable
as $$
    select not exists (
        select from flowfabric.ff_dependency_outbox as o
        where o.partition_key = p_exec.partition_key and o.flow_id = p_exec.flow_id
            and o.upstream_eid = p_exec.execution_id)
    and exists (
        select from flowfabric.ff_edge as d
        left join flowfabric.ff_exec_core as c
            on c.partition_key = d.partition_key and c.execution_id = d.downstream_eid
        where d.partition_key = p_exec.partition_key and d.flow_id = p_exec.flow_id
            and d.upstream_eid = p_exec.execution_id and d.dep_state = 'unsatisfied'
            and (p_exec.terminal_outcome = 'success' or coalesce(c.replay_count, 0) = 0))
$$;
comment on function flowfabric._ff_owes_edges(flowfabric.ff_exec_core) is
'Internal: whether an ended member has open edges, not waiting for its replay, and is not in the outbox.';

create or replace function flowfabric._ff_join_state(p_exec flowfabric.ff_exec_core)
returns text
language sql stable
as $$
    select coalesce(
        (
            select g.group_state
            from flowfabric.ff_edge_group as g
            where g.partition_key = p_exec.partition_key and g.flow_id = p_exec.flow_id
                and g.downstream_eid = p_exec.execution_id and g.n > 0
        ),
        'satisfied')
$$;
comment on function flowfabric._ff_join_state(flowfabric.ff_exec_core) is
'Internal: the state of the join of a child; one without edges is satisfied.';

create or replace function flowfabric._ff_forgotten_dependencies()
returns table (is_upstream boolean, partition_key smallint, execution_id uuid)
language sql stable
as $$
    -- From the open edges to their upstreams: there are few of them beside all that has ever ended.
    select true, w.partition_key, w.upstream_eid
    from (
        select distinct d.partition_key, d.upstream_eid
        from flowfabric.ff_edge as d
        where d.dep_state = 'unsatisfied'
        offset 0
    ) as w
    cross join lateral (
        select e as ended
        from flowfabric.ff_exec_core as e
        where e.partition_key = w.partition_key and e.execution_id = w.upstream_eid and e.lifecycle_phase = 'terminal'
        offset 0
    ) as u
    where flowfabric._ff_owes_edges(u.ended)
    union all
    select false, e.partition_key, e.execution_id
    from flowfabric.ff_exec_core as e
    where e.eligibility_state = 'blocked_by_dependencies' and flowfabric._ff_join_state(e) <> 'pending'
$$;
comment on function flowfabric._ff_forgotten_dependencies() is
'Internal: ended members with edges that nobody resolves, and children that wait although their join is decided.';

create or replace function flowfabric._ff_reconcile_dependency(
    p_exec flowfabric.ff_exec_core,
    p_is_upstream boolean,
    p_now_ms bigint
)
returns text
language plpgsql volatile
as $$
begin
    if p_is_upstream then
        if p_exec.lifecycle_phase <> 'terminal' or not flowfabric._ff_owes_edges(p_exec) then
            return 'nothing';
        end if;
        insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
        values (p_exec.partition_key, p_exec.flow_id, p_exec.execution_id, p_exec.terminal_outcome, p_now_ms);
        perform flowfabric._ff_wake('ff_dispatch', '*');
        return 'rearmed';
    end if;
    if p_exec.eligibility_state <> 'blocked_by_dependencies' then
        return 'nothing';
    end if;
    case flowfabric._ff_join_state(p_exec)
        when 'satisfied' then
            perform flowfabric._ff_unblock_child(p_exec, p_now_ms);
            return 'promoted';
        when 'impossible' then
            perform flowfabric._ff_skip_execution(p_exec, flowfabric._ff_skip_outcome(p_exec), p_now_ms);
            return 'skipped';
        else
            return 'nothing';
    end case;
end;
$$;
comment on function flowfabric._ff_reconcile_dependency(flowfabric.ff_exec_core, boolean, bigint) is
'Internal: repairs one forgotten upstream or child, if it still needs it; says what it did.';
