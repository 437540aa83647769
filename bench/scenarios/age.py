"""Does it stay fast: with a snapshot held open, and with much stored?"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from bench.lab import Lab, Metrics
from bench.scenarios.scenario import Case, Scale, Scenario, Seed
from bench.scenarios.throughput import cycle_metrics


@contextmanager
def _old_snapshot(dsn: str) -> Iterator[None]:
    """Somebody holds a snapshot open, so that vacuum removes nothing."""
    with psycopg.connect(dsn) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select count(*) from pg_class")
        yield
        holder.rollback()


class OldSnapshot(Scenario):
    """Jobs pass in batches before the measurement, and leave dead rows at the head of the queue."""

    name = "snapshot"
    title = "create, claim, complete one at a time, 4 clients, after many jobs have passed"
    tasks = ("cycles", "seed")
    metric = "per_second"
    unit = "jobs/s"
    shows = ("server_cpu_us",)
    higher_is_better = True
    compares_cases = True

    def cases(self, scale: Scale) -> Sequence[Case]:
        load = {
            "batch": 1,
            "seconds": scale.pick(0.8, 3.0),
            "warm_up": scale.pick(0.2, 1.5),
            "clients": 4,
            "passing": scale.pick(500, 5_000),
        }
        return [
            Case("no old snapshot", {"held": False, **load}),
            Case("an old snapshot held open", {"held": True, **load}),
        ]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        arguments = dict(case.arguments)
        if not arguments.pop("held"):
            return cycle_metrics(lab.run("cycles", **arguments))
        with _old_snapshot(lab.dsn):
            return cycle_metrics(lab.run("cycles", **arguments))


class Growth(Scenario):
    """Each case is measured in turn with the smallest one, which `x base` compares it with."""

    name = "growth"
    title = "one cycle of create, claim, complete, one client, with so many stored"
    tasks = ("steps", "seed")
    metric = "us_per_cycle"
    unit = "µs per cycle"
    shows = ("create_us", "claim_us", "complete_us")
    compares_cases = True

    def cases(self, scale: Scale) -> Sequence[Case]:
        samples = {"samples": scale.pick(40, 200)}
        stored = scale.pick((1_000, 10_000), (1_000, 10_000, 100_000, 1_000_000))
        smallest = Seed(99, stored[0])
        return [Case(f"{count:,} stored", samples, Seed(count // 10, count), smallest) for count in stored]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        outcome = lab.run("steps", reference=lab.reference_dsn, **case.arguments).outcomes[0]
        here, there = (
            {f"{step}_us": statistics.median(times) * 1e6 for step, times in outcome[where].items()}
            for where in ("here", "there")
        )
        total = sum(here.values())
        return {"us_per_cycle": total, "to_reference": total / sum(there.values()), **here}
