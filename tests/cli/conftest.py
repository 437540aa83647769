"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest
from psycopg.conninfo import make_conninfo

from flowfabric_client.client import Client
from tests.cli.support import CommandLine
from tests.support.cluster import Cluster


class CommandLineAs(Protocol):
    """The command line with the rights of some roles and no others."""

    def __call__(self, *roles: str) -> CommandLine: ...


@pytest.fixture
def flowfabric(database: str) -> CommandLine:
    """The command line with every right."""
    return CommandLine(database)


@pytest.fixture
def flowfabric_as(server: Cluster, database: str) -> CommandLineAs:
    """A factory of command lines with few rights."""

    def command_line(*roles: str) -> CommandLine:
        user, password = server.create_login_role(*roles)
        return CommandLine(make_conninfo(database, user=user, password=password))

    return command_line


@pytest.fixture
def client(database: str) -> Iterator[Client]:
    """A client with every right."""
    with Client(database) as client:
        yield client
