-- ff_read_attempt_stream: read a range of frames of one attempt, and whether its stream has ended.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, invalid_offset.
-- Retry:  safe.
--
-- Frames and end come from one snapshot, so a reader that sees the end and no frame has seen them all. A stream that
-- was never written is not an error: a reader may come before the first frame. Without frames there is one row, whose
-- entry_id is NULL, for the end alone. The mode is looked at before the limit, so that a short page means the end.
create or replace function flowfabric.ff_read_attempt_stream(
    p_execution_id text,
    p_attempt_index integer,
    p_from text default 'start',
    p_to text default 'end',
    p_after text default null,
    p_count_limit integer default 1000,
    p_visibility text default 'all'
)
returns setof flowfabric.ff_stream_entry
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_read_attempt_stream';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_from flowfabric.ff_frame_position;
    v_to flowfabric.ff_frame_position;
    v_after flowfabric.ff_frame_position;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_attempt_index(p_attempt_index, c_fn);
    if p_count_limit is null or p_count_limit not between 1 and 10000 then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'count_limit',
            case
                when p_count_limit > 10000 then 'count_limit_exceeds_hard_cap' else 'count_limit must be >= 1'
            end,
            p_count_limit::text);
    end if;
    v_from := flowfabric._ff_parse_frame_id(coalesce(p_from, 'start'), false, c_fn);
    v_to := flowfabric._ff_parse_frame_id(coalesce(p_to, 'end'), true, c_fn);
    -- An id is above (-1, -1), and so is every frame: that lower bound excludes nothing.
    v_after := row(-1, -1)::flowfabric.ff_frame_position;
    if p_after is not null then
        if p_after in ('start', 'end') then
            perform flowfabric._ff_raise_invalid_offset(p_after, c_fn);
        end if;
        v_after := flowfabric._ff_parse_frame_id(p_after, false, c_fn);
        if p_from <> 'start' then
            perform flowfabric._ff_raise_invalid(c_fn, 'from', 'not_beside_after', p_from);
        end if;
    end if;
    if (p_visibility = any (flowfabric._ff_legal_values('visibility'))) is not true then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'visibility', p_visibility, flowfabric._ff_legal_values('visibility'));
    end if;

    v_now_ms := flowfabric.ff_now_ms();
    return query
    select
        f.ts_ms::text || '-' || f.seq::text, f.frame_type, f.frame_ts_ms, f.payload, f.encoding, f.source, f.mode,
        f.correlation_id, f.summary_version, f.ttl_ms, m.closed_at_ms, m.closed_reason
    from (values (v_key.partition_key, v_key.execution_id)) as k (partition_key, execution_id)
    left join flowfabric.ff_stream_meta as m
        on m.partition_key = k.partition_key and m.execution_id = k.execution_id
        and m.attempt_index = p_attempt_index
    left join lateral (
        select r.*
        from flowfabric.ff_stream_frame as r
        where r.partition_key = k.partition_key and r.execution_id = k.execution_id
            and r.attempt_index = p_attempt_index
            and (r.ts_ms, r.seq) > (v_after.ts_ms, v_after.seq)
            and (r.ts_ms, r.seq) >= (v_from.ts_ms, v_from.seq)
            and (r.ts_ms, r.seq) <= (v_to.ts_ms, v_to.seq)
            and (p_visibility = 'all' or r.mode <> 'best_effort')
            and (m.expires_at_ms <= v_now_ms) is not true
        order by r.ts_ms, r.seq
        limit p_count_limit
    ) as f on true
    order by f.ts_ms, f.seq;
end;
$$;

comment on function flowfabric.ff_read_attempt_stream(text, integer, text, text, text, integer, text) is
'Frames of an attempt in id order, and the end of its stream; one row without a frame if there is none.';

grant execute on function flowfabric.ff_read_attempt_stream(text, integer, text, text, text, integer, text)
to flowfabric_reader, flowfabric_operator;

-- Numbers beyond what a frame can have stand for the largest: they bound a range all the same.
create or replace function flowfabric._ff_parse_frame_id(p_offset text, p_is_upper boolean, p_fn text)
returns flowfabric.ff_frame_position
language plpgsql stable
as $$
declare
    c_max_ts_ms constant bigint := 9223372036854775807;
    c_max_seq constant integer := 2147483647;
    v_ts_ms text := split_part(p_offset, '-', 1);
    v_seq text := split_part(p_offset, '-', 2);
begin
    if p_offset = 'start' then
        return row(0, 0)::flowfabric.ff_frame_position;
    elsif p_offset = 'end' then
        return row(c_max_ts_ms, c_max_seq)::flowfabric.ff_frame_position;
    elsif p_offset !~ '^[0-9]{1,20}(-[0-9]{1,20})?$' then
        perform flowfabric._ff_raise_invalid_offset(p_offset, p_fn);
    end if;
    return row(
        least(v_ts_ms::numeric, c_max_ts_ms)::bigint,
        case
            when v_seq <> '' then least(v_seq::numeric, c_max_seq)::integer
            when p_is_upper then c_max_seq
            else 0
        end)::flowfabric.ff_frame_position;
end;
$$;
comment on function flowfabric._ff_parse_frame_id(text, boolean, text) is
'Internal: the bound that a frame id, start or end stands for; raises invalid_offset.';
