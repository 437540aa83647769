-- ff_set_execution_tags: add tags to an execution, or replace them.
--
-- Fence:  none; a tag is no state.
-- Locks:  the ff_exec_core row FOR KEY SHARE, which only its deletion conflicts with; the ff_exec_tag row. The instance
--         tag locks the ff_exec_core row as any change does. The first call of an installation locks
--         ff_partition_config, and waits for nobody there.
-- Writes: ff_exec_tag; the instance_tag of ff_exec_core; has_late_tags of ff_partition_config, once.
-- Raises: invalid_input, execution_not_found, invalid_tag_key.
-- Retry:  safe; a repeat changes nothing but the time of the last change.
--
-- A caller may keep its transaction open for long. Claims, renewals and ends must not wait for it, so the tags have a
-- row that none of them needs. Works on an ended execution too: tags are for people and filters, who look at it after
-- its end. A tag is never taken away. Events carry the instance tag that the execution had when they were written.
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
    v_instance_tag_key text;
    v_has_late_tags boolean;
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
    for key share;
    if not found then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_check_tag_keys(p_tags, c_fn);

    select c.instance_tag_key, c.has_late_tags into v_instance_tag_key, v_has_late_tags
    from flowfabric.ff_partition_config as c;
    if p_tags ? v_instance_tag_key then
        update flowfabric.ff_exec_core as e
        set instance_tag = p_tags ->> v_instance_tag_key
        where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    end if;
    insert into flowfabric.ff_exec_tag as t (partition_key, execution_id, tags, updated_at_ms)
    values (v_key.partition_key, v_key.execution_id, p_tags, v_now_ms)
    on conflict (partition_key, execution_id) do update
    set tags = t.tags || excluded.tags, updated_at_ms = excluded.updated_at_ms
    returning t.tags into v_tags;
    perform flowfabric._ff_check_tags_size(v_tags, c_fn);
    if not v_has_late_tags and not flowfabric._ff_expect_late_tags() then
        perform flowfabric._ff_tag_in_place(v_key, p_tags);
    end if;
    return row('ok', (select count(*) from jsonb_object_keys(p_tags))::integer)::flowfabric.ff_tagging;
end;
$$;

comment on function flowfabric.ff_set_execution_tags(text, jsonb) is
'Adds tags to an execution or replaces them, also after its end; all of them or, if one key is malformed, none.';

grant execute on function flowfabric.ff_set_execution_tags(text, jsonb) to flowfabric_producer, flowfabric_operator;

create or replace function flowfabric._ff_expect_late_tags()
returns boolean
language plpgsql volatile
as $$
begin
    update flowfabric.ff_partition_config as c
    set has_late_tags = true
    where c.ctid = any (array(
        select x.ctid
        from flowfabric.ff_partition_config as x
        where not x.has_late_tags
        for no key update skip locked));
    return (select c.has_late_tags from flowfabric.ff_partition_config as c);
end;
$$;
comment on function flowfabric._ff_expect_late_tags() is
'Internal: lets claims read ff_exec_tag from the commit on; false if another session holds the row that says so.';

-- The first tags of an installation, while another session holds ff_partition_config: its change may be the same, and
-- may be undone. Claims then find the tags where those of a creation are. A small payload moves there too: a claim that
-- finds it in the execution's row looks for nothing else.
create or replace function flowfabric._ff_tag_in_place(p_key flowfabric.ff_execution_key, p_tags jsonb)
returns void
language plpgsql volatile
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
begin
    perform from flowfabric.ff_exec_core as e
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id
    for no key update;
    insert into flowfabric.ff_exec_payload as p (partition_key, execution_id, payload, tags)
    select e.partition_key, e.execution_id, nullif(e.small_payload, ''), p_tags
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id
    on conflict (partition_key, execution_id) do update
    set payload = coalesce(p.payload, excluded.payload), tags = p.tags || excluded.tags;
    update flowfabric.ff_exec_core as e
    set small_payload = null
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id;
end;
$$;
comment on function flowfabric._ff_tag_in_place(flowfabric.ff_execution_key, jsonb) is
'Internal: puts tags beside those given at the creation; locks the execution.';

create or replace function flowfabric._ff_all_tags(p_partition_key smallint, p_execution_id uuid, p_given_tags jsonb)
returns jsonb
language sql stable
as $$
    select coalesce(p_given_tags, '{}') || coalesce(
        (
            select t.tags
            from flowfabric.ff_exec_tag as t
            where t.partition_key = p_partition_key and t.execution_id = p_execution_id
        ),
        '{}')
$$;
comment on function flowfabric._ff_all_tags(smallint, uuid, jsonb) is
'Internal: the tags given at the creation of an execution, and those set later, which win.';
