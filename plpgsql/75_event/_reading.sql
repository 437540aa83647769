-- Reading events: their order, the text form of a position in it, and the five tables as one.
--
-- An id is handed out when a row is inserted, but the row becomes visible when its transaction commits, and
-- transactions commit in another order. So rows are read in the order (epoch, xact_id, event_id), and only below the
-- horizon: the oldest transaction that still runs. What lies below it is finished, so nothing can appear there later
-- and no cursor can be overtaken. An epoch below the current one is finished altogether (ff_bump_event_epoch).

create or replace function flowfabric._ff_format_event_cursor(p_epoch smallint, p_xact_id xid8, p_event_id bigint)
returns text
language sql immutable parallel safe
as $$
    select 'v1:' || p_epoch::text || ':' || p_xact_id::text || ':' || p_event_id::text
$$;
comment on function flowfabric._ff_format_event_cursor(smallint, xid8, bigint) is
'Internal: a position among events as the text that readers keep.';

create or replace function flowfabric._ff_parse_event_cursor(p_cursor text, p_fn text)
returns flowfabric.ff_event_cursor
language plpgsql stable
as $$
declare
    v_parts text[] := string_to_array(p_cursor, ':');
begin
    if (p_cursor ~ '^v1:[0-9]{1,5}:[0-9]{1,20}:[0-9]{1,19}$'
        and v_parts[2]::integer <= 32767
        and v_parts[3]::numeric <= 18446744073709551615
        and v_parts[4]::numeric <= 9223372036854775807) is not true
    then
        perform flowfabric._ff_raise_invalid_offset(p_cursor, p_fn);
    end if;
    -- By way of numeric: an xid8 with a leading zero would be read as octal.
    return row(
        v_parts[2]::smallint, v_parts[3]::numeric::text::xid8, v_parts[4]::bigint)::flowfabric.ff_event_cursor;
end;
$$;
comment on function flowfabric._ff_parse_event_cursor(text, text) is
'Internal: the position that a cursor stands for; raises invalid_offset.';

-- Both from one snapshot: a transaction that has not finished by then is in the current epoch or in a later one.
create or replace function flowfabric._ff_event_horizon()
returns flowfabric.ff_event_cursor
language plpgsql volatile
as $$
declare
    v_horizon flowfabric.ff_event_cursor;
begin
    select c.event_epoch, pg_snapshot_xmin(pg_current_snapshot()), 0::bigint
    into v_horizon
    from flowfabric.ff_partition_config as c;
    return v_horizon;
end;
$$;
comment on function flowfabric._ff_event_horizon() is
'Internal: the position below which every event is final: the current epoch, and the oldest running transaction in it.';

-- ff_read_events hands out cursors up to the horizon and none beyond it. A transaction with an older snapshot cannot
-- tell whether another session has read further: it has to begin again.
create or replace function flowfabric._ff_check_cursor_is_reached(
    p_position flowfabric.ff_event_cursor,
    p_cursor text,
    p_fn text
)
returns void
language plpgsql volatile
as $$
begin
    if p_position > flowfabric._ff_event_horizon() then
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            raise serialization_failure using message = 'the cursor is newer than the snapshot of this transaction';
        end if;
        perform flowfabric._ff_raise(
            'invalid_offset', p_fn,
            jsonb_build_object('offset', left(p_cursor, 200), 'reason', 'beyond_horizon'));
    end if;
end;
$$;
comment on function flowfabric._ff_check_cursor_is_reached(flowfabric.ff_event_cursor, text, text) is
'Internal: raises invalid_offset for a position that no reader can have reached.';

create or replace function flowfabric._ff_pruned_position(p_stream text)
returns flowfabric.ff_event_cursor
language plpgsql volatile
as $$
declare
    v_pruned flowfabric.ff_event_cursor;
begin
    select s.pruned_epoch, s.pruned_xact_id, s.pruned_event_id
    into v_pruned
    from flowfabric.ff_event_stream as s
    where s.stream = p_stream;
    return v_pruned;
end;
$$;
comment on function flowfabric._ff_pruned_position(text) is
'Internal: the position up to which the events of a stream are gone.';

create or replace function flowfabric._ff_raise_cursor_expired(
    p_stream text,
    p_cursor text,
    p_pruned flowfabric.ff_event_cursor,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'event_cursor_expired', p_fn,
        jsonb_build_object(
            'stream', p_stream, 'cursor', p_cursor, 'oldest_cursor',
            flowfabric._ff_format_event_cursor(p_pruned.epoch, p_pruned.xact_id, p_pruned.event_id)));
end;
$$;
comment on function flowfabric._ff_raise_cursor_expired(text, text, flowfabric.ff_event_cursor, text) is
'Internal: raises event_cursor_expired for a position below the pruned one.';

create or replace function flowfabric._ff_is_event_stream(p_stream text)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(p_stream = any (flowfabric._ff_legal_values('stream')), false)
$$;
comment on function flowfabric._ff_is_event_stream(text) is 'Internal: whether a text names one of the five streams.';

create or replace function flowfabric._ff_check_event_stream(p_stream text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if not flowfabric._ff_is_event_stream(p_stream) then
        perform flowfabric._ff_raise_unknown(
            p_fn, 'stream', p_stream, '{completion,lease,signal,operator,worker}');
    end if;
end;
$$;
comment on function flowfabric._ff_check_event_stream(text, text) is
'Internal: raises invalid_input unless a text names one of the five streams.';

-- Inlined into the queries that use it: a condition on `stream` decides before a table is opened, conditions on the
-- position become a range of its primary key, and an ORDER BY in reading order needs no sort.
create or replace function flowfabric._ff_events()
returns table (
    stream text,
    epoch smallint,
    xact_id xid8,
    event_id bigint,
    partition_key smallint,
    occurred_at_ms bigint,
    namespace text,
    instance_tag text,
    execution_id uuid,
    flow_id uuid,
    event_type text,
    outcome flowfabric.ff_terminal_outcome,
    lane_id text,
    attempt_index integer,
    attempt_id uuid,
    lease_id uuid,
    lease_epoch bigint,
    old_lease_epoch bigint,
    worker_id text,
    worker_instance_id text,
    reason text,
    signal_id uuid,
    signal_name text,
    waitpoint_id uuid,
    source_type text,
    source_identity text,
    effect text,
    details jsonb
)
language sql stable
as $$
    select
        'completion', v.epoch, v.xact_id, v.event_id, v.partition_key, v.occurred_at_ms, v.namespace, v.instance_tag,
        v.execution_id, v.flow_id, v.outcome::text, v.outcome, v.lane_id, v.attempt_index, null::uuid, null::uuid,
        null::bigint, null::bigint, null::text, null::text, null::text, null::uuid, null::text, null::uuid, null::text,
        null::text, null::text, null::jsonb
    from flowfabric.ff_completion_event as v
    union all
    select
        'lease', v.epoch, v.xact_id, v.event_id, v.partition_key, v.occurred_at_ms, v.namespace, v.instance_tag,
        v.execution_id, null, v.event_type, null, null, v.attempt_index, v.attempt_id, v.lease_id, v.lease_epoch,
        v.old_lease_epoch, v.worker_id, v.worker_instance_id, v.reason, null, null, null, null, null, null, null
    from flowfabric.ff_lease_event as v
    union all
    select
        'signal', v.epoch, v.xact_id, v.event_id, v.partition_key, v.occurred_at_ms, v.namespace, v.instance_tag,
        v.execution_id, null, 'signal', null, null, null, null, null, null, null, null, null, null, v.signal_id,
        v.signal_name, v.waitpoint_id, v.source_type, v.source_identity, v.effect, null
    from flowfabric.ff_signal_event as v
    union all
    select
        'operator', v.epoch, v.xact_id, v.event_id, v.partition_key, v.occurred_at_ms, v.namespace, v.instance_tag,
        v.execution_id, v.flow_id, v.event_type, null, null, null, null, null, null, null, null, null, null, null, null,
        null, null, null, null, v.details
    from flowfabric.ff_operator_event as v
    union all
    select
        'worker', v.epoch, v.xact_id, v.event_id, v.partition_key, v.occurred_at_ms, v.namespace, v.instance_tag,
        null, null, v.event_kind, null, null, null, null, null, null, null, v.worker_id, v.worker_instance_id, v.reason,
        null, null, null, null, null, null, null
    from flowfabric.ff_worker_registry_event as v
$$;
comment on function flowfabric._ff_events() is 'Internal: the events of all five streams in one shape.';
