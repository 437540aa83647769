-- ff_list_attempts: the attempts of an execution, oldest first.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_list_attempts(
    p_execution_id text,
    p_after_index integer default null,
    p_limit integer default 100
)
returns setof flowfabric.ff_attempt_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_list_attempts';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, c_fn);
begin
    return query
    with page as materialized (
        select a.*
        from flowfabric._ff_all_attempts() as a
        where a.partition_key = v_key.partition_key and a.execution_id = v_key.execution_id
            and a.attempt_index > coalesce(p_after_index, -1)
        order by a.attempt_index
        limit v_limit + 1
    )
    select
        a.attempt_index, a.attempt_id, a.attempt_type, a.attempt_state, a.created_at_ms, a.started_at_ms,
        a.suspended_at_ms, a.resumed_at_ms, a.ended_at_ms, a.lease_id, a.lease_epoch, a.worker_id,
        a.worker_instance_id, a.failure_reason, a.failure_category, a.retry_reason, a.reclaim_reason,
        a.replay_reason, a.replay_requested_by, a.previous_attempt_index, a.replayed_from_attempt_index,
        m.closed_at_ms, m.closed_reason, m.frame_count, (select count(*) from page) > v_limit
    from page as a
    left join flowfabric.ff_stream_meta as m
        on m.partition_key = a.partition_key and m.execution_id = a.execution_id
            and m.attempt_index = a.attempt_index
    order by a.attempt_index
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_attempts(text, integer, integer) is
'The attempts of an execution, oldest first, a page at a time.';

grant execute on function flowfabric.ff_list_attempts(text, integer, integer)
to flowfabric_reader, flowfabric_operator;
