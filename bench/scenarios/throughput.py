"""How many jobs per second: one at a time, in batches, and with the worker that each system brings."""

from __future__ import annotations

from collections.abc import Sequence

from bench.lab import Lab, Metrics, Run
from bench.scenarios.scenario import Case, Scale, Scenario

BATCH = 100


def cycle_metrics(run: Run) -> Metrics:
    """Jobs per second and costs per job, with the time of each step where they are known."""
    metrics = {"per_second": run.per_second, **run.costs()}
    for step in run.outcomes[0].get("spent", {}):
        spent = sum(outcome["spent"][step] for outcome in run.outcomes)
        metrics[f"{step}_us"] = spent * 1e6 / max(run.operations, 1)
    return metrics


class _Cycles(Scenario):
    tasks = ("cycles",)
    metric = "per_second"
    unit = "jobs/s"
    shows = ("server_cpu_us", "client_cpu_us")
    higher_is_better = True

    def measure(self, lab: Lab, case: Case) -> Metrics:
        return cycle_metrics(lab.run("cycles", **case.arguments))


class Single(_Cycles):
    name = "single"
    title = "create, claim, complete, one at a time"
    repeats = 4

    def cases(self, scale: Scale) -> Sequence[Case]:
        timing = {"batch": 1, "seconds": scale.pick(0.5, 1.5), "warm_up": scale.pick(0.1, 0.3)}
        return [
            Case(f"{clients} client{'s'[: clients - 1]}", {**timing, "clients": clients})
            for clients in scale.pick([1, 4], [1, 4, 8])
        ]


class Batches(_Cycles):
    name = "batch"
    title = f"create, claim, complete, {BATCH} at a time"
    repeats = 5

    def cases(self, scale: Scale) -> Sequence[Case]:
        timing = {"batch": BATCH, "seconds": scale.pick(0.6, 1.5), "warm_up": scale.pick(0.2, 0.4)}
        return [Case("4 clients", {**timing, "clients": 4})]


class Drain(Scenario):
    name = "worker"
    title = "the system's own worker draining no-op jobs"
    repeats = 2
    tasks = ("drain",)
    shows = ("client_cpu_us",)
    metric = "per_second"
    unit = "jobs/s"
    higher_is_better = True

    def cases(self, scale: Scale) -> Sequence[Case]:
        jobs, fill_limit, limit = scale.pick((1000, 0.5, 1.5), (20_000, 3.0, 5.0))
        size = {"jobs": jobs, "fill_limit": fill_limit, "limit": limit}
        return [
            Case(f"concurrency {concurrency}", {**size, "concurrency": concurrency})
            for concurrency in scale.pick([16], [16, 500])
        ]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        run = lab.run("drain", **case.arguments)
        # A worker opens and closes connections as it likes, so that what the server used for it is not known.
        return {"per_second": run.per_second, "client_cpu_us": run.costs()["client_cpu_us"]}
