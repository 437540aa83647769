"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowfabric_client import Client, _following
from tests.client.support import Kind


@pytest.fixture
def client(database: str) -> Iterator[Client]:
    """A client with every right, on a pool of its own."""
    with Client(database) as client:
        yield client


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows something finds it by a notification or, five minutes later, by a look."""
    monkeypatch.setattr(_following, "_SHORTEST_PAUSE_S", 300.0)


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each of the two clients in turn."""
    kind: Kind = request.param
    return kind
