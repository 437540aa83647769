-- What the functions for operating an installation measure: queues, events, snapshots and tables.
--
-- Nothing here grows with history: executions are found by the partial indexes of those that have not ended, events
-- from either end of their reading index, and counts stop at a cap. What reads executions is called under
-- enable_seqscan = off and jit = off (HOTPATH 4), which its public caller sets.

-- Lanes

-- Eligible, delayed, suspended and reclaimable executions are indexed by lane and capped per lane. The other indexes
-- are led by something else: they are read up to the cap as a whole, and then no lane has a full count.
create or replace function flowfabric._ff_count_lanes(p_lane_id text, p_cap bigint, p_now_ms bigint)
returns setof flowfabric.ff_lane_count
language plpgsql stable
as $$
begin
    return query
    with lane as materialized (
        select l.lane_id
        from flowfabric.ff_lane_registry as l
        where p_lane_id is null or l.lane_id = p_lane_id
    ),
    counted (lane_id, state, executions, capped) as (
        select l.lane_id, 'waiting', least(n.executions, p_cap), n.executions > p_cap
        from lane as l
        cross join lateral (
            select count(*) as executions
            from (
                select from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = l.lane_id
                limit p_cap + 1
            ) as c
        ) as n
        union all
        select l.lane_id, 'delayed', least(n.executions, p_cap), n.executions > p_cap
        from lane as l
        cross join lateral (
            select count(*) as executions
            from (
                select from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'not_eligible_until_time' and e.lane_id = l.lane_id
                limit p_cap + 1
            ) as c
        ) as n
        union all
        select l.lane_id, 'suspended', least(n.executions, p_cap), n.executions > p_cap
        from lane as l
        cross join lateral (
            select count(*) as executions
            from (
                select from flowfabric.ff_exec_core as e
                where e.lifecycle_phase = 'suspended' and e.lane_id = l.lane_id
                limit p_cap + 1
            ) as c
        ) as n
        union all
        select l.lane_id, s.state, n.executions, n.total > p_cap
        from lane as l
        cross join lateral (
            select
                count(*) filter (where c.ownership_state = 'lease_expired_reclaimable') as expired,
                count(*) filter (where c.ownership_state = 'lease_revoked') as revoked,
                count(*) filter (where c.delay_until_ms > p_now_ms) as backing_off,
                count(*) as total
            from (
                select e.ownership_state, e.delay_until_ms
                from flowfabric.ff_exec_core as e
                where e.ownership_state > 'leased' and e.lane_id = l.lane_id
                limit p_cap + 1
            ) as c
        ) as r
        cross join lateral (
            values ('leases_expired', r.expired), ('leases_revoked', r.revoked), ('leases_backing_off', r.backing_off)
        ) as s (state, executions)
        cross join lateral (select s.executions, r.total) as n
        union all
        select o.lane_id, 'rate_limited', least(count(*), p_cap), max(o.total) > p_cap
        from (
            select c.lane_id, count(*) over () as total
            from (
                select e.lane_id
                from flowfabric.ff_exec_core as e
                where e.eligibility_state in ('blocked_by_budget', 'blocked_by_quota')
                    and (p_lane_id is null or e.lane_id = p_lane_id)
                limit p_cap + 1
            ) as c
        ) as o
        group by o.lane_id
        union all
        select o.lane_id, 'waiting', least(count(*), p_cap), max(o.total) > p_cap
        from (
            select c.lane_id, count(*) over () as total
            from (
                select e.lane_id
                from flowfabric.ff_exec_core as e
                where e.eligibility_state in ('blocked_by_route', 'blocked_by_lane_state', 'blocked_by_operator')
                    and (p_lane_id is null or e.lane_id = p_lane_id)
                limit p_cap + 1
            ) as c
        ) as o
        group by o.lane_id
        union all
        select o.lane_id, 'waiting_children', least(count(*), p_cap), max(o.total) > p_cap
        from (
            select c.lane_id, count(*) over () as total
            from (
                select e.lane_id
                from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'blocked_by_dependencies'
                    and (p_lane_id is null or e.lane_id = p_lane_id)
                limit p_cap + 1
            ) as c
        ) as o
        group by o.lane_id
        union all
        select
            o.lane_id, case when o.lease_expires_at_ms <= p_now_ms then 'leases_expired' else 'running' end,
            least(count(*), p_cap), max(o.total) > p_cap
        from (
            select c.lane_id, c.lease_expires_at_ms, count(*) over () as total
            from (
                select e.lane_id, e.lease_expires_at_ms
                from flowfabric.ff_exec_core as e
                where e.ownership_state = 'leased' and (p_lane_id is null or e.lane_id = p_lane_id)
                limit p_cap + 1
            ) as c
        ) as o
        group by 1, 2
    )
    select l.lane_id, s.state, coalesce(sum(c.executions), 0)::bigint, coalesce(bool_or(c.capped), false)
    from lane as l
    cross join unnest(array[
        'waiting', 'delayed', 'rate_limited', 'waiting_children', 'suspended', 'running', 'leases_expired',
        'leases_revoked', 'leases_backing_off']) as s (state)
    left join counted as c on c.lane_id = l.lane_id and c.state = s.state
    group by l.lane_id, s.state;
end;
$$;
comment on function flowfabric._ff_count_lanes(text, bigint, bigint) is
'Internal: the executions of every lane, or of one, that have not ended, by state and up to a cap.';

-- The queue of a lane is ordered by age within a capability set and a priority only, so its oldest is the oldest of the
-- first ones: one index probe per set and priority, however long the queue is.
create or replace function flowfabric._ff_oldest_eligible(p_lane_id text)
returns bigint
language plpgsql stable
as $$
begin
    return (
        with recursive head (capability_set_id, priority, created_at_ms) as (
            (
                select e.capability_set_id, e.priority, e.created_at_ms
                from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id
                order by e.capability_set_id, e.priority desc, e.created_at_ms
                limit 1
            )
            union all
            select n.capability_set_id, n.priority, n.created_at_ms
            from head as h
            cross join lateral (
                select c.capability_set_id, c.priority, c.created_at_ms
                from (
                    (
                        select e.capability_set_id, e.priority, e.created_at_ms
                        from flowfabric.ff_exec_core as e
                        where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id
                            and e.capability_set_id = h.capability_set_id and e.priority < h.priority
                        order by e.priority desc, e.created_at_ms
                        limit 1
                    )
                    union all
                    (
                        select e.capability_set_id, e.priority, e.created_at_ms
                        from flowfabric.ff_exec_core as e
                        where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id
                            and e.capability_set_id > h.capability_set_id
                        order by e.capability_set_id, e.priority desc, e.created_at_ms
                        limit 1
                    )
                ) as c
                order by c.capability_set_id
                limit 1
            ) as n
        )
        select min(h.created_at_ms) from head as h);
end;
$$;
comment on function flowfabric._ff_oldest_eligible(text) is
'Internal: when the oldest execution that can be claimed in a lane was created; NULL if there is none.';

create or replace function flowfabric._ff_live_workers(p_namespace text, p_lane_id text, p_now_ms bigint)
returns bigint
language sql stable
as $$
    select count(*)
    from flowfabric.ff_worker_registry as w
    where (p_namespace is null or w.namespace = p_namespace)
        and p_lane_id = any (w.lanes) and flowfabric._ff_is_live_worker(w, p_now_ms)
$$;
comment on function flowfabric._ff_live_workers(text, text, bigint) is
'Internal: how many registered workers of a namespace, or of all, serve a lane and have sent a heartbeat in time.';

-- Events

-- The settings let every stream be read from its end of the reading index, whatever the statistics say; with them on
-- the function its callers need not repeat them.
create or replace function flowfabric._ff_measure_streams(p_horizon flowfabric.ff_event_cursor)
returns table (stream text, oldest_at_ms bigint, held_back bigint, held_back_since_ms bigint)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
    return query
    select s.stream, oldest.occurred_at_ms, held_back.row_count, held_back.since_ms
    from flowfabric.ff_event_stream as s
    left join lateral (
        select v.occurred_at_ms
        from flowfabric._ff_events() as v
        where v.stream = s.stream
            and (v.epoch, v.xact_id, v.event_id) > (s.pruned_epoch, s.pruned_xact_id, s.pruned_event_id)
        order by v.epoch, v.xact_id, v.event_id
        limit 1
    ) as oldest on true
    cross join lateral (
        select count(*) as row_count, min(counted.occurred_at_ms) as since_ms
        from (
            select v.occurred_at_ms
            from flowfabric._ff_events() as v
            where v.stream = s.stream and (v.epoch, v.xact_id) >= (p_horizon.epoch, p_horizon.xact_id)
            limit 10000
        ) as counted
    ) as held_back;
end;
$$;
comment on function flowfabric._ff_measure_streams(flowfabric.ff_event_cursor) is
'Internal: per event stream the age of what is kept, and what readers cannot have yet, counted up to 10000.';

-- Reads both ends of each stream: what was written lately, and what pruning comes to next.
create or replace function flowfabric._ff_future_events(p_later_than_ms bigint)
returns table (stream text, events bigint, latest_at_ms bigint)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
    return query
    select s.stream, count(distinct e.event_id), max(e.occurred_at_ms)
    from flowfabric.ff_event_stream as s
    cross join lateral (
        (
            select v.event_id, v.occurred_at_ms
            from flowfabric._ff_events() as v
            where v.stream = s.stream
                and (v.epoch, v.xact_id, v.event_id) > (s.pruned_epoch, s.pruned_xact_id, s.pruned_event_id)
            order by v.epoch, v.xact_id, v.event_id
            limit 1000
        )
        union all
        (
            select v.event_id, v.occurred_at_ms
            from flowfabric._ff_events() as v
            where v.stream = s.stream
            order by v.epoch desc, v.xact_id desc, v.event_id desc
            limit 1000
        )
    ) as e
    where e.occurred_at_ms > p_later_than_ms
    group by s.stream;
end;
$$;
comment on function flowfabric._ff_future_events(bigint) is
'Internal: per stream how many of its 1000 oldest and 1000 newest events are dated later, and the latest date.';

create or replace function flowfabric._ff_measure_consumers()
returns table (consumer_name text, stream text, is_expired boolean, unread_since_ms bigint)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
    return query
    select
        c.consumer_name, c.stream,
        (p.epoch, p.xact_id, p.event_id) < (s.pruned_epoch, s.pruned_xact_id, s.pruned_event_id),
        unread.occurred_at_ms
    from flowfabric.ff_event_consumer as c
    join flowfabric.ff_event_stream as s on s.stream = c.stream
    cross join lateral flowfabric._ff_parse_event_cursor(c.cursor, 'ff_commit_event_cursor') as p
    left join lateral (
        select v.occurred_at_ms
        from flowfabric._ff_events() as v
        where v.stream = c.stream and (v.epoch, v.xact_id, v.event_id) > (p.epoch, p.xact_id, p.event_id)
        order by v.epoch, v.xact_id, v.event_id
        limit 1
    ) as unread on true;
end;
$$;
comment on function flowfabric._ff_measure_consumers() is
'Internal: per registered consumer whether its position is gone, and the time of the first event it has not read.';

-- Goes back from the end in pages, until one holds nothing of the last minute: transactions write in another order than
-- they are numbered, by a little.
create or replace function flowfabric._ff_recent_events(p_stream text, p_now_ms bigint)
returns table (event_type text, events bigint, capped boolean)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_page constant integer := 2000;
    c_cap constant integer := 100000;
    v_since_ms bigint := p_now_ms - 60000;
    v_from flowfabric.ff_event_cursor
        := '(32767,18446744073709551615,9223372036854775807)'::flowfabric.ff_event_cursor;
    v_read bigint := 0::bigint;
    v_rows bigint;
    v_has_recent boolean;
begin
    loop
        select
            count(*), bool_or(h.occurred_at_ms > v_since_ms), (array_agg(h.epoch))[count(*)],
            (array_agg(h.xact_id))[count(*)], (array_agg(h.event_id))[count(*)]
        into v_rows, v_has_recent, v_from.epoch, v_from.xact_id, v_from.event_id
        from (
            select v.epoch, v.xact_id, v.event_id, v.occurred_at_ms
            from flowfabric._ff_events() as v
            where v.stream = p_stream
                and (v.epoch, v.xact_id, v.event_id) < (v_from.epoch, v_from.xact_id, v_from.event_id)
            order by v.epoch desc, v.xact_id desc, v.event_id desc
            limit c_page
        ) as h;
        v_read := v_read + v_rows;
        exit when v_has_recent is not true or v_rows < c_page or v_read >= c_cap;
    end loop;
    return query
    select v.event_type, count(*), v_read >= c_cap
    from flowfabric._ff_events() as v
    where v.stream = p_stream
        and (v.epoch, v.xact_id, v.event_id)
        >= (coalesce(v_from.epoch, 0), coalesce(v_from.xact_id, '0'), coalesce(v_from.event_id, 0))
        and v.occurred_at_ms > v_since_ms
    group by v.event_type;
end;
$$;
comment on function flowfabric._ff_recent_events(text, bigint) is
'Internal: the events of a stream of the last minute by type, looking back at 100000 at the most.';

-- The server

-- Transactions that keep vacuum from removing dead rows of this database, or readers of events waiting: the latter are
-- those of the whole server that have written something.
create or replace function flowfabric._ff_oldest_snapshot()
returns table (kind text, pid integer, name text, state text, age_ms bigint)
language plpgsql stable
as $$
begin
    return query
    select h.kind, h.pid, h.name, h.state, floor(extract(epoch from clock_timestamp() - h.since) * 1000)::bigint
    from (
        select 'session' as kind, a.pid, a.application_name as name, a.state, a.xact_start as since
        from pg_stat_activity as a
        where a.pid <> pg_backend_pid() and a.backend_type <> 'autovacuum worker'
            and (
                a.backend_xid is not null
                or (a.backend_xmin is not null and a.datname = current_database()))
        union all
        select 'prepared transaction', null, x.gid, 'prepared', x.prepared
        from pg_prepared_xacts as x
    ) as h
    where h.since is not null
    order by h.since
    limit 1;
end;
$$;
comment on function flowfabric._ff_oldest_snapshot() is
'Internal: the transaction that has been open for longest, as far as the owner of the schema may see it.';

-- Row locks do not show; the lock of the table that comes with them does. Nothing but ticks takes those of ff_scanner,
-- and nothing but event_prune and event_notify those of ff_event_stream.
create or replace function flowfabric._ff_scanner_holders()
returns table (pid integer, user_name text, application text, state text, since_ms bigint, holds text[])
language plpgsql stable
as $$
begin
    return query
    select
        a.pid, a.usename::text, a.application_name, a.state,
        floor(extract(epoch from a.xact_start) * 1000)::bigint, l.holds
    from (
        select x.pid, array_agg(distinct c.relname::text order by c.relname::text) as holds
        from pg_locks as x
        join pg_class as c on c.oid = x.relation
        where x.granted and x.mode in ('RowShareLock', 'RowExclusiveLock') and x.pid <> pg_backend_pid()
            and x.relation in ('flowfabric.ff_scanner'::regclass, 'flowfabric.ff_event_stream'::regclass)
            and x.database = (select d.oid from pg_database as d where d.datname = current_database())
        group by x.pid
    ) as l
    join pg_stat_activity as a on a.pid = l.pid;
end;
$$;
comment on function flowfabric._ff_scanner_holders() is
'Internal: sessions whose open transaction has run scanners, as far as the owner of the schema may see them.';

-- Hot is what has storage settings of its own for vacuum.
-- A standby cannot even plan a query of an unlogged table. Nothing can wait there either.
create or replace function flowfabric._ff_count_waiters(p_now_ms bigint)
returns table (channel text, waiters bigint)
language plpgsql stable
as $$
begin
    if not pg_is_in_recovery() then
        return query
        select w.channel, count(*)
        from flowfabric.ff_waiter as w
        where w.until_ms > p_now_ms
        group by w.channel;
    end if;
end;
$$;
comment on function flowfabric._ff_count_waiters(bigint) is
'Internal: how many wait to be woken, by channel; nothing on a standby.';

-- Without the statistics of a standby, which count what its own sessions did.
create or replace function flowfabric._ff_hot_tables()
returns table (
    table_name text,
    live_rows bigint,
    dead_rows bigint,
    vacuum_threshold double precision,
    vacuumed_at timestamptz,
    autovacuum_is_on boolean
)
language plpgsql stable
as $$
begin
    return query
    select
        c.relname::text, t.n_live_tup, t.n_dead_tup,
        current_setting('autovacuum_vacuum_threshold')::double precision
        + o.scale_factor * greatest(c.reltuples, 0),
        greatest(t.last_vacuum, t.last_autovacuum), o.autovacuum_is_on
    from pg_class as c
    join pg_stat_user_tables as t on t.relid = c.oid
    cross join lateral (
        select
            max(x.option_value) filter (where x.option_name = 'autovacuum_vacuum_scale_factor')::double precision,
            coalesce(
                max(x.option_value) filter (where x.option_name = 'autovacuum_enabled')::boolean, true)
        from pg_options_to_table(c.reloptions) as x
    ) as o (scale_factor, autovacuum_is_on)
    where c.relnamespace = 'flowfabric'::regnamespace and o.scale_factor is not null and not pg_is_in_recovery();
end;
$$;
comment on function flowfabric._ff_hot_tables() is
'Internal: what the statistics know of the tables that change all the time.';
