"""Retries of a handler: sent with the failure, unless the execution has a retry policy of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowfabric_client import Backoff, Client, Policy, Retry
from flowfabric_client.worker import Context, PermanentError, SyncContext, Worker, events
from flowfabric_client.worker.reporting import Reporter
from tests.worker.flavours import Flavour
from tests.worker.support import FAST, create, describe, lose_an_answer, running, wait_for_state

AT_ONCE = Backoff.fixed(0)


def refuse(count: int, refusals: list[int]) -> None:
    """Raise the first so many times."""
    if len(refusals) < count:
        refusals.append(count)
        raise ConnectionError("not yet")


def test_a_handler_is_retried_without_a_policy_of_the_execution(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)
    refusals: list[int] = []

    async def work(ctx: Context) -> str:
        refuse(2, refusals)
        return str(ctx.attempt_index)

    worker.handler("work", retries=2, backoff=AT_ONCE)(flavour(work))
    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
        assert [failure.will_retry for failure in run.all(events.Failed)] == [True, True]
    assert client.read_execution_context(execution_id).policy is None
    assert describe(client, execution_id).public_state == "completed"


def test_retries_end(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("bad", retries=2, backoff=AT_ONCE)
    async def bad(ctx: Context) -> None:
        raise ConnectionError("never")

    execution_id = create(client, "bad")
    with running(worker) as run:
        failures = run.wait_for(events.Failed, 3)
        wait_for_state(client, execution_id, "failed")
    assert [failure.will_retry for failure in failures] == [True, True, False]


@pytest.mark.parametrize(
    ("policy", "will_retry"),
    [
        ({}, True),
        (Policy(max_replay_count=1), True),
        (Policy(retry_policy=Retry(0)), False),
        ({"retry_policy": {}}, False),
    ],
)
def test_the_retry_policy_of_an_execution_comes_first(
    database: str, client: Client, policy: Any, will_retry: bool
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("bad", retries=1)
    def bad(ctx: SyncContext) -> None:
        raise ConnectionError("never")

    create(client, "bad", policy=policy)
    with running(worker) as run:
        (failure, *_) = run.wait_for(events.Failed)
    assert failure.will_retry is will_retry


def test_failures_of_several_handlers_in_one_report_keep_their_own_policies(
    database: str, client: Client
) -> None:
    worker = Worker(database, **FAST)
    together = asyncio.Barrier(4)

    def raising() -> Callable[[Context], Any]:
        async def handler(ctx: Context) -> None:
            await together.wait()
            raise ConnectionError(ctx.kind)

        return handler

    worker.handler("never")(raising())
    worker.handler("once", retries=1)(raising())
    worker.handler("twice", retries=2, backoff=Backoff.fixed(3_600_000, jitter=0))(raising())
    kinds = ["never", "once", "twice", "twice"]
    ids = [create(client, kind) for kind in kinds]
    with running(worker) as run:
        failures = run.wait_for(events.Failed, 4)
    assert sorted((failure.kind, failure.will_retry) for failure in failures) == [
        ("never", False),
        ("once", True),
        ("twice", True),
        ("twice", True),
    ]
    states = [describe(client, execution_id).public_state for execution_id in ids]
    assert (states[0], states[2], states[3]) == ("failed", "delayed", "delayed")


def test_a_permanent_failure_is_not_retried(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("bad", retries=9)
    async def bad(ctx: Context) -> None:
        raise PermanentError("no")

    create(client, "bad")
    with running(worker) as run:
        (failure,) = run.wait_for(events.Failed)
    assert not failure.will_retry


def test_a_handler_that_takes_too_long_is_retried(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("slow", timeout_s=0.05, retries=1, backoff=AT_ONCE)
    async def slow(ctx: Context) -> None:
        if ctx.attempt_index == 0:
            await asyncio.sleep(60)

    create(client, "slow")
    with running(worker) as run:
        run.wait_for(events.Completed)
        assert [(f.category, f.will_retry) for f in run.all(events.Failed)] == [("timeout", True)]


def test_a_transaction_that_was_not_committed_is_retried(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("effect", retries=1, backoff=AT_ONCE)
    async def effect(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await ctx.complete_in(tx, b"")
            if ctx.attempt_index == 0:
                raise ConnectionError("the effect failed")

    create(client, "effect")
    with running(worker) as run:
        run.wait_for(events.Completed)
        assert [failure.will_retry for failure in run.all(events.Failed)] == [True]


def test_a_report_whose_answer_was_lost_is_retried_once(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = lose_an_answer(monkeypatch, Reporter, "_end_one")
    worker = Worker(database, **FAST)

    @worker.handler("bad", retries=5, backoff=Backoff.fixed(3_600_000))
    async def bad(ctx: Context) -> None:
        raise ConnectionError("once")

    execution_id = create(client, "bad")
    with running(worker) as run:
        (failure,) = run.wait_for(events.Failed)
    assert failure.will_retry
    assert len(answers) == 2
    assert describe(client, execution_id).retry_count == 1


def test_a_child_takes_a_policy(database: str, client: Client, flavour: Flavour) -> None:
    worker = Worker(database, **FAST)

    async def parent(ctx: Context) -> str:
        child = await ctx.spawn("child", policy=Policy(retry_policy=Retry(1, backoff=AT_ONCE)))
        return child.execution_id

    worker.handler("parent")(flavour(parent))
    execution_id = create(client, "parent")
    with running(worker) as run:
        run.wait_for(events.Completed)
    found = client.get_execution_result(execution_id)
    assert found is not None
    assert found.result is not None
    context = client.read_execution_context(found.result.decode())
    assert context.policy == {
        "retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0, "jitter": 0.2}}
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retries": -1}, "max_retries must be between 0"),
        ({"backoff": Backoff()}, "a backoff needs retries"),
    ],
)
def test_retries_that_cannot_be_are_refused_at_the_registration(
    arguments: dict[str, Any], message: str
) -> None:
    worker = Worker()
    with pytest.raises(ValueError, match=message):
        worker.handler("bad", **arguments)(lambda ctx: None)
