"""The worker that the process tests run: `python -m flowfabric_client worker tests.worker.app:worker`."""

from __future__ import annotations

import asyncio
import os
import time

from flowfabric_client import AsyncClient
from flowfabric_client.worker import Context, SyncContext, Waitpoint, Worker

worker = Worker(
    os.environ.get("FLOWFABRIC_DSN", ""),
    lease_ttl_ms=1000,
    poll_interval_ms=200,
    instance_id="app",
    concurrency=2,
)
idle = Worker()
not_a_worker = "text"


@worker.handler("until_released")
async def until_released(ctx: Context) -> str:
    """Run until the test says so in a table of its own."""
    await ctx.progress(1)
    while True:
        async with ctx.transaction() as tx:
            cursor = await tx.connection.execute("select from released where id = %s", [ctx.execution_id])
            if cursor.rowcount:
                return "finished"
        await asyncio.sleep(0.02)


@worker.handler("stubborn")
def stubborn(ctx: SyncContext) -> None:
    """A thread that nothing but the end of the process ends."""
    ctx.progress(1)
    while True:
        time.sleep(1)


@worker.handler("asks")
async def asks(ctx: Context) -> str:
    """Ask whether to go on; the first attempt then goes on for ever."""

    async def store(tx: AsyncClient, waitpoint: Waitpoint) -> None:
        await tx.connection.execute(
            "insert into doorbell values (%s, %s)", [waitpoint.waitpoint_id, waitpoint.token]
        )

    answer = await ctx.suspend("go on?", hand_out=store)
    await ctx.progress(1)
    if ctx.attempt_index == 0:
        await asyncio.sleep(3600)
    return f"{ctx.attempt_index} {answer.signals[0].name}"
