-- ff_register_worker: announce a worker process, at its start and whenever its lanes or capabilities change.
--
-- Fence:  none; the registry informs, and a claim needs no registration.
-- Locks:  the ff_worker_registry row.
-- Writes: ff_worker_registry, ff_worker_registry_event.
-- Raises: invalid_input, invalid_capabilities.
-- Retry:  safe; the repeat answers refreshed.
--
-- A row that lapsed counts as absent: the process starts anew, without the drain that was asked of the one before. A
-- live one keeps its drain, so that an operator's word outlives a hot restart under the same instance id.
create or replace function flowfabric.ff_register_worker(
    p_worker_id text,
    p_worker_instance_id text,
    p_lanes text[] default '{default}',
    p_capabilities text[] default '{}',
    p_namespace text default 'default',
    p_liveness_ttl_ms bigint default 60000
)
returns flowfabric.ff_worker_registration
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_register_worker';
    v_namespace text := coalesce(p_namespace, 'default');
    v_lanes text[];
    v_lane_id text;
    v_capabilities text[];
    v_worker flowfabric.ff_worker_registry;
    v_outcome text;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_worker_name(v_namespace, p_worker_instance_id, c_fn);
    if not flowfabric._ff_is_name(p_worker_id) then
        perform flowfabric._ff_raise_invalid_name(p_worker_id, 'worker_id', c_fn);
    end if;
    foreach v_lane_id in array coalesce(p_lanes, '{}') loop
        if not flowfabric._ff_is_lane_id(v_lane_id) then
            perform flowfabric._ff_raise_invalid_lane(v_lane_id, c_fn, 'lanes');
        end if;
    end loop;
    v_lanes := array(select distinct l.lane_id collate "C" from unnest(p_lanes) as l (lane_id) order by 1);
    if cardinality(v_lanes) not between 1 and 64 then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'lanes',
            case
                when p_lanes is null then 'null'
                when v_lanes = '{}' then 'empty'
                else 'too_many_items'
            end,
            cardinality(p_lanes)::text);
    end if;
    if p_liveness_ttl_ms is null or p_liveness_ttl_ms not between 1 and 86400000 then
        perform flowfabric._ff_raise_invalid(c_fn, 'liveness_ttl_ms', 'out_of_range', p_liveness_ttl_ms::text);
    end if;
    v_capabilities := flowfabric._ff_normalize_capabilities(p_capabilities, 'worker', c_fn);

    -- Another round only when somebody else inserts the row between the look and the insert.
    while v_outcome is null loop
        v_worker := flowfabric._ff_lock_worker(v_namespace, p_worker_instance_id);
        v_now_ms := flowfabric.ff_now_ms();
        if flowfabric._ff_is_live_worker(v_worker, v_now_ms) then
            if v_worker.worker_id <> p_worker_id then
                perform flowfabric._ff_raise_invalid(
                    c_fn, 'worker_instance_id', 'reassigned', p_worker_instance_id);
            end if;
            update flowfabric.ff_worker_registry as w
            set lanes = v_lanes,
                capabilities = v_capabilities,
                liveness_ttl_ms = p_liveness_ttl_ms,
                last_heartbeat_ms = v_now_ms
            where w.namespace = v_namespace and w.worker_instance_id = p_worker_instance_id;
            v_outcome := 'refreshed';
        else
            if v_worker.worker_id is not null then
                perform flowfabric._ff_delete_worker(v_worker, 'ttl_swept', null, v_now_ms);
            end if;
            insert into flowfabric.ff_worker_registry as w (
                namespace, worker_instance_id, worker_id, lanes, capabilities, last_heartbeat_ms, liveness_ttl_ms,
                registered_at_ms)
            values (
                v_namespace, p_worker_instance_id, p_worker_id, v_lanes, v_capabilities, v_now_ms, p_liveness_ttl_ms,
                v_now_ms)
            on conflict (namespace, worker_instance_id) do nothing
            returning w.* into v_worker;
            v_outcome := case when found then 'registered' end;
        end if;
    end loop;
    perform flowfabric._ff_note_worker(v_worker, v_outcome, null, v_now_ms);
    return row(v_outcome, v_now_ms + p_liveness_ttl_ms, v_worker.draining)::flowfabric.ff_worker_registration;
end;
$$;

comment on function flowfabric.ff_register_worker(text, text, text[], text[], text, bigint) is
'Announces a worker process with its lanes and capabilities, or refreshes what is known of it.';

grant execute on function flowfabric.ff_register_worker(text, text, text[], text[], text, bigint)
to flowfabric_worker;
