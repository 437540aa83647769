-- Undoes 0001.engine: what is left of the engine goes, its functions included, so that nothing of it stays behind.
-- The schema stays: yoyo keeps its tables in it. The roles stay too: other databases of the server may use them.
drop table if exists flowfabric.ff_waiter cascade;
drop table if exists flowfabric.ff_scanner_failure cascade;
drop table if exists flowfabric.ff_scanner cascade;
drop table if exists flowfabric.ff_error_code cascade;
drop table if exists flowfabric.ff_setting cascade;
drop table if exists flowfabric.ff_partition_config cascade;
drop table if exists flowfabric.ff_migration_annotation cascade;
drop type if exists flowfabric.ff_attempt_row_state cascade;
drop type if exists flowfabric.ff_attempt_type cascade;
drop type if exists flowfabric.ff_public_state cascade;
drop type if exists flowfabric.ff_attempt_state cascade;
drop type if exists flowfabric.ff_terminal_outcome cascade;
drop type if exists flowfabric.ff_blocking_reason cascade;
drop type if exists flowfabric.ff_eligibility_state cascade;
drop type if exists flowfabric.ff_ownership_state cascade;
drop type if exists flowfabric.ff_lifecycle_phase cascade;
do $$
declare
    v_routine regprocedure;
begin
    for v_routine in
        select p.oid::regprocedure
        from pg_catalog.pg_proc as p
        where p.pronamespace = 'flowfabric'::regnamespace
            and not exists (
                select from pg_catalog.pg_depend as d
                where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
    loop
        -- Dropping one can take others with it.
        if to_regprocedure(v_routine::text) is not null then
            execute format('drop routine %s cascade', v_routine);
        end if;
    end loop;
end;
$$;
