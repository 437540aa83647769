-- ff_scan_event_notify: announce news on the channels whose notifications are left to the tick.
--
-- Fence:  none.
-- Locks:  the ff_event_stream rows of the event streams in question, without waiting.
-- Writes: notified_event_id of ff_event_stream.
-- Raises: nothing.
-- Retry:  safe; what was announced is not announced again.
--
-- For channels with setting 2. There the operations themselves send nothing, so that no commit of theirs is slowed
-- down by a NOTIFY; whoever waits is woken here, once for each channel and key.
create or replace function flowfabric.ff_scan_event_notify()
returns flowfabric.ff_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
    v_waiting record;
begin
    for v_waiting in
        select distinct w.channel, w.key, c.stream
        from flowfabric._ff_channels() as c
        inner join flowfabric.ff_waiter as w on w.channel = c.channel
        where flowfabric._ff_setting_value(c.setting) = 2 and w.until_ms > v_now_ms
        order by w.channel, w.key
    loop
        if (case v_waiting.channel
            when 'ff_eligible' then exists (
                select from flowfabric.ff_exec_core as e
                where e.lane_id = v_waiting.key and e.eligibility_state = 'eligible_now')
            when 'ff_dispatch' then flowfabric._ff_has_deferred_work(v_now_ms)
            when 'ff_stream' then flowfabric._ff_has_new_frames(v_waiting.key)
            else flowfabric._ff_take_news(v_waiting.stream)
        end)
        then
            perform pg_notify(v_waiting.channel, v_waiting.key);
            v_scan.processed := v_scan.processed + 1;
        end if;
    end loop;
    return v_scan;
end;
$$;

comment on function flowfabric.ff_scan_event_notify() is
'Scanner: wakes those who wait on channels whose notifications are left to the tick, if there is news.';

grant execute on function flowfabric.ff_scan_event_notify() to flowfabric_operator;

-- The last event below the horizon changes exactly when events have become readable: they only ever do so at the end.
create or replace function flowfabric._ff_take_news(p_stream text)
returns boolean
language plpgsql volatile
as $$
declare
    v_horizon flowfabric.ff_event_cursor;
    v_notified_event_id bigint;
    v_newest_event_id bigint;
begin
    select s.notified_event_id into v_notified_event_id
    from flowfabric.ff_event_stream as s
    where s.stream = p_stream
    for no key update skip locked;
    if not found then
        return false;
    end if;
    v_horizon := flowfabric._ff_event_horizon();
    select v.event_id into v_newest_event_id
    from flowfabric._ff_events() as v
    where v.stream = p_stream and (v.epoch, v.xact_id) < (v_horizon.epoch, v_horizon.xact_id)
    order by v.epoch desc, v.xact_id desc, v.event_id desc
    limit 1;
    if v_newest_event_id is null or v_newest_event_id = v_notified_event_id then
        return false;
    end if;
    update flowfabric.ff_event_stream as s set notified_event_id = v_newest_event_id where s.stream = p_stream;
    return true;
end;
$$;
comment on function flowfabric._ff_take_news(text) is
'Internal: whether events of a stream have become readable since this was last asked.';

-- The key of a tailer names no partition, so all are asked; a frame that commits after the scan that it was older than
-- is left to the tailer's poll.
create or replace function flowfabric._ff_has_new_frames(p_key text)
returns boolean
language plpgsql volatile
as $$
begin
    return exists (
        select from flowfabric.ff_partition_config as c
        cross join generate_series(0, c.num_flow_partitions - 1) as n (partition_key)
        inner join flowfabric.ff_stream_meta as m
            on m.partition_key = n.partition_key::smallint
            and m.execution_id = split_part(p_key, '_', 1)::uuid
            and m.attempt_index = split_part(p_key, '_', 2)::integer
        left join flowfabric.ff_scanner as s on s.scanner = 'event_notify'
        where greatest(m.last_frame_at_ms, m.closed_at_ms) >= coalesce(s.last_run_at_ms, 0));
end;
$$;
comment on function flowfabric._ff_has_new_frames(text) is
'Internal: whether a stream has grown or ended since the last run of the scanner.';

create or replace function flowfabric._ff_has_deferred_work(p_now_ms bigint)
returns boolean
language plpgsql volatile
as $$
begin
    return exists (select from flowfabric.ff_dependency_outbox)
        or exists (select from flowfabric.ff_pending_cancel_groups)
        or exists (select from flowfabric.ff_cancel_backlog as b where b.grace_until_ms <= p_now_ms);
end;
$$;
comment on function flowfabric._ff_has_deferred_work(bigint) is
'Internal: whether the flow scanners have something to do: resolutions, sibling cancels or members to cancel.';
