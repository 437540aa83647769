-- Event cursors get an owner; locks that only the owner of the schema can take; keys that outlive their execution.
--
-- The list of operator events moves from a constraint into _ff_operator_event_types(), so that one place has it.
--
-- Locks:  ff_event_consumer, ff_operator_event, ff_execution_idempotency and ff_quota_window, ACCESS EXCLUSIVE for a
--         moment.
-- Beside: the functions of the previous release go on working; cursors that they store get their owner later.
-- depends: 0023.floors-move-on

alter table flowfabric.ff_event_consumer add column if not exists owner text collate "C";
comment on column flowfabric.ff_event_consumer.owner is
'Role that stored the first position, and alone may store others; NULL for a row that is older than this column.';
comment on column flowfabric.ff_event_consumer.cursor is
'Opaque position after the last event it has dealt with; only an operator moves it back.';

alter table flowfabric.ff_operator_event
-- squawk-ignore ban-drop-constraint
drop constraint if exists ff_operator_event_event_type_is_known;
comment on table flowfabric.ff_operator_event is
'Stream operator: one row per operator action on an execution, a flow, a lane or an event cursor.';
comment on column flowfabric.ff_operator_event.partition_key is
'Partition of the execution, flow or lane; 0 for an event cursor.';
comment on column flowfabric.ff_operator_event.event_type is
'What the operator did: one of _ff_operator_event_types().';

-- Both served ff_trim_retention, which no longer deletes these rows.
-- squawk-ignore require-concurrent-index-deletion
drop index if exists flowfabric.ff_execution_idempotency_execution_idx;
-- squawk-ignore require-concurrent-index-deletion
drop index if exists flowfabric.ff_quota_window_execution_idx;
comment on table flowfabric.ff_execution_idempotency is
'Idempotency keys of creations; a row stays until it expires, even if its execution is gone, and then counts as absent.';

-- A table and not an advisory lock, which any login could hold. A lock of a table needs no transaction id, so that a
-- loop that sleeps does not hold back the delivery of events.
create table if not exists flowfabric.ff_tick_loop_lock (
    singleton_lock boolean not null default true,
    constraint ff_tick_loop_lock_pkey primary key (singleton_lock)
);
comment on table flowfabric.ff_tick_loop_lock is
'Always empty: ff_tick_loop locks the table, so that one loop runs per database.';
comment on column flowfabric.ff_tick_loop_lock.singleton_lock is
'Never used; a table has a key.';

create table if not exists flowfabric.ff_scanner_detour (
    run_id bigint generated always as identity,
    scanner text collate "C" not null,
    ran_at_ms bigint not null,
    next_due_at_ms bigint not null,
    constraint ff_scanner_detour_pkey primary key (run_id)
);
comment on table flowfabric.ff_scanner_detour is
'Runs of scanners whose ff_scanner row an open transaction holds; gone with the next run that gets the row.';
comment on column flowfabric.ff_scanner_detour.run_id is
'Tells runs apart: no run waits for the row of another.';
comment on column flowfabric.ff_scanner_detour.scanner is 'The scanner.';
comment on column flowfabric.ff_scanner_detour.ran_at_ms is 'When it ran.';
comment on column flowfabric.ff_scanner_detour.next_due_at_ms is 'When it should run next.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (25, 'owned-cursors-and-locks', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
