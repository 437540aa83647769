"""The pytest plugin: fixtures for the tests of applications. `-p no:flowfabric` switches it off.

pytest loads this file in every run of every project that has the package installed. So it imports nothing
more of it before a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flowfabric_client.testing import FlowFabric, ScratchServer


@pytest.fixture(scope="session")
def flowfabric_server() -> Iterator[ScratchServer]:
    """The private Postgres of this test process, or the server that FLOWFABRIC_TEST_DSN names."""
    from flowfabric_client.dev import DevServerError
    from flowfabric_client.testing import ScratchServer, ServerChoiceError

    try:
        server = ScratchServer.start()
    except (DevServerError, ServerChoiceError) as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def flowfabric_setup() -> Callable[[str], None] | None:
    """Nothing. Override it with a function that makes the application's own tables in a database.

    It gets the connection string of the database that every test's database is a copy of, so it runs once.
    """
    return None


@pytest.fixture
def flowfabric(
    flowfabric_server: ScratchServer, flowfabric_setup: Callable[[str], None] | None
) -> Iterator[FlowFabric]:
    """FlowFabric in a database that is the test's alone, and the means to move what is in it."""
    from flowfabric_client.testing import FlowFabric

    with (
        flowfabric_server.database(flowfabric_server.application_template(flowfabric_setup)) as dsn,
        FlowFabric.on(dsn) as flowfabric,
    ):
        yield flowfabric
