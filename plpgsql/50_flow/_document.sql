-- The document of ff_submit_flow: what it may contain, and the checks of spec 30 section 4.15 in their order. Each of
-- them looks at the whole document before the next one starts, and names the first place that is wrong.
--
-- Members and edges have their position in the document, from 1; a path counts from 0, as JSON does.
--
-- Arrays of the document are joined with each other by name. How long they are, a plan that is kept does not know, and
-- to plan each call for itself takes 20 ms. So functions that join them carry settings under which there is one plan:
-- a hash table, good for ten elements and for a hundred thousand.

-- Paths and refusals

create or replace function flowfabric._ff_raise_at(
    p_fn text,
    p_path text,
    p_field text,
    p_reason text,
    p_value text default null
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'invalid_input', p_fn,
        jsonb_build_object(
            'path', left(p_path, 400), 'field', left(p_field, 200), 'reason', p_reason, 'value', left(p_value, 200)));
end;
$$;
comment on function flowfabric._ff_raise_at(text, text, text, text, text) is
'Internal: raises invalid_input for one place of a document.';

-- A value that a member does not have itself stands in the defaults.
create or replace function flowfabric._ff_member_path(p_flow jsonb, p_position integer, p_key text)
returns text
language sql immutable parallel safe
as $$
    select case
        when p_flow -> 'members' -> (p_position - 1) ? p_key
            or not coalesce(p_flow -> 'defaults' ? p_key, false)
            then 'members[' || (p_position - 1)::text || '].' || p_key
        else 'defaults.' || p_key
    end
$$;
comment on function flowfabric._ff_member_path(jsonb, integer, text) is
'Internal: where in a document the value of a member stands.';

-- Checks 1 to 3: the shape

create or replace function flowfabric._ff_document_fields()
returns table (scope text, key text, kind text, is_required boolean, number integer)
language sql immutable parallel safe
as $$
    values
    ('flow', 'flow_id', 'string', false, 1),
    ('flow', 'flow_kind', 'string', false, 2),
    ('flow', 'namespace', 'string', true, 3),
    ('flow', 'tags', 'object', false, 4),
    ('flow', 'defaults', 'object', false, 5),
    ('flow', 'members', 'array', true, 6),
    ('flow', 'edges', 'array', false, 7),
    ('flow', 'joins', 'object', false, 8),
    ('member', 'name', 'string', true, 1),
    ('member', 'execution_id', 'string', false, 2),
    ('member', 'lane_id', 'string', true, 3),
    ('member', 'execution_kind', 'string', true, 4),
    ('member', 'payload', 'any', false, 5),
    ('member', 'payload_base64', 'string', false, 6),
    ('member', 'payload_encoding', 'string', false, 7),
    ('member', 'creator_identity', 'string', false, 8),
    ('member', 'priority', 'integer', false, 9),
    ('member', 'policy', 'object', false, 10),
    ('member', 'tags', 'object', false, 11),
    ('member', 'delay_until_ms', 'integer', false, 12),
    ('member', 'execution_deadline_at_ms', 'integer', false, 13),
    ('edge', 'upstream', 'string', true, 1),
    ('edge', 'downstream', 'string', true, 2),
    ('edge', 'edge_id', 'string', false, 3),
    ('edge', 'dependency_kind', 'string', false, 4),
    ('edge', 'data_passing_ref', 'string', false, 5),
    ('join', 'kind', 'string', true, 1),
    ('join', 'on_satisfied', 'string', false, 2),
    ('join', 'k', 'integer', false, 3)
$$;
comment on function flowfabric._ff_document_fields() is
'Internal: every key that may appear in a submitted document, by the object that it appears in.';

-- Defaults are members without what only one member can have.
create or replace function flowfabric._ff_scope_fields(p_scope text)
returns table (key text, kind text, is_required boolean, number integer)
language sql immutable parallel safe
as $$
    select f.key, f.kind, f.is_required and p_scope <> 'defaults', f.number
    from flowfabric._ff_document_fields() as f
    where f.scope = case p_scope when 'defaults' then 'member' else p_scope end
        and not (p_scope = 'defaults' and f.key in ('name', 'execution_id', 'payload', 'payload_base64'))
$$;
comment on function flowfabric._ff_scope_fields(text) is
'Internal: the keys that an object of a submitted document may have.';

-- Elements of one kind at once. p_paths are theirs; NULL stands for p_list[0], p_list[1] and so on. What p_inherited
-- has is not missing. Integers beyond 2^53 are refused: no JSON library reads them back as they were.
create or replace function flowfabric._ff_check_shape(
    p_scope text,
    p_elements jsonb,
    p_list text,
    p_paths text[],
    p_inherited jsonb,
    p_fn text
)
returns void
language plpgsql stable
set enable_nestloop = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_max_integer constant bigint := 9007199254740991;
    v_required text[] := array(
        select f.key from flowfabric._ff_scope_fields(p_scope) as f
        where f.is_required and not p_inherited ? f.key
        order by f.number);
    v_wrong record;
    v_path text;
begin
    select o.item, o.key, o.reason, o.value into v_wrong
    from (
        (
            select e.item, 0 as number, null as key, 'not_object' as reason, e.element::text as value
            from jsonb_array_elements(p_elements) with ordinality as e (element, item)
            where jsonb_typeof(e.element) <> 'object'
            order by e.item
            limit 1
        )
        union all
        (
            select w.item, w.number, w.key, w.reason, w.value
            from (
                select
                    e.item, coalesce(f.number, 1000) as number, k.key, k.value::text as value,
                    case
                        when f.kind is null then 'unknown_key'
                        when f.kind = 'any' then null
                        when f.kind <> 'integer' and jsonb_typeof(k.value) <> f.kind then 'not_' || f.kind
                        when f.kind <> 'integer' then null
                        when jsonb_typeof(k.value) <> 'number' then 'not_integer'
                        when k.value::numeric % 1 <> 0 then 'not_integer'
                        when abs(k.value::numeric) > c_max_integer then 'out_of_range'
                    end as reason
                from jsonb_array_elements(p_elements) with ordinality as e (element, item)
                cross join lateral jsonb_each(
                    case jsonb_typeof(e.element) when 'object' then e.element else '{}' end) as k
                left join flowfabric._ff_scope_fields(p_scope) as f on f.key = k.key
            ) as w
            where w.reason is not null
            order by w.item, w.number, w.key
            limit 1
        )
        union all
        (
            select e.item, array_position(v_required, r.key), r.key, 'missing', null
            from jsonb_array_elements(p_elements) with ordinality as e (element, item)
            cross join unnest(v_required) as r (key)
            where jsonb_typeof(e.element) = 'object' and not e.element ? r.key
            order by e.item, array_position(v_required, r.key)
            limit 1
        )
    ) as o
    order by o.item, o.number, o.key
    limit 1;
    if found then
        v_path := coalesce(p_paths[v_wrong.item], p_list || '[' || (v_wrong.item - 1)::text || ']');
        perform flowfabric._ff_raise_at(
            p_fn,
            coalesce(nullif(concat_ws('.', nullif(v_path, ''), v_wrong.key), ''), '$'),
            coalesce(v_wrong.key, nullif(v_path, ''), 'flow'), v_wrong.reason, v_wrong.value);
    end if;
end;
$$;
comment on function flowfabric._ff_check_shape(text, jsonb, text, text[], jsonb, text) is
'Internal: raises invalid_input for the first object of a kind that has a key too many, too few, or of another type.';

create or replace function flowfabric._ff_check_document_shape(p_flow jsonb, p_fn text)
returns void
language plpgsql stable
as $$
declare
    c_max_bytes constant integer := 16777216;
    v_bytes integer;
    v_limit bigint;
begin
    -- A few numbers like 1e100000 can stand for more text than the server can hold.
    begin
        v_bytes := octet_length(p_flow::text);
    exception
        when program_limit_exceeded then
            perform flowfabric._ff_raise(
                'payload_too_large', p_fn, jsonb_build_object('path', '$', 'limit_bytes', c_max_bytes));
    end;
    if (jsonb_typeof(p_flow) = 'object') is not true then
        perform flowfabric._ff_raise_at(p_fn, '$', 'flow', 'not_object', left(p_flow::text, 200));
    end if;
    if v_bytes > c_max_bytes then
        perform flowfabric._ff_raise(
            'payload_too_large', p_fn,
            jsonb_build_object('path', '$', 'limit_bytes', c_max_bytes, 'actual_bytes', v_bytes));
    end if;

    perform flowfabric._ff_check_shape('flow', jsonb_build_array(p_flow), null, array[''], '{}', p_fn);
    if p_flow ? 'defaults' then
        perform flowfabric._ff_check_shape(
            'defaults', jsonb_build_array(p_flow -> 'defaults'), null, array['defaults'], '{}', p_fn);
    end if;
    perform flowfabric._ff_check_shape(
        'member', p_flow -> 'members', 'members', null, coalesce(p_flow -> 'defaults', '{}'), p_fn);
    perform flowfabric._ff_check_shape('edge', coalesce(p_flow -> 'edges', '[]'), 'edges', null, '{}', p_fn);
    perform flowfabric._ff_check_shape(
        'join', coalesce(jsonb_agg(j.value order by j.key), '[]'), null, array_agg('joins.' || j.key order by j.key),
        '{}', p_fn)
    from jsonb_each(p_flow -> 'joins') as j;

    v_limit := flowfabric._ff_setting_value('max_submit_members');
    if p_flow -> 'members' = '[]' then
        perform flowfabric._ff_raise_at(p_fn, 'members', 'members', 'empty');
    end if;
    if jsonb_array_length(p_flow -> 'members') > v_limit then
        perform flowfabric._ff_raise_at(p_fn, 'members', 'members', 'too_many', v_limit::text);
    end if;
    v_limit := flowfabric._ff_setting_value('max_submit_edges');
    if jsonb_array_length(p_flow -> 'edges') > v_limit then
        perform flowfabric._ff_raise_at(p_fn, 'edges', 'edges', 'too_many', v_limit::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_document_shape(jsonb, text) is
'Internal: checks 1 to 3 of a submission: size, keys, types and numbers of elements.';

-- Check 4: names, ids, payloads

create or replace function flowfabric._ff_check_document_values(p_flow jsonb, p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_namespace text := p_flow ->> 'namespace';
    v_wrong record;
begin
    if not flowfabric._ff_is_uuid(p_flow ->> 'flow_id') then
        perform flowfabric._ff_raise_at(p_fn, 'flow_id', 'flow_id', 'bad_id', p_flow ->> 'flow_id');
    end if;
    if octet_length(p_flow ->> 'flow_kind') not between 1 and 256 then
        perform flowfabric._ff_raise_at(
            p_fn, 'flow_kind', 'flow_kind', case p_flow ->> 'flow_kind' when '' then 'empty' else 'too_long' end,
            p_flow ->> 'flow_kind');
    end if;
    if not flowfabric._ff_is_name(v_namespace) then
        perform flowfabric._ff_raise_at(
            p_fn, 'namespace', 'namespace',
            case
                when v_namespace = '' then 'empty'
                when octet_length(v_namespace) > 256 then 'too_long'
                else 'space_or_control'
            end,
            v_namespace);
    end if;

    select w.position, w.key, w.reason, w.value into v_wrong
    from (
        select
            m.position, o.number, o.key, o.reason, o.value
        from (
            select
                u.member, u.position,
                row_number() over (partition by u.member ->> 'name' order by u.position) > 1 as is_repeat
            from jsonb_array_elements(p_flow -> 'members') with ordinality as u (member, position)
        ) as m
        cross join lateral (values
            (
                1, 'name', m.member ->> 'name',
                case
                    when octet_length(m.member ->> 'name') > 128
                        or m.member ->> 'name' collate "C" !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$' then 'bad_name'
                    when m.is_repeat then 'duplicate_name'
                end
            ),
            (2, 'execution_id', m.member ->> 'execution_id',
                case when not flowfabric._ff_is_wire_id(m.member ->> 'execution_id') then 'bad_id' end),
            (3, 'payload', null, case when m.member ?& array['payload', 'payload_base64'] then 'ambiguous_payload' end),
            (
                4, 'payload_base64', m.member ->> 'payload_base64',
                case
                    when m.member ->> 'payload_base64' collate "C"
                        !~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$' then 'bad_base64'
                end
            )
        ) as o (number, key, value, reason)
        where o.reason is not null
    ) as w
    order by w.position, w.number
    limit 1;
    if found then
        perform flowfabric._ff_raise_at(
            p_fn, 'members[' || (v_wrong.position - 1)::text || '].' || v_wrong.key, v_wrong.key, v_wrong.reason,
            v_wrong.value);
    end if;

    select w.position, w.key, w.reason, w.edge ->> w.key as value into v_wrong
    from (
        select
            e.position, e.edge,
            case
                when not flowfabric._ff_is_uuid(e.edge ->> 'edge_id') then 'edge_id'
                when e.edge ->> 'dependency_kind' <> 'success_only' then 'dependency_kind'
                else 'data_passing_ref'
            end as key,
            case
                when not flowfabric._ff_is_uuid(e.edge ->> 'edge_id') then 'bad_id'
                when e.edge ->> 'dependency_kind' <> 'success_only' then 'unknown'
                else 'length'
            end as reason
        from jsonb_array_elements(p_flow -> 'edges') with ordinality as e (edge, position)
        where not flowfabric._ff_is_uuid(e.edge ->> 'edge_id') or e.edge ->> 'dependency_kind' <> 'success_only'
            or octet_length(e.edge ->> 'data_passing_ref') > 4096
    ) as w
    order by w.position
    limit 1;
    if found then
        perform flowfabric._ff_raise_at(
            p_fn, 'edges[' || (v_wrong.position - 1)::text || '].' || v_wrong.key, v_wrong.key, v_wrong.reason,
            v_wrong.value);
    end if;
end;
$$;
comment on function flowfabric._ff_check_document_values(jsonb, text) is
'Internal: check 4 of a submission as far as single values go: names, ids, payloads.';

-- Anything else that the type would take is refused: a document has one spelling for an id. True for none.
create or replace function flowfabric._ff_is_uuid(p_text text)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(p_text collate "C" ~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$', true)
$$;
comment on function flowfabric._ff_is_uuid(text) is
'Internal: whether a text is absent or a uuid with its four hyphens.';

create or replace function flowfabric._ff_is_wire_id(p_text text)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(
        p_text collate "C" ~ '^[{]fp:(0|[1-9][0-9]{0,4})[}]:[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$', true)
$$;
comment on function flowfabric._ff_is_wire_id(text) is
'Internal: whether a text is absent or an execution id in wire form.';

-- Reading members and edges

create or replace function flowfabric._ff_derived_id(p_bytes bytea)
returns uuid
language sql immutable parallel safe
as $$
    select encode(
        set_byte(set_byte(h.hash, 6, get_byte(h.hash, 6) & 15 | 128), 8, get_byte(h.hash, 8) & 63 | 128), 'hex')::uuid
    from (select substring(sha256(p_bytes) from 1 for 16) as hash) as h
$$;
comment on function flowfabric._ff_derived_id(bytea) is
'Internal: a uuid of version 8 from a hash, so that one text always gives one id.';

create or replace function flowfabric._ff_read_document_members(p_flow jsonb, p_flow_id uuid)
returns flowfabric.ff_flow_document_member[]
language plpgsql immutable
as $$
declare
    v_defaults jsonb := coalesce(p_flow -> 'defaults', '{}');
begin
    return array(
        select row(
            m.position, m.member ->> 'name',
            case when m.member ? 'execution_id' then right(m.member ->> 'execution_id', 36)::uuid
                else flowfabric._ff_derived_id(
                    uuid_send(p_flow_id) || decode('01', 'hex') || convert_to(m.member ->> 'name', 'UTF8'))
            end,
            m.member ->> 'execution_id',
            m.member ->> 'lane_id', m.member ->> 'execution_kind',
            case when m.member ? 'payload' then convert_to((m.member -> 'payload')::text, 'UTF8')
                else nullif(decode(m.member ->> 'payload_base64', 'base64'), '')
            end,
            coalesce(
                nullif(m.member ->> 'payload_encoding', ''), case when m.member ? 'payload' then 'json' end),
            nullif(m.member ->> 'creator_identity', ''),
            least(greatest(coalesce((m.member -> 'priority')::numeric, 0), 0), 9000)::integer,
            nullif(m.member -> 'policy', '{}'), coalesce(m.member -> 'tags', '{}'),
            (m.member -> 'delay_until_ms')::bigint, (m.member -> 'execution_deadline_at_ms')::bigint
        )::flowfabric.ff_flow_document_member
        from (
            -- A value of its own replaces the default as a whole: this is what || does at the top level.
            select v_defaults || u.member as member, u.position::integer
            from jsonb_array_elements(p_flow -> 'members') with ordinality as u (member, position)
            offset 0
        ) as m
        order by m.position);
end;
$$;
comment on function flowfabric._ff_read_document_members(jsonb, uuid) is
'Internal: the members of a checked document, with defaults applied and ids given or derived.';

create or replace function flowfabric._ff_read_document_edges(p_flow jsonb, p_flow_id uuid)
returns flowfabric.ff_flow_document_edge[]
language plpgsql immutable
as $$
begin
    return array(
        select row(
            u.position,
            coalesce(
                (u.edge ->> 'edge_id')::uuid,
                flowfabric._ff_derived_id(
                    uuid_send(p_flow_id) || decode('02', 'hex') || convert_to(u.edge ->> 'upstream', 'UTF8')
                    || decode('00', 'hex') || convert_to(u.edge ->> 'downstream', 'UTF8'))),
            u.edge ? 'edge_id', u.edge ->> 'upstream', u.edge ->> 'downstream',
            nullif(u.edge ->> 'data_passing_ref', ''))::flowfabric.ff_flow_document_edge
        from jsonb_array_elements(p_flow -> 'edges') with ordinality as u (edge, position)
        order by u.position);
end;
$$;
comment on function flowfabric._ff_read_document_edges(jsonb, uuid) is
'Internal: the edges of a checked document, with ids given or derived.';

-- The rest of check 4: ids against each other and against the flow. Edges between the same two members have the same
-- derived id; that is check 6's to say.
create or replace function flowfabric._ff_check_document_ids(
    p_partition_key smallint,
    p_members flowfabric.ff_flow_document_member[],
    p_edges flowfabric.ff_flow_document_edge[],
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_wrong record;
begin
    select w.position, w.reason, w.given_id into v_wrong
    from (
        select
            m.position, m.given_id,
            case
                when substring(m.given_id from '^[{]fp:([0-9]+)[}]') <> p_partition_key::text then 'partition_mismatch'
                when row_number() over (
                    partition by m.execution_id order by m.given_id is not null, m.position) > 1 then 'duplicate_id'
            end as reason
        from unnest(p_members) as m
    ) as w
    where w.reason is not null
    order by w.position
    limit 1;
    if found then
        perform flowfabric._ff_raise_at(
            p_fn, 'members[' || (v_wrong.position - 1)::text || '].execution_id', 'execution_id', v_wrong.reason,
            v_wrong.given_id);
    end if;
    select w.position, w.edge_id into v_wrong
    from (
        select
            e.position, e.edge_id, e.has_own_id,
            row_number() over (partition by e.edge_id order by e.has_own_id, e.position) > 1 as is_repeat
        from unnest(p_edges) as e
    ) as w
    where w.is_repeat and w.has_own_id
    order by w.position
    limit 1;
    if found then
        perform flowfabric._ff_raise_at(
            p_fn, 'edges[' || (v_wrong.position - 1)::text || '].edge_id', 'edge_id', 'duplicate_id',
            v_wrong.edge_id::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_document_ids(
    smallint, flowfabric.ff_flow_document_member[], flowfabric.ff_flow_document_edge[], text) is
'Internal: check 4 of a submission: ids on another partition, or given twice.';

-- Check 5: what ff_create_execution checks

-- Every distinct policy is read once, in the order of the document; the member at which one fails, or whose texts or
-- tags are wrong, is then looked at again by itself.
create or replace function flowfabric._ff_check_document_members(
    p_flow jsonb,
    p_members flowfabric.ff_flow_document_member[],
    p_policies jsonb[],
    p_fn text
)
returns flowfabric.ff_policy_facts[]
language plpgsql stable
as $$
declare
    v_facts flowfabric.ff_policy_facts[] := '{}'::flowfabric.ff_policy_facts[];
    v_max_payload_bytes bigint := flowfabric._ff_setting_value('max_payload_bytes');
    v_failing_policy jsonb;
    v_position integer;
begin
    if p_flow ? 'tags' then
        perform flowfabric._ff_check_document_tags(p_flow -> 'tags', 'tags', p_fn);
    end if;
    begin
        for v_number in 1 .. cardinality(p_policies) loop
            v_failing_policy := p_policies[v_number];
            v_facts[v_number] := flowfabric._ff_read_policy(v_failing_policy, p_fn);
        end loop;
        v_failing_policy := null;
    exception
        when sqlstate 'ZV000' then
            null; -- The first member that has it is looked at below.
    end;
    select min(m.position) into v_position
    from unnest(p_members) as m
    where not flowfabric._ff_is_lane_id(m.lane_id) or octet_length(m.execution_kind) not between 1 and 256
        or m.policy = v_failing_policy or pg_column_size(m.tags #> '{}') > 65536
        or octet_length(m.payload) > v_max_payload_bytes
        or octet_length(m.payload_encoding) > 256 or octet_length(m.creator_identity) > 256
        or m.delay_until_ms not between 0 and flowfabric._ff_last_ms()
        or m.deadline_at_ms not between 0 and flowfabric._ff_last_ms()
        or exists (
            select from jsonb_each(m.tags) as t
            where jsonb_typeof(t.value) <> 'string' or not flowfabric._ff_is_tag_key(t.key));
    if v_position is not null then
        perform flowfabric._ff_check_document_member(p_flow, p_members[v_position], p_fn);
    end if;
    return v_facts;
end;
$$;
comment on function flowfabric._ff_check_document_members(
    jsonb, flowfabric.ff_flow_document_member[], jsonb[], text) is
'Internal: check 5 of a submission; returns what a creation stores from each distinct policy.';

create or replace function flowfabric._ff_check_document_member(
    p_flow jsonb,
    p_member flowfabric.ff_flow_document_member,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_detail jsonb;
    v_text text;
    v_key text := 'policy';
begin
    begin
        perform flowfabric._ff_check_creation(p_member.execution_kind, p_member.lane_id, null, null, 1, p_fn);
        perform flowfabric._ff_check_creation_limits(
            p_member.payload, p_member.payload_encoding, p_member.creator_identity, p_member.delay_until_ms,
            p_member.deadline_at_ms, null, p_fn);
        perform flowfabric._ff_read_policy(p_member.policy, p_fn);
    exception
        when sqlstate 'ZV000' then
            get stacked diagnostics v_text = pg_exception_detail;
            v_detail := v_text::jsonb;
            -- Payloads come in two forms.
            v_key := case
                when v_detail ->> 'field' not like 'policy%' then coalesce(
                    case when v_detail ->> 'field' = 'payload'
                        and p_flow -> 'members' -> (p_member.position - 1) ? 'payload_base64' then 'payload_base64' end,
                    v_detail ->> 'field')
                else 'policy' end;
            -- A malformed policy has a path of its own, inside the policy.
            perform flowfabric._ff_raise(
                v_detail ->> 'code', p_fn,
                v_detail || jsonb_build_object(
                    case when v_detail ? 'path' then 'flow_path' else 'path' end,
                    flowfabric._ff_member_path(p_flow, p_member.position, v_key)));
    end;
    perform flowfabric._ff_check_document_tags(
        p_member.tags, flowfabric._ff_member_path(p_flow, p_member.position, 'tags'), p_fn);
end;
$$;
comment on function flowfabric._ff_check_document_member(jsonb, flowfabric.ff_flow_document_member, text) is
'Internal: the checks of a creation for one member of a document; a refusal has its path.';

create or replace function flowfabric._ff_check_document_tags(p_tags jsonb, p_path text, p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_detail jsonb;
    v_text text;
begin
    perform flowfabric._ff_check_tags_shape(p_tags, p_fn);
    perform flowfabric._ff_check_tag_keys(p_tags, p_fn);
exception
    when sqlstate 'ZV000' then
        get stacked diagnostics v_text = pg_exception_detail;
        v_detail := v_text::jsonb;
        perform flowfabric._ff_raise(v_detail ->> 'code', p_fn, v_detail || jsonb_build_object('path', p_path));
end;
$$;
comment on function flowfabric._ff_check_document_tags(jsonb, text, text) is
'Internal: the checks of tags at one place of a document; a refusal has its path.';

-- Check 6: edges

create or replace function flowfabric._ff_check_document_edges(
    p_members flowfabric.ff_flow_document_member[],
    p_edges flowfabric.ff_flow_document_edge[],
    p_fn text
)
returns void
language plpgsql stable
set enable_nestloop = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_wrong record;
    v_path text;
begin
    select w.position, w.problem, w.upstream, w.downstream into v_wrong
    from (
        select
            e.position, e.upstream, e.downstream,
            case
                when u.name is null then 'upstream'
                when d.name is null then 'downstream'
                when e.upstream = e.downstream then 'self'
                when row_number() over (partition by e.upstream, e.downstream order by e.position) > 1 then 'repeat'
            end as problem
        from unnest(p_edges) as e
        left join unnest(p_members) as u on u.name = e.upstream
        left join unnest(p_members) as d on d.name = e.downstream
    ) as w
    where w.problem is not null
    order by w.position
    limit 1;
    if not found then
        return;
    end if;
    v_path := 'edges[' || (v_wrong.position - 1)::text || ']';
    case v_wrong.problem
        when 'self' then
            perform flowfabric._ff_raise(
                'self_referencing_edge', p_fn, jsonb_build_object('path', v_path, 'name', v_wrong.upstream));
        when 'repeat' then
            perform flowfabric._ff_raise_at(
                p_fn, v_path, 'edges', 'duplicate_edge', v_wrong.upstream || ' -> ' || v_wrong.downstream);
        else
            perform flowfabric._ff_raise_at(
                p_fn, v_path || '.' || v_wrong.problem, v_wrong.problem, 'unknown_member',
                case v_wrong.problem when 'upstream' then v_wrong.upstream else v_wrong.downstream end);
    end case;
end;
$$;
comment on function flowfabric._ff_check_document_edges(
    flowfabric.ff_flow_document_member[], flowfabric.ff_flow_document_edge[], text) is
'Internal: check 6 of a submission: edges of unknown members, of a member to itself, or twice between two.';

-- Check 7: joins

create or replace function flowfabric._ff_check_document_joins(
    p_flow jsonb,
    p_members flowfabric.ff_flow_document_member[],
    p_edges flowfabric.ff_flow_document_edge[],
    p_fn text
)
returns void
language plpgsql stable
set enable_nestloop = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_join record;
    v_path text;
    v_wrong flowfabric.ff_refusal;
begin
    for v_join in
        select
            j.key as name, m.name is not null as is_member, coalesce(i.inputs, 0) as inputs, j.value ->> 'kind' as kind,
            j.value ->> 'on_satisfied' as on_satisfied, (j.value -> 'k')::numeric as k
        from jsonb_each(p_flow -> 'joins') as j
        left join unnest(p_members) as m on m.name = j.key
        left join (
            select e.downstream, count(*) as inputs from unnest(p_edges) as e group by e.downstream
        ) as i on i.downstream = j.key
        order by j.key
    loop
        v_path := 'joins.' || v_join.name;
        v_wrong := flowfabric._ff_wrong_join_policy(v_join.kind, v_join.on_satisfied, v_join.k);
        if not v_join.is_member then
            perform flowfabric._ff_raise_at(p_fn, v_path, 'joins', 'unknown_member', v_join.name);
        elsif v_wrong.code is not null then
            perform flowfabric._ff_raise_at(
                p_fn, v_path || '.' || case v_wrong.detail ->> 'field' when 'policy_kind' then 'kind'
                    else v_wrong.detail ->> 'field' end,
                v_wrong.detail ->> 'field', v_wrong.detail ->> 'reason', v_wrong.detail ->> 'value');
        elsif v_join.inputs = 0 then
            perform flowfabric._ff_raise_at(p_fn, v_path, 'joins', 'no_inbound_edges', v_join.name);
        elsif v_join.kind = 'quorum' and v_join.k > v_join.inputs then
            perform flowfabric._ff_raise_at(p_fn, v_path || '.k', 'k', 'quorum_exceeds_inputs', v_join.k::text);
        end if;
    end loop;
end;
$$;
comment on function flowfabric._ff_check_document_joins(
    jsonb, flowfabric.ff_flow_document_member[], flowfabric.ff_flow_document_edge[], text) is
'Internal: check 7 of a submission: joins of unknown members, malformed ones, and those that could never be satisfied.';

-- Check 8: cycles

-- Members are taken away whose upstreams are all gone, until none is left to take. Who remains is in a cycle or behind
-- one. Each of those has an upstream that remains too, so going up from any of them comes round.
create or replace function flowfabric._ff_check_document_cycle(
    p_members flowfabric.ff_flow_document_member[],
    p_edges flowfabric.ff_flow_document_edge[],
    p_fn text
)
returns void
language plpgsql stable
set enable_nestloop = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_count integer := cardinality(p_members);
    v_ups integer[];
    v_downs integer[];
    v_edge_at integer[];
    v_first integer[];
    v_waits_for integer[] := array_fill(0, array[v_count]);
    v_queue integer[] := '{}'::integer[];
    v_taken integer := 0;
    v_at integer;
    v_member integer;
    v_entry integer[] := array_fill(null::integer, array[v_count]);
    v_step integer[] := array_fill(null::integer, array[v_count]);
    v_path integer[] := '{}'::integer[];
begin
    -- The edges by upstream, so that those of one member stand together; v_edge_at is their place in the document.
    select
        array_agg(e.up order by e.up, e.position), array_agg(e.down order by e.up, e.position),
        array_agg(e.position order by e.up, e.position)
    into v_ups, v_downs, v_edge_at
    from (
        select u.position as up, d.position as down, x.position
        from unnest(p_edges) as x
        join unnest(p_members) as u on u.name = x.upstream
        join unnest(p_members) as d on d.name = x.downstream
    ) as e;
    if v_ups is null then
        return;
    end if;
    v_first := array_fill(null::integer, array[v_count]);
    for i in 1 .. cardinality(v_ups) loop
        v_first[v_ups[i]] := coalesce(v_first[v_ups[i]], i);
        v_waits_for[v_downs[i]] := v_waits_for[v_downs[i]] + 1;
    end loop;
    for i in 1 .. v_count loop
        if v_waits_for[i] = 0 then
            v_queue := v_queue || i;
        end if;
    end loop;
    while v_taken < cardinality(v_queue) loop
        v_taken := v_taken + 1;
        v_at := v_first[v_queue[v_taken]];
        while v_ups[v_at] = v_queue[v_taken] loop
            v_waits_for[v_downs[v_at]] := v_waits_for[v_downs[v_at]] - 1;
            if v_waits_for[v_downs[v_at]] = 0 then
                v_queue := v_queue || v_downs[v_at];
            end if;
            v_at := v_at + 1;
        end loop;
    end loop;
    if v_taken = v_count then
        return;
    end if;

    -- v_entry: of the edges from who remains to who remains, the first in the document that enters a member.
    for i in 1 .. cardinality(v_ups) loop
        if v_waits_for[v_ups[i]] > 0
            and (v_entry[v_downs[i]] is null or v_edge_at[i] < v_edge_at[v_entry[v_downs[i]]])
        then
            v_entry[v_downs[i]] := i;
        end if;
    end loop;
    select min(w.position)::integer into v_member
    from unnest(v_waits_for) with ordinality as w (open, position)
    where w.open > 0;
    while v_step[v_member] is null loop
        v_step[v_member] := cardinality(v_path) + 1;
        v_path := v_path || v_entry[v_member];
        v_member := v_ups[v_entry[v_member]];
    end loop;
    perform flowfabric._ff_raise_cycle(
        p_members,
        -- Upwards it was found; downwards it is told.
        array(
            select v_ups[s.edge] from unnest(v_path[v_step[v_member] :]) with ordinality as s (edge, step)
            order by s.step desc),
        array(
            select v_edge_at[s.edge] from unnest(v_path[v_step[v_member] :]) with ordinality as s (edge, step)
            order by s.step desc),
        p_fn);
end;
$$;
comment on function flowfabric._ff_check_document_cycle(
    flowfabric.ff_flow_document_member[], flowfabric.ff_flow_document_edge[], text) is
'Internal: check 8 of a submission: raises cycle_detected with the members of one cycle.';

-- The members of the cycle in order, and for each the edge that leads on from it. Told from the first of those edges.
create or replace function flowfabric._ff_raise_cycle(
    p_members flowfabric.ff_flow_document_member[],
    p_cycle integer[],
    p_edges integer[],
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_edge integer := (select min(e.position) from unnest(p_edges) as e (position));
    v_start integer := array_position(p_edges, v_edge);
    v_cycle integer[] := p_cycle[v_start :] || p_cycle[1 : v_start];
begin
    perform flowfabric._ff_raise(
        'cycle_detected', p_fn,
        jsonb_build_object(
            'path', 'edges[' || (v_edge - 1)::text || ']',
            'cycle', (
                select jsonb_agg((p_members[c.position]).name order by c.step)
                from unnest(v_cycle) with ordinality as c (position, step))));
end;
$$;
comment on function flowfabric._ff_raise_cycle(
    flowfabric.ff_flow_document_member[], integer[], integer[], text) is
'Internal: raises cycle_detected with the names of the members in order, the first one again at the end.';
