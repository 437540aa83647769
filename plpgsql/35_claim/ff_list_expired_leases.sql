-- ff_list_expired_leases: the leases that have run out, longest expired first, whether or not a scanner has marked
-- them.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- It only lists: to take one over is its caller's decision, from `takeover_at_ms` on. It has no revoked leases.
-- A page starts after the next_after_… of the page before.
--
-- Leases are read lane by lane in the order of the list: those that no scanner has marked, and the marked ones. Of each
-- of these lists one call takes 1000 rows, or one more than the page has; marked ones are sorted for that. Where a list
-- was not read to its end, the page ends at the earliest of such places. If that leaves no lease, the page is one row
-- without an execution id, which says where to continue.
create or replace function flowfabric.ff_list_expired_leases(
    p_as_of_ms bigint default null,
    p_namespace text default null,
    p_limit integer default 1000,
    p_after_expires_at_ms bigint default null,
    p_after_partition_key smallint default null,
    p_after_execution_id uuid default null
)
returns setof flowfabric.ff_expired_lease_listing
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these: each list is read in the order of its index, whatever the statistics say
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_list_expired_leases';
    v_limit integer := flowfabric._ff_page_size(p_limit, 10000, c_fn);
    v_max_scanned integer := greatest(v_limit + 1, 1000);
    v_as_of_ms bigint := coalesce(p_as_of_ms, flowfabric.ff_now_ms());
    v_after_ms bigint := coalesce(p_after_expires_at_ms, -1);
    v_after_partition smallint := coalesce(p_after_partition_key, -1::smallint);
    v_after_id uuid := coalesce(p_after_execution_id, '00000000-0000-0000-0000-000000000000');
begin
    if p_namespace is not null and not flowfabric._ff_is_name(p_namespace) then
        perform flowfabric._ff_raise_invalid_name(p_namespace, 'namespace', c_fn);
    end if;
    if num_nulls(p_after_expires_at_ms, p_after_partition_key, p_after_execution_id) not in (0, 3) then
        perform flowfabric._ff_raise_invalid(
            c_fn,
            case
                when p_after_expires_at_ms is null then 'after_expires_at_ms'
                when p_after_partition_key is null then 'after_partition_key'
                else 'after_execution_id'
            end,
            'null');
    end if;

    if v_limit = 0 then
        return;
    end if;
    return query
    with scanned as materialized (
        select m.*
        from flowfabric.ff_lane_registry as l
        cross join lateral (
            select
                u.*, row_number() over (order by u.lease_expires_at_ms, u.partition_key, u.execution_id) as place
            from (
                select
                    e.partition_key, e.execution_id, e.current_lease_id, e.current_lease_epoch,
                    e.current_attempt_id, e.total_attempt_count, e.current_worker_id,
                    e.current_worker_instance_id, e.lease_expires_at_ms, e.ownership_state, e.namespace,
                    e.lease_reclaim_count, e.delay_until_ms
                from flowfabric.ff_exec_core as e
                where e.ownership_state = 'leased'
                    and e.lane_id = l.lane_id
                    and e.lease_expires_at_ms <= v_as_of_ms and e.lease_expires_at_ms >= v_after_ms
                    and (e.lease_expires_at_ms, e.partition_key, e.execution_id)
                    > (v_after_ms, v_after_partition, v_after_id)
                order by e.lease_expires_at_ms, e.partition_key, e.execution_id
                limit v_max_scanned
            ) as u
        ) as m
        union all
        select m.*
        from flowfabric.ff_lane_registry as l
        cross join lateral (
            select
                u.*, row_number() over (order by u.lease_expires_at_ms, u.partition_key, u.execution_id) as place
            from (
                select
                    e.partition_key, e.execution_id, e.current_lease_id, e.current_lease_epoch,
                    e.current_attempt_id, e.total_attempt_count, e.current_worker_id,
                    e.current_worker_instance_id, e.lease_expires_at_ms, e.ownership_state, e.namespace,
                    e.lease_reclaim_count, e.delay_until_ms
                from flowfabric.ff_exec_core as e
                where e.ownership_state in ('lease_expired_reclaimable', 'lease_revoked')
                    and e.lane_id = l.lane_id
                    and e.lease_expires_at_ms <= v_as_of_ms and e.lease_expires_at_ms >= v_after_ms
                    and (e.lease_expires_at_ms, e.partition_key, e.execution_id)
                    > (v_after_ms, v_after_partition, v_after_id)
                order by e.lease_expires_at_ms, e.partition_key, e.execution_id
                limit v_max_scanned
            ) as u
        ) as m
    ),
    cut as (
        select s.lease_expires_at_ms, s.partition_key, s.execution_id
        from scanned as s
        where s.place = v_max_scanned
        order by s.lease_expires_at_ms, s.partition_key, s.execution_id
        limit 1
    ),
    page as (
        select
            s.*, row_number() over (order by s.lease_expires_at_ms, s.partition_key, s.execution_id) as number,
            count(*) over () as row_count
        from (
            select s.*
            from scanned as s
            left join cut as c on true
            where s.ownership_state <> 'lease_revoked' and (p_namespace is null or s.namespace = p_namespace)
                and (c.execution_id is null
                    or (s.lease_expires_at_ms, s.partition_key, s.execution_id)
                    <= (c.lease_expires_at_ms, c.partition_key, c.execution_id))
            order by s.lease_expires_at_ms, s.partition_key, s.execution_id
            limit v_limit + 1
        ) as s
    ),
    following as (
        select p.lease_expires_at_ms, p.partition_key, p.execution_id
        from page as p
        where p.row_count > v_limit and p.number = v_limit
        union all
        select c.lease_expires_at_ms, c.partition_key, c.execution_id
        from cut as c
        where not exists (select from page as p where p.row_count > v_limit)
    )
    select
        flowfabric.ff_format_execution_id(h.partition_key, h.execution_id), h.current_lease_id, h.current_lease_epoch,
        h.current_attempt_id, h.total_attempt_count - 1, h.current_worker_id, h.current_worker_instance_id,
        h.lease_expires_at_ms, h.ownership_state, f.execution_id is not null, f.lease_expires_at_ms,
        f.partition_key, f.execution_id,
        case
            when h.ownership_state <> 'leased' then h.delay_until_ms
            when h.lease_reclaim_count = 0 then h.lease_expires_at_ms
            else (
                select flowfabric._ff_takeover_at_ms(e, null)
                from flowfabric.ff_exec_core as e
                where e.partition_key = h.partition_key and e.execution_id = h.execution_id)
        end
    from (select) as page_or_mark
    left join following as f on true
    left join page as h on h.number <= v_limit
    where num_nonnulls(h.execution_id, f.execution_id) > 0
    order by h.lease_expires_at_ms, h.partition_key, h.execution_id;
end;
$$;

comment on function flowfabric.ff_list_expired_leases(bigint, text, integer, bigint, smallint, uuid) is
'The leases that have run out and were not taken over yet, longest expired first, a page at a time.';

grant execute on function flowfabric.ff_list_expired_leases(bigint, text, integer, bigint, smallint, uuid)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
