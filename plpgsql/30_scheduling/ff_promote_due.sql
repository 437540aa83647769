-- ff_promote_due: make delayed executions eligible whose time has come.
--
-- Fence:  none.
-- Locks:  each ff_exec_core row, without waiting; claim floors, without waiting.
-- Writes: as ff_promote_delayed, per execution; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one execution is counted and recorded.
-- Retry:  safe, and from any number of callers at once: each execution is promoted once.
--
-- The index of delayed executions is per lane, so that claims, which promote what is due in their own lanes, do not
-- walk over the rest. Here every lane offers its earliest due and the earliest of all go first: neither an early lane
-- nor a busy one keeps the others waiting.
create or replace function flowfabric.ff_promote_due(p_limit integer default 50, p_lanes text[] default null)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_promote_due';
    c_scanner constant text := 'delayed';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_lanes text[] := p_lanes;
    v_lane_id text;
    v_due flowfabric.ff_execution_key[];
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    if p_lanes is null then
        -- One index probe per lane, however many executions are delayed in it.
        v_lanes := array(
            with recursive lane (lane_id, earliest_ms) as (
                (
                    select e.lane_id, e.delay_until_ms
                    from flowfabric.ff_exec_core as e
                    where e.eligibility_state = 'not_eligible_until_time'
                    order by e.lane_id, e.delay_until_ms
                    limit 1
                )
                union all
                select n.lane_id, n.delay_until_ms
                from lane as l
                cross join lateral (
                    select e.lane_id, e.delay_until_ms
                    from flowfabric.ff_exec_core as e
                    where e.eligibility_state = 'not_eligible_until_time' and e.lane_id > l.lane_id
                    order by e.lane_id, e.delay_until_ms
                    limit 1
                ) as n
            )
            select l.lane_id from lane as l where l.earliest_ms <= v_now_ms);
    else
        if cardinality(p_lanes) > 1000 then
            perform flowfabric._ff_raise_invalid(c_fn, 'lanes', 'too_many_items', cardinality(p_lanes)::text);
        end if;
        foreach v_lane_id in array p_lanes loop
            if not flowfabric._ff_is_lane_id(v_lane_id) then
                perform flowfabric._ff_raise_invalid_lane(v_lane_id, c_fn, 'lanes');
            end if;
        end loop;
    end if;

    v_due := array(
        select row(d.partition_key, d.execution_id)::flowfabric.ff_execution_key
        from (select distinct u.lane_id collate "C" as lane_id from unnest(v_lanes) as u (lane_id)) as l
        cross join lateral (
            select e.partition_key, e.execution_id, e.delay_until_ms
            from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'not_eligible_until_time'
                and e.lane_id = l.lane_id and e.delay_until_ms <= v_now_ms
                and not exists (
                    select from flowfabric.ff_scanner_failure as f
                    where f.scanner = c_scanner and f.skip_until_ms > v_now_ms
                        and f.item_key = flowfabric.ff_format_execution_id(e.partition_key, e.execution_id))
            order by e.delay_until_ms
            limit greatest(p_limit, flowfabric._ff_scan_window(p_limit) / greatest(cardinality(v_lanes), 1))
        ) as d
        order by d.delay_until_ms
        limit flowfabric._ff_scan_window(p_limit));
    return flowfabric._ff_scan_executions(c_scanner, v_due, p_limit, false);
end;
$$;

comment on function flowfabric.ff_promote_due(integer, text[]) is
'Scanner: makes delayed executions eligible whose time has come, of all lanes or of some.';

grant execute on function flowfabric.ff_promote_due(integer, text[]) to flowfabric_operator;
