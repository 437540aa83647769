"""What a handler may do about its execution, stated once for both contexts.

A generator of steps says what happens next: a function is to be called with a client, a number is a pause in
seconds. It is sent the answer, or thrown the error, and in the end it returns a value. The two contexts only
carry the steps out, one by waiting and the other by awaiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar, cast

from flowfabric_client.aio import AsyncClient
from flowfabric_client.client import Client
from flowfabric_client.errors import ExecutionNotActiveError, FlowFabricError
from flowfabric_client.worker import events
from flowfabric_client.worker.backoff import Backoff, passes
from flowfabric_client.worker.job import Job

T = TypeVar("T")

# The asynchronous client has the same methods, and tests hold their parameters equal.
Request = Callable[[Client], Any]
Steps = Generator[Request | float, Any, T]


def carry_out(steps: Steps[T], client: Client) -> T:
    """Take the steps in this thread."""
    take, value = steps.send, cast(Any, None)
    with closing(steps):
        while True:
            try:
                step = take(value)
            except StopIteration as end:
                return cast(T, end.value)
            take, value = steps.send, None
            try:
                if isinstance(step, float):
                    time.sleep(step)
                else:
                    value = step(client)
            except Exception as error:
                take, value = steps.throw, error


async def carry_out_in_loop(steps: Steps[T], client: AsyncClient) -> T:
    """Take the steps in the event loop."""
    take, value = steps.send, cast(Any, None)
    with closing(steps):
        while True:
            try:
                step = take(value)
            except StopIteration as end:
                return cast(T, end.value)
            take, value = steps.send, None
            try:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    value = await step(cast(Client, client))
            except Exception as error:
                take, value = steps.throw, error


def insist(
    job: Job, request: Request, *, was_done_before: Callable[[FlowFabricError], bool] | None = None
) -> Steps[Any]:
    """Ask until the database answers.

    Args:
        job: What is asked about.
        request: A call that does no harm when it is made twice.
        was_done_before: Whether a refusal says that an earlier try, whose answer was lost, had succeeded.

    Raises:
        LeaseLost: the execution is not this worker's any more.
        FlowFabricError: the database refuses, and would refuse again.
    """
    backoff = Backoff()
    while True:
        try:
            return (yield request)
        except FlowFabricError as error:
            if was_done_before is not None and was_done_before(error):
                return None
            job.refused(error)
            if not passes(error):
                raise
        yield backoff.pause_s()
        job.check()


@contextmanager
def giving_back(job: Job, waitpoint_key: str | None = None) -> Iterator[None]:
    """While the database is asked to take the execution back, it is not renewed.

    Raises:
        RuntimeError: another waitpoint is open, and the next run could not find it again.
    """
    for key in job.waitpoints:
        if key != waitpoint_key:
            raise RuntimeError(f"waitpoint {key!r} is open: suspend at it before anything else")
    job.giving_back = True
    try:
        yield
    finally:
        job.giving_back = False


def delay(job: Job, until_ms: int, pause: events.WorkEvent) -> Steps[None]:
    """Give the execution back until a time."""

    def was_given_back_before(error: FlowFabricError) -> bool:
        # Nobody but the holder of this epoch interrupts its attempt.
        details = error.details
        return (
            isinstance(error, ExecutionNotActiveError)
            and details.get("attempt_state") == "attempt_interrupted"
            and details.get("lease_epoch") == job.handle.lease_epoch
            and details.get("attempt_id") == str(job.handle.attempt_id)
        )

    with giving_back(job):
        yield from insist(
            job,
            lambda client: client.delay_execution(delay_until_ms=until_ms, **job.handle.arguments()),
            was_done_before=was_given_back_before,
        )
        job.pause = pause
