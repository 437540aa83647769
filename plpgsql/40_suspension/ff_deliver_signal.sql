-- ff_deliver_signal: deliver a signal to an active waitpoint; resume the execution when its condition becomes true.
--
-- Fence:  the waitpoint's token.
-- Locks:  nothing before the token was verified; then the ff_exec_core row, which covers its suspension and waitpoints.
-- Writes: ff_signal, ff_waitpoint_pending, ff_suspension_current, ff_suspension_satisfier, ff_signal_event;
--         ff_signal_dedup with a key; ff_exec_core only when the condition becomes true.
-- Raises: invalid_input, payload_too_large, execution_not_found, missing_token, invalid_token, token_expired,
--         hmac_secret_not_initialized, invalid_secret, target_not_signalable, waitpoint_closed,
--         waitpoint_pending_use_buffer_script, waitpoint_not_found, signal_limit_exceeded.
-- Retry:  safe with a signal id or an idempotency key: the repeat answers `duplicate`, also after the resume.
--
-- A refused token leaves no trace: an unauthenticated caller must not cause writes, nor make anybody wait. A missing
-- waitpoint, one of another execution and a wrong token are the same refusal.
create or replace function flowfabric.ff_deliver_signal(
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
    c_fn constant text := 'ff_deliver_signal';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_dedup_ttl_ms bigint := coalesce(p_dedup_ttl_ms, 86400000);
    v_signal flowfabric.ff_signal;
begin
    v_signal := flowfabric._ff_read_signal(
        p_waitpoint_id, p_signal_name, p_signal_id, p_signal_category, p_source_type, p_source_identity, p_payload,
        p_payload_encoding, p_idempotency_key, p_correlation_id, p_target_scope, p_created_at_ms, c_fn);
    perform flowfabric._ff_check_dedup_ttl(v_dedup_ttl_ms, c_fn);
    perform flowfabric._ff_authenticate_signal(v_key, p_waitpoint_id, p_waitpoint_token, c_fn);

    return flowfabric._ff_accept_signal(v_key, v_signal, v_dedup_ttl_ms, false, false, c_fn);
end;
$$;

comment on function flowfabric.ff_deliver_signal(
    text, uuid, text, text, uuid, text, text, text, bytea, text, text, bigint, text, text, bigint) is
'Delivers a signal with the waitpoint''s token, and resumes the execution when that makes its condition true.';

grant execute on function flowfabric.ff_deliver_signal(
    text, uuid, text, text, uuid, text, text, text, bytea, text, text, bigint, text, text, bigint)
to flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator;
