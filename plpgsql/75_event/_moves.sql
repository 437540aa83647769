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

-- A NOTIFY serialises the commits of the whole server, so it is sent only when somebody is recorded as waiting, and
-- only if the channel's setting lets him be told at once. Writes and locks nothing; reads the clock itself, because a
-- hint is no state check. Under load nobody waits: one look at an empty table is all that a busy system pays.
create or replace function flowfabric._ff_wake(p_channel text, p_key text)
returns void
language plpgsql volatile
as $$
begin
    if exists (
        select from flowfabric.ff_waiter as w
        where w.channel = p_channel and w.key = p_key and w.until_ms > flowfabric.ff_now_ms() and w.at_once)
    then
        perform pg_notify(p_channel, p_key);
    end if;
end;
$$;
comment on function flowfabric._ff_wake(text, text) is
'Internal: notifies a channel if an unexpired waiter for the key is recorded and the setting allows it.';

-- Who begins to wait makes sure that those who may have news look for him. Done in good time for all who follow; if
-- another session does it at this moment, it does it for this one too.
create or replace function flowfabric._ff_expect_waiters(p_lanes text[], p_waits_for_events boolean, p_until_ms bigint)
returns void
language plpgsql volatile
as $$
declare
    c_slack_ms constant bigint := 600000::bigint;
begin
    update flowfabric.ff_lane_registry as l
    set waiters_until_ms = p_until_ms + c_slack_ms
    where l.ctid = any (array(
        select x.ctid
        from flowfabric.ff_lane_registry as x
        where x.lane_id = any (p_lanes) and x.waiters_until_ms < p_until_ms
        for no key update skip locked));
    if p_waits_for_events then
        update flowfabric.ff_partition_config as c
        set event_waiters_until_ms = p_until_ms + c_slack_ms
        where c.ctid = any (array(
            select x.ctid
            from flowfabric.ff_partition_config as x
            where x.event_waiters_until_ms < p_until_ms
            for no key update skip locked));
    end if;
end;
$$;
comment on function flowfabric._ff_expect_waiters(text[], boolean, bigint) is
'Internal: lets creations of some lanes, or claims and ends, look for somebody who waits until then.';

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

-- The one list of operator event types: a new one is added here and nowhere else. A CHECK on the table would repeat it
-- in every migration that adds a type.
create or replace function flowfabric._ff_operator_event_types()
returns table (event_type text, meaning text)
language sql immutable parallel safe
as $$
    values
    ('budget_created', 'A budget was defined.'),
    ('budget_released', 'What an execution had spent was given back to its budget.'),
    ('budget_reset', 'The usage of a budget was set back to zero.'),
    ('cancelled', 'An execution was ended by an operator.'),
    ('event_cursor_deleted', 'A consumer of events was forgotten.'),
    ('event_cursor_set', 'The stored position of a consumer of events was moved.'),
    ('flow_cancel_requested', 'A flow was ended, with the members that the policy names.'),
    ('lane_state_changed', 'A lane was paused, drained, disabled or opened.'),
    ('lease_revoked', 'A worker lost its lease by decision of an operator.'),
    ('priority_changed', 'A waiting execution was moved within its queue.'),
    ('quota_created', 'A quota policy was defined.'),
    ('replayed', 'An ended execution was opened again.'),
    ('scanner_changed', 'A scanner was switched, or its interval or limit changed.'),
    ('setting_changed', 'A setting got another value.'),
    ('signing_key_installed', 'The first key for waitpoint tokens was installed.'),
    ('signing_key_rotated', 'Another key signs waitpoint tokens.')
$$;
comment on function flowfabric._ff_operator_event_types() is
'Internal: every type of operator event and what it reports.';

-- Who acted is added here, so that no caller can forget it or name another login. A name that the call was given
-- (requested_by) is only a claim and is stored beside it.
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
    if not exists (select from flowfabric._ff_operator_event_types() as t where t.event_type = p_event_type) then
        perform flowfabric._ff_raise(
            'internal_error', '_ff_emit_operator', jsonb_build_object('reason', 'unknown event type ' || p_event_type));
    end if;
    insert into flowfabric.ff_operator_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, flow_id, event_type, details)
    select
        p_partition_key, c.event_epoch, p_now_ms, p_namespace, p_instance_tag, p_execution_id, p_flow_id,
        p_event_type,
        jsonb_strip_nulls(
            p_details
            || jsonb_build_object('login', session_user, 'role', nullif(current_setting('role', true), 'none')))
    from flowfabric.ff_partition_config as c;
    perform flowfabric._ff_wake('ff_operator_event', '*');
end;
$$;
comment on function flowfabric._ff_emit_operator(
    smallint, text, text, uuid, uuid, text, jsonb, bigint) is
'Internal: writes one operator event, with the login that acted.';
