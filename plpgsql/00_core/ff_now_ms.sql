-- ff_now_ms: the engine's clock, whole milliseconds rounded down.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
--
-- The wall clock of the database, not the start of the transaction: a call that waited for a lock must not judge a
-- lease by the time before the wait. Reads no table, and is inlined. ff_now_ms.test_clock.sql replaces it in an
-- installation made with --with-test-clock.
create or replace function flowfabric.ff_now_ms()
returns bigint
language sql volatile parallel safe
as $$
    select floor(extract(epoch from clock_timestamp()) * 1000)::bigint
$$;

comment on function flowfabric.ff_now_ms() is
'The time of the engine: milliseconds since 1970, by the clock of the database.';

grant execute on function flowfabric.ff_now_ms()
to flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader;
