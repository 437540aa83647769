-- Tables, views and types: described, named, keyed and placed as the design says.
begin;
\ir ../helpers.sql
select plan(12);

-- Every relation of the schema but those of yoyo, which keeps its own tables here.
create temporary view relation as
select
    c.oid,
    c.oid::regclass::text as full_name,
    c.relname::text as name,
    c.relkind as kind,
    obj_description(c.oid, 'pg_class') as description
from pg_class as c
where c.relnamespace = 'flowfabric'::regnamespace and c.relname !~ '^_?yoyo';

-- The columns of each key (primary or unique), in key order.
create temporary view key_of_table as
select
    i.indrelid as table_oid,
    i.indrelid::regclass::text as table_name,
    i.indexrelid::regclass::text as name,
    i.indisprimary as is_primary,
    array(
        select a.attname::text
        from unnest(i.indkey) with ordinality as k (attnum, position)
        join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where k.position <= i.indnkeyatts
        order by k.position
    ) as columns
from pg_index as i
join relation as r on r.oid = i.indrelid
where i.indisunique;

-- Tables that are found by a budget, a quota policy or an idempotency key, not by an execution: they would be
-- distributed by that.
create temporary view keyed_by_own_id as
select t.name
from (values
    ('ff_budget_reservation'), ('ff_budget_usage_by_exec'), ('ff_execution_idempotency'),
    ('ff_quota_admitted'), ('ff_quota_window')
) as t (name);

create temporary view partitioned as
select r.oid, r.name, r.name like '%\_event' as is_event_table
from relation as r
join pg_attribute as a on a.attrelid = r.oid
where r.kind = 'r' and a.attname = 'partition_key' and not a.attisdropped
    and r.name not in (select k.name from keyed_by_own_id as k);

select ok(exists (select from partitioned as t where not t.is_event_table), 'tables are installed');

select is_empty(
    $$ select r.full_name, r.kind from relation as r
       where r.kind in ('r', 'p', 'v', 'm', 'c') and r.name not like 'ff\_%' $$,
    'a table, view or composite type has a name that starts with ff_');

select is_empty(
    $$ select r.full_name from relation as r where r.kind in ('r', 'p', 'v', 'm') and r.description is null $$,
    'every table and every view has a comment');

select is_empty(
    $$ select r.full_name, a.attname from relation as r
       join pg_attribute as a on a.attrelid = r.oid
       where r.kind in ('r', 'p', 'v', 'm') and a.attnum > 0 and not a.attisdropped
           and col_description(r.oid, a.attnum) is null $$,
    'every column of a table or view has a comment');

select is_empty(
    $$ select t.oid::regtype from pg_type as t
       left join pg_class as c on c.oid = t.typrelid
       where t.typnamespace = 'flowfabric'::regnamespace and (t.typtype = 'e' or c.relkind = 'c')
           and obj_description(t.oid, 'pg_type') is null $$,
    'every enum and every composite type has a comment');

select is_empty(
    $$ select r.full_name from relation as r where r.kind in ('v', 'm') and r.name not like 'ff\_v\_%' $$,
    'a view has a name that starts with ff_v_');

select is_empty(
    $$ select r.full_name from relation as r
       where r.kind = 'r' and not exists (
           select from key_of_table as k where k.table_oid = r.oid and k.is_primary) $$,
    'every table has a primary key');

select is_empty(
    $$ select k.table_name, k.name, k.columns from partitioned as t
       join key_of_table as k on k.table_oid = t.oid
       where not t.is_event_table and k.is_primary and k.columns[1] <> 'partition_key' $$,
    'partition_key leads the primary key');

select is_empty(
    $$ select k.table_name, k.name, k.columns from partitioned as t
       join key_of_table as k on k.table_oid = t.oid
       where t.is_event_table and k.is_primary and k.columns[cardinality(k.columns)] <> 'partition_key' $$,
    'partition_key ends the primary key of an event table, which is read in commit order');

select is_empty(
    $$ select k.table_name, k.name, k.columns from partitioned as t
       join key_of_table as k on k.table_oid = t.oid
       where not k.columns @> array['partition_key'] $$,
    'every unique key contains partition_key, so that it can be enforced on one node');

select is_empty(
    $$ select r.full_name, t.tgname from relation as r
       join pg_trigger as t on t.tgrelid = r.oid
       where not t.tgisinternal $$,
    'no table has a trigger');

select is_empty(
    $$ select o.kind, o.name from (
           select 'relation', c.relname::text, c.relnamespace from pg_class as c
           union all
           select 'function', p.proname::text, p.pronamespace from pg_proc as p
           union all
           select 'type', t.typname::text, t.typnamespace from pg_type as t
       ) as o (kind, name, namespace)
       join pg_namespace as n on n.oid = o.namespace
       where n.nspname = 'public' and o.name ~ '^_?ff_' $$,
    'nothing of FlowFabric is in schema public');

select * from finish();
rollback;
