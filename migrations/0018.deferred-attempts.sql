-- The row of a first attempt is written once, when the attempt pauses or ends.
--
-- While it runs, the execution's own row has all that could stand in it, and `attempt_is_deferred` says that it is the
-- attempt's record too. A completed execution takes one write of ff_attempt instead of two: some 8 percent of the work
-- of a batch item, 5 of its WAL, and no dead row. So the room on the pages of ff_attempt is no longer needed either.
-- That the index of an attempt is not negative follows from the constraint on total_attempt_count in ff_exec_core;
-- checked here as well it cost every write of an attempt 3 us. ff_check_invariants counts the rows.
--
-- Locks:  ff_exec_core and ff_attempt, ACCESS EXCLUSIVE for a moment; no row is read or written.
-- Beside: the functions of the previous release go on working; they write each attempt when it starts.
-- depends: 0017.lean-writes

alter table flowfabric.ff_exec_core
add column if not exists attempt_is_deferred boolean not null default false;
comment on column flowfabric.ff_exec_core.attempt_is_deferred is
'Whether the running attempt, the first one, has no row in ff_attempt yet; false while nothing runs.';

alter table flowfabric.ff_attempt
-- squawk-ignore ban-drop-constraint
drop constraint if exists ff_attempt_index_is_not_negative,
set (fillfactor = 90);

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (18, 'deferred-attempts', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
