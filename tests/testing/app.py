"""An application as tests find it: a worker at module level, made for a database that is not there."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from flowfabric_client import Client
from flowfabric_client.worker import Context, PermanentError, SyncContext, Worker, events

worker = Worker("postgresql://nobody@unreachable.invalid/none", lanes=["default", "slow"], concurrency=2)
observed: list[events.Event] = []
worker.on_event(observed.append)


@worker.handler("echo")
async def echo(ctx: Context, payload: Any) -> Any:
    return payload


@worker.handler("succeeds_at_attempt")
def succeeds_at_attempt(ctx: SyncContext, payload: int) -> str:
    if ctx.attempt_index < payload:
        raise ConnectionError(f"attempt {ctx.attempt_index} of the mail server")
    return "sent"


@worker.handler("refuses")
async def refuses(ctx: Context) -> None:
    raise PermanentError("no such customer")


@worker.handler("creates_another")
async def creates_another(ctx: Context) -> None:
    async with ctx.transaction() as tx:
        await tx.create_execution("echo", payload=b'"made by another"')


@worker.handler("waits_for_another")
def waits_for_another(ctx: SyncContext, payload: dict[str, str]) -> str:
    """Create an execution and stay until it is done, as handlers should not but do."""
    with Client(payload["dsn"]) as client:
        other = client.create_execution("echo", payload=b"1").execution_id
        while client.read_execution_state(other) != "completed":
            ctx.raise_if_cancelled()
            threading.Event().wait(0.01)
    return other


@worker.handler("delays")
async def delays(ctx: Context, payload: int) -> None:
    if ctx.handle.kind == "fresh":
        await ctx.delay(payload)


@worker.handler("asks")
async def asks(ctx: Context) -> str:
    """Wait a day for an answer."""
    answer = await ctx.suspend("question", signal="answered", timeout_ms=86_400_000, on_timeout="resume")
    return "nobody answered" if answer.signal is None else str(answer.signal.json())


@worker.handler("has_children")
async def has_children(ctx: Context) -> list[str]:
    for number in range(2):
        await ctx.spawn("echo", number)
    return [child.state for child in await ctx.wait_children()]


@worker.handler("hangs")
async def hangs(ctx: Context) -> None:
    await asyncio.Event().wait()


@worker.handler("hangs_in_a_thread")
def hangs_in_a_thread(ctx: SyncContext) -> None:
    ctx.wait_cancelled()
