"""Reaching the server: what a client says when it cannot, and what it notices by itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from flowfabric_client import AsyncClient, Client, errors
from tests.client.support import Kind, outage
from tests.support.cluster import Cluster, Connection

Call = Callable[..., Any]


@pytest.fixture
def call(kind: Kind) -> Call:
    """Opens a client, makes one call with it, and closes it."""

    async def in_loop(method: str, *arguments: Any, source: Any, **options: Any) -> Any:
        async with AsyncClient(source, **options) as client:
            return await getattr(client, method)(*arguments)

    def once(method: str, *arguments: Any, source: Any, **options: Any) -> Any:
        if kind == "async":
            return asyncio.run(in_loop(method, *arguments, source=source, **options))
        with Client(source, **options) as client:
            return getattr(client, method)(*arguments)

    return once


def test_an_unreachable_server_is_named_at_once_with_the_reason(call: Call) -> None:
    with pytest.raises(errors.TransportError) as refused:
        call("ping", source="host=/nowhere port=1 user=me password=secret dbname=shop", connect_timeout_s=60)
    message = str(refused.value)
    assert message.startswith("cannot connect to host=/nowhere port=1 user=me dbname=shop: ")
    assert "No such file or directory" in message
    assert "Check that the server runs" in message
    assert "secret" not in message
    assert refused.value.retryable
    assert isinstance(refused.value.__cause__, psycopg.OperationalError)


def test_what_is_no_connection_string_is_refused_without_repeating_it(call: Call) -> None:
    with pytest.raises(ValueError, match="not a connection string") as refused:
        call("ping", source="postgres:secret@shop")
    assert "secret" not in str(refused.value)


def test_a_database_that_does_not_exist_is_named(call: Call, server: Cluster) -> None:
    with pytest.raises(errors.TransportError, match='database "no_such_thing" does not exist'):
        call("ping", source=server.dsn("no_such_thing"), connect_timeout_s=60)


def test_a_server_that_does_not_answer_is_given_up(call: Call) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host, port = silent.getsockname()
        with pytest.raises(errors.TransportError, match=r"no answer within 0\.3 s|timeout"):
            call("ping", source=f"host={host} port={port} user=me", connect_timeout_s=0.3)


def test_the_next_call_tries_again(database: str, server: Cluster) -> None:
    with Client(database) as client:
        with outage(server, database), pytest.raises(errors.TransportError, match="not currently accepting"):
            client.ping()
        assert client.ping()


def test_a_server_that_went_away_is_named(database: str, server: Cluster) -> None:
    with Client(database, connect_timeout_s=0.3) as client:
        client.ping()
        with (
            outage(server, database),
            pytest.raises(errors.TransportError, match=r"cannot connect to .*not currently accepting"),
        ):
            client.ping()
        assert client.ping(), "the next call tries at once"


def test_a_full_pool_says_so(database: str) -> None:
    with (
        Client(database, max_connections=1, connect_timeout_s=0.1, pool_timeout_s=0.1) as client,
        client.transaction(),
        pytest.raises(errors.ResourceExhaustedError, match=r"all 1 connections .* larger max_connections"),
    ):
        client.ping()


def test_a_full_async_pool_says_so(database: str) -> None:
    async def fill() -> None:
        async with (
            AsyncClient(database, max_connections=1, connect_timeout_s=0.1, pool_timeout_s=0.1) as client,
            client.transaction(),
        ):
            await client.ping()

    with pytest.raises(errors.ResourceExhaustedError, match=r"all 1 connections .* larger max_connections"):
        asyncio.run(fill())


def test_a_closed_client_says_so(database: str) -> None:
    with Client(database) as client:
        client.ping()
    with pytest.raises(RuntimeError, match="this client is closed"):
        client.ping()


def test_a_creation_is_not_sent_into_a_connection_that_has_ended(
    kind: Kind, database: str, db: Connection
) -> None:
    """Without a key it cannot be repeated: it succeeds because the end is noticed before it is sent."""

    def end_all_others() -> None:
        db.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

    async def create_twice() -> None:
        async with AsyncClient(database) as client:
            await client.create_execution("test")
            await asyncio.to_thread(end_all_others)
            await client.create_execution("test")

    if kind == "async":
        asyncio.run(create_twice())
    else:
        with Client(database) as client:
            client.create_execution("test")
            end_all_others()
            client.create_execution("test")
    assert db.execute("select from flowfabric.ff_exec_core").rowcount == 2


def test_a_direct_connection_prepares_what_it_uses_often(database: str) -> None:
    def prepared(client: Client) -> int:
        for _ in range(7):
            client.ping()
        with client.transaction() as tx:
            return tx.connection.execute("select from pg_prepared_statements").rowcount

    with ExitStack() as stack:
        default, without = (
            stack.enter_context(Client(database, max_connections=1, prepare_statements=choice))
            for choice in (None, False)
        )
        assert prepared(default) == 1
        assert prepared(without) == 0


def test_many_threads_share_what_becomes_of_an_outage(database: str, server: Cluster) -> None:
    with (
        Client(database, max_connections=2, connect_timeout_s=0.3) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        client.ping()
        with outage(server, database):
            asked = [threads.submit(client.ping) for _ in range(8)]
            refusals = [each.exception(20) for each in asked]
        assert {type(refusal) for refusal in refusals} == {errors.TransportError}
        again = [threads.submit(client.ping) for _ in range(8)]
        assert all(each.result(20) for each in again)
