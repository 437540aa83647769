"""Fixtures of the worker's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowfabric_client import Client
from tests.worker.flavours import Flavour


@pytest.fixture
def client(database: str) -> Iterator[Client]:
    """A client with every right, on a pool of its own."""
    with Client(database) as client:
        yield client


@pytest.fixture(params=["loop", "thread"])
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """Where the handlers of a test run."""
    return Flavour(request.param)
