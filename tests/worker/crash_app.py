"""The worker whose handler kills its process: `flowfabric worker tests.worker.crash_app:worker`."""

from __future__ import annotations

import os
import signal

from flowfabric_client.worker import SyncContext, Worker

worker = Worker(
    os.environ.get("FLOWFABRIC_DSN", ""),
    lease_ttl_ms=1000,
    poll_interval_ms=100,
    concurrency=2,
)


@worker.handler("poison")
def poison(_: SyncContext) -> None:
    """End the whole process at once, as a fault in a native library does."""
    os.kill(os.getpid(), signal.SIGKILL)


@worker.handler("harmless")
def harmless(_: SyncContext) -> str:
    """Do what other work does meanwhile."""
    return "done"
