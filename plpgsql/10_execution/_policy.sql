-- What callers give with an execution: policy documents and tags.

-- A number of the policy, as whole milliseconds or a count. Beyond 2^53 no client could have meant it, and sums with
-- the clock stay far from the end of bigint.
create or replace function flowfabric._ff_policy_number(p_policy jsonb, p_path text[], p_fn text)
returns bigint
language plpgsql stable
as $$
declare
    v_value jsonb := p_policy #> p_path;
begin
    if v_value is null then
        return null;
    end if;
    if jsonb_typeof(v_value) <> 'number' or (v_value #>> '{}')::numeric < 0 then
        perform flowfabric._ff_raise_invalid_policy(p_path, 'not_number', p_fn);
    end if;
    if (v_value #>> '{}')::numeric > 9007199254740991 then
        perform flowfabric._ff_raise_invalid_policy(p_path, 'out_of_range', p_fn);
    end if;
    return floor((v_value #>> '{}')::numeric)::bigint;
end;
$$;
comment on function flowfabric._ff_policy_number(jsonb, text[], text) is
'Internal: a number of a policy document, NULL when absent; raises invalid_policy_json with its path.';

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

-- The retry policy at p_path of a document: policy.retry_policy at a creation, the whole document ({}) where a failing
-- call brings its own. Errors name the place in the document that the caller sent.
create or replace function flowfabric._ff_check_retry_policy(p_policy jsonb, p_path text[], p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_name text;
begin
    if p_policy #> p_path is null then
        return;
    end if;
    perform flowfabric._ff_check_object(p_policy #> p_path, p_path, p_fn);
    perform flowfabric._ff_policy_number(p_policy, p_path || 'max_retries'::text, p_fn);
    perform flowfabric._ff_check_object(p_policy #> (p_path || 'backoff'::text), p_path || 'backoff'::text, p_fn);
    foreach v_name in array array['initial_delay_ms', 'max_delay_ms', 'multiplier', 'delay_ms'] loop
        perform flowfabric._ff_policy_number(p_policy, p_path || array['backoff', v_name], p_fn);
    end loop;
    perform flowfabric._ff_policy_texts(p_policy, p_path || 'retryable_categories'::text, p_fn);
end;
$$;
comment on function flowfabric._ff_check_retry_policy(jsonb, text[], text) is
'Internal: raises invalid_policy_json unless the retry policy at a path is absent or well formed.';

create or replace function flowfabric._ff_policy_texts(p_policy jsonb, p_path text[], p_fn text)
returns text[]
language plpgsql stable
as $$
declare
    v_value jsonb := p_policy #> p_path;
begin
    if v_value is null then
        return null;
    end if;
    if jsonb_typeof(v_value) <> 'array' or exists (
        select from jsonb_array_elements(v_value) as e (element) where jsonb_typeof(e.element) <> 'string')
    then
        perform flowfabric._ff_raise_invalid_policy(p_path, 'not_array', p_fn);
    end if;
    return array(select jsonb_array_elements_text(v_value));
end;
$$;
comment on function flowfabric._ff_policy_texts(jsonb, text[], text) is
'Internal: an array of texts of a policy document, NULL when absent; raises invalid_policy_json with its path.';

-- Spec 10, section 3.7, in its order: nothing is created from a document that would abort a later call half-way.
create or replace function flowfabric._ff_read_policy(p_policy jsonb, p_fn text)
returns flowfabric.ff_policy_facts
language plpgsql stable
as $$
declare
    v_facts flowfabric.ff_policy_facts;
    v_list jsonb;
    v_name text;
begin
    perform flowfabric._ff_check_object(p_policy, '{}'::text[], p_fn);
    perform flowfabric._ff_check_object(p_policy -> 'routing_requirements', array['routing_requirements'], p_fn);
    v_list := p_policy #> array['routing_requirements', 'required_capabilities'];
    if jsonb_typeof(v_list) <> 'array' then
        perform flowfabric._ff_raise(
            'invalid_capabilities', p_fn, jsonb_build_object('side', 'required', 'reason', 'not_array'));
    end if;
    v_facts.required_capabilities := flowfabric._ff_normalize_capabilities(
        array(
            select case when jsonb_typeof(e.element) = 'string' then e.element #>> '{}' end
            from jsonb_array_elements(v_list) as e (element)),
        'required', p_fn);

    perform flowfabric._ff_check_retry_policy(p_policy, array['retry_policy'], p_fn);
    perform flowfabric._ff_check_object(p_policy -> 'timeout_policy', array['timeout_policy'], p_fn);
    perform flowfabric._ff_check_object(p_policy -> 'stream_policy', array['stream_policy'], p_fn);
    foreach v_name in array array['max_reclaim_count', 'max_replay_count', 'max_signals_per_execution'] loop
        perform flowfabric._ff_policy_number(p_policy, array[v_name], p_fn);
    end loop;
    v_facts.attempt_timeout_ms := nullif(
        flowfabric._ff_policy_number(p_policy, array['timeout_policy', 'attempt_timeout_ms'], p_fn), 0);
    v_facts.retention_ms := flowfabric._ff_policy_number(p_policy, array['stream_policy', 'retention_ttl_ms'], p_fn);
    v_facts.dedup_window_ms := flowfabric._ff_policy_number(p_policy, array['dedup_window_ms'], p_fn);
    v_facts.budget_ids := nullif(flowfabric._ff_policy_texts(p_policy, array['budget_ids'], p_fn), '{}'::text[]);
    if jsonb_typeof(p_policy -> 'quota_policy_id') <> 'string' then
        perform flowfabric._ff_raise_invalid_policy(array['quota_policy_id'], 'not_string', p_fn);
    end if;
    v_facts.quota_policy_id := p_policy ->> 'quota_policy_id';

    -- A misspelt id would otherwise mean "no limit".
    select min(b.budget_id) into v_name
    from unnest(v_facts.budget_ids) as b (budget_id)
    where not exists (select from flowfabric.ff_budget_policy as p where p.budget_id = b.budget_id);
    if v_name is not null then
        perform flowfabric._ff_raise_invalid(p_fn, 'policy.budget_ids', 'unknown', v_name);
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
    select p_key collate "C" ~ '^[a-z][a-z0-9_]*\.[a-z0-9_][a-z0-9_.]*$'
$$;
comment on function flowfabric._ff_is_tag_key(text) is
'Internal: whether a text can be a tag key: an owner, a dot, a field.';

create or replace function flowfabric._ff_check_tags_shape(p_tags jsonb, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if jsonb_typeof(p_tags) <> 'object' then
        perform flowfabric._ff_raise_invalid(p_fn, 'tags', 'not_object', p_tags::text);
    end if;
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
