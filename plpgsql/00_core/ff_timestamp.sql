-- ff_timestamp: an instant of the engine, in milliseconds since 1970, as a timestamp for people.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
--
-- An instant before 1970 or after the year 9999 is shown as the nearest one that clients can read. The engine's
-- functions store no such instant, but one that was stored by other means must not break a view for all its readers.
-- The last day of the year 9999 is shown as its first moment: east of Greenwich its end is in the year 10000.
--
-- Without SECURITY DEFINER and SET, so that the planner inlines it, and with every name qualified instead.
create or replace function flowfabric.ff_timestamp(p_ms bigint)
returns timestamptz
language sql immutable parallel safe
as $$
    select pg_catalog.to_timestamp(
        case
            when p_ms operator(pg_catalog.<) 0 then 0
            when p_ms operator(pg_catalog.<=) 253402214400000 then p_ms
            when p_ms is not null then 253402214400000
        end operator(pg_catalog./) 1000.0)
$$;

comment on function flowfabric.ff_timestamp(bigint) is
'The timestamp of an instant in milliseconds since 1970; one that no client can read is the nearest that it can.';

grant execute on function flowfabric.ff_timestamp(bigint)
to flowfabric_operator, flowfabric_reader;
