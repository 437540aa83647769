-- ff_list_executions: page through executions in the order of their keys.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, invalid_tag_key.
-- Retry:  safe.
--
-- A page starts after p_after: next_after of the page before. With p_flow_id only the members of that flow are read.
--
-- The filters are for people, and the order is that of the keys: a rare filter has no index. So one call reads at most
-- 5000 executions. If none of them passes and more follow, the page is one row without an execution id, whose
-- next_after continues the search. A page without has_more is the last one.
--
-- Planned for each call: with the arguments known, filters that were not given vanish and the cursor becomes a bound
-- of the index scan. A plan made once for all calls would read every page from the beginning. The other settings keep
-- the scan in the order of its index, so that it can stop, whatever the statistics say.
create or replace function flowfabric.ff_list_executions(
    p_partition_key smallint default null,
    p_after text default null,
    p_limit integer default 100,
    p_namespace text default null,
    p_lane_id text default null,
    p_public_state text default null,
    p_lifecycle_phase text default null,
    p_flow_id uuid default null,
    p_tag_key text default null,
    p_tag_value text default null
)
returns setof flowfabric.ff_execution_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_list_executions';
    c_max_scanned constant integer := 5000;
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, c_fn);
    v_after flowfabric.ff_execution_key;
    v_state flowfabric.ff_public_state;
    v_phase flowfabric.ff_lifecycle_phase;
begin
    if nullif(p_after, '') is not null then
        v_after := flowfabric._ff_parse_execution_id(p_after, c_fn);
    end if;
    if p_public_state <> all (enum_range(null::flowfabric.ff_public_state)::text[]) then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'public_state', p_public_state, enum_range(null::flowfabric.ff_public_state)::text[]);
    end if;
    if p_lifecycle_phase <> all (enum_range(null::flowfabric.ff_lifecycle_phase)::text[]) then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'lifecycle_phase', p_lifecycle_phase, enum_range(null::flowfabric.ff_lifecycle_phase)::text[]);
    end if;
    if (p_tag_key is null) <> (p_tag_value is null) then
        perform flowfabric._ff_raise_invalid(
            c_fn, case when p_tag_key is null then 'tag_key' else 'tag_value' end, 'null');
    end if;
    if not flowfabric._ff_is_tag_key(p_tag_key) then
        perform flowfabric._ff_raise('invalid_tag_key', c_fn, jsonb_build_object('key', left(p_tag_key, 200)));
    end if;
    v_state := p_public_state::flowfabric.ff_public_state;
    v_phase := p_lifecycle_phase::flowfabric.ff_lifecycle_phase;

    if v_limit = 0 then
        return;
    end if;

    -- The filters stand outside the limited scan, so that it stops. The last row that it may read stays in the page:
    -- the next one continues there. The tag is compared as a scalar; `exists` may be planned as a hash of all payloads.
    return query
    with page as materialized (
        select
            s.partition_key, s.execution_id, s.namespace, s.lane_id, s.execution_kind, s.public_state, s.priority,
            s.created_at_ms, s.flow_id, s.place, m.is_match
        from (
            select
                e.partition_key, e.execution_id, e.namespace, e.lane_id, e.execution_kind, e.lifecycle_phase,
                flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state)
                    as public_state,
                e.priority, e.created_at_ms, e.flow_id,
                row_number() over (order by e.partition_key, e.execution_id) as place
            from flowfabric.ff_exec_core as e
            where (v_after.execution_id is null
                or (e.partition_key, e.execution_id) > (v_after.partition_key, v_after.execution_id))
                and (p_partition_key is null or e.partition_key = p_partition_key)
                and (p_flow_id is null or (
                    e.flow_id = p_flow_id and e.partition_key = flowfabric.ff_flow_partition(p_flow_id)))
            order by e.partition_key, e.execution_id
            limit c_max_scanned
        ) as s
        cross join lateral (
            select
                (p_namespace is null or s.namespace = p_namespace)
                and (p_lane_id is null or s.lane_id = p_lane_id)
                and (v_state is null or s.public_state = v_state)
                and (v_phase is null or s.lifecycle_phase = v_phase)
                and (p_tag_key is null or coalesce(p_tag_value = coalesce(
                    (
                        select t.tags ->> p_tag_key
                        from flowfabric.ff_exec_tag as t
                        where t.partition_key = s.partition_key and t.execution_id = s.execution_id
                    ),
                    (
                        select p.tags ->> p_tag_key
                        from flowfabric.ff_exec_payload as p
                        where p.partition_key = s.partition_key and p.execution_id = s.execution_id
                    )), false)) as is_match
        ) as m
        where m.is_match or s.place = c_max_scanned
        order by s.partition_key, s.execution_id
        limit v_limit + 1
    ),
    numbered as (
        select
            p.*, row_number() over (order by p.partition_key, p.execution_id) as number,
            count(*) filter (where p.is_match) over () as match_count
        from page as p
    ),
    following as (
        select flowfabric.ff_format_execution_id(n.partition_key, n.execution_id) as next_after
        from numbered as n
        where case when n.match_count > v_limit then n.number = v_limit else n.place = c_max_scanned end
    )
    select
        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id), e.namespace, e.lane_id, e.execution_kind,
        e.public_state, e.priority, e.created_at_ms, e.flow_id, f.next_after is not null, f.next_after
    from (select) as page_or_mark
    left join following as f on true
    left join numbered as e on e.is_match and e.number <= v_limit
    where num_nonnulls(e.execution_id, f.next_after) > 0
    order by e.partition_key, e.execution_id;
end;
$$;

comment on function flowfabric.ff_list_executions(
    smallint, text, integer, text, text, text, text, uuid, text, text) is
'Executions in the order of their keys, a page at a time, with filters for people.';

grant execute on function flowfabric.ff_list_executions(
    smallint, text, integer, text, text, text, text, uuid, text, text)
to flowfabric_reader, flowfabric_operator;
