"""Queries that find what could run code of another role in the installer's session.

They read only the system catalogue. `current_user` is the role that the installer acts as, so that the file
of `flowfabric sql` can contain the same queries.
"""

from typing import LiteralString

# Logins, other than the one behind this connection, that can act as the current role and would gain by it.
#
# Not session_user: a superuser may have set it, and code that runs later can set it back. pg_stat_activity
# keeps the login that was authenticated. A membership counts with any of its options, because the ADMIN
# option is enough to get the others. A role that became NOLOGIN can still have a session.
OTHER_ACTORS: LiteralString = """
        select login.rolname::text as login, acting.rolname::text as acting, other.rolname::text as other
        from pg_catalog.pg_stat_activity as here
        join pg_catalog.pg_roles as login on login.oid = here.usesysid
        join pg_catalog.pg_roles as acting on acting.rolname = current_user
        join pg_catalog.pg_roles as other on pg_catalog.pg_has_role(other.oid, acting.oid, 'member')
        where here.pid = pg_catalog.pg_backend_pid()
            and login.oid <> acting.oid
            and not acting.rolsuper
            and not other.rolsuper
            and not pg_catalog.pg_has_role(other.oid, login.oid, 'member')
            and (
                other.rolcanlogin
                or exists (select from pg_catalog.pg_stat_activity as s where s.usesysid = other.oid))
        order by other.oid = acting.oid desc, other.rolname"""

# trusted:  roles that gain nothing: superusers, the owner of the schema, and the login of this connection.
# relation: what is in pg_class for the schema.
# part:     what a relation or a type brings along, with its expression if it has one.
_NAMES: LiteralString = """
        with home as (
            select n.oid, n.nspowner as owner, n.nspacl as privileges
            from pg_catalog.pg_namespace as n
            where n.nspname = 'flowfabric'
        ), trusted as (
            select r.oid from pg_catalog.pg_roles as r where r.rolsuper or r.rolname = current_user
            union
            select h.owner from home as h
            union
            select a.usesysid from pg_catalog.pg_stat_activity as a where a.pid = pg_catalog.pg_backend_pid()
        ), relation as (
            select c.oid, c.oid::regclass as name, c.relkind as kind, c.relowner as owner,
                c.relacl as privileges, c.relrowsecurity or c.relforcerowsecurity as has_row_security,
                o.type || ' ' || o.identity as what
            from home as h
            join pg_catalog.pg_class as c on c.relnamespace = h.oid
            cross join lateral pg_catalog.pg_identify_object('pg_class'::regclass, c.oid, 0) as o
        ), part as (
            select 'pg_attrdef'::regclass as classid, d.oid as objid, r.owner, d.adbin::text as expression,
                format('default of column %I of %s', a.attname, r.what) as what,
                format('alter table %s alter column %I drop %s', r.name, a.attname,
                    case a.attgenerated when '' then 'default' else 'expression' end) as remedy
            from relation as r
            join pg_catalog.pg_attrdef as d on d.adrelid = r.oid
            join pg_catalog.pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum
            union all
            select 'pg_constraint'::regclass, k.oid, r.owner, k.conbin::text,
                format('constraint %I of %s', k.conname, r.what),
                format('alter table %s drop constraint %I', r.name, k.conname)
            from relation as r
            join pg_catalog.pg_constraint as k on k.conrelid = r.oid
            union all
            select 'pg_constraint'::regclass, k.oid, t.typowner, k.conbin::text,
                format('constraint %I of domain %s', k.conname, t.oid::regtype),
                format('alter domain %s drop constraint %I', t.oid::regtype, k.conname)
            from home as h
            join pg_catalog.pg_type as t on t.typnamespace = h.oid
            join pg_catalog.pg_constraint as k on k.contypid = t.oid
            union all
            select 'pg_class'::regclass, i.indexrelid, r.owner, concat(i.indexprs::text, i.indpred::text),
                r.what, format('drop index %s', r.name)
            from relation as r
            join pg_catalog.pg_index as i on i.indexrelid = r.oid
            union all
            select 'pg_rewrite'::regclass, w.oid, r.owner, null, r.what, format('drop view %s', r.name)
            from relation as r
            join pg_catalog.pg_rewrite as w on w.ev_class = r.oid
            where r.kind = 'v'
            union all
            select 'pg_type'::regclass, t.oid, t.typowner, null,
                format('type %s', t.oid::regtype), format('drop type %s', t.oid::regtype)
            from home as h
            join pg_catalog.pg_type as t on t.typnamespace = h.oid
        )"""

_TRIGGERS: LiteralString = """
        select format('trigger %I on %s, which calls %s', g.tgname, r.what, p.oid::regprocedure) as what,
            p.proowner as owner, format('drop trigger %I on %s', g.tgname, r.name) as remedy
        from relation as r
        join pg_catalog.pg_trigger as g on g.tgrelid = r.oid and not g.tgisinternal
        join pg_catalog.pg_proc as p on p.oid = g.tgfoid"""

# Only a superuser can create an event trigger, which is then as trusted as that superuser. But its function
# can belong to another role, which can replace it, and the trigger's owner can have lost the attribute.
_EVENT_TRIGGERS: LiteralString = """
        select format('event trigger %I, which calls %s', g.evtname, p.oid::regprocedure),
            case when g.evtowner in (select t.oid from trusted as t) then p.proowner else g.evtowner end,
            format('alter event trigger %I disable', g.evtname)
        from pg_catalog.pg_event_trigger as g
        join pg_catalog.pg_proc as p on p.oid = g.evtfoid
        where g.evtenabled <> 'D'
            and not array[g.evtowner, p.proowner] <@ array(select t.oid from trusted as t)"""

_RULES: LiteralString = """
        select format('rule %I on %s', w.rulename, r.what), r.owner,
            format('drop rule %I on %s', w.rulename, r.name)
        from relation as r
        join pg_catalog.pg_rewrite as w on w.ev_class = r.oid
        where r.kind not in ('v', 'm') or w.rulename <> '_RETURN'"""

_ROW_SECURITY: LiteralString = """
        select format('policy %I on %s', p.polname, r.what), r.owner,
            format('drop policy %I on %s', p.polname, r.name)
        from relation as r
        join pg_catalog.pg_policy as p on p.polrelid = r.oid
        union all
        select format('row level security of %s', r.what), r.owner,
            format('alter table %s disable row level security, no force row level security', r.name)
        from relation as r
        where r.has_row_security"""

# A foreign key can delete or update rows of the other table, which has triggers of its own.
_LINKED_TABLES: LiteralString = """
        select
            format('foreign key %I from %s to %s', k.conname, k.conrelid::regclass, k.confrelid::regclass),
            c.relowner, format('alter table %s drop constraint %I', k.conrelid::regclass, k.conname)
        from pg_catalog.pg_constraint as k
        join pg_catalog.pg_class as c on c.oid = k.conrelid
        where k.contype = 'f'
            and (k.conrelid in (select r.oid from relation as r))
            <> (k.confrelid in (select r.oid from relation as r))
        union all
        select format('inheritance of %s from %s', i.inhrelid::regclass, i.inhparent::regclass), c.relowner,
            format('alter table %s no inherit %s', i.inhrelid::regclass, i.inhparent::regclass)
        from pg_catalog.pg_inherits as i
        join pg_catalog.pg_class as c on c.oid = i.inhrelid
        where array[i.inhrelid, i.inhparent] && array(select r.oid from relation as r)"""

_TYPES_OF_COLUMNS: LiteralString = """
        select format('column %I of %s, whose type is %s', a.attname, r.what, t.oid::regtype), t.typowner,
            format('alter table %s drop column %I', r.name, a.attname)
        from relation as r
        join pg_catalog.pg_attribute as a on a.attrelid = r.oid and a.attnum > 0
        join pg_catalog.pg_type as t on t.oid = a.atttypid
        where r.kind in ('r', 'p', 'f')
            and t.typnamespace::regnamespace::text not in ('flowfabric', 'pg_catalog')"""

# Operators, operator classes, types, tables and functions outside the schema.
_DEPENDENCIES: LiteralString = """
        select format('%s, which uses %s', p.what, o.identity), p.owner, p.remedy
        from part as p
        join pg_catalog.pg_depend as d on d.classid = p.classid and d.objid = p.objid
        cross join lateral pg_catalog.pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid) as o
        where o.schema not in ('flowfabric', 'pg_catalog')"""

# PostgreSQL records no dependency on functions of its own. Some that are not immutable run any SQL that they
# are given, such as query_to_xml and table_to_xml, so the ones that the engine needs are listed.
_CALLS: LiteralString = """
        select format('%s, which calls %s', p.what, f.oid::regprocedure), f.proowner, p.remedy
        from part as p
        cross join lateral regexp_matches(p.expression, ':funcid ([0-9]+)', 'g') as m (called)
        join pg_catalog.pg_proc as f on f.oid = m.called[1]::oid
        where f.pronamespace::regnamespace::text not in ('flowfabric', 'pg_catalog')
            or (
                f.pronamespace = 'pg_catalog'::regnamespace
                and f.provolatile <> 'i'
                and f.proname not in (
                    'clock_timestamp', 'gen_random_uuid', 'nextval', 'now', 'pg_current_xact_id'))"""

_OTHER_OWNERS: LiteralString = """
        select r.what, r.owner,
            format('alter %s owner to %s', replace(r.what, 'composite type', 'type'), h.owner::regrole)
        from home as h
        cross join relation as r
        where r.kind not in ('i', 'S', 't') and r.owner not in (select t.oid from trusted as t)
        union all
        select 'routine ' || p.oid::regprocedure, p.proowner,
            format('alter routine %s owner to %s', p.oid::regprocedure, h.owner::regrole)
        from home as h
        join pg_catalog.pg_proc as p on p.pronamespace = h.oid
        where p.proowner not in (select t.oid from trusted as t)
        union all
        select 'type ' || y.oid::regtype, y.typowner,
            format('alter type %s owner to %s', y.oid::regtype, h.owner::regrole)
        from home as h
        join pg_catalog.pg_type as y on y.typnamespace = h.oid and y.typtype in ('b', 'd', 'e', 'r')
        where y.typcategory <> 'A' and y.typowner not in (select t.oid from trusted as t)"""

# The engine has tables, indexes, sequences, views, types and routines, and nothing else.
_OTHER_KINDS: LiteralString = """
        select r.what, r.owner, 'drop ' || r.what
        from relation as r
        where r.kind not in ('r', 'i', 'S', 'v', 'c', 't')
        union all
        select format('%s %s', o.type, o.identity), h.owner, format('drop %s %s', o.type, o.identity)
        from home as h
        join pg_catalog.pg_depend as d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = h.oid
        cross join lateral pg_catalog.pg_identify_object(d.classid, d.objid, 0) as o
        where d.classid not in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass)
            and o.type not in ('default acl', 'extension')
        union all
        select format('cast from %s to %s', k.castsource::regtype, k.casttarget::regtype), h.owner,
            format('drop cast (%s as %s)', k.castsource::regtype, k.casttarget::regtype)
        from home as h
        join pg_catalog.pg_type as t on t.typnamespace = h.oid
        join pg_catalog.pg_cast as k on t.oid in (k.castsource, k.casttarget)"""

# What lets a role add code after this query has found none.
_PRIVILEGES: LiteralString = """
        select format('privilege %s on %s for %s', a.privilege_type, a.place, g.name), a.grantee,
            format('revoke %s on %s from %s', a.privilege_type, a.place, g.name)
        from (
            select 'schema flowfabric' as place, x.grantee, x.privilege_type
            from home as h
            cross join lateral pg_catalog.aclexplode(h.privileges) as x
            where x.privilege_type = 'CREATE'
            union all
            select 'table ' || r.name, x.grantee, x.privilege_type
            from relation as r
            cross join lateral pg_catalog.aclexplode(r.privileges) as x
            where x.privilege_type in ('TRIGGER', 'REFERENCES')
            union all
            select 'table ' || r.name, x.grantee, x.privilege_type || ' (' || quote_ident(c.attname) || ')'
            from relation as r
            join pg_catalog.pg_attribute as c on c.attrelid = r.oid
            cross join lateral pg_catalog.aclexplode(c.attacl) as x
            where x.privilege_type = 'REFERENCES'
        ) as a
        cross join lateral (
            select case a.grantee when 0 then 'public' else a.grantee::regrole::text end
        ) as g (name)
        where a.grantee not in (select t.oid from trusted as t)"""

_BRANCHES: tuple[LiteralString, ...] = (
    _TRIGGERS,
    _EVENT_TRIGGERS,
    _RULES,
    _ROW_SECURITY,
    _LINKED_TABLES,
    _TYPES_OF_COLUMNS,
    _DEPENDENCIES,
    _CALLS,
    _OTHER_OWNERS,
    _OTHER_KINDS,
    _PRIVILEGES,
)

_UNION: LiteralString = "\n        union all"

# One row per object: what it is, the role that it or its code belongs to, and the statement that removes it.
FINDINGS: LiteralString = (
    _NAMES
    + ", finding as ("
    + _UNION.join(_BRANCHES)
    + """
        )
        select distinct on (f.remedy) f.what, f.remedy,
            case f.owner when 0 then 'public' else pg_catalog.pg_get_userbyid(f.owner)::text end as owner
        from finding as f
        order by f.remedy, f.what"""
)

# Default privileges can give other roles TRIGGER or REFERENCES on new tables, and CREATE on a new schema. In
# the transaction that created them, this takes those rights away before any other session can use them.
REVOKE_DEFAULT_PRIVILEGES: LiteralString = (
    """\
do $revoke$
declare
    v_remedy text;
begin
    for v_remedy in"""
    + _NAMES
    + """
        select distinct f.remedy from ("""
    + _PRIVILEGES
    + """
        ) as f (what, owner, remedy)
    loop
        execute v_remedy;
    end loop;
end;
$revoke$"""
)
