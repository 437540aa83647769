"""The handlers of the demo; `flowfabric demo` starts this worker three times, as processes of their own."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from flowfabric_client.aio import AsyncClient
from flowfabric_client.demo.plan import BUDGET, LANE, LEASE_TTL_MS, RESERVED_TOKENS, TEXT, USED_TOKENS
from flowfabric_client.worker import Context, PermanentError, Waitpoint, Worker

worker = Worker(
    os.environ["FLOWFABRIC_DEMO_DSN"],
    lanes=[LANE],
    concurrency=3,
    lease_ttl_ms=LEASE_TTL_MS,
    name="demo",
    instance_id=os.environ["FLOWFABRIC_DEMO_WORKER"],
)


@worker.handler("collect")
async def collect(ctx: Context) -> dict[str, Any]:
    """Pretend to read sources."""
    await ctx.progress(50, "reading")
    await asyncio.sleep(0.3)
    return {"sources": 3}


@worker.handler("draft")
async def draft(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Write word by word, as a language model does, within the budget of all drafts together."""
    words = TEXT.split()
    async with ctx.reserve(BUDGET, {"tokens": RESERVED_TOKENS}) as reserved:
        for number, word in enumerate(words, start=1):
            await ctx.stream(word)
            await ctx.progress(100 * number // len(words), word)
            await asyncio.sleep(payload["seconds"] / len(words))
        await reserved.settle({"tokens": USED_TOKENS})
    return {"text": f"{TEXT} ({payload['author']})"}


@worker.handler("choose")
async def choose(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Take the draft that made the quorum; the engine has put its result into the payload."""
    await ctx.progress(100)
    return payload


@worker.handler("approve")
async def approve(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Ask a person. No worker is held meanwhile: the handler ends here and runs again with the answer."""

    async def put_into_inbox(tx: AsyncClient, waitpoint: Waitpoint) -> None:
        await tx.connection.execute(
            "insert into demo.inbox (execution_id, waitpoint_id, token) values (%s, %s, %s)",
            [waitpoint.execution_id, waitpoint.waitpoint_id, waitpoint.token],
        )

    answer = await ctx.suspend("editor", signal="decision", hand_out=put_into_inbox)
    if answer.signal is None or answer.signal.json() != {"approved": True}:
        raise PermanentError("the editor said no")
    return payload


@worker.handler("publish")
async def publish(ctx: Context, payload: dict[str, Any]) -> None:
    """Publish and complete in one commit: the article is there exactly once, whatever happens to workers."""
    async with ctx.transaction() as tx:
        await tx.connection.execute("insert into demo.article (text) values (%s)", [payload["text"]])
        await ctx.complete_in(tx)


@worker.handler("thumbnail")
async def thumbnail(_ctx: Context) -> None:
    """Next to nothing, so that what is left is the engine."""
