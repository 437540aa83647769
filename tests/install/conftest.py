"""Fixtures of the installer's tests: sources to change, and servers without our roles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from flowfabric_client.install import CLIENT_ROLES, migrate
from tests.install.sample import SampleEngine
from tests.support.cluster import Cluster


@pytest.fixture
def engine(tmp_path: Path) -> SampleEngine:
    """A small engine in a directory of the test."""
    return SampleEngine(tmp_path / "engine")


@pytest.fixture(scope="session")
def _sample_template(server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    template = server.create_database()
    migrate(server.dsn(template), sources=SampleEngine(tmp_path_factory.mktemp("sample")).sources)
    return template


@pytest.fixture
def installed_database(server: Cluster, _sample_template: str) -> Iterator[str]:
    """A database in which the engine of `engine`, before any change to it, is installed."""
    with server.database(_sample_template) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def _second_server() -> Iterator[Cluster]:
    if os.environ.get("FLOWFABRIC_TEST_DSN"):
        pytest.skip("drops roles, so it needs a server that nobody else uses")
    cluster = Cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def roleless_server(_second_server: Cluster) -> Iterator[Cluster]:
    """A server that has none of the client roles when the test starts; the test may add a role `app`."""
    yield _second_server
    with psycopg.connect(_second_server.dsn(), autocommit=True) as conn:
        mine = "select datname from pg_database where not datistemplate and datname <> 'postgres'"
        for (name,) in conn.execute(mine).fetchall():
            _second_server.drop_database(name)
        for role in (*CLIENT_ROLES, "app"):
            conn.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(role)))
