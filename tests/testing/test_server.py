"""Where the databases of an application's tests come from."""

from __future__ import annotations

import psycopg
import pytest

from flowfabric_client.testing import FlowFabric, ScratchServer, ServerChoiceError
from flowfabric_client.testing.server import server_choice
from tests.support.cluster import Cluster


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("", {}),
        ("local", {"provider": "local"}),
        ("wheel:18", {"provider": "wheel", "version": 18}),
    ],
)
def test_the_server_can_be_chosen(text: str, choice: dict[str, object]) -> None:
    assert server_choice(text) == choice


@pytest.mark.parametrize("text", ["wheel:eighteen", "nonsense", ":15"])
def test_an_unreadable_choice_of_server_is_refused(text: str) -> None:
    with pytest.raises(ServerChoiceError, match="write it like"):
        server_choice(text)


def test_what_an_application_needs_is_put_into_the_template_once(server: Cluster) -> None:
    prepared = []

    def make_orders(dsn: str) -> None:
        prepared.append(dsn)
        with psycopg.connect(dsn) as connection:
            connection.execute("create table orders (id integer)")

    for _ in range(2):
        with server.database(server.application_template(make_orders)) as dsn, FlowFabric.on(dsn) as test:
            test.client.create_execution("ship")
            with psycopg.connect(test.dsn) as connection:
                connection.execute("insert into orders values (1)")
                assert connection.execute("select count(*) from orders").fetchone() == (1,)
    assert len(prepared) == 1


def test_what_an_application_needs_is_not_in_the_databases_of_others(server: Cluster) -> None:
    def make_orders(dsn: str) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute("create table orders (id integer)")

    server.application_template(make_orders)
    with server.database(server.application_template()) as dsn, psycopg.connect(dsn) as connection:
        assert connection.execute("select to_regclass('orders')").fetchone() == (None,)


def test_a_server_of_the_users_own_is_left_as_it_was(
    server: Cluster, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWFABRIC_TEST_DSN", empty_database)
    monkeypatch.setenv("FLOWFABRIC_TEST_PG", "env")
    own = ScratchServer.start()
    name = own.create_database()
    own.stop()
    with psycopg.connect(empty_database) as connection:
        assert not connection.execute("select from pg_database where datname = %s", [name]).rowcount
