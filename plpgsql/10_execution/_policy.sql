-- What callers give with an execution: policy documents and tags.

-- The fields that the engine reads and what each must be, in the order in which they are checked. As data, because two
-- tests are made of it: a quick one of the whole document, and the search for the field that is wrong.
create or replace function flowfabric._ff_policy_fields()
returns table (path text[], kind text)
language sql immutable parallel safe
as $$
    values
    (array['retry_policy'], 'object'),
    (array['retry_policy', 'max_retries'], 'number'),
    (array['retry_policy', 'backoff'], 'object'),
    (array['retry_policy', 'backoff', 'initial_delay_ms'], 'duration'),
    (array['retry_policy', 'backoff', 'max_delay_ms'], 'duration'),
    (array['retry_policy', 'backoff', 'multiplier'], 'number'),
    (array['retry_policy', 'backoff', 'delay_ms'], 'duration'),
    (array['retry_policy', 'retryable_categories'], 'texts'),
    (array['timeout_policy'], 'object'),
    (array['timeout_policy', 'attempt_timeout_ms'], 'duration'),
    (array['max_reclaim_count'], 'number'),
    (array['max_replay_count'], 'number'),
    (array['max_signals_per_execution'], 'number'),
    (array['dedup_window_ms'], 'duration'),
    (array['stream_policy'], 'object'),
    (array['stream_policy', 'retention_ttl_ms'], 'duration'),
    (array['budget_ids'], 'texts'),
    (array['quota_policy_id'], 'text')
$$;
comment on function flowfabric._ff_policy_fields() is
'Internal: the fields of a policy document that the engine reads, with their kinds.';

-- One path that matches a policy with any wrong field. Immutable and without arguments, so that a plan holds the path
-- itself: the test takes 10 us of a creation, the search below 110, a call per field 250. In strict mode a member that
-- is absent makes its term unknown, and an unknown term matches nothing; lax mode would look into arrays.
create or replace function flowfabric._ff_policy_fault()
returns jsonpath
language sql immutable parallel safe
as $$
    select (
        'strict $ ? (' || string_agg(
            format(
                'exists(@.%s ? (%s))', array_to_string(f.path, '.'),
                case f.kind
                    when 'object' then '@.type() != "object"'
                    when 'number' then '@.type() != "number" || @ < 0 || @ > 9007199254740991'
                    when 'duration' then '@.type() != "number" || @ < 0 || @ > ' || flowfabric._ff_longest_ms()::text
                    when 'text' then '@.type() != "string"'
                    when 'texts' then '@.type() != "array" || exists(@[*] ? (@.type() != "string"))'
                end),
            ' || ') || ')')::jsonpath
    from flowfabric._ff_policy_fields() as f
$$;
comment on function flowfabric._ff_policy_fault() is
'Internal: a JSON path that matches a policy document in which a field is not what it must be.';

-- p_part names the member of a policy that the document is; NULL for a whole policy. A JSON null counts as present.
-- Beyond 2^53 no client could have meant a number; durations end at 1000 years, as everywhere.
create or replace function flowfabric._ff_wrong_policy_field(p_document jsonb, p_part text)
returns table (path text[], reason text)
language sql immutable parallel safe
as $$
    select w.path, w.reason
    from (
        select f.path, f.position, case
            when f.kind = 'object' and jsonb_typeof(f.value) <> 'object' then 'not_object'
            when f.kind in ('number', 'duration') and (jsonb_typeof(f.value) <> 'number' or f.value::numeric < 0)
                then 'not_number'
            when f.kind = 'number' and f.value::numeric > 9007199254740991 then 'out_of_range'
            when f.kind = 'duration' and f.value::numeric > flowfabric._ff_longest_ms() then 'out_of_range'
            when f.kind = 'text' and jsonb_typeof(f.value) <> 'string' then 'not_string'
            when f.kind = 'texts' and (
                jsonb_typeof(f.value) <> 'array'
                or jsonb_path_exists(f.value, 'strict $[*] ? (@.type() != "string")')) then 'not_array'
            end as reason
        from (
            select d.path, d.kind, d.position, p_document #> d.path as value
            from (
                select case when p_part is null then k.path else k.path[2:] end as path, k.kind, k.position
                from flowfabric._ff_policy_fields() with ordinality as k (path, kind, position)
                where p_part is null or k.path[1] = p_part
            ) as d
        ) as f
        where f.value is not null
    ) as w
    where w.reason is not null
    order by w.position
    limit 1
$$;
comment on function flowfabric._ff_wrong_policy_field(jsonb, text) is
'Internal: the first field of a policy document that is not what it must be; no row when there is none.';

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

-- The retry policy at p_path of a document: the whole document ({}) where a failing call brings its own. Errors name
-- the place in the document that the caller sent.
create or replace function flowfabric._ff_check_retry_policy(p_policy jsonb, p_path text[], p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_wrong record;
begin
    if flowfabric._ff_is_large(p_policy #> p_path) then
        perform flowfabric._ff_raise_invalid_policy(p_path, 'too_large', p_fn);
    end if;
    select w.path, w.reason into v_wrong
    from flowfabric._ff_wrong_policy_field(p_policy #> p_path, 'retry_policy') as w;
    if found then
        perform flowfabric._ff_raise_invalid_policy(p_path || v_wrong.path, v_wrong.reason, p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_check_retry_policy(jsonb, text[], text) is
'Internal: raises invalid_policy_json unless the retry policy at a path is absent or well formed.';

-- Spec 10, section 3.7, in its order: nothing is created from a document that would abort a later call half-way.
create or replace function flowfabric._ff_read_policy(p_policy jsonb, p_fn text)
returns flowfabric.ff_policy_facts
language plpgsql stable
as $$
declare
    v_facts flowfabric.ff_policy_facts;
    v_capabilities jsonb := p_policy #> array['routing_requirements', 'required_capabilities'];
    v_wrong record;
    v_unknown_id text;
begin
    if flowfabric._ff_is_large(p_policy) then
        perform flowfabric._ff_raise_invalid_policy('{}'::text[], 'too_large', p_fn);
    end if;
    perform flowfabric._ff_check_object(p_policy, '{}'::text[], p_fn);
    perform flowfabric._ff_check_object(p_policy -> 'routing_requirements', array['routing_requirements'], p_fn);
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

    if p_policy @? flowfabric._ff_policy_fault() then
        select w.path, w.reason into v_wrong from flowfabric._ff_wrong_policy_field(p_policy, null) as w;
        perform flowfabric._ff_raise_invalid_policy(v_wrong.path, v_wrong.reason, p_fn);
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
