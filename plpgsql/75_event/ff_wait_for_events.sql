-- ff_wait_for_events: say that one wants to be woken when something happens on event streams or on an output stream.
--
-- Fence:  none.
-- Locks:  the ff_waiter rows of the caller, in the order of channel and key; now and then ff_partition_config, SKIP
--         LOCKED.
-- Writes: ff_waiter; once in ten minutes how long lease and completion events may be waited for.
-- Raises: invalid_input, read_only_server.
-- Retry:  safe; a repeat refreshes.
--
-- Returns at once and reads no event. A NOTIFY is sent only to those who said so here, so that a busy system sends
-- none. The wake-up is a hint: register, commit, look once more, and only then wait, never without a poll.
create or replace function flowfabric.ff_wait_for_events(
    p_waiter_id text,
    p_streams text[] default '{}',
    p_execution_id text default null,
    p_attempt_index integer default null,
    p_wait_ms bigint default 5000
)
returns flowfabric.ff_event_wait
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_wait_for_events';
    v_execution_id text := nullif(p_execution_id, '');
    v_unknown text;
    v_key flowfabric.ff_execution_key;
    v_keys text[];
    v_settings bigint[];
    v_wait flowfabric.ff_event_wait;
begin
    if not flowfabric._ff_is_name(p_waiter_id) then
        perform flowfabric._ff_raise_invalid_name(p_waiter_id, 'waiter_id', c_fn);
    end if;
    select s.stream into v_unknown
    from unnest(p_streams) as s (stream)
    where not exists (select from flowfabric._ff_channels() as c where c.stream = s.stream)
    limit 1;
    if found then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'streams', v_unknown,
            array(select c.stream from flowfabric._ff_channels() as c where c.stream is not null order by c.stream));
    end if;
    if num_nulls(v_execution_id, p_attempt_index) = 1 then
        perform flowfabric._ff_raise_invalid(
            c_fn, case when v_execution_id is null then 'execution_id' else 'attempt_index' end, 'null');
    end if;
    if v_execution_id is not null then
        v_key := flowfabric._ff_parse_execution_id(v_execution_id, c_fn);
        perform flowfabric._ff_check_attempt_index(p_attempt_index, c_fn);
    end if;
    if p_wait_ms is null or p_wait_ms not between 0 and 600000 then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'wait_ms', case when p_wait_ms is null then 'null' else 'out_of_range' end, p_wait_ms::text);
    end if;
    select
        array_agg(c.channel order by c.channel), array_agg(k.key order by c.channel),
        array_agg(flowfabric._ff_setting_value(c.setting) order by c.channel)
    into v_wait.channels, v_keys, v_settings
    from flowfabric._ff_channels() as c
    cross join lateral (
        select case
            when c.channel = 'ff_stream' then flowfabric._ff_stream_key(v_key.execution_id, p_attempt_index)
            when c.stream = any (p_streams) then '*'
        end
    ) as k (key)
    where k.key is not null;
    if v_keys is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'streams', 'nothing_to_wait_for');
    end if;
    v_wait.notify := 0 <> all (v_settings);
    perform flowfabric._ff_check_writable(c_fn);

    if p_wait_ms = 0 then
        perform from flowfabric.ff_waiter as w
        join unnest(v_wait.channels, v_keys) as k (channel, key) on w.channel = k.channel and w.key = k.key
        where w.waiter_id = p_waiter_id
        order by w.channel, w.key
        for update of w;
        delete from flowfabric.ff_waiter as w
        using unnest(v_wait.channels, v_keys) as k (channel, key)
        where w.channel = k.channel and w.key = k.key and w.waiter_id = p_waiter_id;
        return v_wait;
    end if;
    v_wait.until_ms := flowfabric.ff_now_ms() + p_wait_ms;
    perform flowfabric._ff_expect_waiters(
        null, v_wait.channels && array['ff_lease_event', 'ff_completion'], v_wait.until_ms);
    insert into flowfabric.ff_waiter as w (channel, key, waiter_id, until_ms, at_once)
    select k.channel, k.key, p_waiter_id, v_wait.until_ms, k.setting = 1
    from unnest(v_wait.channels, v_keys, v_settings) as k (channel, key, setting)
    order by k.channel, k.key
    on conflict (channel, key, waiter_id) do update set until_ms = excluded.until_ms, at_once = excluded.at_once;
    return v_wait;
end;
$$;

comment on function flowfabric.ff_wait_for_events(text, text[], text, integer, bigint) is
'Registers, refreshes or, with 0, withdraws the wish to be woken by events or by frames of an attempt.';

grant execute on function flowfabric.ff_wait_for_events(text, text[], text, integer, bigint)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
