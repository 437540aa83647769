-- Settings: every name the engine reads, with its default and range, stated here and nowhere else. No value is beyond
-- 2^53 - 1, so that a sum with the clock cannot overflow.

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
    ('event_retention_completion_ms', 604800000, 9007199254740991),
    ('event_retention_lease_ms', 604800000, 9007199254740991),
    ('event_retention_signal_ms', 604800000, 9007199254740991),
    ('event_retention_operator_ms', 604800000, 9007199254740991),
    ('event_retention_worker_ms', 604800000, 9007199254740991),
    ('default_retention_ms', 86400000, 9007199254740991),
    ('flow_retention_ms', 604800000, 9007199254740991),
    ('max_signals_per_execution', 10000, 9007199254740991),
    ('max_cycle_check_nodes', 10000, 9007199254740991),
    ('max_sync_depth', 50, 9007199254740991),
    ('max_sync_edges', 256, 9007199254740991),
    ('max_sync_cancels', 256, 9007199254740991),
    ('max_submit_members', 10000, 9007199254740991),
    ('max_submit_edges', 100000, 9007199254740991),
    ('claim_floor_recheck_ms', 1000, 9007199254740991),
    ('claim_floor_lag_ms', 1000, 9007199254740991)
$$;
comment on function flowfabric._ff_known_settings() is
'Internal: the settings of the engine, their defaults and their largest values; the smallest is always 0.';

-- Immutable, so that the planner replaces a call with a constant name by its value: a claim would otherwise read the
-- whole list.
create or replace function flowfabric._ff_default_setting(p_name text)
returns bigint
language sql immutable parallel safe
as $$
    select k.default_value from flowfabric._ff_known_settings() as k where k.name = p_name
$$;
comment on function flowfabric._ff_default_setting(text) is 'Internal: the value of a setting that nobody has set.';

create or replace function flowfabric._ff_setting_value(p_name text)
returns bigint
language plpgsql stable
as $$
declare
    v_value bigint;
begin
    select s.value into v_value from flowfabric.ff_setting as s where s.name = p_name;
    if not found then
        select k.default_value into strict v_value from flowfabric._ff_known_settings() as k where k.name = p_name;
    end if;
    return v_value;
end;
$$;
comment on function flowfabric._ff_setting_value(text) is 'Internal: the value of a setting in force.';
