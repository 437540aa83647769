-- Who may call what: the grants of every public function, compared with the specification.
begin;
\ir ../helpers.sql
select plan(3);

-- The specification's index of public functions. Functions that are not there yet are not missed here; a function that
-- is not in the table is. "every role" includes the signaller; the admin has everything.
create temporary table specified (function_name text primary key, roles text not null) on commit drop;
insert into specified values
    ('ff_ack_cancel_member', 'operator'),
    ('ff_add_execution_to_flow', 'producer'),
    ('ff_append_frame', 'worker'),
    ('ff_apply_dependency_to_child', 'producer'),
    ('ff_block_execution_for_admission', 'operator'),
    ('ff_boot_check', 'producer, worker, reader, operator'),
    ('ff_buffer_signal_for_pending_waitpoint', 'producer, worker, signaller, operator'),
    ('ff_bump_event_epoch', 'operator'),
    ('ff_cancel_execution', 'worker, operator'),
    ('ff_cancel_flow', 'operator'),
    ('ff_capabilities', 'producer, worker, reader, operator'),
    ('ff_change_priority', 'operator'),
    ('ff_check_admission_and_record', 'operator'),
    ('ff_check_invariants', 'reader, operator'),
    ('ff_claim_execution', 'worker'),
    ('ff_claim_next', 'worker'),
    ('ff_claim_resumed_execution', 'worker'),
    ('ff_close_waitpoint', 'worker, operator'),
    ('ff_commit_event_cursor', 'reader, operator'),
    ('ff_complete_execution', 'worker, operator'),
    ('ff_complete_executions', 'worker'),
    ('ff_create_budget', 'operator'),
    ('ff_create_execution', 'producer'),
    ('ff_create_executions', 'producer'),
    ('ff_create_flow', 'producer'),
    ('ff_create_pending_waitpoint', 'worker'),
    ('ff_create_quota_policy', 'operator'),
    ('ff_delay_execution', 'worker, operator'),
    ('ff_delete_event_cursor', 'operator'),
    ('ff_deliver_approval_signal', 'operator'),
    ('ff_deliver_signal', 'producer, worker, signaller, operator'),
    ('ff_deregister_worker', 'worker'),
    ('ff_describe_edge', 'reader, operator'),
    ('ff_describe_execution', 'reader, operator'),
    ('ff_describe_flow', 'reader, operator'),
    ('ff_dispatch_dependencies', 'operator'),
    ('ff_dispatch_sibling_cancels', 'operator'),
    ('ff_doctor', 'reader, operator'),
    ('ff_drain_cancel_backlog', 'operator'),
    ('ff_drain_sibling_cancel_group', 'operator'),
    ('ff_drain_worker', 'operator'),
    ('ff_due_scanners', 'worker, operator'),
    ('ff_evaluate_flow_eligibility', 'reader, operator'),
    ('ff_event_lag', 'reader, operator'),
    ('ff_event_position', 'reader, operator'),
    ('ff_expire_execution', 'operator'),
    ('ff_expire_suspension', 'operator'),
    ('ff_fail_execution', 'worker, operator'),
    ('ff_fail_executions', 'worker'),
    ('ff_find_execution', 'producer, reader, operator'),
    ('ff_flow_partition', 'producer, worker, reader, operator'),
    ('ff_format_execution_id', 'every role'),
    ('ff_get_budget_status', 'producer, worker, reader, operator'),
    ('ff_get_budget_usage', 'producer, worker, reader, operator'),
    ('ff_get_execution_namespace', 'reader, operator'),
    ('ff_get_execution_result', 'reader, operator'),
    ('ff_get_execution_tag', 'reader, operator'),
    ('ff_get_flow_tag', 'reader, operator'),
    ('ff_get_quota_policy', 'producer, reader, operator'),
    ('ff_grant_next', 'worker, operator'),
    ('ff_heartbeat_worker', 'worker'),
    ('ff_initialize', 'admin'),
    ('ff_issue_claim_grant', 'worker, operator'),
    ('ff_issue_grant_and_claim', 'operator'),
    ('ff_issue_reclaim_grant', 'worker, operator'),
    ('ff_list_attempts', 'reader, operator'),
    ('ff_list_edges', 'reader, operator'),
    ('ff_list_error_codes', 'every role'),
    ('ff_list_executions', 'reader, operator'),
    ('ff_list_expired_leases', 'worker, reader, operator'),
    ('ff_list_flow_edge_groups', 'reader, operator'),
    ('ff_list_flows', 'reader, operator'),
    ('ff_list_lanes', 'producer, worker, reader, operator'),
    ('ff_list_lease_history', 'reader, operator'),
    ('ff_list_pending_waitpoints', 'reader, operator'),
    ('ff_list_scanner_failures', 'reader, operator'),
    ('ff_list_scanners', 'reader, operator'),
    ('ff_list_settings', 'reader, operator'),
    ('ff_list_suspended', 'reader, operator'),
    ('ff_list_waitpoint_hmac_kids', 'reader, operator'),
    ('ff_list_worker_leases', 'worker, reader, operator'),
    ('ff_list_workers', 'reader, operator'),
    ('ff_lock_tick_loop', 'operator'),
    ('ff_mark_lease_expired_if_due', 'operator'),
    ('ff_mark_worker_dead', 'operator'),
    ('ff_metrics', 'reader, operator'),
    ('ff_mint_execution_id', 'producer, worker, operator'),
    ('ff_mint_solo_execution_id', 'producer, worker, operator'),
    ('ff_move_to_waiting_children', 'worker, operator'),
    ('ff_now_ms', 'every role'),
    ('ff_observe_signals', 'worker, reader, operator'),
    ('ff_parse_execution_id', 'every role'),
    ('ff_ping', 'every role'),
    ('ff_project_flow_summaries', 'operator'),
    ('ff_project_flow_summary', 'operator'),
    ('ff_promote_blocked_to_eligible', 'operator'),
    ('ff_promote_delayed', 'operator'),
    ('ff_promote_due', 'operator'),
    ('ff_prune_events', 'operator'),
    ('ff_queue_stats', 'reader, operator'),
    ('ff_read_attempt_stream', 'reader, operator'),
    ('ff_read_current_attempt_index', 'worker, reader, operator'),
    ('ff_read_events', 'reader, operator'),
    ('ff_read_execution_context', 'worker, reader, operator'),
    ('ff_read_execution_info', 'reader, operator'),
    ('ff_read_execution_state', 'reader, operator'),
    ('ff_read_flow_summary', 'reader, operator'),
    ('ff_read_summary', 'reader, operator'),
    ('ff_read_total_attempt_count', 'worker, reader, operator'),
    ('ff_read_waitpoint_token', 'operator'),
    ('ff_reclaim_execution', 'worker'),
    ('ff_reclaim_next', 'worker, operator'),
    ('ff_reconcile_dependencies', 'operator'),
    ('ff_reconcile_quota', 'operator'),
    ('ff_reconcile_sibling_cancel_group', 'operator'),
    ('ff_reconcile_sibling_cancels', 'operator'),
    ('ff_record_signal_auth_failure', 'worker, operator'),
    ('ff_record_spend', 'worker, operator'),
    ('ff_register_lane', 'operator'),
    ('ff_register_worker', 'worker'),
    ('ff_release_admission', 'operator'),
    ('ff_release_budget', 'operator'),
    ('ff_release_reservation', 'worker, operator'),
    ('ff_renew_lease', 'worker'),
    ('ff_renew_leases', 'worker'),
    ('ff_replay_execution', 'operator'),
    ('ff_report_usage_and_check', 'worker, operator'),
    ('ff_reserve_budget', 'worker'),
    ('ff_reset_budget', 'operator'),
    ('ff_resolve_dependency', 'operator'),
    ('ff_resolve_execution_flow_id', 'reader, operator'),
    ('ff_resume_execution', 'operator'),
    ('ff_revoke_lease', 'operator'),
    ('ff_rotate_waitpoint_hmac_secret', 'operator'),
    ('ff_scan_attempt_timeouts', 'operator'),
    ('ff_scan_budget_resets', 'operator'),
    ('ff_scan_claim_floors', 'operator'),
    ('ff_scan_eligible', 'reader, operator'),
    ('ff_scan_event_notify', 'operator'),
    ('ff_scan_execution_deadlines', 'operator'),
    ('ff_scan_expired_leases', 'operator'),
    ('ff_scan_future_times', 'operator'),
    ('ff_scan_pending_waitpoint_expiry', 'operator'),
    ('ff_scan_stream_ttl', 'operator'),
    ('ff_scan_suspension_timeouts', 'operator'),
    ('ff_scan_unblock', 'operator'),
    ('ff_seed_waitpoint_hmac_secret', 'operator'),
    ('ff_set_edge_group_policy', 'producer'),
    ('ff_set_event_cursor', 'operator'),
    ('ff_set_execution_tags', 'producer, operator'),
    ('ff_set_flow_tags', 'producer, operator'),
    ('ff_set_lane_state', 'operator'),
    ('ff_set_partition_count', 'admin'),
    ('ff_set_scanner', 'operator'),
    ('ff_set_setting', 'operator'),
    ('ff_settle_reservation', 'worker'),
    ('ff_solo_partition', 'producer, worker, reader, operator'),
    ('ff_stage_dependency_edge', 'producer'),
    ('ff_stream_status', 'reader, operator'),
    ('ff_submit_flow', 'producer'),
    ('ff_suspend_execution', 'worker'),
    ('ff_sweep_dedup', 'operator'),
    ('ff_sweep_expired_grants', 'operator'),
    ('ff_sweep_workers', 'operator'),
    ('ff_test_set_clock', 'admin'),
    ('ff_tick', 'worker, operator'),
    ('ff_tick_loop', 'operator'),
    ('ff_timestamp', 'reader, operator'),
    ('ff_trim_retention', 'operator'),
    ('ff_unblock_execution', 'operator'),
    ('ff_update_progress', 'worker'),
    ('ff_version', 'every role'),
    ('ff_wait_for_events', 'worker, reader, operator'),
    ('ff_wait_for_work', 'worker'),
    ('ff_why', 'producer, reader, operator');

-- Public functions that this project has beyond the specification, with the reason.
create temporary table added (function_name text primary key, roles text not null, reason text not null) on commit drop;
insert into added (function_name, roles, reason) values
    ('ff_list_ended_suspensions', 'worker, reader, operator', 'A handler that runs again needs the answers to all pauses.');

create temporary view expected as
select e.function_name, r.role_name, r.role_name = 'admin' or e.roles = 'every role'
    or r.role_name = any (string_to_array(e.roles, ', ')) as may_execute
from (
    select s.function_name, s.roles from specified as s
    union all
    select a.function_name, a.roles from added as a
) as e
cross join unnest(array['producer', 'worker', 'signaller', 'operator', 'reader', 'admin']) as r (role_name);

create temporary view installed as
select p.oid, p.proname::text as function_name, p.oid::regprocedure::text as signature
from pg_proc as p
where p.pronamespace = 'flowfabric'::regnamespace and p.proname like 'ff\_%';

select is((select count(*) from specified), 175::bigint, 'the table above has all functions of the specification');

select is_empty(
    $$ select i.signature from installed as i
       where not exists (select from expected as e where e.function_name = i.function_name) $$,
    'every public function is specified');

select is_empty(
    $$ select i.signature, e.role_name, e.may_execute as should_be_allowed from installed as i
       join expected as e on e.function_name = i.function_name
       where e.may_execute <> has_function_privilege('flowfabric_' || e.role_name, i.oid, 'execute') $$,
    'each role may execute exactly the functions that the specification gives it');

select * from finish();
rollback;
