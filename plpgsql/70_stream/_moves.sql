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
        perform flowfabric._ff_wake('ff_stream', p_execution_id::text || '_' || p_attempt_index::text);
    end if;
end;
$$;
comment on function flowfabric._ff_close_stream(smallint, uuid, integer, text, boolean, bigint) is
'Internal: closes the output stream of an attempt that ever wrote one, and wakes its readers.';
