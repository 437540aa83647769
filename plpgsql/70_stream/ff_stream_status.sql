-- ff_stream_status: what is known of the stream of an attempt without its frames.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input; stream_not_found, if p_strict asks for it.
-- Retry:  safe.
create or replace function flowfabric.ff_stream_status(
    p_execution_id text,
    p_attempt_index integer,
    p_strict boolean default false
)
returns setof flowfabric.ff_stream_snapshot
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_stream_status';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
begin
    perform flowfabric._ff_check_attempt_index(p_attempt_index, c_fn);
    return query
    select
        m.attempt_id, m.created_at_ms, m.closed_at_ms, m.closed_reason,
        case when m.frame_count > 0 then m.last_ts_ms::text || '-' || m.last_seq::text end, m.frame_count,
        m.retained_count, m.total_bytes, m.last_frame_at_ms, m.has_durable_frame, m.expires_at_ms, m.ema_rate_hz,
        m.maxlen_applied_last
    from flowfabric.ff_stream_meta as m
    where m.partition_key = v_key.partition_key and m.execution_id = v_key.execution_id
        and m.attempt_index = p_attempt_index;
    if not found and p_strict then
        perform flowfabric._ff_raise(
            'stream_not_found', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id),
                'attempt_index', p_attempt_index));
    end if;
end;
$$;

comment on function flowfabric.ff_stream_status(text, integer, boolean) is
'Counts, limits and end of the stream of an attempt; no row, or stream_not_found, if it never wrote.';

grant execute on function flowfabric.ff_stream_status(text, integer, boolean)
to flowfabric_reader, flowfabric_operator;
