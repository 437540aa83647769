-- Checks an installation in production without changing it. Needs no extension: it prints TAP by itself.
--
--     pg_prove --dbname=... dba/check.sql      or      psql -X -f dba/check.sql ...      or      make dba-check DSN=...
--
-- Run it as a login role that is a member of flowfabric_reader and of nothing else. All of it is one read-only
-- transaction. It reads every live table once (ff_check_invariants), so on a large installation choose a quiet hour.
-- docs/dba.md says what each line means.
\set QUIET on
\set ON_ERROR_STOP on
\pset tuples_only on
\pset format unaligned
\pset pager off
begin transaction isolation level repeatable read read only;
set local search_path = pg_catalog, pg_temp;

select not exists (
    select
    from pg_proc as p
    join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = 'flowfabric' and p.proname = 'ff_doctor'
        and has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute')) as dba_cannot_look \gset
\if :dba_cannot_look
    \echo 'Bail out!  FlowFabric is not installed in this database, or this role is not a member of flowfabric_reader.'
    rollback;
    \quit
\endif

with documented (roles, functions) as (
    -- Who may call what. The admin may call everything.
    values
    ('operator', '
        ff_ack_cancel_member ff_block_execution_for_admission ff_bump_event_epoch ff_cancel_flow
        ff_change_priority ff_check_admission_and_record ff_create_budget ff_create_quota_policy
        ff_delete_event_cursor ff_deliver_approval_signal ff_dispatch_dependencies ff_dispatch_sibling_cancels
        ff_drain_cancel_backlog ff_drain_sibling_cancel_group ff_drain_worker ff_expire_execution
        ff_expire_suspension ff_issue_grant_and_claim ff_lock_tick_loop ff_mark_lease_expired_if_due ff_mark_worker_dead
        ff_project_flow_summaries ff_project_flow_summary ff_promote_blocked_to_eligible ff_promote_delayed
        ff_promote_due ff_prune_events ff_read_waitpoint_token ff_reconcile_dependencies ff_reconcile_quota
        ff_reconcile_sibling_cancel_group ff_reconcile_sibling_cancels ff_register_lane ff_release_admission
        ff_release_budget ff_replay_execution ff_reset_budget ff_resolve_dependency ff_resume_execution
        ff_revoke_lease ff_rotate_waitpoint_hmac_secret ff_scan_attempt_timeouts ff_scan_budget_resets
        ff_scan_claim_floors ff_scan_event_notify ff_scan_execution_deadlines ff_scan_expired_leases
        ff_scan_future_times ff_scan_pending_waitpoint_expiry ff_scan_stream_ttl ff_scan_suspension_timeouts ff_scan_unblock
        ff_seed_waitpoint_hmac_secret ff_set_event_cursor ff_set_lane_state ff_set_scanner ff_set_setting ff_sweep_dedup
        ff_sweep_expired_grants ff_sweep_workers ff_tick_loop ff_trim_retention ff_unblock_execution'),
    ('operator reader', '
        ff_check_invariants ff_commit_event_cursor ff_describe_edge ff_describe_execution ff_describe_flow
        ff_doctor ff_evaluate_flow_eligibility ff_event_lag ff_event_position ff_get_execution_namespace
        ff_get_execution_result ff_get_execution_tag ff_get_flow_tag ff_list_attempts ff_list_edges
        ff_list_executions ff_list_flow_edge_groups ff_list_flows ff_list_lease_history
        ff_list_pending_waitpoints ff_list_scanner_failures ff_list_scanners ff_list_settings
        ff_list_suspended ff_list_waitpoint_hmac_kids ff_list_workers ff_metrics ff_queue_stats
        ff_read_attempt_stream ff_read_events ff_read_execution_info ff_read_execution_state
        ff_read_flow_summary ff_read_summary ff_resolve_execution_flow_id ff_scan_eligible ff_stream_status
        ff_timestamp'),
    ('worker', '
        ff_append_frame ff_claim_execution ff_claim_next ff_claim_resumed_execution ff_complete_executions
        ff_create_pending_waitpoint ff_deregister_worker ff_fail_executions ff_heartbeat_worker ff_reclaim_execution
        ff_register_worker ff_renew_lease ff_renew_leases ff_reserve_budget ff_settle_reservation
        ff_suspend_execution ff_update_progress ff_wait_for_work'),
    ('worker operator', '
        ff_cancel_execution ff_close_waitpoint ff_complete_execution ff_delay_execution ff_due_scanners
        ff_fail_execution ff_grant_next ff_issue_claim_grant ff_issue_reclaim_grant
        ff_move_to_waiting_children ff_reclaim_next ff_record_signal_auth_failure ff_record_spend
        ff_release_reservation ff_report_usage_and_check ff_tick'),
    ('producer', '
        ff_add_execution_to_flow ff_apply_dependency_to_child ff_create_execution ff_create_executions
        ff_create_flow ff_set_edge_group_policy ff_stage_dependency_edge ff_submit_flow'),
    ('worker operator reader', '
        ff_list_ended_suspensions ff_list_expired_leases ff_list_worker_leases ff_observe_signals
        ff_read_current_attempt_index ff_read_execution_context ff_read_total_attempt_count
        ff_wait_for_events'),
    ('producer worker operator reader', '
        ff_boot_check ff_capabilities ff_flow_partition ff_get_budget_status ff_get_budget_usage
        ff_list_lanes ff_solo_partition'),
    ('producer worker signaller operator reader', '
        ff_format_execution_id ff_list_error_codes ff_now_ms ff_parse_execution_id ff_ping ff_version'),
    ('admin', '
        ff_initialize ff_set_partition_count ff_test_set_clock'),
    ('producer operator', '
        ff_set_execution_tags ff_set_flow_tags'),
    ('producer operator reader', '
        ff_find_execution ff_get_quota_policy ff_why'),
    ('producer worker operator', '
        ff_mint_execution_id ff_mint_solo_execution_id'),
    ('producer worker signaller operator', '
        ff_buffer_signal_for_pending_waitpoint ff_deliver_signal')
),
may as (
    select f.function_name, r.role_name,
        r.role_name = 'admin' or r.role_name = any (string_to_array(d.roles, ' ')) as may_execute
    from documented as d
    cross join lateral regexp_split_to_table(btrim(d.functions, E' \n'), '[[:space:]]+') as f (function_name)
    cross join unnest(array['producer', 'worker', 'signaller', 'operator', 'reader', 'admin']) as r (role_name)
),
role as (
    select r.oid, r.rolname::text as name, r.rolcanlogin, r.rolsuper, r.rolcreaterole, r.rolcreatedb, r.rolbypassrls,
        r.rolreplication
    from pg_roles as r
    where r.rolname in (
        'flowfabric_producer', 'flowfabric_worker', 'flowfabric_signaller', 'flowfabric_operator', 'flowfabric_reader',
        'flowfabric_admin')
),
home as (
    select n.oid, n.nspowner as owner, n.nspacl as privileges from pg_namespace as n where n.nspname = 'flowfabric'
),
routine as (
    select p.oid, p.proname::text as name, p.oid::regprocedure::text as signature, p.proowner as owner,
        starts_with(p.proname, 'ff_') as is_public, p.prosecdef, p.proconfig,
        coalesce(p.proacl, acldefault('f', p.proowner)) as privileges
    from pg_proc as p join home as h on h.oid = p.pronamespace
),
relation as (
    select c.oid, c.relname::text as name, c.relkind as kind, c.relowner as owner,
        coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner)) as privileges
    from pg_class as c join home as h on h.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
),
doctor as (
    select d.check_name, d.severity, d.check_name || ': ' || d.finding || coalesce(' ' || d.what_to_do, '') as line
    from flowfabric.ff_doctor() as d
),
-- One row per check: what it found wrong, and what is only worth knowing.
checks (number, description, problems, notes) as (
    select 1, 'the library says which version it is', array(
        select 'ff_version() is ' || coalesce(quote_literal(v.version), 'NULL')
        from flowfabric.ff_version() as v (version) where coalesce(v.version, '') = ''
    ), array(select 'FlowFabric ' || flowfabric.ff_version() || ' on PostgreSQL ' || current_setting('server_version'))
    union all
    select 2, 'every documented function is installed, and no other public one', array(
        select coalesce(r.signature, m.function_name || ' is missing')
        from (select distinct m.function_name from may as m) as m
        full join (select * from routine as r where r.is_public) as r on r.name = m.function_name
        where m.function_name is null or r.name is null
        order by 1
    ), '{}'
    union all
    select 3, 'each role may call exactly the functions that are documented for it', array(
        select m.role_name || case when m.may_execute then ' may not call ' else ' may call ' end || r.signature
        from may as m
        join routine as r on r.name = m.function_name
        join role as o on o.name = 'flowfabric_' || m.role_name
        where m.may_execute <> has_function_privilege(o.oid, r.oid, 'execute')
        order by 1
    ), '{}'
    union all
    select 4, 'nobody but the six roles and the owner may call anything', array(
        select case g.grantee when 0 then 'PUBLIC' else g.grantee::regrole::text end || ' may call ' || r.signature
        from routine as r
        cross join lateral aclexplode(r.privileges) as g
        where g.grantee <> r.owner and (not r.is_public or g.grantee not in (select o.oid from role as o))
        order by 1
    ), '{}'
    union all
    select 5, 'the six roles exist, cannot log in and have no attribute beyond their grants', array(
        select m.name || ' is missing'
        from (select distinct 'flowfabric_' || m.role_name as name from may as m) as m
        where m.name not in (select o.name from role as o)
        union all
        select o.name || ' can log in or has an attribute'
        from role as o
        where o.rolcanlogin or o.rolsuper or o.rolcreaterole or o.rolcreatedb or o.rolbypassrls or o.rolreplication
        order by 1
    ), '{}'
    union all
    select 6, 'no role but the admin is a member of another role', array(
        select o.name || ' is a member of ' || m.roleid::regrole::text
        from role as o
        join pg_auth_members as m on m.member = o.oid
        where o.name <> 'flowfabric_admin' or m.roleid not in (select x.oid from role as x)
        order by 1
    ), '{}'
    union all
    select 7, 'nobody but the owner has a privilege on a table or a sequence', array(
        select case g.grantee when 0 then 'PUBLIC' else g.grantee::regrole::text end
            || ' has ' || g.privilege_type || ' on ' || t.name
        from relation as t
        cross join lateral aclexplode(t.privileges) as g
        where g.grantee <> t.owner and t.kind <> 'v'
        union all
        select 'column ' || a.attname || ' of ' || t.name || ' has privileges of its own'
        from relation as t
        join pg_attribute as a on a.attrelid = t.oid and a.attacl is not null
        order by 1
    ), '{}'
    union all
    select 8, 'the views are for the reader and the operator, to read', array(
        select case g.grantee when 0 then 'PUBLIC' else g.grantee::regrole::text end
            || ' has ' || g.privilege_type || ' on ' || t.name
        from relation as t
        cross join lateral aclexplode(t.privileges) as g
        where t.kind = 'v' and g.grantee <> t.owner and (
            g.privilege_type <> 'SELECT' or g.grantee not in (
                select o.oid from role as o where o.name in ('flowfabric_reader', 'flowfabric_operator')))
        order by 1
    ), '{}'
    union all
    select 9, 'nobody but the owner may create in the schema, and PUBLIC may not use it', array(
        select case g.grantee when 0 then 'PUBLIC' else g.grantee::regrole::text end || ' has ' || g.privilege_type
        from home as h
        cross join lateral aclexplode(coalesce(h.privileges, acldefault('n', h.owner))) as g
        where g.grantee <> h.owner and (g.grantee = 0 or g.privilege_type <> 'USAGE')
        order by 1
    ), '{}'
    union all
    select 10, 'one role owns the schema and everything in it, and it is none of the six', array(
        select o.kind || ' ' || o.name || ' belongs to ' || o.owner::regrole::text
        from home as h
        join (
            select 'function' as kind, r.signature as name, r.owner from routine as r
            union all
            select 'relation', t.name, t.owner from relation as t
        ) as o on o.owner <> h.owner
        union all
        select 'the owner is ' || o.name from home as h join role as o on o.oid = h.owner
        order by 1
    ), array(
        select 'The owner is ' || h.owner::regrole::text
            || case when r.rolsuper then ', a superuser: a role of its own would do.' else '.' end
        from home as h join pg_roles as r on r.oid = h.owner)
    union all
    select 11, 'what runs with the rights of the owner has a search_path of its own', array(
        select r.signature
        from routine as r
        where r.prosecdef and not coalesce('search_path=pg_catalog, pg_temp' = any (r.proconfig), false)
        order by 1
    ), '{}'
    union all
    select 12, 'no trigger, rule or policy has been added to a table', array(
        select 'trigger ' || g.tgname || ' on ' || t.name
        from relation as t join pg_trigger as g on g.tgrelid = t.oid and not g.tgisinternal
        union all
        select 'rule ' || w.rulename || ' on ' || t.name
        from relation as t join pg_rewrite as w on w.ev_class = t.oid and w.rulename <> '_RETURN'
        union all
        select 'policy ' || p.polname || ' on ' || t.name
        from relation as t join pg_policy as p on p.polrelid = t.oid
        order by 1
    ), '{}'
    union all
    select 13, 'the test clock is not installed', array(
        select d.line from doctor as d where d.check_name = 'test_clock'
    ), '{}'
    union all
    -- Two findings may show while a scanner is behind, and say nothing about the database being sound.
    select 14, 'stored rows agree with each other and with the state model', array(
        select concat_ws(' ', i.check_name, i.execution_id, i.detail)
        from flowfabric.ff_check_invariants() as i
        where i.check_name not in ('slot_is_used', 'waitpoint_of_ended_is_closed')
    ), array(
        select concat_ws(' ', i.check_name, i.execution_id, i.detail, '(passes when the scanners have run)')
        from flowfabric.ff_check_invariants() as i
        where i.check_name in ('slot_is_used', 'waitpoint_of_ended_is_closed')
    )
    union all
    select 15, 'the doctor finds nothing critical and nothing to be warned of', array(
        select d.severity || ' ' || d.line from doctor as d where d.severity in ('critical', 'warning')
    ), array(
        select d.line from doctor as d where d.severity not in ('critical', 'warning') and d.check_name <> 'test_clock'
    )
    union all
    select 16, 'every setting is one that this version knows', array(
        select 'Not listed: ' || s.name from flowfabric.ff_list_settings() as s where s.default_value is null
    ), array(
        select s.name || ' is ' || s.value || ', by default ' || s.default_value
        from flowfabric.ff_list_settings() as s where not s.is_default order by s.name)
)
select line
from (
    select 0 as number, 0 as part, '1..' || count(*) as line from checks
    union all
    select c.number, 1, case when cardinality(c.problems) = 0 then 'ok ' else 'not ok ' end || c.number || ' - '
        || c.description
    from checks as c
    union all
    select c.number, 2, '# ' || replace(n.note, E'\n', ' ')
    from checks as c cross join lateral unnest(c.problems || c.notes) as n (note)
) as tap
order by number, part, line;

rollback;
