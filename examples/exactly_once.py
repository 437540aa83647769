"""Exactly-once effects: an account is charged once, even if the worker is killed in the middle.

A handler can always run twice: its process may die after the effect and before the report. `complete_in` puts
both into one commit, and the database refuses it to a worker that has lost its lease. So there is either a
charge and a completed execution, or neither, and then another worker does it again.

    flowfabric dev                                   # in one terminal; prints the connection string
    export FLOWFABRIC_DSN=postgresql://...           # in the others
    python examples/exactly_once.py                  # opens an account and asks for ten charges
    cd examples && flowfabric worker exactly_once:worker
    kill -9 <pid of the worker>                      # as often as you like; then start it again
    python examples/exactly_once.py balance
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from flowfabric_client import Client
from flowfabric_client.worker import Context, Worker

DSN = os.environ.get("FLOWFABRIC_DSN", "")
PACE_S = float(os.environ.get("PACE_S", "0.5"))
CHARGES = 10

# A short lease, so that the work of a killed worker is soon taken over.
worker = Worker(DSN, lanes=["billing"], concurrency=2, lease_ttl_ms=3_000)


@worker.handler("charge")
async def charge(ctx: Context, payload: dict[str, Any]) -> None:
    """Take money from an account."""
    async with ctx.transaction() as tx:
        await tx.connection.execute(
            "insert into charge (account, cents) values (%(account)s, %(cents)s)", payload
        )
        await asyncio.sleep(PACE_S)  # whatever else there is to do; the moment to be killed
        await tx.connection.execute(
            "update account set cents = cents - %(cents)s where name = %(account)s", payload
        )
        await ctx.complete_in(tx, {"charged": payload["cents"]})


def enqueue(client: Client) -> None:
    """Open an account with 1000 cents and ask for ten charges of 100."""
    with client.transaction() as tx:
        tx.connection.execute("create table if not exists account (name text primary key, cents integer)")
        tx.connection.execute("create table if not exists charge (account text, cents integer)")
        tx.connection.execute("truncate account, charge")
        tx.connection.execute("insert into account values ('ada', 1000)")
        payload = json.dumps({"account": "ada", "cents": 100}).encode()
        tx.create_executions(
            ["charge"] * CHARGES, payloads=[payload] * CHARGES, lane_ids=["billing"] * CHARGES
        )


def balance(client: Client) -> None:
    """Print what is left, and how often the account was charged."""
    with client.transaction() as tx:
        row = tx.connection.execute(
            "select (select count(*) from charge), (select cents from account where name = 'ada')"
        ).fetchone()
    charges, cents = row or (0, 0)
    print(f"{charges} charges, {cents} cents left")


if __name__ == "__main__":
    with Client(DSN) as the_client:
        if sys.argv[1:] == ["balance"]:
            balance(the_client)
        else:
            enqueue(the_client)
