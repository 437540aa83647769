-- The schedule of the scanners: when one is due, by how much it is late, and how to run it.

-- A last run in the future means that the clock went back. The scanner then must not wait for the clock to catch up.
create or replace function flowfabric._ff_is_scanner_due(p_scanner flowfabric.ff_scanner, p_now_ms bigint)
returns boolean
language sql immutable parallel safe
as $$
    select p_scanner.next_due_at_ms <= p_now_ms or coalesce(p_scanner.last_run_at_ms > p_now_ms, false)
$$;
comment on function flowfabric._ff_is_scanner_due(flowfabric.ff_scanner, bigint) is
'Internal: whether a scanner should run now.';

-- One that never ran is late since the installation.
create or replace function flowfabric._ff_scanner_lateness(p_scanner flowfabric.ff_scanner, p_now_ms bigint)
returns bigint
language sql stable
as $$
    select case
        when not p_scanner.enabled then 0
        when p_scanner.last_run_at_ms is not null
            then flowfabric._ff_age_ms(
                greatest(
                    p_scanner.next_due_at_ms,
                    (
                        select max(d.next_due_at_ms)
                        from flowfabric.ff_scanner_detour as d
                        where d.scanner = p_scanner.scanner and d.ran_at_ms <= p_now_ms)),
                p_now_ms)
        else flowfabric._ff_age_ms(
            (select min(a.applied_at_ms) from flowfabric.ff_migration_annotation as a), p_now_ms)
    end
$$;
comment on function flowfabric._ff_scanner_lateness(flowfabric.ff_scanner, bigint) is
'Internal: for how long an enabled scanner has been due, in milliseconds.';

-- A transaction that stays open may hold the row of a scanner. After twice the interval the scanner runs without the
-- row: its items are taken with SKIP LOCKED. Such runs are written down in ff_scanner_detour, where none waits for
-- another, so that they too come once per interval. What must stay single is locked by the scanners themselves: the
-- positions of ff_event_stream, by event_prune and event_notify.
create or replace function flowfabric._ff_has_detoured(p_scanner text, p_now_ms bigint)
returns boolean
language sql stable
as $$
    select exists (
        select from flowfabric.ff_scanner_detour as d
        where d.scanner = p_scanner and d.ran_at_ms <= p_now_ms and d.next_due_at_ms > p_now_ms)
$$;
comment on function flowfabric._ff_has_detoured(text, bigint) is
'Internal: whether a scanner has run without its row and is not due again.';

create or replace function flowfabric._ff_may_detour(p_scanner flowfabric.ff_scanner, p_now_ms bigint)
returns boolean
language sql stable
as $$
    select p_scanner.enabled
        and case
            when p_scanner.last_run_at_ms is null
                then flowfabric._ff_scanner_lateness(p_scanner, p_now_ms) >= 2 * p_scanner.interval_ms
            when p_scanner.last_run_at_ms > p_now_ms then true
            else p_now_ms >= greatest(
                p_scanner.next_due_at_ms + p_scanner.interval_ms,
                p_scanner.last_run_at_ms + 2 * p_scanner.interval_ms)
        end
        and not flowfabric._ff_has_detoured(p_scanner.scanner, p_now_ms)
$$;
comment on function flowfabric._ff_may_detour(flowfabric.ff_scanner, bigint) is
'Internal: whether a scanner whose row is held has waited long enough to run without it.';

-- Rows of older runs go, except those that an open transaction has written or is deleting.
create or replace function flowfabric._ff_record_detour(p_scanner text, p_now_ms bigint, p_next_due_at_ms bigint)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_forget_detours(p_scanner);
    insert into flowfabric.ff_scanner_detour (scanner, ran_at_ms, next_due_at_ms)
    values (p_scanner, p_now_ms, p_next_due_at_ms);
end;
$$;
comment on function flowfabric._ff_record_detour(text, bigint, bigint) is
'Internal: writes down that a scanner ran without its row.';

create or replace function flowfabric._ff_forget_detours(p_scanner text)
returns void
language plpgsql volatile
as $$
begin
    delete from flowfabric.ff_scanner_detour as d
    where d.ctid = any (array(
        select x.ctid from flowfabric.ff_scanner_detour as x where x.scanner = p_scanner for update skip locked));
end;
$$;
comment on function flowfabric._ff_forget_detours(text) is
'Internal: deletes what is written down of runs of a scanner without its row.';

-- Static calls: function_name in the table is for people and is never executed. Functions that report in another shape
-- than a scanner does are translated here. Those that work on one flow per transaction have more to do as soon as they
-- did something: another flow may be waiting.
create or replace function flowfabric._ff_run_scanner(p_scanner text, p_limit integer)
returns flowfabric.ff_scan
language plpgsql volatile
as $$
declare
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
begin
    case p_scanner
        when 'lease_expiry' then
            v_scan := flowfabric.ff_scan_expired_leases(p_limit);
        when 'suspension_timeout' then
            v_scan := flowfabric.ff_scan_suspension_timeouts(p_limit);
        when 'attempt_timeout' then
            v_scan := flowfabric.ff_scan_attempt_timeouts(p_limit);
        when 'execution_deadline' then
            v_scan := flowfabric.ff_scan_execution_deadlines(p_limit);
        when 'delayed' then
            v_scan := flowfabric.ff_promote_due(p_limit);
        when 'dependency' then
            select coalesce(sum(d.edges_resolved), 0)::integer, coalesce(sum(d.edges_resolved + d.outbox_done), 0) > 0
            into v_scan.processed, v_scan.more
            from flowfabric.ff_dispatch_dependencies(p_limit) as d;
        when 'edge_cancel' then
            select coalesce(sum(d.cancelled + d.already_terminal + d.not_found), 0)::integer, count(*) > 0
            into v_scan.processed, v_scan.more
            from flowfabric.ff_dispatch_sibling_cancels(p_limit) as d;
        when 'cancel_backlog' then
            select coalesce(sum(d.cancelled + d.already_terminal), 0)::integer, count(*) > 0
            into v_scan.processed, v_scan.more
            from flowfabric.ff_drain_cancel_backlog(p_limit) as d;
        when 'edge_cancel_reconcile' then
            select r.sremmed_stale + r.completed_drain, r.sremmed_stale + r.completed_drain > 0
            into v_scan.processed, v_scan.more
            from flowfabric.ff_reconcile_sibling_cancels(p_limit) as r;
        when 'pending_waitpoint_expiry' then
            v_scan := flowfabric.ff_scan_pending_waitpoint_expiry(p_limit);
        when 'unblock' then
            select u.processed, u.skipped, u.errors, u.more into v_scan
            from flowfabric.ff_scan_unblock(p_limit) as u;
        when 'grant_expiry' then
            v_scan.processed := flowfabric.ff_sweep_expired_grants(p_limit);
            v_scan.more := v_scan.processed >= p_limit;
        when 'budget_reset' then
            v_scan.processed := flowfabric.ff_scan_budget_resets(p_limit);
            v_scan.more := v_scan.processed >= p_limit;
        when 'quota' then
            select q.processed, q.skipped, q.errors, q.more into v_scan
            from flowfabric.ff_reconcile_quota(p_limit) as q;
        when 'future_times' then
            v_scan := flowfabric.ff_scan_future_times(p_limit);
        when 'worker_ttl' then
            v_scan := flowfabric.ff_sweep_workers(p_limit);
        when 'event_notify' then
            v_scan := flowfabric.ff_scan_event_notify();
        when 'claim_floor' then
            select f.processed, f.skipped, f.errors, f.more into v_scan
            from flowfabric.ff_scan_claim_floors(p_limit) as f;
        when 'dependency_reconcile' then
            select r.rearmed + r.promoted + r.skipped_children, r.skipped, r.errors
            into v_scan.processed, v_scan.skipped, v_scan.errors
            from flowfabric.ff_reconcile_dependencies(p_limit) as r;
            v_scan.more := v_scan.processed >= p_limit;
        when 'flow_summary' then
            -- A flow that has not ended is due for ever, so a full batch asks for nothing: the tick would spin.
            v_scan := flowfabric.ff_project_flow_summaries(p_limit);
            v_scan.more := false;
        when 'stream_ttl' then
            v_scan := flowfabric.ff_scan_stream_ttl(p_limit);
        when 'dedup_expiry' then
            v_scan := flowfabric.ff_sweep_dedup(p_limit);
        when 'event_prune' then
            v_scan := flowfabric.ff_prune_events(p_limit);
        when 'retention' then
            select r.processed + r.flows_purged, r.skipped, r.errors, r.more into v_scan
            from flowfabric.ff_trim_retention(p_limit) as r;
    end case;
    return v_scan;
end;
$$;
comment on function flowfabric._ff_run_scanner(text, integer) is
'Internal: runs one scanner by its name and reports what it did in the shape that all have in common.';
