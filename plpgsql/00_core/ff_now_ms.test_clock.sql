-- ff_now_ms with a test clock: loaded after ff_now_ms.sql, and only with --with-test-clock.
--
-- ff_test_set_clock stores an offset or a frozen time, so that one call moves the clock of every connection.
create or replace function flowfabric.ff_now_ms()
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_frozen_at_ms bigint;
    v_offset_ms bigint;
begin
    select
        max(s.value) filter (where s.name = 'test_clock_frozen_at_ms'),
        max(s.value) filter (where s.name = 'test_clock_offset_ms')
    into v_frozen_at_ms, v_offset_ms
    from flowfabric.ff_setting as s
    where s.name in ('test_clock_frozen_at_ms', 'test_clock_offset_ms');
    return coalesce(
        v_frozen_at_ms,
        floor(extract(epoch from clock_timestamp()) * 1000)::bigint + coalesce(v_offset_ms, 0));
end;
$$;
