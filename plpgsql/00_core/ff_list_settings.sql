-- ff_list_settings: every setting with its value and default.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
create or replace function flowfabric.ff_list_settings()
returns setof flowfabric.ff_setting_row
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select k.name, coalesce(s.value, k.default_value), k.default_value, s.value is null
    from flowfabric._ff_known_settings() as k
    left join flowfabric.ff_setting as s on s.name = k.name
    order by k.name collate "C";
end;
$$;

comment on function flowfabric.ff_list_settings() is
'Every setting of the engine, with its value in force and its default.';

grant execute on function flowfabric.ff_list_settings() to flowfabric_reader, flowfabric_operator;
