"""The worker runtime: `Worker`, the contexts that handlers get, and the events that observers hear.

from flowfabric_client.worker import Context, Worker
"""

from flowfabric_client.worker import events
from flowfabric_client.worker.children import Child, EndedChild
from flowfabric_client.worker.codec import (
    InvalidPayloadError,
    UnserialisableResultError,
    UnserialisableValueError,
)
from flowfabric_client.worker.context import Context, Reservation, SyncContext, SyncReservation
from flowfabric_client.worker.signals import (
    Delayed,
    LeaseLost,
    Paused,
    PermanentError,
    Suspended,
    WaitingForChildren,
)
from flowfabric_client.worker.suspension import Answer, Signal, Waitpoint
from flowfabric_client.worker.worker import Worker

__all__ = [
    "Answer",
    "Child",
    "Context",
    "Delayed",
    "EndedChild",
    "InvalidPayloadError",
    "LeaseLost",
    "Paused",
    "PermanentError",
    "Reservation",
    "Signal",
    "Suspended",
    "SyncContext",
    "SyncReservation",
    "UnserialisableResultError",
    "UnserialisableValueError",
    "WaitingForChildren",
    "Waitpoint",
    "Worker",
    "events",
]
