"""The scenarios, in the order in which they run."""

from bench.scenarios.age import Growth, OldSnapshot
from bench.scenarios.engine import Capabilities, Flows
from bench.scenarios.footprint import Footprint
from bench.scenarios.latency import ClaimLatency, SignalRoundTrip, StartLatency
from bench.scenarios.scenario import Case, Scale, Scenario, Seed
from bench.scenarios.throughput import Batches, Drain, Single

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Single(),
        Batches(),
        Drain(),
        ClaimLatency(),
        StartLatency(),
        SignalRoundTrip(),
        Flows(),
        Capabilities(),
        OldSnapshot(),
        Footprint(),
        Growth(),
    )
}

__all__ = ["SCENARIOS", "Case", "Scale", "Scenario", "Seed"]
