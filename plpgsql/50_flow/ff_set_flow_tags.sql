-- ff_set_flow_tags: add tags to a flow, or replace them.
--
-- Fence:  none; a tag is no state.
-- Locks:  the ff_flow_core row.
-- Writes: the tags of ff_flow_core.
-- Raises: invalid_input, flow_not_found, invalid_tag_key.
-- Retry:  safe; a repeat changes nothing but last_mutation_at_ms.
--
-- Works on a cancelled flow too: tags are for people and filters, who look at it afterwards. A tag is never taken away.
create or replace function flowfabric.ff_set_flow_tags(p_flow_id uuid, p_tags jsonb)
returns flowfabric.ff_flow_tagging
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_set_flow_tags';
    v_flow flowfabric.ff_flow_core;
    v_tags jsonb;
    v_now_ms bigint;
begin
    if p_tags is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'tags', 'null');
    end if;
    perform flowfabric._ff_check_tags_shape(p_tags, c_fn);
    if p_tags = '{}'::jsonb then
        perform flowfabric._ff_raise_invalid(c_fn, 'tags', 'empty');
    end if;

    v_flow := flowfabric._ff_lock_flow(p_flow_id, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_tag_keys(p_tags, c_fn);

    update flowfabric.ff_flow_core as f
    set tags = f.tags || p_tags, last_mutation_at_ms = v_now_ms
    where f.partition_key = v_flow.partition_key and f.flow_id = p_flow_id
    returning f.tags into v_tags;
    perform flowfabric._ff_check_tags_size(v_tags, c_fn);
    return row((select count(*) from jsonb_object_keys(p_tags))::integer)::flowfabric.ff_flow_tagging;
end;
$$;

comment on function flowfabric.ff_set_flow_tags(uuid, jsonb) is
'Adds tags to a flow or replaces them, also after its cancel; all of them or, if one key is malformed, none.';

grant execute on function flowfabric.ff_set_flow_tags(uuid, jsonb) to flowfabric_producer, flowfabric_operator;
