-- ff_buffer_signal_for_pending_waitpoint: record a signal that arrived before its suspension.
--
-- Fence:  the waitpoint's token.
-- Locks:  nothing before the token was verified; then the ff_exec_core row, which covers its waitpoints.
-- Writes: ff_signal, ff_waitpoint_pending, ff_signal_event; ff_signal_dedup with a key. Never ff_exec_core.
-- Raises: invalid_input, payload_too_large, execution_not_found, missing_token, invalid_token, token_expired,
--         hmac_secret_not_initialized, invalid_secret, target_not_signalable, waitpoint_closed, waitpoint_not_pending,
--         signal_limit_exceeded.
-- Retry:  safe with a signal id or an idempotency key; keys are shared with ff_deliver_signal.
--
-- Nothing is evaluated here: there is no condition yet. ff_suspend_execution counts what it finds when it takes the
-- waitpoint into use. An active waitpoint is refused, because a signal buffered there would never be counted.
create or replace function flowfabric.ff_buffer_signal_for_pending_waitpoint(
    p_execution_id text,
    p_waitpoint_id uuid,
    p_waitpoint_token text,
    p_signal_name text,
    p_signal_id uuid default null,
    p_signal_category text default 'external',
    p_source_type text default 'external',
    p_source_identity text default '',
    p_payload bytea default null,
    p_payload_encoding text default 'json',
    p_idempotency_key text default null,
    p_dedup_ttl_ms bigint default 86400000,
    p_correlation_id text default null,
    p_target_scope text default 'waitpoint',
    p_created_at_ms bigint default null
)
returns flowfabric.ff_signal_delivery
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_buffer_signal_for_pending_waitpoint';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_dedup_ttl_ms bigint := coalesce(p_dedup_ttl_ms, 86400000);
    v_signal flowfabric.ff_signal;
begin
    v_signal := flowfabric._ff_read_signal(
        p_waitpoint_id, p_signal_name, p_signal_id, p_signal_category, p_source_type, p_source_identity, p_payload,
        p_payload_encoding, p_idempotency_key, p_correlation_id, p_target_scope, p_created_at_ms, c_fn);
    perform flowfabric._ff_check_dedup_ttl(v_dedup_ttl_ms, c_fn);
    perform flowfabric._ff_authenticate_signal(v_key, p_waitpoint_id, p_waitpoint_token, c_fn);

    return flowfabric._ff_accept_signal(v_key, v_signal, v_dedup_ttl_ms, true, false, c_fn);
end;
$$;

comment on function flowfabric.ff_buffer_signal_for_pending_waitpoint(
    text, uuid, text, text, uuid, text, text, text, bytea, text, text, bigint, text, text, bigint) is
'Records a signal with the waitpoint''s token before the suspension; it counts when the waitpoint becomes active.';

grant execute on function flowfabric.ff_buffer_signal_for_pending_waitpoint(
    text, uuid, text, text, uuid, text, text, text, bytea, text, text, bigint, text, text, bigint)
to flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator;
