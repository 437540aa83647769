-- ff_set_flow_tags: add tags to a flow, or replace them.
--
-- Fence:  none; a tag is no state.
-- Locks:  the ff_flow_core row FOR KEY SHARE, which only its deletion conflicts with; the ff_flow_tag row.
-- Writes: ff_flow_tag.
-- Raises: invalid_input, flow_not_found, invalid_tag_key.
-- Retry:  safe; a repeat changes nothing but the time of the last change.
--
-- A caller may keep its transaction open for long. Ends of members must not wait for it: the tags have their own row.
-- Works on a cancelled flow too: tags are for people and filters, who look at it afterwards. A tag is never taken away.
create or replace function flowfabric.ff_set_flow_tags(p_flow_id uuid, p_tags jsonb)
returns flowfabric.ff_flow_tagging
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_set_flow_tags';
    v_partition_key smallint;
begin
    if p_tags is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'tags', 'null');
    end if;
    perform flowfabric._ff_check_tags_shape(p_tags, c_fn);
    if p_tags = '{}'::jsonb then
        perform flowfabric._ff_raise_invalid(c_fn, 'tags', 'empty');
    end if;

    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'flow_id', 'null');
    end if;

    v_partition_key := flowfabric.ff_flow_partition(p_flow_id);
    perform from flowfabric.ff_flow_core as f
    where f.partition_key = v_partition_key and f.flow_id = p_flow_id
    for key share;
    if not found then
        perform flowfabric._ff_raise('flow_not_found', c_fn, jsonb_build_object('flow_id', p_flow_id));
    end if;
    perform flowfabric._ff_check_tag_keys(p_tags, c_fn);

    insert into flowfabric.ff_flow_tag as t (partition_key, flow_id, tags, updated_at_ms)
    values (v_partition_key, p_flow_id, p_tags, flowfabric.ff_now_ms())
    on conflict (partition_key, flow_id) do update
    set tags = t.tags || excluded.tags, updated_at_ms = excluded.updated_at_ms;
    return row((select count(*) from jsonb_object_keys(p_tags))::integer)::flowfabric.ff_flow_tagging;
end;
$$;

comment on function flowfabric.ff_set_flow_tags(uuid, jsonb) is
'Adds tags to a flow or replaces them, also after its cancel; all of them or, if one key is malformed, none.';

grant execute on function flowfabric.ff_set_flow_tags(uuid, jsonb) to flowfabric_producer, flowfabric_operator;
