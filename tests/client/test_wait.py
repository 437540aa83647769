"""Waiting for the end of an execution."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flowfabric_client import AsyncClient, Client, Ended, errors
from tests.client.support import Kind, claimed, outage, wait_until_asked
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import in_background

UNKNOWN = "{fp:86}:00000000-0000-4000-8000-0000000000ff"
Wait = Callable[..., Ended]


@pytest.fixture
def wait(kind: Kind, database: str) -> Wait:
    """Waits with a client of its own."""

    async def in_loop(execution_id: str, timeout_s: float | None) -> Ended:
        async with AsyncClient(database) as client:
            return await client.wait(execution_id, timeout_s=timeout_s)

    def until_end(execution_id: str, timeout_s: float | None = 20) -> Ended:
        if kind == "async":
            return asyncio.run(in_loop(execution_id, timeout_s))
        with Client(database) as client:
            return client.wait(execution_id, timeout_s=timeout_s)

    return until_end


def test_the_end_comes_with_the_result(client: Client, wait: Wait) -> None:
    handle = claimed(client)
    waiting = in_background(lambda: wait(handle.execution_id))
    client.complete_execution(**handle.arguments(), result=b"42", result_encoding="json")
    ended = waiting.result()
    assert (ended.state, ended.outcome, ended.succeeded) == ("completed", "success", True)
    assert (ended.result, ended.result_encoding, ended.failure_reason) == (b"42", "json", None)


def test_a_failure_comes_with_its_reason(client: Client, wait: Wait) -> None:
    handle = claimed(client)
    client.fail_execution(**handle.arguments(), failure_reason="broken")
    ended = wait(handle.execution_id)
    assert (ended.state, ended.outcome, ended.succeeded) == ("failed", "failed", False)
    assert (ended.result, ended.failure_reason) == (None, "broken")


def test_a_cancellation_comes_with_its_reason(client: Client, wait: Wait) -> None:
    execution_id = client.create_execution("test").execution_id
    client.cancel_execution(execution_id, "not needed", source="operator_override")
    ended = wait(execution_id)
    assert (ended.outcome, ended.cancellation_reason) == ("cancelled", "not needed")


def test_an_execution_that_goes_on_is_a_timeout(client: Client, wait: Wait) -> None:
    handle = claimed(client)
    with pytest.raises(TimeoutError, match=r"is still active after 0\.1 s"):
        wait(handle.execution_id, 0.1)


def test_an_unknown_execution_has_no_end(wait: Wait) -> None:
    with pytest.raises(errors.ExecutionNotFoundError):
        wait(UNKNOWN)


def test_an_outage_is_waited_out(server: Cluster, database: str, db: Connection, wait: Wait) -> None:
    with Client(database) as client:
        handle = claimed(client)
        waiting = in_background(lambda: wait(handle.execution_id))
        wait_until_asked(db, "ff_read_execution_info")
    with outage(server, database):
        pass
    with Client(database) as client:
        client.complete_execution(**handle.arguments())
    assert waiting.result().succeeded


def test_nobody_waits_inside_a_transaction(client: Client) -> None:
    with client.transaction() as tx, pytest.raises(RuntimeError, match="inside a transaction"):
        tx.wait(tx.create_execution("test").execution_id)
