-- ff_append_frame: append one frame to the output stream of the attempt whose lease the caller holds.
--
-- Fence:  lease id, lease epoch, attempt id and attempt index must all name the current, unexpired lease.
-- Locks:  the ff_stream_meta row, until the commit; for the first frame of an attempt the ff_exec_core row before it.
-- Writes: ff_stream_frame, ff_stream_meta; ff_stream_summary in summary mode; with the first frame of an attempt a new
--         version of the ff_exec_core row, without a change.
-- Raises: invalid_input, payload_too_large, fence_required, partial_fence_triple, retention_limit_exceeded,
--         stream_closed, stale_owner_cannot_append.
-- Retry:  not safe: a repeat appends again. A producer recognises its own frames by their correlation id.
--
-- Whoever ends an attempt holds the execution's row and closes the stream's row if there is one. So an append that
-- holds the stream's row, and reads the execution's after that, either sees the end or comes before it; the execution
-- is neither locked nor dirtied. Only the first append finds no row that an end would have to wait for, and locks the
-- execution instead; the new version of that row stops an end whose snapshot is too old to see the stream. The lock
-- also makes frames visible in the order of their ids, so that no reader can miss one.
--
-- The most frequent call of all: scalars instead of rows, one IF for the arguments and one for the fence
-- (HOTPATH 2.7, 2.10). The planner settings keep a plan made for a table of a few pages from scanning it when it has
-- grown (HOTPATH 4).
create or replace function flowfabric.ff_append_frame(
    p_execution_id text,
    p_attempt_index integer,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_frame_type text,
    p_payload bytea default '',
    p_encoding text default 'utf8',
    p_correlation_id text default null,
    p_source text default 'worker',
    p_frame_ts_ms bigint default null,
    p_stream_mode text default 'durable',
    p_patch_kind text default 'json-merge-patch',
    p_ttl_ms integer default 0,
    p_maxlen_floor integer default 64,
    p_maxlen_ceiling integer default 16384,
    p_ema_alpha double precision default 0.2,
    p_retention_maxlen integer default 0,
    p_max_payload_bytes integer default 65536
)
returns flowfabric.ff_appended_frame
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_append_frame';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_payload bytea := coalesce(p_payload, ''::bytea);
    v_now_ms bigint;
    -- the stream
    v_has_meta boolean;
    v_closed_at_ms bigint;
    v_closed_reason text;
    v_ts_ms bigint;
    v_seq integer;
    v_frame_count bigint;
    v_retained_count bigint;
    v_has_durable_frame boolean;
    v_expires_at_ms bigint;
    v_rate_hz double precision;
    v_measured_at_ms bigint;
    v_maxlen integer;
    v_target_count bigint := 10000::bigint;
    v_slack integer := 100;
    v_summary_version bigint;
    -- the execution
    v_phase flowfabric.ff_lifecycle_phase;
    v_ownership flowfabric.ff_ownership_state;
    v_lease_id uuid;
    v_lease_epoch bigint;
    v_attempt_id uuid;
    v_attempt_index integer;
    v_lease_expires_at_ms bigint;
    v_has_waiters boolean;
begin
    if (p_attempt_index >= 0 and p_frame_type <> ''
        and p_stream_mode = any (flowfabric._ff_legal_values('stream_mode'))
        and p_retention_maxlen >= 0 and p_ttl_ms >= 0 and octet_length(v_payload) <= least(p_max_payload_bytes, 65536)
        and octet_length(concat(p_frame_type, p_encoding, p_correlation_id, p_source)) <= 256
        and coalesce(p_frame_ts_ms, 0) between 0 and flowfabric._ff_last_ms()
        and num_nulls(p_lease_id, p_lease_epoch, p_attempt_id, p_max_payload_bytes) = 0) is not true
    then
        perform flowfabric._ff_refuse_frame(
            v_key, p_attempt_index, p_lease_id, p_lease_epoch, p_attempt_id, p_frame_type, octet_length(v_payload),
            p_frame_ts_ms, p_stream_mode, p_ttl_ms, p_retention_maxlen, p_max_payload_bytes, c_fn);
        perform flowfabric._ff_check_label(p_frame_type, 'frame_type', c_fn);
        perform flowfabric._ff_check_label(p_encoding, 'encoding', c_fn);
        perform flowfabric._ff_check_label(p_correlation_id, 'correlation_id', c_fn);
        perform flowfabric._ff_check_label(p_source, 'source', c_fn);
    end if;

    -- The first append of an attempt goes round twice: it makes the row, or waits for somebody else who does, and then
    -- checks again under its lock.
    loop
        select
            m.closed_at_ms, m.closed_reason, m.last_ts_ms, m.last_seq, m.frame_count, m.retained_count,
            m.has_durable_frame, m.expires_at_ms, m.ema_rate_hz, m.last_append_ts_ms, m.maxlen_applied_last
        into
            v_closed_at_ms, v_closed_reason, v_ts_ms, v_seq, v_frame_count, v_retained_count, v_has_durable_frame,
            v_expires_at_ms, v_rate_hz, v_measured_at_ms, v_maxlen
        from flowfabric.ff_stream_meta as m
        where m.partition_key = v_key.partition_key and m.execution_id = v_key.execution_id
            and m.attempt_index = p_attempt_index
        for no key update;
        v_has_meta := found;
        if v_has_meta then
            select
                e.lifecycle_phase, e.ownership_state, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id,
                e.total_attempt_count - 1, e.lease_expires_at_ms,
                exists (select from flowfabric.ff_waiter as w where w.channel = 'ff_stream')
            into
                v_phase, v_ownership, v_lease_id, v_lease_epoch, v_attempt_id, v_attempt_index, v_lease_expires_at_ms,
                v_has_waiters
            from flowfabric.ff_exec_core as e
            where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
        else
            select
                e.lifecycle_phase, e.ownership_state, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id,
                e.total_attempt_count - 1, e.lease_expires_at_ms
            into
                v_phase, v_ownership, v_lease_id, v_lease_epoch, v_attempt_id, v_attempt_index, v_lease_expires_at_ms
            from flowfabric.ff_exec_core as e
            where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
            for no key update;
        end if;
        v_now_ms := flowfabric.ff_now_ms();
        if (v_phase = 'active' and v_ownership = 'leased' and v_lease_expires_at_ms > v_now_ms
            and p_attempt_index = v_attempt_index and p_lease_id = v_lease_id and p_lease_epoch = v_lease_epoch
            and p_attempt_id = v_attempt_id) is not true
        then
            perform flowfabric._ff_raise(
                case when v_phase = 'active' then 'stale_owner_cannot_append' else 'stream_closed' end, c_fn,
                jsonb_build_object(
                    'execution_id', flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id),
                    'attempt_index', p_attempt_index));
        end if;
        exit when v_has_meta;
        insert into flowfabric.ff_stream_meta (
            partition_key, execution_id, attempt_index, attempt_id, created_at_ms, retention_maxlen)
        values (v_key.partition_key, v_key.execution_id, p_attempt_index, p_attempt_id, v_now_ms, p_retention_maxlen)
        on conflict do nothing;
        if found then
            perform flowfabric._ff_touch_execution(v_key.partition_key, v_key.execution_id);
        end if;
    end loop;
    if v_closed_at_ms is not null then
        perform flowfabric._ff_raise(
            'stream_closed', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id),
                'attempt_index', p_attempt_index, 'closed_reason', v_closed_reason));
    end if;

    if v_expires_at_ms <= v_now_ms then
        perform flowfabric._ff_drop_oldest_frames(v_key.partition_key, v_key.execution_id, p_attempt_index, null);
        v_retained_count := 0;
        v_expires_at_ms := null;
    end if;
    if p_stream_mode = 'best_effort' then
        select l.p_new_rate_hz, l.p_new_maxlen into v_rate_hz, v_maxlen
        from flowfabric._ff_estimate_length(
            v_rate_hz, v_now_ms - v_measured_at_ms, p_ttl_ms, p_maxlen_floor, p_maxlen_ceiling, p_ema_alpha) as l;
        v_measured_at_ms := v_now_ms;
        v_target_count := v_maxlen::bigint;
        if not v_has_durable_frame and p_ttl_ms > 0 then
            v_expires_at_ms := v_now_ms + 2 * p_ttl_ms::bigint;
        end if;
    else
        v_has_durable_frame := true;
        v_expires_at_ms := null;
        if p_stream_mode = 'summary' then
            v_summary_version := flowfabric._ff_patch_summary(
                v_key, p_attempt_index, v_payload, p_patch_kind, v_now_ms, c_fn);
            v_target_count := 64;
        elsif p_retention_maxlen > 0 then
            v_target_count := p_retention_maxlen::bigint;
            v_slack := 0;
        end if;
    end if;

    v_seq := case when v_ts_ms >= v_now_ms then v_seq + 1 else 0 end;
    v_ts_ms := greatest(v_ts_ms, v_now_ms);
    insert into flowfabric.ff_stream_frame (
        partition_key, execution_id, attempt_index, ts_ms, seq, frame_type, frame_ts_ms, payload, encoding, source,
        mode, correlation_id, summary_version, ttl_ms)
    values (
        v_key.partition_key, v_key.execution_id, p_attempt_index, v_ts_ms, v_seq, p_frame_type,
        coalesce(p_frame_ts_ms, v_now_ms), v_payload, coalesce(p_encoding, 'utf8'), coalesce(p_source, 'worker'),
        p_stream_mode, nullif(p_correlation_id, ''), v_summary_version,
        case when p_stream_mode = 'best_effort' then nullif(p_ttl_ms, 0) end);

    v_frame_count := v_frame_count + 1;
    v_retained_count := v_retained_count + 1;
    if v_retained_count > v_target_count + v_slack then
        perform flowfabric._ff_drop_oldest_frames(
            v_key.partition_key, v_key.execution_id, p_attempt_index, v_retained_count - v_target_count);
        v_retained_count := v_target_count;
    end if;
    update flowfabric.ff_stream_meta as m
    set last_ts_ms = v_ts_ms,
        last_seq = v_seq,
        frame_count = v_frame_count,
        retained_count = v_retained_count,
        total_bytes = m.total_bytes + octet_length(v_payload),
        last_frame_at_ms = v_now_ms,
        has_durable_frame = v_has_durable_frame,
        expires_at_ms = v_expires_at_ms,
        ema_rate_hz = v_rate_hz,
        last_append_ts_ms = v_measured_at_ms,
        maxlen_applied_last = v_maxlen
    where m.partition_key = v_key.partition_key and m.execution_id = v_key.execution_id
        and m.attempt_index = p_attempt_index;
    if v_has_waiters then
        perform flowfabric._ff_wake_tailers(v_key.execution_id, p_attempt_index);
    end if;
    return row(v_ts_ms::text || '-' || v_seq::text, v_frame_count, v_summary_version)::flowfabric.ff_appended_frame;
end;
$$;

comment on function flowfabric.ff_append_frame(
    text, integer, uuid, bigint, uuid, text, bytea, text, text, text, bigint, text, text, integer, integer, integer,
    double precision, integer, integer) is
'Appends one frame to the output stream of the attempt whose lease the caller holds.';

grant execute on function flowfabric.ff_append_frame(
    text, integer, uuid, bigint, uuid, text, bytea, text, text, text, bigint, text, text, integer, integer, integer,
    double precision, integer, integer)
to flowfabric_worker;

-- Finds the argument that the one IF of the append did not pass, in the order of the specification, and raises its
-- code. A payload of more than 64 KiB may be allowed after all, and long texts are left to the caller.
create or replace function flowfabric._ff_refuse_frame(
    p_key flowfabric.ff_execution_key,
    p_attempt_index integer,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_frame_type text,
    p_payload_bytes integer,
    p_frame_ts_ms bigint,
    p_stream_mode text,
    p_ttl_ms integer,
    p_retention_maxlen integer,
    p_max_payload_bytes integer,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_exec flowfabric.ff_exec_core;
    v_refusal flowfabric.ff_refusal;
begin
    perform flowfabric._ff_check_attempt_index(p_attempt_index, p_fn);
    if nullif(p_frame_type, '') is null then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'frame_type', case when p_frame_type is null then 'null' else 'empty' end);
    end if;
    if (p_stream_mode = any (flowfabric._ff_legal_values('stream_mode'))) is not true then
        perform flowfabric._ff_raise_unknown(
            p_fn, 'stream_mode', p_stream_mode, flowfabric._ff_legal_values('stream_mode'));
    end if;
    perform flowfabric._ff_check_not_negative(p_retention_maxlen, 'retention_maxlen', p_fn);
    perform flowfabric._ff_check_not_negative(p_ttl_ms, 'ttl_ms', p_fn);
    perform flowfabric._ff_check_not_negative(p_max_payload_bytes, 'max_payload_bytes', p_fn);
    perform flowfabric._ff_check_instant(p_frame_ts_ms, 'frame_ts_ms', p_fn);
    -- The first two checks of a fence need no more of the execution than its id.
    if num_nulls(p_lease_id, p_lease_epoch, p_attempt_id) > 0 then
        v_exec.partition_key := p_key.partition_key;
        v_exec.execution_id := p_key.execution_id;
        v_refusal := flowfabric._ff_fence_refusal(v_exec, p_lease_id, p_lease_epoch, p_attempt_id, null, false, null);
        perform flowfabric._ff_raise(v_refusal.code, p_fn, v_refusal.detail);
    end if;
    if (p_payload_bytes <= p_max_payload_bytes) is not true then
        perform flowfabric._ff_raise(
            'retention_limit_exceeded', p_fn,
            jsonb_build_object('limit_bytes', p_max_payload_bytes, 'actual_bytes', p_payload_bytes));
    end if;
    perform flowfabric._ff_check_payload_size(p_payload_bytes, 'payload', p_fn);
end;
$$;
comment on function flowfabric._ff_refuse_frame(
    flowfabric.ff_execution_key, integer, uuid, bigint, uuid, text, integer, bigint, text, integer, integer, integer,
    text) is
'Internal: raises why the arguments of an append are refused, if they are.';
