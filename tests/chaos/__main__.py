"""The long form: faults in turn under steady load, for as long as you like.

`python -m tests.chaos --help`
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random, SystemRandom

import click
import psycopg
from rich.console import Console

from tests.chaos.accounting import assert_all_accounted_for, unfinished
from tests.chaos.deployment import Deployment, deployment
from tests.chaos.faults import FAULTS, WAYS, Fault, KilledWorkers
from tests.chaos.records import conditions, record, table
from tests.chaos.traffic import Consumer, Producer
from tests.support.concurrency import wait_until
from tests.support.pgbouncer import PgBouncer

BACKLOG = 400
WINDOW_S = 10.0
RECOVERED = 0.95
#: For leases that must run out, pauses that have grown, and a machine that does something else meanwhile.
RECOVERY_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """What one fault did to the throughput."""

    fault: type[Fault]
    before: float
    after: float
    recovery_s: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


class Run:
    """One deployment under steady load."""

    def __init__(self, running: Deployment) -> None:
        self._running = running
        self._producer = Producer(running.dsn, running.dice, backlog=BACKLOG)
        self._consumer = Consumer(running.dsn)

    def suffer(self, fault: type[Fault]) -> Outcome:
        """Measure, do the harm, wait for the throughput to come back, let everything end, check the books."""
        workers = {worker.pid for worker in self._running.workers}
        self._producer.resume()
        wait_until(lambda: self._consumer.rate(2) > 0, "work was under way", 60)
        time.sleep(WINDOW_S)
        before = self._consumer.rate(WINDOW_S)

        fault().inflict(self._running)

        harmed_at = time.monotonic()
        time.sleep(WINDOW_S / 2)
        after = 0.0
        while time.monotonic() < harmed_at + RECOVERY_DEADLINE_S:
            after = max(after, self._consumer.rate(WINDOW_S / 2))
            if after >= RECOVERED * before:
                break
            time.sleep(0.5)
        outcome = Outcome(fault, before, after, time.monotonic() - harmed_at)
        self._settle(fault)
        assert outcome.ratio >= RECOVERED, (
            f"after {RECOVERY_DEADLINE_S:.0f} s the throughput is {after:.0f}/s, and it was {before:.0f}/s"
        )
        assert all(worker.is_alive for worker in self._running.workers), "a worker has ended"
        if fault is not KilledWorkers:
            assert {worker.pid for worker in self._running.workers} == workers
        return outcome

    def _settle(self, fault: type[Fault]) -> None:
        self._producer.pause()
        if self._producer.failure is not None:
            raise self._producer.failure
        with psycopg.connect(self._running.dsn, autocommit=True) as db:
            wait_until(lambda: unfinished(db) == 0, f"all work ended after: {fault.what}", 120)
        self._consumer.stop()
        assert_all_accounted_for(self._running.dsn, self._producer.work)
        self._consumer = Consumer(self._running.dsn)

    @property
    def executions(self) -> int:
        return len(self._producer.work)


def turns(letters: str, minutes: float, dice: Random) -> Iterator[type[Fault]]:
    """Every fault once, in an order of chance, and then again until the time is over."""
    end_at = time.monotonic() + 60 * minutes
    while True:
        for letter in dice.sample(letters, k=len(letters)):
            yield FAULTS[letter]
        if time.monotonic() > end_at:
            return


@click.command()
@click.option("--seed", type=int, default=None, help="Repeat the run that printed this seed.")
@click.option("--minutes", type=float, default=10.0, show_default=True, help="How long to go on.")
@click.option(
    "--faults", "letters", default=",".join(FAULTS), show_default=True, help="Which, by their letters: a,c."
)
@click.option("--record", "keep", is_flag=True, help="Write the result to docs/reliability.md.")
def main(seed: int | None, minutes: float, letters: str, keep: bool) -> None:
    """Let things go wrong under real workers, and check that nothing is lost and nothing happens twice."""
    chosen = "".join(letters.split(","))
    if unknown := sorted(set(chosen) - FAULTS.keys()):
        raise click.ClickException(f"There is no fault {unknown[0]!r}; there are {', '.join(FAULTS)}.")
    if "e" in chosen and not PgBouncer.is_installed():
        raise click.ClickException("PgBouncer is not installed: install it, or leave fault e out.")
    seed = SystemRandom().randrange(10**6) if seed is None else seed
    console = Console()
    # The pool of the producer tells of every connection that it loses, and that is what this program is for.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    console.print(f"chaos: seed {seed} (repeat with --seed {seed}), at least {minutes:g} minutes")
    for fault in (FAULTS[letter] for letter in chosen):
        console.print(f"  {fault.letter}  {fault.what}")
    dice = Random(seed)
    outcomes: list[Outcome] = []
    with deployment(dice) as running:
        console.print(f"starting {len(WAYS)} worker processes; their logs are in {running.directory}")
        running.start_workers([way for way in WAYS if way != "pgbouncer" or PgBouncer.is_installed()])
        run = Run(running)
        for fault in turns(chosen, minutes, dice):
            with console.status(f"{fault.letter}  {fault.what}"):
                try:
                    outcome = run.suffer(fault)
                except AssertionError as error:
                    raise click.ClickException(f"{fault.what}: {error} (seed {seed})") from error
            outcomes.append(outcome)
            console.print(
                f"{fault.letter}  {fault.what}: {outcome.before:.0f}/s before, {outcome.ratio:.0%} after "
                f"{outcome.recovery_s:.1f} s; {run.executions} executions, all accounted for"
            )
        summary = _summary(chosen, outcomes)
        if keep:
            lead = f"{run.executions} executions, seed {seed}, {conditions(running.server_version)}"
            record("chaos", f"{lead}\n\n{summary}")
    console.print("chaos: everything was done once, and the throughput came back every time")


def _summary(chosen: str, outcomes: list[Outcome]) -> str:
    rows = []
    for letter in chosen:
        suffered = [outcome for outcome in outcomes if outcome.fault.letter == letter]
        rows.append(
            [
                FAULTS[letter].what,
                len(suffered),
                f"{min(outcome.ratio for outcome in suffered):.0%}",
                f"{max(outcome.recovery_s for outcome in suffered):.1f} s",
            ]
        )
    return table(["fault", "times", "throughput after it, at least", "back after, at most"], rows)


if __name__ == "__main__":
    main()
