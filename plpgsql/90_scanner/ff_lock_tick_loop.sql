-- ff_lock_tick_loop: claim the loop that runs the scanners, until the end of the transaction.
--
-- Fence:  none.
-- Locks:  the table ff_tick_loop_lock, SHARE ROW EXCLUSIVE, without waiting.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe; a session that has the lock gets it again.
--
-- For ff_tick_loop, which runs with the rights of its caller. Any login could hold an advisory lock and so keep the
-- loop from running. The table is locked rather than a row: a row lock takes a transaction id, and the loop that
-- sleeps with one would hold back the delivery of events.
create or replace function flowfabric.ff_lock_tick_loop()
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table flowfabric.ff_tick_loop_lock in share row exclusive mode nowait;
    return true;
exception when lock_not_available then
    return false;
end;
$$;

comment on function flowfabric.ff_lock_tick_loop() is
'Whether the calling transaction is the one that runs ff_tick_loop; true for one transaction at a time.';

grant execute on function flowfabric.ff_lock_tick_loop() to flowfabric_operator;
