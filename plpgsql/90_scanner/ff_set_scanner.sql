-- ff_set_scanner: switch a scanner on or off, or change how often and how much it works.
--
-- Fence:  none.
-- Locks:  the ff_scanner row; waits at most 2 s for a tick that is running the scanner.
-- Writes: ff_scanner; ff_operator_event on a change.
-- Raises: invalid_input, retry_exhausted.
-- Retry:  safe; a repeat answers unchanged.
--
-- What is NULL stays as it is. A year is the longest interval: the pause of a scanner or item that keeps failing is a
-- multiple of it. A shorter interval counts from now, so that nothing waits for the end of the old one.
create or replace function flowfabric.ff_set_scanner(
    p_scanner text,
    p_enabled boolean default null,
    p_interval_ms bigint default null,
    p_batch_limit integer default null
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_set_scanner';
    v_old flowfabric.ff_scanner;
    v_new flowfabric.ff_scanner;
    v_now_ms bigint;
begin
    if p_interval_ms not between 1 and 31536000000 then
        perform flowfabric._ff_raise_invalid(c_fn, 'interval_ms', 'out_of_range', p_interval_ms::text);
    end if;
    if p_batch_limit not between 1 and 10000 then
        perform flowfabric._ff_raise_invalid(c_fn, 'batch_limit', 'out_of_range', p_batch_limit::text);
    end if;
    v_old := flowfabric._ff_lock_scanner(p_scanner, c_fn);
    if v_old.scanner is null then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'scanner', p_scanner, array(select s.scanner from flowfabric.ff_scanner as s order by s.scanner));
    end if;

    v_new := v_old;
    v_new.enabled := coalesce(p_enabled, v_old.enabled);
    v_new.interval_ms := coalesce(p_interval_ms, v_old.interval_ms);
    v_new.batch_limit := coalesce(p_batch_limit, v_old.batch_limit);
    if v_new = v_old then
        return row('unchanged')::flowfabric.ff_outcome;
    end if;
    v_now_ms := flowfabric.ff_now_ms();
    update flowfabric.ff_scanner as s
    set enabled = v_new.enabled,
        interval_ms = v_new.interval_ms,
        batch_limit = v_new.batch_limit,
        next_due_at_ms = least(s.next_due_at_ms, v_now_ms + v_new.interval_ms)
    where s.scanner = p_scanner;
    perform flowfabric._ff_emit_operator(
        0::smallint, null, null, null, null, 'scanner_changed',
        jsonb_build_object(
            'scanner', p_scanner, 'enabled', v_new.enabled, 'interval_ms', v_new.interval_ms,
            'batch_limit', v_new.batch_limit),
        v_now_ms);
    return row('changed')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_set_scanner(text, boolean, bigint, integer) is
'Switches a background scanner on or off, or changes its interval or its limit per run.';

grant execute on function flowfabric.ff_set_scanner(text, boolean, bigint, integer) to flowfabric_operator;

create or replace function flowfabric._ff_lock_scanner(p_scanner text, p_fn text)
returns flowfabric.ff_scanner
language plpgsql volatile
set lock_timeout = '2s'
as $$
declare
    v_scanner flowfabric.ff_scanner;
begin
    select s.* into v_scanner from flowfabric.ff_scanner as s where s.scanner = p_scanner for no key update;
    return v_scanner;
exception when lock_not_available then
    perform flowfabric._ff_raise_tables_busy(
        flowfabric._ff_row_holders(array['flowfabric.ff_scanner'::regclass]), 2000, p_fn);
    return null;
end;
$$;
comment on function flowfabric._ff_lock_scanner(text, text) is
'Internal: locks the row of a scanner, NULL if there is none; raises retry_exhausted while a tick keeps it.';
