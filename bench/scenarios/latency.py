"""How long one step takes: a claim, the way from creation to start, a wait for a signal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.lab import Lab, Metrics
from bench.scenarios.scenario import Case, Scale, Scenario, Seed


def percentiles(seconds: Sequence[float]) -> Metrics:
    """Median and 99th percentile in milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50_ms": statistics.median(ordered) * 1e3,
        "p99_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3,
    }


class _Latency(Scenario):
    metric = "p50_ms"
    unit = "p50 ms"
    shows = ("p99_ms",)


class ClaimLatency(_Latency):
    """Each case is measured in turn with an empty database, which `x base` compares it with."""

    name = "claim"
    title = "one claim, whatever waits or has finished"
    tasks = ("steps", "seed")
    compares_cases = True

    def cases(self, scale: Scale) -> Sequence[Case]:
        waiting, finished = scale.pick((2_000, 10_000), (100_000, 1_000_000))
        samples = {"samples": scale.pick(40, 200)}
        empty = Seed(0, 0)
        return [
            Case(name, samples, seed, empty)
            for name, seed in (
                ("another empty database", Seed(0, 1)),
                (f"{waiting:,} waiting", Seed(waiting, 0)),
                (f"{waiting:,} waiting, {finished:,} finished", Seed(waiting, finished)),
            )
        ]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        outcome = lab.run("steps", reference=lab.reference_dsn, **case.arguments).outcomes[0]
        here, there = (percentiles(outcome[where]["claim"]) for where in ("here", "there"))
        return {**here, "to_reference": here["p50_ms"] / there["p50_ms"]}


class StartLatency(_Latency):
    name = "start"
    title = "from creation to the start of its handler, the system's own worker, 50 per second"
    tasks = ("start_latency",)
    repeats = 2

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case("50/s", {"per_second": 50, "samples": scale.pick(40, 300), "concurrency": 16})]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        return percentiles(lab.run("start_latency", clients=2, **case.arguments).outcomes[0]["seconds"])


class SignalRoundTrip(_Latency):
    name = "signal"
    title = "suspend, signal, resume"
    tasks = ("round_trips",)

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case("one job", {"samples": scale.pick(30, 300)})]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        return percentiles(lab.run("round_trips", **case.arguments).outcomes[0]["seconds"])
