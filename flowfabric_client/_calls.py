"""Calls: the SQL of every public function, stated once for both clients.

Generated from the catalogue by `python tools/generate_client.py`; a change made here is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from flowfabric_client import rows
from flowfabric_client._call import EMPTY_OBJECT, Call, JsonObject, json_param, list_param

# Who holds EXECUTE on what, for the login that does not. The admin may call everything.
ROLES: dict[str, tuple[str, ...]] = {
    "ff_ack_cancel_member": ("operator",),
    "ff_add_execution_to_flow": ("producer",),
    "ff_append_frame": ("worker",),
    "ff_apply_dependency_to_child": ("producer",),
    "ff_block_execution_for_admission": ("operator",),
    "ff_boot_check": ("operator", "producer", "reader", "worker"),
    "ff_buffer_signal_for_pending_waitpoint": ("operator", "producer", "signaller", "worker"),
    "ff_bump_event_epoch": ("operator",),
    "ff_cancel_execution": ("operator", "worker"),
    "ff_cancel_flow": ("operator",),
    "ff_capabilities": ("operator", "producer", "reader", "worker"),
    "ff_change_priority": ("operator",),
    "ff_check_admission_and_record": ("operator",),
    "ff_check_invariants": ("operator", "reader"),
    "ff_claim_execution": ("worker",),
    "ff_claim_next": ("worker",),
    "ff_claim_resumed_execution": ("worker",),
    "ff_close_waitpoint": ("operator", "worker"),
    "ff_commit_event_cursor": ("operator", "reader"),
    "ff_complete_execution": ("operator", "worker"),
    "ff_complete_executions": ("worker",),
    "ff_create_budget": ("operator",),
    "ff_create_execution": ("producer",),
    "ff_create_executions": ("producer",),
    "ff_create_flow": ("producer",),
    "ff_create_pending_waitpoint": ("worker",),
    "ff_create_quota_policy": ("operator",),
    "ff_delay_execution": ("operator", "worker"),
    "ff_delete_event_cursor": ("operator",),
    "ff_deliver_approval_signal": ("operator",),
    "ff_deliver_signal": ("operator", "producer", "signaller", "worker"),
    "ff_deregister_worker": ("worker",),
    "ff_describe_edge": ("operator", "reader"),
    "ff_describe_execution": ("operator", "reader"),
    "ff_describe_flow": ("operator", "reader"),
    "ff_dispatch_dependencies": ("operator",),
    "ff_dispatch_sibling_cancels": ("operator",),
    "ff_doctor": ("operator", "reader"),
    "ff_drain_cancel_backlog": ("operator",),
    "ff_drain_sibling_cancel_group": ("operator",),
    "ff_drain_worker": ("operator",),
    "ff_due_scanners": ("operator", "worker"),
    "ff_evaluate_flow_eligibility": ("operator", "reader"),
    "ff_event_lag": ("operator", "reader"),
    "ff_event_position": ("operator", "reader"),
    "ff_expire_execution": ("operator",),
    "ff_expire_suspension": ("operator",),
    "ff_fail_execution": ("operator", "worker"),
    "ff_fail_executions": ("worker",),
    "ff_find_execution": ("operator", "producer", "reader"),
    "ff_flow_partition": ("operator", "producer", "reader", "worker"),
    "ff_format_execution_id": ("operator", "producer", "reader", "signaller", "worker"),
    "ff_get_budget_status": ("operator", "producer", "reader", "worker"),
    "ff_get_budget_usage": ("operator", "producer", "reader", "worker"),
    "ff_get_execution_namespace": ("operator", "reader"),
    "ff_get_execution_result": ("operator", "reader"),
    "ff_get_execution_tag": ("operator", "reader"),
    "ff_get_flow_tag": ("operator", "reader"),
    "ff_get_quota_policy": ("operator", "producer", "reader"),
    "ff_grant_next": ("operator", "worker"),
    "ff_heartbeat_worker": ("worker",),
    "ff_initialize": ("admin",),
    "ff_issue_claim_grant": ("operator", "worker"),
    "ff_issue_grant_and_claim": ("operator",),
    "ff_issue_reclaim_grant": ("operator", "worker"),
    "ff_list_attempts": ("operator", "reader"),
    "ff_list_edges": ("operator", "reader"),
    "ff_list_ended_suspensions": ("operator", "reader", "worker"),
    "ff_list_error_codes": ("operator", "producer", "reader", "signaller", "worker"),
    "ff_list_executions": ("operator", "reader"),
    "ff_list_expired_leases": ("operator", "reader", "worker"),
    "ff_list_flow_edge_groups": ("operator", "reader"),
    "ff_list_flows": ("operator", "reader"),
    "ff_list_lanes": ("operator", "producer", "reader", "worker"),
    "ff_list_lease_history": ("operator", "reader"),
    "ff_list_pending_waitpoints": ("operator", "reader"),
    "ff_list_scanner_failures": ("operator", "reader"),
    "ff_list_scanners": ("operator", "reader"),
    "ff_list_settings": ("operator", "reader"),
    "ff_list_suspended": ("operator", "reader"),
    "ff_list_waitpoint_hmac_kids": ("operator", "reader"),
    "ff_list_worker_leases": ("operator", "reader", "worker"),
    "ff_list_workers": ("operator", "reader"),
    "ff_lock_tick_loop": ("operator",),
    "ff_mark_lease_expired_if_due": ("operator",),
    "ff_mark_worker_dead": ("operator",),
    "ff_metrics": ("operator", "reader"),
    "ff_mint_execution_id": ("operator", "producer", "worker"),
    "ff_mint_solo_execution_id": ("operator", "producer", "worker"),
    "ff_move_to_waiting_children": ("operator", "worker"),
    "ff_now_ms": ("operator", "producer", "reader", "signaller", "worker"),
    "ff_observe_signals": ("operator", "reader", "worker"),
    "ff_parse_execution_id": ("operator", "producer", "reader", "signaller", "worker"),
    "ff_ping": ("operator", "producer", "reader", "signaller", "worker"),
    "ff_project_flow_summaries": ("operator",),
    "ff_project_flow_summary": ("operator",),
    "ff_promote_blocked_to_eligible": ("operator",),
    "ff_promote_delayed": ("operator",),
    "ff_promote_due": ("operator",),
    "ff_prune_events": ("operator",),
    "ff_queue_stats": ("operator", "reader"),
    "ff_read_attempt_stream": ("operator", "reader"),
    "ff_read_current_attempt_index": ("operator", "reader", "worker"),
    "ff_read_events": ("operator", "reader"),
    "ff_read_execution_context": ("operator", "reader", "worker"),
    "ff_read_execution_info": ("operator", "reader"),
    "ff_read_execution_state": ("operator", "reader"),
    "ff_read_flow_summary": ("operator", "reader"),
    "ff_read_summary": ("operator", "reader"),
    "ff_read_total_attempt_count": ("operator", "reader", "worker"),
    "ff_read_waitpoint_token": ("operator",),
    "ff_reclaim_execution": ("worker",),
    "ff_reclaim_next": ("operator", "worker"),
    "ff_reconcile_dependencies": ("operator",),
    "ff_reconcile_quota": ("operator",),
    "ff_reconcile_sibling_cancel_group": ("operator",),
    "ff_reconcile_sibling_cancels": ("operator",),
    "ff_record_signal_auth_failure": ("operator", "worker"),
    "ff_record_spend": ("operator", "worker"),
    "ff_register_lane": ("operator",),
    "ff_register_worker": ("worker",),
    "ff_release_admission": ("operator",),
    "ff_release_budget": ("operator",),
    "ff_release_reservation": ("operator", "worker"),
    "ff_renew_lease": ("worker",),
    "ff_renew_leases": ("worker",),
    "ff_replay_execution": ("operator",),
    "ff_report_usage_and_check": ("operator", "worker"),
    "ff_reserve_budget": ("worker",),
    "ff_reset_budget": ("operator",),
    "ff_resolve_dependency": ("operator",),
    "ff_resolve_execution_flow_id": ("operator", "reader"),
    "ff_resume_execution": ("operator",),
    "ff_revoke_lease": ("operator",),
    "ff_rotate_waitpoint_hmac_secret": ("operator",),
    "ff_scan_attempt_timeouts": ("operator",),
    "ff_scan_budget_resets": ("operator",),
    "ff_scan_claim_floors": ("operator",),
    "ff_scan_eligible": ("operator", "reader"),
    "ff_scan_event_notify": ("operator",),
    "ff_scan_execution_deadlines": ("operator",),
    "ff_scan_expired_leases": ("operator",),
    "ff_scan_future_times": ("operator",),
    "ff_scan_pending_waitpoint_expiry": ("operator",),
    "ff_scan_stream_ttl": ("operator",),
    "ff_scan_suspension_timeouts": ("operator",),
    "ff_scan_unblock": ("operator",),
    "ff_seed_waitpoint_hmac_secret": ("operator",),
    "ff_set_edge_group_policy": ("producer",),
    "ff_set_event_cursor": ("operator",),
    "ff_set_execution_tags": ("operator", "producer"),
    "ff_set_flow_tags": ("operator", "producer"),
    "ff_set_lane_state": ("operator",),
    "ff_set_partition_count": ("admin",),
    "ff_set_scanner": ("operator",),
    "ff_set_setting": ("operator",),
    "ff_settle_reservation": ("worker",),
    "ff_solo_partition": ("operator", "producer", "reader", "worker"),
    "ff_stage_dependency_edge": ("producer",),
    "ff_stream_status": ("operator", "reader"),
    "ff_submit_flow": ("producer",),
    "ff_suspend_execution": ("worker",),
    "ff_sweep_dedup": ("operator",),
    "ff_sweep_expired_grants": ("operator",),
    "ff_sweep_workers": ("operator",),
    "ff_test_set_clock": ("admin",),
    "ff_tick": ("operator", "worker"),
    "ff_timestamp": ("operator", "reader"),
    "ff_trim_retention": ("operator",),
    "ff_unblock_execution": ("operator",),
    "ff_update_progress": ("worker",),
    "ff_version": ("operator", "producer", "reader", "signaller", "worker"),
    "ff_wait_for_events": ("operator", "reader", "worker"),
    "ff_wait_for_work": ("worker",),
    "ff_why": ("operator", "producer", "reader"),
}


def ack_cancel_member(flow_id: UUID, execution_id: str) -> Call[rows.CancelAcknowledgement]:
    sql = """
        select * from flowfabric.ff_ack_cancel_member(
            p_flow_id => %(flow_id)s::uuid, p_execution_id => %(execution_id)s::text)"""
    return Call(
        "ff_ack_cancel_member",
        sql,
        {"flow_id": flow_id, "execution_id": execution_id},
        rows.CancelAcknowledgement,
        True,
    )


def add_execution_to_flow(flow_id: UUID, execution_id: str) -> Call[rows.FlowMembership]:
    sql = """
        select * from flowfabric.ff_add_execution_to_flow(
            p_flow_id => %(flow_id)s::uuid, p_execution_id => %(execution_id)s::text)"""
    return Call(
        "ff_add_execution_to_flow",
        sql,
        {"flow_id": flow_id, "execution_id": execution_id},
        rows.FlowMembership,
        False,
    )


def append_frame(
    execution_id: str,
    attempt_index: int,
    lease_id: UUID,
    lease_epoch: int,
    attempt_id: UUID,
    frame_type: str,
    *,
    payload: bytes = b"",
    encoding: str = "utf8",
    correlation_id: str | None = None,
    source: str = "worker",
    frame_ts_ms: int | None = None,
    stream_mode: str = "durable",
    patch_kind: str = "json-merge-patch",
    ttl_ms: int = 0,
    maxlen_floor: int = 64,
    maxlen_ceiling: int = 16_384,
    ema_alpha: float = 0.2,
    retention_maxlen: int = 0,
    max_payload_bytes: int = 65_536,
) -> Call[rows.AppendedFrame]:
    sql = """
        select * from flowfabric.ff_append_frame(
            p_execution_id => %(execution_id)s::text, p_attempt_index => %(attempt_index)s::integer,
            p_lease_id => %(lease_id)s::uuid, p_lease_epoch => %(lease_epoch)s::bigint, p_attempt_id
            => %(attempt_id)s::uuid, p_frame_type => %(frame_type)s::text, p_payload =>
            %(payload)s::bytea, p_encoding => %(encoding)s::text, p_correlation_id =>
            %(correlation_id)s::text, p_source => %(source)s::text, p_frame_ts_ms =>
            %(frame_ts_ms)s::bigint, p_stream_mode => %(stream_mode)s::text, p_patch_kind =>
            %(patch_kind)s::text, p_ttl_ms => %(ttl_ms)s::integer, p_maxlen_floor =>
            %(maxlen_floor)s::integer, p_maxlen_ceiling => %(maxlen_ceiling)s::integer, p_ema_alpha =>
            %(ema_alpha)s::double precision, p_retention_maxlen => %(retention_maxlen)s::integer,
            p_max_payload_bytes => %(max_payload_bytes)s::integer)"""
    return Call(
        "ff_append_frame",
        sql,
        {
            "execution_id": execution_id,
            "attempt_index": attempt_index,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "frame_type": frame_type,
            "payload": payload,
            "encoding": encoding,
            "correlation_id": correlation_id,
            "source": source,
            "frame_ts_ms": frame_ts_ms,
            "stream_mode": stream_mode,
            "patch_kind": patch_kind,
            "ttl_ms": ttl_ms,
            "maxlen_floor": maxlen_floor,
            "maxlen_ceiling": maxlen_ceiling,
            "ema_alpha": ema_alpha,
            "retention_maxlen": retention_maxlen,
            "max_payload_bytes": max_payload_bytes,
        },
        rows.AppendedFrame,
        False,
    )


def apply_dependency_to_child(
    flow_id: UUID,
    edge_id: UUID,
    downstream_execution_id: str,
    upstream_execution_id: str,
    *,
    graph_revision: int | None = None,
) -> Call[rows.AppliedEdge]:
    sql = """
        select * from flowfabric.ff_apply_dependency_to_child(
            p_flow_id => %(flow_id)s::uuid, p_edge_id => %(edge_id)s::uuid, p_downstream_execution_id
            => %(downstream_execution_id)s::text, p_upstream_execution_id =>
            %(upstream_execution_id)s::text, p_graph_revision => %(graph_revision)s::bigint)"""
    return Call(
        "ff_apply_dependency_to_child",
        sql,
        {
            "flow_id": flow_id,
            "edge_id": edge_id,
            "downstream_execution_id": downstream_execution_id,
            "upstream_execution_id": upstream_execution_id,
            "graph_revision": graph_revision,
        },
        rows.AppliedEdge,
        False,
    )


def block_execution_for_admission(
    execution_id: str, blocking_reason: str, *, blocking_detail: str | None = None
) -> Call[rows.AdmissionBlock]:
    sql = """
        select * from flowfabric.ff_block_execution_for_admission(
            p_execution_id => %(execution_id)s::text, p_blocking_reason => %(blocking_reason)s::text,
            p_blocking_detail => %(blocking_detail)s::text)"""
    return Call(
        "ff_block_execution_for_admission",
        sql,
        {
            "execution_id": execution_id,
            "blocking_reason": blocking_reason,
            "blocking_detail": blocking_detail,
        },
        rows.AdmissionBlock,
        False,
    )


def boot_check(required_version: int, *, num_flow_partitions: int | None = None) -> Call[rows.BootReport]:
    sql = """
        select * from flowfabric.ff_boot_check(
            p_required_version => %(required_version)s::integer, p_num_flow_partitions =>
            %(num_flow_partitions)s::integer)"""
    return Call(
        "ff_boot_check",
        sql,
        {"required_version": required_version, "num_flow_partitions": num_flow_partitions},
        rows.BootReport,
        True,
    )


def buffer_signal_for_pending_waitpoint(
    execution_id: str,
    waitpoint_id: UUID,
    waitpoint_token: str,
    signal_name: str,
    *,
    signal_id: UUID | None = None,
    signal_category: str = "external",
    source_type: str = "external",
    source_identity: str = "",
    payload: bytes | None = None,
    payload_encoding: str = "json",
    idempotency_key: str | None = None,
    dedup_ttl_ms: int = 86_400_000,
    correlation_id: str | None = None,
    target_scope: str = "waitpoint",
    created_at_ms: int | None = None,
) -> Call[rows.SignalDelivery]:
    sql = """
        select * from flowfabric.ff_buffer_signal_for_pending_waitpoint(
            p_execution_id => %(execution_id)s::text, p_waitpoint_id => %(waitpoint_id)s::uuid,
            p_waitpoint_token => %(waitpoint_token)s::text, p_signal_name => %(signal_name)s::text,
            p_signal_id => %(signal_id)s::uuid, p_signal_category => %(signal_category)s::text,
            p_source_type => %(source_type)s::text, p_source_identity => %(source_identity)s::text,
            p_payload => %(payload)s::bytea, p_payload_encoding => %(payload_encoding)s::text,
            p_idempotency_key => %(idempotency_key)s::text, p_dedup_ttl_ms =>
            %(dedup_ttl_ms)s::bigint, p_correlation_id => %(correlation_id)s::text, p_target_scope =>
            %(target_scope)s::text, p_created_at_ms => %(created_at_ms)s::bigint)"""
    return Call(
        "ff_buffer_signal_for_pending_waitpoint",
        sql,
        {
            "execution_id": execution_id,
            "waitpoint_id": waitpoint_id,
            "waitpoint_token": waitpoint_token,
            "signal_name": signal_name,
            "signal_id": signal_id,
            "signal_category": signal_category,
            "source_type": source_type,
            "source_identity": source_identity,
            "payload": payload,
            "payload_encoding": payload_encoding,
            "idempotency_key": idempotency_key,
            "dedup_ttl_ms": dedup_ttl_ms,
            "correlation_id": correlation_id,
            "target_scope": target_scope,
            "created_at_ms": created_at_ms,
        },
        rows.SignalDelivery,
        signal_id is not None or idempotency_key is not None,
    )


def bump_event_epoch(*, wait_ms: int = 900) -> Call[int]:
    sql = """
        select flowfabric.ff_bump_event_epoch(p_wait_ms => %(wait_ms)s::integer)"""
    return Call("ff_bump_event_epoch", sql, {"wait_ms": wait_ms}, None, False)


def cancel_execution(
    execution_id: str,
    reason: str,
    *,
    source: str = "lease_holder",
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
) -> Call[rows.Cancellation]:
    sql = """
        select * from flowfabric.ff_cancel_execution(
            p_execution_id => %(execution_id)s::text, p_reason => %(reason)s::text, p_source =>
            %(source)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch =>
            %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid)"""
    return Call(
        "ff_cancel_execution",
        sql,
        {
            "execution_id": execution_id,
            "reason": reason,
            "source": source,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
        },
        rows.Cancellation,
        True,
    )


def cancel_flow(
    flow_id: UUID,
    reason: str,
    cancellation_policy: str,
    *,
    grace_ms: int = 30_000,
    requester: str | None = None,
    sync_limit: int = 500,
) -> Call[rows.FlowCancellation]:
    sql = """
        select * from flowfabric.ff_cancel_flow(
            p_flow_id => %(flow_id)s::uuid, p_reason => %(reason)s::text, p_cancellation_policy =>
            %(cancellation_policy)s::text, p_grace_ms => %(grace_ms)s::bigint, p_requester =>
            %(requester)s::text, p_sync_limit => %(sync_limit)s::integer)"""
    return Call(
        "ff_cancel_flow",
        sql,
        {
            "flow_id": flow_id,
            "reason": reason,
            "cancellation_policy": cancellation_policy,
            "grace_ms": grace_ms,
            "requester": requester,
            "sync_limit": sync_limit,
        },
        rows.FlowCancellation,
        False,
    )


def capabilities() -> Call[rows.CapabilityFlag]:
    sql = """
        select * from flowfabric.ff_capabilities()"""
    return Call("ff_capabilities", sql, {}, rows.CapabilityFlag, True)


def change_priority(execution_id: str, new_priority: int) -> Call[rows.PriorityChange]:
    sql = """
        select * from flowfabric.ff_change_priority(
            p_execution_id => %(execution_id)s::text, p_new_priority => %(new_priority)s::integer)"""
    return Call(
        "ff_change_priority",
        sql,
        {"execution_id": execution_id, "new_priority": new_priority},
        rows.PriorityChange,
        False,
    )


def check_admission_and_record(
    quota_policy_id: str, execution_id: str, *, jitter_ms: int | None = None
) -> Call[rows.Admission]:
    sql = """
        select * from flowfabric.ff_check_admission_and_record(
            p_quota_policy_id => %(quota_policy_id)s::text, p_execution_id => %(execution_id)s::text,
            p_jitter_ms => %(jitter_ms)s::bigint)"""
    return Call(
        "ff_check_admission_and_record",
        sql,
        {"quota_policy_id": quota_policy_id, "execution_id": execution_id, "jitter_ms": jitter_ms},
        rows.Admission,
        False,
    )


def check_invariants(*, limit: int = 1_000) -> Call[rows.InvariantFinding]:
    sql = """
        select * from flowfabric.ff_check_invariants(p_limit => %(limit)s::integer)"""
    return Call("ff_check_invariants", sql, {"limit": limit}, rows.InvariantFinding, False)


def claim_execution(
    execution_id: str,
    worker_id: str,
    worker_instance_id: str,
    *,
    lease_ttl_ms: int = 30_000,
    lane_id: str | None = None,
    lease_id: UUID | None = None,
    attempt_id: UUID | None = None,
    attempt_policy: JsonObject | None = None,
    attempt_timeout_ms: int | None = None,
    execution_deadline_at_ms: int | None = None,
    grant_key: str | None = None,
) -> Call[rows.Claim]:
    sql = """
        select * from flowfabric.ff_claim_execution(
            p_execution_id => %(execution_id)s::text, p_worker_id => %(worker_id)s::text,
            p_worker_instance_id => %(worker_instance_id)s::text, p_lease_ttl_ms =>
            %(lease_ttl_ms)s::bigint, p_lane_id => %(lane_id)s::text, p_lease_id =>
            %(lease_id)s::uuid, p_attempt_id => %(attempt_id)s::uuid, p_attempt_policy =>
            %(attempt_policy)s::jsonb, p_attempt_timeout_ms => %(attempt_timeout_ms)s::bigint,
            p_execution_deadline_at_ms => %(execution_deadline_at_ms)s::bigint, p_grant_key =>
            %(grant_key)s::text)"""
    return Call(
        "ff_claim_execution",
        sql,
        {
            "execution_id": execution_id,
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "lease_ttl_ms": lease_ttl_ms,
            "lane_id": lane_id,
            "lease_id": lease_id,
            "attempt_id": attempt_id,
            "attempt_policy": json_param(attempt_policy),
            "attempt_timeout_ms": attempt_timeout_ms,
            "execution_deadline_at_ms": execution_deadline_at_ms,
            "grant_key": grant_key,
        },
        rows.Claim,
        False,
    )


def claim_next(
    lanes: Sequence[str | None],
    worker_id: str,
    worker_instance_id: str,
    *,
    capabilities: Sequence[str] = (),
    max: int = 1,
    lease_ttl_ms: int = 30_000,
    namespace: str | None = None,
    lane_order: str = "fair",
    include_resumed: bool = True,
    promote_due: bool = True,
    with_payload: bool = True,
    partition_key: int | None = None,
) -> Call[rows.ClaimedExecution]:
    sql = """
        select * from flowfabric.ff_claim_next(
            p_lanes => %(lanes)b::text[], p_worker_id => %(worker_id)s::text, p_worker_instance_id =>
            %(worker_instance_id)s::text, p_capabilities => %(capabilities)b::text[], p_max =>
            %(max)s::integer, p_lease_ttl_ms => %(lease_ttl_ms)s::bigint, p_namespace =>
            %(namespace)s::text, p_lane_order => %(lane_order)s::text, p_include_resumed =>
            %(include_resumed)s::boolean, p_promote_due => %(promote_due)s::boolean, p_with_payload =>
            %(with_payload)s::boolean, p_partition_key => %(partition_key)s::smallint)"""
    return Call(
        "ff_claim_next",
        sql,
        {
            "lanes": list_param("lanes", lanes),
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "capabilities": list_param("capabilities", capabilities),
            "max": max,
            "lease_ttl_ms": lease_ttl_ms,
            "namespace": namespace,
            "lane_order": lane_order,
            "include_resumed": include_resumed,
            "promote_due": promote_due,
            "with_payload": with_payload,
            "partition_key": partition_key,
        },
        rows.ClaimedExecution,
        False,
    )


def claim_resumed_execution(
    execution_id: str,
    worker_id: str,
    worker_instance_id: str,
    *,
    lease_ttl_ms: int = 30_000,
    lane_id: str | None = None,
    lease_id: UUID | None = None,
    remaining_attempt_timeout_ms: int | None = None,
    execution_deadline_at_ms: int | None = None,
    grant_key: str | None = None,
) -> Call[rows.Claim]:
    sql = """
        select * from flowfabric.ff_claim_resumed_execution(
            p_execution_id => %(execution_id)s::text, p_worker_id => %(worker_id)s::text,
            p_worker_instance_id => %(worker_instance_id)s::text, p_lease_ttl_ms =>
            %(lease_ttl_ms)s::bigint, p_lane_id => %(lane_id)s::text, p_lease_id =>
            %(lease_id)s::uuid, p_remaining_attempt_timeout_ms =>
            %(remaining_attempt_timeout_ms)s::bigint, p_execution_deadline_at_ms =>
            %(execution_deadline_at_ms)s::bigint, p_grant_key => %(grant_key)s::text)"""
    return Call(
        "ff_claim_resumed_execution",
        sql,
        {
            "execution_id": execution_id,
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "lease_ttl_ms": lease_ttl_ms,
            "lane_id": lane_id,
            "lease_id": lease_id,
            "remaining_attempt_timeout_ms": remaining_attempt_timeout_ms,
            "execution_deadline_at_ms": execution_deadline_at_ms,
            "grant_key": grant_key,
        },
        rows.Claim,
        False,
    )


def close_waitpoint(
    execution_id: str,
    waitpoint_id: UUID,
    *,
    reason: str = "proactive_close",
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    source: str | None = None,
) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_close_waitpoint(
            p_execution_id => %(execution_id)s::text, p_waitpoint_id => %(waitpoint_id)s::uuid,
            p_reason => %(reason)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch =>
            %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_source =>
            %(source)s::text)"""
    return Call(
        "ff_close_waitpoint",
        sql,
        {
            "execution_id": execution_id,
            "waitpoint_id": waitpoint_id,
            "reason": reason,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "source": source,
        },
        rows.Outcome,
        True,
    )


def commit_event_cursor(consumer: str, stream: str, cursor: str) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_commit_event_cursor(
            p_consumer => %(consumer)s::text, p_stream => %(stream)s::text, p_cursor =>
            %(cursor)s::text)"""
    return Call(
        "ff_commit_event_cursor",
        sql,
        {"consumer": consumer, "stream": stream, "cursor": cursor},
        rows.Outcome,
        True,
    )


def complete_execution(
    execution_id: str,
    *,
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    result: bytes | None = None,
    result_encoding: str | None = None,
    source: str | None = None,
) -> Call[rows.ExecutionOutcome]:
    sql = """
        select * from flowfabric.ff_complete_execution(
            p_execution_id => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch
            => %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_result =>
            %(result)s::bytea, p_result_encoding => %(result_encoding)s::text, p_source =>
            %(source)s::text)"""
    return Call(
        "ff_complete_execution",
        sql,
        {
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "result": result,
            "result_encoding": result_encoding,
            "source": source,
        },
        rows.ExecutionOutcome,
        True,
    )


def complete_executions(
    execution_ids: Sequence[str | None],
    lease_ids: Sequence[UUID | None],
    lease_epochs: Sequence[int | None],
    attempt_ids: Sequence[UUID | None],
    *,
    results: Sequence[bytes | None] | None = None,
    result_encodings: Sequence[str | None] | None = None,
) -> Call[rows.ExecutionItem]:
    sql = """
        select * from flowfabric.ff_complete_executions(
            p_execution_ids => %(execution_ids)b::text[], p_lease_ids => %(lease_ids)b::uuid[],
            p_lease_epochs => %(lease_epochs)b::bigint[], p_attempt_ids => %(attempt_ids)b::uuid[],
            p_results => %(results)b::bytea[], p_result_encodings => %(result_encodings)b::text[])"""
    return Call(
        "ff_complete_executions",
        sql,
        {
            "execution_ids": list_param("execution_ids", execution_ids),
            "lease_ids": list_param("lease_ids", lease_ids),
            "lease_epochs": list_param("lease_epochs", lease_epochs),
            "attempt_ids": list_param("attempt_ids", attempt_ids),
            "results": None if results is None else list_param("results", results),
            "result_encodings": None
            if result_encodings is None
            else list_param("result_encodings", result_encodings),
        },
        rows.ExecutionItem,
        False,
    )


def create_budget(
    budget_id: str,
    scope_type: str,
    scope_id: str,
    *,
    dimensions: Sequence[str] = (),
    hard_limits: Sequence[int] = (),
    soft_limits: Sequence[int] = (),
    reset_interval_ms: int = 0,
    enforcement_mode: str = "strict",
    on_hard_limit: str = "fail",
    on_soft_limit: str = "warn",
) -> Call[rows.BudgetCreation]:
    sql = """
        select * from flowfabric.ff_create_budget(
            p_budget_id => %(budget_id)s::text, p_scope_type => %(scope_type)s::text, p_scope_id =>
            %(scope_id)s::text, p_dimensions => %(dimensions)b::text[], p_hard_limits =>
            %(hard_limits)b::bigint[], p_soft_limits => %(soft_limits)b::bigint[], p_reset_interval_ms
            => %(reset_interval_ms)s::bigint, p_enforcement_mode => %(enforcement_mode)s::text,
            p_on_hard_limit => %(on_hard_limit)s::text, p_on_soft_limit => %(on_soft_limit)s::text)"""
    return Call(
        "ff_create_budget",
        sql,
        {
            "budget_id": budget_id,
            "scope_type": scope_type,
            "scope_id": scope_id,
            "dimensions": list_param("dimensions", dimensions),
            "hard_limits": list_param("hard_limits", hard_limits),
            "soft_limits": list_param("soft_limits", soft_limits),
            "reset_interval_ms": reset_interval_ms,
            "enforcement_mode": enforcement_mode,
            "on_hard_limit": on_hard_limit,
            "on_soft_limit": on_soft_limit,
        },
        rows.BudgetCreation,
        True,
    )


def create_execution(
    execution_kind: str,
    *,
    payload: bytes | None = None,
    lane_id: str = "default",
    namespace: str = "default",
    execution_id: str | None = None,
    payload_encoding: str | None = None,
    priority: int = 0,
    policy: JsonObject | None = None,
    tags: JsonObject = EMPTY_OBJECT,
    delay_until_ms: int | None = None,
    execution_deadline_at_ms: int | None = None,
    idempotency_key: str | None = None,
    dedup_ttl_ms: int | None = None,
    creator_identity: str | None = None,
) -> Call[rows.ExecutionOutcome]:
    sql = """
        select * from flowfabric.ff_create_execution(
            p_execution_kind => %(execution_kind)s::text, p_payload => %(payload)s::bytea, p_lane_id
            => %(lane_id)s::text, p_namespace => %(namespace)s::text, p_execution_id =>
            %(execution_id)s::text, p_payload_encoding => %(payload_encoding)s::text, p_priority =>
            %(priority)s::integer, p_policy => %(policy)s::jsonb, p_tags => %(tags)s::jsonb,
            p_delay_until_ms => %(delay_until_ms)s::bigint, p_execution_deadline_at_ms =>
            %(execution_deadline_at_ms)s::bigint, p_idempotency_key => %(idempotency_key)s::text,
            p_dedup_ttl_ms => %(dedup_ttl_ms)s::bigint, p_creator_identity =>
            %(creator_identity)s::text)"""
    return Call(
        "ff_create_execution",
        sql,
        {
            "execution_kind": execution_kind,
            "payload": payload,
            "lane_id": lane_id,
            "namespace": namespace,
            "execution_id": execution_id,
            "payload_encoding": payload_encoding,
            "priority": priority,
            "policy": json_param(policy),
            "tags": json_param(tags),
            "delay_until_ms": delay_until_ms,
            "execution_deadline_at_ms": execution_deadline_at_ms,
            "idempotency_key": idempotency_key,
            "dedup_ttl_ms": dedup_ttl_ms,
            "creator_identity": creator_identity,
        },
        rows.ExecutionOutcome,
        execution_id is not None or idempotency_key is not None,
    )


def create_executions(
    execution_kinds: Sequence[str | None],
    *,
    payloads: Sequence[bytes | None] | None = None,
    lane_ids: Sequence[str | None] | None = None,
    namespace: str = "default",
    execution_ids: Sequence[str | None] | None = None,
    payload_encodings: Sequence[str | None] | None = None,
    priorities: Sequence[int | None] | None = None,
    policies: Sequence[JsonObject | None] | None = None,
    tags: Sequence[JsonObject | None] | None = None,
    delay_until_ms: Sequence[int | None] | None = None,
    execution_deadlines_at_ms: Sequence[int | None] | None = None,
    idempotency_keys: Sequence[str | None] | None = None,
    dedup_ttl_ms: int | None = None,
    creator_identity: str | None = None,
) -> Call[rows.ExecutionItem]:
    sql = """
        select * from flowfabric.ff_create_executions(
            p_execution_kinds => %(execution_kinds)b::text[], p_payloads => %(payloads)b::bytea[],
            p_lane_ids => %(lane_ids)b::text[], p_namespace => %(namespace)s::text, p_execution_ids =>
            %(execution_ids)b::text[], p_payload_encodings => %(payload_encodings)b::text[],
            p_priorities => %(priorities)b::integer[], p_policies => %(policies)b::jsonb[], p_tags =>
            %(tags)b::jsonb[], p_delay_until_ms => %(delay_until_ms)b::bigint[],
            p_execution_deadlines_at_ms => %(execution_deadlines_at_ms)b::bigint[], p_idempotency_keys
            => %(idempotency_keys)b::text[], p_dedup_ttl_ms => %(dedup_ttl_ms)s::bigint,
            p_creator_identity => %(creator_identity)s::text)"""
    return Call(
        "ff_create_executions",
        sql,
        {
            "execution_kinds": list_param("execution_kinds", execution_kinds),
            "payloads": None if payloads is None else list_param("payloads", payloads),
            "lane_ids": None if lane_ids is None else list_param("lane_ids", lane_ids),
            "namespace": namespace,
            "execution_ids": None if execution_ids is None else list_param("execution_ids", execution_ids),
            "payload_encodings": None
            if payload_encodings is None
            else list_param("payload_encodings", payload_encodings),
            "priorities": None if priorities is None else list_param("priorities", priorities),
            "policies": None
            if policies is None
            else [json_param(item) for item in list_param("policies", policies)],
            "tags": None if tags is None else [json_param(item) for item in list_param("tags", tags)],
            "delay_until_ms": None
            if delay_until_ms is None
            else list_param("delay_until_ms", delay_until_ms),
            "execution_deadlines_at_ms": None
            if execution_deadlines_at_ms is None
            else list_param("execution_deadlines_at_ms", execution_deadlines_at_ms),
            "idempotency_keys": None
            if idempotency_keys is None
            else list_param("idempotency_keys", idempotency_keys),
            "dedup_ttl_ms": dedup_ttl_ms,
            "creator_identity": creator_identity,
        },
        rows.ExecutionItem,
        False,
    )


def create_flow(flow_id: UUID, flow_kind: str, *, namespace: str = "default") -> Call[rows.FlowCreation]:
    sql = """
        select * from flowfabric.ff_create_flow(
            p_flow_id => %(flow_id)s::uuid, p_flow_kind => %(flow_kind)s::text, p_namespace =>
            %(namespace)s::text)"""
    return Call(
        "ff_create_flow",
        sql,
        {"flow_id": flow_id, "flow_kind": flow_kind, "namespace": namespace},
        rows.FlowCreation,
        True,
    )


def create_pending_waitpoint(
    execution_id: str,
    lease_id: UUID,
    lease_epoch: int,
    attempt_id: UUID,
    waitpoint_key: str,
    expires_in_ms: int,
    *,
    waitpoint_id: UUID | None = None,
    attempt_index: int | None = None,
) -> Call[rows.MintedWaitpoint]:
    sql = """
        select * from flowfabric.ff_create_pending_waitpoint(
            p_execution_id => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch
            => %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_waitpoint_key =>
            %(waitpoint_key)s::text, p_expires_in_ms => %(expires_in_ms)s::bigint, p_waitpoint_id =>
            %(waitpoint_id)s::uuid, p_attempt_index => %(attempt_index)s::integer)"""
    return Call(
        "ff_create_pending_waitpoint",
        sql,
        {
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "waitpoint_key": waitpoint_key,
            "expires_in_ms": expires_in_ms,
            "waitpoint_id": waitpoint_id,
            "attempt_index": attempt_index,
        },
        rows.MintedWaitpoint,
        False,
    )


def create_quota_policy(
    quota_policy_id: str,
    window_seconds: int,
    max_requests_per_window: int,
    max_concurrent: int,
    *,
    jitter_ms: int = 0,
) -> Call[rows.QuotaCreation]:
    sql = """
        select * from flowfabric.ff_create_quota_policy(
            p_quota_policy_id => %(quota_policy_id)s::text, p_window_seconds =>
            %(window_seconds)s::bigint, p_max_requests_per_window =>
            %(max_requests_per_window)s::bigint, p_max_concurrent => %(max_concurrent)s::bigint,
            p_jitter_ms => %(jitter_ms)s::bigint)"""
    return Call(
        "ff_create_quota_policy",
        sql,
        {
            "quota_policy_id": quota_policy_id,
            "window_seconds": window_seconds,
            "max_requests_per_window": max_requests_per_window,
            "max_concurrent": max_concurrent,
            "jitter_ms": jitter_ms,
        },
        rows.QuotaCreation,
        True,
    )


def delay_execution(
    execution_id: str,
    delay_until_ms: int,
    *,
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    source: str | None = None,
) -> Call[rows.Delay]:
    sql = """
        select * from flowfabric.ff_delay_execution(
            p_execution_id => %(execution_id)s::text, p_delay_until_ms => %(delay_until_ms)s::bigint,
            p_lease_id => %(lease_id)s::uuid, p_lease_epoch => %(lease_epoch)s::bigint, p_attempt_id
            => %(attempt_id)s::uuid, p_source => %(source)s::text)"""
    return Call(
        "ff_delay_execution",
        sql,
        {
            "execution_id": execution_id,
            "delay_until_ms": delay_until_ms,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "source": source,
        },
        rows.Delay,
        False,
    )


def delete_event_cursor(consumer: str, stream: str, *, reason: str | None = None) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_delete_event_cursor(
            p_consumer => %(consumer)s::text, p_stream => %(stream)s::text, p_reason =>
            %(reason)s::text)"""
    return Call(
        "ff_delete_event_cursor",
        sql,
        {"consumer": consumer, "stream": stream, "reason": reason},
        rows.Outcome,
        True,
    )


def deliver_approval_signal(
    execution_id: str,
    lane_id: str,
    waitpoint_id: UUID,
    signal_name: str,
    idempotency_suffix: str,
    *,
    dedup_ttl_ms: int = 86_400_000,
    source_identity: str = "",
) -> Call[rows.SignalDelivery]:
    sql = """
        select * from flowfabric.ff_deliver_approval_signal(
            p_execution_id => %(execution_id)s::text, p_lane_id => %(lane_id)s::text, p_waitpoint_id
            => %(waitpoint_id)s::uuid, p_signal_name => %(signal_name)s::text, p_idempotency_suffix =>
            %(idempotency_suffix)s::text, p_dedup_ttl_ms => %(dedup_ttl_ms)s::bigint,
            p_source_identity => %(source_identity)s::text)"""
    return Call(
        "ff_deliver_approval_signal",
        sql,
        {
            "execution_id": execution_id,
            "lane_id": lane_id,
            "waitpoint_id": waitpoint_id,
            "signal_name": signal_name,
            "idempotency_suffix": idempotency_suffix,
            "dedup_ttl_ms": dedup_ttl_ms,
            "source_identity": source_identity,
        },
        rows.SignalDelivery,
        True,
    )


def deliver_signal(
    execution_id: str,
    waitpoint_id: UUID,
    waitpoint_token: str,
    signal_name: str,
    *,
    signal_id: UUID | None = None,
    signal_category: str = "external",
    source_type: str = "external",
    source_identity: str = "",
    payload: bytes | None = None,
    payload_encoding: str = "json",
    idempotency_key: str | None = None,
    dedup_ttl_ms: int = 86_400_000,
    correlation_id: str | None = None,
    target_scope: str = "waitpoint",
    created_at_ms: int | None = None,
) -> Call[rows.SignalDelivery]:
    sql = """
        select * from flowfabric.ff_deliver_signal(
            p_execution_id => %(execution_id)s::text, p_waitpoint_id => %(waitpoint_id)s::uuid,
            p_waitpoint_token => %(waitpoint_token)s::text, p_signal_name => %(signal_name)s::text,
            p_signal_id => %(signal_id)s::uuid, p_signal_category => %(signal_category)s::text,
            p_source_type => %(source_type)s::text, p_source_identity => %(source_identity)s::text,
            p_payload => %(payload)s::bytea, p_payload_encoding => %(payload_encoding)s::text,
            p_idempotency_key => %(idempotency_key)s::text, p_dedup_ttl_ms =>
            %(dedup_ttl_ms)s::bigint, p_correlation_id => %(correlation_id)s::text, p_target_scope =>
            %(target_scope)s::text, p_created_at_ms => %(created_at_ms)s::bigint)"""
    return Call(
        "ff_deliver_signal",
        sql,
        {
            "execution_id": execution_id,
            "waitpoint_id": waitpoint_id,
            "waitpoint_token": waitpoint_token,
            "signal_name": signal_name,
            "signal_id": signal_id,
            "signal_category": signal_category,
            "source_type": source_type,
            "source_identity": source_identity,
            "payload": payload,
            "payload_encoding": payload_encoding,
            "idempotency_key": idempotency_key,
            "dedup_ttl_ms": dedup_ttl_ms,
            "correlation_id": correlation_id,
            "target_scope": target_scope,
            "created_at_ms": created_at_ms,
        },
        rows.SignalDelivery,
        signal_id is not None or idempotency_key is not None,
    )


def deregister_worker(
    worker_id: str, worker_instance_id: str, *, namespace: str = "default"
) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_deregister_worker(
            p_worker_id => %(worker_id)s::text, p_worker_instance_id => %(worker_instance_id)s::text,
            p_namespace => %(namespace)s::text)"""
    return Call(
        "ff_deregister_worker",
        sql,
        {"worker_id": worker_id, "worker_instance_id": worker_instance_id, "namespace": namespace},
        rows.Outcome,
        True,
    )


def describe_edge(flow_id: UUID, edge_id: UUID) -> Call[rows.EdgeSnapshot]:
    sql = """
        select * from flowfabric.ff_describe_edge(
            p_flow_id => %(flow_id)s::uuid, p_edge_id => %(edge_id)s::uuid)"""
    return Call("ff_describe_edge", sql, {"flow_id": flow_id, "edge_id": edge_id}, rows.EdgeSnapshot, True)


def describe_execution(execution_id: str) -> Call[rows.ExecutionSnapshot]:
    sql = """
        select * from flowfabric.ff_describe_execution(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_describe_execution", sql, {"execution_id": execution_id}, rows.ExecutionSnapshot, True)


def describe_flow(flow_id: UUID) -> Call[rows.FlowSnapshot]:
    sql = """
        select * from flowfabric.ff_describe_flow(p_flow_id => %(flow_id)s::uuid)"""
    return Call("ff_describe_flow", sql, {"flow_id": flow_id}, rows.FlowSnapshot, True)


def dispatch_dependencies(*, limit: int = 1_000) -> Call[rows.DependencyDispatch]:
    sql = """
        select * from flowfabric.ff_dispatch_dependencies(p_limit => %(limit)s::integer)"""
    return Call("ff_dispatch_dependencies", sql, {"limit": limit}, rows.DependencyDispatch, True)


def dispatch_sibling_cancels(*, limit: int = 256) -> Call[rows.SiblingDispatch]:
    sql = """
        select * from flowfabric.ff_dispatch_sibling_cancels(p_limit => %(limit)s::integer)"""
    return Call("ff_dispatch_sibling_cancels", sql, {"limit": limit}, rows.SiblingDispatch, True)


def doctor(*, include_ok: bool = False) -> Call[rows.Finding]:
    sql = """
        select * from flowfabric.ff_doctor(p_include_ok => %(include_ok)s::boolean)"""
    return Call("ff_doctor", sql, {"include_ok": include_ok}, rows.Finding, True)


def drain_cancel_backlog(*, limit: int = 500, flow_id: UUID | None = None) -> Call[rows.BacklogDrain]:
    sql = """
        select * from flowfabric.ff_drain_cancel_backlog(
            p_limit => %(limit)s::integer, p_flow_id => %(flow_id)s::uuid)"""
    return Call("ff_drain_cancel_backlog", sql, {"limit": limit, "flow_id": flow_id}, rows.BacklogDrain, True)


def drain_sibling_cancel_group(flow_id: UUID, downstream_execution_id: str) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_drain_sibling_cancel_group(
            p_flow_id => %(flow_id)s::uuid, p_downstream_execution_id =>
            %(downstream_execution_id)s::text)"""
    return Call(
        "ff_drain_sibling_cancel_group",
        sql,
        {"flow_id": flow_id, "downstream_execution_id": downstream_execution_id},
        rows.Outcome,
        False,
    )


def drain_worker(
    worker_instance_id: str, *, draining: bool = True, reason: str | None = None, namespace: str = "default"
) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_drain_worker(
            p_worker_instance_id => %(worker_instance_id)s::text, p_draining => %(draining)s::boolean,
            p_reason => %(reason)s::text, p_namespace => %(namespace)s::text)"""
    return Call(
        "ff_drain_worker",
        sql,
        {
            "worker_instance_id": worker_instance_id,
            "draining": draining,
            "reason": reason,
            "namespace": namespace,
        },
        rows.Outcome,
        True,
    )


def due_scanners() -> Call[str]:
    sql = """
        select flowfabric.ff_due_scanners()"""
    return Call("ff_due_scanners", sql, {}, None, True)


def evaluate_flow_eligibility(execution_id: str) -> Call[rows.FlowEligibility]:
    sql = """
        select * from flowfabric.ff_evaluate_flow_eligibility(p_execution_id => %(execution_id)s::text)"""
    return Call(
        "ff_evaluate_flow_eligibility", sql, {"execution_id": execution_id}, rows.FlowEligibility, True
    )


def event_lag(*, stream: str | None = None) -> Call[rows.EventStreamLag]:
    sql = """
        select * from flowfabric.ff_event_lag(p_stream => %(stream)s::text)"""
    return Call("ff_event_lag", sql, {"stream": stream}, rows.EventStreamLag, True)


def event_position(stream: str, *, where: str = "tail") -> Call[str]:
    sql = """
        select flowfabric.ff_event_position(p_stream => %(stream)s::text, p_where => %(where)s::text)"""
    return Call("ff_event_position", sql, {"stream": stream, "where": where}, None, True)


def expire_execution(
    execution_id: str, *, expire_reason: str = "attempt_timeout", require_due: bool = False
) -> Call[rows.Expiry]:
    sql = """
        select * from flowfabric.ff_expire_execution(
            p_execution_id => %(execution_id)s::text, p_expire_reason => %(expire_reason)s::text,
            p_require_due => %(require_due)s::boolean)"""
    return Call(
        "ff_expire_execution",
        sql,
        {"execution_id": execution_id, "expire_reason": expire_reason, "require_due": require_due},
        rows.Expiry,
        True,
    )


def expire_suspension(execution_id: str) -> Call[rows.StateOutcome]:
    sql = """
        select * from flowfabric.ff_expire_suspension(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_expire_suspension", sql, {"execution_id": execution_id}, rows.StateOutcome, True)


def fail_execution(
    execution_id: str,
    *,
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    failure_reason: str = "",
    failure_category: str | None = None,
    retry_policy: JsonObject | None = None,
    source: str | None = None,
) -> Call[rows.Failure]:
    sql = """
        select * from flowfabric.ff_fail_execution(
            p_execution_id => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch
            => %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_failure_reason =>
            %(failure_reason)s::text, p_failure_category => %(failure_category)s::text, p_retry_policy
            => %(retry_policy)s::jsonb, p_source => %(source)s::text)"""
    return Call(
        "ff_fail_execution",
        sql,
        {
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "failure_reason": failure_reason,
            "failure_category": failure_category,
            "retry_policy": json_param(retry_policy),
            "source": source,
        },
        rows.Failure,
        True,
    )


def fail_executions(
    execution_ids: Sequence[str | None],
    lease_ids: Sequence[UUID | None],
    lease_epochs: Sequence[int | None],
    attempt_ids: Sequence[UUID | None],
    *,
    failure_reasons: Sequence[str | None] | None = None,
    failure_categories: Sequence[str | None] | None = None,
    retry_policies: Sequence[JsonObject | None] | None = None,
) -> Call[rows.FailureItem]:
    sql = """
        select * from flowfabric.ff_fail_executions(
            p_execution_ids => %(execution_ids)b::text[], p_lease_ids => %(lease_ids)b::uuid[],
            p_lease_epochs => %(lease_epochs)b::bigint[], p_attempt_ids => %(attempt_ids)b::uuid[],
            p_failure_reasons => %(failure_reasons)b::text[], p_failure_categories =>
            %(failure_categories)b::text[], p_retry_policies => %(retry_policies)b::jsonb[])"""
    return Call(
        "ff_fail_executions",
        sql,
        {
            "execution_ids": list_param("execution_ids", execution_ids),
            "lease_ids": list_param("lease_ids", lease_ids),
            "lease_epochs": list_param("lease_epochs", lease_epochs),
            "attempt_ids": list_param("attempt_ids", attempt_ids),
            "failure_reasons": None
            if failure_reasons is None
            else list_param("failure_reasons", failure_reasons),
            "failure_categories": None
            if failure_categories is None
            else list_param("failure_categories", failure_categories),
            "retry_policies": None
            if retry_policies is None
            else [json_param(item) for item in list_param("retry_policies", retry_policies)],
        },
        rows.FailureItem,
        False,
    )


def find_execution(execution_uuid: UUID) -> Call[rows.ExecutionListing]:
    sql = """
        select * from flowfabric.ff_find_execution(p_execution_uuid => %(execution_uuid)s::uuid)"""
    return Call("ff_find_execution", sql, {"execution_uuid": execution_uuid}, rows.ExecutionListing, True)


def flow_partition(flow_id: UUID) -> Call[int]:
    sql = """
        select flowfabric.ff_flow_partition(p_flow_id => %(flow_id)s::uuid)"""
    return Call("ff_flow_partition", sql, {"flow_id": flow_id}, None, True)


def format_execution_id(partition_key: int, execution_id: UUID) -> Call[str]:
    sql = """
        select flowfabric.ff_format_execution_id(
            p_partition_key => %(partition_key)s::smallint, p_execution_id => %(execution_id)s::uuid)"""
    return Call(
        "ff_format_execution_id",
        sql,
        {"partition_key": partition_key, "execution_id": execution_id},
        None,
        True,
    )


def get_budget_status(budget_id: str) -> Call[rows.BudgetStatus]:
    sql = """
        select * from flowfabric.ff_get_budget_status(p_budget_id => %(budget_id)s::text)"""
    return Call("ff_get_budget_status", sql, {"budget_id": budget_id}, rows.BudgetStatus, True)


def get_budget_usage(budget_id: str) -> Call[rows.BudgetDimension]:
    sql = """
        select * from flowfabric.ff_get_budget_usage(p_budget_id => %(budget_id)s::text)"""
    return Call("ff_get_budget_usage", sql, {"budget_id": budget_id}, rows.BudgetDimension, True)


def get_execution_namespace(execution_id: str) -> Call[str | None]:
    sql = """
        select flowfabric.ff_get_execution_namespace(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_get_execution_namespace", sql, {"execution_id": execution_id}, None, True)


def get_execution_result(execution_id: str) -> Call[rows.ExecutionResult]:
    sql = """
        select * from flowfabric.ff_get_execution_result(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_get_execution_result", sql, {"execution_id": execution_id}, rows.ExecutionResult, True)


def get_execution_tag(execution_id: str, key: str) -> Call[str | None]:
    sql = """
        select flowfabric.ff_get_execution_tag(
            p_execution_id => %(execution_id)s::text, p_key => %(key)s::text)"""
    return Call("ff_get_execution_tag", sql, {"execution_id": execution_id, "key": key}, None, True)


def get_flow_tag(flow_id: UUID, key: str) -> Call[str | None]:
    sql = """
        select flowfabric.ff_get_flow_tag(p_flow_id => %(flow_id)s::uuid, p_key => %(key)s::text)"""
    return Call("ff_get_flow_tag", sql, {"flow_id": flow_id, "key": key}, None, True)


def get_quota_policy(quota_policy_id: str) -> Call[rows.QuotaStatus]:
    sql = """
        select * from flowfabric.ff_get_quota_policy(p_quota_policy_id => %(quota_policy_id)s::text)"""
    return Call("ff_get_quota_policy", sql, {"quota_policy_id": quota_policy_id}, rows.QuotaStatus, True)


def grant_next(
    lanes: Sequence[str | None],
    worker_id: str,
    worker_instance_id: str,
    *,
    capabilities: Sequence[str] = (),
    max: int = 1,
    grant_ttl_ms: int = 5_000,
    namespace: str | None = None,
    lane_order: str = "fair",
    include_resumed: bool = True,
    promote_due: bool = True,
    partition_key: int | None = None,
) -> Call[rows.GrantedExecution]:
    sql = """
        select * from flowfabric.ff_grant_next(
            p_lanes => %(lanes)b::text[], p_worker_id => %(worker_id)s::text, p_worker_instance_id =>
            %(worker_instance_id)s::text, p_capabilities => %(capabilities)b::text[], p_max =>
            %(max)s::integer, p_grant_ttl_ms => %(grant_ttl_ms)s::bigint, p_namespace =>
            %(namespace)s::text, p_lane_order => %(lane_order)s::text, p_include_resumed =>
            %(include_resumed)s::boolean, p_promote_due => %(promote_due)s::boolean, p_partition_key
            => %(partition_key)s::smallint)"""
    return Call(
        "ff_grant_next",
        sql,
        {
            "lanes": list_param("lanes", lanes),
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "capabilities": list_param("capabilities", capabilities),
            "max": max,
            "grant_ttl_ms": grant_ttl_ms,
            "namespace": namespace,
            "lane_order": lane_order,
            "include_resumed": include_resumed,
            "promote_due": promote_due,
            "partition_key": partition_key,
        },
        rows.GrantedExecution,
        False,
    )


def heartbeat_worker(worker_instance_id: str, *, namespace: str = "default") -> Call[rows.WorkerHeartbeat]:
    sql = """
        select * from flowfabric.ff_heartbeat_worker(
            p_worker_instance_id => %(worker_instance_id)s::text, p_namespace => %(namespace)s::text)"""
    return Call(
        "ff_heartbeat_worker",
        sql,
        {"worker_instance_id": worker_instance_id, "namespace": namespace},
        rows.WorkerHeartbeat,
        True,
    )


def initialize(
    *,
    num_flow_partitions: int = 256,
    lanes: Sequence[str] = ("default",),
    hmac_kid: str | None = None,
    hmac_secret_hex: str | None = None,
) -> Call[rows.InitializeStep]:
    sql = """
        select * from flowfabric.ff_initialize(
            p_num_flow_partitions => %(num_flow_partitions)s::integer, p_lanes => %(lanes)b::text[],
            p_hmac_kid => %(hmac_kid)s::text, p_hmac_secret_hex => %(hmac_secret_hex)s::text)"""
    return Call(
        "ff_initialize",
        sql,
        {
            "num_flow_partitions": num_flow_partitions,
            "lanes": list_param("lanes", lanes),
            "hmac_kid": hmac_kid,
            "hmac_secret_hex": hmac_secret_hex,
        },
        rows.InitializeStep,
        True,
    )


def issue_claim_grant(
    execution_id: str,
    worker_id: str,
    worker_instance_id: str,
    lane_id: str,
    *,
    worker_capabilities: Sequence[str] = (),
    grant_ttl_ms: int = 5_000,
    capability_hash: str | None = None,
    route_snapshot: JsonObject | None = None,
    admission_summary: str | None = None,
) -> Call[rows.Grant]:
    sql = """
        select * from flowfabric.ff_issue_claim_grant(
            p_execution_id => %(execution_id)s::text, p_worker_id => %(worker_id)s::text,
            p_worker_instance_id => %(worker_instance_id)s::text, p_lane_id => %(lane_id)s::text,
            p_worker_capabilities => %(worker_capabilities)b::text[], p_grant_ttl_ms =>
            %(grant_ttl_ms)s::bigint, p_capability_hash => %(capability_hash)s::text, p_route_snapshot
            => %(route_snapshot)s::jsonb, p_admission_summary => %(admission_summary)s::text)"""
    return Call(
        "ff_issue_claim_grant",
        sql,
        {
            "execution_id": execution_id,
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "lane_id": lane_id,
            "worker_capabilities": list_param("worker_capabilities", worker_capabilities),
            "grant_ttl_ms": grant_ttl_ms,
            "capability_hash": capability_hash,
            "route_snapshot": json_param(route_snapshot),
            "admission_summary": admission_summary,
        },
        rows.Grant,
        False,
    )


def issue_grant_and_claim(
    execution_id: str,
    lease_ttl_ms: int,
    *,
    lane_id: str | None = None,
    worker_id: str = "operator",
    worker_instance_id: str = "operator",
    lease_id: UUID | None = None,
    attempt_id: UUID | None = None,
    attempt_policy: JsonObject | None = None,
    attempt_timeout_ms: int | None = None,
    execution_deadline_at_ms: int | None = None,
) -> Call[rows.Claim]:
    sql = """
        select * from flowfabric.ff_issue_grant_and_claim(
            p_execution_id => %(execution_id)s::text, p_lease_ttl_ms => %(lease_ttl_ms)s::bigint,
            p_lane_id => %(lane_id)s::text, p_worker_id => %(worker_id)s::text, p_worker_instance_id
            => %(worker_instance_id)s::text, p_lease_id => %(lease_id)s::uuid, p_attempt_id =>
            %(attempt_id)s::uuid, p_attempt_policy => %(attempt_policy)s::jsonb, p_attempt_timeout_ms
            => %(attempt_timeout_ms)s::bigint, p_execution_deadline_at_ms =>
            %(execution_deadline_at_ms)s::bigint)"""
    return Call(
        "ff_issue_grant_and_claim",
        sql,
        {
            "execution_id": execution_id,
            "lease_ttl_ms": lease_ttl_ms,
            "lane_id": lane_id,
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "lease_id": lease_id,
            "attempt_id": attempt_id,
            "attempt_policy": json_param(attempt_policy),
            "attempt_timeout_ms": attempt_timeout_ms,
            "execution_deadline_at_ms": execution_deadline_at_ms,
        },
        rows.Claim,
        False,
    )


def issue_reclaim_grant(
    execution_id: str,
    worker_id: str,
    worker_instance_id: str,
    *,
    lane_id: str | None = None,
    worker_capabilities: Sequence[str] = (),
    grant_ttl_ms: int = 5_000,
    capability_hash: str | None = None,
    route_snapshot: JsonObject | None = None,
    admission_summary: str | None = None,
) -> Call[rows.Grant]:
    sql = """
        select * from flowfabric.ff_issue_reclaim_grant(
            p_execution_id => %(execution_id)s::text, p_worker_id => %(worker_id)s::text,
            p_worker_instance_id => %(worker_instance_id)s::text, p_lane_id => %(lane_id)s::text,
            p_worker_capabilities => %(worker_capabilities)b::text[], p_grant_ttl_ms =>
            %(grant_ttl_ms)s::bigint, p_capability_hash => %(capability_hash)s::text, p_route_snapshot
            => %(route_snapshot)s::jsonb, p_admission_summary => %(admission_summary)s::text)"""
    return Call(
        "ff_issue_reclaim_grant",
        sql,
        {
            "execution_id": execution_id,
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "lane_id": lane_id,
            "worker_capabilities": list_param("worker_capabilities", worker_capabilities),
            "grant_ttl_ms": grant_ttl_ms,
            "capability_hash": capability_hash,
            "route_snapshot": json_param(route_snapshot),
            "admission_summary": admission_summary,
        },
        rows.Grant,
        False,
    )


def list_attempts(
    execution_id: str, *, after_index: int | None = None, limit: int = 100
) -> Call[rows.AttemptListing]:
    sql = """
        select * from flowfabric.ff_list_attempts(
            p_execution_id => %(execution_id)s::text, p_after_index => %(after_index)s::integer,
            p_limit => %(limit)s::integer)"""
    return Call(
        "ff_list_attempts",
        sql,
        {"execution_id": execution_id, "after_index": after_index, "limit": limit},
        rows.AttemptListing,
        True,
    )


def list_edges(execution_id: str, direction: str) -> Call[rows.EdgeSnapshot]:
    sql = """
        select * from flowfabric.ff_list_edges(
            p_execution_id => %(execution_id)s::text, p_direction => %(direction)s::text)"""
    return Call(
        "ff_list_edges", sql, {"execution_id": execution_id, "direction": direction}, rows.EdgeSnapshot, True
    )


def list_ended_suspensions(
    execution_id: str, *, waitpoint_key: str | None = None
) -> Call[rows.EndedSuspension]:
    sql = """
        select * from flowfabric.ff_list_ended_suspensions(
            p_execution_id => %(execution_id)s::text, p_waitpoint_key => %(waitpoint_key)s::text)"""
    return Call(
        "ff_list_ended_suspensions",
        sql,
        {"execution_id": execution_id, "waitpoint_key": waitpoint_key},
        rows.EndedSuspension,
        True,
    )


def list_error_codes() -> Call[rows.ErrorCodeRow]:
    sql = """
        select * from flowfabric.ff_list_error_codes()"""
    return Call("ff_list_error_codes", sql, {}, rows.ErrorCodeRow, True)


def list_executions(
    *,
    partition_key: int | None = None,
    after: str | None = None,
    limit: int = 100,
    namespace: str | None = None,
    lane_id: str | None = None,
    public_state: str | None = None,
    lifecycle_phase: str | None = None,
    flow_id: UUID | None = None,
    tag_key: str | None = None,
    tag_value: str | None = None,
) -> Call[rows.ExecutionListing]:
    sql = """
        select * from flowfabric.ff_list_executions(
            p_partition_key => %(partition_key)s::smallint, p_after => %(after)s::text, p_limit =>
            %(limit)s::integer, p_namespace => %(namespace)s::text, p_lane_id => %(lane_id)s::text,
            p_public_state => %(public_state)s::text, p_lifecycle_phase => %(lifecycle_phase)s::text,
            p_flow_id => %(flow_id)s::uuid, p_tag_key => %(tag_key)s::text, p_tag_value =>
            %(tag_value)s::text)"""
    return Call(
        "ff_list_executions",
        sql,
        {
            "partition_key": partition_key,
            "after": after,
            "limit": limit,
            "namespace": namespace,
            "lane_id": lane_id,
            "public_state": public_state,
            "lifecycle_phase": lifecycle_phase,
            "flow_id": flow_id,
            "tag_key": tag_key,
            "tag_value": tag_value,
        },
        rows.ExecutionListing,
        True,
    )


def list_expired_leases(
    *,
    as_of_ms: int | None = None,
    namespace: str | None = None,
    limit: int = 1_000,
    after_expires_at_ms: int | None = None,
    after_partition_key: int | None = None,
    after_execution_id: UUID | None = None,
) -> Call[rows.ExpiredLeaseListing]:
    sql = """
        select * from flowfabric.ff_list_expired_leases(
            p_as_of_ms => %(as_of_ms)s::bigint, p_namespace => %(namespace)s::text, p_limit =>
            %(limit)s::integer, p_after_expires_at_ms => %(after_expires_at_ms)s::bigint,
            p_after_partition_key => %(after_partition_key)s::smallint, p_after_execution_id =>
            %(after_execution_id)s::uuid)"""
    return Call(
        "ff_list_expired_leases",
        sql,
        {
            "as_of_ms": as_of_ms,
            "namespace": namespace,
            "limit": limit,
            "after_expires_at_ms": after_expires_at_ms,
            "after_partition_key": after_partition_key,
            "after_execution_id": after_execution_id,
        },
        rows.ExpiredLeaseListing,
        True,
    )


def list_flow_edge_groups(flow_id: UUID) -> Call[rows.EdgeGroupListing]:
    sql = """
        select * from flowfabric.ff_list_flow_edge_groups(p_flow_id => %(flow_id)s::uuid)"""
    return Call("ff_list_flow_edge_groups", sql, {"flow_id": flow_id}, rows.EdgeGroupListing, True)


def list_flows(
    *, partition_key: int | None = None, cursor: UUID | None = None, limit: int = 100
) -> Call[rows.FlowListing]:
    sql = """
        select * from flowfabric.ff_list_flows(
            p_partition_key => %(partition_key)s::smallint, p_cursor => %(cursor)s::uuid, p_limit =>
            %(limit)s::integer)"""
    return Call(
        "ff_list_flows",
        sql,
        {"partition_key": partition_key, "cursor": cursor, "limit": limit},
        rows.FlowListing,
        True,
    )


def list_lanes(*, after: str | None = None, limit: int = 100) -> Call[rows.LaneListing]:
    sql = """
        select * from flowfabric.ff_list_lanes(
            p_after => %(after)s::text, p_limit => %(limit)s::integer)"""
    return Call("ff_list_lanes", sql, {"after": after, "limit": limit}, rows.LaneListing, True)


def list_lease_history(
    execution_id: str, *, after_event_id: int | None = None, limit: int = 100
) -> Call[rows.LeaseHistoryRow]:
    sql = """
        select * from flowfabric.ff_list_lease_history(
            p_execution_id => %(execution_id)s::text, p_after_event_id => %(after_event_id)s::bigint,
            p_limit => %(limit)s::integer)"""
    return Call(
        "ff_list_lease_history",
        sql,
        {"execution_id": execution_id, "after_event_id": after_event_id, "limit": limit},
        rows.LeaseHistoryRow,
        True,
    )


def list_pending_waitpoints(
    execution_id: str, *, after: UUID | None = None, limit: int = 100
) -> Call[rows.WaitpointListing]:
    sql = """
        select * from flowfabric.ff_list_pending_waitpoints(
            p_execution_id => %(execution_id)s::text, p_after => %(after)s::uuid, p_limit =>
            %(limit)s::integer)"""
    return Call(
        "ff_list_pending_waitpoints",
        sql,
        {"execution_id": execution_id, "after": after, "limit": limit},
        rows.WaitpointListing,
        True,
    )


def list_scanner_failures(*, limit: int = 100) -> Call[rows.ScannerFailureListing]:
    sql = """
        select * from flowfabric.ff_list_scanner_failures(p_limit => %(limit)s::integer)"""
    return Call("ff_list_scanner_failures", sql, {"limit": limit}, rows.ScannerFailureListing, True)


def list_scanners() -> Call[rows.ScannerListing]:
    sql = """
        select * from flowfabric.ff_list_scanners()"""
    return Call("ff_list_scanners", sql, {}, rows.ScannerListing, True)


def list_settings() -> Call[rows.SettingRow]:
    sql = """
        select * from flowfabric.ff_list_settings()"""
    return Call("ff_list_settings", sql, {}, rows.SettingRow, True)


def list_suspended(
    partition_key: int,
    *,
    after_suspended_at_ms: int | None = None,
    after_execution_id: str | None = None,
    limit: int = 100,
) -> Call[rows.SuspensionListing]:
    sql = """
        select * from flowfabric.ff_list_suspended(
            p_partition_key => %(partition_key)s::smallint, p_after_suspended_at_ms =>
            %(after_suspended_at_ms)s::bigint, p_after_execution_id => %(after_execution_id)s::text,
            p_limit => %(limit)s::integer)"""
    return Call(
        "ff_list_suspended",
        sql,
        {
            "partition_key": partition_key,
            "after_suspended_at_ms": after_suspended_at_ms,
            "after_execution_id": after_execution_id,
            "limit": limit,
        },
        rows.SuspensionListing,
        True,
    )


def list_waitpoint_hmac_kids() -> Call[rows.KidListing]:
    sql = """
        select * from flowfabric.ff_list_waitpoint_hmac_kids()"""
    return Call("ff_list_waitpoint_hmac_kids", sql, {}, rows.KidListing, False)


def list_worker_leases(
    worker_instance_id: str, *, after: str | None = None, limit: int = 1_000
) -> Call[rows.WorkerLeaseListing]:
    sql = """
        select * from flowfabric.ff_list_worker_leases(
            p_worker_instance_id => %(worker_instance_id)s::text, p_after => %(after)s::text, p_limit
            => %(limit)s::integer)"""
    return Call(
        "ff_list_worker_leases",
        sql,
        {"worker_instance_id": worker_instance_id, "after": after, "limit": limit},
        rows.WorkerLeaseListing,
        True,
    )


def list_workers(
    *,
    namespace: str | None = None,
    after_namespace: str | None = None,
    after_worker_instance_id: str | None = None,
    limit: int = 1_000,
    include_lapsed: bool = False,
) -> Call[rows.WorkerListing]:
    sql = """
        select * from flowfabric.ff_list_workers(
            p_namespace => %(namespace)s::text, p_after_namespace => %(after_namespace)s::text,
            p_after_worker_instance_id => %(after_worker_instance_id)s::text, p_limit =>
            %(limit)s::integer, p_include_lapsed => %(include_lapsed)s::boolean)"""
    return Call(
        "ff_list_workers",
        sql,
        {
            "namespace": namespace,
            "after_namespace": after_namespace,
            "after_worker_instance_id": after_worker_instance_id,
            "limit": limit,
            "include_lapsed": include_lapsed,
        },
        rows.WorkerListing,
        True,
    )


def lock_tick_loop() -> Call[bool]:
    sql = """
        select flowfabric.ff_lock_tick_loop()"""
    return Call("ff_lock_tick_loop", sql, {}, None, True)


def mark_lease_expired_if_due(execution_id: str) -> Call[rows.ExpiryMark]:
    sql = """
        select * from flowfabric.ff_mark_lease_expired_if_due(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_mark_lease_expired_if_due", sql, {"execution_id": execution_id}, rows.ExpiryMark, True)


def mark_worker_dead(
    worker_instance_id: str, *, reason: str | None = None, namespace: str = "default"
) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_mark_worker_dead(
            p_worker_instance_id => %(worker_instance_id)s::text, p_reason => %(reason)s::text,
            p_namespace => %(namespace)s::text)"""
    return Call(
        "ff_mark_worker_dead",
        sql,
        {"worker_instance_id": worker_instance_id, "reason": reason, "namespace": namespace},
        rows.Outcome,
        True,
    )


def metrics() -> Call[rows.Metric]:
    sql = """
        select * from flowfabric.ff_metrics()"""
    return Call("ff_metrics", sql, {}, rows.Metric, True)


def mint_execution_id(flow_id: UUID, *, uuid: UUID | None = None) -> Call[str]:
    sql = """
        select flowfabric.ff_mint_execution_id(
            p_flow_id => %(flow_id)s::uuid, p_uuid => %(uuid)s::uuid)"""
    return Call("ff_mint_execution_id", sql, {"flow_id": flow_id, "uuid": uuid}, None, True)


def mint_solo_execution_id(lane_id: str, *, uuid: UUID | None = None, spread: bool = False) -> Call[str]:
    sql = """
        select flowfabric.ff_mint_solo_execution_id(
            p_lane_id => %(lane_id)s::text, p_uuid => %(uuid)s::uuid, p_spread => %(spread)s::boolean)"""
    return Call(
        "ff_mint_solo_execution_id", sql, {"lane_id": lane_id, "uuid": uuid, "spread": spread}, None, True
    )


def move_to_waiting_children(
    execution_id: str,
    *,
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    source: str | None = None,
) -> Call[rows.ExecutionOutcome]:
    sql = """
        select * from flowfabric.ff_move_to_waiting_children(
            p_execution_id => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch
            => %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_source =>
            %(source)s::text)"""
    return Call(
        "ff_move_to_waiting_children",
        sql,
        {
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "source": source,
        },
        rows.ExecutionOutcome,
        False,
    )


def now_ms() -> Call[int]:
    sql = """
        select flowfabric.ff_now_ms()"""
    return Call("ff_now_ms", sql, {}, None, True)


def observe_signals(execution_id: str, attempt_index: int) -> Call[rows.ObservedSignal]:
    sql = """
        select * from flowfabric.ff_observe_signals(
            p_execution_id => %(execution_id)s::text, p_attempt_index => %(attempt_index)s::integer)"""
    return Call(
        "ff_observe_signals",
        sql,
        {"execution_id": execution_id, "attempt_index": attempt_index},
        rows.ObservedSignal,
        True,
    )


def parse_execution_id(execution_id: str) -> Call[rows.ExecutionKey]:
    sql = """
        select * from flowfabric.ff_parse_execution_id(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_parse_execution_id", sql, {"execution_id": execution_id}, rows.ExecutionKey, True)


def ping() -> Call[int]:
    sql = """
        select flowfabric.ff_ping()"""
    return Call("ff_ping", sql, {}, None, True)


def project_flow_summaries(*, limit: int = 100) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_project_flow_summaries(p_limit => %(limit)s::integer)"""
    return Call("ff_project_flow_summaries", sql, {"limit": limit}, rows.Scan, True)


def project_flow_summary(flow_id: UUID) -> Call[bool]:
    sql = """
        select flowfabric.ff_project_flow_summary(p_flow_id => %(flow_id)s::uuid)"""
    return Call("ff_project_flow_summary", sql, {"flow_id": flow_id}, None, True)


def promote_blocked_to_eligible(execution_id: str) -> Call[rows.StateOutcome]:
    sql = """
        select * from flowfabric.ff_promote_blocked_to_eligible(
            p_execution_id => %(execution_id)s::text)"""
    return Call(
        "ff_promote_blocked_to_eligible", sql, {"execution_id": execution_id}, rows.StateOutcome, False
    )


def promote_delayed(execution_id: str) -> Call[rows.StateOutcome]:
    sql = """
        select * from flowfabric.ff_promote_delayed(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_promote_delayed", sql, {"execution_id": execution_id}, rows.StateOutcome, True)


def promote_due(*, limit: int = 50, lanes: Sequence[str | None] | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_promote_due(
            p_limit => %(limit)s::integer, p_lanes => %(lanes)b::text[])"""
    return Call(
        "ff_promote_due",
        sql,
        {"limit": limit, "lanes": None if lanes is None else list_param("lanes", lanes)},
        rows.Scan,
        True,
    )


def prune_events(*, limit: int = 5_000) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_prune_events(p_limit => %(limit)s::integer)"""
    return Call("ff_prune_events", sql, {"limit": limit}, rows.Scan, True)


def queue_stats(*, lane_id: str | None = None) -> Call[rows.QueueStat]:
    sql = """
        select * from flowfabric.ff_queue_stats(p_lane_id => %(lane_id)s::text)"""
    return Call("ff_queue_stats", sql, {"lane_id": lane_id}, rows.QueueStat, True)


def read_attempt_stream(
    execution_id: str,
    attempt_index: int,
    *,
    from_: str = "start",
    to: str = "end",
    after: str | None = None,
    count_limit: int = 1_000,
    visibility: str = "all",
) -> Call[rows.StreamEntry]:
    sql = """
        select * from flowfabric.ff_read_attempt_stream(
            p_execution_id => %(execution_id)s::text, p_attempt_index => %(attempt_index)s::integer,
            p_from => %(from)s::text, p_to => %(to)s::text, p_after => %(after)s::text, p_count_limit
            => %(count_limit)s::integer, p_visibility => %(visibility)s::text)"""
    return Call(
        "ff_read_attempt_stream",
        sql,
        {
            "execution_id": execution_id,
            "attempt_index": attempt_index,
            "from": from_,
            "to": to,
            "after": after,
            "count_limit": count_limit,
            "visibility": visibility,
        },
        rows.StreamEntry,
        True,
    )


def read_current_attempt_index(execution_id: str) -> Call[int]:
    sql = """
        select flowfabric.ff_read_current_attempt_index(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_read_current_attempt_index", sql, {"execution_id": execution_id}, None, True)


def read_events(
    stream: str,
    cursor: str,
    *,
    limit: int = 256,
    namespace: str | None = None,
    tag_key: str | None = None,
    tag_value: str | None = None,
    partition_key: int | None = None,
    event_types: Sequence[str | None] | None = None,
    execution_id: str | None = None,
) -> Call[rows.Event]:
    sql = """
        select * from flowfabric.ff_read_events(
            p_stream => %(stream)s::text, p_cursor => %(cursor)s::text, p_limit => %(limit)s::integer,
            p_namespace => %(namespace)s::text, p_tag_key => %(tag_key)s::text, p_tag_value =>
            %(tag_value)s::text, p_partition_key => %(partition_key)s::smallint, p_event_types =>
            %(event_types)b::text[], p_execution_id => %(execution_id)s::text)"""
    return Call(
        "ff_read_events",
        sql,
        {
            "stream": stream,
            "cursor": cursor,
            "limit": limit,
            "namespace": namespace,
            "tag_key": tag_key,
            "tag_value": tag_value,
            "partition_key": partition_key,
            "event_types": None if event_types is None else list_param("event_types", event_types),
            "execution_id": execution_id,
        },
        rows.Event,
        True,
    )


def read_execution_context(execution_id: str) -> Call[rows.ExecutionContext]:
    sql = """
        select * from flowfabric.ff_read_execution_context(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_read_execution_context", sql, {"execution_id": execution_id}, rows.ExecutionContext, True)


def read_execution_info(execution_id: str) -> Call[rows.ExecutionInfo]:
    sql = """
        select * from flowfabric.ff_read_execution_info(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_read_execution_info", sql, {"execution_id": execution_id}, rows.ExecutionInfo, True)


def read_execution_state(execution_id: str) -> Call[str | None]:
    sql = """
        select flowfabric.ff_read_execution_state(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_read_execution_state", sql, {"execution_id": execution_id}, None, True)


def read_flow_summary(flow_id: UUID, *, live: bool = False) -> Call[rows.FlowSummarySnapshot]:
    sql = """
        select * from flowfabric.ff_read_flow_summary(
            p_flow_id => %(flow_id)s::uuid, p_live => %(live)s::boolean)"""
    return Call(
        "ff_read_flow_summary", sql, {"flow_id": flow_id, "live": live}, rows.FlowSummarySnapshot, True
    )


def read_summary(execution_id: str, attempt_index: int) -> Call[rows.SummaryDocument]:
    sql = """
        select * from flowfabric.ff_read_summary(
            p_execution_id => %(execution_id)s::text, p_attempt_index => %(attempt_index)s::integer)"""
    return Call(
        "ff_read_summary",
        sql,
        {"execution_id": execution_id, "attempt_index": attempt_index},
        rows.SummaryDocument,
        True,
    )


def read_total_attempt_count(execution_id: str) -> Call[int]:
    sql = """
        select flowfabric.ff_read_total_attempt_count(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_read_total_attempt_count", sql, {"execution_id": execution_id}, None, True)


def read_waitpoint_token(execution_id: str, waitpoint_id: UUID) -> Call[rows.ReadableToken]:
    sql = """
        select * from flowfabric.ff_read_waitpoint_token(
            p_execution_id => %(execution_id)s::text, p_waitpoint_id => %(waitpoint_id)s::uuid)"""
    return Call(
        "ff_read_waitpoint_token",
        sql,
        {"execution_id": execution_id, "waitpoint_id": waitpoint_id},
        rows.ReadableToken,
        True,
    )


def reclaim_execution(
    execution_id: str,
    worker_id: str,
    worker_instance_id: str,
    *,
    lease_ttl_ms: int = 30_000,
    lane_id: str | None = None,
    lease_id: UUID | None = None,
    attempt_id: UUID | None = None,
    attempt_policy: JsonObject | None = None,
    attempt_timeout_ms: int | None = None,
    grant_key: str | None = None,
    max_reclaim_count: int | None = None,
) -> Call[rows.Reclaim]:
    sql = """
        select * from flowfabric.ff_reclaim_execution(
            p_execution_id => %(execution_id)s::text, p_worker_id => %(worker_id)s::text,
            p_worker_instance_id => %(worker_instance_id)s::text, p_lease_ttl_ms =>
            %(lease_ttl_ms)s::bigint, p_lane_id => %(lane_id)s::text, p_lease_id =>
            %(lease_id)s::uuid, p_attempt_id => %(attempt_id)s::uuid, p_attempt_policy =>
            %(attempt_policy)s::jsonb, p_attempt_timeout_ms => %(attempt_timeout_ms)s::bigint,
            p_grant_key => %(grant_key)s::text, p_max_reclaim_count => %(max_reclaim_count)s::integer)"""
    return Call(
        "ff_reclaim_execution",
        sql,
        {
            "execution_id": execution_id,
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "lease_ttl_ms": lease_ttl_ms,
            "lane_id": lane_id,
            "lease_id": lease_id,
            "attempt_id": attempt_id,
            "attempt_policy": json_param(attempt_policy),
            "attempt_timeout_ms": attempt_timeout_ms,
            "grant_key": grant_key,
            "max_reclaim_count": max_reclaim_count,
        },
        rows.Reclaim,
        False,
    )


def reclaim_next(
    lanes: Sequence[str | None],
    worker_id: str,
    worker_instance_id: str,
    *,
    capabilities: Sequence[str] = (),
    max: int = 1,
    lease_ttl_ms: int = 30_000,
    namespace: str | None = None,
    lane_order: str = "fair",
    with_payload: bool = True,
    partition_key: int | None = None,
    grace_ms: int = 0,
    max_reclaim_count: int | None = None,
) -> Call[rows.ReclaimedExecution]:
    sql = """
        select * from flowfabric.ff_reclaim_next(
            p_lanes => %(lanes)b::text[], p_worker_id => %(worker_id)s::text, p_worker_instance_id =>
            %(worker_instance_id)s::text, p_capabilities => %(capabilities)b::text[], p_max =>
            %(max)s::integer, p_lease_ttl_ms => %(lease_ttl_ms)s::bigint, p_namespace =>
            %(namespace)s::text, p_lane_order => %(lane_order)s::text, p_with_payload =>
            %(with_payload)s::boolean, p_partition_key => %(partition_key)s::smallint, p_grace_ms =>
            %(grace_ms)s::bigint, p_max_reclaim_count => %(max_reclaim_count)s::integer)"""
    return Call(
        "ff_reclaim_next",
        sql,
        {
            "lanes": list_param("lanes", lanes),
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "capabilities": list_param("capabilities", capabilities),
            "max": max,
            "lease_ttl_ms": lease_ttl_ms,
            "namespace": namespace,
            "lane_order": lane_order,
            "with_payload": with_payload,
            "partition_key": partition_key,
            "grace_ms": grace_ms,
            "max_reclaim_count": max_reclaim_count,
        },
        rows.ReclaimedExecution,
        False,
    )


def reconcile_dependencies(*, limit: int = 50) -> Call[rows.DependencyReconciliation]:
    sql = """
        select * from flowfabric.ff_reconcile_dependencies(p_limit => %(limit)s::integer)"""
    return Call("ff_reconcile_dependencies", sql, {"limit": limit}, rows.DependencyReconciliation, True)


def reconcile_quota(*, limit: int = 500) -> Call[rows.QuotaReconciliation]:
    sql = """
        select * from flowfabric.ff_reconcile_quota(p_limit => %(limit)s::integer)"""
    return Call("ff_reconcile_quota", sql, {"limit": limit}, rows.QuotaReconciliation, True)


def reconcile_sibling_cancel_group(
    flow_id: UUID, downstream_execution_id: str
) -> Call[rows.SiblingReconciliation]:
    sql = """
        select * from flowfabric.ff_reconcile_sibling_cancel_group(
            p_flow_id => %(flow_id)s::uuid, p_downstream_execution_id =>
            %(downstream_execution_id)s::text)"""
    return Call(
        "ff_reconcile_sibling_cancel_group",
        sql,
        {"flow_id": flow_id, "downstream_execution_id": downstream_execution_id},
        rows.SiblingReconciliation,
        True,
    )


def reconcile_sibling_cancels(*, limit: int = 50) -> Call[rows.SiblingReconcileScan]:
    sql = """
        select * from flowfabric.ff_reconcile_sibling_cancels(p_limit => %(limit)s::integer)"""
    return Call("ff_reconcile_sibling_cancels", sql, {"limit": limit}, rows.SiblingReconcileScan, True)


def record_signal_auth_failure(execution_id: str) -> Call[None]:
    sql = """
        select flowfabric.ff_record_signal_auth_failure(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_record_signal_auth_failure", sql, {"execution_id": execution_id}, None, True)


def record_spend(
    budget_id: str,
    dimensions: Sequence[str | None],
    deltas: Sequence[int | None],
    execution_id: str,
    *,
    idempotency_key: str | None = None,
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    source: str | None = None,
) -> Call[rows.UsageReport]:
    sql = """
        select * from flowfabric.ff_record_spend(
            p_budget_id => %(budget_id)s::text, p_dimensions => %(dimensions)b::text[], p_deltas =>
            %(deltas)b::bigint[], p_execution_id => %(execution_id)s::text, p_idempotency_key =>
            %(idempotency_key)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch =>
            %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_source =>
            %(source)s::text)"""
    return Call(
        "ff_record_spend",
        sql,
        {
            "budget_id": budget_id,
            "dimensions": list_param("dimensions", dimensions),
            "deltas": list_param("deltas", deltas),
            "execution_id": execution_id,
            "idempotency_key": idempotency_key,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "source": source,
        },
        rows.UsageReport,
        idempotency_key is not None,
    )


def register_lane(lane_id: str, *, registered_by: str = "operator") -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_register_lane(
            p_lane_id => %(lane_id)s::text, p_registered_by => %(registered_by)s::text)"""
    return Call(
        "ff_register_lane", sql, {"lane_id": lane_id, "registered_by": registered_by}, rows.Outcome, True
    )


def register_worker(
    worker_id: str,
    worker_instance_id: str,
    *,
    lanes: Sequence[str] = ("default",),
    capabilities: Sequence[str] = (),
    namespace: str = "default",
    liveness_ttl_ms: int = 60_000,
) -> Call[rows.WorkerRegistration]:
    sql = """
        select * from flowfabric.ff_register_worker(
            p_worker_id => %(worker_id)s::text, p_worker_instance_id => %(worker_instance_id)s::text,
            p_lanes => %(lanes)b::text[], p_capabilities => %(capabilities)b::text[], p_namespace =>
            %(namespace)s::text, p_liveness_ttl_ms => %(liveness_ttl_ms)s::bigint)"""
    return Call(
        "ff_register_worker",
        sql,
        {
            "worker_id": worker_id,
            "worker_instance_id": worker_instance_id,
            "lanes": list_param("lanes", lanes),
            "capabilities": list_param("capabilities", capabilities),
            "namespace": namespace,
            "liveness_ttl_ms": liveness_ttl_ms,
        },
        rows.WorkerRegistration,
        True,
    )


def release_admission(quota_policy_id: str, execution_id: str) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_release_admission(
            p_quota_policy_id => %(quota_policy_id)s::text, p_execution_id => %(execution_id)s::text)"""
    return Call(
        "ff_release_admission",
        sql,
        {"quota_policy_id": quota_policy_id, "execution_id": execution_id},
        rows.Outcome,
        True,
    )


def release_budget(budget_id: str, execution_id: str) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_release_budget(
            p_budget_id => %(budget_id)s::text, p_execution_id => %(execution_id)s::text)"""
    return Call(
        "ff_release_budget", sql, {"budget_id": budget_id, "execution_id": execution_id}, rows.Outcome, False
    )


def release_reservation(
    budget_id: str,
    reservation_key: str,
    execution_id: str,
    *,
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    source: str | None = None,
) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_release_reservation(
            p_budget_id => %(budget_id)s::text, p_reservation_key => %(reservation_key)s::text,
            p_execution_id => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch
            => %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_source =>
            %(source)s::text)"""
    return Call(
        "ff_release_reservation",
        sql,
        {
            "budget_id": budget_id,
            "reservation_key": reservation_key,
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "source": source,
        },
        rows.Outcome,
        True,
    )


def renew_lease(
    execution_id: str,
    *,
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    lease_ttl_ms: int = 30_000,
    attempt_index: int | None = None,
) -> Call[rows.Renewal]:
    sql = """
        select * from flowfabric.ff_renew_lease(
            p_execution_id => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch
            => %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_lease_ttl_ms =>
            %(lease_ttl_ms)s::bigint, p_attempt_index => %(attempt_index)s::integer)"""
    return Call(
        "ff_renew_lease",
        sql,
        {
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "lease_ttl_ms": lease_ttl_ms,
            "attempt_index": attempt_index,
        },
        rows.Renewal,
        True,
    )


def renew_leases(
    execution_ids: Sequence[str | None],
    lease_ids: Sequence[UUID | None],
    lease_epochs: Sequence[int | None],
    attempt_ids: Sequence[UUID | None],
    *,
    lease_ttl_ms: int = 30_000,
) -> Call[rows.RenewalItem]:
    sql = """
        select * from flowfabric.ff_renew_leases(
            p_execution_ids => %(execution_ids)b::text[], p_lease_ids => %(lease_ids)b::uuid[],
            p_lease_epochs => %(lease_epochs)b::bigint[], p_attempt_ids => %(attempt_ids)b::uuid[],
            p_lease_ttl_ms => %(lease_ttl_ms)s::bigint)"""
    return Call(
        "ff_renew_leases",
        sql,
        {
            "execution_ids": list_param("execution_ids", execution_ids),
            "lease_ids": list_param("lease_ids", lease_ids),
            "lease_epochs": list_param("lease_epochs", lease_epochs),
            "attempt_ids": list_param("attempt_ids", attempt_ids),
            "lease_ttl_ms": lease_ttl_ms,
        },
        rows.RenewalItem,
        True,
    )


def replay_execution(
    execution_id: str, *, reason: str | None = None, requested_by: str | None = None, force: bool = False
) -> Call[rows.Replay]:
    sql = """
        select * from flowfabric.ff_replay_execution(
            p_execution_id => %(execution_id)s::text, p_reason => %(reason)s::text, p_requested_by =>
            %(requested_by)s::text, p_force => %(force)s::boolean)"""
    return Call(
        "ff_replay_execution",
        sql,
        {"execution_id": execution_id, "reason": reason, "requested_by": requested_by, "force": force},
        rows.Replay,
        False,
    )


def report_usage_and_check(
    budget_id: str,
    dimensions: Sequence[str | None],
    deltas: Sequence[int | None],
    *,
    dedup_key: str | None = None,
    execution_id: str | None = None,
    lease_id: UUID | None = None,
    lease_epoch: int | None = None,
    attempt_id: UUID | None = None,
    source: str | None = None,
) -> Call[rows.UsageReport]:
    sql = """
        select * from flowfabric.ff_report_usage_and_check(
            p_budget_id => %(budget_id)s::text, p_dimensions => %(dimensions)b::text[], p_deltas =>
            %(deltas)b::bigint[], p_dedup_key => %(dedup_key)s::text, p_execution_id =>
            %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch =>
            %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_source =>
            %(source)s::text)"""
    return Call(
        "ff_report_usage_and_check",
        sql,
        {
            "budget_id": budget_id,
            "dimensions": list_param("dimensions", dimensions),
            "deltas": list_param("deltas", deltas),
            "dedup_key": dedup_key,
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "source": source,
        },
        rows.UsageReport,
        dedup_key is not None,
    )


def reserve_budget(
    budget_id: str,
    dimensions: Sequence[str | None],
    amounts: Sequence[int | None],
    execution_id: str,
    lease_id: UUID,
    lease_epoch: int,
    attempt_id: UUID,
    *,
    reservation_key: str | None = None,
) -> Call[rows.Reservation]:
    sql = """
        select * from flowfabric.ff_reserve_budget(
            p_budget_id => %(budget_id)s::text, p_dimensions => %(dimensions)b::text[], p_amounts =>
            %(amounts)b::bigint[], p_execution_id => %(execution_id)s::text, p_lease_id =>
            %(lease_id)s::uuid, p_lease_epoch => %(lease_epoch)s::bigint, p_attempt_id =>
            %(attempt_id)s::uuid, p_reservation_key => %(reservation_key)s::text)"""
    return Call(
        "ff_reserve_budget",
        sql,
        {
            "budget_id": budget_id,
            "dimensions": list_param("dimensions", dimensions),
            "amounts": list_param("amounts", amounts),
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "reservation_key": reservation_key,
        },
        rows.Reservation,
        reservation_key is not None,
    )


def reset_budget(budget_id: str) -> Call[rows.BudgetReset]:
    sql = """
        select * from flowfabric.ff_reset_budget(p_budget_id => %(budget_id)s::text)"""
    return Call("ff_reset_budget", sql, {"budget_id": budget_id}, rows.BudgetReset, False)


def resolve_dependency(
    flow_id: UUID, edge_id: UUID, *, upstream_outcome: str | None = None
) -> Call[rows.EdgeResolution]:
    sql = """
        select * from flowfabric.ff_resolve_dependency(
            p_flow_id => %(flow_id)s::uuid, p_edge_id => %(edge_id)s::uuid, p_upstream_outcome =>
            %(upstream_outcome)s::text)"""
    return Call(
        "ff_resolve_dependency",
        sql,
        {"flow_id": flow_id, "edge_id": edge_id, "upstream_outcome": upstream_outcome},
        rows.EdgeResolution,
        False,
    )


def resolve_execution_flow_id(execution_id: str) -> Call[UUID | None]:
    sql = """
        select flowfabric.ff_resolve_execution_flow_id(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_resolve_execution_flow_id", sql, {"execution_id": execution_id}, None, True)


def resume_execution(
    execution_id: str, *, trigger: str = "operator", resume_delay_ms: int = 0
) -> Call[rows.Resumption]:
    sql = """
        select * from flowfabric.ff_resume_execution(
            p_execution_id => %(execution_id)s::text, p_trigger => %(trigger)s::text,
            p_resume_delay_ms => %(resume_delay_ms)s::bigint)"""
    return Call(
        "ff_resume_execution",
        sql,
        {"execution_id": execution_id, "trigger": trigger, "resume_delay_ms": resume_delay_ms},
        rows.Resumption,
        False,
    )


def revoke_lease(
    execution_id: str,
    *,
    expected_lease_id: UUID | None = None,
    worker_instance_id: str | None = None,
    reason: str = "operator",
) -> Call[rows.Revocation]:
    sql = """
        select * from flowfabric.ff_revoke_lease(
            p_execution_id => %(execution_id)s::text, p_expected_lease_id =>
            %(expected_lease_id)s::uuid, p_worker_instance_id => %(worker_instance_id)s::text,
            p_reason => %(reason)s::text)"""
    return Call(
        "ff_revoke_lease",
        sql,
        {
            "execution_id": execution_id,
            "expected_lease_id": expected_lease_id,
            "worker_instance_id": worker_instance_id,
            "reason": reason,
        },
        rows.Revocation,
        False,
    )


def rotate_waitpoint_hmac_secret(
    new_kid: str, *, new_secret_hex: str | None = None, grace_ms: int = 86_400_000
) -> Call[rows.KeyRotation]:
    sql = """
        select * from flowfabric.ff_rotate_waitpoint_hmac_secret(
            p_new_kid => %(new_kid)s::text, p_new_secret_hex => %(new_secret_hex)s::text, p_grace_ms
            => %(grace_ms)s::bigint)"""
    return Call(
        "ff_rotate_waitpoint_hmac_secret",
        sql,
        {"new_kid": new_kid, "new_secret_hex": new_secret_hex, "grace_ms": grace_ms},
        rows.KeyRotation,
        True,
    )


def scan_attempt_timeouts(*, limit: int = 50, partition_key: int | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_attempt_timeouts(
            p_limit => %(limit)s::integer, p_partition_key => %(partition_key)s::smallint)"""
    return Call(
        "ff_scan_attempt_timeouts", sql, {"limit": limit, "partition_key": partition_key}, rows.Scan, True
    )


def scan_budget_resets(*, limit: int = 20) -> Call[int]:
    sql = """
        select flowfabric.ff_scan_budget_resets(p_limit => %(limit)s::integer)"""
    return Call("ff_scan_budget_resets", sql, {"limit": limit}, None, True)


def scan_claim_floors(*, limit: int = 200) -> Call[rows.FloorScan]:
    sql = """
        select * from flowfabric.ff_scan_claim_floors(p_limit => %(limit)s::integer)"""
    return Call("ff_scan_claim_floors", sql, {"limit": limit}, rows.FloorScan, True)


def scan_eligible(
    lane: str,
    *,
    limit: int = 100,
    capabilities: Sequence[str | None] | None = None,
    after_priority: int | None = None,
    after_created_at_ms: int | None = None,
    after_execution_id: str | None = None,
) -> Call[rows.EligibleListing]:
    sql = """
        select * from flowfabric.ff_scan_eligible(
            p_lane => %(lane)s::text, p_limit => %(limit)s::integer, p_capabilities =>
            %(capabilities)b::text[], p_after_priority => %(after_priority)s::integer,
            p_after_created_at_ms => %(after_created_at_ms)s::bigint, p_after_execution_id =>
            %(after_execution_id)s::text)"""
    return Call(
        "ff_scan_eligible",
        sql,
        {
            "lane": lane,
            "limit": limit,
            "capabilities": None if capabilities is None else list_param("capabilities", capabilities),
            "after_priority": after_priority,
            "after_created_at_ms": after_created_at_ms,
            "after_execution_id": after_execution_id,
        },
        rows.EligibleListing,
        True,
    )


def scan_event_notify() -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_event_notify()"""
    return Call("ff_scan_event_notify", sql, {}, rows.Scan, True)


def scan_execution_deadlines(*, limit: int = 50, partition_key: int | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_execution_deadlines(
            p_limit => %(limit)s::integer, p_partition_key => %(partition_key)s::smallint)"""
    return Call(
        "ff_scan_execution_deadlines", sql, {"limit": limit, "partition_key": partition_key}, rows.Scan, True
    )


def scan_expired_leases(*, limit: int = 50, partition_key: int | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_expired_leases(
            p_limit => %(limit)s::integer, p_partition_key => %(partition_key)s::smallint)"""
    return Call(
        "ff_scan_expired_leases", sql, {"limit": limit, "partition_key": partition_key}, rows.Scan, True
    )


def scan_future_times(*, limit: int = 1_000) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_future_times(p_limit => %(limit)s::integer)"""
    return Call("ff_scan_future_times", sql, {"limit": limit}, rows.Scan, True)


def scan_pending_waitpoint_expiry(*, limit: int = 100, partition_key: int | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_pending_waitpoint_expiry(
            p_limit => %(limit)s::integer, p_partition_key => %(partition_key)s::smallint)"""
    return Call(
        "ff_scan_pending_waitpoint_expiry",
        sql,
        {"limit": limit, "partition_key": partition_key},
        rows.Scan,
        True,
    )


def scan_stream_ttl(*, limit: int = 100, partition_key: int | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_stream_ttl(
            p_limit => %(limit)s::integer, p_partition_key => %(partition_key)s::smallint)"""
    return Call("ff_scan_stream_ttl", sql, {"limit": limit, "partition_key": partition_key}, rows.Scan, True)


def scan_suspension_timeouts(*, limit: int = 50, partition_key: int | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_suspension_timeouts(
            p_limit => %(limit)s::integer, p_partition_key => %(partition_key)s::smallint)"""
    return Call(
        "ff_scan_suspension_timeouts", sql, {"limit": limit, "partition_key": partition_key}, rows.Scan, True
    )


def scan_unblock(*, limit: int = 100) -> Call[rows.UnblockScan]:
    sql = """
        select * from flowfabric.ff_scan_unblock(p_limit => %(limit)s::integer)"""
    return Call("ff_scan_unblock", sql, {"limit": limit}, rows.UnblockScan, True)


def seed_waitpoint_hmac_secret(kid: str, *, secret_hex: str | None = None) -> Call[rows.KeySeeding]:
    sql = """
        select * from flowfabric.ff_seed_waitpoint_hmac_secret(
            p_kid => %(kid)s::text, p_secret_hex => %(secret_hex)s::text)"""
    return Call(
        "ff_seed_waitpoint_hmac_secret", sql, {"kid": kid, "secret_hex": secret_hex}, rows.KeySeeding, True
    )


def set_edge_group_policy(
    flow_id: UUID,
    downstream_execution_id: str,
    policy_kind: str,
    *,
    on_satisfied: str | None = None,
    k: int | None = None,
) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_set_edge_group_policy(
            p_flow_id => %(flow_id)s::uuid, p_downstream_execution_id =>
            %(downstream_execution_id)s::text, p_policy_kind => %(policy_kind)s::text, p_on_satisfied
            => %(on_satisfied)s::text, p_k => %(k)s::integer)"""
    return Call(
        "ff_set_edge_group_policy",
        sql,
        {
            "flow_id": flow_id,
            "downstream_execution_id": downstream_execution_id,
            "policy_kind": policy_kind,
            "on_satisfied": on_satisfied,
            "k": k,
        },
        rows.Outcome,
        False,
    )


def set_event_cursor(
    consumer: str, stream: str, cursor: str, *, reason: str | None = None
) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_set_event_cursor(
            p_consumer => %(consumer)s::text, p_stream => %(stream)s::text, p_cursor =>
            %(cursor)s::text, p_reason => %(reason)s::text)"""
    return Call(
        "ff_set_event_cursor",
        sql,
        {"consumer": consumer, "stream": stream, "cursor": cursor, "reason": reason},
        rows.Outcome,
        True,
    )


def set_execution_tags(execution_id: str, tags: JsonObject) -> Call[rows.Tagging]:
    sql = """
        select * from flowfabric.ff_set_execution_tags(
            p_execution_id => %(execution_id)s::text, p_tags => %(tags)s::jsonb)"""
    return Call(
        "ff_set_execution_tags",
        sql,
        {"execution_id": execution_id, "tags": json_param(tags)},
        rows.Tagging,
        True,
    )


def set_flow_tags(flow_id: UUID, tags: JsonObject) -> Call[rows.FlowTagging]:
    sql = """
        select * from flowfabric.ff_set_flow_tags(
            p_flow_id => %(flow_id)s::uuid, p_tags => %(tags)s::jsonb)"""
    return Call(
        "ff_set_flow_tags", sql, {"flow_id": flow_id, "tags": json_param(tags)}, rows.FlowTagging, True
    )


def set_lane_state(lane_id: str, lane_state: str, *, reason: str | None = None) -> Call[rows.LaneStateChange]:
    sql = """
        select * from flowfabric.ff_set_lane_state(
            p_lane_id => %(lane_id)s::text, p_lane_state => %(lane_state)s::text, p_reason =>
            %(reason)s::text)"""
    return Call(
        "ff_set_lane_state",
        sql,
        {"lane_id": lane_id, "lane_state": lane_state, "reason": reason},
        rows.LaneStateChange,
        True,
    )


def set_partition_count(n: int) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_set_partition_count(p_n => %(n)s::integer)"""
    return Call("ff_set_partition_count", sql, {"n": n}, rows.Outcome, True)


def set_scanner(
    scanner: str,
    *,
    enabled: bool | None = None,
    interval_ms: int | None = None,
    batch_limit: int | None = None,
) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_set_scanner(
            p_scanner => %(scanner)s::text, p_enabled => %(enabled)s::boolean, p_interval_ms =>
            %(interval_ms)s::bigint, p_batch_limit => %(batch_limit)s::integer)"""
    return Call(
        "ff_set_scanner",
        sql,
        {"scanner": scanner, "enabled": enabled, "interval_ms": interval_ms, "batch_limit": batch_limit},
        rows.Outcome,
        True,
    )


def set_setting(name: str, value: int) -> Call[rows.SettingChange]:
    sql = """
        select * from flowfabric.ff_set_setting(p_name => %(name)s::text, p_value => %(value)s::bigint)"""
    return Call("ff_set_setting", sql, {"name": name, "value": value}, rows.SettingChange, True)


def settle_reservation(
    budget_id: str,
    reservation_key: str,
    dimensions: Sequence[str | None],
    actuals: Sequence[int | None],
    execution_id: str,
    lease_id: UUID,
    lease_epoch: int,
    attempt_id: UUID,
) -> Call[rows.UsageReport]:
    sql = """
        select * from flowfabric.ff_settle_reservation(
            p_budget_id => %(budget_id)s::text, p_reservation_key => %(reservation_key)s::text,
            p_dimensions => %(dimensions)b::text[], p_actuals => %(actuals)b::bigint[], p_execution_id
            => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch =>
            %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid)"""
    return Call(
        "ff_settle_reservation",
        sql,
        {
            "budget_id": budget_id,
            "reservation_key": reservation_key,
            "dimensions": list_param("dimensions", dimensions),
            "actuals": list_param("actuals", actuals),
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
        },
        rows.UsageReport,
        True,
    )


def solo_partition(lane_id: str) -> Call[int]:
    sql = """
        select flowfabric.ff_solo_partition(p_lane_id => %(lane_id)s::text)"""
    return Call("ff_solo_partition", sql, {"lane_id": lane_id}, None, True)


def stage_dependency_edge(
    flow_id: UUID,
    edge_id: UUID,
    upstream_execution_id: str,
    downstream_execution_id: str,
    expected_graph_revision: int,
    *,
    dependency_kind: str = "success_only",
    data_passing_ref: str | None = None,
) -> Call[rows.StagedEdge]:
    sql = """
        select * from flowfabric.ff_stage_dependency_edge(
            p_flow_id => %(flow_id)s::uuid, p_edge_id => %(edge_id)s::uuid, p_upstream_execution_id =>
            %(upstream_execution_id)s::text, p_downstream_execution_id =>
            %(downstream_execution_id)s::text, p_expected_graph_revision =>
            %(expected_graph_revision)s::bigint, p_dependency_kind => %(dependency_kind)s::text,
            p_data_passing_ref => %(data_passing_ref)s::text)"""
    return Call(
        "ff_stage_dependency_edge",
        sql,
        {
            "flow_id": flow_id,
            "edge_id": edge_id,
            "upstream_execution_id": upstream_execution_id,
            "downstream_execution_id": downstream_execution_id,
            "expected_graph_revision": expected_graph_revision,
            "dependency_kind": dependency_kind,
            "data_passing_ref": data_passing_ref,
        },
        rows.StagedEdge,
        False,
    )


def stream_status(
    execution_id: str, attempt_index: int, *, strict: bool = False
) -> Call[rows.StreamSnapshot]:
    sql = """
        select * from flowfabric.ff_stream_status(
            p_execution_id => %(execution_id)s::text, p_attempt_index => %(attempt_index)s::integer,
            p_strict => %(strict)s::boolean)"""
    return Call(
        "ff_stream_status",
        sql,
        {"execution_id": execution_id, "attempt_index": attempt_index, "strict": strict},
        rows.StreamSnapshot,
        True,
    )


def submit_flow(flow: JsonObject) -> Call[rows.SubmittedMember]:
    sql = """
        select * from flowfabric.ff_submit_flow(p_flow => %(flow)s::jsonb)"""
    return Call(
        "ff_submit_flow",
        sql,
        {"flow": json_param(flow)},
        rows.SubmittedMember,
        flow.get("flow_id") is not None,
    )


def suspend_execution(
    execution_id: str,
    lease_id: UUID,
    lease_epoch: int,
    attempt_id: UUID,
    resume_condition: JsonObject | str,
    reason_code: str,
    *,
    requested_by: str = "worker",
    waitpoint_ids: Sequence[UUID | None] | None = None,
    waitpoint_keys: Sequence[str | None] | None = None,
    use_pending: bool = False,
    timeout_at_ms: int | None = None,
    timeout_in_ms: int | None = None,
    timeout_behavior: str = "fail",
    resume_delay_ms: int = 0,
    consume_matched_signals: bool = True,
    retain_signal_buffer_until_closed: bool = False,
    close_waitpoint_on_resume: bool = True,
    resume_target: str = "runnable",
    continuation_metadata_pointer: str | None = None,
    idempotency_key: str | None = None,
    suspension_id: UUID | None = None,
    attempt_index: int | None = None,
) -> Call[rows.SuspendedWaitpoint]:
    sql = """
        select * from flowfabric.ff_suspend_execution(
            p_execution_id => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch
            => %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_resume_condition =>
            %(resume_condition)s::jsonb, p_reason_code => %(reason_code)s::text, p_requested_by =>
            %(requested_by)s::text, p_waitpoint_ids => %(waitpoint_ids)b::uuid[], p_waitpoint_keys =>
            %(waitpoint_keys)b::text[], p_use_pending => %(use_pending)s::boolean, p_timeout_at_ms =>
            %(timeout_at_ms)s::bigint, p_timeout_in_ms => %(timeout_in_ms)s::bigint,
            p_timeout_behavior => %(timeout_behavior)s::text, p_resume_delay_ms =>
            %(resume_delay_ms)s::bigint, p_consume_matched_signals =>
            %(consume_matched_signals)s::boolean, p_retain_signal_buffer_until_closed =>
            %(retain_signal_buffer_until_closed)s::boolean, p_close_waitpoint_on_resume =>
            %(close_waitpoint_on_resume)s::boolean, p_resume_target => %(resume_target)s::text,
            p_continuation_metadata_pointer => %(continuation_metadata_pointer)s::text,
            p_idempotency_key => %(idempotency_key)s::text, p_suspension_id =>
            %(suspension_id)s::uuid, p_attempt_index => %(attempt_index)s::integer)"""
    return Call(
        "ff_suspend_execution",
        sql,
        {
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "resume_condition": json_param(resume_condition),
            "reason_code": reason_code,
            "requested_by": requested_by,
            "waitpoint_ids": None if waitpoint_ids is None else list_param("waitpoint_ids", waitpoint_ids),
            "waitpoint_keys": None
            if waitpoint_keys is None
            else list_param("waitpoint_keys", waitpoint_keys),
            "use_pending": use_pending,
            "timeout_at_ms": timeout_at_ms,
            "timeout_in_ms": timeout_in_ms,
            "timeout_behavior": timeout_behavior,
            "resume_delay_ms": resume_delay_ms,
            "consume_matched_signals": consume_matched_signals,
            "retain_signal_buffer_until_closed": retain_signal_buffer_until_closed,
            "close_waitpoint_on_resume": close_waitpoint_on_resume,
            "resume_target": resume_target,
            "continuation_metadata_pointer": continuation_metadata_pointer,
            "idempotency_key": idempotency_key,
            "suspension_id": suspension_id,
            "attempt_index": attempt_index,
        },
        rows.SuspendedWaitpoint,
        idempotency_key is not None,
    )


def sweep_dedup(*, limit: int = 1_000) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_sweep_dedup(p_limit => %(limit)s::integer)"""
    return Call("ff_sweep_dedup", sql, {"limit": limit}, rows.Scan, True)


def sweep_expired_grants(*, limit: int = 500) -> Call[int]:
    sql = """
        select flowfabric.ff_sweep_expired_grants(p_limit => %(limit)s::integer)"""
    return Call("ff_sweep_expired_grants", sql, {"limit": limit}, None, True)


def sweep_workers(*, limit: int = 500) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_sweep_workers(p_limit => %(limit)s::integer)"""
    return Call("ff_sweep_workers", sql, {"limit": limit}, rows.Scan, True)


def test_set_clock(mode: str, *, ms: int | None = None) -> Call[rows.ClockState]:
    sql = """
        select * from flowfabric.ff_test_set_clock(p_mode => %(mode)s::text, p_ms => %(ms)s::bigint)"""
    return Call("ff_test_set_clock", sql, {"mode": mode, "ms": ms}, rows.ClockState, False)


def tick(
    *,
    limit: int = 100,
    scanners: Sequence[str | None] | None = None,
    force: bool = False,
    max_ms: int = 1_000,
) -> Call[rows.ScannerRun]:
    sql = """
        select * from flowfabric.ff_tick(
            p_limit => %(limit)s::integer, p_scanners => %(scanners)b::text[], p_force =>
            %(force)s::boolean, p_max_ms => %(max_ms)s::integer)"""
    return Call(
        "ff_tick",
        sql,
        {
            "limit": limit,
            "scanners": None if scanners is None else list_param("scanners", scanners),
            "force": force,
            "max_ms": max_ms,
        },
        rows.ScannerRun,
        True,
    )


def timestamp(ms: int) -> Call[datetime]:
    sql = """
        select flowfabric.ff_timestamp(p_ms => %(ms)s::bigint)"""
    return Call("ff_timestamp", sql, {"ms": ms}, None, True)


def trim_retention(
    *,
    limit: int = 100,
    partition_key: int | None = None,
    lane_id: str | None = None,
    retention_ms: int | None = None,
) -> Call[rows.RetentionScan]:
    sql = """
        select * from flowfabric.ff_trim_retention(
            p_limit => %(limit)s::integer, p_partition_key => %(partition_key)s::smallint, p_lane_id
            => %(lane_id)s::text, p_retention_ms => %(retention_ms)s::bigint)"""
    return Call(
        "ff_trim_retention",
        sql,
        {"limit": limit, "partition_key": partition_key, "lane_id": lane_id, "retention_ms": retention_ms},
        rows.RetentionScan,
        True,
    )


def unblock_execution(
    execution_id: str, *, expected_blocking_reason: str | None = None
) -> Call[rows.StateOutcome]:
    sql = """
        select * from flowfabric.ff_unblock_execution(
            p_execution_id => %(execution_id)s::text, p_expected_blocking_reason =>
            %(expected_blocking_reason)s::text)"""
    return Call(
        "ff_unblock_execution",
        sql,
        {"execution_id": execution_id, "expected_blocking_reason": expected_blocking_reason},
        rows.StateOutcome,
        False,
    )


def update_progress(
    execution_id: str,
    lease_id: UUID,
    lease_epoch: int,
    attempt_id: UUID,
    *,
    progress_pct: int | None = None,
    progress_message: str | None = None,
) -> Call[rows.Progress]:
    sql = """
        select * from flowfabric.ff_update_progress(
            p_execution_id => %(execution_id)s::text, p_lease_id => %(lease_id)s::uuid, p_lease_epoch
            => %(lease_epoch)s::bigint, p_attempt_id => %(attempt_id)s::uuid, p_progress_pct =>
            %(progress_pct)s::integer, p_progress_message => %(progress_message)s::text)"""
    return Call(
        "ff_update_progress",
        sql,
        {
            "execution_id": execution_id,
            "lease_id": lease_id,
            "lease_epoch": lease_epoch,
            "attempt_id": attempt_id,
            "progress_pct": progress_pct,
            "progress_message": progress_message,
        },
        rows.Progress,
        False,
    )


def version() -> Call[str]:
    sql = """
        select flowfabric.ff_version()"""
    return Call("ff_version", sql, {}, None, True)


def wait_for_events(
    waiter_id: str,
    *,
    streams: Sequence[str] = (),
    execution_id: str | None = None,
    attempt_index: int | None = None,
    wait_ms: int = 5_000,
) -> Call[rows.EventWait]:
    sql = """
        select * from flowfabric.ff_wait_for_events(
            p_waiter_id => %(waiter_id)s::text, p_streams => %(streams)b::text[], p_execution_id =>
            %(execution_id)s::text, p_attempt_index => %(attempt_index)s::integer, p_wait_ms =>
            %(wait_ms)s::bigint)"""
    return Call(
        "ff_wait_for_events",
        sql,
        {
            "waiter_id": waiter_id,
            "streams": list_param("streams", streams),
            "execution_id": execution_id,
            "attempt_index": attempt_index,
            "wait_ms": wait_ms,
        },
        rows.EventWait,
        True,
    )


def wait_for_work(
    lanes: Sequence[str | None], waiter_id: str, *, wait_ms: int = 2_000
) -> Call[rows.WorkWait]:
    sql = """
        select * from flowfabric.ff_wait_for_work(
            p_lanes => %(lanes)b::text[], p_waiter_id => %(waiter_id)s::text, p_wait_ms =>
            %(wait_ms)s::bigint)"""
    return Call(
        "ff_wait_for_work",
        sql,
        {"lanes": list_param("lanes", lanes), "waiter_id": waiter_id, "wait_ms": wait_ms},
        rows.WorkWait,
        True,
    )


def why(execution_id: str) -> Call[rows.Explanation]:
    sql = """
        select * from flowfabric.ff_why(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_why", sql, {"execution_id": execution_id}, rows.Explanation, True)
