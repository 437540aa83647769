-- ff_boot_check: the first call of a client process: do client and schema fit together?
--
-- Fence:  none.
-- Locks:  the table ff_partition_config, only when the data turn out to be restored from another server.
-- Writes: ff_partition_config (system_identifier, event_epoch), only then; nothing on a standby or read-only session.
-- Raises: invalid_input, schema_version_mismatch, partition_config_mismatch, retry_exhausted after 5 s.
-- Retry:  safe.
--
-- Transaction ids order the event cursors and mean nothing on another server. A changed system identifier says that
-- the data came from a dump, so the epoch is raised before any consumer reads on. Where no client has recorded a server
-- yet, events that are there already may come from another one: raising costs nothing, so it is done then too.
-- Where nothing can be written, a warning says so, and the next client that can write does it.
create or replace function flowfabric.ff_boot_check(
    p_required_version integer,
    p_num_flow_partitions integer default null
)
returns flowfabric.ff_boot_report
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_boot_check';
    v_installed integer;
    v_incompatible integer;
    v_server bigint;
    v_stored_server bigint;
    v_has_events boolean;
    v_last_tick_ms bigint;
    v_report flowfabric.ff_boot_report;
begin
    if p_required_version is null or p_required_version < 0 then
        perform flowfabric._ff_raise_invalid(c_fn, 'required_version', 'out_of_range', p_required_version::text);
    end if;
    select coalesce(max(a.version), 0), min(a.version) filter (
        where a.version > p_required_version and not a.backward_compatible)
    into v_installed, v_incompatible
    from flowfabric.ff_migration_annotation as a;
    if v_installed < p_required_version or v_incompatible is not null then
        perform flowfabric._ff_raise(
            'schema_version_mismatch', c_fn,
            jsonb_build_object(
                'installed', v_installed, 'required', p_required_version, 'incompatible', v_incompatible));
    end if;

    select v_installed, c.ff_version, c.num_flow_partitions, c.event_epoch, '{}'::text[]
    into v_report
    from flowfabric.ff_partition_config as c;
    if p_num_flow_partitions <> v_report.num_flow_partitions then
        perform flowfabric._ff_raise(
            'partition_config_mismatch', c_fn,
            jsonb_build_object('configured', v_report.num_flow_partitions, 'expected', p_num_flow_partitions));
    end if;

    v_server := (select s.system_identifier from pg_control_system() as s);
    select c.system_identifier into v_stored_server from flowfabric.ff_partition_config as c;
    if current_setting('transaction_read_only')::boolean then
        v_report.warnings := v_report.warnings || (
            case
                when pg_is_in_recovery() then 'the server is a standby: it answers readers and refuses every write'
                else 'the session is read-only: every write will be refused'
            end)::text;
    elsif v_stored_server is distinct from v_server then
        -- As ff_bump_event_epoch: transactions that read the old epoch end before readers take it for finished.
        -- Two clients that have both read the table wait for each other: the deadlock detector (1 s) lets one go on.
        perform flowfabric._ff_lock_event_epoch(5000, c_fn);
        select c.system_identifier into v_stored_server from flowfabric.ff_partition_config as c;
        if v_stored_server is distinct from v_server then
            v_has_events := (select q.is_called from flowfabric.ff_event_id_seq as q);
            update flowfabric.ff_partition_config as c
            set system_identifier = v_server,
                event_epoch = c.event_epoch
                    + case when v_stored_server is null and not v_has_events then 0 else 1 end
            returning c.event_epoch into v_report.event_epoch;
            if v_stored_server is not null then
                v_report.warnings := v_report.warnings
                    || format(
                        'the data were restored on another server; event epoch raised to %s', v_report.event_epoch);
            end if;
        end if;
    end if;

    if v_installed > p_required_version then
        v_report.warnings := v_report.warnings
            || format(
                'the schema (%s) is newer than this client needs (%s), and compatible',
                v_installed, p_required_version);
    end if;
    select max(s.last_run_at_ms) into v_last_tick_ms from flowfabric.ff_scanner as s;
    if coalesce(v_last_tick_ms, 0) < flowfabric.ff_now_ms() - 300000 then
        v_report.warnings := v_report.warnings || 'no scanner has run for 5 minutes'::text;
    end if;
    if current_setting('server_version_num')::integer not between 140000 and 189999 then
        v_report.warnings := v_report.warnings || 'the server is outside PostgreSQL 14 to 18'::text;
    end if;
    if exists (select from flowfabric.ff_setting as s where s.name = 'test_clock' and s.value = 1) then
        v_report.warnings := v_report.warnings || 'the test clock is installed'::text;
    end if;
    return v_report;
end;
$$;

comment on function flowfabric.ff_boot_check(integer, integer) is
'Checks that client and schema fit together; the first call of every client process.';

grant execute on function flowfabric.ff_boot_check(integer, integer)
to flowfabric_producer, flowfabric_worker, flowfabric_reader, flowfabric_operator;
