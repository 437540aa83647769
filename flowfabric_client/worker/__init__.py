"""The worker runtime: `Worker`, the contexts that handlers get, and the events that observers hear.

from flowfabric_client.worker import Context, Worker
"""

from flowfabric_client.worker import events
from flowfabric_client.worker.codec import InvalidPayloadError, UnserialisableResultError
from flowfabric_client.worker.context import Context, SyncContext
from flowfabric_client.worker.signals import Delayed, LeaseLost, PermanentError
from flowfabric_client.worker.worker import Worker

__all__ = [
    "Context",
    "Delayed",
    "InvalidPayloadError",
    "LeaseLost",
    "PermanentError",
    "SyncContext",
    "UnserialisableResultError",
    "Worker",
    "events",
]
