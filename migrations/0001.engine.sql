-- What everything else stands on: the schema, the state vocabulary, and the tables of the engine itself.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.

create schema if not exists flowfabric;
comment on schema flowfabric is
'FlowFabric: a durable execution engine. Call its ff_* functions; nothing else is an interface.';

-- The state vocabulary. `create type` knows no `if not exists`, and a migration must be repeatable.
do $$
begin
    if to_regtype('flowfabric.ff_lifecycle_phase') is null then
        create type flowfabric.ff_lifecycle_phase as enum ('runnable', 'active', 'suspended', 'terminal');
    end if;
    if to_regtype('flowfabric.ff_ownership_state') is null then
        create type flowfabric.ff_ownership_state as enum (
            'unowned', 'leased', 'lease_expired_reclaimable', 'lease_revoked');
    end if;
    if to_regtype('flowfabric.ff_eligibility_state') is null then
        create type flowfabric.ff_eligibility_state as enum (
            'eligible_now', 'not_eligible_until_time', 'blocked_by_dependencies', 'blocked_by_budget',
            'blocked_by_quota', 'blocked_by_route', 'blocked_by_lane_state', 'blocked_by_operator',
            'not_applicable');
    end if;
    if to_regtype('flowfabric.ff_blocking_reason') is null then
        create type flowfabric.ff_blocking_reason as enum (
            'none', 'waiting_for_worker', 'waiting_for_retry_backoff', 'waiting_for_resume_delay',
            'waiting_for_delay', 'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback',
            'waiting_for_tool_result', 'waiting_for_children', 'waiting_for_budget', 'waiting_for_quota',
            'waiting_for_capable_worker', 'waiting_for_locality_match', 'paused_by_operator',
            'paused_by_policy', 'paused_by_flow_cancel');
    end if;
    if to_regtype('flowfabric.ff_terminal_outcome') is null then
        create type flowfabric.ff_terminal_outcome as enum (
            'none', 'success', 'failed', 'cancelled', 'expired', 'skipped');
    end if;
    if to_regtype('flowfabric.ff_attempt_state') is null then
        create type flowfabric.ff_attempt_state as enum (
            'none', 'pending_first_attempt', 'running_attempt', 'attempt_interrupted',
            'pending_retry_attempt', 'pending_replay_attempt', 'attempt_terminal');
    end if;
    if to_regtype('flowfabric.ff_public_state') is null then
        create type flowfabric.ff_public_state as enum (
            'waiting', 'delayed', 'rate_limited', 'waiting_children', 'active', 'suspended', 'completed',
            'failed', 'cancelled', 'expired', 'skipped');
    end if;
    if to_regtype('flowfabric.ff_attempt_type') is null then
        create type flowfabric.ff_attempt_type as enum ('initial', 'retry', 'reclaim', 'replay', 'fallback');
    end if;
    if to_regtype('flowfabric.ff_attempt_row_state') is null then
        create type flowfabric.ff_attempt_row_state as enum (
            'created', 'started', 'suspended', 'ended_success', 'ended_failure', 'ended_cancelled',
            'interrupted_reclaimed');
    end if;
end;
$$;

comment on type flowfabric.ff_lifecycle_phase is 'What phase of life an execution is in.';
comment on type flowfabric.ff_ownership_state is
'Who may change an execution: nobody, a lease holder, or whoever reclaims a lost lease.';
comment on type flowfabric.ff_eligibility_state is
'Whether an execution can be claimed now, and if not, what kind of thing prevents it.';
comment on type flowfabric.ff_blocking_reason is
'The most specific reason why an execution makes no progress.';
comment on type flowfabric.ff_terminal_outcome is 'How an execution ended; none while it has not.';
comment on type flowfabric.ff_attempt_state is
'What happens at the attempt layer, as the execution sees it; tells the next claim what to do.';
comment on type flowfabric.ff_public_state is
'The one label for users, derived from phase, outcome and eligibility.';
comment on type flowfabric.ff_attempt_type is 'Why an attempt exists.';
comment on type flowfabric.ff_attempt_row_state is 'The life of one attempt; the last four are final.';

-- Versions and configuration

create table if not exists flowfabric.ff_migration_annotation (
    version integer not null,
    name text not null,
    applied_at_ms bigint not null,
    backward_compatible boolean not null,
    constraint ff_migration_annotation_pkey primary key (version)
);
comment on table flowfabric.ff_migration_annotation is
'The ledger of migrations: each migration writes its own row as its last statement.';
comment on column flowfabric.ff_migration_annotation.version is 'Number of the migration file.';
comment on column flowfabric.ff_migration_annotation.name is
'Name of the migration file without number and ending.';
comment on column flowfabric.ff_migration_annotation.applied_at_ms is 'When it was applied.';
comment on column flowfabric.ff_migration_annotation.backward_compatible is
'Whether a client of the release before keeps working after it.';

create table if not exists flowfabric.ff_partition_config (
    singleton_lock boolean not null default true,
    num_flow_partitions integer not null default 256,
    event_epoch smallint not null default 1,
    system_identifier bigint,
    instance_tag_key text not null default 'ff.instance_id',
    ff_version text not null default '',
    library_digest text,
    constraint ff_partition_config_pkey primary key (singleton_lock),
    constraint ff_partition_config_is_one_row check (singleton_lock),
    constraint ff_partition_config_count_in_range check (num_flow_partitions between 1 and 32767)
);
comment on table flowfabric.ff_partition_config is
'One row: what this installation is and how it numbers its partitions.';
comment on column flowfabric.ff_partition_config.singleton_lock is
'Always true; makes a second row impossible.';
comment on column flowfabric.ff_partition_config.num_flow_partitions is
'Partition numbers in use. Baked into every id, so it changes only while nothing is stored.';
comment on column flowfabric.ff_partition_config.event_epoch is
'Counts the times at which transaction ids may have gone back (restore elsewhere); leads every event cursor.';
comment on column flowfabric.ff_partition_config.system_identifier is
'The server that wrote last; another one means the data were restored elsewhere.';
comment on column flowfabric.ff_partition_config.instance_tag_key is
'The tag whose value is copied to executions and events for filtering.';
comment on column flowfabric.ff_partition_config.ff_version is
'Version of the function library that is installed.';
comment on column flowfabric.ff_partition_config.library_digest is
'SHA-256 of the installed function files; lets the installer see that nothing changed.';
insert into flowfabric.ff_partition_config default values on conflict do nothing;

create table if not exists flowfabric.ff_setting (
    name text collate "C" not null,
    value bigint not null,
    constraint ff_setting_pkey primary key (name)
);
comment on table flowfabric.ff_setting is
'Settings that differ from their default; an absent row means the default.';
comment on column flowfabric.ff_setting.name is 'A name that ff_list_settings knows.';
comment on column flowfabric.ff_setting.value is
'The value in force; takes effect for every call that starts after the commit.';

create table if not exists flowfabric.ff_error_code (
    code text collate "C" not null,
    sqlstate char(5) collate "C" not null,
    category text not null,
    retry_class text not null,
    hint text not null,
    constraint ff_error_code_pkey primary key (code),
    constraint ff_error_code_sqlstate_is_unique unique (sqlstate),
    constraint ff_error_code_sqlstate_is_ours check (sqlstate ~ '^Z[NVCKSXUB][0-9]{3}$' and sqlstate !~ '000$'),
    constraint ff_error_code_category_is_known check (category in (
        'NotFound', 'Validation', 'Contention', 'Conflict', 'State', 'Corruption', 'Unavailable', 'Bug')),
    constraint ff_error_code_retry_class_is_known check (retry_class in (
        'terminal', 'retryable', 'cooperative', 'informational', 'expected', 'soft_error', 'bug'))
);
comment on table flowfabric.ff_error_code is
'The catalogue of every typed error; filled by plpgsql/00_core/errors.sql.';
comment on column flowfabric.ff_error_code.code is
'The stable name of the error in SQL, Python and the documents; the MESSAGE of the exception.';
comment on column flowfabric.ff_error_code.sqlstate is
'The five characters of the exception; the first two are the category.';
comment on column flowfabric.ff_error_code.category is 'One of eight; tells a caller roughly what to do.';
comment on column flowfabric.ff_error_code.retry_class is 'What a client should do, exactly.';
comment on column flowfabric.ff_error_code.hint is 'The HINT of the exception: one sentence for people.';

-- Background work

create table if not exists flowfabric.ff_scanner (
    scanner text collate "C" not null,
    function_name text not null,
    run_order integer not null,
    enabled boolean not null default true,
    interval_ms bigint not null,
    batch_limit integer not null,
    next_due_at_ms bigint not null default 0,
    last_run_at_ms bigint,
    last_duration_ms integer,
    last_processed integer,
    last_skipped integer,
    last_errors integer,
    total_processed bigint not null default 0,
    consecutive_failures integer not null default 0,
    last_error text,
    constraint ff_scanner_pkey primary key (scanner),
    constraint ff_scanner_run_order_is_unique unique (run_order),
    constraint ff_scanner_interval_is_positive check (interval_ms > 0),
    constraint ff_scanner_batch_limit_is_positive check (batch_limit > 0)
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table flowfabric.ff_scanner is
'The background scanners: schedule and last run. The row lock lets one caller at a time run a scanner.';
comment on column flowfabric.ff_scanner.scanner is 'Name of the scanner, as ff_tick takes it.';
comment on column flowfabric.ff_scanner.function_name is
'The function behind it; information for people, never executed as text.';
comment on column flowfabric.ff_scanner.run_order is
'Order inside one tick: first what frees work, then what moves it, then housekeeping.';
comment on column flowfabric.ff_scanner.enabled is 'False switches the scanner off for maintenance.';
comment on column flowfabric.ff_scanner.interval_ms is 'Pause after a run that left nothing over.';
comment on column flowfabric.ff_scanner.batch_limit is 'Items changed per run at the most.';
comment on column flowfabric.ff_scanner.next_due_at_ms is 'When it should run next.';
comment on column flowfabric.ff_scanner.last_run_at_ms is 'When it ran last.';
comment on column flowfabric.ff_scanner.last_duration_ms is 'How long the last run took.';
comment on column flowfabric.ff_scanner.last_processed is 'Items the last run changed.';
comment on column flowfabric.ff_scanner.last_skipped is 'Items the last run left because somebody held them.';
comment on column flowfabric.ff_scanner.last_errors is 'Items of the last run that failed.';
comment on column flowfabric.ff_scanner.total_processed is 'Items changed since installation.';
comment on column flowfabric.ff_scanner.consecutive_failures is
'Runs in a row that failed as a whole; lengthens the pause.';
comment on column flowfabric.ff_scanner.last_error is 'Message of the last run that failed as a whole.';

create table if not exists flowfabric.ff_scanner_failure (
    scanner text collate "C" not null,
    item_key text collate "C" not null,
    failures integer not null,
    skip_until_ms bigint,
    last_error text,
    last_failed_at_ms bigint not null,
    constraint ff_scanner_failure_pkey primary key (scanner, item_key)
);
comment on table flowfabric.ff_scanner_failure is
'Items that keep failing in a scanner; from the third failure on they are left out for a while.';
comment on column flowfabric.ff_scanner_failure.scanner is 'The scanner.';
comment on column flowfabric.ff_scanner_failure.item_key is
'What failed, in wire form where it is an execution.';
comment on column flowfabric.ff_scanner_failure.failures is 'Failures in a row.';
comment on column flowfabric.ff_scanner_failure.skip_until_ms is 'The item is left out until then.';
comment on column flowfabric.ff_scanner_failure.last_error is 'Message of the last failure.';
comment on column flowfabric.ff_scanner_failure.last_failed_at_ms is 'When it failed last.';

-- Waiting and waking. Unlogged: losing it in a crash costs one poll interval.
create unlogged table if not exists flowfabric.ff_waiter (
    channel text collate "C" not null,
    key text collate "C" not null,
    waiter_id text collate "C" not null,
    until_ms bigint not null,
    constraint ff_waiter_pkey primary key (channel, key, waiter_id)
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table flowfabric.ff_waiter is
'Who wants to be woken for what, until when. Empty under load, and then nothing is notified.';
comment on column flowfabric.ff_waiter.channel is 'The NOTIFY channel.';
comment on column flowfabric.ff_waiter.key is 'What on that channel: a lane, a stream, or * for everything.';
comment on column flowfabric.ff_waiter.waiter_id is 'Who waits.';
comment on column flowfabric.ff_waiter.until_ms is 'A row that is past this time counts as absent.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (1, 'engine', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, false)
on conflict (version) do nothing;
