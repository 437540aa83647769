"""The synchronous client: one method per public function of the engine, without its `ff_`.

Generated from the catalogue by `python tools/generate_client.py`; a change made here is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from flowfabric_client import _calls, rows
from flowfabric_client._call import EMPTY_OBJECT, JsonObject
from flowfabric_client._watching import WatchingSession


class Client(WatchingSession):
    """The synchronous client; docs/client.md tells what it can work on, repeat and follow."""

    def ack_cancel_member(self, flow_id: UUID, execution_id: str) -> rows.CancelAcknowledgement:
        """Takes a member out of the cancel backlog of its flow because somebody else has dealt with it.

        Raises: invalid_input.
        """
        return self._one(_calls.ack_cancel_member(flow_id, execution_id))

    def add_execution_to_flow(self, flow_id: UUID, execution_id: str) -> rows.FlowMembership:
        """Makes an execution a member of a flow, for life; its id must lie on the partition of the flow.

        Raises: invalid_input, flow_not_found, flow_already_terminal, execution_not_found,
            already_member_of_different_flow.
        """
        return self._one(_calls.add_execution_to_flow(flow_id, execution_id))

    def append_frame(
        self,
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
    ) -> rows.AppendedFrame:
        """Appends one frame to the output stream of the attempt whose lease the caller holds.

        Raises: invalid_input, payload_too_large, fence_required, partial_fence_triple,
            retention_limit_exceeded, stream_closed, stale_owner_cannot_append.
        """
        return self._one(
            _calls.append_frame(
                execution_id,
                attempt_index,
                lease_id,
                lease_epoch,
                attempt_id,
                frame_type,
                payload=payload,
                encoding=encoding,
                correlation_id=correlation_id,
                source=source,
                frame_ts_ms=frame_ts_ms,
                stream_mode=stream_mode,
                patch_kind=patch_kind,
                ttl_ms=ttl_ms,
                maxlen_floor=maxlen_floor,
                maxlen_ceiling=maxlen_ceiling,
                ema_alpha=ema_alpha,
                retention_maxlen=retention_maxlen,
                max_payload_bytes=max_payload_bytes,
            )
        )

    def apply_dependency_to_child(
        self,
        flow_id: UUID,
        edge_id: UUID,
        downstream_execution_id: str,
        upstream_execution_id: str,
        *,
        graph_revision: int | None = None,
    ) -> rows.AppliedEdge:
        """Makes a staged edge count for its child, which waits until its join is satisfied.

        Raises: invalid_input, flow_not_found, flow_already_terminal, invalid_dependency, execution_not_found,
            execution_already_in_flow.
        """
        return self._one(
            _calls.apply_dependency_to_child(
                flow_id,
                edge_id,
                downstream_execution_id,
                upstream_execution_id,
                graph_revision=graph_revision,
            )
        )

    def block_execution_for_admission(
        self, execution_id: str, blocking_reason: str, *, blocking_detail: str | None = None
    ) -> rows.AdmissionBlock:
        """Takes an eligible execution off its queue because admission denied it, for one of five reasons.

        Raises: invalid_input, execution_not_found, execution_not_active, execution_not_eligible,
            invalid_blocking_reason.
        """
        return self._one(
            _calls.block_execution_for_admission(
                execution_id, blocking_reason, blocking_detail=blocking_detail
            )
        )

    def boot_check(self, required_version: int, *, num_flow_partitions: int | None = None) -> rows.BootReport:
        """Checks that client and schema fit together; the first call of every client process.

        Raises: invalid_input, schema_version_mismatch, partition_config_mismatch, retry_exhausted after 5 s.
        """
        return self._one(_calls.boot_check(required_version, num_flow_partitions=num_flow_partitions))

    def buffer_signal_for_pending_waitpoint(
        self,
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
    ) -> rows.SignalDelivery:
        """Records a signal with the waitpoint's token before the suspension; it counts when the waitpoint
        becomes active.

        Raises: invalid_input, payload_too_large, execution_not_found, missing_token, invalid_token,
            token_expired, hmac_secret_not_initialized, invalid_secret, target_not_signalable,
            waitpoint_closed, waitpoint_not_pending, signal_limit_exceeded.
        """
        return self._one(
            _calls.buffer_signal_for_pending_waitpoint(
                execution_id,
                waitpoint_id,
                waitpoint_token,
                signal_name,
                signal_id=signal_id,
                signal_category=signal_category,
                source_type=source_type,
                source_identity=source_identity,
                payload=payload,
                payload_encoding=payload_encoding,
                idempotency_key=idempotency_key,
                dedup_ttl_ms=dedup_ttl_ms,
                correlation_id=correlation_id,
                target_scope=target_scope,
                created_at_ms=created_at_ms,
            )
        )

    def bump_event_epoch(self, *, wait_ms: int = 900) -> int:
        """Begins a new epoch of event cursors, after transaction ids may have gone back; returns it.

        Raises: invalid_input; retry_exhausted after p_wait_ms; unavailable, when all 32767 epochs are used
            up.
        """
        return self._one(_calls.bump_event_epoch(wait_ms=wait_ms))

    def cancel_execution(
        self,
        execution_id: str,
        reason: str,
        *,
        source: str = "lease_holder",
        lease_id: UUID | None = None,
        lease_epoch: int | None = None,
        attempt_id: UUID | None = None,
    ) -> rows.Cancellation:
        """Ends an execution in any phase but terminal: what a worker holds, or whatever an operator names.

        Raises: invalid_input, unauthorized, execution_not_found, execution_not_active,
            flow_membership_changed and, for a lease holder, the codes of _ff_check_fence.
        """
        return self._one(
            _calls.cancel_execution(
                execution_id,
                reason,
                source=source,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
            )
        )

    def cancel_flow(
        self,
        flow_id: UUID,
        reason: str,
        cancellation_policy: str,
        *,
        grace_ms: int = 30_000,
        requester: str | None = None,
        sync_limit: int = 500,
    ) -> rows.FlowCancellation:
        """Ends a flow and, by policy, its members: at once as far as the limit goes, the rest unclaimable
        and in the backlog.

        Raises: invalid_input, invalid_grace_ms, flow_not_found, flow_already_terminal.
        """
        return self._one(
            _calls.cancel_flow(
                flow_id,
                reason,
                cancellation_policy,
                grace_ms=grace_ms,
                requester=requester,
                sync_limit=sync_limit,
            )
        )

    def capabilities(self) -> list[rows.CapabilityFlag]:
        """What this engine supports, by upstream's names and its own."""
        return self._all(_calls.capabilities())

    def change_priority(self, execution_id: str, new_priority: int) -> rows.PriorityChange:
        """Moves a waiting execution within the queue of its lane; the new priority is brought into 0 to
        9000.

        Raises: invalid_input, execution_not_found, execution_not_eligible.
        """
        return self._one(_calls.change_priority(execution_id, new_priority))

    def check_admission_and_record(
        self, quota_policy_id: str, execution_id: str, *, jitter_ms: int | None = None
    ) -> rows.Admission:
        """Says whether an execution may start under a quota policy, and records the token and the slot if
        it may.

        Raises: invalid_input, execution_not_found, quota_policy_not_found. A denial is an outcome.
        """
        return self._one(
            _calls.check_admission_and_record(quota_policy_id, execution_id, jitter_ms=jitter_ms)
        )

    def check_invariants(self, *, limit: int = 1_000) -> list[rows.InvariantFinding]:
        """Stored rows that break a rule of the state model or contradict each other; none in a sound
        database.

        Raises: invalid_input.
        """
        return self._all(_calls.check_invariants(limit=limit))

    def claim_execution(
        self,
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
    ) -> rows.Claim:
        """Consumes a claim grant and starts a new attempt under a new lease.

        Raises: invalid_input, invalid_policy_json, execution_not_found, execution_not_leaseable,
            lease_conflict, active_attempt_exists, use_claim_resumed_execution, invalid_claim_grant,
            claim_grant_expired.
        """
        return self._one(
            _calls.claim_execution(
                execution_id,
                worker_id,
                worker_instance_id,
                lease_ttl_ms=lease_ttl_ms,
                lane_id=lane_id,
                lease_id=lease_id,
                attempt_id=attempt_id,
                attempt_policy=attempt_policy,
                attempt_timeout_ms=attempt_timeout_ms,
                execution_deadline_at_ms=execution_deadline_at_ms,
                grant_key=grant_key,
            )
        )

    def claim_next(
        self,
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
    ) -> list[rows.ClaimedExecution]:
        """Claims the next executions of some lanes for a worker, by priority and age, as its capabilities
        and limits allow.

        Raises: invalid_input, invalid_capabilities. Having no work is an empty answer.
        """
        return self._all(
            _calls.claim_next(
                lanes,
                worker_id,
                worker_instance_id,
                capabilities=capabilities,
                max=max,
                lease_ttl_ms=lease_ttl_ms,
                namespace=namespace,
                lane_order=lane_order,
                include_resumed=include_resumed,
                promote_due=promote_due,
                with_payload=with_payload,
                partition_key=partition_key,
            )
        )

    def claim_resumed_execution(
        self,
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
    ) -> rows.Claim:
        """Consumes a claim grant and goes on with the paused attempt under a new lease.

        Raises: invalid_input, execution_not_found, execution_not_leaseable, not_a_resumed_execution,
            lease_conflict, invalid_claim_grant, claim_grant_expired.
        """
        return self._one(
            _calls.claim_resumed_execution(
                execution_id,
                worker_id,
                worker_instance_id,
                lease_ttl_ms=lease_ttl_ms,
                lane_id=lane_id,
                lease_id=lease_id,
                remaining_attempt_timeout_ms=remaining_attempt_timeout_ms,
                execution_deadline_at_ms=execution_deadline_at_ms,
                grant_key=grant_key,
            )
        )

    def close_waitpoint(
        self,
        execution_id: str,
        waitpoint_id: UUID,
        *,
        reason: str = "proactive_close",
        lease_id: UUID | None = None,
        lease_epoch: int | None = None,
        attempt_id: UUID | None = None,
        source: str | None = None,
    ) -> rows.Outcome:
        """Closes one waitpoint, so that its token is refused; the suspension, if there is one, stays open.

        Raises: invalid_input, unauthorized, waitpoint_not_found, invalid_waitpoint_for_execution and the
            codes of _ff_check_fence.
        """
        return self._one(
            _calls.close_waitpoint(
                execution_id,
                waitpoint_id,
                reason=reason,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
                source=source,
            )
        )

    def commit_event_cursor(self, consumer: str, stream: str, cursor: str) -> rows.Outcome:
        """Stores the position of a named consumer of events; an older one than the stored is ignored.

        Raises: invalid_input, invalid_offset, unauthorized, read_only_server.
        """
        return self._one(_calls.commit_event_cursor(consumer, stream, cursor))

    def complete_execution(
        self,
        execution_id: str,
        *,
        lease_id: UUID | None = None,
        lease_epoch: int | None = None,
        attempt_id: UUID | None = None,
        result: bytes | None = None,
        result_encoding: str | None = None,
        source: str | None = None,
    ) -> rows.ExecutionOutcome:
        """Ends an execution successfully and stores its result.

        Raises: invalid_input, payload_too_large, flow_membership_changed and the codes of _ff_check_fence.
        """
        return self._one(
            _calls.complete_execution(
                execution_id,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
                result=result,
                result_encoding=result_encoding,
                source=source,
            )
        )

    def complete_executions(
        self,
        execution_ids: Sequence[str | None],
        lease_ids: Sequence[UUID | None],
        lease_epochs: Sequence[int | None],
        attempt_ids: Sequence[UUID | None],
        *,
        results: Sequence[bytes | None] | None = None,
        result_encodings: Sequence[str | None] | None = None,
    ) -> list[rows.ExecutionItem]:
        """Completes up to 1000 executions and waits for none; one row per item says completed, busy or why
        it was refused.

        Raises: invalid_input for the call as a whole: an array that is missing, nested, too long or of
            another length. An item's refusal is its row: invalid_input, payload_too_large and the codes of
            _ff_check_fence.
        """
        return self._all(
            _calls.complete_executions(
                execution_ids,
                lease_ids,
                lease_epochs,
                attempt_ids,
                results=results,
                result_encodings=result_encodings,
            )
        )

    def create_budget(
        self,
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
    ) -> rows.BudgetCreation:
        """Defines a budget with hard and soft limits per dimension; 0, or no array, is no limit.

        Raises: invalid_input, invalid_budget_scope.
        """
        return self._one(
            _calls.create_budget(
                budget_id,
                scope_type,
                scope_id,
                dimensions=dimensions,
                hard_limits=hard_limits,
                soft_limits=soft_limits,
                reset_interval_ms=reset_interval_ms,
                enforcement_mode=enforcement_mode,
                on_hard_limit=on_hard_limit,
                on_soft_limit=on_soft_limit,
            )
        )

    def create_execution(
        self,
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
    ) -> rows.ExecutionOutcome:
        """Creates an execution, at most once per id and per idempotency key; only its kind is required.

        Raises: invalid_input, payload_too_large, lane_not_accepting, invalid_policy_json,
            invalid_capabilities, invalid_tag_key.
        """
        return self._one(
            _calls.create_execution(
                execution_kind,
                payload=payload,
                lane_id=lane_id,
                namespace=namespace,
                execution_id=execution_id,
                payload_encoding=payload_encoding,
                priority=priority,
                policy=policy,
                tags=tags,
                delay_until_ms=delay_until_ms,
                execution_deadline_at_ms=execution_deadline_at_ms,
                idempotency_key=idempotency_key,
                dedup_ttl_ms=dedup_ttl_ms,
                creator_identity=creator_identity,
            )
        )

    def create_executions(
        self,
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
    ) -> list[rows.ExecutionItem]:
        """Creates up to 1000 executions, each as ff_create_execution would; a refused item is a row and
        changes no other.

        Raises: invalid_input, for the call as a whole. An item's refusal is its row: invalid_input,
            payload_too_large, lane_not_accepting, invalid_policy_json, invalid_capabilities, invalid_tag_key.
        """
        return self._all(
            _calls.create_executions(
                execution_kinds,
                payloads=payloads,
                lane_ids=lane_ids,
                namespace=namespace,
                execution_ids=execution_ids,
                payload_encodings=payload_encodings,
                priorities=priorities,
                policies=policies,
                tags=tags,
                delay_until_ms=delay_until_ms,
                execution_deadlines_at_ms=execution_deadlines_at_ms,
                idempotency_keys=idempotency_keys,
                dedup_ttl_ms=dedup_ttl_ms,
                creator_identity=creator_identity,
            )
        )

    def create_flow(self, flow_id: UUID, flow_kind: str, *, namespace: str = "default") -> rows.FlowCreation:
        """Creates a flow to which members and edges can be added; at most once per id.

        Raises: invalid_input.
        """
        return self._one(_calls.create_flow(flow_id, flow_kind, namespace=namespace))

    def create_pending_waitpoint(
        self,
        execution_id: str,
        lease_id: UUID,
        lease_epoch: int,
        attempt_id: UUID,
        waitpoint_key: str,
        expires_in_ms: int,
        *,
        waitpoint_id: UUID | None = None,
        attempt_index: int | None = None,
    ) -> rows.MintedWaitpoint:
        """Opens a waitpoint before the suspension that will use it, and hands out its token.

        Raises: invalid_input, no_active_lease, waitpoint_already_exists, hmac_secret_not_initialized,
            invalid_secret and the codes of _ff_check_fence but lease_revoked.
        """
        return self._one(
            _calls.create_pending_waitpoint(
                execution_id,
                lease_id,
                lease_epoch,
                attempt_id,
                waitpoint_key,
                expires_in_ms,
                waitpoint_id=waitpoint_id,
                attempt_index=attempt_index,
            )
        )

    def create_quota_policy(
        self,
        quota_policy_id: str,
        window_seconds: int,
        max_requests_per_window: int,
        max_concurrent: int,
        *,
        jitter_ms: int = 0,
    ) -> rows.QuotaCreation:
        """Defines a quota policy: starts per sliding window, active executions at once, or both; 0 is no
        limit.

        Raises: invalid_input, invalid_quota_spec.
        """
        return self._one(
            _calls.create_quota_policy(
                quota_policy_id, window_seconds, max_requests_per_window, max_concurrent, jitter_ms=jitter_ms
            )
        )

    def delay_execution(
        self,
        execution_id: str,
        delay_until_ms: int,
        *,
        lease_id: UUID | None = None,
        lease_epoch: int | None = None,
        attempt_id: UUID | None = None,
        source: str | None = None,
    ) -> rows.Delay:
        """Gives a leased execution back until a time; the same attempt goes on later.

        Raises: invalid_input and the codes of _ff_check_fence.
        """
        return self._one(
            _calls.delay_execution(
                execution_id,
                delay_until_ms,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
                source=source,
            )
        )

    def delete_event_cursor(self, consumer: str, stream: str, *, reason: str | None = None) -> rows.Outcome:
        """Forgets a consumer of events and its stored position, and leaves an operator event.

        Raises: invalid_input.
        """
        return self._one(_calls.delete_event_cursor(consumer, stream, reason=reason))

    def deliver_approval_signal(
        self,
        execution_id: str,
        lane_id: str,
        waitpoint_id: UUID,
        signal_name: str,
        idempotency_suffix: str,
        *,
        dedup_ttl_ms: int = 86_400_000,
        source_identity: str = "",
    ) -> rows.SignalDelivery:
        """Delivers an operator's answer to a waitpoint, without a token.

        Raises: invalid_input, execution_not_found, waitpoint_not_found, target_not_signalable,
            waitpoint_closed, waitpoint_pending_use_buffer_script, signal_limit_exceeded.
        """
        return self._one(
            _calls.deliver_approval_signal(
                execution_id,
                lane_id,
                waitpoint_id,
                signal_name,
                idempotency_suffix,
                dedup_ttl_ms=dedup_ttl_ms,
                source_identity=source_identity,
            )
        )

    def deliver_signal(
        self,
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
    ) -> rows.SignalDelivery:
        """Delivers a signal with the waitpoint's token, and resumes the execution when that makes its
        condition true.

        Raises: invalid_input, payload_too_large, execution_not_found, missing_token, invalid_token,
            token_expired, hmac_secret_not_initialized, invalid_secret, target_not_signalable,
            waitpoint_closed, waitpoint_pending_use_buffer_script, waitpoint_not_found, signal_limit_exceeded.
        """
        return self._one(
            _calls.deliver_signal(
                execution_id,
                waitpoint_id,
                waitpoint_token,
                signal_name,
                signal_id=signal_id,
                signal_category=signal_category,
                source_type=source_type,
                source_identity=source_identity,
                payload=payload,
                payload_encoding=payload_encoding,
                idempotency_key=idempotency_key,
                dedup_ttl_ms=dedup_ttl_ms,
                correlation_id=correlation_id,
                target_scope=target_scope,
                created_at_ms=created_at_ms,
            )
        )

    def deregister_worker(
        self, worker_id: str, worker_instance_id: str, *, namespace: str = "default"
    ) -> rows.Outcome:
        """Takes a worker process that ends out of the registry; leases that it still holds stay until they
        expire.

        Raises: invalid_input.
        """
        return self._one(_calls.deregister_worker(worker_id, worker_instance_id, namespace=namespace))

    def describe_edge(self, flow_id: UUID, edge_id: UUID) -> rows.EdgeSnapshot | None:
        """Everything about one edge of a flow; no row if there is no such edge.

        Raises: invalid_input.
        """
        return self._first(_calls.describe_edge(flow_id, edge_id))

    def describe_execution(self, execution_id: str) -> rows.ExecutionSnapshot | None:
        """Everything about an execution but its payload and result; no row for an unknown id.

        Raises: invalid_input.
        """
        return self._first(_calls.describe_execution(execution_id))

    def describe_flow(self, flow_id: UUID) -> rows.FlowSnapshot | None:
        """Everything about a flow but its members; no row for an unknown id.

        Raises: invalid_input.
        """
        return self._first(_calls.describe_flow(flow_id))

    def dispatch_dependencies(self, *, limit: int = 1_000) -> rows.DependencyDispatch | None:
        """Scanner: resolves edges that ended members of one flow still owe, up to a limit; no row if there
        is nothing to do.

        Raises: invalid_input; what goes wrong with a flow is recorded, and the next flow gets its turn.
        """
        return self._first(_calls.dispatch_dependencies(limit=limit))

    def dispatch_sibling_cancels(self, *, limit: int = 256) -> rows.SiblingDispatch | None:
        """Scanner: cancels siblings of one decided join that were left over, up to a limit; no row if
        there is nothing to do.

        Raises: invalid_input; what goes wrong with a flow is recorded, and the next one gets its turn.
        """
        return self._first(_calls.dispatch_sibling_cancels(limit=limit))

    def doctor(self, *, include_ok: bool = False) -> list[rows.Finding]:
        """Findings about the installation, most severe first, each with what to do; no row when all is
        well.
        """
        return self._all(_calls.doctor(include_ok=include_ok))

    def drain_cancel_backlog(
        self, *, limit: int = 500, flow_id: UUID | None = None
    ) -> rows.BacklogDrain | None:
        """Scanner: cancels members that a flow cancel left over: of the flow named, or of one whose grace
        is over.

        Raises: invalid_input; what goes wrong with a flow that was not named is recorded, and the next one
            gets its turn.
        """
        return self._first(_calls.drain_cancel_backlog(limit=limit, flow_id=flow_id))

    def drain_sibling_cancel_group(self, flow_id: UUID, downstream_execution_id: str) -> rows.Outcome:
        """Marks the deferred sibling cancels of one join as done, whether or not the siblings have ended.

        Raises: invalid_input.
        """
        return self._one(_calls.drain_sibling_cancel_group(flow_id, downstream_execution_id))

    def drain_worker(
        self,
        worker_instance_id: str,
        *,
        draining: bool = True,
        reason: str | None = None,
        namespace: str = "default",
    ) -> rows.Outcome:
        """Asks a live worker process to take no new work, or lets it take work again.

        Raises: invalid_input.
        """
        return self._one(
            _calls.drain_worker(worker_instance_id, draining=draining, reason=reason, namespace=namespace)
        )

    def due_scanners(self) -> list[str]:
        """The names of the background scanners that are due, the one that has been due for longest first."""
        return self._all(_calls.due_scanners())

    def evaluate_flow_eligibility(self, execution_id: str) -> rows.FlowEligibility:
        """Whether an execution could run as far as its dependencies go, in one word.

        Raises: invalid_input.
        """
        return self._one(_calls.evaluate_flow_eligibility(execution_id))

    def event_lag(self, *, stream: str | None = None) -> list[rows.EventStreamLag]:
        """Per event stream: its newest event, what is deliverable and what is held back, by whom, and
        where consumers stand.

        Raises: invalid_input.
        """
        return self._all(_calls.event_lag(stream=stream))

    def event_position(self, stream: str, *, where: str = "tail") -> str:
        """A cursor for ff_read_events: start, before everything that is left, or tail, now.

        Raises: invalid_input.
        """
        return self._one(_calls.event_position(stream, where=where))

    def expire_execution(
        self, execution_id: str, *, expire_reason: str = "attempt_timeout", require_due: bool = False
    ) -> rows.Expiry:
        """Ends an execution because a time limit passed; with p_require_due only if that is still so.

        Raises: invalid_input, flow_membership_changed. Nothing for a state: the row says what was done.
        """
        return self._one(
            _calls.expire_execution(execution_id, expire_reason=expire_reason, require_due=require_due)
        )

    def expire_suspension(self, execution_id: str) -> rows.StateOutcome:
        """Applies the timeout behaviour of a suspension if it is due; every situation is an outcome.

        Raises: invalid_input, flow_membership_changed. What state the execution is in is an outcome, also
            that it is not there.
        """
        return self._one(_calls.expire_suspension(execution_id))

    def fail_execution(
        self,
        execution_id: str,
        *,
        lease_id: UUID | None = None,
        lease_epoch: int | None = None,
        attempt_id: UUID | None = None,
        failure_reason: str = "",
        failure_category: str | None = None,
        retry_policy: JsonObject | None = None,
        source: str | None = None,
    ) -> rows.Failure:
        """Ends the running attempt as failed; a retry follows if policy and category allow one, else the
        execution ends.

        Raises: invalid_input, invalid_policy_json, flow_membership_changed and the codes of _ff_check_fence.
        """
        return self._one(
            _calls.fail_execution(
                execution_id,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
                failure_reason=failure_reason,
                failure_category=failure_category,
                retry_policy=retry_policy,
                source=source,
            )
        )

    def fail_executions(
        self,
        execution_ids: Sequence[str | None],
        lease_ids: Sequence[UUID | None],
        lease_epochs: Sequence[int | None],
        attempt_ids: Sequence[UUID | None],
        *,
        failure_reasons: Sequence[str | None] | None = None,
        failure_categories: Sequence[str | None] | None = None,
        retry_policies: Sequence[JsonObject | None] | None = None,
    ) -> list[rows.FailureItem]:
        """Fails up to 1000 attempts and waits for none; one row per item says retried, ended, busy or why
        it was refused.

        Raises: invalid_input for the call as a whole: an array that is missing, nested, too long or of
            another length. An item's refusal is its row: invalid_input, invalid_policy_json and the codes of
            _ff_check_fence.
        """
        return self._all(
            _calls.fail_executions(
                execution_ids,
                lease_ids,
                lease_epochs,
                attempt_ids,
                failure_reasons=failure_reasons,
                failure_categories=failure_categories,
                retry_policies=retry_policies,
            )
        )

    def find_execution(self, execution_uuid: UUID) -> list[rows.ExecutionListing]:
        """Executions with a uuid, with their wire ids {fp:N}:<uuid>; for callers that have lost the
        partition.

        Raises: invalid_input.
        """
        return self._all(_calls.find_execution(execution_uuid))

    def flow_partition(self, flow_id: UUID) -> int:
        """The partition number of a flow and of all its members.

        Raises: invalid_input.
        """
        return self._one(_calls.flow_partition(flow_id))

    def format_execution_id(self, partition_key: int, execution_id: UUID) -> str:
        """The wire id {fp:N}:<uuid> of a partition number and a uuid."""
        return self._one(_calls.format_execution_id(partition_key, execution_id))

    def get_budget_status(self, budget_id: str) -> rows.BudgetStatus:
        """A budget with its labels, breaches and resets; its usage is in ff_get_budget_usage.

        Raises: invalid_input, budget_not_found.
        """
        return self._one(_calls.get_budget_status(budget_id))

    def get_budget_usage(self, budget_id: str) -> list[rows.BudgetDimension]:
        """Usage, reservations and limits of a budget per dimension, and whether the hard limit is reached.

        Raises: invalid_input, budget_not_found.
        """
        return self._all(_calls.get_budget_usage(budget_id))

    def get_execution_namespace(self, execution_id: str) -> str | None:
        """The namespace of an execution; NULL for an unknown id.

        Raises: invalid_input.
        """
        return self._one(_calls.get_execution_namespace(execution_id))

    def get_execution_result(self, execution_id: str) -> rows.ExecutionResult | None:
        """The result of an execution, NULL while it has none; no row for an unknown id.

        Raises: invalid_input.
        """
        return self._first(_calls.get_execution_result(execution_id))

    def get_execution_tag(self, execution_id: str, key: str) -> str | None:
        """The value of a tag; NULL for an unknown tag and for an unknown execution alike.

        Raises: invalid_input, invalid_tag_key.
        """
        return self._one(_calls.get_execution_tag(execution_id, key))

    def get_flow_tag(self, flow_id: UUID, key: str) -> str | None:
        """The value of one tag of a flow; NULL if the flow has none or is unknown.

        Raises: invalid_input, invalid_tag_key.
        """
        return self._one(_calls.get_flow_tag(flow_id, key))

    def get_quota_policy(self, quota_policy_id: str) -> rows.QuotaStatus | None:
        """The limits of a quota policy, the starts in its window and the slots in use; no row for an
        unknown id.

        Raises: invalid_input.
        """
        return self._first(_calls.get_quota_policy(quota_policy_id))

    def grant_next(
        self,
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
    ) -> list[rows.GrantedExecution]:
        """Reserves the next executions of some lanes for a worker, chosen and admitted as ff_claim_next
        does.

        Raises: invalid_input, invalid_capabilities. Having no work is an empty answer.
        """
        return self._all(
            _calls.grant_next(
                lanes,
                worker_id,
                worker_instance_id,
                capabilities=capabilities,
                max=max,
                grant_ttl_ms=grant_ttl_ms,
                namespace=namespace,
                lane_order=lane_order,
                include_resumed=include_resumed,
                promote_due=promote_due,
                partition_key=partition_key,
            )
        )

    def heartbeat_worker(
        self, worker_instance_id: str, *, namespace: str = "default"
    ) -> rows.WorkerHeartbeat:
        """Extends the registration of a live worker process and tells it whether to drain.

        Raises: invalid_input.
        """
        return self._one(_calls.heartbeat_worker(worker_instance_id, namespace=namespace))

    def initialize(
        self,
        *,
        num_flow_partitions: int = 256,
        lanes: Sequence[str] = ("default",),
        hmac_kid: str | None = None,
        hmac_secret_hex: str | None = None,
    ) -> list[rows.InitializeStep]:
        """Prepares an installation: partitions, signing key, lanes, scanners and event streams, as far as
        they are missing.

        Raises: invalid_input, schema_version_mismatch, partition_config_mismatch, invalid_kid,
            invalid_secret_hex, retry_exhausted.
        """
        return self._all(
            _calls.initialize(
                num_flow_partitions=num_flow_partitions,
                lanes=lanes,
                hmac_kid=hmac_kid,
                hmac_secret_hex=hmac_secret_hex,
            )
        )

    def issue_claim_grant(
        self,
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
    ) -> rows.Grant:
        """Reserves an eligible execution for a worker and returns the key of the grant, or says which
        capabilities it lacks.

        Raises: invalid_input, execution_not_found, execution_not_eligible, grant_already_exists,
            execution_not_in_eligible_set, invalid_capabilities.
        """
        return self._one(
            _calls.issue_claim_grant(
                execution_id,
                worker_id,
                worker_instance_id,
                lane_id,
                worker_capabilities=worker_capabilities,
                grant_ttl_ms=grant_ttl_ms,
                capability_hash=capability_hash,
                route_snapshot=route_snapshot,
                admission_summary=admission_summary,
            )
        )

    def issue_grant_and_claim(
        self,
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
    ) -> rows.Claim:
        """Takes a named execution at once, past every admission check: a new attempt, or the paused one.

        Raises: invalid_input, invalid_policy_json, execution_not_found, execution_not_eligible,
            lease_conflict, active_attempt_exists, grant_already_exists, execution_not_in_eligible_set.
        """
        return self._one(
            _calls.issue_grant_and_claim(
                execution_id,
                lease_ttl_ms,
                lane_id=lane_id,
                worker_id=worker_id,
                worker_instance_id=worker_instance_id,
                lease_id=lease_id,
                attempt_id=attempt_id,
                attempt_policy=attempt_policy,
                attempt_timeout_ms=attempt_timeout_ms,
                execution_deadline_at_ms=execution_deadline_at_ms,
            )
        )

    def issue_reclaim_grant(
        self,
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
    ) -> rows.Grant:
        """Reserves an execution with a lost lease for a worker and returns the key of the grant, or the
        capabilities it lacks.

        Raises: invalid_input, execution_not_found, execution_not_reclaimable, grant_already_exists,
            invalid_capabilities.
        """
        return self._one(
            _calls.issue_reclaim_grant(
                execution_id,
                worker_id,
                worker_instance_id,
                lane_id=lane_id,
                worker_capabilities=worker_capabilities,
                grant_ttl_ms=grant_ttl_ms,
                capability_hash=capability_hash,
                route_snapshot=route_snapshot,
                admission_summary=admission_summary,
            )
        )

    def list_attempts(
        self, execution_id: str, *, after_index: int | None = None, limit: int = 100
    ) -> list[rows.AttemptListing]:
        """The attempts of an execution, oldest first, a page at a time.

        Raises: invalid_input.
        """
        return self._all(_calls.list_attempts(execution_id, after_index=after_index, limit=limit))

    def list_edges(self, execution_id: str, direction: str) -> list[rows.EdgeSnapshot]:
        """The edges that enter (incoming) or leave (outgoing) an execution, in the order of their ids.

        Raises: invalid_input.
        """
        return self._all(_calls.list_edges(execution_id, direction))

    def list_ended_suspensions(
        self, execution_id: str, *, waitpoint_key: str | None = None
    ) -> list[rows.EndedSuspension]:
        """How the pauses of an execution since its last replay ended, and the signals that ended them; one
        key or all.

        Raises: invalid_input, execution_not_found.
        """
        return self._all(_calls.list_ended_suspensions(execution_id, waitpoint_key=waitpoint_key))

    def list_error_codes(self) -> list[rows.ErrorCodeRow]:
        """Lists every error code with its SQLSTATE, category, retry class and hint, ordered by SQLSTATE."""
        return self._all(_calls.list_error_codes())

    def list_executions(
        self,
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
    ) -> list[rows.ExecutionListing]:
        """Executions in the order of their keys, a page at a time, with filters for people.

        Raises: invalid_input, invalid_tag_key.
        """
        return self._all(
            _calls.list_executions(
                partition_key=partition_key,
                after=after,
                limit=limit,
                namespace=namespace,
                lane_id=lane_id,
                public_state=public_state,
                lifecycle_phase=lifecycle_phase,
                flow_id=flow_id,
                tag_key=tag_key,
                tag_value=tag_value,
            )
        )

    def list_expired_leases(
        self,
        *,
        as_of_ms: int | None = None,
        namespace: str | None = None,
        limit: int = 1_000,
        after_expires_at_ms: int | None = None,
        after_partition_key: int | None = None,
        after_execution_id: UUID | None = None,
    ) -> list[rows.ExpiredLeaseListing]:
        """The leases that have run out and were not taken over yet, longest expired first, a page at a
        time.

        Raises: invalid_input.
        """
        return self._all(
            _calls.list_expired_leases(
                as_of_ms=as_of_ms,
                namespace=namespace,
                limit=limit,
                after_expires_at_ms=after_expires_at_ms,
                after_partition_key=after_partition_key,
                after_execution_id=after_execution_id,
            )
        )

    def list_flow_edge_groups(self, flow_id: UUID) -> list[rows.EdgeGroupListing]:
        """The join of every child in a flow: policy, counts and verdict.

        Raises: invalid_input.
        """
        return self._all(_calls.list_flow_edge_groups(flow_id))

    def list_flows(
        self, *, partition_key: int | None = None, cursor: UUID | None = None, limit: int = 100
    ) -> list[rows.FlowListing]:
        """Flows in the order of their keys, a page at a time.

        Raises: invalid_input.
        """
        return self._all(_calls.list_flows(partition_key=partition_key, cursor=cursor, limit=limit))

    def list_lanes(self, *, after: str | None = None, limit: int = 100) -> list[rows.LaneListing]:
        """The lanes with their states, in byte order of their names, a page at a time.

        Raises: invalid_input.
        """
        return self._all(_calls.list_lanes(after=after, limit=limit))

    def list_lease_history(
        self, execution_id: str, *, after_event_id: int | None = None, limit: int = 100
    ) -> list[rows.LeaseHistoryRow]:
        """The lease events of an execution that are still kept, oldest first, a page at a time.

        Raises: invalid_input.
        """
        return self._all(_calls.list_lease_history(execution_id, after_event_id=after_event_id, limit=limit))

    def list_pending_waitpoints(
        self, execution_id: str, *, after: UUID | None = None, limit: int = 100
    ) -> list[rows.WaitpointListing]:
        """The open waitpoints of an execution, a page at a time, with key and fingerprint of their tokens.

        Raises: invalid_input, execution_not_found.
        """
        return self._all(_calls.list_pending_waitpoints(execution_id, after=after, limit=limit))

    def list_scanner_failures(self, *, limit: int = 100) -> list[rows.ScannerFailureListing]:
        """The items at which background scanners keep failing, with the last error and until when they are
        left out.

        Raises: invalid_input.
        """
        return self._all(_calls.list_scanner_failures(limit=limit))

    def list_scanners(self) -> list[rows.ScannerListing]:
        """The background scanners in their order: schedule, last run, failures, and for how long each has
        been due.
        """
        return self._all(_calls.list_scanners())

    def list_settings(self) -> list[rows.SettingRow]:
        """Every setting of the engine, with its value in force and its default."""
        return self._all(_calls.list_settings())

    def list_suspended(
        self,
        partition_key: int,
        *,
        after_suspended_at_ms: int | None = None,
        after_execution_id: str | None = None,
        limit: int = 100,
    ) -> list[rows.SuspensionListing]:
        """The suspended executions of a partition, longest suspended first, a page at a time.

        Raises: invalid_input.
        """
        return self._all(
            _calls.list_suspended(
                partition_key,
                after_suspended_at_ms=after_suspended_at_ms,
                after_execution_id=after_execution_id,
                limit=limit,
            )
        )

    def list_waitpoint_hmac_kids(self) -> list[rows.KidListing]:
        """The names of the signing keys that verify tokens right now, the current one first; never a
        secret.
        """
        return self._all(_calls.list_waitpoint_hmac_kids())

    def list_worker_leases(
        self, worker_instance_id: str, *, after: str | None = None, limit: int = 1_000
    ) -> list[rows.WorkerLeaseListing]:
        """The leases that a worker process holds or has let run out, a page at a time; reads every lease
        that is out.

        Raises: invalid_input.
        """
        return self._all(_calls.list_worker_leases(worker_instance_id, after=after, limit=limit))

    def list_workers(
        self,
        *,
        namespace: str | None = None,
        after_namespace: str | None = None,
        after_worker_instance_id: str | None = None,
        limit: int = 1_000,
        include_lapsed: bool = False,
    ) -> list[rows.WorkerListing]:
        """The worker processes that are known, by namespace and instance id, a page at a time.

        Raises: invalid_input.
        """
        return self._all(
            _calls.list_workers(
                namespace=namespace,
                after_namespace=after_namespace,
                after_worker_instance_id=after_worker_instance_id,
                limit=limit,
                include_lapsed=include_lapsed,
            )
        )

    def lock_tick_loop(self) -> bool:
        """Whether the calling transaction is the one that runs ff_tick_loop; true for one transaction at a
        time.
        """
        return self._one(_calls.lock_tick_loop())

    def mark_lease_expired_if_due(self, execution_id: str) -> rows.ExpiryMark:
        """Marks a lease that has run out as reclaimable; says why not if there is nothing to mark.

        Raises: invalid_input.
        """
        return self._one(_calls.mark_lease_expired_if_due(execution_id))

    def mark_worker_dead(
        self, worker_instance_id: str, *, reason: str | None = None, namespace: str = "default"
    ) -> rows.Outcome:
        """Takes a worker process out of the registry; its leases stay until they expire or are revoked.

        Raises: invalid_input.
        """
        return self._one(_calls.mark_worker_dead(worker_instance_id, reason=reason, namespace=namespace))

    def metrics(self) -> list[rows.Metric]:
        """Measurements for monitoring: queues, leases, throughput, workers, events, scanners, budgets,
        quotas and tables.
        """
        return self._all(_calls.metrics())

    def mint_execution_id(self, flow_id: UUID, *, uuid: UUID | None = None) -> str:
        """A new execution id on the partition of a flow; deterministic when the uuid is given.

        Raises: invalid_input.
        """
        return self._one(_calls.mint_execution_id(flow_id, uuid=uuid))

    def mint_solo_execution_id(self, lane_id: str, *, uuid: UUID | None = None, spread: bool = False) -> str:
        """A new execution id on the partition of a lane, or with p_spread on a random one.

        Raises: invalid_input.
        """
        return self._one(_calls.mint_solo_execution_id(lane_id, uuid=uuid, spread=spread))

    def move_to_waiting_children(
        self,
        execution_id: str,
        *,
        lease_id: UUID | None = None,
        lease_epoch: int | None = None,
        attempt_id: UUID | None = None,
        source: str | None = None,
    ) -> rows.ExecutionOutcome:
        """Gives a leased execution back until its dependencies are resolved, or at once if it has none
        open.

        Raises: invalid_input, flow_membership_changed and the codes of _ff_check_fence.
        """
        return self._one(
            _calls.move_to_waiting_children(
                execution_id, lease_id=lease_id, lease_epoch=lease_epoch, attempt_id=attempt_id, source=source
            )
        )

    def now_ms(self) -> int:
        """The time of the engine: milliseconds since 1970, by the clock of the database."""
        return self._one(_calls.now_ms())

    def observe_signals(self, execution_id: str, attempt_index: int) -> list[rows.ObservedSignal]:
        """The signals that satisfied the resume condition of an attempt's last pause; none if it ended in
        any other way.

        Raises: invalid_input, execution_not_found.
        """
        return self._all(_calls.observe_signals(execution_id, attempt_index))

    def parse_execution_id(self, execution_id: str) -> rows.ExecutionKey:
        """Splits a wire id {fp:N}:<uuid> into partition number and uuid.

        Raises: invalid_input (reason missing_tag, bad_partition or bad_uuid).
        """
        return self._one(_calls.parse_execution_id(execution_id))

    def ping(self) -> int:
        """Answers with the time of the engine."""
        return self._one(_calls.ping())

    def project_flow_summaries(self, *, limit: int = 100) -> rows.Scan:
        """Scanner: counts the members of flows whose summary is missing, unfinished or out of date, oldest
        first.

        Raises: invalid_input; what goes wrong with one flow is counted and recorded.
        """
        return self._one(_calls.project_flow_summaries(limit=limit))

    def project_flow_summary(self, flow_id: UUID) -> bool:
        """Counts the members of a flow anew and stores the summary; false if it has none.

        Raises: invalid_input.
        """
        return self._one(_calls.project_flow_summary(flow_id))

    def promote_blocked_to_eligible(self, execution_id: str) -> rows.StateOutcome:
        """Lets an execution go that waits for dependencies although none of them is open; for repairs.

        Raises: invalid_input, execution_not_found, flow_membership_changed, not_runnable,
            not_blocked_by_deps, deps_not_satisfied.
        """
        return self._one(_calls.promote_blocked_to_eligible(execution_id))

    def promote_delayed(self, execution_id: str) -> rows.StateOutcome:
        """Makes a delayed execution eligible once its time has come; says why not if there is nothing to
        promote.

        Raises: invalid_input.
        """
        return self._one(_calls.promote_delayed(execution_id))

    def promote_due(self, *, limit: int = 50, lanes: Sequence[str | None] | None = None) -> rows.Scan:
        """Scanner: makes delayed executions eligible whose time has come, of all lanes or of some.

        Raises: invalid_input; what goes wrong with one execution is counted and recorded.
        """
        return self._one(_calls.promote_due(limit=limit, lanes=lanes))

    def prune_events(self, *, limit: int = 5_000) -> rows.Scan:
        """Scanner: deletes events older than the window of their stream, in the order in which they are
        read.

        Raises: invalid_input; what goes wrong with one stream is counted and recorded.
        """
        return self._one(_calls.prune_events(limit=limit))

    def queue_stats(self, *, lane_id: str | None = None) -> list[rows.QueueStat]:
        """Per lane: executions that have not ended, by state; the age of the oldest that can be claimed;
        expired leases.

        Raises: invalid_input.
        """
        return self._all(_calls.queue_stats(lane_id=lane_id))

    def read_attempt_stream(
        self,
        execution_id: str,
        attempt_index: int,
        *,
        from_: str = "start",
        to: str = "end",
        after: str | None = None,
        count_limit: int = 1_000,
        visibility: str = "all",
    ) -> list[rows.StreamEntry]:
        """Frames of an attempt in id order, and the end of its stream; one row without a frame if there is
        none.

        Raises: invalid_input, invalid_offset.
        """
        return self._all(
            _calls.read_attempt_stream(
                execution_id,
                attempt_index,
                from_=from_,
                to=to,
                after=after,
                count_limit=count_limit,
                visibility=visibility,
            )
        )

    def read_current_attempt_index(self, execution_id: str) -> int:
        """The index of the current attempt; 0 before the first claim.

        Raises: invalid_input, execution_not_found.
        """
        return self._one(_calls.read_current_attempt_index(execution_id))

    def read_events(
        self,
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
    ) -> list[rows.Event]:
        """The next events of a stream after a cursor, in an order that no late commit can upset, and the
        next cursor.

        Raises: invalid_input, invalid_offset, event_cursor_expired.
        """
        return self._all(
            _calls.read_events(
                stream,
                cursor,
                limit=limit,
                namespace=namespace,
                tag_key=tag_key,
                tag_value=tag_value,
                partition_key=partition_key,
                event_types=event_types,
                execution_id=execution_id,
            )
        )

    def read_execution_context(self, execution_id: str) -> rows.ExecutionContext:
        """Payload, kind, tags and policy of an execution; the payload is empty, never NULL.

        Raises: invalid_input, execution_not_found.
        """
        return self._one(_calls.read_execution_context(execution_id))

    def read_execution_info(self, execution_id: str) -> rows.ExecutionInfo | None:
        """The state of an execution with its counters and reasons; no row for an unknown id.

        Raises: invalid_input.
        """
        return self._first(_calls.read_execution_info(execution_id))

    def read_execution_state(self, execution_id: str) -> str | None:
        """The public state of an execution; NULL for an unknown id.

        Raises: invalid_input.
        """
        return self._one(_calls.read_execution_state(execution_id))

    def read_flow_summary(self, flow_id: UUID, *, live: bool = False) -> rows.FlowSummarySnapshot | None:
        """How the members of a flow fare, as last counted or, if asked, as they are now.

        Raises: invalid_input.
        """
        return self._first(_calls.read_flow_summary(flow_id, live=live))

    def read_summary(self, execution_id: str, attempt_index: int) -> rows.SummaryDocument | None:
        """The summary document of an attempt with its version; no row if no summary frame was ever
        appended.

        Raises: invalid_input.
        """
        return self._first(_calls.read_summary(execution_id, attempt_index))

    def read_total_attempt_count(self, execution_id: str) -> int:
        """How many attempts an execution has had.

        Raises: invalid_input, execution_not_found.
        """
        return self._one(_calls.read_total_attempt_count(execution_id))

    def read_waitpoint_token(self, execution_id: str, waitpoint_id: UUID) -> rows.ReadableToken | None:
        """The token of an open waitpoint, for an operator to hand out again; no row for anything else.

        Raises: invalid_input, hmac_secret_not_initialized, invalid_secret.
        """
        return self._first(_calls.read_waitpoint_token(execution_id, waitpoint_id))

    def reclaim_execution(
        self,
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
    ) -> rows.Reclaim:
        """Takes over an execution whose lease expired or was revoked, or fails it when its reclaims are
        used up.

        Raises: invalid_input, invalid_policy_json, execution_not_found, flow_membership_changed,
            execution_not_reclaimable, invalid_claim_grant, claim_grant_expired.
        """
        return self._one(
            _calls.reclaim_execution(
                execution_id,
                worker_id,
                worker_instance_id,
                lease_ttl_ms=lease_ttl_ms,
                lane_id=lane_id,
                lease_id=lease_id,
                attempt_id=attempt_id,
                attempt_policy=attempt_policy,
                attempt_timeout_ms=attempt_timeout_ms,
                grant_key=grant_key,
                max_reclaim_count=max_reclaim_count,
            )
        )

    def reclaim_next(
        self,
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
    ) -> list[rows.ReclaimedExecution]:
        """Takes over executions of some lanes whose lease expired or was revoked, or fails those whose
        reclaims are used up.

        Raises: invalid_input, invalid_capabilities. Having nothing to take over is an empty answer.
        """
        return self._all(
            _calls.reclaim_next(
                lanes,
                worker_id,
                worker_instance_id,
                capabilities=capabilities,
                max=max,
                lease_ttl_ms=lease_ttl_ms,
                namespace=namespace,
                lane_order=lane_order,
                with_payload=with_payload,
                partition_key=partition_key,
                grace_ms=grace_ms,
                max_reclaim_count=max_reclaim_count,
            )
        )

    def reconcile_dependencies(self, *, limit: int = 50) -> rows.DependencyReconciliation:
        """Scanner: the safety net behind the resolution of dependencies; in a sound database it finds
        nothing.

        Raises: invalid_input; what goes wrong with one item is counted and recorded.
        """
        return self._one(_calls.reconcile_dependencies(limit=limit))

    def reconcile_quota(self, *, limit: int = 500) -> rows.QuotaReconciliation:
        """Scanner: frees slots of executions that do not run, and deletes lapsed window entries and
        admissions.

        Raises: invalid_input; what goes wrong with one slot is counted and recorded.
        """
        return self._one(_calls.reconcile_quota(limit=limit))

    def reconcile_sibling_cancel_group(
        self, flow_id: UUID, downstream_execution_id: str
    ) -> rows.SiblingReconciliation:
        """Checks one join whose sibling cancels are said to be pending, and clears what is stale; cancels
        nothing.

        Raises: invalid_input.
        """
        return self._one(_calls.reconcile_sibling_cancel_group(flow_id, downstream_execution_id))

    def reconcile_sibling_cancels(self, *, limit: int = 50) -> rows.SiblingReconcileScan:
        """Scanner: checks joins of one flow whose sibling cancels are said to be pending, and clears what
        is stale.

        Raises: invalid_input; what goes wrong with a flow is recorded, and the next one gets its turn.
        """
        return self._one(_calls.reconcile_sibling_cancels(limit=limit))

    def record_signal_auth_failure(self, execution_id: str) -> None:
        """Notes, at most once per second, that an execution received a signal with a bad token; never
        raises.
        """
        self._one(_calls.record_signal_auth_failure(execution_id))

    def record_spend(
        self,
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
    ) -> rows.UsageReport:
        """Adds what an execution spent to a budget and to its ledger, once per key, unless that would pass
        a hard limit.

        Raises: invalid_input, budget_not_found and the codes of _ff_check_fence. A breach is an outcome.
        """
        return self._one(
            _calls.record_spend(
                budget_id,
                dimensions,
                deltas,
                execution_id,
                idempotency_key=idempotency_key,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
                source=source,
            )
        )

    def register_lane(self, lane_id: str, *, registered_by: str = "operator") -> rows.Outcome:
        """Makes a lane known before its first execution; a lane that is used registers itself.

        Raises: invalid_input.
        """
        return self._one(_calls.register_lane(lane_id, registered_by=registered_by))

    def register_worker(
        self,
        worker_id: str,
        worker_instance_id: str,
        *,
        lanes: Sequence[str] = ("default",),
        capabilities: Sequence[str] = (),
        namespace: str = "default",
        liveness_ttl_ms: int = 60_000,
    ) -> rows.WorkerRegistration:
        """Announces a worker process with its lanes and capabilities, or refreshes what is known of it.

        Raises: invalid_input, invalid_capabilities.
        """
        return self._one(
            _calls.register_worker(
                worker_id,
                worker_instance_id,
                lanes=lanes,
                capabilities=capabilities,
                namespace=namespace,
                liveness_ttl_ms=liveness_ttl_ms,
            )
        )

    def release_admission(self, quota_policy_id: str, execution_id: str) -> rows.Outcome:
        """Gives back the slot of an admission whose grant or claim did not happen; the rate token stays
        spent.

        Raises: invalid_input.
        """
        return self._one(_calls.release_admission(quota_policy_id, execution_id))

    def release_budget(self, budget_id: str, execution_id: str) -> rows.Outcome:
        """Gives back everything that one execution recorded on a budget since its last reset.

        Raises: invalid_input.
        """
        return self._one(_calls.release_budget(budget_id, execution_id))

    def release_reservation(
        self,
        budget_id: str,
        reservation_key: str,
        execution_id: str,
        *,
        lease_id: UUID | None = None,
        lease_epoch: int | None = None,
        attempt_id: UUID | None = None,
        source: str | None = None,
    ) -> rows.Outcome:
        """Gives a reservation back unused; its amounts are available again at once.

        Raises: invalid_input, budget_not_found, reservation_not_found, reservation_not_open and the codes of
            _ff_check_fence.
        """
        return self._one(
            _calls.release_reservation(
                budget_id,
                reservation_key,
                execution_id,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
                source=source,
            )
        )

    def renew_lease(
        self,
        execution_id: str,
        *,
        lease_id: UUID | None = None,
        lease_epoch: int | None = None,
        attempt_id: UUID | None = None,
        lease_ttl_ms: int = 30_000,
        attempt_index: int | None = None,
    ) -> rows.Renewal:
        """Extends a lease the caller still holds and returns it with its new expiry.

        Raises: invalid_input and the codes of _ff_check_fence.
        """
        return self._one(
            _calls.renew_lease(
                execution_id,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
                lease_ttl_ms=lease_ttl_ms,
                attempt_index=attempt_index,
            )
        )

    def renew_leases(
        self,
        execution_ids: Sequence[str | None],
        lease_ids: Sequence[UUID | None],
        lease_epochs: Sequence[int | None],
        attempt_ids: Sequence[UUID | None],
        *,
        lease_ttl_ms: int = 30_000,
    ) -> list[rows.RenewalItem]:
        """Extends up to 1000 leases that the caller holds; one row per item says until when, or busy, or
        why it was refused.

        Raises: invalid_input for the call as a whole: the ttl, or an array that is missing, nested, too long
            or of another length. An item's refusal is its row: invalid_input and the codes of
            _ff_check_fence.
        """
        return self._all(
            _calls.renew_leases(
                execution_ids, lease_ids, lease_epochs, attempt_ids, lease_ttl_ms=lease_ttl_ms
            )
        )

    def replay_execution(
        self,
        execution_id: str,
        *,
        reason: str | None = None,
        requested_by: str | None = None,
        force: bool = False,
    ) -> rows.Replay:
        """Re-opens an ended execution, with its full retries; a completed one only by force, and its
        result is given up.

        Raises: invalid_input, execution_not_found, flow_membership_changed, execution_not_terminal,
            max_replays_exhausted, replay_needs_force, completion_dispatch_pending.
        """
        return self._one(
            _calls.replay_execution(execution_id, reason=reason, requested_by=requested_by, force=force)
        )

    def report_usage_and_check(
        self,
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
    ) -> rows.UsageReport:
        """Adds usage to a budget once per key, unless that would pass a hard limit; breaches are outcomes.

        Raises: invalid_input, budget_not_found and the codes of _ff_check_fence. A breach is an outcome.
        """
        return self._one(
            _calls.report_usage_and_check(
                budget_id,
                dimensions,
                deltas,
                dedup_key=dedup_key,
                execution_id=execution_id,
                lease_id=lease_id,
                lease_epoch=lease_epoch,
                attempt_id=attempt_id,
                source=source,
            )
        )

    def reserve_budget(
        self,
        budget_id: str,
        dimensions: Sequence[str | None],
        amounts: Sequence[int | None],
        execution_id: str,
        lease_id: UUID,
        lease_epoch: int,
        attempt_id: UUID,
        *,
        reservation_key: str | None = None,
    ) -> rows.Reservation:
        """Sets an amount of a budget aside for the lease holder, unless that would pass a hard limit.

        Raises: invalid_input, budget_not_found, reservation_not_open and the codes of _ff_check_fence. A
            breach is an outcome.
        """
        return self._one(
            _calls.reserve_budget(
                budget_id,
                dimensions,
                amounts,
                execution_id,
                lease_id,
                lease_epoch,
                attempt_id,
                reservation_key=reservation_key,
            )
        )

    def reset_budget(self, budget_id: str) -> rows.BudgetReset:
        """Sets all usage of a budget back to zero and says when the next reset is due, 0 if never.

        Raises: invalid_input, budget_not_found.
        """
        return self._one(_calls.reset_budget(budget_id))

    def resolve_dependency(
        self, flow_id: UUID, edge_id: UUID, *, upstream_outcome: str | None = None
    ) -> rows.EdgeResolution:
        """Resolves one applied edge by hand, as the end of its upstream would; for repairs.

        Raises: invalid_input, invalid_dependency, execution_not_found, execution_not_terminal.
        """
        return self._one(_calls.resolve_dependency(flow_id, edge_id, upstream_outcome=upstream_outcome))

    def resolve_execution_flow_id(self, execution_id: str) -> UUID | None:
        """The flow of an execution; NULL when it belongs to none or is unknown.

        Raises: invalid_input.
        """
        return self._one(_calls.resolve_execution_flow_id(execution_id))

    def resume_execution(
        self, execution_id: str, *, trigger: str = "operator", resume_delay_ms: int = 0
    ) -> rows.Resumption:
        """Resumes a suspended execution by decision of an operator, at once or after a delay.

        Raises: invalid_input, execution_not_found, execution_not_suspended.
        """
        return self._one(
            _calls.resume_execution(execution_id, trigger=trigger, resume_delay_ms=resume_delay_ms)
        )

    def revoke_lease(
        self,
        execution_id: str,
        *,
        expected_lease_id: UUID | None = None,
        worker_instance_id: str | None = None,
        reason: str = "operator",
    ) -> rows.Revocation:
        """Takes the lease away from its owner; the execution waits for somebody to reclaim or cancel it.

        Raises: invalid_input, execution_not_found, execution_not_active, no_active_lease, stale_lease.
        """
        return self._one(
            _calls.revoke_lease(
                execution_id,
                expected_lease_id=expected_lease_id,
                worker_instance_id=worker_instance_id,
                reason=reason,
            )
        )

    def rotate_waitpoint_hmac_secret(
        self, new_kid: str, *, new_secret_hex: str | None = None, grace_ms: int = 86_400_000
    ) -> rows.KeyRotation:
        """Installs a new signing key for waitpoint tokens; tokens of the old one stay good for a grace
        period.

        Raises: invalid_kid, invalid_secret_hex, invalid_grace_ms, rotation_conflict, retry_exhausted.
        """
        return self._one(
            _calls.rotate_waitpoint_hmac_secret(new_kid, new_secret_hex=new_secret_hex, grace_ms=grace_ms)
        )

    def scan_attempt_timeouts(self, *, limit: int = 50, partition_key: int | None = None) -> rows.Scan:
        """Scanner: ends executions whose running attempt has taken too long, longest overdue first.

        Raises: invalid_input; what goes wrong with one execution is counted and recorded.
        """
        return self._one(_calls.scan_attempt_timeouts(limit=limit, partition_key=partition_key))

    def scan_budget_resets(self, *, limit: int = 20) -> int:
        """Scanner: resets budgets whose time has come and says how many.

        Raises: invalid_input; what goes wrong with one budget is recorded.
        """
        return self._one(_calls.scan_budget_resets(limit=limit))

    def scan_claim_floors(self, *, limit: int = 200) -> rows.FloorScan:
        """Scanner: moves the claim floors that were not checked for a while, and deletes those of idle
        queue segments.

        Raises: invalid_input.
        """
        return self._one(_calls.scan_claim_floors(limit=limit))

    def scan_eligible(
        self,
        lane: str,
        *,
        limit: int = 100,
        capabilities: Sequence[str | None] | None = None,
        after_priority: int | None = None,
        after_created_at_ms: int | None = None,
        after_execution_id: str | None = None,
    ) -> list[rows.EligibleListing]:
        """The eligible executions of a lane in queue order, a page at a time; with capabilities only what
        they cover.

        Raises: invalid_input, invalid_capabilities.
        """
        return self._all(
            _calls.scan_eligible(
                lane,
                limit=limit,
                capabilities=capabilities,
                after_priority=after_priority,
                after_created_at_ms=after_created_at_ms,
                after_execution_id=after_execution_id,
            )
        )

    def scan_event_notify(self) -> rows.Scan:
        """Scanner: wakes those who wait on channels whose notifications are left to the tick, if there is
        news.
        """
        return self._one(_calls.scan_event_notify())

    def scan_execution_deadlines(self, *, limit: int = 50, partition_key: int | None = None) -> rows.Scan:
        """Scanner: ends executions whose deadline has passed, in whatever phase they are.

        Raises: invalid_input; what goes wrong with one execution is counted and recorded.
        """
        return self._one(_calls.scan_execution_deadlines(limit=limit, partition_key=partition_key))

    def scan_expired_leases(self, *, limit: int = 50, partition_key: int | None = None) -> rows.Scan:
        """Scanner: marks leases that have run out as reclaimable, longest expired first.

        Raises: invalid_input; what goes wrong with one execution is counted and recorded.
        """
        return self._one(_calls.scan_expired_leases(limit=limit, partition_key=partition_key))

    def scan_future_times(self, *, limit: int = 1_000) -> rows.Scan:
        """Scanner: counts leases, retry delays, budget periods and heartbeats from now that were dated by
        a clock that was ahead.

        Raises: invalid_input.
        """
        return self._one(_calls.scan_future_times(limit=limit))

    def scan_pending_waitpoint_expiry(
        self, *, limit: int = 100, partition_key: int | None = None
    ) -> rows.Scan:
        """Scanner: closes pending waitpoints that no suspension took into use in time.

        Raises: invalid_input; what goes wrong with one waitpoint is counted and recorded.
        """
        return self._one(_calls.scan_pending_waitpoint_expiry(limit=limit, partition_key=partition_key))

    def scan_stream_ttl(self, *, limit: int = 100, partition_key: int | None = None) -> rows.Scan:
        """Scanner: deletes the frames of best-effort streams whose time is over, longest over first.

        Raises: invalid_input; what goes wrong with one stream is counted and recorded.
        """
        return self._one(_calls.scan_stream_ttl(limit=limit, partition_key=partition_key))

    def scan_suspension_timeouts(self, *, limit: int = 50, partition_key: int | None = None) -> rows.Scan:
        """Scanner: applies the timeout behaviour of suspensions whose time has come, longest overdue
        first.

        Raises: invalid_input; what goes wrong with one execution is counted and recorded.
        """
        return self._one(_calls.scan_suspension_timeouts(limit=limit, partition_key=partition_key))

    def scan_unblock(self, *, limit: int = 100) -> rows.UnblockScan:
        """Scanner: puts executions back on their queue whose budget, quota, worker or lane no longer
        blocks them.

        Raises: invalid_input; what goes wrong with one execution is counted and recorded.
        """
        return self._one(_calls.scan_unblock(limit=limit))

    def seed_waitpoint_hmac_secret(self, kid: str, *, secret_hex: str | None = None) -> rows.KeySeeding:
        """Installs the first signing key for waitpoint tokens, once; safe to call at every start.

        Raises: invalid_kid, invalid_secret_hex, invalid_input, retry_exhausted.
        """
        return self._one(_calls.seed_waitpoint_hmac_secret(kid, secret_hex=secret_hex))

    def set_edge_group_policy(
        self,
        flow_id: UUID,
        downstream_execution_id: str,
        policy_kind: str,
        *,
        on_satisfied: str | None = None,
        k: int | None = None,
    ) -> rows.Outcome:
        """Declares how a child judges its upstreams (all_of, any_of, quorum) before the first of its edges
        is staged.

        Raises: invalid_input, flow_not_found.
        """
        return self._one(
            _calls.set_edge_group_policy(
                flow_id, downstream_execution_id, policy_kind, on_satisfied=on_satisfied, k=k
            )
        )

    def set_event_cursor(
        self, consumer: str, stream: str, cursor: str, *, reason: str | None = None
    ) -> rows.Outcome:
        """Moves the stored position of a consumer of events, forward or back, and leaves an operator
        event.

        Raises: invalid_input, invalid_offset, event_cursor_expired.
        """
        return self._one(_calls.set_event_cursor(consumer, stream, cursor, reason=reason))

    def set_execution_tags(self, execution_id: str, tags: JsonObject) -> rows.Tagging:
        """Adds tags to an execution or replaces them, also after its end; all of them or, if one key is
        malformed, none.

        Raises: invalid_input, execution_not_found, invalid_tag_key.
        """
        return self._one(_calls.set_execution_tags(execution_id, tags))

    def set_flow_tags(self, flow_id: UUID, tags: JsonObject) -> rows.FlowTagging:
        """Adds tags to a flow or replaces them, also after its cancel; all of them or, if one key is
        malformed, none.

        Raises: invalid_input, flow_not_found, invalid_tag_key.
        """
        return self._one(_calls.set_flow_tags(flow_id, tags))

    def set_lane_state(
        self, lane_id: str, lane_state: str, *, reason: str | None = None
    ) -> rows.LaneStateChange:
        """Sets whether a lane accepts and hands out work: active, paused, draining or disabled.

        Raises: invalid_input.
        """
        return self._one(_calls.set_lane_state(lane_id, lane_state, reason=reason))

    def set_partition_count(self, n: int) -> rows.Outcome:
        """Sets the number of partitions; possible only while no execution and no flow is stored.

        Raises: invalid_input, partition_config_mismatch, retry_exhausted when the tables stay locked for a
            second.
        """
        return self._one(_calls.set_partition_count(n))

    def set_scanner(
        self,
        scanner: str,
        *,
        enabled: bool | None = None,
        interval_ms: int | None = None,
        batch_limit: int | None = None,
    ) -> rows.Outcome:
        """Switches a background scanner on or off, or changes its interval or its limit per run.

        Raises: invalid_input, retry_exhausted.
        """
        return self._one(
            _calls.set_scanner(scanner, enabled=enabled, interval_ms=interval_ms, batch_limit=batch_limit)
        )

    def set_setting(self, name: str, value: int) -> rows.SettingChange:
        """Sets a setting, or with NULL puts it back to its default; takes effect for every call after the
        commit.

        Raises: invalid_input.
        """
        return self._one(_calls.set_setting(name, value))

    def settle_reservation(
        self,
        budget_id: str,
        reservation_key: str,
        dimensions: Sequence[str | None],
        actuals: Sequence[int | None],
        execution_id: str,
        lease_id: UUID,
        lease_epoch: int,
        attempt_id: UUID,
    ) -> rows.UsageReport:
        """Replaces a reservation of the lease holder by the amount really used, which is booked even
        beyond a limit.

        Raises: invalid_input, budget_not_found, reservation_not_found, reservation_not_open and the codes of
            _ff_check_fence. A breach is an outcome.
        """
        return self._one(
            _calls.settle_reservation(
                budget_id,
                reservation_key,
                dimensions,
                actuals,
                execution_id,
                lease_id,
                lease_epoch,
                attempt_id,
            )
        )

    def solo_partition(self, lane_id: str) -> int:
        """The partition number of executions of a lane that belong to no flow.

        Raises: invalid_input.
        """
        return self._one(_calls.solo_partition(lane_id))

    def stage_dependency_edge(
        self,
        flow_id: UUID,
        edge_id: UUID,
        upstream_execution_id: str,
        downstream_execution_id: str,
        expected_graph_revision: int,
        *,
        dependency_kind: str = "success_only",
        data_passing_ref: str | None = None,
    ) -> rows.StagedEdge:
        """Adds an edge between two members to the graph of a flow; refused if the graph has changed or a
        cycle would close.

        Raises: invalid_input, self_referencing_edge, flow_not_found, flow_already_terminal,
            stale_graph_revision, execution_not_in_flow, cycle_detected, dependency_already_exists.
        """
        return self._one(
            _calls.stage_dependency_edge(
                flow_id,
                edge_id,
                upstream_execution_id,
                downstream_execution_id,
                expected_graph_revision,
                dependency_kind=dependency_kind,
                data_passing_ref=data_passing_ref,
            )
        )

    def stream_status(
        self, execution_id: str, attempt_index: int, *, strict: bool = False
    ) -> rows.StreamSnapshot | None:
        """Counts, limits and end of the stream of an attempt; no row, or stream_not_found, if it never
        wrote.

        Raises: invalid_input; stream_not_found, if p_strict asks for it.
        """
        return self._first(_calls.stream_status(execution_id, attempt_index, strict=strict))

    def submit_flow(self, flow: JsonObject) -> list[rows.SubmittedMember]:
        """Creates a whole graph of executions from one document: flow, members, edges and joins, all of it
        or nothing.

        Raises: invalid_input, payload_too_large, invalid_policy_json, invalid_capabilities, invalid_tag_key,
            self_referencing_edge, cycle_detected, lane_not_accepting. Every refusal has `path`, the place in
            the document (flow_path where the policy has a path of its own).
        """
        return self._all(_calls.submit_flow(flow))

    def suspend_execution(
        self,
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
    ) -> list[rows.SuspendedWaitpoint]:
        """Pauses the running attempt until signals satisfy a condition, and hands out a token per
        waitpoint.

        Raises: invalid_input, additional_waitpoint_binding_malformed, invalid_resume_condition,
            use_pending_with_extras_unsupported, invalid_lease_for_suspend, already_suspended,
            waitpoint_not_found, waitpoint_not_pending, invalid_waitpoint_for_execution,
            pending_waitpoint_expired, waitpoint_already_exists, hmac_secret_not_initialized, invalid_secret
            and the codes of _ff_check_fence.
        """
        return self._all(
            _calls.suspend_execution(
                execution_id,
                lease_id,
                lease_epoch,
                attempt_id,
                resume_condition,
                reason_code,
                requested_by=requested_by,
                waitpoint_ids=waitpoint_ids,
                waitpoint_keys=waitpoint_keys,
                use_pending=use_pending,
                timeout_at_ms=timeout_at_ms,
                timeout_in_ms=timeout_in_ms,
                timeout_behavior=timeout_behavior,
                resume_delay_ms=resume_delay_ms,
                consume_matched_signals=consume_matched_signals,
                retain_signal_buffer_until_closed=retain_signal_buffer_until_closed,
                close_waitpoint_on_resume=close_waitpoint_on_resume,
                resume_target=resume_target,
                continuation_metadata_pointer=continuation_metadata_pointer,
                idempotency_key=idempotency_key,
                suspension_id=suspension_id,
                attempt_index=attempt_index,
            )
        )

    def sweep_dedup(self, *, limit: int = 1_000) -> rows.Scan:
        """Scanner: deletes expired keys of creations, suspends, signals and usage reports, and closed
        reservations.

        Raises: invalid_input.
        """
        return self._one(_calls.sweep_dedup(limit=limit))

    def sweep_expired_grants(self, *, limit: int = 500) -> int:
        """Deletes grants that expired unused, gives back the quota slots taken for them, and says how many
        it deleted.

        Raises: invalid_input.
        """
        return self._one(_calls.sweep_expired_grants(limit=limit))

    def sweep_workers(self, *, limit: int = 500) -> rows.Scan:
        """Scanner: deletes worker processes whose heartbeats stopped, with an event each, and waiters long
        forgotten.

        Raises: invalid_input.
        """
        return self._one(_calls.sweep_workers(limit=limit))

    def test_set_clock(self, mode: str, *, ms: int | None = None) -> rows.ClockState:
        """Freezes, advances, offsets or resets the engine's clock, in an installation made with the test
        clock.

        Raises: unavailable, invalid_input.
        """
        return self._one(_calls.test_set_clock(mode, ms=ms))

    def tick(
        self,
        *,
        limit: int = 100,
        scanners: Sequence[str | None] | None = None,
        force: bool = False,
        max_ms: int = 1_000,
    ) -> list[rows.ScannerRun]:
        """Runs every background scanner that is due, or those named, in bounded batches and bounded time.

        Raises: invalid_input; a scanner that fails is a row of the answer.
        """
        return self._all(_calls.tick(limit=limit, scanners=scanners, force=force, max_ms=max_ms))

    def timestamp(self, ms: int) -> datetime:
        """The timestamp of an instant in milliseconds since 1970; one that no client can read is the
        nearest that it can.
        """
        return self._one(_calls.timestamp(ms))

    def trim_retention(
        self,
        *,
        limit: int = 100,
        partition_key: int | None = None,
        lane_id: str | None = None,
        retention_ms: int | None = None,
    ) -> rows.RetentionScan:
        """Scanner: deletes ended executions past their retention, and flows whose members are all gone;
        never events.

        Raises: invalid_input; what goes wrong with one execution or flow is counted and recorded.
        """
        return self._one(
            _calls.trim_retention(
                limit=limit, partition_key=partition_key, lane_id=lane_id, retention_ms=retention_ms
            )
        )

    def unblock_execution(
        self, execution_id: str, *, expected_blocking_reason: str | None = None
    ) -> rows.StateOutcome:
        """Puts an execution that admission blocked back on its queue, if it is blocked for the expected
        reason.

        Raises: invalid_input, execution_not_found, execution_not_eligible.
        """
        return self._one(
            _calls.unblock_execution(execution_id, expected_blocking_reason=expected_blocking_reason)
        )

    def update_progress(
        self,
        execution_id: str,
        lease_id: UUID,
        lease_epoch: int,
        attempt_id: UUID,
        *,
        progress_pct: int | None = None,
        progress_message: str | None = None,
    ) -> rows.Progress:
        """Reports how far the attempt of the lease holder has come, as a percentage, a message or both.

        Raises: invalid_input, execution_not_found and the codes of _ff_check_fence.
        """
        return self._one(
            _calls.update_progress(
                execution_id,
                lease_id,
                lease_epoch,
                attempt_id,
                progress_pct=progress_pct,
                progress_message=progress_message,
            )
        )

    def version(self) -> str:
        """The version of the installed function library."""
        return self._one(_calls.version())

    def wait_for_events(
        self,
        waiter_id: str,
        *,
        streams: Sequence[str] = (),
        execution_id: str | None = None,
        attempt_index: int | None = None,
        wait_ms: int = 5_000,
    ) -> rows.EventWait:
        """Registers, refreshes or, with 0, withdraws the wish to be woken by events or by frames of an
        attempt.

        Raises: invalid_input, read_only_server.
        """
        return self._one(
            _calls.wait_for_events(
                waiter_id,
                streams=streams,
                execution_id=execution_id,
                attempt_index=attempt_index,
                wait_ms=wait_ms,
            )
        )

    def wait_for_work(
        self, lanes: Sequence[str | None], waiter_id: str, *, wait_ms: int = 2_000
    ) -> rows.WorkWait:
        """Records for a short time that a worker wants to be notified of new work in its lanes; 0
        withdraws it.

        Raises: invalid_input.
        """
        return self._one(_calls.wait_for_work(lanes, waiter_id, wait_ms=wait_ms))

    def why(self, execution_id: str) -> rows.Explanation:
        """Explains in one row why an execution is not running, or that it is, until when, and what to do
        about it.

        Raises: invalid_input.
        """
        return self._one(_calls.why(execution_id))
