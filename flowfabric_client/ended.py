"""The end of an execution, and how to wait for it.

    ended = client.wait(execution_id, timeout_s=30)

Waiting polls. A notification would have to be asked for on the channel of all completions, and then every
completion on the server would send one: a few waiting web requests would slow all workers down. A look costs
one read by key, and the first looks come quickly.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from flowfabric_client import _calls, rows
from flowfabric_client._backoff import Backoff, passes
from flowfabric_client._following import Send, check_pace
from flowfabric_client._steps import Steps
from flowfabric_client.errors import ExecutionNotFoundError, FlowFabricError

_FIRST_PAUSE_S = 0.02
_FIRST_RECONNECT_S = 0.2
_LONGEST_RECONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How an execution ended."""

    execution_id: str
    state: rows.PublicState
    outcome: rows.TerminalOutcome
    result: bytes | None
    """What the handler returned; None without a result, and where the outcome is not `success`."""
    result_encoding: str | None
    failure_reason: str | None
    cancellation_reason: str | None
    ended_at_ms: int

    @property
    def succeeded(self) -> bool:
        """Whether it was completed."""
        return self.outcome == "success"


def waiting(
    send: Send, execution_id: str, *, timeout_s: float | None, poll_interval_s: float
) -> Steps[Ended]:
    """Look until the execution has ended."""
    check_pace(poll_interval_s, timeout_s)
    give_up_at = float("inf") if timeout_s is None else time.monotonic() + timeout_s
    backoff = Backoff(_FIRST_RECONNECT_S, _LONGEST_RECONNECT_S)
    pause_s = min(_FIRST_PAUSE_S, poll_interval_s)
    state: str | None = None
    while True:
        try:
            info = yield from _info(send, execution_id)
            if info.lifecycle_phase == "terminal":
                return (yield from _ended(send, info))
        except FlowFabricError as error:
            if state is None or not passes(error) or time.monotonic() >= give_up_at:
                raise
            wait_s = backoff.pause_s()
        else:
            state = info.public_state
            backoff.reset()
            wait_s, pause_s = pause_s, min(2 * pause_s, poll_interval_s)
            if time.monotonic() >= give_up_at:
                raise TimeoutError(f"{execution_id} is still {state} after {timeout_s:g} s; it goes on.")
        yield max(0.0, min(wait_s, give_up_at - time.monotonic()))


def _info(send: Send, execution_id: str) -> Steps[rows.ExecutionInfo]:
    found: list[rows.ExecutionInfo] = yield from send(_calls.read_execution_info(execution_id))
    if not found:
        raise ExecutionNotFoundError(details={"execution_id": execution_id})
    return found[0]


def _ended(send: Send, info: rows.ExecutionInfo) -> Steps[Ended]:
    results: list[rows.ExecutionResult] = []
    if info.terminal_outcome == "success":
        results = yield from send(_calls.get_execution_result(info.execution_id))
    return Ended(
        execution_id=info.execution_id,
        state=info.public_state,
        outcome=info.terminal_outcome,
        result=results[0].result if results else None,
        result_encoding=results[0].result_encoding if results else None,
        failure_reason=info.failure_reason,
        cancellation_reason=info.cancellation_reason,
        ended_at_ms=info.terminal_at_ms or 0,
    )
