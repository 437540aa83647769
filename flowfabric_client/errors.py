"""Exceptions: one per error code of the engine, under one per category.

Every refusal of the database arrives as a `FlowFabricError` whose class is decided by its SQLSTATE, which no
change of wording can break. Catch as widely as the answer is the same:

    except errors.StaleLeaseError       this code
    except errors.LeaseLostError        the codes that mean "the lease is not yours any more"
    except errors.StateError            the category (SQLSTATE class ZS)
    except errors.FlowFabricError       everything this package raises

docs/errors.md lists every code with what to do about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import psycopg_pool

from flowfabric_client._error_codes import ERROR_CODES, Category, ErrorCode, RetryClass

_ENTRY_BY_CODE: Mapping[str, ErrorCode] = {entry.code: entry for entry in ERROR_CODES}
_ENTRY_BY_SQLSTATE: Mapping[str, ErrorCode] = {entry.sqlstate: entry for entry in ERROR_CODES}

_EXCEPTION_BY_SQLSTATE: dict[str, type[FlowFabricError]] = {}
_EXCEPTION_BY_SQLSTATE_CLASS: dict[str, type[FlowFabricError]] = {}


class FlowFabricError(Exception):
    """Base of every exception of this package.

    Attributes:
        code: The stable name of the error, as in docs/errors.md; None for what only a client can meet.
        sqlstate: The SQLSTATE of the code; without a code, the one PostgreSQL reported, if any.
        category: The category of the code.
        retry_class: What to do, exactly: the class of the code, else the default of its category.
        details: The fields of DETAIL; empty if there were none.
        hint: One sentence for people.
        function: The database function that refused.

    `__cause__` is the driver's exception.
    """

    code: str | None = None
    sqlstate: str | None = None
    category: Category | None = None
    retry_class: RetryClass | None = None
    hint: str | None = None
    function: str | None = None
    details: dict[str, Any]

    def __init_subclass__(cls, *, sqlstate_class: str | None = None, code: str | None = None) -> None:
        super().__init_subclass__()
        if sqlstate_class is not None:
            _EXCEPTION_BY_SQLSTATE_CLASS[sqlstate_class] = cls
        if code is not None:
            entry = _ENTRY_BY_CODE[code]
            cls.code = entry.code
            cls.sqlstate = entry.sqlstate
            cls.category = entry.category
            cls.retry_class = entry.retry_class
            cls.hint = entry.hint
            _EXCEPTION_BY_SQLSTATE[entry.sqlstate] = cls

    # Everything but the message has a default and lives in the instance's dictionary, which is what makes
    # these exceptions survive copy and pickle.
    def __init__(
        self,
        message: str | None = None,
        *,
        details: Mapping[str, Any] | None = None,
        function: str | None = None,
        hint: str | None = None,
        code: str | None = None,
        sqlstate: str | None = None,
    ) -> None:
        self.details = dict(details or {})
        if function is not None:
            self.function = function
        if hint is not None:
            self.hint = hint
        if code is not None:
            self.code = code
        if sqlstate is not None:
            self.sqlstate = sqlstate
        super().__init__(message if message is not None else self._describe())

    def _describe(self) -> str:
        place = ", ".join(part for part in (self.sqlstate, self.function) if part)
        name = self.code or type(self).__name__
        facts = ", ".join(
            f"{key}={json.dumps(value, default=str)}"
            for key, value in self.details.items()
            if key not in ("code", "fn")
        )
        text = f"{name} ({place})" if place else name
        explanation = " ".join(part for part in (self.hint, f"[{facts}]" if facts else None) if part)
        return f"{text}: {explanation}" if explanation else text


# The category's own retry class is the advice for a number that this client does not know: a newer server.


class NotFoundError(FlowFabricError, sqlstate_class="ZN"):
    """The addressed thing does not exist: check the id."""

    category = "NotFound"
    retry_class = "terminal"


class ValidationError(FlowFabricError, sqlstate_class="ZV"):
    """The arguments, or a presented credential, are wrong: correct the call."""

    category = "Validation"
    retry_class = "terminal"


class ContentionError(FlowFabricError, sqlstate_class="ZC"):
    """Somebody else moved first, or this is the wrong door for the state: retry or ask for other work."""

    category = "Contention"
    retry_class = "retryable"


class ConflictError(FlowFabricError, sqlstate_class="ZK"):
    """The request contradicts an existing record: reconcile."""

    category = "Conflict"
    retry_class = "terminal"


class StateError(FlowFabricError, sqlstate_class="ZS"):
    """The target's state does not allow the call; `code`, `details` and `hint` say more."""

    category = "State"
    retry_class = "terminal"


class LeaseLostError(StateError):
    """The lease is not the caller's any more: stop this work and send nothing more for its handle."""


class CorruptionError(FlowFabricError, sqlstate_class="ZX"):
    """Stored data breaks an invariant: never retry, alert."""

    category = "Corruption"
    retry_class = "terminal"


class UnavailableError(FlowFabricError, sqlstate_class="ZU"):
    """The deployment cannot serve this call now: an operator must act."""

    category = "Unavailable"
    retry_class = "terminal"


class InternalBugError(FlowFabricError, sqlstate_class="ZB"):
    """Cannot happen in a correct engine: report it."""

    category = "Bug"
    retry_class = "bug"


class TransportError(FlowFabricError):
    """The connection failed, or the server reported something that no function of the engine raises.

    `retryable` tells whether the call may simply be repeated. Where it is False the outcome is unknown: the
    call may have been committed before its answer was lost.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        retryable: bool = False,
        function: str | None = None,
        hint: str | None = None,
        sqlstate: str | None = None,
    ) -> None:
        self.retryable = retryable
        super().__init__(message, function=function, hint=hint, sqlstate=sqlstate)


class ClientTimeoutError(FlowFabricError):
    """The statement was cancelled, or ran into the statement timeout, and was rolled back."""


class PermissionDeniedError(FlowFabricError):
    """The role lacks EXECUTE; the message names the function."""


class ResourceExhaustedError(FlowFabricError):
    """The server or the connection pool is full; a later call can succeed."""

    retryable = True

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after_ms: int | None = None,
        function: str | None = None,
        hint: str | None = None,
        sqlstate: str | None = None,
    ) -> None:
        self.retry_after_ms = retry_after_ms
        super().__init__(message, function=function, hint=hint, sqlstate=sqlstate)


class StreamDisconnectedError(FlowFabricError):
    """A subscription ended; `cursor` is the position to resume from, None if nothing was read."""

    def __init__(self, message: str | None = None, *, cursor: str | None = None) -> None:
        self.cursor = cursor
        super().__init__(message)


class StreamBackpressure(FlowFabricError, UserWarning):  # noqa: N818 - a warning that may be made an error
    """The consumer of a subscription is slower than its stream. Nothing is lost; it is only late."""


def code_of(sqlstate: str) -> ErrorCode | None:
    """The catalogue entry of a SQLSTATE; None for one that is not ours or newer than this client."""
    return _ENTRY_BY_SQLSTATE.get(sqlstate)


def retry_class_of(sqlstate: str) -> RetryClass | None:
    """What to do about a SQLSTATE: its code's class, else its category's default; None if it is not ours."""
    exception = _exception_of(sqlstate)
    return exception.retry_class if exception else None


def _exception_of(sqlstate: str) -> type[FlowFabricError] | None:
    return _EXCEPTION_BY_SQLSTATE.get(sqlstate) or _EXCEPTION_BY_SQLSTATE_CLASS.get(sqlstate[:2])


def from_refusal(
    sqlstate: str,
    code: str | None,
    details: Mapping[str, Any] | None = None,
    *,
    hint: str | None = None,
    function: str | None = None,
) -> FlowFabricError | None:
    """The exception for a refusal given as values, such as the row of a refused batch item.

    The SQLSTATE decides. `code` only names a number that this client does not know, and only if it looks like
    a code. None if the SQLSTATE is not one of the engine's.
    """
    exception = _exception_of(sqlstate)
    if exception is None:
        return None
    fields = dict(details or {})
    named = code if code and re.fullmatch(r"[a-z][a-z0-9_]*", code) else None
    return exception(
        details=fields,
        function=fields.get("fn", function),
        hint=hint,
        code=exception.code or named,
        sqlstate=sqlstate,
    )


def from_psycopg(
    exc: psycopg.Error,
    *,
    idempotent: bool = False,
    statement_sent: bool = True,
    attempts: int = 1,
    function: str | None = None,
) -> FlowFabricError:
    """The exception of this package for one of the driver's, which becomes its `__cause__`.

    Args:
        exc: What psycopg raised.
        idempotent: Repeating the call is harmless, or its repeat can be reconciled with a lost answer.
        statement_sent: False if the caller knows that the connection failed before the statement left.
        attempts: How often the call was made; reported when PostgreSQL kept refusing it for concurrency.
        function: The database function that was called, for errors that do not name it themselves.
    """
    error = None
    if exc.sqlstate is not None:
        error = from_refusal(
            exc.sqlstate,
            exc.diag.message_primary,
            _parse_detail(exc.diag.message_detail),
            hint=exc.diag.message_hint,
            function=function,
        )
    if error is None:
        failure = _NativeFailure(
            message=exc.diag.message_primary or str(exc) or type(exc).__name__,
            sqlstate=exc.sqlstate,
            constraint=exc.diag.constraint_name,
            hint=exc.diag.message_hint,
            function=function,
            attempts=attempts,
            repeatable=idempotent or not statement_sent or _failed_before_sending(exc),
        )
        error = _treatment_of(exc)(failure)
    error.__cause__ = exc
    return error


def _parse_detail(text: str | None) -> dict[str, Any]:
    try:
        parsed = json.loads(text or "")
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


# Errors that PostgreSQL or the driver raise by themselves


@dataclass(frozen=True, slots=True)
class _NativeFailure:
    message: str
    sqlstate: str | None
    constraint: str | None
    hint: str | None
    function: str | None
    attempts: int
    repeatable: bool


_SAFE_ORDER = (
    'If it makes several calls, make them in the order of docs/client.md, "Transactions of several calls",'
    " or use the batch forms: create_executions, complete_executions, fail_executions, renew_leases,"
    " submit_flow."
)
_CONCURRENCY_HINTS = {
    "40P01": f"Repeat the transaction. {_SAFE_ORDER}",
    "40001": f"Repeat the transaction, or run it in READ COMMITTED. {_SAFE_ORDER}",
}


def _kept_refusing(failure: _NativeFailure) -> FlowFabricError:
    hint = _CONCURRENCY_HINTS.get(failure.sqlstate or "")
    return RetryExhaustedError(
        f"retry_exhausted: {failure.message}" + (f". {hint}" if hint else ""),
        details={"attempts": failure.attempts, "last_sqlstate": failure.sqlstate},
        function=failure.function,
        hint=hint,
    )


def _timed_out(failure: _NativeFailure) -> FlowFabricError:
    return ClientTimeoutError(failure.message, sqlstate=failure.sqlstate, function=failure.function)


def _connection_lost(failure: _NativeFailure) -> FlowFabricError:
    return TransportError(
        failure.message,
        retryable=failure.repeatable,
        sqlstate=failure.sqlstate,
        function=failure.function,
        hint=failure.hint,
    )


def _exhausted(failure: _NativeFailure) -> FlowFabricError:
    return ResourceExhaustedError(
        failure.message, sqlstate=failure.sqlstate, function=failure.function, hint=failure.hint
    )


def _bad_value(failure: _NativeFailure) -> FlowFabricError:
    return InvalidInputError(
        f"invalid_input: {failure.message}",
        details={"reason": failure.message},
        function=failure.function,
        hint=failure.hint,
    )


def _escaped_constraint(failure: _NativeFailure) -> FlowFabricError:
    return InternalError(
        f"internal_error: {failure.message}",
        details={"reason": failure.message},
        function=failure.function,
    )


def _check_failed(failure: _NativeFailure) -> FlowFabricError:
    if failure.constraint is None or not failure.constraint.startswith("ff_"):
        return _unexpected(failure)
    return InvariantViolationError(
        f"invariant_violation: {failure.message}",
        details={"invariant": failure.constraint},
        function=failure.function,
    )


def _permission_denied(failure: _NativeFailure) -> FlowFabricError:
    return PermissionDeniedError(
        failure.message, sqlstate=failure.sqlstate, function=failure.function, hint=failure.hint
    )


def _schema_differs(failure: _NativeFailure) -> FlowFabricError:
    return SchemaVersionMismatchError(
        f"schema_version_mismatch: {failure.message}", function=failure.function
    )


def _read_only(failure: _NativeFailure) -> FlowFabricError:
    return ReadOnlyServerError(
        f"read_only_server: {failure.message}. {ReadOnlyServerError.hint}",
        details={"reason": failure.message},
        function=failure.function,
    )


def _unexpected(failure: _NativeFailure) -> FlowFabricError:
    return TransportError(
        failure.message,
        retryable=False,
        sqlstate=failure.sqlstate,
        function=failure.function,
        hint=failure.hint,
    )


_Treatment = Callable[[_NativeFailure], FlowFabricError]

_TREATMENT_BY_SQLSTATE: Mapping[str, _Treatment] = {
    "40001": _kept_refusing,
    "40P01": _kept_refusing,
    "55P03": _kept_refusing,
    "57014": _timed_out,
    "57P01": _connection_lost,
    "57P02": _connection_lost,
    "57P03": _connection_lost,
    "23502": _bad_value,
    "23503": _escaped_constraint,
    "23505": _escaped_constraint,
    "23514": _check_failed,
    "25006": _read_only,
    "42501": _permission_denied,
    "42883": _schema_differs,
    "42P01": _schema_differs,
    "3F000": _schema_differs,
}
_TREATMENT_BY_SQLSTATE_CLASS: Mapping[str, _Treatment] = {
    "08": _connection_lost,
    "22": _bad_value,
    "53": _exhausted,
}
# Without a SQLSTATE the error was made on this side; the first match decides.
_TREATMENT_BY_TYPE: tuple[tuple[type[psycopg.Error], _Treatment], ...] = (
    (psycopg_pool.PoolTimeout, _exhausted),
    (psycopg_pool.TooManyRequests, _exhausted),
    (psycopg_pool.PoolClosed, _unexpected),
    (psycopg.OperationalError, _connection_lost),
    (psycopg.DataError, _bad_value),
)


def _treatment_of(exc: psycopg.Error) -> _Treatment:
    if exc.sqlstate is None:
        return next((treat for kind, treat in _TREATMENT_BY_TYPE if isinstance(exc, kind)), _unexpected)
    # A standby refuses queries of unlogged tables before it refuses writes. The number has other uses, and
    # the message is translated; the place in the server's source identifies it.
    if exc.sqlstate == "0A000" and exc.diag.source_function == "get_relation_info":
        return _read_only
    by_class = _TREATMENT_BY_SQLSTATE_CLASS.get(exc.sqlstate[:2], _unexpected)
    return _TREATMENT_BY_SQLSTATE.get(exc.sqlstate, by_class)


def _failed_before_sending(exc: psycopg.Error) -> bool:
    # psycopg attaches a pgconn only to the failure of a connection attempt. The states are those with which
    # a server, or a pooler in front of it, turns a client away.
    return (
        exc.pgconn is not None
        or isinstance(exc, psycopg.errors.ConnectionTimeout)
        or exc.sqlstate in ("08001", "08004", "57P03")
    )


# Begin of the exceptions generated by `python tools/generate_docs.py`: one per code of the catalogue.


class ExecutionNotFoundError(NotFoundError, code="execution_not_found"):
    """`execution_not_found`, ZN001, terminal.

    Check the id with `flowfabric executions list`; ended executions are deleted after their retention.
    """


class FlowNotFoundError(NotFoundError, code="flow_not_found"):
    """`flow_not_found`, ZN002, terminal.

    Check the id with `flowfabric flows list`, or create the flow first.
    """


class AttemptNotFoundError(NotFoundError, code="attempt_not_found"):
    """`attempt_not_found`, ZN003, terminal. Check the attempt index with `flowfabric executions show`."""


class BudgetNotFoundError(NotFoundError, code="budget_not_found"):
    """`budget_not_found`, ZN004, terminal.

    Check the name with `flowfabric budgets list`, or create it with `flowfabric budgets create`.
    """


class QuotaPolicyNotFoundError(NotFoundError, code="quota_policy_not_found"):
    """`quota_policy_not_found`, ZN005, terminal.

    Check the name with `flowfabric quotas list`, or create it with `flowfabric quotas create`.
    """


class StreamNotFoundError(NotFoundError, code="stream_not_found"):
    """`stream_not_found`, ZN006, expected.

    This is normal for an attempt that has not written a frame; treat the stream as empty.
    """


class ReservationNotFoundError(NotFoundError, code="reservation_not_found"):
    """`reservation_not_found`, ZN007, terminal. Reserve first; a lost lease returns its reservations."""


class InvalidInputError(ValidationError, code="invalid_input"):
    """`invalid_input`, ZV001, terminal.

    Correct the argument that the field of DETAIL names; the same call fails again.
    """


class CapabilityMismatchError(ValidationError, code="capability_mismatch"):
    """`capability_mismatch`, ZV002, retryable.

    Offer the execution to a worker that has the missing capabilities; `flowfabric why` names them.
    """


class InvalidCapabilitiesError(ValidationError, code="invalid_capabilities"):
    """`invalid_capabilities`, ZV003, terminal.

    Fix the capability list: at most 256 tokens and 4096 bytes joined with commas.
    """


class InvalidPolicyJsonError(ValidationError, code="invalid_policy_json"):
    """`invalid_policy_json`, ZV004, terminal.

    Correct the field at the path; the detail lists what is legal there, docs/policies.md every field.
    """


class InvalidTagKeyError(ValidationError, code="invalid_tag_key"):
    """`invalid_tag_key`, ZV005, terminal. Prefix the tag with a lower-case owner name and a dot."""


class PayloadTooLargeError(ValidationError, code="payload_too_large"):
    """`payload_too_large`, ZV006, terminal. Store the payload elsewhere and pass a reference."""


class SignalLimitExceededError(ValidationError, code="signal_limit_exceeded"):
    """`signal_limit_exceeded`, ZV007, terminal. Stop sending; use idempotency keys for repeated signals."""


class InvalidWaitpointKeyError(ValidationError, code="invalid_waitpoint_key"):
    """`invalid_waitpoint_key`, ZV008, terminal. Use the key returned when the waitpoint was created."""


class InvalidTokenError(ValidationError, code="invalid_token"):
    """`invalid_token`, ZV009, terminal.

    Present the token of this waitpoint; operators use `flowfabric signal --as-operator`.
    """


class WaitpointNotTokenBoundError(ValidationError, code="waitpoint_not_token_bound"):
    """`waitpoint_not_token_bound`, ZV010, terminal. Create a fresh pending waitpoint."""


class RetentionLimitExceededError(ValidationError, code="retention_limit_exceeded"):
    """`retention_limit_exceeded`, ZV011, terminal. Split the frame or store it elsewhere."""


class InvalidLeaseForSuspendError(ValidationError, code="invalid_lease_for_suspend"):
    """`invalid_lease_for_suspend`, ZV012, terminal. Use the handle of the attempt that is running now."""


class InvalidDependencyError(ValidationError, code="invalid_dependency"):
    """`invalid_dependency`, ZV013, terminal. Apply the dependency to the child before resolving it."""


class InvalidWaitpointForExecutionError(ValidationError, code="invalid_waitpoint_for_execution"):
    """`invalid_waitpoint_for_execution`, ZV014, terminal.

    Use a waitpoint of the same execution and attempt.
    """


class InvalidBlockingReasonError(ValidationError, code="invalid_blocking_reason"):
    """`invalid_blocking_reason`, ZV015, terminal.

    Use one of the five admission reasons, such as paused_by_operator.
    """


class InvalidOffsetError(ValidationError, code="invalid_offset"):
    """`invalid_offset`, ZV016, retryable. Correct the offset and call again."""


class UnauthorizedError(ValidationError, code="unauthorized"):
    """`unauthorized`, ZV017, terminal.

    Connect as a member of the role in DETAIL, or let an administrator grant it to your login.
    """


class InvalidBudgetScopeError(ValidationError, code="invalid_budget_scope"):
    """`invalid_budget_scope`, ZV018, terminal.

    Give a scope type of 1 to 64 bytes and a scope id of 1 to 256 bytes.
    """


class BudgetOverrideNotAllowedError(ValidationError, code="budget_override_not_allowed"):
    """`budget_override_not_allowed`, ZV019, terminal.

    Ask an operator to reset the budget: `flowfabric budgets reset`.
    """


class InvalidQuotaSpecError(ValidationError, code="invalid_quota_spec"):
    """`invalid_quota_spec`, ZV020, terminal.

    Correct the field in DETAIL: limits are 0 (none) or more, and a rate needs a window of 1 s or more.
    """


class InvalidKidError(ValidationError, code="invalid_kid"):
    """`invalid_kid`, ZV021, terminal. The key id must be non-empty and contain no colon."""


class InvalidSecretHexError(ValidationError, code="invalid_secret_hex"):
    """`invalid_secret_hex`, ZV022, terminal. The secret must be a non-empty hex string of even length."""


class InvalidGraceMsError(ValidationError, code="invalid_grace_ms"):
    """`invalid_grace_ms`, ZV023, terminal. Use an integer from 0 to 31536000000000."""


class InvalidFrameTypeError(ValidationError, code="invalid_frame_type"):
    """`invalid_frame_type`, ZV024, soft_error. Use a frame type that the readers of the stream know."""


class HandleFromOtherBackendError(ValidationError, code="handle_from_other_backend"):
    """`handle_from_other_backend`, ZV025, terminal. Use the handle with the backend that minted it."""


class FenceRequiredError(ValidationError, code="fence_required"):
    """`fence_required`, ZV026, terminal. Pass the lease id, lease epoch and attempt id of the handle."""


class PartialFenceTripleError(ValidationError, code="partial_fence_triple"):
    """`partial_fence_triple`, ZV027, terminal. Pass all three fence fields or none."""


class InvalidArgsError(ValidationError, code="invalid_args"):
    """`invalid_args`, ZV028, terminal. Pass the flow id and the downstream execution id."""


class MissingTokenError(ValidationError, code="missing_token"):
    """`missing_token`, ZV029, terminal. Present the waitpoint token: `flowfabric signal --token @FILE`."""


class TokenExpiredError(ValidationError, code="token_expired"):
    """`token_expired`, ZV030, terminal. Obtain a fresh token; the signing key's grace period is over."""


class AdditionalWaitpointBindingMalformedError(
    ValidationError, code="additional_waitpoint_binding_malformed"
):
    """`additional_waitpoint_binding_malformed`, ZV031, terminal.

    Give every additional waitpoint an id and a key.
    """


class UsePendingWithExtrasUnsupportedError(ValidationError, code="use_pending_with_extras_unsupported"):
    """`use_pending_with_extras_unsupported`, ZV032, terminal.

    Use fresh waitpoints when binding more than one.
    """


class InvalidResumeConditionError(ValidationError, code="invalid_resume_condition"):
    """`invalid_resume_condition`, ZV033, terminal. Correct the condition at the path in DETAIL."""


class UseClaimResumedExecutionError(ContentionError, code="use_claim_resumed_execution"):
    """`use_claim_resumed_execution`, ZC001, retryable.

    Call ff_claim_resumed_execution with the same grant.
    """


class NotAResumedExecutionError(ContentionError, code="not_a_resumed_execution"):
    """`not_a_resumed_execution`, ZC002, retryable. Call ff_claim_execution with the same grant."""


class ExecutionNotLeaseableError(ContentionError, code="execution_not_leaseable"):
    """`execution_not_leaseable`, ZC003, retryable. The state changed since the grant; ask for other work."""


class LeaseConflictError(ContentionError, code="lease_conflict"):
    """`lease_conflict`, ZC004, retryable. A worker owns the execution; ask for other work."""


class InvalidClaimGrantError(ContentionError, code="invalid_claim_grant"):
    """`invalid_claim_grant`, ZC005, retryable. Ask the scheduler for a new grant."""


class ClaimGrantExpiredError(ContentionError, code="claim_grant_expired"):
    """`claim_grant_expired`, ZC006, retryable. Ask the scheduler for a new grant."""


class NoEligibleExecutionError(ContentionError, code="no_eligible_execution"):
    """`no_eligible_execution`, ZC007, retryable.

    Wait 100 ms to 1 s with back-off and ask again; `flowfabric why` says what an execution waits for.
    """


class WaitpointNotFoundError(ContentionError, code="waitpoint_not_found"):
    """`waitpoint_not_found`, ZC008, retryable.

    The waitpoint may not be committed yet; retry with back-off.
    """


class WaitpointPendingUseBufferScriptError(ContentionError, code="waitpoint_pending_use_buffer_script"):
    """`waitpoint_pending_use_buffer_script`, ZC009, retryable.

    Call ff_buffer_signal_for_pending_waitpoint with the same signal.
    """


class StaleGraphRevisionError(ContentionError, code="stale_graph_revision"):
    """`stale_graph_revision`, ZC010, retryable. Read the flow again and retry with the new revision."""


class ExecutionNotActiveError(ContentionError, code="execution_not_active"):
    """`execution_not_active`, ZC011, terminal.

    Compare the details with your handle: a match means that your earlier call won; otherwise stop.
    """


class ExecutionNotEligibleError(ContentionError, code="execution_not_eligible"):
    """`execution_not_eligible`, ZC012, informational.

    The state changed; skip this execution, or ask `flowfabric why` what it waits for.
    """


class ExecutionNotInEligibleSetError(ContentionError, code="execution_not_in_eligible_set"):
    """`execution_not_in_eligible_set`, ZC013, informational.

    Skip this execution; `flowfabric why` says what it waits for.
    """


class ExecutionNotReclaimableError(ContentionError, code="execution_not_reclaimable"):
    """`execution_not_reclaimable`, ZC014, informational.

    Skip it: another call dealt with the execution, or the details say when its takeover is due.
    """


class NoActiveLeaseError(ContentionError, code="no_active_lease"):
    """`no_active_lease`, ZC015, informational.

    There is nothing to do, or the execution must be claimed first.
    """


class RateLimitExceededError(ContentionError, code="rate_limit_exceeded"):
    """`rate_limit_exceeded`, ZC016, retryable.

    Wait for the retry_after_ms of DETAIL and ask again; `flowfabric quotas show` says what is in use.
    """


class ConcurrencyLimitExceededError(ContentionError, code="concurrency_limit_exceeded"):
    """`concurrency_limit_exceeded`, ZC017, retryable.

    Back off and retry; `flowfabric quotas show` says what is in use.
    """


class RetryExhaustedError(ContentionError, code="retry_exhausted"):
    """`retry_exhausted`, ZC018, retryable. Retry later; a reconciler will finish the work if one exists."""


class CompletionDispatchPendingError(ContentionError, code="completion_dispatch_pending"):
    """`completion_dispatch_pending`, ZC019, retryable.

    Wait a moment and replay again; if it stays so, run `flowfabric tick`.
    """


class FlowMembershipChangedError(ContentionError, code="flow_membership_changed"):
    """`flow_membership_changed`, ZC020, retryable. Repeat the call."""


class DependencyAlreadyExistsError(ConflictError, code="dependency_already_exists"):
    """`dependency_already_exists`, ZK001, terminal.

    Compare your edge with the existing one in the details.
    """


class CycleDetectedError(ConflictError, code="cycle_detected"):
    """`cycle_detected`, ZK002, terminal.

    Remove an edge; a search that visits more than 1000 nodes is refused too.
    """


class SelfReferencingEdgeError(ConflictError, code="self_referencing_edge"):
    """`self_referencing_edge`, ZK003, terminal. Use two different executions."""


class ExecutionAlreadyInFlowError(ConflictError, code="execution_already_in_flow"):
    """`execution_already_in_flow`, ZK004, terminal. Use the execution's own flow."""


class WaitpointAlreadyExistsError(ConflictError, code="waitpoint_already_exists"):
    """`waitpoint_already_exists`, ZK005, informational. Use the existing waitpoint or mint a new id."""


class BudgetAttachConflictError(ConflictError, code="budget_attach_conflict"):
    """`budget_attach_conflict`, ZK006, terminal. Detach the other budget first."""


class QuotaAttachConflictError(ConflictError, code="quota_attach_conflict"):
    """`quota_attach_conflict`, ZK007, terminal. Detach the other policy first."""


class RotationConflictError(ConflictError, code="rotation_conflict"):
    """`rotation_conflict`, ZK008, terminal.

    Choose a fresh key id: `flowfabric keys rotate` makes one of the time.
    """


class ActiveAttemptExistsError(ConflictError, code="active_attempt_exists"):
    """`active_attempt_exists`, ZK009, bug.

    Report it with DETAIL and `flowfabric doctor`: the stored state is inconsistent.
    """


class AlreadyMemberOfDifferentFlowError(ConflictError, code="already_member_of_different_flow"):
    """`already_member_of_different_flow`, ZK010, terminal. An execution belongs to at most one flow."""


class StaleLeaseError(LeaseLostError, code="stale_lease"):
    """`stale_lease`, ZS001, terminal. Stop: the work belongs to another worker now."""


class LeaseExpiredError(LeaseLostError, code="lease_expired"):
    """`lease_expired`, ZS002, terminal. Stop: do not complete or fail; the execution will be reclaimed."""


class LeaseRevokedError(LeaseLostError, code="lease_revoked"):
    """`lease_revoked`, ZS003, terminal.

    Stop: an operator took the lease away; `flowfabric events operator` says who and why.
    """


class ExecutionNotSuspendedError(StateError, code="execution_not_suspended"):
    """`execution_not_suspended`, ZS004, informational.

    The execution was resumed or has ended: look at it with `flowfabric executions show`.
    """


class AlreadySuspendedError(StateError, code="already_suspended"):
    """`already_suspended`, ZS005, informational. The suspension is already open."""


class WaitpointClosedError(StateError, code="waitpoint_closed"):
    """`waitpoint_closed`, ZS006, informational. The signal came too late."""


class TargetNotSignalableError(StateError, code="target_not_signalable"):
    """`target_not_signalable`, ZS007, terminal.

    Nothing waits for this signal; `flowfabric executions show` lists the open waitpoints.
    """


class DuplicateSignalError(StateError, code="duplicate_signal"):
    """`duplicate_signal`, ZS008, informational. Use the signal id in the details."""


class ResumeConditionNotMetError(StateError, code="resume_condition_not_met"):
    """`resume_condition_not_met`, ZS009, terminal.

    Deliver the missing signals (`flowfabric why` names them), or run `flowfabric executions resume`.
    """


class WaitpointNotPendingError(StateError, code="waitpoint_not_pending"):
    """`waitpoint_not_pending`, ZS010, informational. Create a new pending waitpoint."""


class PendingWaitpointExpiredError(StateError, code="pending_waitpoint_expired"):
    """`pending_waitpoint_expired`, ZS011, informational. Create a new pending waitpoint."""


class WaitpointNotOpenError(StateError, code="waitpoint_not_open"):
    """`waitpoint_not_open`, ZS012, informational. There is nothing to close."""


class ExecutionNotTerminalError(StateError, code="execution_not_terminal"):
    """`execution_not_terminal`, ZS013, terminal.

    Wait for its end (`flowfabric why` says what it waits for), or end it: `flowfabric cancel`.
    """


class MaxReplaysExhaustedError(StateError, code="max_replays_exhausted"):
    """`max_replays_exhausted`, ZS014, terminal.

    The limit is part of the policy; create a new execution with a higher one.
    """


class StreamClosedError(StateError, code="stream_closed"):
    """`stream_closed`, ZS015, terminal. Stop appending."""


class StaleOwnerCannotAppendError(LeaseLostError, code="stale_owner_cannot_append"):
    """`stale_owner_cannot_append`, ZS016, terminal. Stop: the lease is not yours any more."""


class GrantAlreadyExistsError(StateError, code="grant_already_exists"):
    """`grant_already_exists`, ZS017, informational. Skip the execution; a live grant for it is out."""


class ExecutionNotInFlowError(StateError, code="execution_not_in_flow"):
    """`execution_not_in_flow`, ZS018, terminal. Add the execution to the flow first."""


class FlowAlreadyTerminalError(StateError, code="flow_already_terminal"):
    """`flow_already_terminal`, ZS019, terminal.

    The flow no longer changes; look at it with `flowfabric flows show`.
    """


class DepsNotSatisfiedError(StateError, code="deps_not_satisfied"):
    """`deps_not_satisfied`, ZS020, informational. Wait for the dependencies."""


class NotBlockedByDepsError(StateError, code="not_blocked_by_deps"):
    """`not_blocked_by_deps`, ZS021, informational. There is nothing to promote."""


class NotRunnableError(StateError, code="not_runnable"):
    """`not_runnable`, ZS022, terminal.

    The execution left the runnable phase; look at it with `flowfabric executions show`.
    """


class TerminalError(StateError, code="terminal"):
    """`terminal`, ZS023, terminal. The execution has ended; `flowfabric replay` runs it once more."""


class BudgetExceededError(StateError, code="budget_exceeded"):
    """`budget_exceeded`, ZS024, cooperative.

    Stop using resources, then fail the execution with category budget_exceeded.
    """


class BudgetSoftExceededError(StateError, code="budget_soft_exceeded"):
    """`budget_soft_exceeded`, ZS025, informational. Log and continue."""


class OkAlreadyAppliedError(StateError, code="ok_already_applied"):
    """`ok_already_applied`, ZS026, informational. There is nothing to do."""


class AttemptNotStartedError(StateError, code="attempt_not_started"):
    """`attempt_not_started`, ZS027, terminal. The attempt is not running."""


class AttemptAlreadyTerminalError(StateError, code="attempt_already_terminal"):
    """`attempt_already_terminal`, ZS028, informational. The attempt has ended."""


class ExecutionNotEligibleForAttemptError(StateError, code="execution_not_eligible_for_attempt"):
    """`execution_not_eligible_for_attempt`, ZS029, terminal.

    The execution is in the wrong state for a new attempt.
    """


class ReplayNotAllowedError(StateError, code="replay_not_allowed"):
    """`replay_not_allowed`, ZS030, terminal. See max_replays_exhausted and execution_not_terminal."""


class MaxRetriesExhaustedError(StateError, code="max_retries_exhausted"):
    """`max_retries_exhausted`, ZS031, terminal.

    The execution has been failed; `flowfabric replay` runs it once more, with its full retries.
    """


class StreamAlreadyClosedError(StateError, code="stream_already_closed"):
    """`stream_already_closed`, ZS032, informational. There is nothing to do."""


class AlreadySatisfiedError(StateError, code="already_satisfied"):
    """`already_satisfied`, ZS033, informational.

    The condition was met before the suspension; continue to work.
    """


class LaneNotAcceptingError(StateError, code="lane_not_accepting"):
    """`lane_not_accepting`, ZS034, terminal.

    Use another lane, or open this one: `flowfabric lanes resume`.
    """


class EventCursorExpiredError(StateError, code="event_cursor_expired"):
    """`event_cursor_expired`, ZS035, terminal.

    Events after the cursor have been pruned; start again from oldest_cursor and reconcile.
    """


class ReservationNotOpenError(StateError, code="reservation_not_open"):
    """`reservation_not_open`, ZS036, terminal. The reservation was settled or given back; use a new key."""


class ReplayNeedsForceError(StateError, code="replay_needs_force"):
    """`replay_needs_force`, ZS037, terminal.

    A replay gives up the result: run `flowfabric replay --force`, or pass p_force => true.
    """


class CorruptValueError(CorruptionError, code="corruption"):
    """`corruption`, ZX001, terminal.

    Do not retry; run `flowfabric doctor`, and show it and DETAIL to an operator.
    """


class InvariantViolationError(CorruptionError, code="invariant_violation"):
    """`invariant_violation`, ZX002, terminal.

    Do not retry; run `flowfabric doctor`, and show it and DETAIL to an operator.
    """


class InvalidSecretError(CorruptionError, code="invalid_secret"):
    """`invalid_secret`, ZX003, terminal. Install another signing key: `flowfabric keys rotate`."""


class OperationUnavailableError(UnavailableError, code="unavailable"):
    """`unavailable`, ZU001, terminal. Use another call or enable the feature."""


class HmacSecretNotInitializedError(UnavailableError, code="hmac_secret_not_initialized"):
    """`hmac_secret_not_initialized`, ZU002, terminal. Install a signing key: `flowfabric keys rotate`."""


class SchemaVersionMismatchError(UnavailableError, code="schema_version_mismatch"):
    """`schema_version_mismatch`, ZU003, terminal.

    Run `flowfabric migrate`, or use a client of the installed version; `flowfabric status` shows both.
    """


class PartitionConfigMismatchError(UnavailableError, code="partition_config_mismatch"):
    """`partition_config_mismatch`, ZU004, terminal.

    Use the partition count that the schema was installed with; DETAIL has it.
    """


class ReadOnlyServerError(UnavailableError, code="read_only_server"):
    """`read_only_server`, ZU005, terminal.

    Connect to the primary: this server is a standby, or this session is read-only.
    """


class AttemptNotInCreatedStateError(InternalBugError, code="attempt_not_in_created_state"):
    """`attempt_not_in_created_state`, ZB001, bug.

    Report it with DETAIL and `flowfabric doctor`: a correct engine does not raise this.
    """


class InvalidKeysMissingHmacError(InternalBugError, code="invalid_keys_missing_hmac"):
    """`invalid_keys_missing_hmac`, ZB002, bug.

    Report it with DETAIL and `flowfabric doctor`: a correct engine does not raise this.
    """


class InternalError(InternalBugError, code="internal_error"):
    """`internal_error`, ZB003, bug.

    Report it with DETAIL and `flowfabric doctor`: a correct engine does not raise this.
    """


# End of the generated exceptions.
