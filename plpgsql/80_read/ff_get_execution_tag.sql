-- ff_get_execution_tag: the value of one tag.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, invalid_tag_key.
-- Retry:  safe.
create or replace function flowfabric.ff_get_execution_tag(p_execution_id text, p_key text)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_get_execution_tag';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
begin
    if flowfabric._ff_is_tag_key(p_key) is not true then
        perform flowfabric._ff_raise('invalid_tag_key', c_fn, jsonb_build_object('key', left(p_key, 200)));
    end if;
    return coalesce(
        (
            select t.tags ->> p_key
            from flowfabric.ff_exec_tag as t
            where t.partition_key = v_key.partition_key and t.execution_id = v_key.execution_id
        ),
        (
            select p.tags ->> p_key
            from flowfabric.ff_exec_payload as p
            where p.partition_key = v_key.partition_key and p.execution_id = v_key.execution_id
        ));
end;
$$;

comment on function flowfabric.ff_get_execution_tag(text, text) is
'The value of a tag; NULL for an unknown tag and for an unknown execution alike.';

grant execute on function flowfabric.ff_get_execution_tag(text, text) to flowfabric_reader, flowfabric_operator;
