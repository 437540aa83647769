"""awa: a queue whose client and worker are written in Rust; handlers are Python."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib.metadata import version

import awa

from bench.systems.adapter import PAYLOAD, Adapter, OnJob, stamp

QUEUE = "bench"


@dataclass
class BenchJob:
    payload: str


class Awa(Adapter):
    """Its worker is the only way to take and finish a job."""

    @classmethod
    def version(cls) -> str:
        return version("awa-pg")

    def __init__(self, dsn: str, options: dict[str, str]) -> None:
        # Its driver wants a host in the URL, also where the socket's directory follows.
        super().__init__(dsn.replace("@/", "@localhost/"), options)

    def install(self) -> None:
        async def apply() -> None:
            async with awa.AsyncClient(self.dsn) as client:
                await client.migrate()
                await client.install_queue_storage()

        asyncio.run(apply())

    async def open(self) -> None:
        self.client = awa.AsyncClient(self.dsn)

    async def close(self) -> None:
        await self.client.close()

    async def create(self, count: int) -> None:
        if count == 1:
            await self.client.insert(BenchJob(PAYLOAD), queue=QUEUE)
        else:
            await self.client.enqueue_many_copy([BenchJob(PAYLOAD)] * count, queue=QUEUE)

    async def create_stamped(self) -> None:
        await self.client.insert(BenchJob(stamp()), queue=QUEUE)

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:
        async with awa.AsyncClient(self.dsn) as client:

            @client.task(BenchJob, queue=QUEUE)
            async def handle(job: awa.Job[BenchJob]) -> None:
                on_job(job.args.payload)

            await client.start([(QUEUE, concurrency)])
            await stop.wait()
            await client.shutdown()

    async def unfinished(self) -> int:
        stats = {stat.queue: stat for stat in await self.client.queue_stats()}
        return stats[QUEUE].available + stats[QUEUE].running if QUEUE in stats else 0


ADAPTER = Awa
