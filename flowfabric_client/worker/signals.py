"""What a handler may raise, and what unwinds it."""

from __future__ import annotations

import asyncio


class PermanentError(Exception):
    """Raised by a handler whose work cannot succeed, however often it is tried: no retry follows."""


class LeaseLost(asyncio.CancelledError):
    """Unwinds a handler whose execution is not this worker's any more.

    It is a cancellation, so that libraries clean up as they do for any other, and no `Exception`, so that a
    handler's own `except Exception` lets it through.
    """

    def __init__(self, execution_id: str, code: str) -> None:
        super().__init__(f"the lease on {execution_id} is lost: {code}")
        self.execution_id = execution_id
        self.code = code


class Paused(BaseException):
    """Unwinds a handler that has given its execution back; a later run of it goes on with the same attempt.

    No `Exception`, so that a handler's own `except Exception` lets it through.
    """


class Delayed(Paused):
    """The execution comes back at a time: `ctx.delay`."""


class Suspended(Paused):
    """The execution comes back when it is signalled, resumed, or has waited for too long: `ctx.suspend`."""


class WaitingForChildren(Paused):
    """The execution comes back to look at its children: `ctx.wait_children`."""
