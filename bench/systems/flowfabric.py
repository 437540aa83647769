"""This engine, through its SQL functions; its worker is the runtime of flowfabric_client."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench.systems._flowfabric_flows import run_flow
from bench.systems._flowfabric_seed import copy_execution
from bench.systems.adapter import PAYLOAD, Connection, OnJob, SqlAdapter, connect
from flowfabric_client import __version__, install
from flowfabric_client.worker import Context, Worker

KIND = "bench"
WORKER = "bench"

CREATE = "select execution_id from flowfabric.ff_create_execution('bench', p_payload => %s)"
CREATE_MANY = """
    select execution_id from flowfabric.ff_create_executions(
        array_fill('bench'::text, array[%(count)s]), array_fill(%(payload)s::bytea, array[%(count)s]))"""
CLAIM = """
    select execution_id, lease_id, lease_epoch, attempt_id, payload
    from flowfabric.ff_claim_next('{default}', 'bench', 'bench-1', p_max => %s)"""
COMPLETE = "select outcome from flowfabric.ff_complete_execution(%s, %s, %s, %s)"
COMPLETE_MANY = "select outcome from flowfabric.ff_complete_executions(%b, %b, %b, %b)"
# With the capabilities that a job needs, and a worker offers.
CREATE_ROUTED = """
    select execution_id from flowfabric.ff_create_execution(
        'bench', p_payload => %s, p_policy => jsonb_build_object(
            'routing_requirements', jsonb_build_object('required_capabilities', %s::text[])))"""
CLAIM_ROUTED = CLAIM.replace("'bench-1',", "'bench-1', p_capabilities => %s,")
SEED_KEY = "select flowfabric.ff_seed_waitpoint_hmac_secret('bench')"
SUSPEND = """
    select waitpoint_id, waitpoint_token from flowfabric.ff_suspend_execution(
        %s, %s, %s, %s, '{"Single": {"waitpoint_key": "wpk:go", "matcher": "Wildcard"}}',
        'waiting_for_signal', p_waitpoint_keys => '{wpk:go}')"""
WAIT_FOR_WORK = "select notify from flowfabric.ff_wait_for_work('{default}', 'bench-1', 10000)"
SIGNAL = "select effect from flowfabric.ff_deliver_signal(%s, %s, %s, 'go')"
UNFINISHED = "select count(*) from flowfabric.ff_exec_core where lifecycle_phase <> 'terminal'"


class FlowFabric(SqlAdapter):
    _routes: Iterator[list[str]] | None = None
    _offered: list[str]
    _signaller: Connection | None = None

    @classmethod
    def version(cls) -> str:
        return __version__

    def install(self) -> None:
        install.migrate(self.dsn)
        with connect(self.dsn) as connection:
            for name, value in self.options.items():
                connection.execute("select flowfabric.ff_set_setting(%s, %s)", [name, int(value)])

    async def create(self, count: int) -> None:
        if self._routes is not None:
            self._offered = next(self._routes)
            self.connection.execute(CREATE_ROUTED, [PAYLOAD.encode(), self._offered])
        elif count == 1:
            self.create_with_payload(PAYLOAD)
        else:
            self.connection.execute(CREATE_MANY, {"count": count, "payload": PAYLOAD.encode()})

    def create_with_payload(self, payload: str) -> None:
        self.connection.execute(CREATE, [payload.encode()])

    async def claim(self, count: int) -> Sequence[Any]:
        if self._routes is not None:
            return self.connection.execute(CLAIM_ROUTED, [self._offered, count]).fetchall()
        return self.connection.execute(CLAIM, [count]).fetchall()

    async def complete(self, claimed: Sequence[Any]) -> None:
        left = claimed
        while left:
            if len(left) == 1:
                outcomes = self.connection.execute(COMPLETE, left[0][:4]).fetchall()
            else:
                arrays = [list(column) for column in zip(*(job[:4] for job in left), strict=True)]
                outcomes = self.connection.execute(COMPLETE_MANY, arrays).fetchall()
            if any(outcome not in ("completed", "busy") for (outcome,) in outcomes):
                raise RuntimeError(f"a completion was refused: {outcomes}")
            # A row that a claim of another session has just passed over is busy until that claim commits.
            left = [job for job, (outcome,) in zip(left, outcomes, strict=True) if outcome == "busy"]

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:
        worker = Worker(self.dsn, concurrency=concurrency)

        @worker.handler(KIND)
        async def handle(_ctx: Context, payload: str) -> None:
            on_job(payload)

        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await stop.wait()
            worker.stop()

    async def unfinished(self) -> int:
        return self.number(UNFINISHED)

    async def seed(self, waiting: int, finished: int) -> None:
        if finished:
            await self.create(1)
            held = await self.claim(1)
            await self.complete(held)
            copy_execution(self.connection, held[0][0], finished)
        if waiting:
            row = self.connection.execute(CREATE, [PAYLOAD.encode()]).fetchone()
            assert row is not None
            copy_execution(self.connection, row[0], waiting)
        # A floor that the prototypes raised would lie above their copies, which are older than they are.
        self.connection.execute("delete from flowfabric.ff_lane_floor")
        self.connection.execute("vacuum analyze")

    async def round_trip(self) -> float:
        """One connection is the worker's, which waits to be woken; the signal comes over another."""
        if self._signaller is None:
            self._signaller = connect(self.dsn)
            self._signaller.execute(SEED_KEY)
            self.connection.execute("listen ff_eligible")
        await self.create(1)
        (held,) = await self.claim(1)
        started = time.perf_counter()
        waitpoint = self.connection.execute(SUSPEND, held[:4]).fetchone()
        self.connection.execute(WAIT_FOR_WORK)
        assert waitpoint is not None
        self._signaller.execute(SIGNAL, [held[0], *waitpoint])
        if not list(self.connection.notifies(timeout=10, stop_after=1)):
            raise RuntimeError("nobody was woken by the signal")
        (resumed,) = await self.claim(1)
        seconds = time.perf_counter() - started
        if resumed[0] != held[0] or resumed[3] != held[3]:
            raise RuntimeError("the claim after the signal got another attempt")
        await self.complete([resumed])
        return seconds

    async def route(self, sets: int) -> None:
        self._routes = itertools.cycle([f"capability-{number}", "common"] for number in range(sets))

    async def flow(self, shape: str | None) -> dict[str, float]:
        return run_flow(self.connection, shape)


ADAPTER = FlowFabric
