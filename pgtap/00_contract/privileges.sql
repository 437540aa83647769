-- Least privilege: what the roles are, and that none of them can reach a table.
begin;
\ir ../helpers.sql
select plan(9);

create temporary view client_role as
select r.oid, r.rolname::text as name, r.rolcanlogin, r.rolsuper, r.rolcreaterole, r.rolcreatedb, r.rolbypassrls
from pg_roles as r
where r.rolname in (
    'flowfabric_producer', 'flowfabric_worker', 'flowfabric_signaller', 'flowfabric_operator', 'flowfabric_reader',
    'flowfabric_admin');

create temporary view relation as
select c.oid, c.oid::regclass::text as full_name, c.relkind as kind, c.relname like 'ff\_v\_%' as is_view_for_people
from pg_class as c
where c.relnamespace = 'flowfabric'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S');

select is((select count(*) from client_role), 6::bigint, 'the six roles exist');

select is_empty(
    $$ select r.name from client_role as r
       where r.rolcanlogin or r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolbypassrls $$,
    'a role cannot log in and has no attribute that goes beyond its grants');

select is_empty(
    $$ select r.name, m.roleid::regrole from client_role as r
       join pg_auth_members as m on m.member = r.oid
       where r.name <> 'flowfabric_admin' $$,
    'a role other than the admin is a member of nothing');

select is_empty(
    $$ select r.name from client_role as r where not pg_has_role('flowfabric_admin', r.oid, 'usage') $$,
    'the admin has what every other role has');

select is_empty(
    $$ select r.name, t.full_name from client_role as r
       cross join relation as t
       where t.kind <> 'S' and not t.is_view_for_people and (
           has_table_privilege(r.oid, t.oid, 'select, insert, update, delete, truncate, references, trigger')
           or has_any_column_privilege(r.oid, t.oid, 'select, insert, update, references')) $$,
    'no role has a privilege on a table');

select is_empty(
    $$ select r.name, t.full_name from client_role as r
       cross join relation as t
       where t.kind = 'S' and has_sequence_privilege(r.oid, t.oid, 'usage, select, update') $$,
    'no role has a privilege on a sequence');

select is_empty(
    $$ select r.name, t.full_name from client_role as r
       cross join relation as t
       where t.is_view_for_people and (
           has_table_privilege(r.oid, t.oid, 'insert, update, delete, truncate, references, trigger')
           or has_table_privilege(r.oid, t.oid, 'select')
               <> (r.name in ('flowfabric_reader', 'flowfabric_operator', 'flowfabric_admin'))) $$,
    'the reader and the operator may read the views, and nobody else may');

select is_empty(
    $$ select r.name from client_role as r
       where has_schema_privilege(r.oid, 'flowfabric', 'create')
           or not has_schema_privilege(r.oid, 'flowfabric', 'usage') $$,
    'a role may use the schema and create nothing in it');

select is_empty(
    $$ select o.kind, o.name from (
           select 'schema', n.nspname::text, coalesce(n.nspacl, acldefault('n', n.nspowner))
           from pg_namespace as n where n.nspname = 'flowfabric'
           union all
           select 'relation', c.relname::text, coalesce(
               c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))
           from pg_class as c join relation as t on t.oid = c.oid
       ) as o (kind, name, privileges)
       cross join aclexplode(o.privileges) as g
       where g.grantee = 0 $$,
    'PUBLIC has nothing');

select * from finish();
rollback;
