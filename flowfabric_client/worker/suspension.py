"""Waiting for signals: a handler is unwound, and a later run of it from the beginning finds the answer.

What was answered is read from the database by the key of the waitpoint, never from memory, so it does not
matter which worker, run or attempt asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, cast
from uuid import UUID

from flowfabric_client import rows
from flowfabric_client.client import Client
from flowfabric_client.worker import events
from flowfabric_client.worker.job import Job
from flowfabric_client.worker.signals import Suspended
from flowfabric_client.worker.steps import Request, Steps, giving_back, insist

Condition = Mapping[str, Any] | str
OnTimeout = Literal["fail", "cancel", "expire", "resume", "escalate"]

_TIMEOUT_BEHAVIORS: Mapping[OnTimeout, str] = {
    "fail": "fail",
    "cancel": "cancel",
    "expire": "expire",
    "resume": "auto_resume_with_timeout_signal",
    "escalate": "escalate",
}


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that counted."""

    name: str
    waitpoint_key: str
    payload: bytes | None
    payload_encoding: str | None
    category: str | None
    source_type: str | None
    source_identity: str | None
    correlation_id: str | None
    accepted_at_ms: int | None

    def json(self) -> Any:
        """The payload as JSON; None if there is none."""
        return None if self.payload is None else json.loads(self.payload)


@dataclass(frozen=True, slots=True)
class Answer:
    """How waiting ended."""

    ended_by: Literal["signal", "timeout", "operator"]
    signals: tuple[Signal, ...]
    """Those that counted, in the order of their acceptance; none unless signals ended it."""

    @property
    def timed_out(self) -> bool:
        """Whether nobody had answered in time."""
        return self.ended_by == "timeout"

    @property
    def signal(self) -> Signal | None:
        """The signal that ended it; None for a timeout and for an operator."""
        return self.signals[-1] if self.signals else None


@dataclass(frozen=True, slots=True)
class Waitpoint:
    """Where signals can be sent to; whoever has all of it may send them."""

    execution_id: str
    waitpoint_id: UUID
    key: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """What a handler waits for, and for how long."""

    key: str
    condition: Condition
    timeout_ms: int | None
    on_timeout: OnTimeout
    reason: str
    resume_delay_ms: int

    @classmethod
    def of(
        cls,
        key: str,
        signal: str | None,
        condition: Condition | None,
        timeout_ms: int | None,
        on_timeout: OnTimeout,
        reason: str,
        resume_delay_ms: int,
    ) -> Wait:
        """Check what the database could not.

        Raises:
            ValueError: the arguments contradict each other.
        """
        if on_timeout not in _TIMEOUT_BEHAVIORS:
            raise ValueError(f"on_timeout must be one of {', '.join(_TIMEOUT_BEHAVIORS)}, not {on_timeout!r}")
        if condition is None:
            matcher: Any = "Wildcard" if signal is None else {"ByName": signal}
            condition = {"Single": {"waitpoint_key": key, "matcher": matcher}}
        elif signal is not None:
            raise ValueError("give a signal's name or a condition, not both")
        named = _keys_of(condition)
        if named and key not in named:
            # The next run would not find the answer, and would suspend again, for ever.
            raise ValueError(f"the condition must name the waitpoint key {key!r}; it names {named}")
        return cls(key, condition, timeout_ms, on_timeout, reason, resume_delay_ms)

    @property
    def keys(self) -> list[str]:
        """The keys of all waitpoints, this one's first."""
        return [self.key, *(key for key in _keys_of(self.condition) if key != self.key)]

    def submit(self, job: Job, client: Client) -> Any:
        """Ask for the suspension; the same answer comes again if an earlier one was lost."""
        handle = job.handle
        pending = job.waitpoints.get(self.key)
        return client.suspend_execution(
            **handle.arguments(),
            resume_condition=self.condition,
            reason_code=self.reason,
            waitpoint_ids=None if pending is None else [pending.waitpoint_id],
            waitpoint_keys=self.keys if pending is None else None,
            use_pending=pending is not None,
            timeout_in_ms=self.timeout_ms,
            timeout_behavior=_TIMEOUT_BEHAVIORS[self.on_timeout],
            resume_delay_ms=self.resume_delay_ms,
            # No other run has this epoch, so only a repeat of this very call can find this key.
            idempotency_key=f"worker:{handle.lease_epoch}:{sha256(self.key.encode()).hexdigest()}",
        )


def opened(job: Job, answer: Sequence[rows.SuspendedWaitpoint]) -> list[Waitpoint]:
    """The waitpoints that a call of `submit` has just opened; none if an earlier call had."""
    if answer[0].outcome != "suspended" or answer[0].replayed:
        return []
    return [
        Waitpoint(
            job.handle.execution_id,
            cast(UUID, row.waitpoint_id),
            cast(str, row.waitpoint_key),
            cast(str, row.waitpoint_token),
        )
        for row in answer
    ]


def suspend(job: Job, wait: Wait, submit: Request) -> Steps[Answer]:
    """The answer, if there is one; else give the execution back until there is.

    Raises:
        Suspended: there is none yet.
    """
    answer = yield from find(job, wait.key)
    if answer is not None:
        return answer
    with giving_back(job, wait.key):
        waitpoints: Sequence[rows.SuspendedWaitpoint] = yield from insist(job, submit)
        if waitpoints[0].outcome == "suspended":
            job.pause = events.WasSuspended(*job.facts(), wait.key)
            raise Suspended
    # It had been given while the waitpoint was pending, and the lease is still this worker's.
    del job.waitpoints[wait.key]
    return cast(Answer, (yield from find(job, wait.key)))


def open_waitpoint(job: Job, key: str, expires_in_ms: int) -> Steps[Waitpoint | None]:
    """A waitpoint whose token can be handed out before the handler suspends; None if it has its answer."""
    if key not in job.waitpoints:
        answer = yield from find(job, key)
        if answer is not None:
            return None
        # Without an id of its own: one whose answer was lost is of no use to anybody, and ages out.
        minted: rows.MintedWaitpoint = yield from insist(
            job,
            lambda client: client.create_pending_waitpoint(
                **job.handle.arguments(), waitpoint_key=key, expires_in_ms=expires_in_ms
            ),
        )
        job.waitpoints[key] = Waitpoint(
            job.handle.execution_id, minted.waitpoint_id, key, minted.waitpoint_token
        )
    return job.waitpoints[key]


def find(job: Job, key: str) -> Steps[Answer | None]:
    """How waiting at a key ended; None if it has not."""
    found: Sequence[rows.EndedSuspension] = yield from insist(
        job, lambda client: client.list_ended_suspensions(job.handle.execution_id, waitpoint_key=key)
    )
    if not found:
        return None
    # A key is asked once; were it not, the first answer is the one that the code after it has acted upon.
    ended_by = found[0].ended_by
    return Answer(
        # `closed`: an operator has closed every waitpoint by hand, and then let the execution go on.
        cast(Any, ended_by if ended_by in ("signal", "timeout") else "operator"),
        tuple(
            Signal(
                row.signal_name,
                row.waitpoint_key,
                row.payload,
                row.payload_encoding,
                row.signal_category,
                row.source_type,
                row.source_identity,
                row.correlation_id,
                row.accepted_at_ms,
            )
            for row in found
            if row.suspension_id == found[0].suspension_id and row.signal_name is not None
        ),
    )


def _keys_of(condition: Any) -> list[str]:
    """The waitpoint keys that a condition names; the database judges its form."""
    if not isinstance(condition, Mapping):
        return []
    named: list[str] = []
    for kind, body in condition.items():
        if not isinstance(body, Mapping):
            continue
        if kind == "Single":
            named.append(body.get("waitpoint_key", ""))
        elif kind == "Composite":
            named.extend(body.get("waitpoints") or ())
            for member in body.get("members") or ():
                named.extend(_keys_of(member))
    return list(dict.fromkeys(named))
