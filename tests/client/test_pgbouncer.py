"""Through PgBouncer in transaction mode: everything but notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from flowfabric_client import AsyncClient, Client, Handle, errors
from flowfabric_client.worker import Context, Worker
from tests.client.support import Follower, Kind, claimed, complete_one, listeners, waiters
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import in_background, wait_until
from tests.support.pgbouncer import PgBouncer, started_pgbouncer
from tests.worker.support import create, running, wait_for_state

# More than psycopg's five, after which it prepares a statement.
OFTEN = 8
THREADS = 4


@pytest.fixture
def bouncer(server: Cluster) -> Iterator[PgBouncer]:
    with started_pgbouncer(server.dsn()) as bouncer:
        yield bouncer


@pytest.fixture
def pooled(bouncer: PgBouncer, database: str) -> str:
    """The test's database by way of PgBouncer."""
    return bouncer.dsn(database)


def test_every_kind_of_call_from_several_threads(pooled: str, db: Connection) -> None:
    db.execute("create table effect (execution_id text)")

    def live(client: Client) -> list[str | None]:
        states = []
        for _ in range(OFTEN):
            handle = claimed(client)
            client.renew_lease(**handle.arguments())
            with client.transaction() as tx:
                tx.connection.execute("insert into effect values (%s)", [handle.execution_id])
                tx.complete_execution(**handle.arguments(), result=b"\x00")
            with pytest.raises(errors.ExecutionNotActiveError):
                client.renew_lease(**handle.arguments())
            assert len(client.list_attempts(handle.execution_id)) == 1
            states.append(client.read_execution_state(handle.execution_id))
        return states

    with Client(pooled, max_connections=THREADS) as client, ThreadPoolExecutor(THREADS) as threads:
        lives = [threads.submit(live, client) for _ in range(THREADS)]
        assert [each.result(60) for each in lives] == [["completed"] * OFTEN] * THREADS
    assert db.execute("select from effect").rowcount == THREADS * OFTEN


def test_the_async_client_does_the_same(pooled: str) -> None:
    async def life(client: AsyncClient) -> str | None:
        created = await client.create_execution("test")
        handle = Handle.of(await client.issue_grant_and_claim(created.execution_id, 30_000))
        async with client.transaction() as tx:
            await tx.complete_execution(**handle.arguments())
        return await client.read_execution_state(handle.execution_id)

    async def lives() -> list[str | None]:
        async with AsyncClient(pooled, max_connections=THREADS) as client:
            return [state for _ in range(OFTEN) for state in await asyncio.gather(life(client), life(client))]

    assert asyncio.run(lives()) == ["completed"] * 2 * OFTEN


def test_nothing_is_left_of_a_transaction_that_was_broken_off(pooled: str) -> None:
    with Client(pooled) as client:
        ids = []

        def break_off() -> None:
            with client.transaction() as tx:
                ids.append(tx.create_execution("test").execution_id)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            break_off()
        assert client.read_execution_state(ids[0]) is None


@pytest.mark.parametrize(("choice", "threshold"), [(None, None), (False, None), (True, 5)])
def test_nothing_is_prepared_unless_asked_for(
    pooled: str, choice: bool | None, threshold: int | None
) -> None:
    with Client(pooled, prepare_statements=choice) as client, client.transaction() as tx:
        assert tx.connection.prepare_threshold == threshold


def test_a_pgbouncer_that_was_restarted_is_not_noticed(kind: Kind, bouncer: PgBouncer, pooled: str) -> None:
    """The creations have no key: none of them may be sent twice, and none has to be."""

    def restart() -> None:
        bouncer.stop()
        bouncer.start()

    async def through_a_restart() -> None:
        async with AsyncClient(pooled) as client:
            await client.create_execution("test")
            await asyncio.to_thread(restart)
            await client.create_execution("test")

    if kind == "async":
        asyncio.run(through_a_restart())
    else:
        with Client(pooled) as client:
            client.create_execution("test")
            restart()
            client.create_execution("test")
            assert len(client.list_executions()) == 2


def wait_until_somebody_waits(db: Connection) -> None:
    wait_until(
        lambda: bool(db.execute("select from pg_stat_activity where wait_event_type = 'Lock'").rowcount),
        "a call waited for a lock",
    )


def test_a_call_that_waits_when_pgbouncer_dies_is_repeated_if_it_may_be(
    bouncer: PgBouncer, pooled: str, database: str, db: Connection
) -> None:
    with Client(database) as direct, Client(pooled) as client:
        handle = claimed(direct)
        client.ping()
        with direct.transaction() as tx:
            tx.connection.execute("select from flowfabric.ff_exec_core for update")
            completing = in_background(lambda: client.complete_execution(**handle.arguments()))
            wait_until_somebody_waits(db)
            bouncer.stop()
            bouncer.start()
        assert completing.result().outcome == "completed"

        other = claimed(direct)
        until_ms = direct.now_ms() + 1_000
        with direct.transaction() as tx:
            tx.connection.execute("select from flowfabric.ff_exec_core for update")
            delaying = in_background(
                lambda: client.delay_execution(**other.arguments(), delay_until_ms=until_ms)
            )
            wait_until_somebody_waits(db)
            bouncer.stop()
            bouncer.start()
            with pytest.raises(errors.TransportError) as refused:
                delaying.result()
        assert not refused.value.retryable


def test_events_are_polled_for(kind: Kind, pooled: str, client: Client, db: Connection) -> None:
    follower = Follower(kind, pooled, lambda c: c.events("completion", start="start", poll_interval_s=0.1))
    completed = [complete_one(client)]
    follower.wait_for(1)
    completed.append(complete_one(client))
    assert [event.execution_id for event in follower.wait_for(2)] == completed
    assert (listeners(db), waiters(db)) == (0, 0)
    follower.stop()


@pytest.mark.usefixtures("no_polling")
def test_a_direct_connection_to_listen_at_brings_notifications_back(
    kind: Kind, pooled: str, database: str, client: Client, db: Connection
) -> None:
    follower = Follower(
        kind, pooled, lambda c: c.events("completion", poll_interval_s=300), listen_dsn=database
    )
    wait_until(lambda: waiters(db) == 1, "the follower waited")
    completed = complete_one(client)
    assert [event.execution_id for event in follower.wait_for(1)] == [completed]
    follower.stop()


def test_a_worker_drains_a_lane_through_it(pooled: str, client: Client) -> None:
    worker = Worker(pooled, lanes=["default"], concurrency=2, listen=False, poll_interval_ms=100)

    @worker.handler("double")
    async def double(ctx: Context, payload: Any) -> Any:
        async with ctx.transaction() as tx:
            await tx.connection.execute("select 1")
        return 2 * payload

    ids = [create(client, "double", number) for number in range(3 * OFTEN)]
    with running(worker):
        for execution_id in ids:
            wait_for_state(client, execution_id, "completed")
    results = [client.get_execution_result(execution_id) for execution_id in ids]
    assert [int((row and row.result) or b"") for row in results] == [2 * n for n in range(3 * OFTEN)]
