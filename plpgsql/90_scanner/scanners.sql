-- The scanners that the tick runs: names, order, intervals and limits, stated here and nowhere else.
--
-- Order inside a tick: first what frees work (leases, timeouts), then what moves it on (delays, dependencies, unblock),
-- then housekeeping. A suspension timeout comes before the attempt timeout and the deadline, because it may resume the
-- execution.

create or replace function flowfabric._ff_known_scanners()
returns setof flowfabric.ff_known_scanner
language sql immutable parallel safe
as $$
    values
    ('lease_expiry', 'ff_scan_expired_leases', 10, 1500::bigint, 100),
    ('suspension_timeout', 'ff_scan_suspension_timeouts', 20, 2000, 50),
    ('attempt_timeout', 'ff_scan_attempt_timeouts', 30, 2000, 50),
    ('execution_deadline', 'ff_scan_execution_deadlines', 40, 5000, 50),
    ('delayed', 'ff_promote_due', 50, 750, 50),
    ('dependency', 'ff_dispatch_dependencies', 60, 1000, 1000),
    ('edge_cancel', 'ff_dispatch_sibling_cancels', 70, 1000, 256),
    ('cancel_backlog', 'ff_drain_cancel_backlog', 80, 15000, 500),
    ('edge_cancel_reconcile', 'ff_reconcile_sibling_cancels', 90, 10000, 50),
    ('pending_waitpoint_expiry', 'ff_scan_pending_waitpoint_expiry', 100, 5000, 100),
    ('unblock', 'ff_scan_unblock', 110, 5000, 100),
    ('grant_expiry', 'ff_sweep_expired_grants', 120, 1000, 500),
    ('budget_reset', 'ff_scan_budget_resets', 130, 15000, 20),
    ('quota', 'ff_reconcile_quota', 140, 30000, 500),
    ('future_times', 'ff_scan_future_times', 145, 15000, 1000),
    ('worker_ttl', 'ff_sweep_workers', 150, 30000, 500),
    -- Sends at most one notification per waiting pair and has no limit of its own.
    ('event_notify', 'ff_scan_event_notify', 160, 250, 10000),
    ('claim_floor', 'ff_scan_claim_floors', 165, 1000, 200),
    ('dependency_reconcile', 'ff_reconcile_dependencies', 170, 15000, 50),
    ('flow_summary', 'ff_project_flow_summaries', 180, 15000, 100),
    ('stream_ttl', 'ff_scan_stream_ttl', 190, 10000, 100),
    ('dedup_expiry', 'ff_sweep_dedup', 200, 60000, 1000),
    ('event_prune', 'ff_prune_events', 210, 60000, 5000),
    ('retention', 'ff_trim_retention', 220, 60000, 100)
$$;
comment on function flowfabric._ff_known_scanners() is
'Internal: every scanner with its function, its place in the order and its defaults.';

-- Only the difference is written: an unchanged list touches and locks no row. What an operator may set (enabled,
-- interval, limit) is given once and then left alone. Places in the order may be swapped, which the unique constraint
-- would refuse halfway, so rows that move step aside first.
create or replace function flowfabric._ff_seed_scanners()
returns integer
language plpgsql volatile
as $$
declare
    v_written integer := 0;
    v_count integer;
begin
    delete from flowfabric.ff_scanner as s
    where s.scanner not in (select k.scanner from flowfabric._ff_known_scanners() as k);
    get diagnostics v_written = row_count;
    delete from flowfabric.ff_scanner_failure as f
    where f.scanner not in (select k.scanner from flowfabric._ff_known_scanners() as k);

    update flowfabric.ff_scanner as s
    set run_order = -s.run_order
    from flowfabric._ff_known_scanners() as k
    where k.scanner = s.scanner and k.run_order <> s.run_order;
    update flowfabric.ff_scanner as s
    set run_order = k.run_order, function_name = k.function_name
    from flowfabric._ff_known_scanners() as k
    where k.scanner = s.scanner and (k.run_order <> s.run_order or k.function_name <> s.function_name);
    get diagnostics v_count = row_count;
    v_written := v_written + v_count;

    insert into flowfabric.ff_scanner (scanner, function_name, run_order, interval_ms, batch_limit)
    select k.scanner, k.function_name, k.run_order, k.interval_ms, k.batch_limit
    from flowfabric._ff_known_scanners() as k
    where not exists (select from flowfabric.ff_scanner as s where s.scanner = k.scanner)
    on conflict do nothing;
    get diagnostics v_count = row_count;
    return v_written + v_count;
end;
$$;
comment on function flowfabric._ff_seed_scanners() is
'Internal: makes the rows of ff_scanner those that are known, without what an operator may set; says how many it wrote.';

do $$
begin
    perform flowfabric._ff_seed_scanners();
end;
$$;
