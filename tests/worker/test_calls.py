"""Being called: an idle worker claims over the connection that heard of the work, if that is possible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from flowfabric_client import AsyncClient, Client
from flowfabric_client.worker import Context, Worker, events
from flowfabric_client.worker.calls import CallLine
from tests.conftest import Connect
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import wait_until
from tests.worker.support import Running, create, describe, result_of, running

LINE = "the call line"


class Claims:
    """The executions that were claimed over each way; None where the line could not be used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over_the_line: list[list[str] | None] = []
        self.over_the_pool: list[str] = []
        self.lines = 0
        hear, claim, claim_next = CallLine.hear, CallLine.claim, AsyncClient.claim_next

        async def listen(line: CallLine) -> None:
            self.lines += 1
            await hear(line)

        async def over_the_line(line: CallLine) -> Any:
            claims = await claim(line)
            self.over_the_line.append(None if claims is None else [row.execution_id for row in claims])
            return claims

        async def over_the_pool(client: AsyncClient, **arguments: Any) -> Any:
            claims = await claim_next(client, **arguments)
            self.over_the_pool += [row.execution_id for row in claims]
            return claims

        monkeypatch.setattr(CallLine, "hear", listen)
        monkeypatch.setattr(CallLine, "claim", over_the_line)
        monkeypatch.setattr(AsyncClient, "claim_next", over_the_pool)


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Claims:
    return Claims(monkeypatch)


@contextmanager
def waiting(client: Client, database: str, claims: Claims, **line: Any) -> Iterator[Running]:
    """A worker that waits to be called, and would poll only once a minute. It has done one job before."""
    worker = Worker(
        database,
        poll_interval_ms=60_000,
        run_ticks=False,
        listen_dsn=make_conninfo(database, application_name=LINE, **line),
    )

    @worker.handler("length")
    async def length(_ctx: Context, payload: bytes) -> int:
        return len(payload)

    with running(worker) as run:
        wait_until(lambda: claims.lines == 1, "the worker listened")
        run.wait_for(events.Idle)
        # The beginning of listening is a call, too, which may find the first one.
        create(client, "length", b"first")
        run.wait_for(events.Completed)
        run.wait_for(events.Idle, 2)
        claims.over_the_line.clear()
        claims.over_the_pool.clear()
        yield run


def blocked_line(db: Connection) -> int | None:
    """The server process of the line, if the claim that answers a call waits for a lock."""
    query = "select pid from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"
    row = db.execute(query, [LINE]).fetchone()
    return None if row is None else int(row[0])


def test_what_a_worker_is_called_for_is_claimed_over_the_line(
    database: str, client: Client, claims: Claims
) -> None:
    with waiting(client, database, claims) as run:
        first = create(client, "length", b"four")
        run.wait_for(events.Completed, 2)
        run.wait_for(events.Idle, 3)
        second = create(client, "length", b"and more")
        run.wait_for(events.Completed, 3)
    assert claims.over_the_line == [[first], [second]]
    assert claims.over_the_pool == []
    assert [result_of(client, execution_id) for execution_id in (first, second)] == [b"4", b"8"]


def test_an_answer_of_many_packets_is_read_to_its_end(database: str, client: Client, claims: Claims) -> None:
    with waiting(client, database, claims) as run:
        execution_id = create(client, "length", b"x" * 3_000_000, tags={"app.key": "value"})
        run.wait_for(events.Completed, 2)
    assert claims.over_the_line == [[execution_id]]
    assert result_of(client, execution_id) == b"3000000"


def test_who_may_only_listen_claims_over_the_pool(
    server: Cluster, database: str, client: Client, claims: Claims
) -> None:
    user, password = server.create_login_role("flowfabric_reader")
    with waiting(client, database, claims, user=user, password=password) as run:
        execution_id = create(client, "length", b"four")
        run.wait_for(events.Completed, 2)
    assert claims.over_the_line == [None]
    assert claims.over_the_pool == [execution_id]


def test_a_claim_that_is_refused_is_made_over_the_pool(
    database: str, client: Client, connect: Connect, claims: Claims
) -> None:
    with waiting(client, database, claims, options="-c statement_timeout=100") as run:
        with connect(autocommit=False) as holder:
            holder.execute("lock table flowfabric.ff_lane_floor")
            execution_id = create(client, "length", b"four")
            wait_until(lambda: claims.over_the_line == [None], "the claim took too long")
        run.wait_for(events.Completed, 2)
    assert claims.over_the_pool == [execution_id]


def test_a_line_that_breaks_while_an_answer_is_awaited_loses_nothing(
    database: str, client: Client, db: Connection, connect: Connect, claims: Claims
) -> None:
    with waiting(client, database, claims) as run:
        with connect(autocommit=False) as holder:
            holder.execute("lock table flowfabric.ff_lane_floor")
            execution_id = create(client, "length", b"four")
            wait_until(lambda: blocked_line(db) is not None, "the worker claimed")
            db.execute("select pg_terminate_backend(%s)", [blocked_line(db)])
            (trouble, *_) = run.wait_for(events.Trouble)
        run.wait_for(events.Completed, 2)
        # And it is called again, over another line.
        wait_until(lambda: claims.lines == 2, "the worker listened again")
        run.wait_for(events.Idle, 3)
        second = create(client, "length", b"and more")
        run.wait_for(events.Completed, 3)
    assert trouble.activity in {"claiming", "listening"}
    assert describe(client, execution_id).total_attempt_count == 1
    assert describe(client, second).public_state == "completed"
