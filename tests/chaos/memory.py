"""How much memory processes have for themselves, as Linux counts it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PRIVATE = re.compile(r"^Private_(?:Clean|Dirty):\s+(\d+) kB$", re.MULTILINE)


def private_mb(pids: Iterable[int]) -> float:
    """The private memory of processes together; shared buffers and program text do not count."""
    total_kb = 0
    for pid in pids:
        # A process may end while it is looked at.
        with suppress(OSError):
            total_kb += sum(map(int, _PRIVATE.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())))
    return total_kb / 1024


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def growth(samples: list[float]) -> float:
    """The last quarter in relation to the second: the first is when caches and pools fill."""
    quarter = len(samples) // 4
    if quarter == 0:
        raise ValueError("too few samples to judge growth")
    return _mean(samples[-quarter:]) / _mean(samples[quarter : 2 * quarter])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
