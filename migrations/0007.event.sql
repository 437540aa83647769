-- Events: the five streams that say what happened, written in the transaction of the change itself.
--
-- Locks:  nothing that exists; the sequence and every table are new.
-- Beside: there is no previous release.
--
-- Transactions commit in another order than they insert, so a reader that asks for "event_id above the last one
-- seen" loses rows. Readers go by (epoch, xact_id, event_id) and stop below the oldest running transaction.
-- The primary key is that order; partition_key ends it so that the tables can be distributed.
-- No other index: these tables are written on every transition, and everything else is a filter over the scan.
--
-- All five tables begin with the same fixed-width header; namespace and instance_tag, which complete it, follow
-- the other fixed-width columns, so that alignment wastes no byte of a row that every transition writes.
--
-- depends: 0006.stream

-- One sequence for all five, without a cache: the events of one execution get ascending ids, whatever the stream.
create sequence if not exists flowfabric.ff_event_id_seq as bigint cache 1 no cycle;

comment on sequence flowfabric.ff_event_id_seq is
'Ids of all events, shared by the five event tables; handed out at insert, so not in the order of commits.';

create table if not exists flowfabric.ff_completion_event (
    event_id bigint not null default nextval('flowfabric.ff_event_id_seq'),
    xact_id xid8 not null default pg_current_xact_id(),
    occurred_at_ms bigint not null,
    partition_key smallint not null,
    epoch smallint not null,
    attempt_index integer,
    outcome flowfabric.ff_terminal_outcome not null,
    execution_id uuid not null,
    flow_id uuid,
    namespace text collate "C",
    instance_tag text,
    lane_id text collate "C",
    constraint ff_completion_event_pkey primary key (epoch, xact_id, event_id, partition_key)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

comment on table flowfabric.ff_completion_event is
'Stream completion: one row per execution that reached a terminal state.';
comment on column flowfabric.ff_completion_event.event_id is
'Identity of the event; within one execution it ascends in the order in which things happened.';
comment on column flowfabric.ff_completion_event.xact_id is
'Transaction that wrote it; readers wait until every lower one has finished.';
comment on column flowfabric.ff_completion_event.occurred_at_ms is
'Time of the operation; not of its commit.';
comment on column flowfabric.ff_completion_event.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_completion_event.epoch is
'Event epoch of the installation at the time; grows when transaction ids may have gone back.';
comment on column flowfabric.ff_completion_event.attempt_index is
'Attempt that was current at the end; null if there was none.';
comment on column flowfabric.ff_completion_event.outcome is
'How the execution ended; never none.';
comment on column flowfabric.ff_completion_event.execution_id is
'Execution that ended.';
comment on column flowfabric.ff_completion_event.flow_id is
'Flow it is a member of, if any.';
comment on column flowfabric.ff_completion_event.namespace is
'Namespace of the execution, copied so that readers can filter.';
comment on column flowfabric.ff_completion_event.instance_tag is
'Value of the execution''s instance tag at the time, copied so that readers can filter.';
comment on column flowfabric.ff_completion_event.lane_id is
'Lane of the execution.';

-- No CHECK on event_type: it would cost 12 us of every claim and every completion, and one helper writes all rows.
create table if not exists flowfabric.ff_lease_event (
    event_id bigint not null default nextval('flowfabric.ff_event_id_seq'),
    xact_id xid8 not null default pg_current_xact_id(),
    occurred_at_ms bigint not null,
    partition_key smallint not null,
    epoch smallint not null,
    attempt_index integer,
    lease_epoch bigint,
    old_lease_epoch bigint,
    execution_id uuid not null,
    lease_id uuid,
    attempt_id uuid,
    namespace text collate "C",
    instance_tag text,
    event_type text not null,
    worker_id text collate "C",
    worker_instance_id text collate "C",
    reason text,
    constraint ff_lease_event_pkey primary key (epoch, xact_id, event_id, partition_key)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

comment on table flowfabric.ff_lease_event is
'Stream lease: one row per step in the life of a lease. Empty when the setting lease_events is 0.';
comment on column flowfabric.ff_lease_event.event_id is
'Identity of the event; within one execution it ascends in the order in which things happened.';
comment on column flowfabric.ff_lease_event.xact_id is
'Transaction that wrote it; readers wait until every lower one has finished.';
comment on column flowfabric.ff_lease_event.occurred_at_ms is
'Time of the operation; not of its commit.';
comment on column flowfabric.ff_lease_event.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_lease_event.epoch is
'Event epoch of the installation at the time; grows when transaction ids may have gone back.';
comment on column flowfabric.ff_lease_event.attempt_index is
'Attempt the lease is for.';
comment on column flowfabric.ff_lease_event.lease_epoch is
'Epoch of the lease; every new lease of an execution has a higher one.';
comment on column flowfabric.ff_lease_event.old_lease_epoch is
'Epoch of the lease that a reclaim replaced; null otherwise.';
comment on column flowfabric.ff_lease_event.execution_id is
'Execution that is leased.';
comment on column flowfabric.ff_lease_event.lease_id is
'The lease; for a reclaim the new one.';
comment on column flowfabric.ff_lease_event.attempt_id is
'Identity of the attempt.';
comment on column flowfabric.ff_lease_event.namespace is
'Namespace of the execution, copied so that readers can filter.';
comment on column flowfabric.ff_lease_event.instance_tag is
'Value of the execution''s instance tag at the time, copied so that readers can filter.';
comment on column flowfabric.ff_lease_event.event_type is
'What happened to the lease; revoked is kept for operators and the reclaim cap, a normal end is released.';
comment on column flowfabric.ff_lease_event.worker_id is
'Pool of the holder.';
comment on column flowfabric.ff_lease_event.worker_instance_id is
'Process of the holder.';
comment on column flowfabric.ff_lease_event.reason is
'Which operation did it, or the operator''s words.';

create table if not exists flowfabric.ff_signal_event (
    event_id bigint not null default nextval('flowfabric.ff_event_id_seq'),
    xact_id xid8 not null default pg_current_xact_id(),
    occurred_at_ms bigint not null,
    partition_key smallint not null,
    epoch smallint not null,
    execution_id uuid not null,
    signal_id uuid not null,
    waitpoint_id uuid,
    namespace text collate "C",
    instance_tag text,
    signal_name text,
    source_type text,
    source_identity text,
    effect text not null,
    constraint ff_signal_event_pkey primary key (epoch, xact_id, event_id, partition_key)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

comment on table flowfabric.ff_signal_event is
'Stream signal: one row per accepted or buffered signal; a duplicate delivery writes none.';
comment on column flowfabric.ff_signal_event.event_id is
'Identity of the event; within one execution it ascends in the order in which things happened.';
comment on column flowfabric.ff_signal_event.xact_id is
'Transaction that wrote it; readers wait until every lower one has finished.';
comment on column flowfabric.ff_signal_event.occurred_at_ms is
'Time of the operation; not of its commit.';
comment on column flowfabric.ff_signal_event.partition_key is
'Partition of the execution.';
comment on column flowfabric.ff_signal_event.epoch is
'Event epoch of the installation at the time; grows when transaction ids may have gone back.';
comment on column flowfabric.ff_signal_event.execution_id is
'Execution that was signalled.';
comment on column flowfabric.ff_signal_event.signal_id is
'The signal.';
comment on column flowfabric.ff_signal_event.waitpoint_id is
'Waitpoint it was delivered to.';
comment on column flowfabric.ff_signal_event.namespace is
'Namespace of the execution, copied so that readers can filter.';
comment on column flowfabric.ff_signal_event.instance_tag is
'Value of the execution''s instance tag at the time, copied so that readers can filter.';
comment on column flowfabric.ff_signal_event.signal_name is
'Name of the signal.';
comment on column flowfabric.ff_signal_event.source_type is
'Kind of sender.';
comment on column flowfabric.ff_signal_event.source_identity is
'Which sender of that kind.';
comment on column flowfabric.ff_signal_event.effect is
'What the signal did, in the words of ff_signal.observed_effect.';

create table if not exists flowfabric.ff_operator_event (
    event_id bigint not null default nextval('flowfabric.ff_event_id_seq'),
    xact_id xid8 not null default pg_current_xact_id(),
    occurred_at_ms bigint not null,
    partition_key smallint not null,
    epoch smallint not null,
    execution_id uuid,
    flow_id uuid,
    namespace text collate "C",
    instance_tag text,
    event_type text not null,
    details jsonb not null default '{}',
    constraint ff_operator_event_pkey primary key (epoch, xact_id, event_id, partition_key),
    constraint ff_operator_event_event_type_is_known
    check (event_type in ('priority_changed', 'replayed', 'flow_cancel_requested', 'lane_state_changed')),
    constraint ff_operator_event_has_one_subject_at_most check (num_nonnulls(execution_id, flow_id) <= 1)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

comment on table flowfabric.ff_operator_event is
'Stream operator: one row per operator action on an execution, a flow or a lane.';
comment on column flowfabric.ff_operator_event.event_id is
'Identity of the event; within one execution it ascends in the order in which things happened.';
comment on column flowfabric.ff_operator_event.xact_id is
'Transaction that wrote it; readers wait until every lower one has finished.';
comment on column flowfabric.ff_operator_event.occurred_at_ms is
'Time of the operation; not of its commit.';
comment on column flowfabric.ff_operator_event.partition_key is
'Partition of the execution or flow; 0 for a lane.';
comment on column flowfabric.ff_operator_event.epoch is
'Event epoch of the installation at the time; grows when transaction ids may have gone back.';
comment on column flowfabric.ff_operator_event.execution_id is
'Execution acted upon; null for a flow or a lane.';
comment on column flowfabric.ff_operator_event.flow_id is
'Flow acted upon; null for an execution or a lane.';
comment on column flowfabric.ff_operator_event.namespace is
'Namespace of the execution or flow, copied so that readers can filter.';
comment on column flowfabric.ff_operator_event.instance_tag is
'Value of the execution''s instance tag at the time, copied so that readers can filter.';
comment on column flowfabric.ff_operator_event.event_type is
'What the operator did.';
comment on column flowfabric.ff_operator_event.details is
'Facts of the action; the keys differ by event_type.';

create table if not exists flowfabric.ff_worker_registry_event (
    event_id bigint not null default nextval('flowfabric.ff_event_id_seq'),
    xact_id xid8 not null default pg_current_xact_id(),
    occurred_at_ms bigint not null,
    partition_key smallint not null default 0,
    epoch smallint not null,
    namespace text collate "C",
    instance_tag text,
    worker_instance_id text collate "C" not null,
    worker_id text collate "C",
    event_kind text not null,
    reason text,
    constraint ff_worker_registry_event_pkey primary key (epoch, xact_id, event_id, partition_key),
    constraint ff_worker_registry_event_event_kind_is_known check (
        event_kind in (
            'registered', 'refreshed', 'drain_requested', 'drain_cancelled', 'marked_dead', 'ttl_swept'
        )
    )
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

comment on table flowfabric.ff_worker_registry_event is
'Stream worker: one row per change of a worker''s registration; heartbeats write none.';
comment on column flowfabric.ff_worker_registry_event.event_id is
'Identity of the event.';
comment on column flowfabric.ff_worker_registry_event.xact_id is
'Transaction that wrote it; readers wait until every lower one has finished.';
comment on column flowfabric.ff_worker_registry_event.occurred_at_ms is
'Time of the operation; not of its commit.';
comment on column flowfabric.ff_worker_registry_event.partition_key is
'Always 0: workers belong to no partition.';
comment on column flowfabric.ff_worker_registry_event.epoch is
'Event epoch of the installation at the time; grows when transaction ids may have gone back.';
comment on column flowfabric.ff_worker_registry_event.namespace is
'Namespace the worker serves.';
comment on column flowfabric.ff_worker_registry_event.instance_tag is
'Part of the common header; workers have no tags, so always null.';
comment on column flowfabric.ff_worker_registry_event.worker_instance_id is
'Process whose registration changed.';
comment on column flowfabric.ff_worker_registry_event.worker_id is
'Pool it belongs to.';
comment on column flowfabric.ff_worker_registry_event.event_kind is
'What changed; ttl_swept means that its heartbeats stopped.';
comment on column flowfabric.ff_worker_registry_event.reason is
'The operator''s words, for a drain or a worker marked dead.';

-- Reading and pruning -------------------------------------------------------------------------------------

create table if not exists flowfabric.ff_event_stream (
    stream text collate "C" not null,
    pruned_epoch smallint not null default 0,
    pruned_xact_id xid8 not null default '0',
    pruned_event_id bigint not null default 0,
    notified_event_id bigint not null default 0,
    constraint ff_event_stream_pkey primary key (stream),
    constraint ff_event_stream_stream_is_known
    check (stream in ('completion', 'lease', 'signal', 'operator', 'worker'))
);

comment on table flowfabric.ff_event_stream is
'How far each stream has been pruned and announced. A cursor below the pruned position is refused.';
comment on column flowfabric.ff_event_stream.stream is
'Name by which readers ask for the stream.';
comment on column flowfabric.ff_event_stream.pruned_epoch is
'Epoch of the pruned position: everything up to and including it may be gone.';
comment on column flowfabric.ff_event_stream.pruned_xact_id is
'Transaction of the pruned position.';
comment on column flowfabric.ff_event_stream.pruned_event_id is
'Event of the pruned position.';
comment on column flowfabric.ff_event_stream.notified_event_id is
'Newest event that the tick has announced, where notifications are left to the tick.';

insert into flowfabric.ff_event_stream (stream)
values ('completion'), ('lease'), ('signal'), ('operator'), ('worker')
on conflict (stream) do nothing;

create table if not exists flowfabric.ff_event_consumer (
    consumer_name text collate "C" not null,
    stream text collate "C" not null,
    cursor text not null,
    updated_at_ms bigint not null,
    constraint ff_event_consumer_pkey primary key (consumer_name, stream),
    constraint ff_event_consumer_stream_is_known
    check (stream in ('completion', 'lease', 'signal', 'operator', 'worker'))
);

comment on table flowfabric.ff_event_consumer is
'Optional: where named consumers stand. Shown as lag; pruning does not wait for them.';
comment on column flowfabric.ff_event_consumer.consumer_name is
'Name the consumer chose.';
comment on column flowfabric.ff_event_consumer.stream is
'Stream it reads.';
comment on column flowfabric.ff_event_consumer.cursor is
'Opaque position after the last event it has dealt with; never moves back.';
comment on column flowfabric.ff_event_consumer.updated_at_ms is
'When it last stored a position.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (7, 'event', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
