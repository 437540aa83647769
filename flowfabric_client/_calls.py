"""Calls: the SQL of every public function, stated once for both clients.

Generated from the catalogue by `python tools/generate_client.py`; a change made here is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from flowfabric_client import rows
from flowfabric_client._session import EMPTY_OBJECT, Call, JsonObject, json_param


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
            p_execution_ids => %(execution_ids)s::text[], p_lease_ids => %(lease_ids)s::uuid[],
            p_lease_epochs => %(lease_epochs)s::bigint[], p_attempt_ids => %(attempt_ids)s::uuid[],
            p_results => %(results)s::bytea[], p_result_encodings => %(result_encodings)s::text[])"""
    return Call(
        "ff_complete_executions",
        sql,
        {
            "execution_ids": list(execution_ids),
            "lease_ids": list(lease_ids),
            "lease_epochs": list(lease_epochs),
            "attempt_ids": list(attempt_ids),
            "results": None if results is None else list(results),
            "result_encodings": None if result_encodings is None else list(result_encodings),
        },
        rows.ExecutionItem,
        False,
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
            p_execution_kinds => %(execution_kinds)s::text[], p_payloads => %(payloads)s::bytea[],
            p_lane_ids => %(lane_ids)s::text[], p_namespace => %(namespace)s::text, p_execution_ids =>
            %(execution_ids)s::text[], p_payload_encodings => %(payload_encodings)s::text[],
            p_priorities => %(priorities)s::integer[], p_policies => %(policies)s::jsonb[], p_tags =>
            %(tags)s::jsonb[], p_delay_until_ms => %(delay_until_ms)s::bigint[],
            p_execution_deadlines_at_ms => %(execution_deadlines_at_ms)s::bigint[], p_idempotency_keys
            => %(idempotency_keys)s::text[], p_dedup_ttl_ms => %(dedup_ttl_ms)s::bigint,
            p_creator_identity => %(creator_identity)s::text)"""
    return Call(
        "ff_create_executions",
        sql,
        {
            "execution_kinds": list(execution_kinds),
            "payloads": None if payloads is None else list(payloads),
            "lane_ids": None if lane_ids is None else list(lane_ids),
            "namespace": namespace,
            "execution_ids": None if execution_ids is None else list(execution_ids),
            "payload_encodings": None if payload_encodings is None else list(payload_encodings),
            "priorities": None if priorities is None else list(priorities),
            "policies": None if policies is None else [json_param(item) for item in policies],
            "tags": None if tags is None else [json_param(item) for item in tags],
            "delay_until_ms": None if delay_until_ms is None else list(delay_until_ms),
            "execution_deadlines_at_ms": None
            if execution_deadlines_at_ms is None
            else list(execution_deadlines_at_ms),
            "idempotency_keys": None if idempotency_keys is None else list(idempotency_keys),
            "dedup_ttl_ms": dedup_ttl_ms,
            "creator_identity": creator_identity,
        },
        rows.ExecutionItem,
        False,
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


def describe_execution(execution_id: str) -> Call[rows.ExecutionSnapshot]:
    sql = """
        select * from flowfabric.ff_describe_execution(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_describe_execution", sql, {"execution_id": execution_id}, rows.ExecutionSnapshot, True)


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
            p_execution_ids => %(execution_ids)s::text[], p_lease_ids => %(lease_ids)s::uuid[],
            p_lease_epochs => %(lease_epochs)s::bigint[], p_attempt_ids => %(attempt_ids)s::uuid[],
            p_failure_reasons => %(failure_reasons)s::text[], p_failure_categories =>
            %(failure_categories)s::text[], p_retry_policies => %(retry_policies)s::jsonb[])"""
    return Call(
        "ff_fail_executions",
        sql,
        {
            "execution_ids": list(execution_ids),
            "lease_ids": list(lease_ids),
            "lease_epochs": list(lease_epochs),
            "attempt_ids": list(attempt_ids),
            "failure_reasons": None if failure_reasons is None else list(failure_reasons),
            "failure_categories": None if failure_categories is None else list(failure_categories),
            "retry_policies": None
            if retry_policies is None
            else [json_param(item) for item in retry_policies],
        },
        rows.FailureItem,
        False,
    )


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
            p_worker_capabilities => %(worker_capabilities)s::text[], p_grant_ttl_ms =>
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
            "worker_capabilities": list(worker_capabilities),
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
            p_worker_capabilities => %(worker_capabilities)s::text[], p_grant_ttl_ms =>
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
            "worker_capabilities": list(worker_capabilities),
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


def list_settings() -> Call[rows.SettingRow]:
    sql = """
        select * from flowfabric.ff_list_settings()"""
    return Call("ff_list_settings", sql, {}, rows.SettingRow, True)


def mark_lease_expired_if_due(execution_id: str) -> Call[rows.ExpiryMark]:
    sql = """
        select * from flowfabric.ff_mark_lease_expired_if_due(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_mark_lease_expired_if_due", sql, {"execution_id": execution_id}, rows.ExpiryMark, True)


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


def parse_execution_id(execution_id: str) -> Call[rows.ExecutionKey]:
    sql = """
        select * from flowfabric.ff_parse_execution_id(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_parse_execution_id", sql, {"execution_id": execution_id}, rows.ExecutionKey, True)


def ping() -> Call[int]:
    sql = """
        select flowfabric.ff_ping()"""
    return Call("ff_ping", sql, {}, None, True)


def promote_delayed(execution_id: str) -> Call[rows.StateOutcome]:
    sql = """
        select * from flowfabric.ff_promote_delayed(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_promote_delayed", sql, {"execution_id": execution_id}, rows.StateOutcome, True)


def promote_due(*, limit: int = 50, lanes: Sequence[str | None] | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_promote_due(
            p_limit => %(limit)s::integer, p_lanes => %(lanes)s::text[])"""
    return Call(
        "ff_promote_due",
        sql,
        {"limit": limit, "lanes": None if lanes is None else list(lanes)},
        rows.Scan,
        True,
    )


def read_current_attempt_index(execution_id: str) -> Call[int]:
    sql = """
        select flowfabric.ff_read_current_attempt_index(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_read_current_attempt_index", sql, {"execution_id": execution_id}, None, True)


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


def read_total_attempt_count(execution_id: str) -> Call[int]:
    sql = """
        select flowfabric.ff_read_total_attempt_count(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_read_total_attempt_count", sql, {"execution_id": execution_id}, None, True)


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
            p_execution_ids => %(execution_ids)s::text[], p_lease_ids => %(lease_ids)s::uuid[],
            p_lease_epochs => %(lease_epochs)s::bigint[], p_attempt_ids => %(attempt_ids)s::uuid[],
            p_lease_ttl_ms => %(lease_ttl_ms)s::bigint)"""
    return Call(
        "ff_renew_leases",
        sql,
        {
            "execution_ids": list(execution_ids),
            "lease_ids": list(lease_ids),
            "lease_epochs": list(lease_epochs),
            "attempt_ids": list(attempt_ids),
            "lease_ttl_ms": lease_ttl_ms,
        },
        rows.RenewalItem,
        True,
    )


def replay_execution(
    execution_id: str, *, reason: str | None = None, requested_by: str | None = None
) -> Call[rows.Replay]:
    sql = """
        select * from flowfabric.ff_replay_execution(
            p_execution_id => %(execution_id)s::text, p_reason => %(reason)s::text, p_requested_by =>
            %(requested_by)s::text)"""
    return Call(
        "ff_replay_execution",
        sql,
        {"execution_id": execution_id, "reason": reason, "requested_by": requested_by},
        rows.Replay,
        False,
    )


def resolve_execution_flow_id(execution_id: str) -> Call[UUID | None]:
    sql = """
        select flowfabric.ff_resolve_execution_flow_id(p_execution_id => %(execution_id)s::text)"""
    return Call("ff_resolve_execution_flow_id", sql, {"execution_id": execution_id}, None, True)


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


def scan_attempt_timeouts(*, limit: int = 50, partition_key: int | None = None) -> Call[rows.Scan]:
    sql = """
        select * from flowfabric.ff_scan_attempt_timeouts(
            p_limit => %(limit)s::integer, p_partition_key => %(partition_key)s::smallint)"""
    return Call(
        "ff_scan_attempt_timeouts", sql, {"limit": limit, "partition_key": partition_key}, rows.Scan, True
    )


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


def set_partition_count(n: int) -> Call[rows.Outcome]:
    sql = """
        select * from flowfabric.ff_set_partition_count(p_n => %(n)s::integer)"""
    return Call("ff_set_partition_count", sql, {"n": n}, rows.Outcome, True)


def set_setting(name: str, value: int) -> Call[rows.SettingChange]:
    sql = """
        select * from flowfabric.ff_set_setting(p_name => %(name)s::text, p_value => %(value)s::bigint)"""
    return Call("ff_set_setting", sql, {"name": name, "value": value}, rows.SettingChange, True)


def solo_partition(lane_id: str) -> Call[int]:
    sql = """
        select flowfabric.ff_solo_partition(p_lane_id => %(lane_id)s::text)"""
    return Call("ff_solo_partition", sql, {"lane_id": lane_id}, None, True)


def sweep_expired_grants(*, limit: int = 500) -> Call[int]:
    sql = """
        select flowfabric.ff_sweep_expired_grants(p_limit => %(limit)s::integer)"""
    return Call("ff_sweep_expired_grants", sql, {"limit": limit}, None, True)


def test_set_clock(mode: str, *, ms: int | None = None) -> Call[rows.ClockState]:
    sql = """
        select * from flowfabric.ff_test_set_clock(p_mode => %(mode)s::text, p_ms => %(ms)s::bigint)"""
    return Call("ff_test_set_clock", sql, {"mode": mode, "ms": ms}, rows.ClockState, False)


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
