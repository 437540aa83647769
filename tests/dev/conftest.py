"""Fixtures of the tests for the private Postgres."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric_client.dev import THROW_AWAY_SETTINGS, PostgresServer, start_server


@pytest.fixture(autouse=True)
def _no_choice_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("FLOWFABRIC_TEST_DSN", "FLOWFABRIC_PG_BIN"):
        monkeypatch.delenv(variable, raising=False)
    # A daemon that happens to run here would change what `auto` means.
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A short path that every user can enter, unlike pytest's own temporary directories."""
    directory = Path(tempfile.mkdtemp(prefix="ffdev-", dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def running() -> Iterator[PostgresServer]:
    """A server for tests that only need one to be there."""
    with start_server(provider="local", settings=THROW_AWAY_SETTINGS) as server:
        yield server
