"""Questions about this engine, each compared with a case of its own that leaves out what is asked about."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.lab import Lab, Metrics
from bench.scenarios.scenario import Case, Scale, Scenario
from bench.scenarios.throughput import cycle_metrics

SHAPES = ("chain of 10", "fan-in of 1000", "fan-out of 1000", "quorum of 50 in 100")


class Flows(Scenario):
    """Creating members, and ending them with all that this makes necessary; claims cost the same anywhere."""

    name = "flow"
    title = "what being part of a graph costs a job"
    tasks = ("flows",)
    metric = "us_per_member"
    unit = "µs per member"
    shows = ("create_us", "end_us")
    compares_cases = True

    def cases(self, scale: Scale) -> Sequence[Case]:
        count = {"count": scale.pick(1, 2)}
        alone = Case("no flow", {"shape": None, "count": scale.pick(1, 5)})
        return [alone, *(Case(shape, {"shape": shape, **count}) for shape in SHAPES)]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        flows = lab.run("flows", **case.arguments).outcomes[0]["flows"]
        create, end = (
            statistics.median(flow[part] * 1e6 / flow["members"] for flow in flows)
            for part in ("create", "end")
        )
        return {"us_per_member": create + end, "create_us": create, "end_us": end}


class Capabilities(Scenario):
    name = "capability"
    title = "create, claim, complete one at a time, 4 clients, jobs routed by capability"
    tasks = ("routed",)
    metric = "per_second"
    unit = "jobs/s"
    shows = ("server_cpu_us", "claim_us")
    higher_is_better = True
    compares_cases = True

    def cases(self, scale: Scale) -> Sequence[Case]:
        timing = {"batch": 1, "seconds": scale.pick(0.6, 1.6), "warm_up": scale.pick(0.15, 0.4), "clients": 4}
        return [Case("no capabilities", {**timing, "sets": 0}), Case("10 sets", {**timing, "sets": 10})]

    def measure(self, lab: Lab, case: Case) -> Metrics:
        return cycle_metrics(lab.run("routed", **case.arguments))
