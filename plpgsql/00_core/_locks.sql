-- Locks of whole tables. A call that waits for one stops every later call behind it, so each wait is bounded.

create or replace function flowfabric._ff_table_holders(p_tables regclass[], p_modes text[] default null)
returns integer[]
language plpgsql volatile
as $$
begin
    return array(
        select l.pid
        from pg_locks as l
        where l.relation = any (p_tables) and l.granted and l.pid <> pg_backend_pid()
            and (p_modes is null or l.mode = any (p_modes))
            and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        group by l.pid
        order by l.pid
        limit 10);
end;
$$;
comment on function flowfabric._ff_table_holders(regclass[], text[]) is
'Internal: up to 10 other sessions of this database that hold locks of tables, of some modes or of any.';

-- A row lock is kept in the row. What the server can show is the lock of the table that comes with it.
create or replace function flowfabric._ff_row_holders(p_tables regclass[])
returns integer[]
language plpgsql volatile
as $$
begin
    return flowfabric._ff_table_holders(
        p_tables, array['RowShareLock', 'RowExclusiveLock', 'ShareRowExclusiveLock']);
end;
$$;
comment on function flowfabric._ff_row_holders(regclass[]) is
'Internal: up to 10 other sessions of this database that have locked or changed rows of tables.';

create or replace function flowfabric._ff_raise_tables_busy(p_holders integer[], p_wait_ms integer, p_fn text)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_raise(
        'retry_exhausted', p_fn,
        jsonb_build_object('op', p_fn, 'reason', 'lock_timeout', 'waited_ms', p_wait_ms, 'held_by', p_holders));
end;
$$;
comment on function flowfabric._ff_raise_tables_busy(integer[], integer, text) is
'Internal: raises retry_exhausted for a lock that was not granted in time, and names the sessions that hold it.';

-- ACCESS EXCLUSIVE, because a transaction that read the epoch holds ACCESS SHARE and nothing stronger. The clause
-- limits the timeout to this function: the caller keeps its own.
create or replace function flowfabric._ff_lock_event_epoch(p_wait_ms integer, p_fn text)
returns void
language plpgsql volatile
set lock_timeout = 0
as $$
begin
    perform set_config('lock_timeout', p_wait_ms::text, true);
    lock table flowfabric.ff_partition_config in access exclusive mode;
exception when lock_not_available then
    perform flowfabric._ff_raise_tables_busy(
        flowfabric._ff_table_holders(array['flowfabric.ff_partition_config'::regclass]), p_wait_ms, p_fn);
end;
$$;
comment on function flowfabric._ff_lock_event_epoch(integer, text) is
'Internal: waits until no transaction has read the event epoch, for at most p_wait_ms; raises retry_exhausted.';

-- Lanes come first, as in a creation. A creation that has not committed yet counts too: this waits for it.
create or replace function flowfabric._ff_lock_stored_work(p_wait_ms integer, p_fn text)
returns void
language plpgsql volatile
set lock_timeout = 0
as $$
begin
    perform set_config('lock_timeout', p_wait_ms::text, true);
    lock table flowfabric.ff_lane_registry, flowfabric.ff_exec_core, flowfabric.ff_flow_core in share mode;
exception when lock_not_available then
    perform flowfabric._ff_raise_tables_busy(
        flowfabric._ff_row_holders(array[
            'flowfabric.ff_lane_registry'::regclass, 'flowfabric.ff_exec_core'::regclass,
            'flowfabric.ff_flow_core'::regclass]),
        p_wait_ms, p_fn);
end;
$$;
comment on function flowfabric._ff_lock_stored_work(integer, text) is
'Internal: lets no session create lanes, executions or flows until the end of the transaction; raises retry_exhausted.';
