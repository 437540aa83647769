-- ff_record_signal_auth_failure: note that an execution received a signal with a bad token.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row, without waiting.
-- Writes: ff_exec_note, at most once per second and execution.
-- Raises: nothing, also for an unknown or malformed id: it must not tell a prober anything.
-- Retry:  safe.
--
-- The refused delivery itself writes nothing, so a client that wants operators to see a drifted key or an attack calls
-- this afterwards, in a transaction of its own. Under attack it costs one row version per second and never holds up
-- real work. The signaller cannot call it: without a valid token that role writes nothing.
create or replace function flowfabric.ff_record_signal_auth_failure(p_execution_id text)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_record_signal_auth_failure';
    c_pause_ms constant bigint := 1000::bigint;
    v_key flowfabric.ff_execution_key;
    v_now_ms bigint;
begin
    begin
        v_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    exception when sqlstate 'ZV001' then
        return;
    end;
    perform from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    for no key update skip locked;
    if not found then
        return;
    end if;
    v_now_ms := flowfabric.ff_now_ms();
    insert into flowfabric.ff_exec_note as n (partition_key, execution_id, last_hmac_validation_failed_at_ms)
    values (v_key.partition_key, v_key.execution_id, v_now_ms)
    on conflict (partition_key, execution_id) do update
    set last_hmac_validation_failed_at_ms = excluded.last_hmac_validation_failed_at_ms
    where n.last_hmac_validation_failed_at_ms is null
        or n.last_hmac_validation_failed_at_ms not between v_now_ms - c_pause_ms and v_now_ms;
end;
$$;

comment on function flowfabric.ff_record_signal_auth_failure(text) is
'Notes, at most once per second, that an execution received a signal with a bad token; never raises.';

grant execute on function flowfabric.ff_record_signal_auth_failure(text)
to flowfabric_worker, flowfabric_operator;
