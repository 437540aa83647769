"""Pauses between tries: doubling, with jitter."""

from __future__ import annotations

import random

from flowfabric_client.errors import (
    ClientTimeoutError,
    FlowFabricError,
    ReadOnlyServerError,
    ResourceExhaustedError,
    RetryExhaustedError,
    TransportError,
)

# A server that is read-only may be about to be promoted.
_PASSING = (
    TransportError,
    ResourceExhaustedError,
    ClientTimeoutError,
    RetryExhaustedError,
    ReadOnlyServerError,
)


def passes(error: FlowFabricError) -> bool:
    """Whether the same call can succeed later without anybody changing anything."""
    return isinstance(error, _PASSING)


class Backoff:
    """The pauses of one activity; a success starts them anew."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = min(first_s, longest_s)
        self._longest_s = longest_s
        self._next_s = self._first_s

    def reset(self) -> None:
        self._next_s = self._first_s

    def pause_s(self) -> float:
        """The next pause: between half of it and all of it, so that clients do not come back together."""
        pause_s = self._next_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        self._next_s = min(2 * self._next_s, self._longest_s)
        return pause_s
