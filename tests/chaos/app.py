"""The worker of the chaos and load runs, `tests.chaos.app:worker`; its environment configures it.

Every kind of work leaves traces that can be counted: an effect that commits with the completion, or usage of
a budget. Handlers may run any number of times; the traces must be there once.
"""

from __future__ import annotations

import os
import random
import signal
import time

_real_time = time.time
_clock_error_s = float(os.environ.get("CHAOS_CLOCK_ERROR_S", "0"))


def _wrong_time() -> float:
    return _real_time() + _clock_error_s


def _jump(*_: object) -> None:
    global _clock_error_s  # noqa: PLW0603 - the clock of a machine is global
    _clock_error_s += random.uniform(-86_400, 86_400)


if _clock_error_s:
    # Before anything else is imported, so that nobody has kept the right clock.
    time.time = _wrong_time
    time.time_ns = lambda: int(_wrong_time() * 1e9)
    signal.signal(signal.SIGUSR1, _jump)

from flowfabric_client.worker import Context, SyncContext, Worker  # noqa: E402
from tests.chaos.work import BUDGET, LEASE_TTL_MS, RESERVED, SETTLED  # noqa: E402

worker = Worker(
    os.environ.get("FLOWFABRIC_DSN", ""),
    lanes=["default", "limited"],
    concurrency=int(os.environ.get("CHAOS_CONCURRENCY", "4")),
    lease_ttl_ms=int(os.environ.get("CHAOS_LEASE_TTL_MS", LEASE_TTL_MS)),
    poll_interval_ms=200,
    listen_dsn=os.environ.get("CHAOS_LISTEN_DSN"),
    prepare_statements=os.environ.get("CHAOS_PREPARE", "yes") == "yes",
)

EFFECT = "insert into effect (execution_id) values (%s)"


async def _complete_with_effect(ctx: Context) -> None:
    async with ctx.transaction() as tx:
        await tx.connection.execute(EFFECT, [ctx.execution_id])
        await ctx.complete_in(tx)


@worker.handler("effect")
async def effect(ctx: Context) -> None:
    """The effect and the completion are one commit."""
    await _complete_with_effect(ctx)


@worker.handler("thread")
def thread(ctx: SyncContext) -> None:
    """The same in a thread."""
    with ctx.transaction() as tx:
        tx.connection.execute(EFFECT, [ctx.execution_id])
        ctx.complete_in(tx)


@worker.handler("retry")
async def retry(ctx: Context) -> None:
    """The first attempt fails."""
    if ctx.attempt_index == 0:
        raise RuntimeError("the first attempt fails")
    await _complete_with_effect(ctx)


@worker.handler("usage")
async def usage(ctx: Context) -> None:
    """Usage is booked once however often the handler runs, and the completion is reported by the worker."""
    await ctx.report_usage(BUDGET, {"calls": 1}, key="once")


@worker.handler("spend")
async def spend(ctx: Context) -> None:
    """A reservation that is settled in the commit of the completion."""
    async with ctx.reserve(BUDGET, {"tokens": RESERVED}) as reservation, ctx.transaction() as tx:
        await tx.connection.execute(EFFECT, [ctx.execution_id])
        await tx.settle_reservation(
            reservation.held.budget_id, reservation.held.key, ["tokens"], [SETTLED], **ctx.handle.arguments()
        )
        await ctx.complete_in(tx)


@worker.handler("pause")
async def pause(ctx: Context) -> None:
    """Waits for a signal that does not come, and goes on."""
    answer = await ctx.suspend("go", timeout_ms=100, on_timeout="resume")
    if answer.timed_out:
        await _complete_with_effect(ctx)
