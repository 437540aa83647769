"""Approval from another process: a refund waits, without a worker, until somebody answers through SQL.

The worker suspends and stores the token of the waitpoint in a table of the application, in one commit. Who
approves needs that row, a database role that may do nothing but deliver signals, and any SQL client:
examples/approve.py is such a program, and knows nothing of FlowFabric's Python package.

    flowfabric dev                                   # in one terminal; prints the connection string
    export FLOWFABRIC_DSN=postgresql://...           # in the others
    python examples/approval.py                      # asks for a refund, and works until it is decided
    python examples/approve.py yes                   # or no
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from flowfabric_client import AsyncClient
from flowfabric_client.worker import Context, Waitpoint, Worker

DSN = os.environ.get("FLOWFABRIC_DSN", "")
HOUR_MS = 3_600_000

worker = Worker(DSN, lanes=["refunds"])


@worker.handler("refund")
async def refund(ctx: Context, payload: dict[str, Any]) -> str:
    """Pay back, if somebody says so within a day.

    The handler runs twice: the first time `suspend` ends it, the second time it returns the answer.
    """

    async def ask(tx: AsyncClient, waitpoint: Waitpoint) -> None:
        await tx.connection.execute(
            "insert into approval_request (execution_id, waitpoint_id, token, question)"
            " values (%s, %s, %s, %s)",
            [
                waitpoint.execution_id,
                waitpoint.waitpoint_id,
                waitpoint.token,
                f"refund {payload['cents']} cents?",
            ],
        )

    answer = await ctx.suspend(
        "approval", signal="decided", timeout_ms=24 * HOUR_MS, on_timeout="resume", hand_out=ask
    )
    if answer.signal is None:
        return "nobody answered"
    decision = answer.signal.json()
    return f"{'paid' if decision['approved'] else 'refused'}, says {decision['by']}"


async def main() -> None:
    """Ask for a refund and wait for its end."""
    async with AsyncClient(DSN) as client:
        # Tokens are signed. An installation gets a key for that once, as a rule from its operator.
        if not await client.list_waitpoint_hmac_kids():
            await client.seed_waitpoint_hmac_secret("first")
        async with client.transaction() as tx:
            await tx.connection.execute(
                "create table if not exists approval_request (id bigint generated always as identity,"
                " execution_id text, waitpoint_id uuid, token text, question text)"
            )
            await tx.connection.execute("grant select on approval_request to flowfabric_signaller")
            created = await tx.create_execution("refund", payload=b'{"cents": 1999}', lane_id="refunds")
        print(f"asked for the refund {created.execution_id}")

        working = asyncio.create_task(worker.run())
        ended = await client.wait(created.execution_id)
        worker.stop()
        await working
        print((ended.result or b"").decode())


if __name__ == "__main__":
    asyncio.run(main())
