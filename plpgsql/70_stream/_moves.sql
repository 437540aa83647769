-- The moves of an output stream.

create or replace function flowfabric._ff_close_stream(
    p_partition_key smallint,
    p_execution_id uuid,
    p_attempt_index integer,
    p_reason text,
    p_only_if_open boolean,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    update flowfabric.ff_stream_meta as m
    set closed_at_ms = p_now_ms, closed_reason = p_reason
    where m.partition_key = p_partition_key and m.execution_id = p_execution_id
        and m.attempt_index = p_attempt_index
        and not (p_only_if_open and m.closed_at_ms is not null);
    if found then
        perform flowfabric._ff_wake_tailers(p_execution_id, p_attempt_index);
    end if;
end;
$$;
comment on function flowfabric._ff_close_stream(smallint, uuid, integer, text, boolean, bigint) is
'Internal: closes the output stream of an attempt that ever wrote one, and wakes its readers.';

create or replace function flowfabric._ff_stream_key(p_execution_id uuid, p_attempt_index integer)
returns text
language sql immutable parallel safe
as $$
    select p_execution_id::text || '_' || p_attempt_index::text
$$;
comment on function flowfabric._ff_stream_key(uuid, integer) is
'Internal: what the readers of a stream wait for on channel ff_stream.';

create or replace function flowfabric._ff_wake_tailers(p_execution_id uuid, p_attempt_index integer)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_wake('ff_stream', flowfabric._ff_stream_key(p_execution_id, p_attempt_index));
end;
$$;
comment on function flowfabric._ff_wake_tailers(uuid, integer) is 'Internal: wakes the waiting readers of a stream.';

-- Arguments

create or replace function flowfabric._ff_check_not_negative(p_number integer, p_field text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_number is null or p_number < 0 then
        perform flowfabric._ff_raise_invalid(
            p_fn, p_field, case when p_number is null then 'null' else 'out_of_range' end, p_number::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_not_negative(integer, text, text) is
'Internal: raises invalid_input unless a number is given and at least 0.';

create or replace function flowfabric._ff_check_attempt_index(p_attempt_index integer, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_check_not_negative(p_attempt_index, 'attempt_index', p_fn);
end;
$$;
comment on function flowfabric._ff_check_attempt_index(integer, text) is
'Internal: raises invalid_input unless a number can be the index of an attempt.';

create or replace function flowfabric._ff_raise_invalid_offset(p_offset text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise('invalid_offset', p_fn, jsonb_build_object('offset', left(p_offset, 200)));
end;
$$;
comment on function flowfabric._ff_raise_invalid_offset(text, text) is
'Internal: raises invalid_offset for a position in a stream of frames or of events.';

-- Trimming

-- The caller holds the stream's row, so nobody appends or trims beside it.
create or replace function flowfabric._ff_drop_oldest_frames(
    p_partition_key smallint,
    p_execution_id uuid,
    p_attempt_index integer,
    p_count bigint
)
returns void
language plpgsql volatile
as $$
begin
    delete from flowfabric.ff_stream_frame as f
    where f.ctid = any (array(
        select o.ctid
        from flowfabric.ff_stream_frame as o
        where o.partition_key = p_partition_key and o.execution_id = p_execution_id
            and o.attempt_index = p_attempt_index
        order by o.ts_ms, o.seq
        limit p_count));
end;
$$;
comment on function flowfabric._ff_drop_oldest_frames(smallint, uuid, integer, bigint) is
'Internal: deletes the oldest frames of a stream, all of them if the count is NULL.';

-- A first best-effort frame has no rate to average with: it starts at the one that makes the length the floor.
create or replace function flowfabric._ff_estimate_length(
    p_rate_hz double precision,
    p_elapsed_ms bigint,
    p_ttl_ms integer,
    p_maxlen_floor integer,
    p_maxlen_ceiling integer,
    p_ema_alpha double precision,
    out p_new_rate_hz double precision,
    out p_new_maxlen integer
)
language plpgsql immutable parallel safe
as $$
declare
    v_floor integer := case when p_maxlen_floor > 0 then p_maxlen_floor else 64 end;
    v_ceiling integer := greatest(case when p_maxlen_ceiling > 0 then p_maxlen_ceiling else 16384 end, v_floor);
    v_alpha double precision := case
        when p_ema_alpha > 0 and p_ema_alpha <= 1 then p_ema_alpha else 0.2::double precision end;
    v_two_lives_s double precision := greatest(p_ttl_ms, 1) / 500.0::double precision;
begin
    if p_rate_hz is null then
        p_new_rate_hz := v_floor / v_two_lives_s;
        p_new_maxlen := v_floor;
    else
        p_new_rate_hz := v_alpha * 1000 / greatest(p_elapsed_ms, 1) + (1 - v_alpha) * p_rate_hz;
        p_new_maxlen := least(greatest(ceil(p_new_rate_hz * v_two_lives_s), v_floor), v_ceiling)::integer;
    end if;
end;
$$;
comment on function flowfabric._ff_estimate_length(
    double precision, bigint, integer, integer, integer, double precision) is
'Internal: the average rate of best-effort frames after one more, and how many of them are those of two lifetimes.';
