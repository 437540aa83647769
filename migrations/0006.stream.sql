-- Output streams: what an attempt says while it runs. One meta row per attempt that ever appended, its frames,
-- and one rolling summary document.
--
-- Locks:  nothing that exists; every table is new.
-- Beside: there is no previous release.
--
-- The append is the most frequent call of the engine. It locks and updates the meta row and, but for the first frame of
-- an attempt, never dirties the execution row; fillfactor 50 keeps those updates heap-only.
--
-- depends: 0005.flow

create table if not exists flowfabric.ff_stream_meta (
    partition_key smallint not null,
    execution_id uuid not null,
    attempt_index integer not null,
    attempt_id uuid,
    created_at_ms bigint not null,
    closed_at_ms bigint,
    closed_reason text,
    retention_maxlen integer not null default 0,
    last_ts_ms bigint not null default 0,
    last_seq integer not null default 0,
    frame_count bigint not null default 0,
    retained_count bigint not null default 0,
    total_bytes bigint not null default 0,
    last_frame_at_ms bigint,
    has_durable_frame boolean not null default false,
    expires_at_ms bigint,
    ema_rate_hz double precision,
    last_append_ts_ms bigint,
    maxlen_applied_last integer,
    constraint ff_stream_meta_pkey primary key (partition_key, execution_id, attempt_index)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- serves ff_scan_stream_ttl: lapsed best-effort streams, longest lapsed first
create index if not exists ff_stream_meta_expiry_idx
on flowfabric.ff_stream_meta (expires_at_ms) where expires_at_ms is not null;

comment on table flowfabric.ff_stream_meta is
'One row per attempt that appended: allocates frame ids, counts, says whether the stream is closed.';
comment on column flowfabric.ff_stream_meta.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_stream_meta.execution_id is
'Execution whose attempt writes.';
comment on column flowfabric.ff_stream_meta.attempt_index is
'Attempt that writes; each has a stream of its own.';
comment on column flowfabric.ff_stream_meta.attempt_id is
'Identity of the attempt that made the first append.';
comment on column flowfabric.ff_stream_meta.created_at_ms is
'When the first frame was appended.';
comment on column flowfabric.ff_stream_meta.closed_at_ms is
'When the stream ended; null while frames may still come.';
comment on column flowfabric.ff_stream_meta.closed_reason is
'Why it ended, such as attempt_success, reclaimed or lease_expired; tells a tailer what to expect next.';
comment on column flowfabric.ff_stream_meta.retention_maxlen is
'Limit given with the first append; 0 means the default of 10000 frames.';
comment on column flowfabric.ff_stream_meta.last_ts_ms is
'First half of the newest frame''s id; ids never go back, even if the clock does.';
comment on column flowfabric.ff_stream_meta.last_seq is
'Second half of the newest frame''s id.';
comment on column flowfabric.ff_stream_meta.frame_count is
'Frames ever appended; trimming does not lower it.';
comment on column flowfabric.ff_stream_meta.retained_count is
'Frames stored now.';
comment on column flowfabric.ff_stream_meta.total_bytes is
'Payload bytes ever appended.';
comment on column flowfabric.ff_stream_meta.last_frame_at_ms is
'When the newest frame was appended.';
comment on column flowfabric.ff_stream_meta.has_durable_frame is
'True once a durable or summary frame was written; such a stream never expires as a whole.';
comment on column flowfabric.ff_stream_meta.expires_at_ms is
'When a stream of best-effort frames only lapses; its frames are then invisible and deleted.';
comment on column flowfabric.ff_stream_meta.ema_rate_hz is
'Moving average of the append rate, from which the length limit follows; null before a best-effort append.';
comment on column flowfabric.ff_stream_meta.last_append_ts_ms is
'When the last best-effort frame came; the estimator measures from it.';
comment on column flowfabric.ff_stream_meta.maxlen_applied_last is
'Length limit the estimator last chose.';

-- No CHECK on mode: it would cost 12 us of every append, and ff_append_frame, the only writer, validates it.
create table if not exists flowfabric.ff_stream_frame (
    partition_key smallint not null,
    execution_id uuid not null,
    attempt_index integer not null,
    ts_ms bigint not null,
    seq integer not null,
    frame_type text not null,
    frame_ts_ms bigint not null,
    payload bytea not null,
    encoding text not null,
    source text not null,
    mode text not null,
    correlation_id text,
    summary_version bigint,
    ttl_ms integer,
    constraint ff_stream_frame_pkey primary key (partition_key, execution_id, attempt_index, ts_ms, seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

comment on table flowfabric.ff_stream_frame is
'Frames of the streams, in id order; appended, read by range, trimmed from the old end.';
comment on column flowfabric.ff_stream_frame.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_stream_frame.execution_id is
'Execution whose attempt wrote.';
comment on column flowfabric.ff_stream_frame.attempt_index is
'Attempt that wrote.';
comment on column flowfabric.ff_stream_frame.ts_ms is
'First half of the frame''s id: the engine''s time of the append, never below that of the frame before.';
comment on column flowfabric.ff_stream_frame.seq is
'Second half of the id: tells frames of one millisecond apart.';
comment on column flowfabric.ff_stream_frame.frame_type is
'The producer''s classifier, such as stdout, stderr, event or blob.';
comment on column flowfabric.ff_stream_frame.frame_ts_ms is
'The producer''s own time; not used for ordering.';
comment on column flowfabric.ff_stream_frame.payload is
'Content, byte for byte; in summary mode the merge patch.';
comment on column flowfabric.ff_stream_frame.encoding is
'How a reader should read the payload.';
comment on column flowfabric.ff_stream_frame.source is
'What wrote the frame, worker unless the producer said otherwise.';
comment on column flowfabric.ff_stream_frame.mode is
'durable: kept up to the limit. summary: also merged into the document. best_effort: short-lived.';
comment on column flowfabric.ff_stream_frame.correlation_id is
'The producer''s reference, by which a repeated append can be recognised.';
comment on column flowfabric.ff_stream_frame.summary_version is
'Version of the summary document this frame made; summary mode only.';
comment on column flowfabric.ff_stream_frame.ttl_ms is
'How long the frame should stay visible; best-effort mode only.';

create table if not exists flowfabric.ff_stream_summary (
    partition_key smallint not null,
    execution_id uuid not null,
    attempt_index integer not null,
    document_json jsonb not null,
    version bigint not null,
    patch_kind text not null,
    last_updated_ms bigint not null,
    first_applied_ms bigint not null,
    constraint ff_stream_summary_pkey primary key (partition_key, execution_id, attempt_index),
    constraint ff_stream_summary_patch_kind_is_known check (patch_kind in ('json-merge-patch'))
);

comment on table flowfabric.ff_stream_summary is
'The document that an attempt''s summary frames add up to; outlives trimming and closing, goes with the execution.';
comment on column flowfabric.ff_stream_summary.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_stream_summary.execution_id is
'Execution whose attempt writes.';
comment on column flowfabric.ff_stream_summary.attempt_index is
'Attempt that writes.';
comment on column flowfabric.ff_stream_summary.document_json is
'All patches applied so far: a JSON object.';
comment on column flowfabric.ff_stream_summary.version is
'Number of patches applied.';
comment on column flowfabric.ff_stream_summary.patch_kind is
'How patches are applied: JSON merge patch (RFC 7396), the one kind there is.';
comment on column flowfabric.ff_stream_summary.last_updated_ms is
'When the last patch was applied.';
comment on column flowfabric.ff_stream_summary.first_applied_ms is
'When the first patch was applied.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (6, 'stream', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
