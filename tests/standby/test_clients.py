"""The Python client and the worker on a hot standby, and after its promotion."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest

from flowfabric_client import AsyncClient, Client
from flowfabric_client.errors import ReadOnlyServerError
from flowfabric_client.worker import Worker
from tests.standby.conftest import Pair
from tests.support.concurrency import DEADLINE_S, in_background, wait_until
from tests.support.standby import standby_of


def test_calls_that_write_are_refused_plainly(pair: Pair) -> None:
    with Client(pair.standby) as client:
        for refused in (
            lambda: client.create_execution("mail"),
            lambda: client.create_executions(["mail"]),
            lambda: client.claim_next(["default"], "worker", "worker-1"),
            lambda: client.register_worker("worker", "worker-1", lanes=["default"]),
            client.tick,
            lambda: client.commit_event_cursor("me", "lease", "v1:1:1:1"),
        ):
            with pytest.raises(
                ReadOnlyServerError, match=r"read_only_server.*Connect to the primary"
            ) as error:
                refused()
            assert (error.value.code, error.value.sqlstate) == ("read_only_server", "ZU005")
            assert isinstance(error.value.__cause__, psycopg.Error)


def test_events_are_followed_by_polling(pair: Pair) -> None:
    with Client(pair.standby) as client:
        found = list(client.events("lease", start="start", poll_interval_s=0.05, timeout_s=0.2))
        assert found
        with Client(pair.primary) as primary:
            created = primary.create_execution("mail", lane_id="news")
            handle = primary.claim_next(["news"], "worker", "worker-1")[0]
            assert handle.execution_id == created.execution_id
        newer = client.events("lease", start="start", poll_interval_s=0.05, timeout_s=DEADLINE_S)
        with newer:
            assert any(event.execution_id == created.execution_id for event in newer)


def test_a_named_consumer_is_refused_instead_of_repeating_itself(pair: Pair) -> None:
    with Client(pair.primary) as primary:
        position = primary.event_position("lease", where="start")
        primary.commit_event_cursor("ledger", "lease", position)
    pair.replica.catch_up()
    with Client(pair.standby) as client, pytest.raises(ReadOnlyServerError):
        for _ in client.events("lease", consumer="ledger", poll_interval_s=0.05, timeout_s=DEADLINE_S):
            pass
    with Client(pair.standby) as client, pytest.raises(ReadOnlyServerError):
        next(iter(client.events("lease", consumer="newcomer", start="start")))


def test_the_asynchronous_client_says_the_same(pair: Pair) -> None:
    async def create() -> None:
        async with AsyncClient(pair.standby) as client:
            await client.create_execution("mail")

    with pytest.raises(ReadOnlyServerError, match="Connect to the primary"):
        asyncio.run(create())


def test_a_worker_waits_for_the_promotion_of_its_server(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Client(pair.primary) as primary:
        created = primary.create_execution("mail", lane_id="promoted")
    with standby_of(pair.servers) as standby:
        dsn = standby.dsn(psycopg.conninfo.conninfo_to_dict(pair.primary)["dbname"])  # type: ignore[arg-type]
        worker = Worker(dsn, lanes=["promoted"], poll_interval_ms=50)
        worker.handler("mail")(lambda _: b"sent")
        run = in_background(lambda: asyncio.run(worker.run()))
        try:
            wait_until(lambda: "read_only_server" in caplog.text, "the worker says why it cannot work")
            with psycopg.connect(dsn, autocommit=True) as connection:
                assert connection.execute("select pg_promote(true, 60)").fetchone() == (True,)
            with Client(dsn) as client:
                assert client.wait(created.execution_id, timeout_s=3 * DEADLINE_S).result == b"sent"
        finally:
            worker.stop()
            run.result(2 * DEADLINE_S)
    assert "goes on without" not in caplog.text
