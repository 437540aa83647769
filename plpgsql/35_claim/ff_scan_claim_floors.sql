-- ff_scan_claim_floors: keep the floors of the queue where they belong, and forget those that nobody needs.
--
-- Fence:  none.
-- Locks:  each ff_lane_floor row, without waiting.
-- Writes: ff_lane_floor.
-- Raises: invalid_input.
-- Retry:  safe, and from any number of callers at once.
--
-- Nothing depends on it: claims move the floors of busy lanes by themselves. While the setting claim_floor_recheck_ms
-- is 0 floors are out of use, and this deletes them all.
create or replace function flowfabric.ff_scan_claim_floors(p_limit integer default 200)
returns flowfabric.ff_floor_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_claim_floors';
    c_forget_after_ms constant bigint := 3600000::bigint;
    v_recheck_ms bigint := flowfabric._ff_setting_value('claim_floor_recheck_ms');
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_due flowfabric.ff_lane_floor;
    v_move record;
    v_scan flowfabric.ff_floor_scan := row(0, 0, 0, false, 0)::flowfabric.ff_floor_scan;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    if v_recheck_ms = 0 then
        for v_due in
            select distinct on (f.lane_id, f.capability_set_id, f.priority, f.namespace) f.*
            from flowfabric.ff_lane_floor as f
        loop
            v_scan.deleted := v_scan.deleted + flowfabric._ff_forget_floor(
                v_due.lane_id, v_due.capability_set_id, v_due.priority, v_due.namespace, false)::integer;
        end loop;
        return v_scan;
    end if;
    perform flowfabric._ff_lower_floors_ahead(v_recheck_ms, v_now_ms);
    for v_due in
        select f.*
        from flowfabric.ff_lane_floor as f
        where f.side = 0 and f.checked_at_ms <= v_now_ms - v_recheck_ms
        order by f.checked_at_ms, f.lane_id, f.capability_set_id, f.priority, f.namespace
        limit p_limit
    loop
        v_move := flowfabric._ff_move_floor(
            v_due.lane_id, v_due.capability_set_id, v_due.priority, v_due.namespace, false, v_now_ms);
        if not v_move.is_moved then
            v_scan.skipped := v_scan.skipped + 1;
            continue;
        end if;
        v_scan.processed := v_scan.processed + 1;
        if v_move.oldest_ms is null and not exists (
            select from flowfabric.ff_lane_floor as f
            where f.lane_id = v_due.lane_id and f.capability_set_id = v_due.capability_set_id
                and f.priority = v_due.priority and f.namespace = v_due.namespace
                and f.raised_at_ms > v_now_ms - c_forget_after_ms)
        then
            v_scan.deleted := v_scan.deleted + flowfabric._ff_forget_floor(
                v_due.lane_id, v_due.capability_set_id, v_due.priority, v_due.namespace, true)::integer;
        end if;
    end loop;
    -- Left by announcements into segments that no claim has visited since.
    for v_due in
        select distinct on (f.lane_id, f.capability_set_id, f.priority, f.namespace) f.*
        from flowfabric.ff_lane_floor as f
        where f.side > 2 and f.raised_at_ms <= v_now_ms - c_forget_after_ms
            and not exists (
                select from flowfabric.ff_lane_floor as x
                where x.lane_id = f.lane_id and x.capability_set_id = f.capability_set_id and x.priority = f.priority
                    and x.namespace = f.namespace and x.side = 0)
        limit p_limit
    loop
        v_scan.deleted := v_scan.deleted + flowfabric._ff_forget_floor(
            v_due.lane_id, v_due.capability_set_id, v_due.priority, v_due.namespace, true)::integer;
    end loop;
    v_scan.more := v_scan.processed >= p_limit;
    return v_scan;
end;
$$;

comment on function flowfabric.ff_scan_claim_floors(integer) is
'Scanner: moves the claim floors that were not checked for a while, and deletes those of idle queue segments.';

grant execute on function flowfabric.ff_scan_claim_floors(integer) to flowfabric_operator;
