"""Every way in which a handler can end, and what is stored of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from flowfabric_client import Client
from flowfabric_client.worker import Context, PermanentError, SyncContext, Worker, events
from tests.worker.support import FAST, create, describe, last_attempt, result_of, running, wait_for_state

RETRY_AT_ONCE = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}


class Order:
    """Validated and dumped the way a pydantic model is."""

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def model_validate_json(cls, data: bytes) -> Order:
        if not data.isdigit():
            raise ValueError("not a number")
        return cls(int(data))

    def model_dump_json(self) -> str:
        return str(self.number)


async def asks_for_bytes(ctx: Context, payload: bytes) -> bytes:
    return payload


def asks_for_nothing(ctx: SyncContext) -> bytes:
    return ctx.payload


async def asks_for_text(ctx: Context, payload: str) -> str:
    return payload


def asks_for_json(ctx: SyncContext, payload: dict[str, Any]) -> dict[str, Any]:
    return payload


async def asks_for_a_model(ctx: Context, payload: Order) -> Order:
    return payload


class AsksForList:
    async def __call__(self, ctx: Context, payload: list[int]) -> list[int]:
        return payload


@pytest.mark.parametrize(
    ("handler", "payload", "encoding"),
    [
        (asks_for_bytes, b"\x00\xff", "binary"),
        (asks_for_nothing, b"\x00\xff", "binary"),
        (asks_for_bytes, b'"{NULL}",\\x00', "binary"),
        (asks_for_text, "käse".encode(), "text"),
        (asks_for_json, b'{"a": [1, null]}', "json"),
        (asks_for_a_model, b"7", "json"),
        (AsksForList(), b"[1, 2]", "json"),
        (partial(asks_for_json), b"{}", "json"),
    ],
)
def test_a_handler_gets_its_payload_and_its_return_value_is_the_result(
    database: str, client: Client, handler: Callable[..., Any], payload: bytes, encoding: str
) -> None:
    worker = Worker(database, **FAST)
    worker.handler("echo")(handler)
    execution_id = create(client, "echo", payload)
    with running(worker) as run:
        run.wait_for(events.Completed)
    found = client.get_execution_result(execution_id)
    assert found is not None
    assert (found.result, found.result_encoding) == (payload, encoding)


def test_none_is_no_result(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("quiet")
    async def quiet(ctx: Context) -> None:
        pass

    execution_id = create(client, "quiet")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert describe(client, execution_id).public_state == "completed"
    assert result_of(client, execution_id) is None


def raises(error: BaseException) -> Callable[..., Any]:
    def handler(ctx: SyncContext) -> None:
        raise error

    return handler


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise TypeError("nothing to say")


def raises_in_the_loop(error: BaseException) -> Callable[..., Any]:
    async def handler(ctx: Context) -> None:
        raise error

    return handler


def returns(value: Any) -> Callable[..., Any]:
    async def handler(ctx: Context) -> Any:
        return value

    return handler


@pytest.mark.parametrize(
    ("handler", "category", "reason", "is_retried"),
    [
        (raises(RuntimeError("no luck")), "transient", "no luck", True),
        (raises_in_the_loop(RuntimeError("x" * 3000)), "transient", "x" * 2000, True),
        (raises(RuntimeError("nul\0, lone \ud800")), "transient", "nul\ufffd, lone ?", True),
        (raises(RuntimeError('"quoted", \\ {NULL}')), "transient", '"quoted", \\ {NULL}', True),
        (raises(UnprintableError()), "transient", "UnprintableError", True),
        (raises(SystemExit(3)), "transient", "SystemExit: 3", True),
        (raises_in_the_loop(SystemExit(3)), "transient", "SystemExit: 3", True),
        (raises_in_the_loop(KeyboardInterrupt()), "transient", "KeyboardInterrupt: ", True),
        (raises_in_the_loop(asyncio.CancelledError()), "transient", "CancelledError: ", True),
        (raises(PermanentError("never")), "permanent", "never", False),
        (returns(object()), "permanent", "unserialisable_result: ", False),
        (returns({"nan": float("nan")}), "permanent", "unserialisable_result: ", False),
        (returns("\ud800"), "permanent", "unserialisable_result: ", False),
        (asks_for_json, "permanent", "invalid_payload: expected dict, found NoneType", False),
        (asks_for_a_model, "permanent", "invalid_payload: not a number", False),
    ],
)
def test_a_handler_that_cannot_succeed_fails_its_attempt(
    database: str, client: Client, handler: Callable[..., Any], category: str, reason: str, is_retried: bool
) -> None:
    worker = Worker(database, **FAST)
    worker.handler("bad")(handler)
    worker.handler("good")(returns("fine"))
    execution_id = create(client, "bad", policy=RETRY_AT_ONCE)
    with running(worker) as run:
        failures = run.wait_for(events.Failed, 2 if is_retried else 1)
        good_id = create(client, "good")
        run.wait_for(events.Completed)
    assert [failure.will_retry for failure in failures] == ([True, False] if is_retried else [False])
    attempt = last_attempt(client, execution_id)
    assert attempt.failure_category == category
    assert attempt.failure_reason is not None
    assert attempt.failure_reason.startswith(reason)
    assert len(attempt.failure_reason) <= 2000
    assert describe(client, execution_id).public_state == "failed"
    assert result_of(client, good_id) == b"fine"


def test_an_unknown_kind_fails_for_good(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)
    execution_id = create(client, "nobody_knows", policy=RETRY_AT_ONCE)
    with running(worker) as run:
        (failure,) = run.wait_for(events.Failed)
    assert (failure.category, failure.reason) == ("permanent", "unknown kind: nobody_knows")
    assert describe(client, execution_id).public_state == "failed"


def test_a_handler_in_the_loop_that_takes_too_long_is_cancelled(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)
    seen: list[str] = []

    @worker.handler("slow", timeout_s=0.1)
    async def slow(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    execution_id = create(client, "slow")
    with running(worker) as run:
        (failure,) = run.wait_for(events.Failed)
    assert failure.category == "timeout"
    assert seen == ["CancelledError"]
    assert last_attempt(client, execution_id).failure_category == "timeout"


def test_a_thread_that_takes_too_long_is_told_and_keeps_its_slot_until_it_ends(
    database: str, client: Client
) -> None:
    worker = Worker(database, concurrency=1, **FAST)
    may_end = threading.Event()
    saw_cancellation = threading.Event()

    @worker.handler("slow", timeout_s=0.1)
    def slow(ctx: SyncContext) -> str:
        if ctx.wait_cancelled(20):
            saw_cancellation.set()
        may_end.wait(20)
        return "too late"

    worker.handler("next")(returns("next"))
    execution_id = create(client, "slow", priority=10)
    next_id = create(client, "next")
    with running(worker) as run:
        run.wait_for(events.Failed)
        assert saw_cancellation.wait(20)
        assert describe(client, next_id).public_state == "waiting"
        may_end.set()
        run.wait_for(events.Completed)
    assert last_attempt(client, execution_id).failure_category == "timeout"
    assert result_of(client, execution_id) is None


def test_a_handler_that_swallows_its_timeout_has_failed_all_the_same(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("stubborn", timeout_s=0.1)
    async def stubborn(ctx: Context) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "here it is"

    execution_id = create(client, "stubborn")
    with running(worker) as run:
        run.wait_for(events.Failed)
    assert describe(client, execution_id).public_state == "failed"
    assert result_of(client, execution_id) is None


def test_a_blocked_event_loop_is_told_and_its_work_is_lost_to_the_lease(
    database: str, client: Client
) -> None:
    worker = Worker(database, lease_ttl_ms=300, **FAST)
    calls: list[int] = []

    @worker.handler("blocks")
    async def blocks(ctx: Context) -> int:
        calls.append(ctx.attempt_index)
        if len(calls) == 1:
            time.sleep(1.2)
            await asyncio.sleep(60)
        return ctx.attempt_index

    execution_id = create(client, "blocks")
    with running(worker) as run:
        run.wait_for(events.LoopBlocked)
        run.wait_for(events.LeaseWasLost)
        run.wait_for(events.Completed)
    assert calls == [0, 1]
    assert result_of(client, execution_id) == b"1"


def test_a_delayed_execution_goes_on_later_with_the_same_attempt(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)
    runs: list[str] = []

    @worker.handler("in_the_loop")
    async def in_the_loop(ctx: Context) -> int:
        runs.append(ctx.kind)
        if runs.count(ctx.kind) == 1:
            await ctx.delay(0)
        return ctx.attempt_index

    @worker.handler("in_a_thread")
    def in_a_thread(ctx: SyncContext) -> int:
        runs.append(ctx.kind)
        if runs.count(ctx.kind) == 1:
            ctx.delay(0)
        return ctx.attempt_index

    ids = [create(client, "in_the_loop"), create(client, "in_a_thread")]
    with running(worker) as run:
        run.wait_for(events.Completed, 2)
        assert len(run.all(events.WasDelayed)) == 2
    assert [result_of(client, execution_id) for execution_id in ids] == [b"0", b"0"]
    assert sorted(runs) == ["in_a_thread"] * 2 + ["in_the_loop"] * 2


def test_progress_is_stored(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("in_the_loop")
    async def in_the_loop(ctx: Context) -> None:
        await ctx.progress(40, "almost")

    @worker.handler("in_a_thread")
    def in_a_thread(ctx: SyncContext) -> None:
        ctx.progress(41, "half")

    ids = [create(client, "in_the_loop"), create(client, "in_a_thread")]
    with running(worker) as run:
        run.wait_for(events.Completed, 2)
    found = [describe(client, execution_id) for execution_id in ids]
    assert [(row.progress_pct, row.progress_message) for row in found] == [(40, "almost"), (41, "half")]


def test_a_callback_that_raises_harms_nobody(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)
    worker.handler("any")(returns("fine"))

    @worker.on_event
    def broken(event: events.Event) -> None:
        raise RuntimeError("broken callback")

    execution_id = create(client, "any")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert wait_for_state(client, execution_id, "completed")


def takes_too_much(ctx: Context, payload: bytes, more: bytes) -> None: ...


def takes_nothing() -> None: ...


def asks_for_the_impossible(ctx: Context, payload: complex) -> None: ...


@pytest.mark.parametrize("handler", [takes_too_much, takes_nothing, asks_for_the_impossible])
def test_a_function_that_cannot_be_a_handler_is_refused_at_once(handler: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=handler.__name__):
        Worker().handler("any")(handler)


def test_a_kind_has_one_handler() -> None:
    worker = Worker()
    worker.handler("any")(asks_for_nothing)
    with pytest.raises(ValueError, match="has a handler already"):
        worker.handler("any")(asks_for_nothing)


@pytest.mark.parametrize(
    "arguments",
    [
        {"lanes": []},
        {"lanes": ["a", "a"]},
        {"concurrency": 0},
        {"concurrency": 1001},
        {"lease_ttl_ms": 0},
        {"poll_interval_ms": 60_001},
        {"max_connections": 0},
    ],
)
def test_values_out_of_range_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        Worker(**arguments)


def test_one_text_is_not_a_list_of_lanes() -> None:
    with pytest.raises(TypeError, match="sequences"):
        Worker(lanes="default")
