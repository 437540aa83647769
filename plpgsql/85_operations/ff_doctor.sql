-- ff_doctor: what is wrong with the installation, and what to do about it; most severe first.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
--
-- Each check runs by itself: one that may not see something says so as a notice, and the others go on. Runs with the
-- rights of the owner of the schema, who needs pg_read_all_stats to see the sessions of other roles.
--
-- A standby cannot see what only the primary knows: those checks are left out, and a notice names them.
create or replace function flowfabric.ff_doctor(p_include_ok boolean default false)
returns setof flowfabric.ff_finding
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_checks constant text[] := array[
        'version', 'functions', 'grants', 'signing_key', 'oldest_snapshot', 'dead_rows', 'vacuum', 'expired_leases',
        'crash_loops', 'scanners', 'scanner_items', 'events', 'notify_queue', 'queues', 'retention', 'budgets_quotas',
        'claim_floor', 'test_clock'];
    c_of_primary constant text[] := array['oldest_snapshot', 'dead_rows', 'notify_queue', 'claim_floor'];
    v_is_standby boolean := pg_is_in_recovery();
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_check text;
    v_findings flowfabric.ff_finding[] := '{}'::flowfabric.ff_finding[];
    v_found flowfabric.ff_finding[];
begin
    foreach v_check in array c_checks loop
        continue when v_is_standby and v_check = any (c_of_primary);
        begin
            v_found := array(select f from flowfabric._ff_examine(v_check, v_now_ms) as f);
        exception when insufficient_privilege then
            v_found := array[row(
                v_check, 'notice', format('This could not be checked: %s.', sqlerrm),
                format('Grant pg_read_all_stats to %I, the owner of the schema.', current_user),
                jsonb_build_object('sqlstate', sqlstate))::flowfabric.ff_finding];
        end;
        if cardinality(v_found) = 0 and p_include_ok then
            v_found := array[row(v_check, 'ok', 'Nothing found.', null, '{}')::flowfabric.ff_finding];
        end if;
        v_findings := v_findings || v_found;
    end loop;
    if v_is_standby then
        v_findings := v_findings || row(
            'standby', 'notice',
            format('On a standby these checks see nothing: %s.', flowfabric._ff_name_some(c_of_primary)),
            'Run ff_doctor on the primary too.', jsonb_build_object('skipped', c_of_primary))::flowfabric.ff_finding;
    end if;
    return query
    select f.check_name, f.severity, f.finding, f.what_to_do, f.detail
    from unnest(v_findings) with ordinality as f (check_name, severity, finding, what_to_do, detail, position)
    order by array_position(array['critical', 'warning', 'notice', 'ok'], f.severity), f.position;
end;
$$;

comment on function flowfabric.ff_doctor(boolean) is
'Findings about the installation, most severe first, each with what to do; no row when all is well.';

grant execute on function flowfabric.ff_doctor(boolean) to flowfabric_reader, flowfabric_operator;

create or replace function flowfabric._ff_examine(p_check text, p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql volatile
as $$
begin
    case p_check
        when 'version' then
            return query
            select f.* from flowfabric._ff_doctor_version(current_setting('server_version_num')::integer) as f;
        when 'functions' then
            return query select f.* from flowfabric._ff_doctor_functions() as f;
        when 'grants' then
            return query select f.* from flowfabric._ff_doctor_grants() as f;
        when 'signing_key' then
            return query select f.* from flowfabric._ff_doctor_signing_key(p_now_ms) as f;
        when 'oldest_snapshot' then
            return query select f.* from flowfabric._ff_doctor_oldest_snapshot(300000, 3600000) as f;
        when 'dead_rows' then
            return query select f.* from flowfabric._ff_doctor_dead_rows() as f;
        when 'vacuum' then
            return query
            select f.*
            from pg_database as d
            cross join lateral flowfabric._ff_doctor_vacuum(age(d.datfrozenxid)) as f
            where d.datname = current_database();
        when 'expired_leases' then
            return query select f.* from flowfabric._ff_doctor_expired_leases(p_now_ms) as f;
        when 'crash_loops' then
            return query select f.* from flowfabric._ff_doctor_crash_loops() as f;
        when 'scanners' then
            return query select f.* from flowfabric._ff_doctor_scanners(p_now_ms) as f;
        when 'scanner_items' then
            return query select f.* from flowfabric._ff_doctor_scanner_items() as f;
        when 'events' then
            return query
            select f.* from flowfabric._ff_doctor_events(flowfabric._ff_event_horizon(), p_now_ms) as f;
        when 'notify_queue' then
            return query select f.* from flowfabric._ff_doctor_notify_queue(pg_notification_queue_usage()) as f;
        when 'queues' then
            return query select f.* from flowfabric._ff_doctor_queues(p_now_ms) as f;
        when 'retention' then
            return query select f.* from flowfabric._ff_doctor_retention(p_now_ms) as f;
        when 'budgets_quotas' then
            return query select f.* from flowfabric._ff_doctor_budgets_quotas(p_now_ms) as f;
        when 'claim_floor' then
            return query select f.* from flowfabric._ff_doctor_claim_floor(p_now_ms) as f;
        when 'test_clock' then
            return query select f.* from flowfabric._ff_doctor_test_clock() as f;
    end case;
end;
$$;
comment on function flowfabric._ff_examine(text, bigint) is 'Internal: runs one check of ff_doctor by its name.';
