-- ff_bump_event_epoch: begin a new epoch of event cursors, because transaction ids may have gone back.
--
-- Fence:  none.
-- Locks:  the table ff_partition_config, exclusively: it waits for every transaction that has written an event.
-- Writes: event_epoch of ff_partition_config.
-- Raises: unavailable, when all 32767 epochs are used up.
-- Retry:  safe; every call begins another epoch, which costs nothing.
--
-- To be called after a dump was restored, after any other logical copy to another server, after a fail-over that lost
-- transactions, and after a shard moved to another node. A cursor of an older epoch then passes over to the new one
-- when it has read the old one to its end.
--
-- Readers take an older epoch for finished. Whoever writes an event has read the epoch from this table and holds the
-- lock of that reading until its commit; waiting for it makes sure that no event of an old epoch commits later.
create or replace function flowfabric.ff_bump_event_epoch()
returns smallint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_bump_event_epoch';
    v_epoch smallint;
begin
    lock table flowfabric.ff_partition_config in access exclusive mode;
    update flowfabric.ff_partition_config as c
    set event_epoch = c.event_epoch + 1
    where c.event_epoch < 32767
    returning c.event_epoch into v_epoch;
    if not found then
        perform flowfabric._ff_raise(
            'unavailable', c_fn, jsonb_build_object('op', c_fn, 'reason', 'event_epochs_used_up'));
    end if;
    return v_epoch;
end;
$$;

comment on function flowfabric.ff_bump_event_epoch() is
'Begins a new epoch of event cursors, after transaction ids may have gone back; returns it.';

grant execute on function flowfabric.ff_bump_event_epoch() to flowfabric_operator;
