"""Fixtures of the worker's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowfabric_client import Client


@pytest.fixture
def client(database: str) -> Iterator[Client]:
    """A client with every right, on a pool of its own."""
    with Client(database) as client:
        yield client
