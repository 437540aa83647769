-- The moves of events: every event row is written here, in the transaction of the change that it reports.

-- The channels on which something can be announced: the setting that rules each, and the stream that readers name.
create or replace function flowfabric._ff_channels()
returns table (channel text, setting text, stream text)
language sql immutable parallel safe
as $$
    values
    ('ff_eligible', 'notify_eligible', null),
    ('ff_completion', 'notify_completion', 'completion'),
    ('ff_lease_event', 'notify_lease', 'lease'),
    ('ff_signal_event', 'notify_signal', 'signal'),
    ('ff_operator_event', 'notify_operator', 'operator'),
    ('ff_worker_event', 'notify_worker', 'worker'),
    ('ff_dispatch', 'notify_dispatch', 'dispatch'),
    ('ff_stream', 'notify_stream', null)
$$;
comment on function flowfabric._ff_channels() is
'Internal: every NOTIFY channel with its setting (0 never, 1 if somebody waits, 2 by the tick) and its stream.';

-- A NOTIFY serialises the commits of the whole server, so it is sent only when somebody is recorded as waiting.
-- Writes and locks nothing; reads the clock itself, because a hint is no state check.
create or replace function flowfabric._ff_wake(p_channel text, p_key text)
returns void
language plpgsql volatile
as $$
begin
    -- Under load nobody waits: one look at an empty table is all that a busy system pays.
    if exists (
        select from flowfabric.ff_waiter as w
        where w.channel = p_channel and w.key = p_key and w.until_ms > flowfabric.ff_now_ms())
    then
        perform flowfabric._ff_notify(p_channel, p_key, c.setting)
        from flowfabric._ff_channels() as c
        where c.channel = p_channel;
    end if;
end;
$$;
comment on function flowfabric._ff_wake(text, text) is
'Internal: notifies a channel if an unexpired waiter for the key is recorded and the setting allows it.';

-- By default every channel may be used at once (1); to read that from the list of all settings would take longer than
-- to notify.
create or replace function flowfabric._ff_notify(p_channel text, p_key text, p_setting text)
returns void
language plpgsql volatile
as $$
begin
    perform pg_notify(p_channel, p_key)
    where not exists (select from flowfabric.ff_setting as s where s.name = p_setting and s.value <> 1);
end;
$$;
comment on function flowfabric._ff_notify(text, text, text) is
'Internal: notifies a channel if its setting allows it; the caller knows that somebody waits.';

create or replace function flowfabric._ff_emit_lease(
    p_exec flowfabric.ff_exec_core,
    p_event_type text,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_index integer,
    p_attempt_id uuid,
    p_worker_id text,
    p_worker_instance_id text,
    p_reason text,
    p_now_ms bigint,
    p_old_lease_epoch bigint default null
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_lease_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, event_type, lease_id,
        lease_epoch, old_lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
    select
        p_exec.partition_key, c.event_epoch, p_now_ms, p_exec.namespace, p_exec.instance_tag, p_exec.execution_id,
        p_event_type, p_lease_id, p_lease_epoch, p_old_lease_epoch, p_attempt_index, p_attempt_id, p_worker_id,
        p_worker_instance_id, p_reason
    from flowfabric.ff_partition_config as c
    where c.lease_events;
    if found then
        perform flowfabric._ff_wake('ff_lease_event', '*');
    end if;
end;
$$;
comment on function flowfabric._ff_emit_lease(
    flowfabric.ff_exec_core, text, uuid, bigint, integer, uuid, text, text, text, bigint, bigint) is
'Internal: writes one lease event, unless lease events are switched off.';

create or replace function flowfabric._ff_emit_completion(
    p_exec flowfabric.ff_exec_core,
    p_outcome flowfabric.ff_terminal_outcome,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_completion_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, flow_id, lane_id, attempt_index,
        outcome)
    select
        p_exec.partition_key, c.event_epoch, p_now_ms, p_exec.namespace, p_exec.instance_tag, p_exec.execution_id,
        p_exec.flow_id, p_exec.lane_id, flowfabric._ff_current_attempt_index(p_exec), p_outcome
    from flowfabric.ff_partition_config as c;
    perform flowfabric._ff_wake('ff_completion', '*');
end;
$$;
comment on function flowfabric._ff_emit_completion(
    flowfabric.ff_exec_core, flowfabric.ff_terminal_outcome, bigint) is
'Internal: writes the completion event of an execution that ended.';

create or replace function flowfabric._ff_emit_operator(
    p_partition_key smallint,
    p_namespace text,
    p_instance_tag text,
    p_execution_id uuid,
    p_flow_id uuid,
    p_event_type text,
    p_details jsonb,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_operator_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, flow_id, event_type, details)
    select
        p_partition_key, c.event_epoch, p_now_ms, p_namespace, p_instance_tag, p_execution_id, p_flow_id,
        p_event_type, p_details
    from flowfabric.ff_partition_config as c;
    perform flowfabric._ff_wake('ff_operator_event', '*');
end;
$$;
comment on function flowfabric._ff_emit_operator(
    smallint, text, text, uuid, uuid, text, jsonb, bigint) is
'Internal: writes one operator event about an execution, a flow or a lane.';
