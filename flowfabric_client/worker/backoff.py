"""Pauses between tries: 100 ms doubling to 5 s, with jitter."""

from __future__ import annotations

import random

from flowfabric_client.errors import (
    ClientTimeoutError,
    FlowFabricError,
    ResourceExhaustedError,
    RetryExhaustedError,
    TransportError,
)

FIRST_S = 0.1
LONGEST_S = 5.0

PASSING = (TransportError, ResourceExhaustedError, ClientTimeoutError, RetryExhaustedError)


def passes(error: FlowFabricError) -> bool:
    """Whether the same call can succeed later without anybody changing anything."""
    return isinstance(error, PASSING)


class Backoff:
    """The pauses of one activity; a success starts them anew."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._next_s = min(FIRST_S, longest_s)

    def reset(self) -> None:
        self._next_s = min(FIRST_S, self._longest_s)

    def pause_s(self) -> float:
        """The next pause: between half of it and all of it, so that workers do not come back together."""
        pause_s = self._next_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        self._next_s = min(2 * self._next_s, self._longest_s)
        return pause_s
