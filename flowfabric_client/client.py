"""The synchronous client: one method per public function of the engine, without its `ff_`.

Generated from the catalogue by `python tools/generate_client.py`; a change made here is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from flowfabric_client import _calls, rows
from flowfabric_client._session import EMPTY_OBJECT, JsonObject, Session


class Client(Session):
    """The synchronous client; see `Session` for what it may be given to work on."""

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

        Raises: invalid_input, schema_version_mismatch, partition_config_mismatch.
        """
        return self._one(_calls.boot_check(required_version, num_flow_partitions=num_flow_partitions))

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

    def change_priority(self, execution_id: str, new_priority: int) -> rows.PriorityChange:
        """Moves a waiting execution within the queue of its lane; the new priority is brought into 0 to 9000.

        Raises: invalid_input, execution_not_found, execution_not_eligible.
        """
        return self._one(_calls.change_priority(execution_id, new_priority))

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

        Raises: invalid_input, flow_membership_changed and the codes of _ff_check_fence.
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
        """Completes up to 1000 executions in one call; one row per item says whether it was completed or why
        it was refused.

        Raises: invalid_input for the call as a whole: an array that is missing, nested, too long or of
            another length. An item's refusal is its row: invalid_input, flow_membership_changed and the codes
            of _ff_check_fence.
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

        Raises: invalid_input, lane_not_accepting, invalid_policy_json, invalid_capabilities, invalid_tag_key.
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
            lane_not_accepting, invalid_policy_json, invalid_capabilities, invalid_tag_key.
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

    def describe_execution(self, execution_id: str) -> rows.ExecutionSnapshot | None:
        """Everything about an execution but its payload and result; no row for an unknown id.

        Raises: invalid_input.
        """
        return self._first(_calls.describe_execution(execution_id))

    def expire_execution(
        self, execution_id: str, *, expire_reason: str = "attempt_timeout", require_due: bool = False
    ) -> rows.Expiry:
        """Ends an execution because a time limit passed; with p_require_due only if that is still so.

        Raises: invalid_input, flow_membership_changed. Nothing for a state: the row says what was done.
        """
        return self._one(
            _calls.expire_execution(execution_id, expire_reason=expire_reason, require_due=require_due)
        )

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
        """Fails up to 1000 attempts in one call; one row per item says whether it is retried, has ended, or
        why it was refused.

        Raises: invalid_input for the call as a whole: an array that is missing, nested, too long or of
            another length. An item's refusal is its row: invalid_input, invalid_policy_json,
            flow_membership_changed and the codes of _ff_check_fence.
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

    def flow_partition(self, flow_id: UUID) -> int:
        """The partition number of a flow and of all its members.

        Raises: invalid_input.
        """
        return self._one(_calls.flow_partition(flow_id))

    def format_execution_id(self, partition_key: int, execution_id: UUID) -> str:
        """The wire id {fp:N}:<uuid> of a partition number and a uuid."""
        return self._one(_calls.format_execution_id(partition_key, execution_id))

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

    def list_lease_history(
        self, execution_id: str, *, after_event_id: int | None = None, limit: int = 100
    ) -> list[rows.LeaseHistoryRow]:
        """The lease events of an execution that are still kept, oldest first, a page at a time.

        Raises: invalid_input.
        """
        return self._all(_calls.list_lease_history(execution_id, after_event_id=after_event_id, limit=limit))

    def list_settings(self) -> list[rows.SettingRow]:
        """Every setting of the engine, with its value in force and its default."""
        return self._all(_calls.list_settings())

    def mark_lease_expired_if_due(self, execution_id: str) -> rows.ExpiryMark:
        """Marks a lease that has run out as reclaimable; says why not if there is nothing to mark.

        Raises: invalid_input.
        """
        return self._one(_calls.mark_lease_expired_if_due(execution_id))

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
        """Gives a leased execution back until its dependencies are resolved, or at once if it has none open.

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

    def parse_execution_id(self, execution_id: str) -> rows.ExecutionKey:
        """Splits a wire id {fp:N}:<uuid> into partition number and uuid.

        Raises: invalid_input (reason missing_tag, bad_partition or bad_uuid).
        """
        return self._one(_calls.parse_execution_id(execution_id))

    def ping(self) -> int:
        """Answers with the time of the engine."""
        return self._one(_calls.ping())

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

    def read_current_attempt_index(self, execution_id: str) -> int:
        """The index of the current attempt; 0 before the first claim.

        Raises: invalid_input, execution_not_found.
        """
        return self._one(_calls.read_current_attempt_index(execution_id))

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

    def read_total_attempt_count(self, execution_id: str) -> int:
        """How many attempts an execution has had.

        Raises: invalid_input, execution_not_found.
        """
        return self._one(_calls.read_total_attempt_count(execution_id))

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
        """Takes over an execution whose lease expired or was revoked, or fails it when its reclaims are used
        up.

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
        """Extends up to 1000 leases that the caller holds; one row per item says until when, or busy, or why
        it was refused.

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
        self, execution_id: str, *, reason: str | None = None, requested_by: str | None = None
    ) -> rows.Replay:
        """Re-opens an ended execution for another attempt; a flow member whose dependencies are open waits
        for them again.

        Raises: invalid_input, execution_not_found, flow_membership_changed, execution_not_terminal,
            max_replays_exhausted, completion_dispatch_pending.
        """
        return self._one(_calls.replay_execution(execution_id, reason=reason, requested_by=requested_by))

    def resolve_execution_flow_id(self, execution_id: str) -> UUID | None:
        """The flow of an execution; NULL when it belongs to none or is unknown.

        Raises: invalid_input.
        """
        return self._one(_calls.resolve_execution_flow_id(execution_id))

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

    def scan_attempt_timeouts(self, *, limit: int = 50, partition_key: int | None = None) -> rows.Scan:
        """Scanner: ends executions whose running attempt has taken too long, longest overdue first.

        Raises: invalid_input; what goes wrong with one execution is counted and recorded.
        """
        return self._one(_calls.scan_attempt_timeouts(limit=limit, partition_key=partition_key))

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

    def set_execution_tags(self, execution_id: str, tags: JsonObject) -> rows.Tagging:
        """Adds tags to an execution or replaces them, also after its end; all of them or, if one key is
        malformed, none.

        Raises: invalid_input, execution_not_found, invalid_tag_key.
        """
        return self._one(_calls.set_execution_tags(execution_id, tags))

    def set_partition_count(self, n: int) -> rows.Outcome:
        """Sets the number of partitions; possible only while no execution and no flow is stored.

        Raises: invalid_input, partition_config_mismatch.
        """
        return self._one(_calls.set_partition_count(n))

    def set_setting(self, name: str, value: int) -> rows.SettingChange:
        """Sets a setting, or with NULL puts it back to its default; takes effect for every call after the
        commit.

        Raises: invalid_input.
        """
        return self._one(_calls.set_setting(name, value))

    def solo_partition(self, lane_id: str) -> int:
        """The partition number of executions of a lane that belong to no flow.

        Raises: invalid_input.
        """
        return self._one(_calls.solo_partition(lane_id))

    def sweep_expired_grants(self, *, limit: int = 500) -> int:
        """Deletes grants that expired unused, gives back the quota slots taken for them, and says how many it
        deleted.

        Raises: invalid_input.
        """
        return self._one(_calls.sweep_expired_grants(limit=limit))

    def test_set_clock(self, mode: str, *, ms: int | None = None) -> rows.ClockState:
        """Freezes, advances, offsets or resets the engine's clock, in an installation made with the test
        clock.

        Raises: unavailable, invalid_input.
        """
        return self._one(_calls.test_set_clock(mode, ms=ms))

    def trim_retention(
        self,
        *,
        limit: int = 100,
        partition_key: int | None = None,
        lane_id: str | None = None,
        retention_ms: int | None = None,
    ) -> rows.RetentionScan:
        """Scanner: deletes ended executions past their retention, and flows whose members are all gone; never
        events.

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
