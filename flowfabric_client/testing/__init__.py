"""For the tests of applications: what the pytest fixture `flowfabric` is made of.

    from flowfabric_client.testing import FlowFabric

    def test_a_welcome_is_sent(flowfabric: FlowFabric) -> None:
        flowfabric.client.create_execution("send_mail", payload=b"{}")
        (run,) = flowfabric.run_until_idle(jobs.worker)
        assert run.outcome == "completed"

docs/testing.md tells the rest. pytest finds the fixture by itself (`flowfabric_client.pytest_plugin`).
"""

from flowfabric_client.testing.clock import Duration, Instant
from flowfabric_client.testing.drain import NotIdleError, Ran
from flowfabric_client.testing.harness import FlowFabric
from flowfabric_client.testing.server import ScratchServer, ServerChoiceError

__all__ = [
    "Duration",
    "FlowFabric",
    "Instant",
    "NotIdleError",
    "Ran",
    "ScratchServer",
    "ServerChoiceError",
]
