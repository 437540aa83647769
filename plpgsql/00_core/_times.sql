-- Times: milliseconds since 1970, and durations in milliseconds.
--
-- The last instant is the end of the year 9999: what comes later, neither Python nor people can read. The longest
-- duration is 1000 years, so that a sum with the clock stays before that instant.

create or replace function flowfabric._ff_last_ms()
returns bigint
language sql immutable parallel safe
as $$
    select 253402300799999
$$;
comment on function flowfabric._ff_last_ms() is 'Internal: the last instant that the engine stores.';

create or replace function flowfabric._ff_longest_ms()
returns bigint
language sql immutable parallel safe
as $$
    select 31536000000000
$$;
comment on function flowfabric._ff_longest_ms() is 'Internal: the longest duration that the engine takes.';

-- An instant that was stored by other means may be any number.
create or replace function flowfabric._ff_age_ms(p_since_ms bigint, p_now_ms bigint)
returns bigint
language sql immutable parallel safe
as $$
    select case when p_since_ms < 0 then p_now_ms else greatest(p_now_ms - p_since_ms, 0) end
$$;
comment on function flowfabric._ff_age_ms(bigint, bigint) is
'Internal: how long ago an instant was; 0 for one to come, and for none.';

create or replace function flowfabric._ff_check_instant(p_ms bigint, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_ms not between 0 and flowfabric._ff_last_ms() then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'out_of_range', p_ms::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_instant(bigint, text, text) is
'Internal: raises invalid_input for an instant, if there is one, before 1970 or after the year 9999.';

create or replace function flowfabric._ff_check_duration(p_ms bigint, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_ms not between 0 and flowfabric._ff_longest_ms() then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'out_of_range', p_ms::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_duration(bigint, text, text) is
'Internal: raises invalid_input for a duration, if there is one, that is negative or longer than 1000 years.';
