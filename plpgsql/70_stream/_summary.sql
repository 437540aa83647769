-- The summary of an attempt: one document, and the merge patches that it grows by.

-- The caller holds the stream's row, which stands for the document's too.
create or replace function flowfabric._ff_patch_summary(
    p_key flowfabric.ff_execution_key,
    p_attempt_index integer,
    p_payload bytea,
    p_patch_kind text,
    p_now_ms bigint,
    p_fn text
)
returns bigint
language plpgsql volatile
as $$
declare
    v_patch jsonb;
    v_document jsonb;
    v_version bigint;
begin
    if (p_patch_kind = any (flowfabric._ff_legal_values('patch_kind'))) is not true then
        perform flowfabric._ff_raise_invalid(p_fn, 'patch_kind', 'unsupported patch_kind', p_patch_kind);
    end if;
    begin
        v_patch := convert_from(p_payload, 'UTF8')::jsonb;
    exception when data_exception or program_limit_exceeded then
        perform flowfabric._ff_raise_invalid(p_fn, 'payload', 'patch payload is not valid JSON');
    end;
    if jsonb_typeof(v_patch) <> 'object' then
        perform flowfabric._ff_raise_invalid(p_fn, 'payload', 'patch must be a JSON object');
    end if;

    select s.document_json into v_document
    from flowfabric.ff_stream_summary as s
    where s.partition_key = p_key.partition_key and s.execution_id = p_key.execution_id
        and s.attempt_index = p_attempt_index;
    v_document := flowfabric._ff_merge_patch(v_document, v_patch, 0, p_fn);
    -- Only a patch can bring the sentinel in: the stored document has none within reach.
    if strpos(v_patch::text, '"__ff_null__"') > 0 then
        v_document := flowfabric._ff_put_nulls(v_document, 0);
    end if;
    -- Patches add up.
    perform flowfabric._ff_check_payload_size(pg_column_size(v_document), 'summary', p_fn);
    insert into flowfabric.ff_stream_summary as s (
        partition_key, execution_id, attempt_index, document_json, version, patch_kind, last_updated_ms,
        first_applied_ms)
    values (
        p_key.partition_key, p_key.execution_id, p_attempt_index, v_document, 1, p_patch_kind, p_now_ms, p_now_ms)
    on conflict (partition_key, execution_id, attempt_index) do update
    set document_json = excluded.document_json,
        version = s.version + 1,
        patch_kind = excluded.patch_kind,
        last_updated_ms = excluded.last_updated_ms
    returning s.version into v_version;
    return v_version;
end;
$$;
comment on function flowfabric._ff_patch_summary(
    flowfabric.ff_execution_key, integer, bytea, text, bigint, text) is
'Internal: applies the payload of a summary frame to the document of its attempt and returns the new version.';

-- RFC 7396. A member that is an object is merged into what is there, or into an empty object; null removes; anything
-- else replaces.
create or replace function flowfabric._ff_merge_patch(p_target jsonb, p_patch jsonb, p_depth integer, p_fn text)
returns jsonb
language plpgsql stable
as $$
declare
    v_target jsonb := case when jsonb_typeof(p_target) = 'object' then p_target else '{}' end;
begin
    if p_depth > 16 then
        perform flowfabric._ff_raise_invalid(p_fn, 'payload', 'patch_depth_exceeded');
    end if;
    return (
        select (v_target - coalesce(array_agg(m.key), '{}')) || coalesce(
            jsonb_object_agg(
                m.key,
                case
                    when jsonb_typeof(m.value) = 'object'
                        then flowfabric._ff_merge_patch(v_target -> m.key, m.value, p_depth + 1, p_fn)
                    else m.value
                end) filter (where jsonb_typeof(m.value) <> 'null'),
            '{}')
        from jsonb_each(p_patch) as m (key, value));
end;
$$;
comment on function flowfabric._ff_merge_patch(jsonb, jsonb, integer, text) is
'Internal: a document after a JSON merge patch; raises invalid_input for a patch that is nested too deeply.';

-- In a merge patch null deletes, so a producer that wants to store null says __ff_null__.
create or replace function flowfabric._ff_put_nulls(p_value jsonb, p_depth integer)
returns jsonb
language plpgsql immutable parallel safe
as $$
begin
    if p_value = '"__ff_null__"' then
        return 'null'::jsonb;
    elsif p_depth > 32 then
        return p_value;
    elsif jsonb_typeof(p_value) = 'object' then
        return (
            select coalesce(jsonb_object_agg(m.key, flowfabric._ff_put_nulls(m.value, p_depth + 1)), '{}')
            from jsonb_each(p_value) as m (key, value));
    elsif jsonb_typeof(p_value) = 'array' then
        return (
            select coalesce(
                jsonb_agg(flowfabric._ff_put_nulls(i.value, p_depth + 1) order by i.ordinality), '[]')
            from jsonb_array_elements(p_value) with ordinality as i (value, ordinality));
    end if;
    return p_value;
end;
$$;
comment on function flowfabric._ff_put_nulls(jsonb, integer) is
'Internal: a document in which the text __ff_null__ has become null wherever it was a value.';
