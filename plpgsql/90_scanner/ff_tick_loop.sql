-- ff_tick_loop: run the due scanners one by one, each in a transaction of its own, until the time is over.
--
-- Fence:  none.
-- Locks:  that of ff_lock_tick_loop, so that one loop runs per database; what ff_tick locks.
-- Writes: what ff_tick writes; commits after each scanner.
-- Raises: invalid_input; 2D000 inside a transaction block, where it may not commit.
-- Retry:  safe; while another loop runs it returns at once.
--
-- For pg_cron before 1.5, which starts a job once a minute at most. A procedure that commits can be neither security
-- definer nor have a SET clause, so it runs with the rights of its caller: it calls public functions only, and takes
-- the text of its refusal from the public catalogue. The caller's search_path may hold a schema in which others create
-- functions and operators, so every transaction begins with a path of its own, which ends with that transaction.
--
-- The lock is that of a transaction and taken again after each commit. One of the session would outlive a cancelled
-- call, and behind a pooler would stay with a forgotten connection. A loop that starts in the moment between takes
-- over, and this one ends: there is always one of them.
create or replace procedure flowfabric.ff_tick_loop(
    p_duration_ms integer default 55000,
    p_interval_ms integer default 500,
    p_limit integer default 100
)
language plpgsql
as $$
declare
    c_fn constant pg_catalog.text := 'ff_tick_loop';
    c_safe_path constant pg_catalog.text := 'pg_catalog, pg_temp';
    v_ends_at pg_catalog.timestamptz;
    v_field pg_catalog.text;
    v_value integer;
    v_sqlstate pg_catalog.text;
    v_hint pg_catalog.text;
    v_due pg_catalog.text[];
    v_scanner pg_catalog.text;
    v_has_more boolean;
begin
    perform pg_catalog.set_config('search_path', c_safe_path, true);
    select c.field, c.value into v_field, v_value
    from (values
        ('duration_ms', p_duration_ms, 86400000),
        ('interval_ms', p_interval_ms, 3600000),
        ('limit', p_limit, 10000)
    ) as c (field, value, highest)
    where (c.value between 1 and c.highest) is not true
    limit 1;
    if found then
        select e.sqlstate, e.hint into v_sqlstate, v_hint
        from flowfabric.ff_list_error_codes() as e
        where e.code = 'invalid_input';
        raise exception using
            errcode = v_sqlstate,
            message = 'invalid_input',
            detail = pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
                'code', 'invalid_input', 'fn', c_fn, 'field', v_field,
                'reason', case when v_value is null then 'null' else 'out_of_range' end,
                'value', v_value::pg_catalog.text)),
            hint = v_hint;
    end if;

    v_ends_at := pg_catalog.clock_timestamp() + p_duration_ms * interval '1 millisecond';
    loop
        v_has_more := false;
        v_due := array(select d.scanner from flowfabric.ff_due_scanners() as d (scanner));
        foreach v_scanner in array v_due loop
            if not flowfabric.ff_lock_tick_loop() then
                return;
            end if;
            select v_has_more or coalesce(pg_catalog.bool_or(r.more), false) into v_has_more
            from flowfabric.ff_tick(p_limit, array[v_scanner]) as r;
            commit;
            perform pg_catalog.set_config('search_path', c_safe_path, true);
            exit when pg_catalog.clock_timestamp() >= v_ends_at;
        end loop;
        exit when pg_catalog.clock_timestamp() >= v_ends_at;
        if not v_has_more then
            -- The lock is held while it sleeps, or a second loop would not see this one.
            if not flowfabric.ff_lock_tick_loop() then
                return;
            end if;
            perform pg_catalog.pg_sleep(least(
                p_interval_ms / 1000.0, pg_catalog.date_part('epoch', v_ends_at - pg_catalog.clock_timestamp())));
            commit;
            perform pg_catalog.set_config('search_path', c_safe_path, true);
            exit when pg_catalog.clock_timestamp() >= v_ends_at;
        end if;
    end loop;
end;
$$;

comment on procedure flowfabric.ff_tick_loop (integer, integer, integer) is
'Runs the due background scanners, each in a transaction of its own, until the duration is over; for pg_cron.';

grant execute on procedure flowfabric.ff_tick_loop(integer, integer, integer) to flowfabric_operator;
