-- ff_metrics: measurements for a scraper, one row each.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
--
-- Made to be called every 15 seconds with a million executions stored: every number comes from an index of executions
-- that have not ended, from the end of an event table or from a small table. Counts stop at 100000 per lane and state;
-- `capped` then says so. A lane, stream, scanner or outcome with nothing to count has a row with 0. Of the leases that
-- expired or were revoked, leases_backing_off counts those whose takeover is not due yet.
--
-- A standby knows neither waiters nor the statistics of tables: it leaves `waiters` and `table_dead_ratio` out.
create or replace function flowfabric.ff_metrics()
returns setof flowfabric.ff_metric
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_cap constant bigint := 100000::bigint;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_horizon flowfabric.ff_event_cursor := flowfabric._ff_event_horizon();
begin
    return query
    select m.metric, m.labels, m.value::double precision, m.unit, m.capped
    from (
        select
            case
                when c.state in ('running', 'leases_expired', 'leases_revoked', 'leases_backing_off') then c.state
                else 'queue_depth'
            end as metric,
            case
                when c.state in ('running', 'leases_expired', 'leases_revoked', 'leases_backing_off')
                    then jsonb_build_object('lane', c.lane_id)
                else jsonb_build_object('lane', c.lane_id, 'state', c.state)
            end as labels,
            c.executions::numeric as value, 'count' as unit, c.capped
        from flowfabric._ff_count_lanes(null, c_cap, v_now_ms) as c
        union all
        select
            'queue_oldest_age_ms', jsonb_build_object('lane', l.lane_id),
            flowfabric._ff_age_ms(flowfabric._ff_oldest_eligible(l.lane_id), v_now_ms), 'ms', false
        from flowfabric.ff_lane_registry as l
        union all
        select
            'completed_per_minute', jsonb_build_object('outcome', o.outcome), coalesce(r.events, 0), 'per_minute',
            coalesce(r.capped, false)
        from unnest(enum_range('success'::flowfabric.ff_terminal_outcome, null)) as o (outcome)
        left join flowfabric._ff_recent_events('completion', v_now_ms) as r on r.event_type = o.outcome::text
        union all
        select
            'claimed_per_minute', '{}', coalesce(sum(r.events), 0), 'per_minute', coalesce(bool_or(r.capped), false)
        from flowfabric._ff_recent_events('lease', v_now_ms) as r
        where r.event_type in ('acquired', 'reclaimed')
        union all
        select
            n.metric, jsonb_build_object('namespace', w.namespace), n.value, 'count', false
        from (
            select r.namespace, count(*) as live, count(*) filter (where r.draining) as draining
            from flowfabric.ff_worker_registry as r
            where flowfabric._ff_is_live_worker(r, v_now_ms)
            group by r.namespace
        ) as w
        cross join lateral (
            values ('workers_live', w.live), ('workers_draining', w.draining)
        ) as n (metric, value)
        union all
        select n.metric, jsonb_build_object('stream', s.stream), n.value, n.unit, n.capped
        from flowfabric._ff_measure_streams(v_horizon) as s
        cross join lateral (
            values
            ('event_held_back', s.held_back, 'count', s.held_back >= 10000),
            ('event_oldest_age_ms', flowfabric._ff_age_ms(s.oldest_at_ms, v_now_ms), 'ms', false)
        ) as n (metric, value, unit, capped)
        union all
        select
            'consumer_lag_ms', jsonb_build_object('consumer', c.consumer_name, 'stream', c.stream),
            flowfabric._ff_age_ms(c.unread_since_ms, v_now_ms), 'ms', false
        from flowfabric._ff_measure_consumers() as c
        union all
        select n.metric, jsonb_build_object('scanner', s.scanner), n.value, n.unit, false
        from flowfabric.ff_scanner as s
        cross join lateral (
            values
            ('scanner_overdue_ms', flowfabric._ff_scanner_lateness(s, v_now_ms), 'ms'),
            ('scanner_errors', coalesce(s.last_errors, 0)::bigint, 'count'),
            ('scanner_last_duration_ms', coalesce(s.last_duration_ms, 0)::bigint, 'ms'),
            (
                'scanner_items_failing',
                (select count(*) from flowfabric.ff_scanner_failure as f where f.scanner = s.scanner),
                'count'
            )
        ) as n (metric, value, unit)
        union all
        select
            'budget_used_ratio', jsonb_build_object('budget', l.budget_id, 'dimension', l.dimension),
            (coalesce(u.current_value, 0)::numeric + coalesce(u.reserved_value, 0)) / l.hard_limit, 'ratio', false
        from flowfabric.ff_budget_limit as l
        left join flowfabric.ff_budget_usage as u on u.budget_id = l.budget_id and u.dimension = l.dimension
        where l.hard_limit > 0
        union all
        select
            'quota_slots_held', jsonb_build_object('policy', q.quota_policy_id),
            (
                select count(*)
                from flowfabric.ff_quota_admitted as a
                where a.quota_policy_id = q.quota_policy_id and a.slot_held
            ),
            'count', false
        from flowfabric.ff_quota_policy as q
        union all
        select 'waiters', jsonb_build_object('channel', w.channel), w.waiters, 'count', false
        from flowfabric._ff_count_waiters(v_now_ms) as w
        union all
        select
            'table_dead_ratio', jsonb_build_object('table', t.table_name),
            coalesce(t.dead_rows::numeric / nullif(t.live_rows + t.dead_rows, 0), 0), 'ratio', false
        from flowfabric._ff_hot_tables() as t
        union all
        select 'oldest_snapshot_age_ms', '{}', coalesce(max(s.age_ms), 0), 'ms', false
        from flowfabric._ff_oldest_snapshot() as s
    ) as m
    order by m.metric, m.labels::text collate "C";
end;
$$;

comment on function flowfabric.ff_metrics() is
'Measurements for monitoring: queues, leases, throughput, workers, events, scanners, budgets, quotas and tables.';

grant execute on function flowfabric.ff_metrics() to flowfabric_reader, flowfabric_operator;
