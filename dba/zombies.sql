-- Shows on a database of yours that a worker without a live lease can change nothing, and leaves nothing behind:
--
--     psql -X -v ON_ERROR_STOP=1 -f dba/zombies.sql "$DSN"      or      make zombies DSN=...
--
-- Prints function, situation and SQLSTATE of every case, and fails if one was accepted, was refused with another code,
-- or wrote a row. Run it as the owner of the installation or as a superuser. It takes a few seconds; readers of events
-- see none in that time that are newer than its transaction.
\set ON_ERROR_STOP on
\pset pager off
begin;
\ir zombie_matrix.sql

select
    c.function_name as "function", c.situation, c.actual as "sqlstate",
    case
        when c.actual is null then 'ACCEPTED'
        when c.actual <> c.expected then 'NOT ' || c.expected || ' ' || c.expected_code
        when c.rows_written > 0 then 'WROTE ' || c.rows_written || ' ROWS'
        else c.expected_code
    end as "verdict"
from pg_temp.zombie_case as c
order by c.function_name, c.situation_number;

do $$
declare
    v_cases bigint;
    v_wrong bigint;
    v_functions text;
begin
    select count(*), count(*) filter (where c.actual is distinct from c.expected or c.rows_written > 0)
    into v_cases, v_wrong
    from pg_temp.zombie_case as c;
    select string_agg(f.proname, ', ') into v_functions from pg_temp.zombie_forgotten as f;
    if v_functions is not null then
        raise exception 'Not tried: %. Add a line to zombie_matrix.sql.', v_functions;
    end if;
    select string_agg(c.function_name || ' (' || c.actual || ')', ', ') into v_functions
    from pg_temp.zombie_control as c
    where c.actual is not null;
    if v_functions is not null then
        raise exception 'Refused although the lease was live: %.', v_functions;
    end if;
    if v_wrong > 0 then
        raise exception '% of % cases are wrong: see the verdicts in capitals.', v_wrong, v_cases;
    end if;
end;
$$;

\pset tuples_only on
select format('%s cases: none was accepted, none wrote a row.', count(*)) from pg_temp.zombie_case;
rollback;
