"""PgQueuer: its own client and worker on asyncpg, the driver that its documentation begins with."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.queries import Queries

from bench.systems.adapter import PAYLOAD, Adapter, OnJob, stamp

ENTRYPOINT = "bench"


class PgQueuerAdapter(Adapter):
    @classmethod
    def version(cls) -> str:
        return version("pgqueuer")

    def install(self) -> None:
        async def apply() -> None:
            connection = await asyncpg.connect(self.dsn)
            await Queries.from_asyncpg_connection(connection).install()
            await connection.close()

        asyncio.run(apply())

    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.dsn)
        self.queries = Queries.from_asyncpg_connection(self.connection)
        self.manager_id = uuid.uuid4()

    async def close(self) -> None:
        await self.connection.close()

    async def create(self, count: int) -> None:
        if count == 1:
            await self.queries.enqueue(ENTRYPOINT, PAYLOAD.encode())
        else:
            await self.queries.enqueue([ENTRYPOINT] * count, [PAYLOAD.encode()] * count, [0] * count)

    async def create_stamped(self) -> None:
        await self.queries.enqueue(ENTRYPOINT, stamp().encode())

    async def claim(self, count: int) -> Sequence[Any]:
        return await self.queries.dequeue(
            batch_size=count,
            entrypoints={ENTRYPOINT: EntrypointExecutionParameter(concurrency_limit=0)},
            queue_manager_id=self.manager_id,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=30),
        )

    async def complete(self, claimed: Sequence[Any]) -> None:
        await self.queries.log_jobs([(job, "successful", None) for job in claimed])

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:
        connection = await asyncpg.connect(self.dsn)
        manager = PgQueuer.from_asyncpg_connection(connection)

        @manager.entrypoint(ENTRYPOINT)
        async def handle(job: Job) -> None:
            on_job((job.payload or b"").decode())

        async with asyncio.TaskGroup() as group:
            # Its own rule: at least twice the batch.
            group.create_task(manager.run(batch_size=concurrency // 2, max_concurrent_tasks=concurrency))
            await stop.wait()
            manager.shutdown.set()
        await connection.close()

    async def unfinished(self) -> int:
        return int(await self.connection.fetchval("select count(*) from pgqueuer"))


ADAPTER = PgQueuerAdapter
