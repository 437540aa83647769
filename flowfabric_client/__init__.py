"""FlowFabric on Postgres: the client of a durable execution engine that is a Postgres schema.

    from flowfabric_client import Client

    with Client("postgresql://...") as client:
        created = client.create_execution("send_mail", payload=b"...")
        ended = client.wait(created.execution_id)

`Client` and `AsyncClient` have one method per public function of the engine, and `events`, `tail_stream` and
`wait`; `Flow` builds a graph for `submit_flow`, `Policy` has the rules of an execution; `errors` has one
exception per code; `lock_order` sorts what one transaction changes. See docs/client.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flowfabric_client._version import __version__

if TYPE_CHECKING:
    from flowfabric_client import errors, events, rows
    from flowfabric_client.aio import AsyncClient
    from flowfabric_client.client import Client
    from flowfabric_client.ended import Ended
    from flowfabric_client.flow import Flow
    from flowfabric_client.frames import Frame
    from flowfabric_client.handle import Handle
    from flowfabric_client.ordering import lock_order
    from flowfabric_client.policy import Backoff, Policy, Retry, Routing, Streams, Timeouts

__all__ = [
    "AsyncClient",
    "Backoff",
    "Client",
    "Ended",
    "Flow",
    "Frame",
    "Handle",
    "Policy",
    "Retry",
    "Routing",
    "Streams",
    "Timeouts",
    "__version__",
    "errors",
    "events",
    "lock_order",
    "rows",
]

# Loaded at their first use: the command line and the pytest plugin import this package for much less, and
# most of the time would go into psycopg and the classes of rows.
_HOMES = {
    "AsyncClient": "aio",
    "Backoff": "policy",
    "Client": "client",
    "Ended": "ended",
    "Flow": "flow",
    "Frame": "frames",
    "Handle": "handle",
    "Policy": "policy",
    "Retry": "policy",
    "Routing": "policy",
    "Streams": "policy",
    "Timeouts": "policy",
    "lock_order": "ordering",
}
_MODULES = ("errors", "events", "rows")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
