-- Functions: what holds for every one of them, whoever writes the next.
begin;
\ir ../helpers.sql
select plan(13);

-- Every function and procedure of the schema, as the catalogue knows it.
create temporary view routine as
select
    p.oid,
    p.oid::regprocedure::text as signature,
    p.proname::text as name,
    p.proname like '\_ff\_%' as is_internal,
    p.prokind,
    p.prosecdef as is_definer,
    p.proconfig as settings,
    p.proargnames as argument_names,
    p.proargmodes as argument_modes,
    p.pronargs as input_count,
    p.proowner as owner,
    coalesce(p.proacl, acldefault('f', p.proowner)) as privileges,
    l.lanname as language,
    obj_description(p.oid, 'pg_proc') as description
from pg_proc as p
join pg_language as l on l.oid = p.prolang
where p.pronamespace = 'flowfabric'::regnamespace;

-- SQL-language helpers that the planner inlines, which neither clause allows; they touch nothing but their arguments
-- and the clock. With the test clock, ff_now_ms reads a table and is not one of them.
create temporary view inlined as
select r.oid
from routine as r
where r.name in ('ff_now_ms', 'ff_format_execution_id', 'ff_timestamp') and r.language = 'sql';

select ok(exists (select from routine as r where not r.is_internal), 'public functions are installed');
select ok(exists (select from routine as r where r.is_internal), 'internal functions are installed');

select is_empty(
    $$ select r.signature from routine as r where r.name not like 'ff\_%' and not r.is_internal $$,
    'a name starts with ff_ or _ff_');

select is_empty(
    $$ select r.signature from routine as r where r.description is null or r.description = '' $$,
    'every function has a comment');

select is_empty(
    $$ select r.signature, r.description from routine as r
       where r.is_internal is distinct from (r.description like 'Internal: %') $$,
    'exactly the comments of internal functions start with "Internal:"');

select is_empty(
    $$ select r.signature, r.settings from routine as r
       where not r.is_internal and r.name <> 'ff_tick_loop' and r.oid not in (select i.oid from inlined as i)
           and not coalesce(r.settings @> array['search_path=pg_catalog, pg_temp'], false) $$,
    'a public function pins search_path to pg_catalog, pg_temp');

select is_empty(
    $$ select r.signature from routine as r
       where not r.is_internal and r.name <> 'ff_tick_loop' and r.oid not in (select i.oid from inlined as i)
           and not r.is_definer $$,
    'a public function runs with the rights of its owner');

-- Nobody else can call an internal function, so it runs with the rights and the search_path of its public caller.
select is_empty(
    $$ select r.signature from routine as r where r.is_internal and r.is_definer $$,
    'an internal function runs with the rights of the function that calls it');

-- A procedure that commits can have neither clause, and then must not be able to do harm with the caller's rights.
select is_empty(
    $$ select r.signature from routine as r
       where r.name = 'ff_tick_loop' and (r.prokind <> 'p' or r.is_definer or r.settings is not null) $$,
    'ff_tick_loop is a procedure that may commit');

select is_empty(
    $$ select r.signature, g.grantee::regrole from routine as r
       cross join aclexplode(r.privileges) as g
       where r.is_internal and g.grantee not in (0, r.owner) $$,
    'an internal function is granted to no role');

select is_empty(
    $$ select r.signature from routine as r
       cross join aclexplode(r.privileges) as g
       where g.grantee = 0 $$,
    'PUBLIC may execute nothing');

select is_empty(
    $$ select r.signature from routine as r
       where not r.is_internal and not exists (
           select from aclexplode(r.privileges) as g
           where g.grantee <> r.owner and g.grantee::regrole::text like 'flowfabric\_%') $$,
    'a public function is granted to at least one role of FlowFabric');

select is_empty(
    $$ select r.signature, a.position, a.name from routine as r
       cross join lateral (
           select i.position, r.argument_names[i.position] as name, coalesce(r.argument_modes[i.position], 'i') as mode
           from generate_series(1, coalesce(cardinality(r.argument_modes), r.input_count)) as i (position)
       ) as a
       where a.mode in ('i', 'b', 'v') and coalesce(a.name, '') not like 'p\_%' $$,
    'a parameter has a name, which starts with p_');

select * from finish();
rollback;
