-- ff_get_flow_tag: one tag of a flow.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, invalid_tag_key.
-- Retry:  safe.
create or replace function flowfabric.ff_get_flow_tag(p_flow_id uuid, p_key text)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_get_flow_tag';
    v_value text;
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'flow_id', 'null');
    end if;
    if flowfabric._ff_is_tag_key(p_key) is not true then
        perform flowfabric._ff_raise('invalid_tag_key', c_fn, jsonb_build_object('key', left(p_key, 200)));
    end if;
    select coalesce(t.tags ->> p_key, f.tags ->> p_key) into v_value
    from flowfabric.ff_flow_core as f
    left join flowfabric.ff_flow_tag as t on t.partition_key = f.partition_key and t.flow_id = f.flow_id
    where f.partition_key = flowfabric.ff_flow_partition(p_flow_id) and f.flow_id = p_flow_id;
    return v_value;
end;
$$;

comment on function flowfabric.ff_get_flow_tag(uuid, text) is
'The value of one tag of a flow; NULL if the flow has none or is unknown.';

grant execute on function flowfabric.ff_get_flow_tag(uuid, text) to flowfabric_reader, flowfabric_operator;
