"""How long work waits on an idle system, hop by hop: `python -m tests.claim.hops --hops 3000`.

One idle worker. A hop ends when a handler starts. It begins at the end of the member before in a chain of a
flow, when a retry is promoted, or at the signal that ends a suspension. All of that becomes eligible with the
creation time of long ago, so it is below the floors of its queue. A hop takes milliseconds; one that a floor
hides takes a second.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from flowfabric_client import AsyncClient, Client, install
from flowfabric_client.dev import start_server
from flowfabric_client.flow import Flow
from flowfabric_client.worker import Context, Waitpoint, Worker
from tests.support.concurrency import wait_until
from tests.worker.support import running

CHAIN = 25
RETRIES = 10
SUSPENSIONS = 5
BOUNDS_MS = (5, 10, 20, 50, 100, 200, 500, 900)
#: One that must not happen: a floor that hides work lets it wait for about a second.
HIDDEN_S = 0.9


@dataclass
class Hops:
    """What was measured, in seconds, by kind of hop."""

    taken: dict[str, list[float]] = field(default_factory=lambda: {"chain": [], "retry": [], "resume": []})
    _began: float = 0.0
    _token: Waitpoint | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """From now on something waits."""
        self._began = time.perf_counter()

    def end(self, kind: str) -> None:
        """It has started."""
        self.taken[kind].append(time.perf_counter() - self._began)

    @property
    def count(self) -> int:
        return sum(map(len, self.taken.values()))

    def worker(self, dsn: str) -> Worker:
        """A worker whose handlers measure."""
        worker = Worker(dsn)

        @worker.handler("chain")
        async def chain(ctx: Context) -> None:
            position = json.loads(ctx.payload or b"")["position"]
            if position > 0:
                self.end("chain")
            if position == CHAIN - 1:
                self._ended.set()
            self.begin()

        @worker.handler("retry")
        async def retry(ctx: Context) -> None:
            if ctx.attempt_index > 0:
                self.end("retry")
            if ctx.attempt_index < RETRIES:
                self.begin()
                raise RuntimeError("again")
            self._ended.set()

        async def keep(_: AsyncClient, waitpoint: Waitpoint) -> None:
            self._token = waitpoint

        @worker.handler("resume")
        async def resume(ctx: Context) -> None:
            for number in range(SUSPENSIONS):
                first_time = self.resumed == number
                await ctx.suspend(f"number {number}", signal="go", hand_out=keep)
                if first_time:
                    self.end("resume")
                    self.resumed += 1
            self._ended.set()

        return worker

    resumed: int = 0

    def drive(self, client: Client, wanted: int) -> None:
        """Give the worker one thing after the other, until enough was measured."""
        policy = {"retry_policy": {"max_retries": RETRIES, "backoff": {"type": "fixed", "delay_ms": 0}}}
        while self.count < wanted:
            flow = Flow()
            for position in range(CHAIN):
                after = [str(position - 1)] if position else []
                flow = flow.task(str(position), kind="chain", payload={"position": position}, after=after)
            client.submit_flow(flow.to_json())
            self._wait_for_the_end()
            execution = client.create_execution("retry", policy=policy).execution_id
            while not self._ended.is_set():
                self._promote(client, execution)
            self._wait_for_the_end()
            self.resumed = 0
            execution = client.create_execution("resume").execution_id
            for _ in range(SUSPENSIONS):
                self._signal(client, execution)
            self._wait_for_the_end()

    def _promote(self, client: Client, execution_id: str) -> None:
        """Promote a retry before a tick does it; a claim of the worker may be faster."""
        found = client.describe_execution(execution_id)
        if found is not None and found.public_state == "delayed":
            self.begin()
            client.promote_delayed(execution_id)

    def _signal(self, client: Client, execution_id: str) -> None:
        def is_suspended() -> bool:
            found = client.describe_execution(execution_id)
            return found is not None and found.public_state == "suspended" and self._token is not None

        wait_until(is_suspended, "the execution was suspended")
        token, self._token = self._token, None
        assert token is not None
        self.begin()
        client.deliver_signal(execution_id, token.waitpoint_id, token.token, "go")

    def _wait_for_the_end(self) -> None:
        assert self._ended.wait(60), f"nothing has ended for a minute, after {self.count} hops"
        self._ended.clear()


def measure(dsn: str, wanted: int) -> dict[str, list[float]]:
    """Measure at least so many hops on an engine that does nothing else."""
    hops = Hops()
    with Client(dsn) as client:
        client.seed_waitpoint_hmac_secret("k1")
        with running(hops.worker(dsn)):
            hops.drive(client, wanted)
    return hops.taken


@contextmanager
def _private_engine() -> Iterator[str]:
    with start_server(settings={"fsync": "off"}) as server:
        install.migrate(server.dsn())
        yield server.dsn()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--hops", "wanted", type=click.IntRange(1), default=3_000, show_default=True, help="Hops to measure."
)
@click.option("--dsn", help="An engine to measure instead of a private one; it must have nothing else to do.")
def main(*, wanted: int, dsn: str | None) -> None:
    """Measure how long work waits on an idle system, and print how often it took how long."""
    if dsn is None:
        with _private_engine() as private:
            taken = measure(private, wanted)
    else:
        taken = measure(dsn, wanted)
    bounds: list[Any] = [*BOUNDS_MS, float("inf")]
    table = Table(
        "hop", "count", "median ms", "longest ms", *(f"< {bound} ms" for bound in BOUNDS_MS), "more"
    )
    for kind, times in taken.items():
        lower, cells = 0.0, []
        for bound in bounds:
            cells.append(str(sum(lower <= taken_s * 1_000 < bound for taken_s in times)))
            lower = bound
        table.add_row(
            kind,
            str(len(times)),
            f"{statistics.median(times) * 1_000:.1f}",
            f"{max(times) * 1_000:.1f}",
            *cells,
        )
    Console(width=160).print(table)
    if any(taken_s >= HIDDEN_S for times in taken.values() for taken_s in times):
        raise SystemExit("work has waited for about a second")


if __name__ == "__main__":
    main()
