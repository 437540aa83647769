"""chancy: its own client; jobs are taken and finished by the methods of its worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from chancy import Chancy, Job, Queue, QueuedJob, Worker

from bench.systems.adapter import PAYLOAD, Adapter, JobSink, OnJob, stamp

EXECUTOR = "chancy.executors.asyncex.AsyncExecutor"
QUIET = logging.getLogger("bench.chancy")
QUIET.setLevel(logging.ERROR)

_sink = JobSink()


async def handle(*, payload: str) -> None:
    """The job; the worker finds it by its name, so what it calls is a module's variable."""
    _sink(payload)


def _job(payload: str) -> Job:
    return Job.from_func(handle, kwargs={"payload": payload}, queue="default")


class ChancyAdapter(Adapter):
    @classmethod
    def version(cls) -> str:
        return version("chancy")

    def install(self) -> None:
        async def apply() -> None:
            async with self._app() as app:
                await app.migrate()
                await app.declare(Queue("default", executor=EXECUTOR))

        asyncio.run(apply())

    async def open(self) -> None:
        self.app = self._app()
        await self.app.__aenter__()
        self.worker = Worker(self.app, register_signal_handlers=False)
        self.queue = Queue("default", executor=EXECUTOR)

    async def close(self) -> None:
        await self.app.__aexit__(None, None, None)

    async def create(self, count: int) -> None:
        if count == 1:
            await self.app.push(_job(PAYLOAD))
        else:
            async for _ in self.app.push_many([_job(PAYLOAD)] * count, batch_size=count):
                pass

    async def create_stamped(self) -> None:
        await self.app.push(_job(stamp()))

    async def claim(self, count: int) -> Sequence[Any]:
        async with self.app.pool.connection() as connection:
            return await self.worker.fetch_jobs(self.queue, connection, up_to=count)

    async def complete(self, claimed: Sequence[Any]) -> None:
        now = datetime.now(UTC)
        for job in claimed:
            await self.worker.queue_update(
                replace(job, state=QueuedJob.State.SUCCEEDED, completed_at=now, attempts=job.attempts + 1)
            )
        await self.worker.flush()

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:
        _sink.on_job = on_job
        queue = Queue("default", concurrency=concurrency, executor=EXECUTOR, eager_polling=True)
        async with self._app() as app:
            await app.declare(queue, upsert=True)
            async with Worker(app, register_signal_handlers=False):
                await stop.wait()

    async def unfinished(self) -> int:
        async with self.app.pool.connection() as connection:
            cursor = await connection.execute(
                "select count(*) from chancy_jobs where state not in ('succeeded', 'failed')"
            )
            row = await cursor.fetchone()
        return int(row[0]) if row else 0

    def _app(self) -> Chancy:
        return Chancy(self.dsn, log=QUIET)


ADAPTER = ChancyAdapter
