-- The checks of ff_doctor, one function each. A check reads catalogues, statistics, small tables and indexes of
-- executions that have not ended; what it cannot know it gets as an argument, so that a test can say it.

-- The functions and the tables belong together: a migration that is added, or taken back, without the functions leaves
-- an installation that fails somewhere later. Grows with each migration; a test compares it with their files.
create or replace function flowfabric._ff_schema_version()
returns integer
language sql immutable parallel safe
as $$
    select 29
$$;
comment on function flowfabric._ff_schema_version() is
'Internal: the number of the last migration that these functions were written for.';

create or replace function flowfabric._ff_name_some(p_names text[])
returns text
language sql immutable parallel safe
as $$
    select array_to_string(p_names[1:5], ', ')
        || case when cardinality(p_names) > 5 then format(' and %s more', cardinality(p_names) - 5) else '' end
$$;
comment on function flowfabric._ff_name_some(text[]) is 'Internal: the first of many names for a sentence.';

create or replace function flowfabric._ff_client_roles()
returns text[]
language sql immutable parallel safe
as $$
    select array[
        'flowfabric_producer', 'flowfabric_worker', 'flowfabric_signaller', 'flowfabric_operator',
        'flowfabric_reader', 'flowfabric_admin']
$$;
comment on function flowfabric._ff_client_roles() is 'Internal: the roles that calls of the engine are granted to.';

create or replace function flowfabric._ff_doctor_version(p_server_version integer)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'version';
    v_installed integer := (select max(a.version) from flowfabric.ff_migration_annotation as a);
    v_required integer := flowfabric._ff_schema_version();
    v_holes integer[];
begin
    if v_installed is distinct from v_required then
        return next row(
            c_check, 'critical',
            format('The functions belong to migration %s, the tables to %s.', v_required, v_installed),
            'Run `flowfabric migrate` of the release that is in use.',
            jsonb_build_object('installed', v_installed, 'required', v_required))::flowfabric.ff_finding;
    end if;
    v_holes := array(
        select n.version
        from generate_series(1, v_installed) as n (version)
        where not exists (select from flowfabric.ff_migration_annotation as a where a.version = n.version)
        order by n.version);
    if cardinality(v_holes) > 0 then
        return next row(
            c_check, 'critical', format('Migrations are missing: %s.', array_to_string(v_holes, ', ')),
            'Restore a backup, or find out who deleted rows of ff_migration_annotation.',
            jsonb_build_object('missing', v_holes))::flowfabric.ff_finding;
    end if;
    if exists (select from flowfabric.ff_partition_config as c where c.ff_version = '') then
        return next row(
            c_check, 'critical', 'The functions were loaded, but no version was recorded.',
            'Run `flowfabric migrate` to the end.', '{}')::flowfabric.ff_finding;
    end if;
    if p_server_version not between 140000 and 189999 then
        return next row(
            c_check, 'warning', format('The server has version %s.', p_server_version / 10000),
            'Use PostgreSQL 14 to 18; others are not tested.',
            jsonb_build_object('server_version_num', p_server_version))::flowfabric.ff_finding;
    end if;
end;
$$;
comment on function flowfabric._ff_doctor_version(integer) is
'Internal: whether functions, tables and server fit together.';

create or replace function flowfabric._ff_doctor_functions()
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'functions';
    v_names text[];
begin
    v_names := array(
        select f.function_name
        from flowfabric._ff_public_functions() as f
        where not exists (
            select from pg_proc as p
            where p.pronamespace = 'flowfabric'::regnamespace and p.proname = f.function_name)
        order by f.function_name);
    if cardinality(v_names) > 0 then
        return next row(
            c_check, 'critical', format('Functions are missing: %s.', flowfabric._ff_name_some(v_names)),
            'Run `flowfabric migrate`.', jsonb_build_object('missing', v_names))::flowfabric.ff_finding;
    end if;
    -- ff_tick_loop commits, which neither clause allows; two helpers are inlined, which neither allows either.
    v_names := array(
        select p.proname::text
        from pg_proc as p
        join pg_language as l on l.oid = p.prolang
        where p.pronamespace = 'flowfabric'::regnamespace and starts_with(p.proname, 'ff_')
            and (
                obj_description(p.oid, 'pg_proc') is null
                or (
                    (not p.prosecdef or not coalesce(p.proconfig @> '{"search_path=pg_catalog, pg_temp"}', false))
                    and p.prokind <> 'p'
                    and not (
                        p.proname in ('ff_now_ms', 'ff_format_execution_id', 'ff_timestamp')
                        and l.lanname = 'sql')))
        order by p.proname);
    if cardinality(v_names) > 0 then
        return next row(
            c_check, 'critical',
            format('Functions were changed by hand: %s.', flowfabric._ff_name_some(v_names)),
            'Run `flowfabric migrate`; a public function is security definer, pins search_path and has a comment.',
            jsonb_build_object('changed', v_names))::flowfabric.ff_finding;
    end if;
    v_names := array(
        select c.relname::text
        from pg_index as i
        join pg_class as c on c.oid = i.indexrelid
        where c.relnamespace = 'flowfabric'::regnamespace and not i.indisvalid
        order by c.relname);
    if cardinality(v_names) > 0 then
        return next row(
            c_check, 'critical', format('Indexes are not valid: %s.', flowfabric._ff_name_some(v_names)),
            'Rebuild them with reindex index concurrently.',
            jsonb_build_object('invalid_indexes', v_names))::flowfabric.ff_finding;
    end if;
end;
$$;
comment on function flowfabric._ff_doctor_functions() is
'Internal: whether every public function is there and as it must be, and every index usable.';

create or replace function flowfabric._ff_doctor_grants()
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'grants';
    c_reload constant text := 'Run `flowfabric migrate`, which states every grant again.';
    v_names text[];
begin
    v_names := array(
        select r.name
        from unnest(flowfabric._ff_client_roles()) as r (name)
        where not exists (select from pg_roles as p where p.rolname = r.name));
    if cardinality(v_names) > 0 then
        return next row(
            c_check, 'critical', format('Roles are missing: %s.', flowfabric._ff_name_some(v_names)), c_reload,
            jsonb_build_object('missing_roles', v_names))::flowfabric.ff_finding;
    end if;
    v_names := array(
        select format('%s to flowfabric_%s', f.function_name, r.name)
        from flowfabric._ff_public_functions() as f
        cross join unnest(f.roles) as r (name)
        join pg_roles as g on g.rolname = 'flowfabric_' || r.name
        join pg_proc as p on p.pronamespace = 'flowfabric'::regnamespace and p.proname = f.function_name
        where not exists (
            select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a where a.grantee = g.oid)
        order by 1);
    if cardinality(v_names) > 0 then
        return next row(
            c_check, 'critical', format('Grants are missing: %s.', flowfabric._ff_name_some(v_names)), c_reload,
            jsonb_build_object('missing', v_names))::flowfabric.ff_finding;
    end if;
    v_names := array(
        select format('%s to %s', p.proname, a.grantee::regrole)
        from pg_proc as p
        cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
        left join flowfabric._ff_public_functions() as f on f.function_name = p.proname
        where p.pronamespace = 'flowfabric'::regnamespace and a.grantee not in (0, p.proowner)
            and (f.function_name is null or (
                a.grantee::regrole::text = any (flowfabric._ff_client_roles())
                and replace(a.grantee::regrole::text, 'flowfabric_', '') <> all (f.roles)))
        order by 1);
    if cardinality(v_names) > 0 then
        return next row(
            c_check, 'critical', format('Grants go too far: %s.', flowfabric._ff_name_some(v_names)), c_reload,
            jsonb_build_object('too_far', v_names))::flowfabric.ff_finding;
    end if;
    v_names := array(
        select o.name
        from (
            select p.proname::text, coalesce(p.proacl, acldefault('f', p.proowner))
            from pg_proc as p
            where p.pronamespace = 'flowfabric'::regnamespace
            union all
            select c.relname::text, c.relacl
            from pg_class as c
            where c.relnamespace = 'flowfabric'::regnamespace
            union all
            select n.nspname::text, n.nspacl
            from pg_namespace as n
            where n.oid = 'flowfabric'::regnamespace
        ) as o (name, privileges)
        where exists (select from aclexplode(o.privileges) as a where a.grantee = 0)
        order by 1);
    if cardinality(v_names) > 0 then
        return next row(
            c_check, 'critical', format('PUBLIC has privileges on %s.', flowfabric._ff_name_some(v_names)), c_reload,
            jsonb_build_object('public', v_names))::flowfabric.ff_finding;
    end if;
    v_names := array(
        select format('%s on %s to %s', lower(a.privilege_type), c.relname, a.grantee::regrole)
        from pg_class as c
        cross join aclexplode(c.relacl) as a
        where c.relnamespace = 'flowfabric'::regnamespace
            and a.grantee::regrole::text = any (flowfabric._ff_client_roles())
            and not (
                c.relkind = 'v' and a.privilege_type = 'SELECT'
                and a.grantee::regrole::text in ('flowfabric_reader', 'flowfabric_operator'))
        order by 1);
    if cardinality(v_names) > 0 then
        return next row(
            c_check, 'critical', format('A client role can reach a table: %s.', flowfabric._ff_name_some(v_names)),
            c_reload, jsonb_build_object('tables', v_names))::flowfabric.ff_finding;
    end if;
end;
$$;
comment on function flowfabric._ff_doctor_grants() is
'Internal: whether every role may do what it should and nothing else.';

create or replace function flowfabric._ff_doctor_signing_key(p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'signing_key';
begin
    if not exists (select from flowfabric.ff_waitpoint_hmac as h where h.is_current) then
        return next row(
            c_check, 'warning', 'There is no key to sign waitpoint tokens with, so nothing can be suspended.',
            'Install one: `flowfabric keys rotate`.', '{}')::flowfabric.ff_finding;
    end if;
    return query
    select
        c_check, 'notice',
        format(
            'Tokens signed with key %s are refused from %s on, and open waitpoints have such tokens.', h.kid,
            flowfabric._ff_utc(h.expires_at_ms)),
        'Let them be answered before, or rotate with a longer grace the next time.',
        jsonb_build_object('kid', h.kid, 'expires_at_ms', h.expires_at_ms)
    from flowfabric.ff_waitpoint_hmac as h
    where h.expires_at_ms > p_now_ms and h.expires_at_ms <= p_now_ms + 86400000
        and (
            exists (
                select from flowfabric.ff_waitpoint_pending as w
                where w.state = 'pending' and w.expires_at_ms > p_now_ms and w.token_kid = h.kid)
            or exists (
                select from flowfabric.ff_suspension_current as u
                join flowfabric.ff_waitpoint_pending as w
                    on w.partition_key = u.partition_key and w.suspension_id = u.suspension_id
                where u.closed_at_ms is null and w.state = 'active' and w.token_kid = h.kid))
    order by h.expires_at_ms;
end;
$$;
comment on function flowfabric._ff_doctor_signing_key(bigint) is
'Internal: whether waitpoint tokens can be signed, and stay valid for those who hold them.';

create or replace function flowfabric._ff_doctor_oldest_snapshot(p_warning_ms bigint, p_critical_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'oldest_snapshot';
begin
    -- current_user is the owner of the schema: this runs with its rights.
    if not pg_has_role(current_user, 'pg_read_all_stats', 'usage') then
        return next row(
            c_check, 'notice', 'The sessions of other roles cannot be seen.',
            format('Grant pg_read_all_stats to %I, the owner of the schema.', current_user),
            jsonb_build_object('owner', current_user))::flowfabric.ff_finding;
    end if;
    return query
    select
        c_check, case when s.age_ms >= p_critical_ms then 'critical' else 'warning' end,
        format(
            'A %s has been open for %s and holds back vacuum or the delivery of events.', s.kind,
            make_interval(secs => s.age_ms / 1000)),
        case s.kind
            when 'session' then format('End it, if need be with pg_terminate_backend(%s).', s.pid)
            else 'Commit it or roll it back.'
        end,
        jsonb_build_object('kind', s.kind, 'pid', s.pid, 'name', s.name, 'state', s.state, 'age_ms', s.age_ms)
    from flowfabric._ff_oldest_snapshot() as s
    where s.age_ms >= p_warning_ms;
    -- A slot has no age in time; one that nobody uses holds vacuum back for ever.
    return query
    select
        c_check, 'warning',
        format('Replication slot %s is not in use and holds back vacuum.', s.slot_name),
        'Let its consumer connect, or drop the slot.',
        jsonb_build_object('kind', 'slot', 'name', s.slot_name, 'age_in_transactions', age(s.xmin))
    from pg_replication_slots as s
    where not s.active and s.xmin is not null;
end;
$$;
comment on function flowfabric._ff_doctor_oldest_snapshot(bigint, bigint) is
'Internal: whether something has been holding back vacuum or the delivery of events for so long.';

create or replace function flowfabric._ff_doctor_dead_rows()
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
begin
    return query
    select
        'dead_rows', 'warning',
        format('%s has %s dead rows beside %s live ones.', t.table_name, t.dead_rows, t.live_rows),
        'Find out what keeps vacuum from removing them (checks oldest_snapshot and vacuum), then vacuum the table.',
        jsonb_build_object('table', t.table_name, 'dead_rows', t.dead_rows, 'live_rows', t.live_rows)
    from flowfabric._ff_hot_tables() as t
    where t.dead_rows > 10000 and t.dead_rows > 0.2 * (t.live_rows + t.dead_rows)
    order by t.dead_rows desc;
end;
$$;
comment on function flowfabric._ff_doctor_dead_rows() is 'Internal: hot tables that are full of dead rows.';

-- A table that was never vacuumed counts from the last migration.
create or replace function flowfabric._ff_doctor_vacuum(p_xid_age integer)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'vacuum';
    v_migrated_at timestamptz := (
        select flowfabric.ff_timestamp(max(a.applied_at_ms)) from flowfabric.ff_migration_annotation as a);
begin
    if p_xid_age > 1500000000 then
        return next row(
            c_check, 'critical',
            format('The database is %s transactions old; at 2 billion it stops.', p_xid_age),
            'Run vacuum freeze on the whole database now.',
            jsonb_build_object('transaction_id_age', p_xid_age))::flowfabric.ff_finding;
    end if;
    if not current_setting('autovacuum')::boolean then
        return next row(
            c_check, 'warning', 'Autovacuum is off for the whole server.', 'Switch it on: set autovacuum to on.', '{}'
        )::flowfabric.ff_finding;
    end if;
    return query
    select
        c_check, 'warning',
        case when t.autovacuum_is_on
            then format('%s needs a vacuum and has had none for an hour.', t.table_name)
            else format('Autovacuum is off for %s.', t.table_name)
        end,
        case when t.autovacuum_is_on
            then 'Vacuum it, and give autovacuum more workers or a shorter naptime.'
            else format('Run alter table flowfabric.%I reset (autovacuum_enabled).', t.table_name)
        end,
        jsonb_build_object(
            'table', t.table_name, 'autovacuum_is_on', t.autovacuum_is_on, 'dead_rows', t.dead_rows,
            'vacuumed_at', t.vacuumed_at)
    from flowfabric._ff_hot_tables() as t
    where not t.autovacuum_is_on
        or (
            t.dead_rows > t.vacuum_threshold
            and coalesce(t.vacuumed_at, v_migrated_at) < clock_timestamp() - interval '1 hour')
    order by t.table_name;
end;
$$;
comment on function flowfabric._ff_doctor_vacuum(integer) is
'Internal: whether vacuum is on, keeps up and will not be forced to stop the database.';

create or replace function flowfabric._ff_doctor_expired_leases(p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_cap constant integer := 10000;
    v_count bigint;
    v_oldest_ms bigint;
    v_lanes jsonb;
    v_unserved text[];
begin
    select
        sum(l.leases)::bigint, min(l.oldest_ms),
        jsonb_agg(
            jsonb_build_object('lane', l.lane_id, 'leases', l.leases, 'live_workers', w.live) order by l.lane_id),
        array_agg(l.lane_id order by l.lane_id) filter (where w.live = 0)
    into v_count, v_oldest_ms, v_lanes, v_unserved
    from (
        select x.lane_id, count(*) as leases, min(x.lease_expires_at_ms) as oldest_ms
        from (
            (
                select o.lane_id, o.lease_expires_at_ms
                from flowfabric.ff_lane_registry as r
                cross join lateral (
                    select e.lane_id, e.lease_expires_at_ms
                    from flowfabric.ff_exec_core as e
                    where e.ownership_state = 'leased' and e.lane_id = r.lane_id
                        and e.lease_expires_at_ms <= p_now_ms - 60000
                    order by e.lease_expires_at_ms
                    limit c_cap
                ) as o
                limit c_cap
            )
            union all
            (
                select e.lane_id, e.lease_expires_at_ms
                from flowfabric.ff_exec_core as e
                where e.ownership_state = 'lease_expired_reclaimable' and e.delay_until_ms <= p_now_ms - 60000
                limit c_cap
            )
        ) as x
        group by x.lane_id
    ) as l
    cross join lateral (select flowfabric._ff_live_workers(null, l.lane_id, p_now_ms)) as w (live);
    if v_count > 0 then
        return next row(
            'expired_leases', 'warning',
            format(
                '%s leases ran out more than a minute ago, the first at %s, and nobody has taken the work over.',
                v_count, flowfabric._ff_utc(v_oldest_ms)),
            case when v_unserved is null
                then 'Let the workers of these lanes take over lost work with ff_reclaim_next; the Python worker does.'
                else format('Start workers for %s.', flowfabric._ff_name_some(v_unserved))
            end,
            jsonb_build_object('count', v_count, 'oldest_expiry_ms', v_oldest_ms, 'lanes', v_lanes)
        )::flowfabric.ff_finding;
    end if;
end;
$$;
comment on function flowfabric._ff_doctor_expired_leases(bigint) is
'Internal: whether work of lost workers is being taken over.';

-- Two takeovers in a row can be two deployments; a third lease that is lost, or may be, is worth a look.
create or replace function flowfabric._ff_doctor_crash_loops()
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_cap constant integer := 10000;
    c_named constant integer := 20;
    v_count bigint;
    v_worst integer;
    v_executions jsonb;
    v_ids text[];
begin
    select
        count(*), max(x.lease_reclaim_count),
        jsonb_agg(
            jsonb_build_object(
                'execution_id', x.execution_id, 'execution_kind', x.execution_kind, 'lane', x.lane_id,
                'reclaim_count', x.lease_reclaim_count, 'worker_instance_id', x.current_worker_instance_id)
            order by x.position) filter (where x.position <= c_named),
        array_agg(x.execution_id order by x.position)
    into v_count, v_worst, v_executions, v_ids
    from (
        select
            flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) as execution_id, e.execution_kind,
            e.lane_id, e.lease_reclaim_count, e.current_worker_instance_id,
            row_number() over (order by e.lease_reclaim_count desc, e.partition_key, e.execution_id) as position
        from (
            (select c.* from flowfabric.ff_exec_core as c where c.ownership_state = 'leased' limit c_cap)
            union all
            (select c.* from flowfabric.ff_exec_core as c where c.ownership_state > 'leased' limit c_cap)
        ) as e
        where e.lease_reclaim_count >= 2
    ) as x;
    if v_count > 0 then
        return next row(
            'crash_loops', 'warning',
            format(
                '%s executions lose their leases in a row without progress, up to %s times: %s.', v_count, v_worst,
                flowfabric._ff_name_some(v_ids)),
            'Their handlers may kill the worker process. Correct the handler, or cancel the execution with '
            || '`flowfabric cancel`; run what has failed again with `flowfabric replay`.',
            jsonb_build_object('count', v_count, 'executions', v_executions))::flowfabric.ff_finding;
    end if;
end;
$$;
comment on function flowfabric._ff_doctor_crash_loops() is
'Internal: executions that were taken over again and again without progress.';

create or replace function flowfabric._ff_doctor_scanners(p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'scanners';
    v_last_run_ms bigint := greatest(
        (select max(s.last_run_at_ms) from flowfabric.ff_scanner as s),
        (select max(d.ran_at_ms) from flowfabric.ff_scanner_detour as d));
begin
    return query
    select
        c_check, 'warning',
        format(
            'Session %s has had scanners in an open transaction since %s.%s', h.pid, flowfabric._ff_utc(h.since_ms),
            case when 'ff_event_stream' = any (h.holds)
                then ' Until it ends, no tick prunes or announces events of the streams that it holds.' else '' end),
        format('Let it commit, or end it with pg_terminate_backend(%s).', h.pid),
        jsonb_build_object(
            'pid', h.pid, 'user', h.user_name, 'application', h.application, 'state', h.state, 'since_ms', h.since_ms,
            'holds', h.holds)
    from flowfabric._ff_scanner_holders() as h
    where h.since_ms <= p_now_ms - 10000
    order by h.since_ms;
    if (v_last_run_ms > p_now_ms - 300000) is not true then
        return next row(
            c_check, 'critical',
            case when v_last_run_ms is null then 'No scanner has ever run.'
                else format('No scanner has run since %s.', flowfabric._ff_utc(v_last_run_ms)) end,
            'Start a worker, or let cron or pg_cron run `flowfabric tick`.',
            jsonb_build_object('last_run_at_ms', v_last_run_ms))::flowfabric.ff_finding;
    end if;
    return query
    select
        c_check, 'warning',
        case
            when not s.enabled then format('Scanner %s is switched off.', s.scanner)
            when s.consecutive_failures > 0
                then format('Scanner %s failed %s times in a row.', s.scanner, s.consecutive_failures)
            else format(
                'Scanner %s is late by %s.', s.scanner,
                make_interval(secs => flowfabric._ff_scanner_lateness(s, p_now_ms) / 1000.0))
        end,
        case
            when not s.enabled then format(
                'When maintenance is over, switch it on: select flowfabric.ff_set_scanner(%L, true);', s.scanner)
            when s.consecutive_failures > 0 then 'Look at last_error in flowfabric.ff_list_scanners().'
            else 'Run `flowfabric tick --loop`, or more workers.'
        end,
        jsonb_build_object(
            'scanner', s.scanner, 'enabled', s.enabled, 'consecutive_failures', s.consecutive_failures,
            'last_error', case when s.consecutive_failures > 0 then s.last_error end,
            'overdue_ms', flowfabric._ff_scanner_lateness(s, p_now_ms), 'interval_ms', s.interval_ms)
    from flowfabric.ff_scanner as s
    where not s.enabled or s.consecutive_failures > 0
        or (
            -- When nothing ticks, everything is late.
            v_last_run_ms > p_now_ms - 300000
            and flowfabric._ff_scanner_lateness(s, p_now_ms) > 10 * least(s.interval_ms, flowfabric._ff_longest_ms()))
    order by s.run_order;
end;
$$;
comment on function flowfabric._ff_doctor_scanners(bigint) is
'Internal: whether the background scanners run, in time and without failing.';

create or replace function flowfabric._ff_doctor_scanner_items()
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
begin
    return query
    select
        'scanner_items', 'warning', format('Scanner %s keeps failing at %s items.', f.scanner, count(*)),
        'Look at them: select * from flowfabric.ff_list_scanner_failures();',
        jsonb_build_object(
            'scanner', f.scanner, 'items', count(*),
            'examples', to_jsonb((array_agg(f.item_key order by f.failures desc, f.item_key))[1:5]))
    from flowfabric.ff_scanner_failure as f
    where f.failures >= 3
    group by f.scanner
    order by f.scanner;
end;
$$;
comment on function flowfabric._ff_doctor_scanner_items() is 'Internal: items at which scanners fail again and again.';

create or replace function flowfabric._ff_doctor_events(p_horizon flowfabric.ff_event_cursor, p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'events';
begin
    return query
    select
        c_check, 'warning',
        format('Events of stream %s have been held back since %s.', s.stream, flowfabric._ff_utc(s.held_back_since_ms)),
        'End the oldest transaction that has written something, anywhere on the server: ff_event_lag names it.',
        jsonb_build_object(
            'stream', s.stream, 'held_back', s.held_back, 'held_back_since_ms', s.held_back_since_ms)
    from flowfabric._ff_measure_streams(p_horizon) as s
    where s.held_back_since_ms <= p_now_ms - 60000
    order by s.stream;
    return query
    select
        c_check, 'warning',
        format('Stream %s still has events of %s.', s.stream, flowfabric._ff_utc(s.oldest_at_ms)),
        'Pruning does not keep up: run `flowfabric tick --scanner event_prune --force`, and more often.',
        jsonb_build_object('stream', s.stream, 'oldest_at_ms', s.oldest_at_ms, 'window_ms', w.window_ms)
    from flowfabric._ff_measure_streams(p_horizon) as s
    cross join lateral (
        select flowfabric._ff_setting_value('event_retention_' || s.stream || '_ms')
    ) as w (window_ms)
    where s.oldest_at_ms < p_now_ms - 3600000 - least(w.window_ms, p_now_ms)
    order by s.stream;
    return query
    select
        c_check, 'warning',
        format(
            'Stream %s has %s events dated later than now, up to %s: the clock was ahead and went back.', s.stream,
            s.events, flowfabric._ff_utc(s.latest_at_ms)),
        'Find out why the clock of the server jumps. They are pruned with the events behind them.',
        jsonb_build_object('stream', s.stream, 'future_events', s.events, 'latest_at_ms', s.latest_at_ms)
    from flowfabric._ff_future_events(p_now_ms + 60000) as s
    order by s.stream;
    return query
    select
        c_check, 'warning',
        case when c.is_expired
            then format('Consumer %s has missed events of stream %s.', c.consumer_name, c.stream)
            else format(
                'Consumer %s of stream %s has not read past %s.', c.consumer_name, c.stream,
                flowfabric._ff_utc(c.unread_since_ms))
        end,
        case when c.is_expired
            then 'Its position was pruned: let it start again from flowfabric.ff_event_position.'
            else 'Find out why it does not read; its position is lost when the window has passed.'
        end,
        jsonb_build_object(
            'consumer', c.consumer_name, 'stream', c.stream, 'is_expired', c.is_expired,
            'unread_since_ms', c.unread_since_ms)
    from flowfabric._ff_measure_consumers() as c
    where c.is_expired or c.unread_since_ms <= p_now_ms - 3600000
    order by c.consumer_name, c.stream;
end;
$$;
comment on function flowfabric._ff_doctor_events(flowfabric.ff_event_cursor, bigint) is
'Internal: whether events are delivered, pruned and read.';

create or replace function flowfabric._ff_doctor_notify_queue(p_usage double precision)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
begin
    if p_usage > 0.1 then
        return next row(
            'notify_queue', 'warning',
            format('The queue of notifications is %s %% full.', round((p_usage * 100)::numeric, 1)),
            'A session that listens is stuck in a transaction: end it.',
            jsonb_build_object('usage', p_usage))::flowfabric.ff_finding;
    end if;
end;
$$;
comment on function flowfabric._ff_doctor_notify_queue(double precision) is
'Internal: whether somebody listens and does not read.';

create or replace function flowfabric._ff_doctor_queues(p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'queues';
begin
    -- Registration is optional, so a lane in which something runs is not called unserved. The head of the queue is
    -- enough of a sample: what has waited for long is there, or something ahead of it is being taken.
    return query
    select
        c_check, 'notice',
        format('Work has been waiting in lane %s for more than 5 minutes, and no live worker serves it.', l.lane_id),
        format('Start a worker for lane %s.', l.lane_id), jsonb_build_object('lane', l.lane_id)
    from flowfabric.ff_lane_registry as l
    where l.lane_state in ('active', 'draining')
        and flowfabric._ff_live_workers(null, l.lane_id, p_now_ms) = 0
        and exists (
            select from (
                select e.last_transition_at_ms
                from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = l.lane_id
                order by e.capability_set_id, e.priority desc, e.created_at_ms
                limit 1000
            ) as head
            where head.last_transition_at_ms <= p_now_ms - 300000)
        and not exists (
            select from flowfabric.ff_exec_core as e
            where e.ownership_state = 'leased' and e.lane_id = l.lane_id and e.lease_expires_at_ms > p_now_ms)
    order by l.lane_id;
    return query
    select
        c_check, 'notice',
        format(
            '%s executions of lane %s need %s, which no live worker offers.', b.executions, b.lane_id,
            array_to_string(s.tokens, ', ')),
        'Start a worker that offers it, or correct what the executions ask for.',
        jsonb_build_object(
            'namespace', b.namespace, 'lane', b.lane_id, 'required_capabilities', s.tokens,
            'executions', b.executions)
    from (
        select x.namespace, x.lane_id, x.capability_set_id, count(*) as executions
        from (
            select e.namespace, e.lane_id, e.capability_set_id
            from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'blocked_by_route'
            limit 10000
        ) as x
        group by x.namespace, x.lane_id, x.capability_set_id
    ) as b
    join flowfabric.ff_capability_set as s on s.capability_set_id = b.capability_set_id
    where not flowfabric._ff_has_capable_worker(b.namespace, b.lane_id, b.capability_set_id, p_now_ms)
    order by b.namespace, b.lane_id;
    return query
    select
        c_check, 'notice',
        format('Lane %s has been %s since %s.', l.lane_id, l.lane_state, flowfabric._ff_utc(l.state_changed_at_ms)),
        format('If it was forgotten, open it: `flowfabric lanes resume %s`.', quote_literal(l.lane_id)),
        jsonb_build_object(
            'lane', l.lane_id, 'lane_state', l.lane_state, 'state_changed_at_ms', l.state_changed_at_ms)
    from flowfabric.ff_lane_registry as l
    where l.lane_state = 'paused' and l.state_changed_at_ms <= p_now_ms - 86400000
    order by l.lane_id;
end;
$$;
comment on function flowfabric._ff_doctor_queues(bigint) is 'Internal: work that waits and that nobody will take.';

create or replace function flowfabric._ff_doctor_retention(p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_cap constant integer := 1000;
    v_due_before_ms bigint := p_now_ms - 86400000
        - least(flowfabric._ff_setting_value('default_retention_ms'), p_now_ms);
    v_count bigint;
begin
    -- What a flow still needs is kept on purpose.
    select count(*) into v_count
    from (
        (
            select e.*
            from flowfabric.ff_exec_core as e
            where e.purge_after_ms is null and e.terminal_at_ms <= v_due_before_ms
            order by e.terminal_at_ms
            limit c_cap
        )
        union all
        (
            select e.*
            from flowfabric.ff_exec_core as e
            where e.purge_after_ms <= p_now_ms - 86400000
            order by e.purge_after_ms
            limit c_cap
        )
    ) as due
    where due.flow_id is null or not flowfabric._ff_is_needed(due::flowfabric.ff_exec_core);
    if v_count > 0 then
        return next row(
            'retention', 'notice',
            format('%s ended executions should have been deleted a day ago.', least(v_count, c_cap)),
            'Run it now: `flowfabric tick --scanner retention --force`; let it run more often or with a higher limit.',
            jsonb_build_object('count', least(v_count, c_cap)))::flowfabric.ff_finding;
    end if;
end;
$$;
comment on function flowfabric._ff_doctor_retention(bigint) is
'Internal: whether ended executions are deleted when their time is over.';

create or replace function flowfabric._ff_doctor_budgets_quotas(p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    c_check constant text := 'budgets_quotas';
begin
    return query
    select
        c_check, 'notice', format('Nothing starts that is charged to %s: %s.', b.budget_id, x.detail),
        format('Wait for its reset, or reset it: `flowfabric budgets reset %s`.', quote_literal(b.budget_id)),
        jsonb_build_object('budget_id', b.budget_id, 'next_reset_at_ms', b.next_reset_at_ms)
    from flowfabric.ff_budget_policy as b
    cross join lateral flowfabric._ff_exhausted_budget(array[b.budget_id]) as x
    where x.budget_id is not null
    order by b.budget_id;
    return query
    select
        c_check, 'warning',
        format('%s slots of quota %s are held by executions that do not run.', count(*), h.quota_policy_id),
        'Run the scanner that frees them: `flowfabric tick --scanner quota --force`.',
        jsonb_build_object('quota_policy_id', h.quota_policy_id, 'slots', count(*))
    from (
        select a.*
        from flowfabric.ff_quota_admitted as a
        where a.slot_held
        limit 10000
    ) as h
    where flowfabric._ff_is_idle_slot(h::flowfabric.ff_quota_admitted, p_now_ms)
    group by h.quota_policy_id
    order by h.quota_policy_id;
    -- Reservations that are open are those of leased executions; what a budget has set aside beyond these is lost.
    return query
    select
        c_check, 'warning',
        format(
            'Budget %s has %s %s set aside, of which running executions account for %s.', u.budget_id,
            u.reserved_value, u.dimension, coalesce(r.amount, 0)),
        'Run ff_check_invariants, and report it.',
        jsonb_build_object(
            'budget_id', u.budget_id, 'dimension', u.dimension, 'reserved', u.reserved_value,
            'accounted_for', coalesce(r.amount, 0))
    from flowfabric.ff_budget_usage as u
    left join (
        select o.budget_id, d.dimension, sum(d.amount) as amount
        from (
            select e.partition_key, e.execution_id
            from flowfabric.ff_exec_core as e
            where e.ownership_state = 'leased' and e.open_reservation_count > 0
        ) as e
        cross join lateral (
            select b.budget_id, b.dimensions, b.amounts
            from flowfabric.ff_budget_reservation as b
            where b.partition_key = e.partition_key and b.execution_id = e.execution_id and b.state = 'open'
        ) as o
        cross join lateral unnest(o.dimensions, o.amounts) as d (dimension, amount)
        group by o.budget_id, d.dimension
    ) as r on r.budget_id = u.budget_id and r.dimension = u.dimension
    where u.reserved_value > coalesce(r.amount, 0)
    order by u.budget_id, u.dimension;
end;
$$;
comment on function flowfabric._ff_doctor_budgets_quotas(bigint) is
'Internal: budgets that stop work, and slots and reservations that nobody uses.';

create or replace function flowfabric._ff_doctor_claim_floor(p_now_ms bigint)
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
begin
    return query
    select
        'claim_floor', 'warning',
        format('The queue of lane %s has not been looked at from its beginning for more than a minute.', f.lane_id),
        'Run `flowfabric tick --scanner claim_floor --force`; until then late work may wait unseen.',
        jsonb_build_object('lane', f.lane_id, 'segments', count(*), 'checked_at_ms', min(f.checked_at_ms))
    from flowfabric.ff_lane_floor as f
    where f.namespace = '' and f.side = 0 and f.checked_at_ms <= p_now_ms - 60000
    group by f.lane_id
    order by f.lane_id;
end;
$$;
comment on function flowfabric._ff_doctor_claim_floor(bigint) is
'Internal: lanes whose claim floors nobody re-checks.';

create or replace function flowfabric._ff_doctor_test_clock()
returns setof flowfabric.ff_finding
language plpgsql stable
as $$
declare
    v_moved jsonb := (
        select jsonb_object_agg(s.name, s.value)
        from flowfabric.ff_setting as s
        where s.name = 'test_clock_frozen_at_ms' or (s.name = 'test_clock_offset_ms' and s.value <> 0));
begin
    if v_moved is not null then
        return next row(
            'test_clock', 'critical', 'The engine does not run on the wall clock.',
            'Call ff_test_set_clock(''reset''), and never use this in production.', v_moved)::flowfabric.ff_finding;
    elsif exists (select from flowfabric.ff_setting as s where s.name = 'test_clock' and s.value = 1) then
        return next row(
            'test_clock', 'notice', 'The test clock is installed: an admin can move the time of the engine.',
            'Run `flowfabric migrate` without --with-test-clock in production.', '{}')::flowfabric.ff_finding;
    end if;
end;
$$;
comment on function flowfabric._ff_doctor_test_clock() is 'Internal: whether the time of the engine can be moved, or is.';
