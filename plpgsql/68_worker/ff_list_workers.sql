-- ff_list_workers: the worker processes that are known, by namespace and instance id.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- Lapsed rows, which a sweep has yet to delete, are left out unless they are asked for.
create or replace function flowfabric.ff_list_workers(
    p_namespace text default null,
    p_after_namespace text default null,
    p_after_worker_instance_id text default null,
    p_limit integer default 1000,
    p_include_lapsed boolean default false
)
returns setof flowfabric.ff_worker_listing
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_list_workers';
    v_limit integer := flowfabric._ff_page_size(p_limit, 10000, c_fn);
    v_namespace text := nullif(p_namespace, '');
    v_after_instance_id text := nullif(p_after_worker_instance_id, '');
    -- Within one namespace the instance id alone is a cursor.
    v_after_namespace text := coalesce(nullif(p_after_namespace, ''), v_namespace);
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    if v_namespace is not null and not flowfabric._ff_is_name(v_namespace) then
        perform flowfabric._ff_raise_invalid_name(v_namespace, 'namespace', c_fn);
    end if;
    if v_after_instance_id is not null and v_after_namespace is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'after_namespace', 'null');
    end if;
    return query
    with page as materialized (
        select w.*
        from flowfabric.ff_worker_registry as w
        where (v_namespace is null or w.namespace = v_namespace)
            and (
                v_after_namespace is null
                or (w.namespace, w.worker_instance_id)
                > (v_after_namespace collate "C", coalesce(v_after_instance_id, '') collate "C"))
            and (p_include_lapsed or w.last_heartbeat_ms > v_now_ms - greatest(w.liveness_ttl_ms, 0))
        order by w.namespace, w.worker_instance_id
        limit v_limit + 1
    )
    select
        w.namespace, w.worker_instance_id, w.worker_id, w.lanes, w.capabilities, w.last_heartbeat_ms,
        w.liveness_ttl_ms,
        least(w.last_heartbeat_ms, flowfabric._ff_last_ms()) + least(w.liveness_ttl_ms, flowfabric._ff_longest_ms()),
        w.registered_at_ms, w.draining, w.drain_reason,
        w.last_heartbeat_ms > v_now_ms - greatest(w.liveness_ttl_ms, 0), (select count(*) from page) > v_limit
    from page as w
    order by w.namespace, w.worker_instance_id
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_list_workers(text, text, text, integer, boolean) is
'The worker processes that are known, by namespace and instance id, a page at a time.';

grant execute on function flowfabric.ff_list_workers(text, text, text, integer, boolean)
to flowfabric_reader, flowfabric_operator;
