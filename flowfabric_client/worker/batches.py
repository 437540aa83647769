"""What the batch calls of a worker have in common: how large they may be, and the fences that they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from flowfabric_client.worker.job import Job

T = TypeVar("T")

#: The engine's limit for completions, failures and renewals in one call.
LARGEST_BATCH = 1000


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in parts that one batch call can take."""
    for start in range(0, len(items), LARGEST_BATCH):
        yield items[start : start + LARGEST_BATCH]


def fences(jobs: Iterable[Job]) -> dict[str, Any]:
    """The fence arrays that every batch call takes."""
    handles = [job.handle for job in jobs]
    return {
        "execution_ids": [handle.execution_id for handle in handles],
        "lease_ids": [handle.lease_id for handle in handles],
        "lease_epochs": [handle.lease_epoch for handle in handles],
        "attempt_ids": [handle.attempt_id for handle in handles],
    }
