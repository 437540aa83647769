-- What functions of earlier releases need and today's do not.
--
-- A migration is committed before the functions are loaded, so that it must leave alone whatever those of the release
-- before still use: work goes on meanwhile. What only they used goes here, in the transaction that replaces them.
-- The table is locked exclusively from here to the commit, which follows at once; an installation that has nothing of
-- this left is not touched.
do $$
begin
    if exists (
        select from pg_catalog.pg_attribute as a
        where a.attrelid = 'flowfabric.ff_exec_core'::pg_catalog.regclass and a.attname = 'public_state'
            and not a.attisdropped)
    then
        alter table flowfabric.ff_exec_core drop column public_state;
    end if;
end;
$$;
