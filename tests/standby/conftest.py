"""Fixtures: a primary with something of every kind in it, and a hot standby of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.attack.world import World, build_world
from tests.support.cluster import Cluster, Connection
from tests.support.standby import Standby, standby_of


@dataclass(frozen=True)
class Pair:
    """One database on two servers, and what is in it."""

    primary: str
    standby: str
    world: World
    servers: Cluster
    replica: Standby

    @contextmanager
    def connected(self, **parameters: str) -> Iterator[tuple[Connection, Connection]]:
        """A connection to the primary and one to the standby."""
        with (
            psycopg.connect(make_conninfo(self.primary, **parameters)) as primary,
            psycopg.connect(make_conninfo(self.standby, **parameters)) as standby,
        ):
            yield primary, standby


@pytest.fixture(scope="session")
def _primary() -> Iterator[Cluster]:
    if os.environ.get("FLOWFABRIC_TEST_DSN"):
        pytest.skip("makes a standby, so it needs a server of its own")
    cluster = Cluster.start()
    if cluster.bin_dir is None:
        cluster.stop()
        pytest.skip("makes a standby, so it needs the programs of the server")
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def pair(_primary: Cluster) -> Iterator[Pair]:
    """A primary and its standby, which has everything that the primary has."""
    name = _primary.create_database(_primary.template)
    with psycopg.connect(_primary.dsn(name), autocommit=True) as connection:
        world = build_world(connection)
    with standby_of(_primary) as standby:
        standby.catch_up()
        yield Pair(_primary.dsn(name), standby.dsn(name), world, _primary, standby)


@pytest.fixture
def reader(pair: Pair) -> dict[str, str]:
    """The credentials of a login that may read, on both servers."""
    user, password = pair.servers.create_login_role("flowfabric_reader")
    pair.replica.catch_up()
    return {"user": user, "password": password}
