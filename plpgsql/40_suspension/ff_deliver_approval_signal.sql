-- ff_deliver_approval_signal: an operator answers a waitpoint without ever handling its token.
--
-- Fence:  the operator role.
-- Locks:  the ff_exec_core row, which covers its suspension and waitpoints.
-- Writes: as ff_deliver_signal.
-- Raises: invalid_input, execution_not_found, waitpoint_not_found, target_not_signalable, waitpoint_closed,
--         waitpoint_pending_use_buffer_script, signal_limit_exceeded.
-- Retry:  safe; the same name and suffix again answer `duplicate`.
--
-- The authority is the right to call this function. No token is read or computed, so an approval works whatever became
-- of the key that signed one. A quorum of operators is possible: the source identity may be given.
create or replace function flowfabric.ff_deliver_approval_signal(
    p_execution_id text,
    p_lane_id text,
    p_waitpoint_id uuid,
    p_signal_name text,
    p_idempotency_suffix text,
    p_dedup_ttl_ms bigint default 86400000,
    p_source_identity text default ''
)
returns flowfabric.ff_signal_delivery
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_deliver_approval_signal';
    c_max_key_bytes constant integer := 512;
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_dedup_ttl_ms bigint := coalesce(p_dedup_ttl_ms, 86400000);
    v_idempotency_key text := 'approval:' || p_signal_name || ':' || p_idempotency_suffix;
    v_signal flowfabric.ff_signal;
    v_lane_id text;
begin
    if not flowfabric._ff_is_lane_id(p_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(p_lane_id, c_fn);
    end if;
    perform flowfabric._ff_check_signal_name(p_signal_name, c_fn);
    if nullif(p_idempotency_suffix, '') is null then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'idempotency_suffix', case when p_idempotency_suffix is null then 'null' else 'length' end);
    end if;
    if octet_length(v_idempotency_key) > c_max_key_bytes then
        perform flowfabric._ff_raise_invalid(c_fn, 'idempotency_suffix', 'length', p_idempotency_suffix);
    end if;
    v_signal := flowfabric._ff_read_signal(
        p_waitpoint_id, p_signal_name, null, 'approval', 'operator', p_source_identity, null, null, v_idempotency_key,
        null, 'execution', null, c_fn);
    perform flowfabric._ff_check_dedup_ttl(v_dedup_ttl_ms, c_fn);

    select e.lane_id into v_lane_id
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    if not found then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    if v_lane_id <> p_lane_id then
        perform flowfabric._ff_raise_invalid(c_fn, 'lane_id', 'lane_mismatch', p_lane_id);
    end if;
    return flowfabric._ff_accept_signal(v_key, v_signal, v_dedup_ttl_ms, false, true, c_fn);
end;
$$;

comment on function flowfabric.ff_deliver_approval_signal(text, text, uuid, text, text, bigint, text) is
'Delivers an operator''s answer to a waitpoint, without a token.';

grant execute on function flowfabric.ff_deliver_approval_signal(text, text, uuid, text, text, bigint, text)
to flowfabric_operator;
