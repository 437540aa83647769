"""Many workers, many executions of every kind, nothing lost, and memory that stays flat.

`python -m tests.chaos.load --help`
"""

from __future__ import annotations

import time
from random import Random

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.chaos.accounting import assert_all_accounted_for
from tests.chaos.deployment import Deployment, deployment
from tests.chaos.memory import children_of, growth, private_mb
from tests.chaos.records import conditions, record, table
from tests.chaos.traffic import Consumer, Producer

BACKLOG = 2_000
FLAT = 1.10
STALLED_AFTER_S = 120.0
JUDGED_AFTER_S = 300.0
_SAMPLE_S = 3.0


class Memory:
    """Samples of what the workers and the server have for themselves."""

    def __init__(self, running: Deployment) -> None:
        self._running = running
        self.workers: list[float] = []
        self.server: list[float] = []

    def sample(self) -> None:
        postmaster = self._running.postmaster_pid
        self.workers.append(private_mb(worker.pid for worker in self._running.workers))
        self.server.append(private_mb([postmaster, *children_of(postmaster)]))


@click.command()
@click.option("--executions", type=click.IntRange(min=100), default=200_000, show_default=True)
@click.option("--processes", type=click.IntRange(1, 100), default=5, show_default=True)
@click.option(
    "--concurrency", type=click.IntRange(1, 100), default=20, show_default=True, help="Per process."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--record", "keep", is_flag=True, help="Write the result to docs/reliability.md.")
def main(executions: int, processes: int, concurrency: int, seed: int, keep: bool) -> None:
    """Work through executions of every kind with many workers at once, and check the books."""
    what = f"{processes} worker processes that run {concurrency} handlers each"
    with deployment(Random(seed), max_connections=100 + processes * (4 * concurrency + 10)) as running:
        click.echo(f"load: {executions} executions for {what}")
        running.start_workers(["direct"] * processes, concurrency=concurrency, lease_ttl_ms=30_000)
        producer = Producer(running.dsn, running.dice, backlog=BACKLOG, total=executions)
        consumer = Consumer(running.dsn)
        memory = Memory(running)
        started_at = time.monotonic()
        producer.resume()
        _wait(producer, consumer, memory)
        seconds = time.monotonic() - started_at
        consumer.stop()
        click.echo("load: checking the books")
        assert_all_accounted_for(running.dsn, producer.work)
        assert all(worker.is_alive for worker in running.workers)
        summary = _summary(producer, memory, seconds)
        click.echo(summary)
        if seconds < JUDGED_AFTER_S:
            click.echo("load: too short to judge memory: connections and caches were still filling")
            return
        for name, samples in (("workers", memory.workers), ("server", memory.server)):
            if growth(samples) > FLAT:
                raise click.ClickException(f"The memory of the {name} has grown to {growth(samples):.0%}.")
        if keep:
            record("load", f"{what}, {conditions(running.server_version)}\n\n{summary}")


def _wait(producer: Producer, consumer: Consumer, memory: Memory) -> None:
    rate = TextColumn("{task.fields[rate]}/s")
    with Progress(BarColumn(), MofNCompleteColumn(), rate, TimeElapsedColumn()) as progress:
        task = progress.add_task("completed", total=producer.total, rate="0")
        moved_at, seen = time.monotonic(), 0
        while not (producer.is_done and consumer.count >= len(producer.work)):
            time.sleep(_SAMPLE_S)
            memory.sample()
            if producer.failure is not None:
                raise producer.failure
            if consumer.count > seen:
                moved_at, seen = time.monotonic(), consumer.count
            elif time.monotonic() > moved_at + STALLED_AFTER_S:
                raise click.ClickException(f"Nothing was completed for {STALLED_AFTER_S:.0f} s.")
            progress.update(task, completed=seen, rate=f"{consumer.rate(10):.0f}")


def _summary(producer: Producer, memory: Memory, seconds: float) -> str:
    work = producer.work
    return table(
        ["", ""],
        [
            ["executions, each completed once", len(work)],
            ["of them members of flows", len(work.in_flows)],
            ["suspended and resumed", len(work.of_kind("pause"))],
            ["failed once and retried", len(work.of_kind("retry"))],
            ["under a budget", len(work.of_kind("usage", "spend"))],
            ["under a quota", len(work.limited)],
            ["time", f"{seconds:.0f} s"],
            ["throughput", f"{len(work) / seconds:.0f}/s"],
            ["memory of the workers", _course(memory.workers)],
            ["memory of the server", _course(memory.server)],
        ],
    )


def _course(samples: list[float]) -> str:
    return f"{samples[-1]:.0f} MB, last quarter {growth(samples):.0%} of the second"


if __name__ == "__main__":
    main()
