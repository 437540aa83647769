-- ff_list_suspended: the suspended executions of a partition, longest suspended first.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- Both parts of the order are in the cursor, so a page goes on where the last one ended even if the execution it ended
-- with has been resumed since.
create or replace function flowfabric.ff_list_suspended(
    p_partition_key smallint,
    p_after_suspended_at_ms bigint default null,
    p_after_execution_id text default null,
    p_limit integer default 100
)
returns setof flowfabric.ff_suspension_listing
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan -- these: a range of the index, in its order, whatever the statistics say
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_list_suspended';
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, c_fn);
    v_after_execution_id text := nullif(p_after_execution_id, '');
    v_after_ms bigint := coalesce(p_after_suspended_at_ms, -1);
    v_after_id uuid := '00000000-0000-0000-0000-000000000000'::uuid;
begin
    if p_partition_key is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'partition_key', 'null');
    end if;
    if (p_after_suspended_at_ms is null) <> (v_after_execution_id is null) then
        perform flowfabric._ff_raise_invalid(
            c_fn,
            case when v_after_execution_id is null then 'after_execution_id' else 'after_suspended_at_ms' end, 'null');
    end if;
    if v_after_execution_id is not null then
        begin
            v_after_id := (flowfabric._ff_parse_execution_id(v_after_execution_id, c_fn)).execution_id;
        exception when sqlstate 'ZV001' then
            perform flowfabric._ff_raise_invalid(c_fn, 'after_execution_id', 'malformed', v_after_execution_id);
        end;
    end if;
    return query
    select
        flowfabric.ff_format_execution_id(u.partition_key, u.execution_id), u.suspended_at_ms, u.reason_code,
        u.timeout_at_ms
    from flowfabric.ff_suspension_current as u
    where u.closed_at_ms is null and u.partition_key = p_partition_key
        and (u.suspended_at_ms, u.execution_id) > (v_after_ms, v_after_id)
    order by u.suspended_at_ms, u.execution_id
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_suspended(smallint, bigint, text, integer) is
'The suspended executions of a partition, longest suspended first, a page at a time.';

grant execute on function flowfabric.ff_list_suspended(smallint, bigint, text, integer)
to flowfabric_reader, flowfabric_operator;
