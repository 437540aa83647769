-- ff_bump_event_epoch: begin a new epoch of event cursors, because transaction ids may have gone back.
--
-- Fence:  none.
-- Locks:  the table ff_partition_config, ACCESS EXCLUSIVE: it waits for every transaction that has written an event.
-- Writes: event_epoch of ff_partition_config.
-- Raises: invalid_input; retry_exhausted after p_wait_ms; unavailable, when all 32767 epochs are used up.
-- Retry:  safe; every call begins another epoch, which costs nothing.
--
-- To be called after a dump was restored, after any other logical copy to another server, after a fail-over that lost
-- transactions, and after a shard moved to another node. A cursor of an older epoch then passes over to the new one
-- when it has read the old one to its end.
--
-- Readers take an older epoch for finished. A transaction that writes an event has read the epoch from this table and
-- holds the lock of that reading until its commit, so waiting for the lock waits for the events. Every call of the
-- engine that starts meanwhile waits behind this one: hence the limit. A transaction under REPEATABLE READ that began
-- before this call, and touches the engine only afterwards, still writes in the old epoch: end such transactions
-- first.
create or replace function flowfabric.ff_bump_event_epoch(p_wait_ms integer default 900)
returns smallint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_bump_event_epoch';
    v_epoch smallint;
begin
    if p_wait_ms is null or p_wait_ms not between 1 and 600000 then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'wait_ms', case when p_wait_ms is null then 'null' else 'out_of_range' end, p_wait_ms::text);
    end if;
    perform flowfabric._ff_lock_event_epoch(p_wait_ms, c_fn);
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

comment on function flowfabric.ff_bump_event_epoch(integer) is
'Begins a new epoch of event cursors, after transaction ids may have gone back; returns it.';

grant execute on function flowfabric.ff_bump_event_epoch(integer) to flowfabric_operator;
