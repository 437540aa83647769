"""DBOS: workflows that run in the process that calls them, or that a queue hands to a process."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from dbos import DBOS, DBOSClient, DBOSConfig

from bench.systems.adapter import PAYLOAD, Adapter, JobSink, OnJob, connect, stamp

QUEUE = "bench"
# For its worker, whose default of one second would measure the pause and nothing else.
POLL_EVERY = 0.02

_sink = JobSink()


@DBOS.workflow(name="bench")
def handle(payload: str) -> None:
    """The job; a workflow is registered once per process, so what it calls is a module's variable."""
    _sink(payload)


class Dbos(Adapter):
    """A cycle is the call of a workflow: its start and its outcome are recorded, nothing is claimed."""

    launched = False

    @classmethod
    def version(cls) -> str:
        return version("dbos")

    def install(self) -> None:
        self._launch()
        DBOS.register_queue(QUEUE)
        DBOS.destroy()

    async def open(self) -> None:
        self.client = DBOSClient(system_database_url=self.dsn)

    async def close(self) -> None:
        self.client.destroy()
        if self.launched:
            DBOS.destroy()

    async def create(self, count: int) -> None:
        for _ in range(count):
            self.client.enqueue({"queue_name": QUEUE, "workflow_name": "bench"}, PAYLOAD)

    async def create_stamped(self) -> None:
        self.client.enqueue({"queue_name": QUEUE, "workflow_name": "bench"}, stamp())

    async def cycle(self) -> None:
        if not self.launched:
            self._launch()
        handle(PAYLOAD)

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:
        _sink.on_job = on_job
        self._launch()
        await DBOS.register_queue_async(
            QUEUE,
            worker_concurrency=concurrency,
            polling_interval_sec=POLL_EVERY,
            on_conflict="always_update",
        )
        await stop.wait()

    async def unfinished(self) -> int:
        with connect(self.dsn) as connection:
            row = connection.execute(
                "select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING')"
            ).fetchone()
        return int(row[0]) if row else 0

    def _launch(self) -> None:
        config = DBOSConfig(name="bench", system_database_url=self.dsn, log_level="ERROR")
        DBOS(config=config)
        DBOS.launch()
        self.launched = True


ADAPTER = Dbos
