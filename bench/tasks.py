"""What a client process does once it is told to start. Each task runs on one adapter."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from bench.systems.adapter import Adapter

Outcome = dict[str, Any]

# A worker that has not begun by then never will; how long it takes to begin is not measured.
STARTS_WITHIN = 30.0


class Task(ABC):
    """`prepare` is not measured; `run` is. Its arguments come from the scenario."""

    # Methods of the adapter, all of which it must have.
    needs: ClassVar[Sequence[str]]

    def __init__(self, adapter: Adapter, client: int) -> None:
        self.adapter = adapter
        self.client = client

    async def prepare(self) -> None:  # noqa: B027
        """Bring connections, statements and caches to where they are in the long run."""

    @abstractmethod
    async def run(self) -> Outcome:
        """The measured part."""


class Cycles(Task):
    """Create, claim and complete, so many at a time, for so many seconds."""

    needs: ClassVar[Sequence[str]] = ("create", "claim", "complete")

    def __init__(
        self, adapter: Adapter, client: int, *, batch: int, seconds: float, warm_up: float, passing: int = 0
    ) -> None:
        super().__init__(adapter, client)
        self.passing = passing
        self.batch = batch
        self.seconds = seconds
        self.warm_up = warm_up
        self.warmed_up = 0

    async def prepare(self) -> None:
        """First let jobs pass in large batches, if that is asked for: they leave dead rows behind."""
        passed = 0
        while passed < self.passing:
            await self.adapter.create(100)
            # Nothing, if the other clients were faster.
            if claimed := await self.adapter.claim(100):
                await self.adapter.complete(claimed)
                passed += len(claimed)
        self.warmed_up = (await self._cycle_for(self.warm_up))["operations"]

    async def run(self) -> Outcome:
        return {**await self._cycle_for(self.seconds), "warmed_up": self.warmed_up}

    async def _cycle_for(self, seconds: float) -> Outcome:
        adapter, batch, now = self.adapter, self.batch, time.perf_counter
        spent = {"create": 0.0, "claim": 0.0, "complete": 0.0}
        completed = 0
        cpu = time.process_time()
        started = now()
        while (before := now()) < started + seconds:
            await adapter.create(batch)
            created = now()
            claimed = await adapter.claim(batch)
            taken = now()
            spent["create"] += created - before
            spent["claim"] += taken - created
            if claimed:
                await adapter.complete(claimed)
                spent["complete"] += now() - taken
                completed += len(claimed)
        return {
            "operations": completed,
            "seconds": now() - started,
            "client_cpu": time.process_time() - cpu,
            "spent": spent,
        }


class WholeCycles(Cycles):
    """The same for a system that does all steps in one call, one job at a time."""

    needs: ClassVar[Sequence[str]] = ("cycle",)

    async def _cycle_for(self, seconds: float) -> Outcome:
        completed = 0
        cpu = time.process_time()
        started = time.perf_counter()
        while time.perf_counter() < started + seconds:
            for _ in range(self.batch):
                await self.adapter.cycle()
            completed += self.batch
        took = time.perf_counter() - started
        return {"operations": completed, "seconds": took, "client_cpu": time.process_time() - cpu}


class Drain(Task):
    """The system's own worker works off a queue of no-op jobs, for `limit` seconds after its first.

    A system that would take minutes to fill its queue gets a shorter one, which does not change its rate.
    """

    needs: ClassVar[Sequence[str]] = ("create", "work", "unfinished")

    def __init__(
        self, adapter: Adapter, client: int, *, jobs: int, concurrency: int, fill_limit: float, limit: float
    ) -> None:
        super().__init__(adapter, client)
        self.jobs = jobs
        self.fill_limit = fill_limit
        self.concurrency = concurrency
        self.limit = limit
        self.handled = 0
        self.first_at = 0.0

    async def prepare(self) -> None:
        deadline = time.perf_counter() + self.fill_limit
        filled = 0
        while filled < self.jobs and time.perf_counter() < deadline:
            await self.adapter.create(100)
            filled += 100
        self.jobs = filled

    def _on_job(self, _payload: str) -> None:
        if not self.handled:
            self.first_at = time.perf_counter()
        self.handled += 1

    async def run(self) -> Outcome:
        stop = asyncio.Event()
        cpu = time.process_time()
        worker = asyncio.create_task(self.adapter.work(self.concurrency, self._on_job, stop))
        started = time.perf_counter()
        while not self.handled and time.perf_counter() < started + STARTS_WITHIN and not worker.done():
            await asyncio.sleep(0.005)
        deadline = self.first_at + self.limit
        while self.handled < self.jobs and time.perf_counter() < deadline and not worker.done():
            await asyncio.sleep(0.005)
        while (left := await self.adapter.unfinished()) and self.handled >= self.jobs:
            if time.perf_counter() > deadline + 5:
                raise RuntimeError(f"the worker handled every job, but left {left} unfinished")
            await asyncio.sleep(0.005)
        seconds = time.perf_counter() - self.first_at
        cpu = time.process_time() - cpu
        stop.set()
        await worker
        if not self.handled:
            raise RuntimeError(f"the worker started no job within {STARTS_WITHIN:.0f} s")
        return {"operations": self.jobs - left, "seconds": seconds, "client_cpu": cpu}


class Seed(Task):
    """Store jobs that others will find there."""

    needs: ClassVar[Sequence[str]] = ("seed",)

    def __init__(self, adapter: Adapter, client: int, *, waiting: int, finished: int) -> None:
        super().__init__(adapter, client)
        self.waiting = waiting
        self.finished = finished

    async def run(self) -> Outcome:
        await self.adapter.seed(self.waiting, self.finished)
        return {}


class Steps(Task):
    """Create, claim and complete one job here and one in a reference database in turn, many times over.

    What slows the machine down then slows both, and their ratio means something even when it is busy.
    """

    needs: ClassVar[Sequence[str]] = ("create", "claim", "complete")

    def __init__(self, adapter: Adapter, client: int, *, samples: int, reference: str) -> None:
        super().__init__(adapter, client)
        self.samples = samples
        self.reference = type(adapter)(reference, adapter.options)

    async def prepare(self) -> None:
        await self.reference.open()
        await self._alternate(20)

    async def run(self) -> Outcome:
        outcome = await self._alternate(self.samples)
        await self.reference.close()
        return outcome

    async def _alternate(self, samples: int) -> Outcome:
        here: dict[str, list[float]] = {"create": [], "claim": [], "complete": []}
        there: dict[str, list[float]] = {"create": [], "claim": [], "complete": []}
        for _ in range(samples):
            for adapter, times in ((self.adapter, here), (self.reference, there)):
                await self._cycle(adapter, times)
        return {"here": here, "there": there}

    async def _cycle(self, adapter: Adapter, times: dict[str, list[float]]) -> None:
        started = time.perf_counter()
        await adapter.create(1)
        created = time.perf_counter()
        claimed = await adapter.claim(1)
        taken = time.perf_counter()
        if not claimed:
            raise RuntimeError("a claim found nothing although something waits")
        await adapter.complete(claimed)
        times["create"].append(created - started)
        times["claim"].append(taken - created)
        times["complete"].append(time.perf_counter() - taken)


class RoundTrips(Task):
    """Wait for an event, get it, go on."""

    needs: ClassVar[Sequence[str]] = ("round_trip",)

    def __init__(self, adapter: Adapter, client: int, *, samples: int) -> None:
        super().__init__(adapter, client)
        self.samples = samples

    async def prepare(self) -> None:
        for _ in range(5):
            await self.adapter.round_trip()

    async def run(self) -> Outcome:
        return {"seconds": [await self.adapter.round_trip() for _ in range(self.samples)]}


class StartLatency(Task):
    """Client 0 is the system's own worker; client 1 makes jobs at a steady rate, which say when."""

    needs: ClassVar[Sequence[str]] = ("create_stamped", "work")
    # The first jobs bring connections and statements to where they are in the long run, and are not counted.
    WARM_UP = 25

    def __init__(
        self, adapter: Adapter, client: int, *, per_second: float, samples: int, concurrency: int
    ) -> None:
        super().__init__(adapter, client)
        self.per_second = per_second
        self.samples = samples
        self.concurrency = concurrency
        self.latencies: list[float] = []
        self.stop = asyncio.Event()

    def _on_job(self, payload: str) -> None:
        self.latencies.append((time.monotonic_ns() - int(payload)) / 1e9)

    async def prepare(self) -> None:
        if self.client == 0:
            self.worker = asyncio.create_task(self.adapter.work(self.concurrency, self._on_job, self.stop))
            await self.adapter.create_stamped()
            # It is ready when it has done one job; that one is not counted.
            await self._until_handled(1)
            self.latencies.clear()

    async def run(self) -> Outcome:
        if self.client == 0:
            await self._until_handled(self.WARM_UP + self.samples)
            self.stop.set()
            await self.worker
            return {"seconds": self.latencies[self.WARM_UP :]}
        started = time.perf_counter()
        for number in range(self.WARM_UP + self.samples):
            await asyncio.sleep(max(0.0, started + number / self.per_second - time.perf_counter()))
            await self.adapter.create_stamped()
        return {"seconds": []}

    async def _until_handled(self, count: int) -> None:
        deadline = time.monotonic() + self.samples / self.per_second + 30
        while len(self.latencies) < count:
            if self.worker.done():
                await self.worker
                raise RuntimeError("the worker ended by itself")
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(self.latencies)} of {count} jobs were started")
            await asyncio.sleep(0.05)


class RoutedCycles(Cycles):
    """Cycles among jobs with other needs: each client makes and takes those of one set after another."""

    needs: ClassVar[Sequence[str]] = ("create", "claim", "complete", "route")
    WAITING_OF_EACH = 10

    def __init__(
        self, adapter: Adapter, client: int, *, sets: int, batch: int, seconds: float, warm_up: float
    ) -> None:
        super().__init__(adapter, client, batch=batch, seconds=seconds, warm_up=warm_up)
        self.sets = sets

    async def prepare(self) -> None:
        if self.sets:
            await self.adapter.route(self.sets)
        for _ in range(max(self.sets, 1) * self.WAITING_OF_EACH):
            await self.adapter.create(1)
        await super().prepare()


class Flows(Task):
    """Run graphs of one shape, one after another."""

    needs: ClassVar[Sequence[str]] = ("flow",)

    def __init__(self, adapter: Adapter, client: int, *, shape: str | None, count: int) -> None:
        super().__init__(adapter, client)
        self.shape = shape
        self.count = count

    async def prepare(self) -> None:
        await self.adapter.flow(self.shape)

    async def run(self) -> Outcome:
        return {"flows": [await self.adapter.flow(self.shape) for _ in range(self.count)]}


# Of the classes of a task, a system uses the first that it has the methods for.
TASKS: dict[str, tuple[type[Task], ...]] = {
    "cycles": (Cycles, WholeCycles),
    "routed": (RoutedCycles,),
    "drain": (Drain,),
    "seed": (Seed,),
    "steps": (Steps,),
    "round_trips": (RoundTrips,),
    "start_latency": (StartLatency,),
    "flows": (Flows,),
}


def task_class(name: str, adapter: type[Adapter]) -> type[Task] | None:
    """How a system does a task; None if it cannot."""
    return next((task for task in TASKS[name] if adapter.can(*task.needs)), None)
