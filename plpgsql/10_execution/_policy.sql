-- What callers give with an execution: policy documents and tags.

create or replace function flowfabric._ff_raise_invalid_policy(p_path text[], p_reason text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'invalid_policy_json', p_fn,
        jsonb_build_object('path', coalesce(nullif(array_to_string(p_path, '.'), ''), '$'), 'reason', p_reason));
end;
$$;
comment on function flowfabric._ff_raise_invalid_policy(text[], text, text) is
'Internal: raises invalid_policy_json for one place of a policy document.';

create or replace function flowfabric._ff_check_object(p_value jsonb, p_path text[], p_fn text)
returns void
language plpgsql stable
as $$
begin
    if jsonb_typeof(p_value) <> 'object' then
        perform flowfabric._ff_raise_invalid_policy(p_path, 'not_object', p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_check_object(jsonb, text[], text) is
'Internal: raises invalid_policy_json unless a value is absent or an object.';

-- A failing call may bring a retry policy of its own. The caller has seen that there is one.
create or replace function flowfabric._ff_check_retry_policy(p_retry_policy jsonb, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if flowfabric._ff_is_large(p_retry_policy) then
        perform flowfabric._ff_raise_invalid_policy('{}'::text[], 'too_large', p_fn);
    end if;
    if not flowfabric._ff_is_retry_policy(p_retry_policy) then
        perform flowfabric._ff_raise(
            'invalid_policy_json', p_fn, flowfabric._ff_policy_error(p_retry_policy, 'retry_policy'));
    end if;
end;
$$;
comment on function flowfabric._ff_check_retry_policy(jsonb, text) is
'Internal: raises invalid_policy_json unless a retry policy is well formed.';

-- Nothing is created from a document that would abort a later call half-way, or that asks for what nothing does. The
-- test tells that something is wrong, and takes 3 us of a creation; only then the culprit is searched, in 50 to 800 us.
create or replace function flowfabric._ff_read_policy(p_policy jsonb, p_fn text)
returns flowfabric.ff_policy_facts
language plpgsql stable
as $$
declare
    v_facts flowfabric.ff_policy_facts;
    v_retry_policy jsonb := p_policy -> 'retry_policy';
    v_capabilities jsonb := p_policy #> array['routing_requirements', 'required_capabilities'];
    v_is_wrong boolean;
    v_unknown_id text;
begin
    if flowfabric._ff_is_large(p_policy) then
        perform flowfabric._ff_raise_invalid_policy('{}'::text[], 'too_large', p_fn);
    end if;
    v_is_wrong := case
        when p_policy @? flowfabric._ff_policy_fault(null) then true
        else p_policy - flowfabric._ff_policy_keys_at('{}', null) <> '{}' end;
    if v_retry_policy is not null and not v_is_wrong then
        v_is_wrong := coalesce(flowfabric._ff_has_unknown_retry_key(v_retry_policy), false);
    end if;
    if not v_is_wrong and p_policy ?| array['timeout_policy', 'stream_policy', 'routing_requirements'] then
        v_is_wrong := coalesce(
            (p_policy -> 'timeout_policy') - flowfabric._ff_policy_keys_at(array['timeout_policy'], null) <> '{}'
            or (p_policy -> 'stream_policy') - flowfabric._ff_policy_keys_at(array['stream_policy'], null) <> '{}'
            or (p_policy -> 'routing_requirements')
            - flowfabric._ff_policy_keys_at(array['routing_requirements'], null) <> '{}', false);
    end if;
    if v_is_wrong then
        perform flowfabric._ff_check_object(p_policy, '{}'::text[], p_fn);
        perform flowfabric._ff_check_object(p_policy -> 'routing_requirements', array['routing_requirements'], p_fn);
    end if;
    v_facts.required_capabilities := '{}'::text[];
    if v_capabilities is not null then
        if jsonb_typeof(v_capabilities) <> 'array' then
            perform flowfabric._ff_raise(
                'invalid_capabilities', p_fn, jsonb_build_object('side', 'required', 'reason', 'not_array'));
        end if;
        v_facts.required_capabilities := flowfabric._ff_normalize_capabilities(
            array(
                select case when jsonb_typeof(e.element) = 'string' then e.element #>> '{}' end
                from jsonb_array_elements(v_capabilities) as e (element)),
            'required', p_fn);
    end if;
    if v_is_wrong then
        perform flowfabric._ff_raise('invalid_policy_json', p_fn, flowfabric._ff_policy_error(p_policy, null));
    end if;

    v_facts.attempt_timeout_ms := nullif(
        floor((p_policy #> array['timeout_policy', 'attempt_timeout_ms'])::numeric), 0)::bigint;
    v_facts.retention_ms := floor((p_policy #> array['stream_policy', 'retention_ttl_ms'])::numeric)::bigint;
    v_facts.dedup_window_ms := floor((p_policy -> 'dedup_window_ms')::numeric)::bigint;
    v_facts.quota_policy_id := p_policy ->> 'quota_policy_id';

    -- A misspelt id would otherwise mean "no limit".
    if p_policy ? 'budget_ids' then
        v_facts.budget_ids := nullif(array(select jsonb_array_elements_text(p_policy -> 'budget_ids')), '{}'::text[]);
        select min(b.budget_id collate "C") into v_unknown_id
        from unnest(v_facts.budget_ids) as b (budget_id)
        where not exists (select from flowfabric.ff_budget_policy as p where p.budget_id = b.budget_id);
        if v_unknown_id is not null then
            perform flowfabric._ff_raise_invalid(p_fn, 'policy.budget_ids', 'unknown', v_unknown_id);
        end if;
    end if;
    if v_facts.quota_policy_id is not null and not exists (
        select from flowfabric.ff_quota_policy as q where q.quota_policy_id = v_facts.quota_policy_id)
    then
        perform flowfabric._ff_raise_invalid(p_fn, 'policy.quota_policy_id', 'unknown', v_facts.quota_policy_id);
    end if;
    return v_facts;
end;
$$;
comment on function flowfabric._ff_read_policy(jsonb, text) is
'Internal: validates a policy document and returns what a creation stores from it.';

create or replace function flowfabric._ff_is_tag_key(p_key text)
returns boolean
language sql immutable parallel safe
as $$
    select p_key collate "C" ~ '^[a-z][a-z0-9_]*[.][a-z0-9_][a-z0-9_.]*$'
$$;
comment on function flowfabric._ff_is_tag_key(text) is
'Internal: whether a text can be a tag key: an owner, a dot, a field.';

-- An empty path gives the tags themselves, but never compressed (_ff_is_large).
create or replace function flowfabric._ff_check_tags_size(p_tags jsonb, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if pg_column_size(p_tags #> '{}') > 65536 then
        perform flowfabric._ff_raise_invalid(p_fn, 'tags', 'too_large');
    end if;
end;
$$;
comment on function flowfabric._ff_check_tags_size(jsonb, text) is
'Internal: raises invalid_input for tags that take more than 64 KiB together.';

create or replace function flowfabric._ff_check_tags_shape(p_tags jsonb, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if jsonb_typeof(p_tags) <> 'object' then
        perform flowfabric._ff_raise_invalid(p_fn, 'tags', 'not_object', p_tags::text);
    end if;
    perform flowfabric._ff_check_tags_size(p_tags, p_fn);
    if exists (select from jsonb_each(p_tags) as t where jsonb_typeof(t.value) <> 'string') then
        perform flowfabric._ff_raise_invalid(p_fn, 'tags', 'not_string', p_tags::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_tags_shape(jsonb, text) is
'Internal: raises invalid_input unless tags are an object of strings.';

create or replace function flowfabric._ff_check_tag_keys(p_tags jsonb, p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_key text;
begin
    select min(t.key collate "C") into v_key
    from jsonb_object_keys(p_tags) as t (key)
    where not flowfabric._ff_is_tag_key(t.key);
    if v_key is not null then
        perform flowfabric._ff_raise('invalid_tag_key', p_fn, jsonb_build_object('key', left(v_key, 200)));
    end if;
end;
$$;
comment on function flowfabric._ff_check_tag_keys(jsonb, text) is
'Internal: raises invalid_tag_key for the first key, in byte order, that breaks the rule.';
