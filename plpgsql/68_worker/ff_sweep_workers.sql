-- ff_sweep_workers: delete worker processes whose heartbeats stopped, and waiters that nobody refreshed.
--
-- Fence:  none.
-- Locks:  the ff_worker_registry and ff_waiter rows it deletes, without waiting.
-- Writes: deletes from ff_worker_registry and ff_waiter; ff_worker_registry_event.
-- Raises: invalid_input.
-- Retry:  safe, and from any number of callers at once: each worker is swept once.
--
-- Lapsed workers and waiters count as absent anyway; this makes it visible and keeps both tables small. Rows and
-- events go in one transaction: never one without the other. The limit holds for workers and for waiters; a full batch
-- of either asks for another call. The longest wait is 10 minutes: a waiter beyond that was written before the clock
-- went back.
create or replace function flowfabric.ff_sweep_workers(p_limit integer default 500)
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_sweep_workers';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_lapsed integer;
    v_namespaces text[];
    v_instance_ids text[];
    v_worker_ids text[];
    v_swept integer;
    v_waiters integer;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    -- A row that was refreshed since the statement began is looked at again when its lock is there.
    with lapsed as materialized (
        select w.namespace, w.worker_instance_id
        from flowfabric.ff_worker_registry as w
        where w.last_heartbeat_ms + w.liveness_ttl_ms <= v_now_ms
        order by w.last_heartbeat_ms + w.liveness_ttl_ms
        limit p_limit
    ),
    locked as materialized (
        select w.namespace, w.worker_instance_id
        from flowfabric.ff_worker_registry as w
        join lapsed as l on l.namespace = w.namespace and l.worker_instance_id = w.worker_instance_id
        where w.last_heartbeat_ms + w.liveness_ttl_ms <= v_now_ms
        for update of w skip locked
    ),
    swept as (
        delete from flowfabric.ff_worker_registry as w
        using locked as l
        where w.namespace = l.namespace and w.worker_instance_id = l.worker_instance_id
        returning w.namespace, w.worker_instance_id, w.worker_id
    )
    select
        (select count(*)::integer from lapsed), array_agg(s.namespace), array_agg(s.worker_instance_id),
        array_agg(s.worker_id), count(*)::integer
    into v_lapsed, v_namespaces, v_instance_ids, v_worker_ids, v_swept
    from swept as s;
    if v_swept > 0 then
        perform flowfabric._ff_emit_worker(
            v_namespaces, v_instance_ids, v_worker_ids, 'ttl_swept', null, v_now_ms);
    end if;

    with lapsed as (
        select r.channel, r.key, r.waiter_id
        from flowfabric.ff_waiter as r
        where r.until_ms < v_now_ms - 60000 or r.until_ms > v_now_ms + 660000
        limit p_limit
        for update of r skip locked
    )
    delete from flowfabric.ff_waiter as r
    using lapsed as l
    where r.channel = l.channel and r.key = l.key and r.waiter_id = l.waiter_id;
    get diagnostics v_waiters = row_count;
    return row(
        v_swept + v_waiters, v_lapsed - v_swept, 0, greatest(v_swept, v_waiters) >= p_limit)::flowfabric.ff_scan;
end;
$$;

comment on function flowfabric.ff_sweep_workers(integer) is
'Scanner: deletes worker processes whose heartbeats stopped, with an event each, and waiters long forgotten.';

grant execute on function flowfabric.ff_sweep_workers(integer) to flowfabric_operator;
