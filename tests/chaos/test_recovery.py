"""How pools come back when the database has ended their connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool

from flowfabric_client import Client
from flowfabric_client.worker.connections import ConnectionOptions
from tests.support.cluster import Connection

SIZE = 4
#: A pool of psycopg that finds so many dead connections waits for 7 s.
PATIENCE_S = 5.0


def end_connections(db: Connection, name: str) -> None:
    ended = db.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s", [name]
    )
    assert ended.fetchall() == [(True,)] * SIZE


@pytest.mark.parametrize("pool_of", [ConnectionOptions.own_pool, ConnectionOptions.handlers_async_pool])
def test_nobody_in_the_event_loop_waits_for_each_dead_connection(
    database: str, db: Connection, pool_of: Callable[..., AsyncConnectionPool[Any]]
) -> None:
    async def use() -> None:
        options = ConnectionOptions(database, "a worker", prepare_statements=True)
        async with pool_of(options, min_size=SIZE, max_size=SIZE) as pool:
            await pool.wait()
            end_connections(db, "a worker")
            async with pool.connection(PATIENCE_S) as connection:
                await connection.execute("select 1")

    asyncio.run(use())


def test_handlers_in_threads_do_not_wait_for_each_dead_connection(database: str, db: Connection) -> None:
    options = ConnectionOptions(database, "a worker", prepare_statements=True)
    with options.handlers_pool(min_size=SIZE, max_size=SIZE) as pool:
        pool.wait()
        end_connections(db, "a worker")
        with pool.connection(PATIENCE_S) as connection:
            connection.execute("select 1")


def test_a_client_does_not_wait_for_each_dead_connection(database: str, db: Connection) -> None:
    dsn = make_conninfo(database, application_name="a client")
    with Client(dsn, max_connections=SIZE, connect_timeout_s=PATIENCE_S) as client:
        with ExitStack() as stack:
            for _ in range(SIZE):
                stack.enter_context(client.transaction()).ping()
        end_connections(db, "a client")
        began = time.monotonic()
        client.ping()
        assert time.monotonic() - began < PATIENCE_S
