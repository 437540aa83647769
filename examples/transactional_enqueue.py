"""Transactional enqueue: an order and the work that it causes are one commit, or neither exists.

A queue beside the database loses jobs (the process dies between the two commits) or runs jobs for rows that
were rolled back. Here the queue is in the database, so `create_execution` is part of your transaction.

    flowfabric dev                                   # in one terminal; prints the connection string
    export FLOWFABRIC_DSN=postgresql://...           # in another one
    python examples/transactional_enqueue.py
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from flowfabric_client import AsyncClient
from flowfabric_client.worker import Context, Worker

DSN = os.environ.get("FLOWFABRIC_DSN", "")

worker = Worker(DSN, lanes=["shop"])


class OutOfStockError(Exception):
    """There is not enough left."""


async def create_tables(client: AsyncClient) -> None:
    """What a shop has anyway."""
    async with client.transaction() as tx:
        await tx.connection.execute(
            "create table if not exists stock (item text primary key, pieces integer)"
        )
        await tx.connection.execute(
            "create table if not exists orders (id integer primary key, item text, state text)"
        )
        await tx.connection.execute(
            "insert into stock values ('lamp', 1) on conflict (item) do update set pieces = 1"
        )


async def place_order(client: AsyncClient, order: int, item: str) -> str:
    """Write the order, take it from the stock, and ask for its shipment: all of it or nothing."""
    async with client.transaction() as tx:
        await tx.connection.execute("insert into orders values (%s, %s, 'placed')", [order, item])
        shipment = await tx.create_execution(
            "ship", payload=f'{{"order": {order}}}'.encode(), lane_id="shop", idempotency_key=f"ship-{order}"
        )
        taken = await tx.connection.execute(
            "update stock set pieces = pieces - 1 where item = %s and pieces > 0", [item]
        )
        if not taken.rowcount:
            raise OutOfStockError(item)
    return shipment.execution_id


@worker.handler("ship")
async def ship(ctx: Context, payload: dict[str, Any]) -> None:
    """The worker never sees an order that was not committed."""
    async with ctx.transaction() as tx:
        await tx.connection.execute("update orders set state = 'shipped' where id = %s", [payload["order"]])
        await ctx.complete_in(tx)


async def main() -> None:
    """Place two orders for the last lamp."""
    async with AsyncClient(DSN) as client:
        await create_tables(client)
        shipment = await place_order(client, 1, "lamp")
        print("order 1 is placed")
        try:
            await place_order(client, 2, "lamp")
        except OutOfStockError:
            print("order 2 is rolled back, and so is its shipment")

        working = asyncio.create_task(worker.run())
        ended = await client.wait(shipment, timeout_s=30)
        worker.stop()
        await working
        print(f"the shipment of order 1 ended as {ended.state}")


if __name__ == "__main__":
    asyncio.run(main())
