-- Lists read a bounded number of rows per call. A page that found nothing where its scan had to stop says where the
-- next one continues; the suspended executions of a partition are found by an index of their own; the scanner of flow
-- summaries remembers how far it has come.
--
-- Locks:  the result types and ff_scanner, ACCESS EXCLUSIVE for a moment; ff_suspension_current, SHARE while its index
--         is built.
-- Beside: the functions of the previous release go on working, but for ff_list_executions and ff_list_expired_leases,
--         which the load of the new ones replaces in the same installation.
-- depends: 0025.owned-cursors-and-locks

do $$
begin
    if not exists (
        select from pg_catalog.pg_attribute as a
        where a.attrelid = 'flowfabric.ff_execution_listing'::pg_catalog.regclass
            and a.attname = 'next_after' and not a.attisdropped)
    then
        alter type flowfabric.ff_execution_listing add attribute next_after text;
    end if;
    if not exists (
        select from pg_catalog.pg_attribute as a
        where a.attrelid = 'flowfabric.ff_expired_lease_listing'::pg_catalog.regclass
            and a.attname = 'next_after_execution_id' and not a.attisdropped)
    then
        alter type flowfabric.ff_expired_lease_listing
        add attribute next_after_expires_at_ms bigint,
        add attribute next_after_partition_key smallint,
        add attribute next_after_execution_id uuid;
    end if;
end;
$$;
comment on type flowfabric.ff_execution_listing is
'One execution of a list; a row without an execution id says only where the search continues.';
comment on type flowfabric.ff_expired_lease_listing is
'One lease that has run out, and who held it; a row without an execution id says only where the list continues.';

-- serves ff_list_suspended: the open suspensions of a partition by age. Not concurrently, which a transaction cannot:
-- the index has only what is suspended at the moment.
-- squawk-ignore require-concurrent-index-creation
create index if not exists ff_suspension_current_partition_idx
on flowfabric.ff_suspension_current (partition_key, suspended_at_ms, execution_id)
where closed_at_ms is null;
-- squawk-ignore require-concurrent-index-deletion
drop index if exists flowfabric.ff_suspension_current_open_idx;

alter table flowfabric.ff_scanner add column if not exists position text;
comment on column flowfabric.ff_scanner.position is
'How far a scanner that walks through a table has come; NULL starts at the beginning.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (26, 'bounded-lists', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
