-- Locks of whole tables. A call that waits for one stops every later call behind it, so each wait is bounded.

create or replace function flowfabric._ff_raise_tables_busy(p_tables regclass[], p_wait_ms integer, p_fn text)
returns void
language plpgsql volatile
as $$
declare
    v_holders integer[];
begin
    v_holders := array(
        select l.pid
        from pg_locks as l
        where l.relation = any (p_tables) and l.granted and l.pid <> pg_backend_pid()
            and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        group by l.pid
        order by l.pid
        limit 10);
    perform flowfabric._ff_raise(
        'retry_exhausted', p_fn,
        jsonb_build_object('op', p_fn, 'reason', 'lock_timeout', 'waited_ms', p_wait_ms, 'held_by', v_holders));
end;
$$;
comment on function flowfabric._ff_raise_tables_busy(regclass[], integer, text) is
'Internal: raises retry_exhausted for a table lock that was not granted in time; names up to 10 holders.';

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
    perform flowfabric._ff_raise_tables_busy(array['flowfabric.ff_partition_config'::regclass], p_wait_ms, p_fn);
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
        array[
            'flowfabric.ff_lane_registry'::regclass, 'flowfabric.ff_exec_core'::regclass,
            'flowfabric.ff_flow_core'::regclass],
        p_wait_ms, p_fn);
end;
$$;
comment on function flowfabric._ff_lock_stored_work(integer, text) is
'Internal: lets no session create lanes, executions or flows until the end of the transaction; raises retry_exhausted.';
