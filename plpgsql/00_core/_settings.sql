-- Settings: every name the engine reads, with its default and range, stated here and nowhere else. Numbers end at
-- 2^53 - 1, which every client holds exactly, and durations at 1000 years.

create or replace function flowfabric._ff_known_settings()
returns table (name text, default_value bigint, max_value bigint)
language sql immutable parallel safe
as $$
    values
    ('lease_events', 1::bigint, 1::bigint),
    ('emit_lease_renewed', 0, 1),
    ('notify_eligible', 1, 2),
    ('notify_completion', 1, 2),
    ('notify_lease', 1, 2),
    ('notify_signal', 1, 2),
    ('notify_operator', 1, 2),
    ('notify_worker', 1, 2),
    ('notify_dispatch', 1, 2),
    ('notify_stream', 1, 2),
    ('event_retention_completion_ms', 604800000, 31536000000000),
    ('event_retention_lease_ms', 604800000, 31536000000000),
    ('event_retention_signal_ms', 604800000, 31536000000000),
    ('event_retention_operator_ms', 604800000, 31536000000000),
    ('event_retention_worker_ms', 604800000, 31536000000000),
    ('default_retention_ms', 86400000, 31536000000000),
    ('flow_retention_ms', 604800000, 31536000000000),
    ('max_signals_per_execution', 10000, 9007199254740991),
    ('max_cycle_check_nodes', 10000, 9007199254740991),
    ('max_sync_depth', 50, 9007199254740991),
    ('max_sync_edges', 256, 9007199254740991),
    ('max_sync_cancels', 256, 9007199254740991),
    ('max_submit_members', 10000, 9007199254740991),
    ('max_submit_edges', 100000, 9007199254740991),
    ('claim_floor_recheck_ms', 1000, 31536000000000),
    ('claim_floor_lag_ms', 100, 31536000000000),
    -- The largest one, as hexadecimal text, is half of what a field can hold.
    ('max_payload_bytes', 16777216, 268435456)
$$;
comment on function flowfabric._ff_known_settings() is
'Internal: the settings of the engine, their defaults and their largest values.';

create or replace function flowfabric._ff_smallest_value(p_name text)
returns bigint
language sql immutable parallel safe
as $$
    select case p_name when 'max_payload_bytes' then 65536 else 0 end
$$;
comment on function flowfabric._ff_smallest_value(text) is
'Internal: the smallest value of a setting: 64 KiB for payloads, which are accepted without reading it, else 0.';

-- Without arguments and immutable, so that a plan has the object in it and not the call.
create or replace function flowfabric._ff_default_settings()
returns jsonb
language sql immutable parallel safe
as $$
    select jsonb_object_agg(k.name, k.default_value) from flowfabric._ff_known_settings() as k
$$;
comment on function flowfabric._ff_default_settings() is 'Internal: the default of each setting, by its name.';

create or replace function flowfabric._ff_setting_value(p_name text)
returns bigint
language plpgsql stable
as $$
declare
    v_value bigint;
begin
    select s.value into v_value from flowfabric.ff_setting as s where s.name = p_name;
    if not found then
        v_value := (flowfabric._ff_default_settings() ->> p_name)::bigint;
        if v_value is null then
            raise no_data_found using message = format('there is no setting %L', p_name);
        end if;
    end if;
    return v_value;
end;
$$;
comment on function flowfabric._ff_setting_value(text) is 'Internal: the value of a setting in force.';

-- What create, claim and complete ask of the settings stands in rows that they read anyway: that of the configuration,
-- and those of the waiters.
create or replace function flowfabric._ff_copy_settings()
returns void
language plpgsql volatile
as $$
declare
    v_lease_events boolean := flowfabric._ff_setting_value('lease_events') <> 0;
    v_recheck_ms bigint := flowfabric._ff_setting_value('claim_floor_recheck_ms');
    v_waiter flowfabric.ff_waiter;
begin
    update flowfabric.ff_partition_config as c
    set lease_events = v_lease_events, claim_floor_recheck_ms = v_recheck_ms
    where (c.lease_events, c.claim_floor_recheck_ms) is distinct from (v_lease_events, v_recheck_ms);
    -- Ascending, as those who wait lock their own.
    for v_waiter in
        select w.*
        from flowfabric.ff_waiter as w
        inner join flowfabric._ff_channels() as c on c.channel = w.channel
        where w.at_once <> (flowfabric._ff_setting_value(c.setting) = 1)
        order by w.channel, w.key, w.waiter_id
        for update of w
    loop
        update flowfabric.ff_waiter as w
        set at_once = not v_waiter.at_once
        where w.channel = v_waiter.channel and w.key = v_waiter.key and w.waiter_id = v_waiter.waiter_id;
    end loop;
end;
$$;
comment on function flowfabric._ff_copy_settings() is
'Internal: brings the copies of settings in ff_partition_config and ff_waiter in step with ff_setting.';
