-- ff_list_executions: page through executions in the order of their keys.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, invalid_tag_key.
-- Retry:  safe.
--
-- A page starts behind p_after, the id of the last row of the page before. The filters are for people: with a rare
-- one a page may have to read many rows. With p_flow_id only the members of that flow are read.
--
-- Planned for each call: with the arguments known, filters that were not given vanish and the cursor becomes a bound
-- of the index scan. A plan made once for all calls would read every page from the beginning.
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
as $$
declare
    c_fn constant text := 'ff_list_executions';
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

    return query
    with page as materialized (
        select
            e.partition_key, e.execution_id, e.namespace, e.lane_id, e.execution_kind, s.public_state, e.priority,
            e.created_at_ms, e.flow_id
        from flowfabric.ff_exec_core as e
        cross join lateral (
            select flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state)
                as public_state
        ) as s
        where (v_after.execution_id is null
            or (e.partition_key, e.execution_id) > (v_after.partition_key, v_after.execution_id))
            and (p_partition_key is null or e.partition_key = p_partition_key)
            and (p_flow_id is null or (
                e.flow_id = p_flow_id and e.partition_key = flowfabric.ff_flow_partition(p_flow_id)))
            and (p_namespace is null or e.namespace = p_namespace)
            and (p_lane_id is null or e.lane_id = p_lane_id)
            and (v_state is null or s.public_state = v_state)
            and (v_phase is null or e.lifecycle_phase = v_phase)
            and (p_tag_key is null or p_tag_value = coalesce(
                (
                    select t.tags ->> p_tag_key
                    from flowfabric.ff_exec_tag as t
                    where t.partition_key = e.partition_key and t.execution_id = e.execution_id
                ),
                (
                    select p.tags ->> p_tag_key
                    from flowfabric.ff_exec_payload as p
                    where p.partition_key = e.partition_key and p.execution_id = e.execution_id
                )))
        order by e.partition_key, e.execution_id
        limit v_limit + 1
    )
    select
        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id), e.namespace, e.lane_id, e.execution_kind,
        e.public_state, e.priority, e.created_at_ms, e.flow_id, (select count(*) from page) > v_limit
    from page as e
    order by e.partition_key, e.execution_id
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_executions(
    smallint, text, integer, text, text, text, text, uuid, text, text) is
'Executions in the order of their keys, a page at a time, with filters for people.';

grant execute on function flowfabric.ff_list_executions(
    smallint, text, integer, text, text, text, text, uuid, text, text)
to flowfabric_reader, flowfabric_operator;
