"""What a call does over time, stated once for both clients.

A generator of steps says what happens next: a `Call` is to be sent once, a number is a pause in seconds. It
is sent the rows, or thrown the error, and in the end it returns an answer. The two clients only carry the
steps out, one by waiting and the other by awaiting.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import psycopg

from flowfabric_client import rows
from flowfabric_client._call import Call
from flowfabric_client._denial import explained
from flowfabric_client._reconcile import EndingCall, reconcile
from flowfabric_client.errors import (
    CompletionDispatchPendingError,
    ExecutionNotActiveError,
    FlowFabricError,
    FlowMembershipChangedError,
    TransportError,
    from_psycopg,
)

T = TypeVar("T")
Step = TypeVar("Step")
Steps = Generator[Call[Any] | float, Any, T]

# Pauses before a call is repeated that the server refused for a reason that passes by itself.
_PAUSES_S = (0.005, 0.010, 0.020)
# Pauses before a call is repeated whose answer was lost with the connection: long enough for a restart.
_RECONNECT_PAUSES_S = (0.05, 0.2, 1.0)
_TRANSIENT_SQLSTATES = frozenset({"40001", "40P01", "55P03"})
_ENDING_CALLS: Mapping[str, EndingCall] = {
    "ff_complete_execution": "complete",
    "ff_fail_execution": "fail",
    "ff_cancel_execution": "cancel",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a step: a value, or the error that it ended with."""

    value: Any = None
    error: Exception | None = None

    def resume(self, steps: Generator[Step, Any, Any]) -> Step:
        """The step after the one that was answered."""
        return steps.send(self.value) if self.error is None else steps.throw(self.error)


def once(call: Call[T]) -> Steps[list[T]]:
    """Send a call on a connection that the caller owns: nothing is repeated there."""
    try:
        return cast(list[T], (yield call))
    except psycopg.Error as cause:
        raise explained(from_psycopg(cause, function=call.function), call) from cause


def repeating(call: Call[T]) -> Steps[list[T]]:
    """Send a call as a transaction of its own, and again where that cannot do it twice."""
    tries = 0
    answer_was_lost = False
    while True:
        tries += 1
        try:
            return cast(list[T], (yield call))
        except psycopg.Error as cause:
            error = from_psycopg(cause, idempotent=call.repeatable, attempts=tries, function=call.function)
            if answer_was_lost and (answer := _lost_answer(call, error)) is not None:
                return [answer]
            pause = _pause_before_repeat(cause, error, call, tries)
            if pause is None:
                raise explained(error, call) from cause
            answer_was_lost = answer_was_lost or isinstance(error, TransportError)
        yield pause


def _pause_before_repeat(
    cause: psycopg.Error, error: FlowFabricError, call: Call[Any], tries: int
) -> float | None:
    """How long to wait before the call is made again, or None if its error stands."""
    if isinstance(error, TransportError):
        pauses = _RECONNECT_PAUSES_S if error.retryable and call.repeatable else ()
    elif cause.sqlstate in _TRANSIENT_SQLSTATES or isinstance(
        error, FlowMembershipChangedError | CompletionDispatchPendingError
    ):
        pauses = _PAUSES_S
    else:
        pauses = ()
    return pauses[tries - 1] if tries <= len(pauses) else None


@dataclass(frozen=True, slots=True)
class _Fence:
    lease_epoch: int
    attempt_id: Any


def _lost_answer(call: Call[T], error: FlowFabricError) -> T | None:
    """The answer that an earlier try of a complete, fail or cancel must have had, or None."""
    ending = _ENDING_CALLS.get(call.function)
    if ending is None or not isinstance(error, ExecutionNotActiveError):
        return None
    params = call.params
    fence = _Fence(params["lease_epoch"], params["attempt_id"]) if params["lease_id"] is not None else None
    answer = reconcile(ending, error.details, fence)
    if answer is None:
        return None
    execution_id = params["execution_id"]
    if ending == "complete":
        row: Any = rows.ExecutionOutcome(answer.outcome, execution_id, "completed")
    elif ending == "cancel":
        row = rows.Cancellation(answer.outcome, execution_id, None, "cancelled")
    else:
        terminal = answer.outcome == "terminal_failed"
        row = rows.Failure(
            answer.outcome, execution_id, "failed" if terminal else "delayed", answer.delay_until_ms, None
        )
    return cast(T, row)
