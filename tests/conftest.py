"""Fixtures: a database with FlowFabric in it, connections to it, its clock, its roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.cluster import Cluster, Connection
from tests.support.engine import Race
from tests.support.plugin import cluster_of


class Connect(Protocol):
    """Opens another connection to the test's database; it is closed after the test."""

    def __call__(self, *, autocommit: bool = True, **parameters: Any) -> Connection: ...


class RoleConnection(Protocol):
    """Opens a connection as a fresh login role that is a member of the given roles, and of nothing else."""

    def __call__(self, *roles: str, autocommit: bool = True) -> Connection: ...


class Clock:
    """The engine's clock, as every connection to the test's database sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def freeze(self, ms: int) -> None:
        """Let the clock stand at an instant, in milliseconds since 1970."""
        self._set("freeze", ms)

    def advance(self, ms: int) -> None:
        """Move the clock forward, whether it stands or runs."""
        self._set("advance", ms)

    def reset(self) -> None:
        """Go back to the wall clock."""
        self._set("reset", None)

    def now_ms(self) -> int:
        """What the engine takes for the present."""
        row = self._connection.execute("select flowfabric.ff_now_ms()").fetchone()
        assert row is not None
        return int(row[0])

    def _set(self, mode: str, ms: int | None) -> None:
        self._connection.execute("select flowfabric.ff_test_set_clock(p_mode => %s, p_ms => %s)", [mode, ms])


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Cluster:
    """The private server of this test process."""
    return cluster_of(request.config)


@pytest.fixture(scope="session")
def flowfabric_server(server: Cluster) -> Cluster:
    """The fixture `flowfabric`, which applications use, gets its databases here from the same server."""
    return server


@pytest.fixture
def empty_database(server: Cluster) -> Iterator[str]:
    """A database with nothing in it, as its connection string."""
    with server.database() as dsn:
        yield dsn


@pytest.fixture
def database(server: Cluster) -> Iterator[str]:
    """A database with FlowFabric and the test clock, as its connection string."""
    with server.database(server.template) as dsn:
        yield dsn


@pytest.fixture
def production_database(server: Cluster) -> Iterator[str]:
    """A database with FlowFabric as it is installed in production, as its connection string."""
    with server.database(server.production_template) as dsn:
        yield dsn


@pytest.fixture
def connect(database: str) -> Iterator[Connect]:
    """A factory of connections to `database`, as superuser."""
    with ExitStack() as stack:

        def factory(*, autocommit: bool = True, **parameters: Any) -> Connection:
            dsn = make_conninfo(database, **parameters)
            connection = psycopg.connect(dsn, autocommit=autocommit)
            stack.callback(connection.close)
            return connection

        yield factory


@pytest.fixture
def old_snapshot(connect: Connect) -> Callable[[], None]:
    """Holds a snapshot open, so that nothing that dies from then on is removed."""

    def hold() -> None:
        holder = connect(autocommit=False)
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1")

    return hold


@pytest.fixture
def db(connect: Connect) -> Connection:
    """A connection to `database` as superuser, in autocommit mode."""
    return connect()


@pytest.fixture
def clock(connect: Connect) -> Clock:
    """The engine's clock in `database`."""
    return Clock(connect())


@pytest.fixture
def race(connect: Connect, clock: Clock) -> Race:
    """Two sessions at 1000 ms, and somebody who watches them."""
    clock.freeze(1_000)
    return Race(leader=connect(autocommit=False), follower=connect(), watcher=connect())


@pytest.fixture
def role_connection(server: Cluster, connect: Connect) -> RoleConnection:
    """A factory of connections to `database` with the rights of some of FlowFabric's roles."""

    def factory(*roles: str, autocommit: bool = True) -> Connection:
        user, password = server.create_login_role(*roles)
        return connect(autocommit=autocommit, user=user, password=password)

    return factory
