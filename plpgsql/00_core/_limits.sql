-- Sizes: what a caller may store. docs/client.md has all limits in one table, and a test holds it equal to the engine.
--
-- On hot paths the caller compares lengths in the one condition that it evaluates anyway, and asks these functions only
-- to name the culprit. Lengths of texts and bytes are known without reading them, also where a value is compressed.

create or replace function flowfabric._ff_check_label(p_label text, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if octet_length(p_label) > 256 then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'too_long', p_label);
    end if;
end;
$$;
comment on function flowfabric._ff_check_label(text, text, text) is
'Internal: raises invalid_input for a label of more than 256 bytes.';

create or replace function flowfabric._ff_check_reason(p_reason text, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if octet_length(p_reason) > 8192 then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'too_long', p_reason);
    end if;
end;
$$;
comment on function flowfabric._ff_check_reason(text, text, text) is
'Internal: raises invalid_input for a reason or a message of more than 8192 bytes.';

-- An empty path gives the document itself, but never compressed: pg_column_size would tell the compressed size. The
-- text counts too: a number like 1e100000 takes a few bytes as it is stored and 100 000 as it is read.
create or replace function flowfabric._ff_is_large(p_document jsonb)
returns boolean
language sql stable parallel safe
as $$
    select pg_column_size(p_document #> '{}') > 65536 or octet_length(p_document::text) > 65536
$$;
comment on function flowfabric._ff_is_large(jsonb) is
'Internal: whether a JSON document is larger than 64 KiB, as it is stored or as text.';

create or replace function flowfabric._ff_check_json_size(p_document jsonb, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if flowfabric._ff_is_large(p_document) then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'too_large');
    end if;
end;
$$;
comment on function flowfabric._ff_check_json_size(jsonb, text, text) is
'Internal: raises invalid_input for a JSON document of more than 64 KiB.';

-- 64 KiB are always allowed, so that a setting need not be read for them.
create or replace function flowfabric._ff_check_payload_size(p_bytes integer, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_limit bigint;
begin
    if p_bytes > 65536 then
        v_limit := flowfabric._ff_setting_value('max_payload_bytes');
        if p_bytes > v_limit then
            perform flowfabric._ff_raise(
                'payload_too_large', p_fn,
                jsonb_build_object('field', p_field, 'limit_bytes', v_limit, 'actual_bytes', p_bytes));
        end if;
    end if;
end;
$$;
comment on function flowfabric._ff_check_payload_size(integer, text, text) is
'Internal: raises payload_too_large for a payload, a result or a frame beyond the setting max_payload_bytes.';
