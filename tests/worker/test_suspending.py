"""Handlers that wait for signals, and find their place again when they come."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest

from flowfabric_client import AsyncClient, Client
from flowfabric_client.worker import Context, Suspended, Waitpoint, Worker, events
from flowfabric_client.worker.suspension import Wait
from tests.conftest import Clock
from tests.support.cluster import Connection
from tests.worker.flavours import Flavour
from tests.worker.support import (
    FAST,
    create,
    describe,
    last_attempt,
    lose_an_answer,
    result_of,
    running,
)

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def doorbells(db: Connection, client: Client) -> None:
    """A signing key, and a table of the application's own in which tokens are stored."""
    client.seed_waitpoint_hmac_secret("k1")
    db.execute("create table doorbell (key text, execution_id text, waitpoint_id uuid, token text)")


async def store(tx: AsyncClient, waitpoint: Waitpoint) -> None:
    """Store a token where the one who answers finds it."""
    await tx.connection.execute(
        "insert into doorbell values (%s, %s, %s, %s)",
        [waitpoint.key, waitpoint.execution_id, waitpoint.waitpoint_id, waitpoint.token],
    )


def stored(db: Connection, key: str) -> list[tuple[str, UUID, str]]:
    query = "select execution_id, waitpoint_id, token from doorbell where key = %s"
    return [(row[0], row[1], row[2]) for row in db.execute(query, [key]).fetchall()]


def ring(client: Client, db: Connection, key: str, signal: str = "approved", payload: bytes = b"{}") -> None:
    """Answer, as somebody who has nothing but what is in the table."""
    (doorbell,) = stored(db, key)
    client.deliver_signal(*doorbell, signal, payload=payload)


def test_a_handler_goes_on_after_each_of_its_suspensions(
    database: str, client: Client, db: Connection, clock: Clock, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)
    runs: list[list[str]] = []

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> list[Any]:
        seen: list[str] = []
        runs.append(seen)
        first = await ctx.suspend("first", signal="approved", hand_out=store)
        seen.append(first.ended_by)
        second = await ctx.suspend("second", timeout_ms=DAY_MS, on_timeout="resume", hand_out=store)
        seen.append(second.ended_by)
        assert second.timed_out
        third = await ctx.suspend("third", condition="OperatorOnly")
        seen.append(third.ended_by)
        assert first.signal is not None
        return [ctx.attempt_index, first.signal.json(), second.signal, len(third.signals)]

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        assert describe(client, execution_id).public_state == "suspended"
        ring(client, db, "first", "something else")
        ring(client, db, "first", payload=b'{"by": "ann"}')
        run.wait_for(events.WasSuspended, 2)
        clock.advance(DAY_MS)
        client.expire_suspension(execution_id)
        told = run.wait_for(events.WasSuspended, 3)
        client.resume_execution(execution_id)
        run.wait_for(events.Completed)
        assert run.all(events.Failed) == []
        assert run.all(events.LeaseWasLost) == []
    assert [event.key for event in told] == ["first", "second", "third"]
    assert runs == [[], ["signal"], ["signal", "timeout"], ["signal", "timeout", "operator"]]
    assert result_of(client, execution_id) == b'[0, {"by": "ann"}, null, 0]'
    assert describe(client, execution_id).total_attempt_count == 1


def test_a_condition_over_several_waitpoints_has_a_token_for_each(
    database: str, client: Client, db: Connection, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)

    def single(key: str) -> dict[str, Any]:
        return {"Single": {"waitpoint_key": key, "matcher": "Wildcard"}}

    both = {"Composite": {"kind": "AllOf", "members": [single("bob"), single("ann")]}}

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> list[str]:
        answer = await ctx.suspend("ann", condition=both, hand_out=store)
        return [f"{signal.waitpoint_key}:{signal.name}" for signal in answer.signals]

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        ring(client, db, "bob", "yes")
        ring(client, db, "ann", "no")
        run.wait_for(events.Completed)
    assert result_of(client, execution_id) == b'["bob:yes", "ann:no"]'


@pytest.mark.parametrize(
    ("on_timeout", "state"), [("fail", "failed"), ("cancel", "cancelled"), ("expire", "expired")]
)
def test_a_timeout_may_end_the_execution(
    database: str, client: Client, clock: Clock, on_timeout: Any, state: str
) -> None:
    worker = Worker(database, **FAST)
    runs: list[int] = []

    @worker.handler("work")
    async def work(ctx: Context) -> None:
        runs.append(ctx.attempt_index)
        await ctx.suspend("question", timeout_ms=DAY_MS, on_timeout=on_timeout)

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        clock.advance(DAY_MS)
        client.expire_suspension(execution_id)
    assert describe(client, execution_id).public_state == state
    assert runs == [0]


def test_a_signal_that_comes_before_the_suspension_is_kept_for_it(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)
    runs: list[int] = []

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> list[Any]:
        runs.append(ctx.attempt_index)
        waitpoint = await ctx.open_waitpoint("question")
        assert waitpoint is not None
        assert await ctx.open_waitpoint("question") == waitpoint
        client.buffer_signal_for_pending_waitpoint(
            waitpoint.execution_id, waitpoint.waitpoint_id, waitpoint.token, "early", payload=b"7"
        )
        answer = await ctx.suspend("question", signal="early")
        again = await ctx.suspend("question", signal="early")
        assert answer.signal is not None
        return [answer.signal.json(), answer == again, await ctx.open_waitpoint("question")]

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
        assert run.all(events.WasSuspended) == []
    assert runs == [0]
    assert result_of(client, execution_id) == b"[7, true, null]"


def test_nobody_is_asked_twice_through_a_waitpoint_opened_before(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)
    asked: list[Waitpoint] = []

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> str:
        waitpoint = await ctx.open_waitpoint("question")
        if waitpoint is not None:
            asked.append(waitpoint)
        answer = await ctx.suspend("question")
        return answer.signals[0].name

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        (waitpoint,) = asked
        assert waitpoint.token not in repr(waitpoint)
        client.deliver_signal(execution_id, waitpoint.waitpoint_id, waitpoint.token, "later")
        run.wait_for(events.Completed)
    assert asked == [waitpoint]
    assert result_of(client, execution_id) == b"later"


async def delays(ctx: Context) -> None:
    await ctx.delay(0)


async def suspends_elsewhere(ctx: Context) -> None:
    await ctx.suspend("another question")


@pytest.mark.parametrize("give_back", [delays, suspends_elsewhere])
def test_an_open_waitpoint_is_not_left_behind(
    database: str, client: Client, flavour: Flavour, give_back: Callable[[Context], Awaitable[None]]
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> None:
        await ctx.open_waitpoint("question")
        await give_back(ctx)

    create(client, "work")
    with running(worker) as run:
        (failure,) = run.wait_for(events.Failed)
    assert failure.reason == "waitpoint 'question' is open: suspend at it before anything else"


def test_answers_outlive_a_lost_lease_and_a_retry_but_not_a_replay(
    database: str, client: Client, db: Connection, flavour: Flavour
) -> None:
    worker = Worker(database, lease_ttl_ms=600, **FAST)
    may_end = threading.Event()

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> str:
        answer = await ctx.suspend("question", hand_out=store)
        if ctx.attempt_index == 0:
            await ctx.progress(50)
            # Blocks the event loop too, as a process does that has died: nothing is renewed.
            may_end.wait(2)
            await ctx.progress(51)
        if ctx.attempt_index == 1:
            raise RuntimeError("no luck")
        return f"{ctx.attempt_index} {answer.signals[0].name}"

    policy = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}
    execution_id = create(client, "work", policy=policy)
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        ring(client, db, "question", "yes")
        run.wait_for(events.Claimed, 2)
        client.revoke_lease(execution_id, reason="test")
        may_end.set()
        run.wait_for(events.Completed)
        assert [event.how for event in run.all(events.Claimed)] == ["fresh", "resumed", "reclaimed", "fresh"]
        assert result_of(client, execution_id) == b"2 yes"
        db.execute("delete from doorbell")
        client.replay_execution(execution_id, force=True)
        run.wait_for(events.WasSuspended, 2)
        ring(client, db, "question", "no")
        run.wait_for(events.Completed, 2)
    assert result_of(client, execution_id) == b"3 no"


def test_a_token_that_cannot_be_handed_out_undoes_the_suspension(
    database: str, client: Client, db: Connection, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)

    async def refuse(tx: AsyncClient, waitpoint: Waitpoint) -> None:
        await store(tx, waitpoint)
        await tx.connection.execute("select 1 / 0")

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> str:
        with suppress(psycopg.errors.DivisionByZero):
            await ctx.suspend("question", hand_out=refuse)
        await ctx.progress(1)
        return "went on"

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
        assert run.all(events.WasSuspended) == []
    assert result_of(client, execution_id) == b"went on"
    assert stored(db, "question") == []
    assert db.execute("select from flowfabric.ff_waitpoint_pending").rowcount == 0


def test_nothing_can_be_said_of_the_execution_while_its_token_is_handed_out(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> None:
        async def hand_out(tx: AsyncClient, waitpoint: Waitpoint) -> None:
            await ctx.progress(1)

        await ctx.suspend("question", hand_out=hand_out)

    create(client, "work")
    with running(worker) as run:
        (failure,) = run.wait_for(events.Failed)
    assert failure.reason == "nothing more can be said of an execution that was given back"


def test_a_handler_that_swallows_its_suspension_is_suspended_all_the_same(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> str:
        with suppress(Suspended):
            await ctx.suspend("question")
        return "went on"

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
    assert describe(client, execution_id).public_state == "suspended"
    assert run.all(events.Completed) == []


def test_a_suspension_whose_answer_was_lost_is_recognised(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch, flavour: Flavour
) -> None:
    answers = lose_an_answer(monkeypatch, flavour.client, "suspend_execution")
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> str:
        return (await ctx.suspend("question")).ended_by

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        assert [answer[0].replayed for answer in answers] == [False, True]
        client.resume_execution(execution_id)
        run.wait_for(events.Completed)
        assert run.all(events.LeaseWasLost) == []
    assert result_of(client, execution_id) == b"operator"


def lose_the_first_commit(monkeypatch: pytest.MonkeyPatch, client: type[Client] | type[AsyncClient]) -> None:
    """Let a transaction be committed and the answer be lost, as when the server goes away at that moment."""
    transaction: Any = client.transaction
    commits = 0

    def lose() -> None:
        nonlocal commits
        commits += 1
        if commits == 1:
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    @contextmanager
    def lossy(self: Client) -> Iterator[Client]:
        with transaction(self) as tx:
            yield tx
        lose()

    @asynccontextmanager
    async def lossy_in_loop(self: AsyncClient) -> AsyncIterator[AsyncClient]:
        async with transaction(self) as tx:
            yield tx
        lose()

    monkeypatch.setattr(client, "transaction", lossy if client is Client else lossy_in_loop)


def test_a_token_is_handed_out_once_although_the_answer_to_the_commit_was_lost(
    database: str, client: Client, db: Connection, monkeypatch: pytest.MonkeyPatch, flavour: Flavour
) -> None:
    lose_the_first_commit(monkeypatch, flavour.client)
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> str:
        return (await ctx.suspend("question", hand_out=store)).ended_by

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        ring(client, db, "question")
        run.wait_for(events.Completed)
    assert result_of(client, execution_id) == b"signal"


def test_waiting_survives_the_loss_of_every_connection(
    database: str, client: Client, db: Connection, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)
    killed: list[int] = []

    def kill_connections() -> None:
        query = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
        killed.append(db.execute(query, [worker.instance_id]).rowcount)

    @worker.handler("child")
    async def child(ctx: Context) -> int:
        return 1

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> list[Any]:
        if len(killed) < 3:
            kill_connections()
        answers = [(await ctx.suspend(key, hand_out=store)).signals[0].name for key in ("first", "second")]
        await ctx.spawn("child")
        (child,) = await ctx.wait_children()
        return [*answers, child.json()]

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        ring(client, db, "first", "a")
        run.wait_for(events.WasSuspended, 2)
        ring(client, db, "second", "b")
        run.wait_for(events.Completed, 2)
        assert run.all(events.Failed) == []
    assert result_of(client, execution_id) == b'["a", "b", 1]'
    assert describe(client, execution_id).total_attempt_count == 1
    assert sum(killed) > 0


def test_an_installation_without_a_signing_key_fails_the_attempt_and_says_so(
    database: str, client: Client, db: Connection
) -> None:
    db.execute("delete from flowfabric.ff_waitpoint_hmac")
    worker = Worker(database, **FAST)

    @worker.handler("work")
    async def work(ctx: Context) -> None:
        await ctx.suspend("question")

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Failed)
    assert "hmac_secret_not_initialized" in (last_attempt(client, execution_id).failure_reason or "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"condition": {"Single": {"waitpoint_key": "b", "matcher": "Wildcard"}}},
            "must name the waitpoint key",
        ),
        ({"condition": "OperatorOnly", "signal": "x"}, "not both"),
        ({"on_timeout": "explode"}, "on_timeout must be one of"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    given = {
        "signal": None,
        "condition": None,
        "timeout_ms": None,
        "on_timeout": "fail",
        "reason": "waiting_for_signal",
        "resume_delay_ms": 0,
    }
    with pytest.raises(ValueError, match=sentence):
        Wait.of("a", **{**given, **arguments})
