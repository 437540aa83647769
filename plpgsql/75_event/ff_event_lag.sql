-- ff_event_lag: what readers of the event streams can have, what they must wait for, and who makes them wait.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- Rows are counted up to 10000, so that the answer costs the same however much is kept. Events are held back by the
-- oldest transaction of the whole server that has written something and not ended, in whatever database. Who that is
-- can be told only if the owner of the schema may see the sessions of others (pg_read_all_stats), or if it is a
-- prepared transaction.
create or replace function flowfabric.ff_event_lag(p_stream text default null)
returns setof flowfabric.ff_event_stream_lag
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_event_lag';
    c_count_limit constant integer := 10000;
    v_horizon flowfabric.ff_event_cursor;
    v_culprit flowfabric.ff_event_stream_lag;
begin
    if p_stream is not null then
        perform flowfabric._ff_check_event_stream(p_stream, c_fn);
    end if;
    v_horizon := flowfabric._ff_event_horizon();
    v_culprit := flowfabric._ff_oldest_writer(v_horizon.xact_id);
    return query
    select
        s.stream, newest.occurred_at_ms, deliverable.row_count, held_back.row_count, v_culprit.oldest_running_xact,
        v_culprit.oldest_running_pid, v_culprit.oldest_running_since_ms, v_culprit.prepared_xact_count,
        consumers.list
    from flowfabric.ff_event_stream as s
    left join lateral (
        select v.occurred_at_ms
        from flowfabric._ff_events() as v
        where v.stream = s.stream
        order by v.epoch desc, v.xact_id desc, v.event_id desc
        limit 1
    ) as newest on true
    cross join lateral (
        select count(*) as row_count
        from (
            select from flowfabric._ff_events() as v
            where v.stream = s.stream
                and (v.epoch, v.xact_id, v.event_id) > (s.pruned_epoch, s.pruned_xact_id, s.pruned_event_id)
                and (v.epoch, v.xact_id) < (v_horizon.epoch, v_horizon.xact_id)
            limit c_count_limit
        ) as counted
    ) as deliverable
    cross join lateral (
        select count(*) as row_count
        from (
            select from flowfabric._ff_events() as v
            where v.stream = s.stream and (v.epoch, v.xact_id) >= (v_horizon.epoch, v_horizon.xact_id)
            limit c_count_limit
        ) as counted
    ) as held_back
    cross join lateral (
        select coalesce(
            jsonb_agg(
                jsonb_build_object(
                    'consumer', c.consumer_name, 'owner', c.owner, 'cursor', c.cursor,
                    'updated_at_ms', c.updated_at_ms,
                    'behind_rows', behind.row_count,
                    'is_expired', k.is_expired)
                order by c.consumer_name),
            '[]') as list
        from flowfabric.ff_event_consumer as c
        cross join lateral flowfabric._ff_parse_event_cursor(c.cursor, c_fn) as p
        cross join lateral (
            select (p.epoch, p.xact_id, p.event_id) < (s.pruned_epoch, s.pruned_xact_id, s.pruned_event_id)
                and (p.epoch, p.xact_id, p.event_id) <> (0, '0'::xid8, 0)
        ) as k (is_expired)
        cross join lateral (
            select count(*) as row_count
            from (
                select from flowfabric._ff_events() as v
                where v.stream = s.stream
                    and (v.epoch, v.xact_id, v.event_id) > (p.epoch, p.xact_id, p.event_id)
                    and (v.epoch, v.xact_id) < (v_horizon.epoch, v_horizon.xact_id)
                limit c_count_limit
            ) as counted
        ) as behind
        where c.stream = s.stream
    ) as consumers
    where p_stream is null or s.stream = p_stream
    order by s.stream;
end;
$$;

comment on function flowfabric.ff_event_lag(text) is
'Per event stream: its newest event, what is deliverable and what is held back, by whom, and where consumers stand.';

grant execute on function flowfabric.ff_event_lag(text) to flowfabric_reader, flowfabric_operator;

-- A snapshot begins at the oldest transaction that runs, or where the next one will begin if none does.
create or replace function flowfabric._ff_oldest_writer(p_horizon xid8)
returns flowfabric.ff_event_stream_lag
language plpgsql volatile
as $$
declare
    v_writer flowfabric.ff_event_stream_lag;
    v_since timestamptz;
begin
    select a.pid, a.xact_start
    into v_writer.oldest_running_pid, v_since
    from pg_stat_activity as a
    where a.backend_xid = p_horizon::xid;
    if not found then
        select x.prepared into v_since from pg_prepared_xacts as x where x.transaction = p_horizon::xid;
    end if;
    if found or p_horizon < pg_snapshot_xmax(pg_current_snapshot()) then
        v_writer.oldest_running_xact := p_horizon;
        v_writer.oldest_running_since_ms := floor(extract(epoch from v_since) * 1000)::bigint;
    end if;
    v_writer.prepared_xact_count := (select count(*) from pg_prepared_xacts);
    return v_writer;
end;
$$;
comment on function flowfabric._ff_oldest_writer(xid8) is
'Internal: who the transaction is at which the horizon stands, as far as the owner of the schema may see it.';
