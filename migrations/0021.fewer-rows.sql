-- An execution that simply succeeds is one row: its payload, if small, and its only attempt stand in ff_exec_core.
--
-- A payload of at most 128 bytes that nothing else came with (no encoding, policy, tags or creator) is `small_payload`;
-- its row in ff_exec_payload is made only for a result. A first attempt that succeeds never gets its row in ff_attempt:
-- the execution keeps the lease and the worker under which it ended. A replay writes the attempt's row first. Together
-- that is a seventh of the work of a batch item and of its WAL (docs/performance.md).
--
-- Locks:  ff_exec_core, ACCESS EXCLUSIVE for a moment; no row is read or written.
-- Beside: the functions of the previous release go on working until the new ones are loaded; they give every execution
--         its row in ff_exec_payload and every attempt that ends its row in ff_attempt.
-- depends: 0020.row-constraint-is-valid

alter table flowfabric.ff_exec_core
add column if not exists ended_lease_id uuid,
add column if not exists ended_worker_id text collate "C",
add column if not exists ended_worker_instance_id text collate "C",
add column if not exists small_payload bytea;
comment on column flowfabric.ff_exec_core.attempt_is_deferred is
'Whether its only attempt, which runs or has succeeded, has no row in ff_attempt: this row is its record.';
comment on column flowfabric.ff_exec_core.ended_lease_id is 'The lease under which it ended; NULL if there was none.';
comment on column flowfabric.ff_exec_core.ended_worker_id is 'Logical worker that held that lease.';
comment on column flowfabric.ff_exec_core.ended_worker_instance_id is 'Process that held that lease.';
comment on column flowfabric.ff_exec_core.small_payload is
'The payload if it is small and came alone, empty for none; NULL if what was given is in ff_exec_payload.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (21, 'fewer-rows', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
