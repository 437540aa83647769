"""The worker's pauses between tries: 100 ms doubling to 5 s, with jitter."""

from __future__ import annotations

from flowfabric_client import _backoff
from flowfabric_client._backoff import passes

__all__ = ["FIRST_S", "LONGEST_S", "Backoff", "passes"]

FIRST_S = 0.1
LONGEST_S = 5.0


class Backoff(_backoff.Backoff):
    """The pauses of one activity of the worker."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        super().__init__(FIRST_S, longest_s)
