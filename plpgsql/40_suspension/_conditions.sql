-- Resume conditions: their shape, their rules, and what a signal means to them (spec 20, sections 2 and 3).
--
-- A condition is a tree whose inner nodes are AllOf. Everything here asks _ff_condition_nodes for the nodes in
-- depth-first order and works on that list: recursive functions would exhaust the stack on a hostile document, and a
-- recursive query is estimated so high that the JIT compiler starts.

-- Shape

-- Not by subtraction of the keys, which would copy the whole document at every level of it.
create or replace function flowfabric._ff_has_only_keys(p_object jsonb, p_keys text[])
returns boolean
language sql immutable parallel safe
as $$
    select not exists (select from jsonb_object_keys(p_object) as k (key) where k.key <> all (p_keys))
$$;
comment on function flowfabric._ff_has_only_keys(jsonb, text[]) is
'Internal: whether every member of an object has one of the given names.';

create or replace function flowfabric._ff_is_matcher(p_matcher jsonb)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(
        case jsonb_typeof(p_matcher)
            when 'string' then p_matcher = '"Wildcard"'
            when 'object' then
                jsonb_typeof(p_matcher -> 'ByName') = 'string'
                and flowfabric._ff_has_only_keys(p_matcher, array['ByName'])
        end, false)
$$;
comment on function flowfabric._ff_is_matcher(jsonb) is
'Internal: whether a document is "Wildcard" or {"ByName": "<name>"}.';

-- Unknown members are refused: a misspelt `matcher` would otherwise silently widen a condition that guards something.
create or replace function flowfabric._ff_is_count(p_body jsonb)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(
        flowfabric._ff_has_only_keys(p_body, array['kind', 'n', 'count_kind', 'matcher', 'waitpoints'])
        and case when jsonb_typeof(p_body -> 'n') = 'number'
            then (p_body -> 'n')::numeric >= 0 and trunc((p_body -> 'n')::numeric) = (p_body -> 'n')::numeric end
        and p_body ->> 'count_kind' in ('DistinctWaitpoints', 'DistinctSignals', 'DistinctSources')
        and (coalesce(jsonb_typeof(p_body -> 'matcher'), 'null') = 'null'
            or flowfabric._ff_is_matcher(p_body -> 'matcher'))
        and case when jsonb_typeof(p_body -> 'waitpoints') = 'array'
            then not exists (
                select from jsonb_array_elements(p_body -> 'waitpoints') as k (element)
                where jsonb_typeof(k.element) <> 'string') end,
        false)
$$;
comment on function flowfabric._ff_is_count(jsonb) is
'Internal: whether an object has the shape of the body of a Count.';

create or replace function flowfabric._ff_condition_kind(p_condition jsonb)
returns text
language plpgsql immutable parallel safe
as $$
declare
    v_body jsonb := coalesce(p_condition -> 'Single', p_condition -> 'Composite');
begin
    if p_condition in ('"OperatorOnly"', '"TimeoutOnly"') then
        return p_condition #>> '{}';
    end if;
    if jsonb_typeof(p_condition) is distinct from 'object' or jsonb_typeof(v_body) is distinct from 'object' then
        return null;
    end if;
    if p_condition ? 'Single' and flowfabric._ff_has_only_keys(p_condition, array['Single']) then
        return case
            when flowfabric._ff_has_only_keys(v_body, array['waitpoint_key', 'matcher'])
                and jsonb_typeof(v_body -> 'waitpoint_key') = 'string'
                and flowfabric._ff_is_matcher(v_body -> 'matcher') then 'Single'
        end;
    end if;
    if not flowfabric._ff_has_only_keys(p_condition, array['Composite']) then
        return null;
    end if;
    return case v_body ->> 'kind'
        when 'AllOf' then
            case when flowfabric._ff_has_only_keys(v_body, array['kind', 'members'])
                and jsonb_typeof(v_body -> 'members') = 'array' then 'AllOf' end
        when 'Count' then case when flowfabric._ff_is_count(v_body) then 'Count' end
    end;
end;
$$;
comment on function flowfabric._ff_condition_kind(jsonb) is
'Internal: Single, OperatorOnly, TimeoutOnly, AllOf or Count; NULL for a node that has none of these shapes.';

create or replace function flowfabric._ff_condition_nodes(p_condition jsonb)
returns setof flowfabric.ff_condition_node
language plpgsql immutable parallel safe rows 10
as $$
declare
    v_node flowfabric.ff_condition_node;
    -- What is still to be visited; the next one is last.
    v_conditions jsonb[] := array[p_condition];
    v_paths text[] := array[''];
    v_depths integer[] := array[0];
    v_last integer := 1;
begin
    v_node.number := 0;
    while v_last > 0 loop
        v_node.number := v_node.number + 1;
        v_node.path := v_paths[v_last];
        v_node.depth := v_depths[v_last];
        v_node.kind := flowfabric._ff_condition_kind(v_conditions[v_last]);
        v_node.body := coalesce(v_conditions[v_last] -> 'Single', v_conditions[v_last] -> 'Composite');
        return next v_node;
        v_last := v_last - 1;
        if v_node.kind = 'AllOf' then
            for i in reverse jsonb_array_length(v_node.body -> 'members') - 1 .. 0 loop
                v_last := v_last + 1;
                v_conditions[v_last] := v_node.body -> 'members' -> i;
                v_paths[v_last] := concat_ws('.', nullif(v_node.path, ''), 'members[' || i::text || ']');
                v_depths[v_last] := v_node.depth + 1;
            end loop;
        end if;
    end loop;
end;
$$;
comment on function flowfabric._ff_condition_nodes(jsonb) is
'Internal: the nodes of a resume condition, depth first; the root has the empty path, depth counts the AllOfs above.';

create or replace function flowfabric._ff_condition_keys(p_condition jsonb)
returns text[]
language plpgsql immutable parallel safe
as $$
begin
    return array(
        select k.waitpoint_key
        from flowfabric._ff_condition_nodes(p_condition) as n
        cross join lateral (
            select n.body ->> 'waitpoint_key', 1::bigint
            where n.kind = 'Single'
            union all
            select e.waitpoint_key, e.number
            from jsonb_array_elements_text(case n.kind when 'Count' then n.body -> 'waitpoints' end)
                with ordinality as e (waitpoint_key, number)
        ) as k (waitpoint_key, number)
        group by k.waitpoint_key
        order by min(array[n.number, k.number]));
end;
$$;
comment on function flowfabric._ff_condition_keys(jsonb) is
'Internal: the waitpoint keys that a condition names, in the order of their first mention.';

create or replace function flowfabric._ff_node_has_key(p_kind text, p_body jsonb, p_waitpoint_key text)
returns boolean
language sql immutable parallel safe
as $$
    select case p_kind
        when 'Single' then p_body ->> 'waitpoint_key' = p_waitpoint_key
        when 'Count' then p_body -> 'waitpoints' ? p_waitpoint_key
        else false
    end
$$;
comment on function flowfabric._ff_node_has_key(text, jsonb, text) is
'Internal: whether a node of a condition listens to the waitpoint with a key.';

-- For display only, never for matching.
create or replace function flowfabric._ff_condition_names(p_condition jsonb, p_waitpoint_key text)
returns text[]
language plpgsql immutable parallel safe
as $$
begin
    return array(
        select s.signal_name
        from flowfabric._ff_condition_nodes(p_condition) as n
        cross join lateral (
            select case n.kind
                when 'OperatorOnly' then '__operator_only__'
                when 'TimeoutOnly' then '__timeout_only__'
                else case when flowfabric._ff_node_has_key(n.kind, n.body, p_waitpoint_key)
                    then n.body -> 'matcher' ->> 'ByName' end
            end
        ) as s (signal_name)
        where s.signal_name is not null
        group by s.signal_name
        order by min(n.number));
end;
$$;
comment on function flowfabric._ff_condition_names(jsonb, text) is
'Internal: the signal names that a condition asks for at a waitpoint, for readers; none means any signal.';

-- Rules

create or replace function flowfabric._ff_raise_invalid_condition(p_path text, p_reason text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'invalid_resume_condition', p_fn,
        jsonb_build_object('path', coalesce(nullif(p_path, ''), '<root>'), 'reason', p_reason));
end;
$$;
comment on function flowfabric._ff_raise_invalid_condition(text, text, text) is
'Internal: raises invalid_resume_condition for one node of a condition.';

create or replace function flowfabric._ff_check_condition_shape(p_condition jsonb, p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_path text;
begin
    if flowfabric._ff_is_large(p_condition) then
        perform flowfabric._ff_raise_invalid_condition('', 'malformed', p_fn);
    end if;
    select n.path into v_path
    from flowfabric._ff_condition_nodes(p_condition) as n
    where n.kind is null
    order by n.number
    limit 1;
    if found then
        perform flowfabric._ff_raise_invalid_condition(v_path, 'malformed', p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_check_condition_shape(jsonb, text) is
'Internal: rule 4 of spec 20 section 2.3; raises invalid_resume_condition with the path of the first malformed node.';

-- p_keys are those of the bindings, the primary one first. Without these rules a suspension could be opened that no
-- signal can ever satisfy.
create or replace function flowfabric._ff_check_condition_keys(p_condition jsonb, p_keys text[], p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_named text[] := flowfabric._ff_condition_keys(p_condition);
    v_key text;
begin
    if flowfabric._ff_condition_kind(p_condition) = 'Single' and v_named[1] <> p_keys[1] then
        perform flowfabric._ff_raise_invalid(p_fn, 'waitpoint_keys', 'waitpoint_key_mismatch', v_named[1]);
    end if;
    foreach v_key in array v_named loop
        if v_key <> all (p_keys) then
            perform flowfabric._ff_raise_invalid(
                p_fn, 'waitpoint_keys', 'referenced_waitpoint_key_missing_binding', v_key);
        end if;
    end loop;
    if cardinality(p_keys) > 1 then
        foreach v_key in array p_keys loop
            if v_key <> all (v_named) then
                perform flowfabric._ff_raise_invalid(
                    p_fn, 'waitpoint_keys', 'extra_binding_not_referenced_by_condition', v_key);
            end if;
        end loop;
    end if;
end;
$$;
comment on function flowfabric._ff_check_condition_keys(jsonb, text[], text) is
'Internal: rules 5, 7 and 8 of spec 20 section 2.3: a condition and its bindings name the same waitpoints.';

create or replace function flowfabric._ff_validate_condition(p_condition jsonb, p_has_timeout boolean, p_fn text)
returns void
language plpgsql stable
as $$
declare
    c_max_depth constant integer := 4;
    v_wrong record;
begin
    if not p_has_timeout and exists (
        select from flowfabric._ff_condition_nodes(p_condition) as n where n.kind = 'TimeoutOnly')
    then
        perform flowfabric._ff_raise_invalid(p_fn, 'timeout_at_ms', 'timeout_only_without_deadline');
    end if;

    select n.path, case m.signal_name when '' then 'empty_signal_name' else 'reserved_signal_name' end as reason
    into v_wrong
    from flowfabric._ff_condition_nodes(p_condition) as n
    cross join lateral (select n.body -> 'matcher' ->> 'ByName') as m (signal_name)
    where m.signal_name = '' or starts_with(m.signal_name, '__')
    order by n.number
    limit 1;
    if found then
        perform flowfabric._ff_raise_invalid_condition(v_wrong.path, v_wrong.reason, p_fn);
    end if;

    select n.path, w.reason into v_wrong
    from flowfabric._ff_condition_nodes(p_condition) as n
    cross join lateral (
        select case
            when n.kind in ('AllOf', 'Count') and n.depth >= c_max_depth then 'depth_exceeded'
            when n.kind = 'AllOf' then
                case jsonb_array_length(n.body -> 'members') when 0 then 'allof_empty_members' end
            when n.kind <> 'Count' then null
            when (n.body -> 'n')::numeric = 0 then 'count_n_zero'
            when jsonb_array_length(n.body -> 'waitpoints') = 0 then 'count_waitpoints_empty'
            when n.body ->> 'count_kind' = 'DistinctWaitpoints' and (n.body -> 'n')::numeric > (
                select count(distinct k.waitpoint_key)
                from jsonb_array_elements_text(n.body -> 'waitpoints') as k (waitpoint_key))
                then 'count_exceeds_waitpoint_set'
        end
    ) as w (reason)
    where w.reason is not null
    order by n.number
    limit 1;
    if found then
        perform flowfabric._ff_raise_invalid_condition(v_wrong.path, v_wrong.reason, p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_validate_condition(jsonb, boolean, text) is
'Internal: rules 9, 10 and 12 to 16 of spec 20 section 2.3, for a condition whose shape is right.';

-- Evaluation

create or replace function flowfabric._ff_matcher_accepts(p_matcher jsonb, p_signal_name text)
returns boolean
language sql immutable parallel safe
as $$
    -- Of a valid matcher only ByName is an object; Wildcard, null and none accept every name.
    select jsonb_typeof(p_matcher) is distinct from 'object' or p_matcher ->> 'ByName' = p_signal_name collate "C"
$$;
comment on function flowfabric._ff_matcher_accepts(jsonb, text) is
'Internal: whether a matcher accepts a signal name: the whole of it, case and all.';

-- The source is written as a JSON array, so that no two pairs of texts look the same.
create or replace function flowfabric._ff_satisfier_token(p_kind text, p_body jsonb, p_signal flowfabric.ff_signal)
returns text
language sql immutable parallel safe
as $$
    select case
        when p_kind = 'Single' then 'leaf'
        when p_body ->> 'count_kind' = 'DistinctWaitpoints' then 'wp:' || p_signal.waitpoint_id::text
        when p_body ->> 'count_kind' = 'DistinctSignals' then 'sig:' || p_signal.signal_id::text
        else 'src:' || jsonb_build_array(p_signal.source_type, p_signal.source_identity)::text
    end
$$;
comment on function flowfabric._ff_satisfier_token(text, jsonb, flowfabric.ff_signal) is
'Internal: what makes a signal distinct to a node of a condition.';

-- OperatorOnly and TimeoutOnly need something that no signal brings. Since AllOf is the only inner node, the root holds
-- exactly when every leaf does.
create or replace function flowfabric._ff_is_satisfied(p_suspension flowfabric.ff_suspension_current)
returns boolean
language plpgsql stable
as $$
begin
    return bool_and(coalesce(l.needed <= (
        select count(*)
        from flowfabric.ff_suspension_satisfier as t
        where t.partition_key = p_suspension.partition_key and t.suspension_id = p_suspension.suspension_id
            and t.node_path = l.path), false))
    from (
        select n.path, case n.kind when 'Single' then 1 when 'Count' then (n.body -> 'n')::numeric end as needed
        from flowfabric._ff_condition_nodes(p_suspension.condition) as n
        where n.kind <> 'AllOf'
    ) as l;
end;
$$;
comment on function flowfabric._ff_is_satisfied(flowfabric.ff_suspension_current) is
'Internal: whether the satisfiers recorded so far make the resume condition of a suspension true.';

-- Runs under the execution's lock, so nothing is counted twice. Tokens belong to their node: two Count nodes do not
-- feed each other.
create or replace function flowfabric._ff_apply_signal(
    p_suspension flowfabric.ff_suspension_current,
    p_waitpoint_key text,
    p_signal flowfabric.ff_signal
)
returns text
language plpgsql volatile
as $$
declare
    v_is_composite boolean := p_suspension.condition ? 'Composite';
    v_is_candidate boolean := false;
    v_is_match boolean := false;
    v_is_new boolean := false;
    v_node record;
begin
    for v_node in
        select n.path, n.kind, n.body
        from flowfabric._ff_condition_nodes(p_suspension.condition) as n
        where flowfabric._ff_node_has_key(n.kind, n.body, p_waitpoint_key)
    loop
        v_is_candidate := true;
        continue when not flowfabric._ff_matcher_accepts(v_node.body -> 'matcher', p_signal.signal_name);
        v_is_match := true;
        insert into flowfabric.ff_suspension_satisfier (
            partition_key, suspension_id, node_path, token, execution_id, signal_id)
        values (
            p_suspension.partition_key, p_suspension.suspension_id, v_node.path,
            flowfabric._ff_satisfier_token(v_node.kind, v_node.body, p_signal), p_suspension.execution_id,
            p_signal.signal_id)
        on conflict do nothing;
        v_is_new := v_is_new or found;
    end loop;
    return case
        when not v_is_match and not v_is_composite then 'no_op'
        when not v_is_candidate then 'signal_ignored_not_in_condition'
        when not v_is_match then 'signal_ignored_matcher_failed'
        when not v_is_new then 'appended_to_waitpoint_duplicate'
        when flowfabric._ff_is_satisfied(p_suspension) then 'resume_condition_satisfied'
        else 'appended_to_waitpoint'
    end;
end;
$$;
comment on function flowfabric._ff_apply_signal(
    flowfabric.ff_suspension_current, text, flowfabric.ff_signal) is
'Internal: counts a signal towards the condition of an open suspension and says what it did.';

create or replace function flowfabric._ff_is_match(p_effect text)
returns boolean
language sql immutable parallel safe
as $$
    select p_effect in ('resume_condition_satisfied', 'appended_to_waitpoint', 'appended_to_waitpoint_duplicate')
$$;
comment on function flowfabric._ff_is_match(text) is
'Internal: whether a signal with this effect was accepted by some part of the condition.';
