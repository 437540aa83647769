-- Arguments: the shapes that many functions share, and the one way to refuse an argument.

create or replace function flowfabric._ff_raise_invalid(
    p_fn text,
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
        jsonb_build_object('field', p_field, 'reason', p_reason, 'value', left(p_value, 200)));
end;
$$;
comment on function flowfabric._ff_raise_invalid(text, text, text, text) is
'Internal: raises invalid_input for one argument; the value is cut to 200 characters.';

create or replace function flowfabric._ff_raise_unknown(p_fn text, p_field text, p_value text, p_legal text[])
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise_with_hint(
        'invalid_input', p_fn,
        jsonb_build_object(
            'field', p_field, 'reason', case when p_value is null then 'null' else 'unknown' end,
            'value', left(p_value, 200)),
        format(
            case when cardinality(p_legal) = 1 then 'Set %s to %s.' else 'Set %s to one of: %s.' end, p_field,
            array_to_string(p_legal, ', ')));
end;
$$;
comment on function flowfabric._ff_raise_unknown(text, text, text, text[]) is
'Internal: raises invalid_input for a value that is not one of those that are legal, and lists them.';

-- White space and control characters of the whole of Unicode, spelt out: the classes of a regular expression depend
-- on the collation, and under "C" know ASCII only.
create or replace function flowfabric._ff_has_space_or_control(p_text text)
returns boolean
language sql immutable parallel safe
as $$
    select p_text collate "C"
        ~ E'[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
$$;
comment on function flowfabric._ff_has_space_or_control(text) is
'Internal: whether a text contains white space or a control character, in any script.';

create or replace function flowfabric._ff_is_name(p_name text)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(
        octet_length(p_name) between 1 and 256 and not flowfabric._ff_has_space_or_control(p_name), false)
$$;
comment on function flowfabric._ff_is_name(text) is
'Internal: whether a text can be a namespace, worker id, worker instance id, budget id or quota policy id.';

create or replace function flowfabric._ff_raise_invalid_name(p_name text, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise_invalid(
        p_fn, p_field,
        case
            when p_name is null then 'null'
            when p_name = '' then 'empty'
            when octet_length(p_name) > 256 then 'too_long'
            else 'space_or_control'
        end,
        p_name);
end;
$$;
comment on function flowfabric._ff_raise_invalid_name(text, text, text) is
'Internal: raises invalid_input for a text that _ff_is_name refused.';

create or replace function flowfabric._ff_is_lane_id(p_lane_id text)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(octet_length(p_lane_id) between 1 and 64 and p_lane_id collate "C" ~ '^[ -~]+$', false)
$$;
comment on function flowfabric._ff_is_lane_id(text) is
'Internal: whether a text can be a lane id: 1 to 64 printable ASCII characters.';

create or replace function flowfabric._ff_raise_invalid_lane(p_lane_id text, p_fn text, p_field text default 'lane_id')
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise_invalid(
        p_fn, p_field,
        case
            when p_lane_id is null then 'null'
            when p_lane_id = '' then 'empty'
            when octet_length(p_lane_id) > 64 then 'too_long'
            else 'not_printable_ascii'
        end,
        p_lane_id);
end;
$$;
comment on function flowfabric._ff_raise_invalid_lane(text, text, text) is
'Internal: raises invalid_input for a text that _ff_is_lane_id refused.';

-- The role chosen with SET ROLE, else the session user: inside a security definer function current_user is the owner of
-- the schema.
create or replace function flowfabric._ff_calling_role()
returns text
language sql stable
as $$
    select coalesce(nullif(current_setting('role', true), 'none'), session_user::text)
$$;
comment on function flowfabric._ff_calling_role() is 'Internal: the role that calls the engine.';

-- By name, because ids of roles do not survive a dump. The role may be gone.
create or replace function flowfabric._ff_acts_for(p_role text)
returns boolean
language plpgsql stable
as $$
declare
    v_caller text := flowfabric._ff_calling_role();
begin
    return v_caller = p_role or exists (
        select from pg_roles as r where r.rolname = p_role and pg_has_role(v_caller, r.oid, 'usage'));
end;
$$;
comment on function flowfabric._ff_acts_for(text) is
'Internal: whether the calling role is the given one or has its privileges.';

create or replace function flowfabric._ff_require_role(p_role text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if not pg_has_role(flowfabric._ff_calling_role(), p_role, 'usage') then
        perform flowfabric._ff_raise_with_hint(
            'unauthorized', p_fn, jsonb_build_object('op', p_fn, 'role', p_role),
            format(
                'Connect as a member of %I, or run as an administrator: grant %I to %I;', p_role, p_role,
                flowfabric._ff_calling_role()));
    end if;
end;
$$;
comment on function flowfabric._ff_require_role(text, text) is
'Internal: raises unauthorized unless the calling role has the privileges of the given one.';

-- For functions that read as a rule and write here: PostgreSQL's own refusal names neither function nor remedy.
create or replace function flowfabric._ff_check_writable(p_fn text)
returns void
language plpgsql stable
as $$
begin
    if current_setting('transaction_read_only')::boolean then
        perform flowfabric._ff_raise(
            'read_only_server', p_fn, jsonb_build_object('is_standby', pg_is_in_recovery()));
    end if;
end;
$$;
comment on function flowfabric._ff_check_writable(text) is
'Internal: raises read_only_server on a standby and in a read-only transaction.';
