"""Lost answers: when `execution_not_active` means that an earlier, unanswered call had won.

A caller that lost its connection after sending complete, fail or cancel repeats the call with the same fence.
If the first one was committed, the repeat is refused with `execution_not_active`, and the details of that
refusal tell whose work ended the execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from uuid import UUID

EndingCall = Literal["complete", "fail", "cancel"]


class HeldLease(Protocol):
    """What is needed of the handle with which the call was made."""

    @property
    def lease_epoch(self) -> int: ...

    @property
    def attempt_id(self) -> UUID: ...


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The answer that was lost.

    `delay_until_ms` is the time of a scheduled retry; None if there is none, or if the retry has become due
    since, which leaves the time unknown.
    """

    outcome: Literal["completed", "terminal_failed", "retry_scheduled", "cancelled"]
    delay_until_ms: int | None = None


def reconcile(call: EndingCall, details: Mapping[str, Any], lease: HeldLease | None) -> Reconciled | None:
    """The lost answer of `call`, or None if the refusal stands.

    Args:
        call: What was repeated.
        details: The details of its `execution_not_active`.
        lease: The handle of the call; None for a call without one: a cancel by an operator or the engine.
    """
    outcome = details.get("terminal_outcome")
    ended_by_this_attempt = (
        lease is not None
        and details.get("lease_epoch") == lease.lease_epoch
        and details.get("attempt_id") == str(lease.attempt_id)
    )
    if call == "complete" and outcome == "success" and ended_by_this_attempt:
        return Reconciled("completed")
    if call == "cancel" and outcome == "cancelled" and (lease is None or ended_by_this_attempt):
        return Reconciled("cancelled")
    if call == "fail":
        if details.get("lifecycle_phase") == "terminal" and outcome == "failed" and ended_by_this_attempt:
            return Reconciled("terminal_failed")
        if _awaits_retry_of(details, lease):
            return Reconciled("retry_scheduled", details.get("delay_until_ms"))
    return None


def _awaits_retry_of(details: Mapping[str, Any], lease: HeldLease | None) -> bool:
    # The attempt id is gone once a retry is scheduled. The attempt state is what tells a retry from a pause:
    # an execution that its worker delayed is runnable under the same epoch too.
    return (
        lease is not None
        and details.get("lifecycle_phase") == "runnable"
        and details.get("attempt_state") == "pending_retry_attempt"
        and details.get("lease_epoch") == lease.lease_epoch
    )
