-- ff_scan_eligible: the queue of a lane, in the order in which it is claimed.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, invalid_capabilities.
-- Retry:  safe.
--
-- For dashboards, and for the question what a worker would get: with capabilities it shows only what they cover.
-- Grants, quotas and budgets are not looked at. A page starts behind the priority, time and id of the last row of the
-- page before.
--
-- There is no index of a lane's whole queue (reading 16): each capability set offers its first rows and they are
-- merged.
create or replace function flowfabric.ff_scan_eligible(
    p_lane text,
    p_limit integer default 100,
    p_capabilities text[] default null,
    p_after_priority integer default null,
    p_after_created_at_ms bigint default null,
    p_after_execution_id text default null
)
returns setof flowfabric.ff_eligible_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_scan_eligible';
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, c_fn);
    v_capabilities text[];
    v_after flowfabric.ff_execution_key;
begin
    if not flowfabric._ff_is_lane_id(p_lane) then
        perform flowfabric._ff_raise_invalid_lane(p_lane, c_fn, 'lane');
    end if;
    if p_capabilities is not null then
        v_capabilities := flowfabric._ff_normalize_capabilities(p_capabilities, 'worker', c_fn);
    end if;
    if num_nulls(p_after_priority, p_after_created_at_ms, nullif(p_after_execution_id, '')) not in (0, 3) then
        perform flowfabric._ff_raise_invalid(
            c_fn,
            case
                when p_after_priority is null then 'after_priority'
                when p_after_created_at_ms is null then 'after_created_at_ms'
                else 'after_execution_id'
            end,
            'null');
    end if;
    if nullif(p_after_execution_id, '') is not null then
        v_after := flowfabric._ff_parse_execution_id(p_after_execution_id, c_fn);
    end if;

    -- Behind the cursor lie the rest of its priority and all lower priorities; without one, everything is lower.
    return query
    with page as materialized (
        select c.partition_key, c.execution_id, c.priority, c.created_at_ms, c.attempt_state, s.tokens
        from flowfabric.ff_capability_set as s
        cross join lateral (
            (
                select e.partition_key, e.execution_id, e.priority, e.created_at_ms, e.attempt_state
                from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane
                    and e.capability_set_id = s.capability_set_id and e.priority = p_after_priority
                    and e.created_at_ms >= p_after_created_at_ms
                    and (e.created_at_ms, e.execution_id, e.partition_key)
                    > (p_after_created_at_ms, v_after.execution_id, v_after.partition_key)
                order by e.created_at_ms, e.execution_id, e.partition_key
                limit v_limit + 1
            )
            union all
            (
                select e.partition_key, e.execution_id, e.priority, e.created_at_ms, e.attempt_state
                from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane
                    and e.capability_set_id = s.capability_set_id
                    and e.priority < coalesce(p_after_priority, 9001)
                order by e.priority desc, e.created_at_ms, e.execution_id, e.partition_key
                limit v_limit + 1
            )
        ) as c
        where v_capabilities is null or s.tokens <@ v_capabilities
        order by c.priority desc, c.created_at_ms, c.execution_id, c.partition_key
        limit v_limit + 1
    )
    select
        flowfabric.ff_format_execution_id(p.partition_key, p.execution_id), p.priority, p.created_at_ms,
        p.attempt_state, p.tokens, (select count(*) from page) > v_limit
    from page as p
    order by p.priority desc, p.created_at_ms, p.execution_id, p.partition_key
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_scan_eligible(text, integer, text[], integer, bigint, text) is
'The eligible executions of a lane in queue order, a page at a time; with capabilities only what they cover.';

grant execute on function flowfabric.ff_scan_eligible(text, integer, text[], integer, bigint, text)
to flowfabric_reader, flowfabric_operator;
