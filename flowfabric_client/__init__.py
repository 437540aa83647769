"""FlowFabric on Postgres: the client of a durable execution engine that is a Postgres schema.

    from flowfabric_client import Client

    with Client("postgresql://...") as client:
        created = client.create_execution("send_mail", payload=b"...")

`Client` and `AsyncClient` have one method per public function of the engine; `errors` one exception per code.
"""

from flowfabric_client import errors, rows
from flowfabric_client._version import __version__
from flowfabric_client.aio import AsyncClient
from flowfabric_client.client import Client
from flowfabric_client.handle import Handle

__all__ = ["AsyncClient", "Client", "Handle", "__version__", "errors", "rows"]
