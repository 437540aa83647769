"""absurd: tasks and runs in PL/pgSQL, called as its SDK calls them; the worker is the SDK's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from absurd_sdk import AsyncAbsurd

from bench.systems.adapter import PAYLOAD, OnJob, SqlAdapter, connect

QUEUE = "bench"
CREATE = "select task_id from absurd.spawn_task('bench', 'bench', %s::jsonb, '{\"max_attempts\": 5}')"
CLAIM = "select run_id, task_id, params from absurd.claim_task('bench', 'bench-1', 120, %s)"
COMPLETE = "select absurd.complete_run('bench', %s, 'null')"
UNFINISHED = "select count(*) from absurd.t_bench where state not in ('completed', 'failed', 'cancelled')"
AWAIT_EVENT = "select should_suspend from absurd.await_event('bench', %s, %s, 'wait', %s, null)"
EMIT_EVENT = "select absurd.emit_event('bench', %s, '1')"


class Absurd(SqlAdapter):
    """Has no call that makes or finishes several tasks: a batch is one call after another."""

    @classmethod
    def version(cls) -> str:
        return version("absurdctl")

    def install(self) -> None:
        absurdctl = str(Path(sys.executable).with_name("absurdctl"))
        subprocess.run([absurdctl, "init", "-d", self.dsn], check=True)
        with connect(self.dsn) as connection:
            connection.execute("select absurd.create_queue('bench')")

    async def create(self, count: int) -> None:
        for _ in range(count):
            self.create_with_payload(PAYLOAD)

    def create_with_payload(self, payload: str) -> None:
        self.connection.execute(CREATE, [f'"{payload}"'])

    async def claim(self, count: int) -> Sequence[Any]:
        return self.connection.execute(CLAIM, [count]).fetchall()

    async def complete(self, claimed: Sequence[Any]) -> None:
        for run_id, _, _ in claimed:
            self.connection.execute(COMPLETE, [run_id])

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:
        client = AsyncAbsurd(self.dsn, queue_name=QUEUE)

        @client.register_task("bench")
        async def handle(params: Any, _context: Any) -> None:
            on_job(params)

        async with asyncio.TaskGroup() as group:
            group.create_task(client.start_worker(concurrency=concurrency))
            await stop.wait()
            client.stop_worker()
        await client.close()

    async def unfinished(self) -> int:
        return self.number(UNFINISHED)

    async def round_trip(self) -> float:
        """It has no wake-ups: the claim follows the event at once, where its worker would poll."""
        await self.create(1)
        ((run_id, task_id, _),) = await self.claim(1)
        event = str(task_id)
        started = time.perf_counter()
        self.connection.execute(AWAIT_EVENT, [task_id, run_id, event])
        self.connection.execute(EMIT_EVENT, [event])
        (resumed,) = await self.claim(1)
        seconds = time.perf_counter() - started
        await self.complete([resumed])
        return seconds


ADAPTER = Absurd
