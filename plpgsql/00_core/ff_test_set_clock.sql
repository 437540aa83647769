-- ff_test_set_clock: move the engine's clock in tests, on every connection at once.
--
-- Fence:  none.
-- Locks:  the ff_setting rows of the clock.
-- Writes: ff_setting rows test_clock_offset_ms and test_clock_frozen_at_ms.
-- Raises: unavailable, invalid_input.
-- Retry:  safe, except that `advance` adds up.
create or replace function flowfabric.ff_test_set_clock(p_mode text, p_ms bigint default null)
returns flowfabric.ff_clock_state
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_test_set_clock';
    c_max_ms constant bigint := flowfabric._ff_last_ms();
    v_frozen_at_ms bigint;
    v_offset_ms bigint;
begin
    if not exists (select from flowfabric.ff_setting as s where s.name = 'test_clock' and s.value = 1) then
        perform flowfabric._ff_raise(
            'unavailable', c_fn, jsonb_build_object('op', c_fn, 'reason', 'test_clock_not_installed'));
    end if;
    if (p_mode = any (flowfabric._ff_legal_values('mode'))) is not true then
        perform flowfabric._ff_raise_unknown(c_fn, 'mode', p_mode, flowfabric._ff_legal_values('mode'));
    end if;
    if p_mode <> 'reset' and p_ms is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'ms', 'null');
    end if;
    if p_ms not between -c_max_ms and c_max_ms or (p_ms < 0 and p_mode <> 'offset') then
        perform flowfabric._ff_raise_invalid(c_fn, 'ms', 'out_of_range', p_ms::text);
    end if;

    select
        max(s.value) filter (where s.name = 'test_clock_frozen_at_ms'),
        max(s.value) filter (where s.name = 'test_clock_offset_ms')
    into v_frozen_at_ms, v_offset_ms
    from flowfabric.ff_setting as s;

    if p_mode = 'freeze' or (p_mode = 'advance' and v_frozen_at_ms is not null) then
        v_frozen_at_ms := case p_mode when 'freeze' then p_ms else v_frozen_at_ms + p_ms end;
        v_offset_ms := null;
    else
        v_frozen_at_ms := null;
        v_offset_ms := case p_mode
            when 'reset' then null
            when 'offset' then p_ms
            else coalesce(v_offset_ms, 0) + p_ms
        end;
    end if;

    -- Steps add up: the clock itself must stay within those years.
    if coalesce(v_frozen_at_ms, floor(extract(epoch from clock_timestamp()) * 1000) + coalesce(v_offset_ms, 0))
        not between 0 and c_max_ms
    then
        perform flowfabric._ff_raise_invalid(c_fn, 'ms', 'out_of_range', p_ms::text);
    end if;

    delete from flowfabric.ff_setting as s where s.name in ('test_clock_frozen_at_ms', 'test_clock_offset_ms');
    insert into flowfabric.ff_setting (name, value)
    select clock.name, clock.value
    from (values ('test_clock_frozen_at_ms', v_frozen_at_ms), ('test_clock_offset_ms', v_offset_ms))
        as clock (name, value)
    where clock.value is not null
    on conflict (name) do update set value = excluded.value;
    return row(p_mode, flowfabric.ff_now_ms())::flowfabric.ff_clock_state;
end;
$$;

comment on function flowfabric.ff_test_set_clock(text, bigint) is
'Freezes, advances, offsets or resets the engine''s clock, in an installation made with the test clock.';

grant execute on function flowfabric.ff_test_set_clock(text, bigint) to flowfabric_admin;
