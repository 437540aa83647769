"""Handlers that create executions of their own and wait for them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flowfabric_client import Client
from flowfabric_client.worker import Context, PermanentError, Worker, events
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


def children_of(db: Connection, execution_id: str) -> int:
    return db.execute(
        "select from flowfabric.ff_exec_payload where creator_identity = %s", [execution_id]
    ).rowcount


def test_a_parent_hears_how_each_of_its_children_ended(
    database: str, client: Client, db: Connection, flavour: Flavour
) -> None:
    worker = Worker(database, concurrency=1, **FAST)
    parent_runs: list[int] = []
    may_end = threading.Event()

    @worker.handler("part")
    async def part(ctx: Context, payload: dict[str, int]) -> int:
        if payload["n"] == 2:
            raise PermanentError("two is too many")
        return payload["n"] * 10

    @worker.handler("slow")
    def slow(ctx: Any) -> bytes:
        may_end.wait(20)
        return bytes(ctx.payload)

    @worker.handler("parent")
    @flavour
    async def parent(ctx: Context) -> list[Any]:
        parent_runs.append(ctx.attempt_index)
        for n in (1, 2):
            await ctx.spawn("part", {"n": n})
        slowest = await ctx.spawn("slow", b"\x01", key="last", priority=5, tags={"test.of": "parent"})
        (first,) = await ctx.wait_children(slowest, longest_pause_ms=100)
        assert (first.result, first.result_encoding, first.key) == (b"\x01", "binary", "last")
        ended = await ctx.wait_children()
        return [
            [child.key, child.state, child.json() if child.succeeded else child.failure_reason]
            for child in ended[:2]
        ]

    execution_id = create(client, "parent", lane_id="default")
    with running(worker) as run:
        run.wait_for(events.WaitsForChildren)
        may_end.set()
        run.wait_for(events.Completed, 3)
        assert run.all(events.LeaseWasLost) == []
    assert result_of(client, execution_id) == (
        b'[["part#0", "completed", 10], ["part#1", "failed", "two is too many"]]'
    )
    assert len(parent_runs) > 1
    assert set(parent_runs) == {0}
    assert children_of(db, execution_id) == 3


def test_a_new_attempt_finds_the_children_of_the_last_and_a_replay_makes_others(
    database: str, client: Client, db: Connection, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)
    spawned: list[str] = []

    @worker.handler("part")
    async def part(ctx: Context) -> None: ...

    @worker.handler("parent")
    @flavour
    async def parent(ctx: Context) -> int:
        spawned.append((await ctx.spawn("part")).execution_id)
        if ctx.attempt_index == 0:
            raise RuntimeError("no luck")
        return len(await ctx.wait_children())

    policy = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}
    execution_id = create(client, "parent", policy=policy)
    with running(worker) as run:
        run.wait_for(events.Completed, 2)
        assert len(set(spawned)) == 1
        client.replay_execution(execution_id, force=True)
        run.wait_for(events.Completed, 4)
    assert len(set(spawned)) == 2
    assert children_of(db, execution_id) == 2
    assert result_of(client, execution_id) == b"1"


def test_a_child_whose_creation_was_not_answered_is_created_once(
    database: str, client: Client, db: Connection, monkeypatch: pytest.MonkeyPatch, flavour: Flavour
) -> None:
    execution_id = create(client, "parent")
    answers = lose_an_answer(monkeypatch, flavour.client, "create_execution")
    worker = Worker(database, **FAST)

    @worker.handler("parent")
    @flavour
    async def parent(ctx: Context) -> str:
        return (await ctx.spawn("part", lane_id="elsewhere")).execution_id

    with running(worker) as run:
        run.wait_for(events.Completed)
    assert [answer.outcome for answer in answers] == ["created", "duplicate"]
    assert children_of(db, execution_id) == 1
    child_id = (result_of(client, execution_id) or b"").decode()
    assert describe(client, child_id).lane_id == "elsewhere"


def test_waiting_whose_answer_was_lost_is_recognised(
    database: str, client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch, flavour: Flavour
) -> None:
    # Or the worker might take it up again before it has asked a second time.
    clock.freeze(1_000_000)
    answers = lose_an_answer(monkeypatch, flavour.client, "delay_execution")
    worker = Worker(database, **FAST)

    @worker.handler("parent")
    @flavour
    async def parent(ctx: Context) -> str:
        await ctx.spawn("part", lane_id="elsewhere")
        return (await ctx.wait_children())[0].state

    execution_id = create(client, "parent")
    with running(worker) as run:
        (told, *_) = run.wait_for(events.WaitsForChildren)
        assert told.until_ms == answers[0].delay_until_ms
        assert run.all(events.LeaseWasLost) == []
    assert describe(client, execution_id).total_attempt_count == 1


def test_a_key_names_one_child(database: str, client: Client, flavour: Flavour) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("parent")
    @flavour
    async def parent(ctx: Context) -> None:
        await ctx.spawn("part", key="a")
        await ctx.spawn("other", key="a")

    execution_id = create(client, "parent")
    with running(worker) as run:
        run.wait_for(events.Failed)
    assert (
        last_attempt(client, execution_id).failure_reason == "this run has a child with the key 'a' already"
    )


def test_no_children_are_waited_for_at_once(database: str, client: Client, flavour: Flavour) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("parent")
    @flavour
    async def parent(ctx: Context) -> list[Any]:
        return await ctx.wait_children()

    execution_id = create(client, "parent")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert result_of(client, execution_id) == b"[]"
