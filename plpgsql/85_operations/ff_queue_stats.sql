-- ff_queue_stats: per lane, how many executions wait, run or are held up, and since when the oldest waits.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- Counts everything that has not ended, so its cost grows with the backlog (not with history): for a look at the
-- queues. ff_metrics has the same numbers up to a cap.
create or replace function flowfabric.ff_queue_stats(p_lane_id text default null)
returns setof flowfabric.ff_queue_stat
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_queue_stats';
    v_lane_id text := nullif(p_lane_id, '');
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    if v_lane_id is not null and not flowfabric._ff_is_lane_id(v_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(v_lane_id, c_fn);
    end if;
    return query
    select
        s.lane_id, s.waiting, s.delayed, s.rate_limited, s.waiting_children,
        s.running + s.leases_expired + s.leases_revoked, s.suspended, flowfabric._ff_oldest_eligible(s.lane_id),
        s.leases_expired
    from (
        select
            c.lane_id,
            max(c.executions) filter (where c.state = 'waiting') as waiting,
            max(c.executions) filter (where c.state = 'delayed') as delayed,
            max(c.executions) filter (where c.state = 'rate_limited') as rate_limited,
            max(c.executions) filter (where c.state = 'waiting_children') as waiting_children,
            max(c.executions) filter (where c.state = 'suspended') as suspended,
            max(c.executions) filter (where c.state = 'running') as running,
            max(c.executions) filter (where c.state = 'leases_expired') as leases_expired,
            max(c.executions) filter (where c.state = 'leases_revoked') as leases_revoked
        from flowfabric._ff_count_lanes(v_lane_id, null, v_now_ms) as c
        group by c.lane_id
    ) as s
    order by s.lane_id;
end;
$$;

comment on function flowfabric.ff_queue_stats(text) is
'Per lane: executions that have not ended, by state; the age of the oldest that can be claimed; expired leases.';

grant execute on function flowfabric.ff_queue_stats(text) to flowfabric_reader, flowfabric_operator;
