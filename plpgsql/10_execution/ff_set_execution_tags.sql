-- ff_set_execution_tags: add tags to an execution, or replace them.
--
-- Fence:  none; a tag is no state.
-- Locks:  the ff_exec_core row.
-- Writes: ff_exec_payload (tags, and a payload that was small), ff_exec_core (instance_tag, small_payload,
--         last_mutation_at_ms).
-- Raises: invalid_input, execution_not_found, invalid_tag_key.
-- Retry:  safe; a repeat changes nothing but last_mutation_at_ms.
--
-- Works on an ended execution too: tags are for people and filters, who look at it after its end. A tag is never taken
-- away. Events carry the instance tag that the execution had when they were written.
create or replace function flowfabric.ff_set_execution_tags(p_execution_id text, p_tags jsonb)
returns flowfabric.ff_tagging
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_set_execution_tags';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
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

    perform from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    for no key update;
    if not found then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_tag_keys(p_tags, c_fn);

    -- A small payload moves to its tags: a claim that finds it in the execution's row looks for nothing else.
    insert into flowfabric.ff_exec_payload as p (partition_key, execution_id, payload, tags)
    select e.partition_key, e.execution_id, nullif(e.small_payload, ''), p_tags
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    on conflict (partition_key, execution_id) do update
    set payload = coalesce(p.payload, excluded.payload), tags = p.tags || excluded.tags
    returning p.tags into v_tags;
    perform flowfabric._ff_check_tags_size(v_tags, c_fn);
    update flowfabric.ff_exec_core as e
    set instance_tag = coalesce(p_tags ->> c.instance_tag_key, e.instance_tag),
        small_payload = null,
        last_mutation_at_ms = v_now_ms
    from flowfabric.ff_partition_config as c
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    return row('ok', (select count(*) from jsonb_object_keys(p_tags))::integer)::flowfabric.ff_tagging;
end;
$$;

comment on function flowfabric.ff_set_execution_tags(text, jsonb) is
'Adds tags to an execution or replaces them, also after its end; all of them or, if one key is malformed, none.';

grant execute on function flowfabric.ff_set_execution_tags(text, jsonb) to flowfabric_producer, flowfabric_operator;
