"""What one completed job leaves behind: WAL, commits, dead rows."""

from __future__ import annotations

from collections.abc import Sequence

from bench.lab import Lab, Metrics
from bench.scenarios.scenario import Case, Scale, Scenario
from bench.scenarios.throughput import BATCH


class Footprint(Scenario):
    """A page is written whole once after a checkpoint: the warm-up touches pages before the count begins."""

    name = "footprint"
    title = "WAL bytes, commits and dead rows per completed job"
    tasks = ("cycles",)
    metric = "wal_bytes"
    unit = "bytes of WAL"
    repeats = 1  # it hardly varies
    shows = ("commits", "dead_rows")

    def cases(self, scale: Scale) -> Sequence[Case]:
        timing = {"clients": 1, "warm_up": scale.pick(0.3, 1.5)}
        return [
            Case("single", {**timing, "batch": 1, "seconds": scale.pick(0.5, 2.0)}),
            Case(f"batch {BATCH}", {**timing, "batch": BATCH, "seconds": scale.pick(0.5, 2.0)}),
        ]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        before = lab.activity()
        run = lab.run("cycles", **case.arguments)
        after = lab.activity()
        # Statistics arrive when a client leaves, so that they include its warm-up.
        done = max(run.operations + sum(outcome["warmed_up"] for outcome in run.outcomes), 1)
        return {
            "wal_bytes": run.costs()["wal_bytes"],
            "commits": (after.commits - before.commits) / done,
            "dead_rows": (after.dead_rows - before.dead_rows) / done,
        }
