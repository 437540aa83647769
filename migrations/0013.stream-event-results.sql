-- The composite types that the functions of output streams and events return.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0012.flow-results

do $$
begin
    -- Output streams
    if to_regtype('flowfabric.ff_appended_frame') is null then
        create type flowfabric.ff_appended_frame as (
            entry_id text,
            frame_count bigint,
            summary_version bigint
        );
    end if;
    if to_regtype('flowfabric.ff_stream_entry') is null then
        create type flowfabric.ff_stream_entry as (
            entry_id text,
            frame_type text,
            frame_ts_ms bigint,
            payload bytea,
            encoding text,
            source text,
            mode text,
            correlation_id text,
            summary_version bigint,
            ttl_ms integer,
            closed_at_ms bigint,
            closed_reason text
        );
    end if;
    if to_regtype('flowfabric.ff_summary_document') is null then
        create type flowfabric.ff_summary_document as (
            document_json jsonb,
            version bigint,
            patch_kind text,
            last_updated_ms bigint,
            first_applied_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_stream_snapshot') is null then
        create type flowfabric.ff_stream_snapshot as (
            attempt_id uuid,
            created_at_ms bigint,
            closed_at_ms bigint,
            closed_reason text,
            last_entry_id text,
            frame_count bigint,
            retained_count bigint,
            total_bytes bigint,
            last_frame_at_ms bigint,
            has_durable_frame boolean,
            expires_at_ms bigint,
            ema_rate_hz double precision,
            maxlen_applied_last integer
        );
    end if;
    if to_regtype('flowfabric.ff_frame_position') is null then
        create type flowfabric.ff_frame_position as (
            ts_ms bigint,
            seq integer
        );
    end if;
    -- Events
    if to_regtype('flowfabric.ff_event_cursor') is null then
        create type flowfabric.ff_event_cursor as (
            epoch smallint,
            xact_id xid8,
            event_id bigint
        );
    end if;
    if to_regtype('flowfabric.ff_event') is null then
        create type flowfabric.ff_event as (
            cursor text,
            more boolean,
            stream text,
            event_id bigint,
            partition_key smallint,
            occurred_at_ms bigint,
            namespace text,
            instance_tag text,
            execution_id text,
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
        );
    end if;
    if to_regtype('flowfabric.ff_event_stream_lag') is null then
        create type flowfabric.ff_event_stream_lag as (
            stream text,
            newest_occurred_at_ms bigint,
            deliverable_rows bigint,
            held_back_rows bigint,
            oldest_running_xact xid8,
            oldest_running_pid integer,
            oldest_running_since_ms bigint,
            prepared_xact_count bigint,
            consumers jsonb
        );
    end if;
    if to_regtype('flowfabric.ff_event_wait') is null then
        create type flowfabric.ff_event_wait as (
            until_ms bigint,
            channels text[],
            notify boolean
        );
    end if;
end;
$$;

comment on type flowfabric.ff_appended_frame is 'The id that a frame got, and what the stream counts now.';
comment on type flowfabric.ff_stream_entry is
'One frame of a stream, or none, with the end of the stream if it has ended.';
comment on type flowfabric.ff_summary_document is 'The document that the summary frames of an attempt add up to.';
comment on type flowfabric.ff_stream_snapshot is 'What is known of a stream without its frames.';
comment on type flowfabric.ff_frame_position is 'Internal: the id of a frame as the tables hold it.';
comment on type flowfabric.ff_event_cursor is 'Internal: a position in the order in which events are read.';
comment on type flowfabric.ff_event is
'One event of a stream or, without an event id, the position at which to read on.';
comment on type flowfabric.ff_event_stream_lag is
'What readers of an event stream can have, what they must wait for, and who makes them wait.';
comment on type flowfabric.ff_event_wait is 'Until when a reader is woken, on which channels, and whether at all.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (13, 'stream-event-results', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
