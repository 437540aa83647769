-- ff_list_scanner_failures: the items at which scanners keep failing, those that failed most often first.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_list_scanner_failures(p_limit integer default 100)
returns setof flowfabric.ff_scanner_failure_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_list_scanner_failures';
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, c_fn);
begin
    return query
    with page as materialized (
        select f.*
        from flowfabric.ff_scanner_failure as f
        order by f.failures desc, f.last_failed_at_ms desc, f.scanner, f.item_key
        limit v_limit + 1
    )
    select
        f.scanner, f.item_key, f.failures, f.skip_until_ms, f.last_error, f.last_failed_at_ms,
        (select count(*) from page) > v_limit
    from page as f
    order by f.failures desc, f.last_failed_at_ms desc, f.scanner, f.item_key
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_scanner_failures(integer) is
'The items at which background scanners keep failing, with the last error and until when they are left out.';

grant execute on function flowfabric.ff_list_scanner_failures(integer) to flowfabric_reader, flowfabric_operator;
