-- ff_list_lease_history: the lease events of an execution that are still kept, oldest first.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- Lease events have no index by execution: it would cost every claim and every completion 160 to 240 bytes of WAL for
-- this one read (HOTPATH 3). So this one scans the kept events, and an operator waits a moment; ff_list_attempts holds
-- most of the same history and reads by key.
create or replace function flowfabric.ff_list_lease_history(
    p_execution_id text,
    p_after_event_id bigint default null,
    p_limit integer default 100
)
returns setof flowfabric.ff_lease_history_row
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_list_lease_history';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, c_fn);
begin
    return query
    with page as materialized (
        select v.*
        from flowfabric.ff_lease_event as v
        where v.partition_key = v_key.partition_key and v.execution_id = v_key.execution_id
            and v.event_id > coalesce(p_after_event_id, 0)
        order by v.event_id
        limit v_limit + 1
    )
    select
        v.event_id, v.occurred_at_ms, v.event_type, v.lease_id, v.lease_epoch, v.old_lease_epoch, v.attempt_index,
        v.attempt_id, v.worker_id, v.worker_instance_id, v.reason, (select count(*) from page) > v_limit
    from page as v
    order by v.event_id
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_lease_history(text, bigint, integer) is
'The lease events of an execution that are still kept, oldest first, a page at a time.';

grant execute on function flowfabric.ff_list_lease_history(text, bigint, integer)
to flowfabric_reader, flowfabric_operator;
