-- The fields of a policy document: what is legal where, and how a document that breaks it is refused.
--
-- The list is data, because four things follow from it: the test of a whole document, the search for the field that is
-- wrong, docs/policies.md and the Python classes. A test holds the last two equal to it.

-- In the order in which they are checked. A field with a variant belongs to objects whose member `type` names it.
create or replace function flowfabric._ff_policy_keys()
returns table (path text[], kind text, legal_values text[], variant text)
language sql immutable parallel safe
as $$
    values
    (array['routing_requirements'], 'object', null::text[], null::text),
    (array['routing_requirements', 'required_capabilities'], 'capabilities', null, null),
    (array['retry_policy'], 'object', null, null),
    (array['retry_policy', 'max_retries'], 'number', null, null),
    (array['retry_policy', 'backoff'], 'object', null, null),
    (array['retry_policy', 'backoff', 'type'], 'word', array['exponential', 'fixed'], null),
    (array['retry_policy', 'backoff', 'initial_delay_ms'], 'duration', null, 'exponential'),
    (array['retry_policy', 'backoff', 'max_delay_ms'], 'duration', null, 'exponential'),
    (array['retry_policy', 'backoff', 'multiplier'], 'number', null, 'exponential'),
    (array['retry_policy', 'backoff', 'delay_ms'], 'duration', null, 'fixed'),
    (array['retry_policy', 'backoff', 'jitter'], 'fraction', null, null),
    (array['retry_policy', 'retryable_categories'], 'texts', null, null),
    (array['timeout_policy'], 'object', null, null),
    (array['timeout_policy', 'attempt_timeout_ms'], 'duration', null, null),
    (array['max_reclaim_count'], 'number', null, null),
    (array['max_replay_count'], 'number', null, null),
    (array['max_signals_per_execution'], 'number', null, null),
    (array['dedup_window_ms'], 'duration', null, null),
    (array['stream_policy'], 'object', null, null),
    (array['stream_policy', 'retention_ttl_ms'], 'duration', null, null),
    (array['budget_ids'], 'texts', null, null),
    (array['quota_policy_id'], 'text', null, null)
$$;
comment on function flowfabric._ff_policy_keys() is
'Internal: the legal fields of a policy document, with their kinds and legal values.';

-- What people write for a field of another name, and what they look for here that is given elsewhere.
create or replace function flowfabric._ff_policy_advice()
returns table (path text[], nearest text[], instead text)
language sql immutable parallel safe
as $$
    values
    (array['attempts'], array['retry_policy', 'max_retries'], 'max_retries counts the attempts after the first.'),
    (array['max_attempts'], array['retry_policy', 'max_retries'], 'max_retries counts the attempts after the first.'),
    (array['retry_policy', 'attempts'], array['retry_policy', 'max_retries'],
        'max_retries counts the attempts after the first.'),
    (array['retry_policy', 'max_attempts'], array['retry_policy', 'max_retries'],
        'max_retries counts the attempts after the first.'),
    (array['retry_policy', 'retry_policy'], null, 'Give what is inside of retry_policy, without the name around it.'),
    (array['timeout_policy', 'max_reclaim_count'], array['max_reclaim_count'], null),
    (array['priority'], null, 'Give p_priority to the creation.'),
    (array['delay_until'], null, 'Give p_delay_until_ms to the creation.'),
    (array['delay_until_ms'], null, 'Give p_delay_until_ms to the creation.'),
    (array['timeout_policy', 'execution_deadline_ms'], null, 'Give p_execution_deadline_at_ms to the creation.'),
    (array['execution_deadline_ms'], null, 'Give p_execution_deadline_at_ms to the creation.'),
    (array['suspension_policy'], null, 'Give p_timeout_at_ms and p_timeout_behavior to ff_suspend_execution.'),
    (array['fallback_policy'], null, 'An execution has no fallback: leave the field out.'),
    (array['preferred_locality'], null, 'Choose the lane of the creation, or require a capability.'),
    (array['isolation_level'], null, 'An execution has no isolation level: leave the field out.')
$$;
comment on function flowfabric._ff_policy_advice() is
'Internal: keys that are no policy fields, with the field that is meant or what to do instead.';

create or replace function flowfabric._ff_policy_keys_at(p_path text[], p_variant text)
returns text[]
language sql immutable parallel safe
as $$
    select array_agg(k.path[cardinality(k.path)] order by k.position)
    from flowfabric._ff_policy_keys() with ordinality as k (path, kind, legal_values, variant, position)
    where k.path[: cardinality(k.path) - 1] = p_path and (k.variant is null or k.variant = p_variant)
$$;
comment on function flowfabric._ff_policy_keys_at(text[], text) is
'Internal: the legal keys of one object of a policy document.';

-- The test of a document

-- A JSON path that matches a document with a wrong value. p_part names the member of a policy that the document is;
-- NULL for a whole policy. Immutable, so that a plan holds the path itself.
-- In strict mode an absent member makes its term unknown, and an unknown term matches nothing; lax mode would look
-- into arrays.
create or replace function flowfabric._ff_policy_fault(p_part text)
returns jsonpath
language sql immutable parallel safe
as $$
    select ('strict $ ? (@.type() != "object" || ' || string_agg(o.test, ' || ' order by o.position) || ')')::jsonpath
    from (
        select
            min(f.position) as position,
            format(
                'exists(@%s ? (%s))',
                (select coalesce(string_agg('.' || p.key, '' order by p.number), '')
                 from unnest(f.parent) with ordinality as p (key, number)),
                string_agg(format('exists(@.%s ? (%s))', f.key, f.fault), ' || ' order by f.position)) as test
        from (
            select
                k.position, k.path[cardinality(k.path)] as key,
                k.path[1 + (p_part is not null)::integer : cardinality(k.path) - 1] as parent,
                case k.kind
                    when 'object' then '@.type() != "object"'
                    when 'number' then '@.type() != "number" || @ < 0 || @ > 9007199254740991'
                    when 'duration' then '@.type() != "number" || @ < 0 || @ > ' || flowfabric._ff_longest_ms()::text
                    when 'fraction' then '@.type() != "number" || @ < 0 || @ > 1'
                    when 'text' then '@.type() != "string"'
                    when 'texts' then '@.type() != "array" || exists(@[*] ? (@.type() != "string"))'
                    when 'word' then
                        '@.type() != "string" || ('
                        || (select string_agg(format('@ != "%s"', v.value), ' && ')
                            from unnest(k.legal_values) as v (value)) || ')'
                end as fault
            from flowfabric._ff_policy_keys() with ordinality as k (path, kind, legal_values, variant, position)
            where p_part is null or (k.path[1] = p_part and cardinality(k.path) > 1)
        ) as f
        where f.fault is not null
        group by f.parent
    ) as o
$$;
comment on function flowfabric._ff_policy_fault(text) is
'Internal: a JSON path that matches a policy document in which a value is not what it must be.';

-- Whether a retry policy whose values are right has an unknown key. A back-off without a type has no legal key.
-- Removing the legal keys takes 3 thousand instructions an object, method keyvalue() of a JSON path 10 a key.
create or replace function flowfabric._ff_has_unknown_retry_key(p_retry_policy jsonb)
returns boolean
language sql immutable parallel safe
as $$
    select p_retry_policy - flowfabric._ff_policy_keys_at(array['retry_policy'], null) <> '{}'
        or (p_retry_policy -> 'backoff') - case p_retry_policy #>> array['backoff', 'type']
            when 'exponential' then flowfabric._ff_policy_keys_at(array['retry_policy', 'backoff'], 'exponential')
            when 'fixed' then flowfabric._ff_policy_keys_at(array['retry_policy', 'backoff'], 'fixed')
            else '{}'::text[] end <> '{}'
$$;
comment on function flowfabric._ff_has_unknown_retry_key(jsonb) is
'Internal: whether a retry policy with well-formed values has a key that is not legal where it is.';

create or replace function flowfabric._ff_is_retry_policy(p_retry_policy jsonb)
returns boolean
language sql immutable parallel safe
as $$
    select case
        when p_retry_policy @? flowfabric._ff_policy_fault('retry_policy') then false
        else coalesce(not flowfabric._ff_has_unknown_retry_key(p_retry_policy), true)
    end
$$;
comment on function flowfabric._ff_is_retry_policy(jsonb) is
'Internal: whether a document is a well-formed retry policy; true for NULL.';

-- Finding the culprit

-- Likeness is twice the pairs of neighbouring letters that both words have, divided by the pairs of both: 0.8 for
-- retries and max_retries. At 0.45 `quota` is near quota_policy_id, and words without a relation are not near. Of
-- equally near candidates the first is taken.
create or replace function flowfabric._ff_nearest(p_word text, p_candidates text[])
returns integer
language sql immutable parallel safe
as $$
    with pair as (
        select distinct c.position, substr(l.letters, n.number, 2) as letters
        from unnest(p_word || p_candidates) with ordinality as c (word, position)
        cross join lateral (
            select regexp_replace(lower(left(c.word, 100) collate "C"), '[^a-z0-9]', '', 'g') as letters
        ) as l
        cross join generate_series(1, length(l.letters) - 1) as n (number)
    ),
    candidate as (
        select
            p.position,
            2.0 * count(w.letters) / (count(*) + (select count(*) from pair as o where o.position = 1)) as likeness
        from pair as p
        left join pair as w on w.position = 1 and w.letters = p.letters
        where p.position > 1
        group by p.position
    )
    select c.position::integer - 1
    from candidate as c
    where c.likeness >= 0.45
    order by c.likeness desc, c.position
    limit 1
$$;
comment on function flowfabric._ff_nearest(text, text[]) is
'Internal: the position of the candidate that is most like a word; NULL if none is like it.';

-- p_path is that of an unknown key in a whole policy. Of two equally near fields the one in the same object is nearer.
create or replace function flowfabric._ff_nearest_policy_key(p_path text[], p_variant text)
returns text[]
language plpgsql immutable parallel safe
as $$
declare
    v_paths jsonb;
    v_names text[];
begin
    select
        jsonb_agg(to_jsonb(k.path) order by k.is_here desc, k.position),
        array_agg(k.path[cardinality(k.path)] order by k.is_here desc, k.position)
    into v_paths, v_names
    from (
        select f.path, f.position, f.path[: cardinality(f.path) - 1] = p_path[: cardinality(p_path) - 1] as is_here
        from flowfabric._ff_policy_keys() with ordinality as f (path, kind, legal_values, variant, position)
        where f.path <> p_path and (f.variant is null or p_variant is null or f.variant = p_variant)
    ) as k;
    return array(
        select jsonb_array_elements_text(
            v_paths -> (flowfabric._ff_nearest(p_path[cardinality(p_path)], v_names) - 1)));
end;
$$;
comment on function flowfabric._ff_nearest_policy_key(text[], text) is
'Internal: the legal field whose name is most like that of an unknown key; empty if none is.';

-- A JSON null counts as present. Beyond 2^53 no client could have meant a number, and below it sums with the clock stay
-- far from the end of bigint.
create or replace function flowfabric._ff_policy_value_fault(p_value jsonb, p_kind text, p_legal_values text[])
returns text
language sql immutable parallel safe
as $$
    select case
        when p_kind = 'object' and jsonb_typeof(p_value) <> 'object' then 'not_object'
        when p_kind in ('number', 'duration', 'fraction') and (
            jsonb_typeof(p_value) <> 'number' or p_value::numeric < 0) then 'not_number'
        when p_kind = 'number' and p_value::numeric > 9007199254740991 then 'out_of_range'
        when p_kind = 'duration' and p_value::numeric > flowfabric._ff_longest_ms() then 'out_of_range'
        when p_kind = 'fraction' and p_value::numeric > 1 then 'out_of_range'
        when p_kind in ('text', 'word') and jsonb_typeof(p_value) <> 'string' then 'not_string'
        when p_kind = 'word' and p_value #>> '{}' <> all (p_legal_values) then 'unknown_value'
        when p_kind = 'texts' and (
            jsonb_typeof(p_value) <> 'array'
            or jsonb_path_exists(p_value, 'strict $[*] ? (@.type() != "string")')) then 'not_array'
    end
$$;
comment on function flowfabric._ff_policy_value_fault(jsonb, text, text[]) is
'Internal: the reason why a value cannot be that of a policy field; NULL if it can.';

-- The first thing that is wrong with a document, as the detail of a refusal: a value, in the order of the list; a
-- back-off without a type; a key. Paths begin at the document that the caller sent.
create or replace function flowfabric._ff_policy_error(p_document jsonb, p_part text)
returns jsonb
language plpgsql immutable parallel safe
as $$
declare
    v_policy jsonb := case when p_part is null then p_document else jsonb_build_object(p_part, p_document) end;
    v_type text := v_policy #>> array['retry_policy', 'backoff', 'type'];
    v_start integer := case when p_part is null then 1 else 2 end;
    v_path text[];
    v_place text[];
    v_nearest text[];
    v_detail jsonb;
begin
    if jsonb_typeof(p_document) <> 'object' then
        return jsonb_build_object('path', '$', 'reason', 'not_object');
    end if;
    select k.path, jsonb_build_object(
        'reason', w.reason, 'legal', to_jsonb(k.legal_values),
        'value', case when k.kind = 'word' then left(v_policy #>> k.path, 200) end,
        'nearest', case when w.reason = 'unknown_value'
            then k.legal_values[flowfabric._ff_nearest(v_policy #>> k.path, k.legal_values)] end)
    into v_path, v_detail
    from flowfabric._ff_policy_keys() with ordinality as k (path, kind, legal_values, variant, position)
    cross join lateral flowfabric._ff_policy_value_fault(v_policy #> k.path, k.kind, k.legal_values) as w (reason)
    where w.reason is not null
    order by k.position
    limit 1;

    if v_path is null and v_type is null and (v_policy #> array['retry_policy', 'backoff']) <> '{}' then
        select k.path, jsonb_build_object('reason', 'missing', 'legal', to_jsonb(k.legal_values))
        into v_path, v_detail
        from flowfabric._ff_policy_keys() as k
        where k.path = array['retry_policy', 'backoff', 'type'];
    end if;

    if v_path is null then
        select o.path || m.key, o.path into v_path, v_place
        from (
            select '{}'::text[] as path, 0 as position
            union all
            select k.path, k.position
            from flowfabric._ff_policy_keys() with ordinality as k (path, kind, legal_values, variant, position)
            where k.kind = 'object'
        ) as o
        cross join lateral jsonb_object_keys(v_policy #> o.path) with ordinality as m (key, number)
        where m.key <> all (flowfabric._ff_policy_keys_at(o.path, v_type))
        order by o.position, m.number
        limit 1;
        v_nearest := flowfabric._ff_nearest_policy_key(v_path, v_type);
        v_detail := jsonb_build_object(
            'reason', 'unknown_key', 'key', left(v_path[cardinality(v_path)], 200),
            'legal', to_jsonb(flowfabric._ff_policy_keys_at(v_place, v_type)));
        select
            coalesce(a.nearest, case when a.instead is null then v_nearest end),
            v_detail || jsonb_build_object('instead', a.instead)
        into v_nearest, v_detail
        from (select v_path as path) as p
        left join flowfabric._ff_policy_advice() as a on a.path = p.path;
        -- A field outside of the part cannot be given there.
        if v_start = 1 or v_nearest[1] = p_part then
            v_detail := v_detail || jsonb_build_object(
                'nearest', nullif(array_to_string(v_nearest[v_start :], '.'), ''));
        end if;
    end if;
    return v_detail || jsonb_build_object('path', left(array_to_string(v_path[v_start :], '.'), 400));
end;
$$;
comment on function flowfabric._ff_policy_error(jsonb, text) is
'Internal: what is wrong with a policy document, as the detail of a refusal.';
