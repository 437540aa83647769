-- ff_list_error_codes: the error catalogue, for clients in any language and for people in psql.
--
-- Fence:  none.
-- Locks:  none.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
--
-- The retry class of an error does not travel with it (every DETAIL would pay for it); this is where a
-- client reads it, once.
create or replace function flowfabric.ff_list_error_codes()
returns setof flowfabric.ff_error_code_row
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select c.code, c.sqlstate::text, c.category, c.retry_class, c.hint
    from flowfabric.ff_error_code as c
    order by c.sqlstate;
end;
$$;

comment on function flowfabric.ff_list_error_codes() is
'Lists every error code with its SQLSTATE, category, retry class and hint, ordered by SQLSTATE.';

grant execute on function flowfabric.ff_list_error_codes()
to flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader;
