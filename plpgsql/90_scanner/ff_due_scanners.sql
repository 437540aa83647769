-- ff_due_scanners: the scanners that should run now, in the order in which to run them.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
--
-- For drivers that give each scanner a transaction of its own: ff_tick with each of these names, once each, and then a
-- new list. The scanner that has been due for longest comes first. One that has more to do is due again at once, but
-- since its last run only, so it stands behind the others: no scanner keeps another waiting for longer than one run.
create or replace function flowfabric.ff_due_scanners()
returns setof text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    return query
    select s.scanner
    from flowfabric.ff_scanner as s
    where s.enabled and flowfabric._ff_is_scanner_due(s, v_now_ms)
        and not flowfabric._ff_has_detoured(s.scanner, v_now_ms)
    order by s.next_due_at_ms, s.run_order;
end;
$$;

comment on function flowfabric.ff_due_scanners() is
'The names of the background scanners that are due, the one that has been due for longest first.';

grant execute on function flowfabric.ff_due_scanners() to flowfabric_worker, flowfabric_operator;
