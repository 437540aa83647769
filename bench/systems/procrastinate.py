"""procrastinate: jobs in SQL functions, called as its own client calls them; the worker is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.systems.adapter import PAYLOAD, OnJob, SqlAdapter

CREATE = """
    select procrastinate_defer_jobs_v1(array_fill(
        row('default', 'bench', 0, null, null, jsonb_build_object('payload', %s::text), null)
            ::procrastinate_job_to_defer_v1, array[%s]))"""
CLAIM = "select id, args from procrastinate_fetch_job_v2(null, %s) where id is not null"
COMPLETE = "select procrastinate_finish_job_v1(%s, 'succeeded', false)"
UNFINISHED = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"


class Procrastinate(SqlAdapter):
    """Has no call that takes or finishes several jobs: a batch is one call after another."""

    @classmethod
    def version(cls) -> str:
        return version("procrastinate")

    def install(self) -> None:
        async def apply() -> None:
            async with self._app().open_async() as app:
                await app.schema_manager.apply_schema_async()

        asyncio.run(apply())

    async def open(self) -> None:
        await super().open()
        self.worker_id = self.number("select worker_id from procrastinate_register_worker_v1()")

    async def create(self, count: int) -> None:
        self.connection.execute(CREATE, [PAYLOAD, count])

    def create_with_payload(self, payload: str) -> None:
        self.connection.execute(CREATE, [payload, 1])

    async def claim(self, count: int) -> Sequence[Any]:
        claimed: list[Any] = []
        while len(claimed) < count:
            job = self.connection.execute(CLAIM, [self.worker_id]).fetchone()
            if job is None:
                break
            claimed.append(job)
        return claimed

    async def complete(self, claimed: Sequence[Any]) -> None:
        for job_id, _ in claimed:
            self.connection.execute(COMPLETE, [job_id])

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:
        app = self._app()

        @app.task(name="bench")
        async def handle(payload: str) -> None:
            on_job(payload)

        async with app.open_async():
            worker = asyncio.create_task(
                app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)
            )
            await asyncio.wait(
                {worker, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED
            )
            worker.cancel()
            await asyncio.wait({worker})

    async def unfinished(self) -> int:
        return self.number(UNFINISHED)

    def _app(self) -> App:
        return App(connector=PsycopgConnector(conninfo=self.dsn))


ADAPTER = Procrastinate
