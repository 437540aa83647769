"""The order in which a transaction of several calls takes executions, so that two of them never deadlock."""

from __future__ import annotations

import re
from uuid import UUID

_WIRE_ID = re.compile(r"\{fp:(?P<partition>\d{1,5})\}:(?P<uuid>[0-9a-fA-F-]{36})")


def lock_order(execution_id: str) -> tuple[int, int]:
    """The place of an execution in the engine's lock order: `sorted(execution_ids, key=lock_order)`.

    Batch calls sort by themselves. docs/client.md says when a transaction needs it.

    Raises:
        ValueError: this is no execution id.
    """
    match = _WIRE_ID.fullmatch(execution_id)
    if match is None:
        raise ValueError(f"{execution_id!r} is no execution id")
    return int(match["partition"]), UUID(match["uuid"]).int
