"""Does a claim cost the same, whatever waits, has finished or lies dead in the index?

Every scenario is measured against an empty system on the same server, one claim here and one there in turn,
so that a machine that slows down slows both. The server is private and keeps PostgreSQL's durability: each
claim is a transaction that is flushed to disk.

    python bench/claim_flat.py                          # 100 000 waiting, 200 000 finished
    python bench/claim_flat.py --finished 1000000 --json claim.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow
from rich.console import Console
from rich.table import Table

from flowfabric_client import install
from flowfabric_client.dev import PostgresServer, start_server

Connection = psycopg.Connection[TupleRow]

GOAL = 2.0
BATCH = 100

CLAIM = "select c.* from flowfabric.ff_claim_next('{default}', 'bench', 'bench-1') as c"
CLAIM_BATCH = "select c.* from flowfabric.ff_claim_next('{default}', 'bench', 'bench-1', p_max => 100) as c"
CREATE = "select flowfabric.ff_create_execution('bench', p_payload => 'hello world')"
PASS = """
    select count(*) from (
        select array_agg(c.execution_id) as ids, array_agg(c.lease_id) as leases,
            array_agg(c.lease_epoch) as epochs, array_agg(c.attempt_id) as attempts
        from flowfabric.ff_claim_next('{default}', 'bench', 'bench-1', p_max => 100) as c
    ) as b, flowfabric.ff_complete_executions(b.ids, b.leases, b.epochs, b.attempts) as e
    where e.outcome = 'completed'"""

# Rows by plain SQL: through the engine, a million of them would take half an hour.
INSERT = """
    with e as (
        insert into flowfabric.ff_exec_core (
            partition_key, execution_id, lifecycle_phase, ownership_state, eligibility_state, blocking_reason,
            terminal_outcome, attempt_state, terminal_at_ms, total_attempt_count, current_lease_epoch,
            created_at_ms, last_transition_at_ms, last_mutation_at_ms, namespace, lane_id, execution_kind)
        select
            n %% 256, gen_random_uuid(), {vector}, t.now_ms - %(size)s + n, t.now_ms, t.now_ms, 'default',
            'default', 'bench'
        from generate_series(1, %(size)s) as n, (select flowfabric.ff_now_ms() as now_ms offset 0) as t
        returning partition_key, execution_id
    )
    insert into flowfabric.ff_exec_payload (partition_key, execution_id, payload)
    select e.partition_key, e.execution_id, 'hello world' from e"""
WAITING = (
    "'runnable', 'unowned', 'eligible_now', 'waiting_for_worker', 'none', 'pending_first_attempt', null, 0, 0"
)
FINISHED = (
    "'terminal', 'unowned', 'not_applicable', 'none', 'success', 'attempt_terminal', t.now_ms + n, 1, 1"
)


@dataclass(frozen=True)
class Result:
    """One scenario: milliseconds per claim, and beside it those of the empty system in the same minutes."""

    scenario: str
    p50_ms: float
    p95_ms: float
    slowest_ms: float
    empty_p50_ms: float

    @property
    def ratio(self) -> float:
        """The median claim, as a multiple of the one in an empty system."""
        return self.p50_ms / self.empty_p50_ms


class System:
    """One installation."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        self.dsn = server.dsn(name)
        install.migrate(self.dsn)
        self.connection = psycopg.connect(self.dsn, autocommit=True)
        self.connection.prepare_threshold = 0
        self.connection.execute(CREATE)
        self.claim()

    def claim(self) -> float:
        """Claim one execution; return how many milliseconds it took."""
        started = time.perf_counter()
        row = self.connection.execute(CLAIM).fetchone()
        took = (time.perf_counter() - started) * 1000
        if row is None:
            raise SystemExit("A claim found nothing although something waits; the run is void.")
        return took

    def insert(self, size: int, vector: str) -> None:
        """Fill the tables, then let them settle as autovacuum would."""
        self.connection.execute(INSERT.format(vector=vector), {"size": size})
        self.connection.execute("vacuum analyze")

    def let_pass(self, size: int) -> None:
        """Let executions be created, claimed and completed through the engine, in batches."""
        passed = 0
        while passed < size:
            self.connection.execute(INSERT.format(vector=WAITING), {"size": BATCH})
            row = self.connection.execute(PASS).fetchone()
            passed += int(row[0]) if row else 0

    @contextmanager
    def old_snapshot(self) -> Iterator[None]:
        """Somebody holds a snapshot open, so that vacuum removes nothing."""
        with psycopg.connect(self.dsn) as holder:
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            holder.execute("select count(*) from flowfabric.ff_setting")
            yield
            holder.rollback()


def measure(scenario: str, system: System, empty: System, samples: int) -> Result:
    """Time claims here and in the empty system in turn; creations in between are not timed."""
    here: list[float] = []
    there: list[float] = []
    for _ in range(samples):
        for one, times in ((system, here), (empty, there)):
            one.connection.execute(CREATE)
            times.append(one.claim())
    here.sort()
    return Result(
        scenario,
        p50_ms=statistics.median(here),
        p95_ms=here[int(len(here) * 0.95)],
        slowest_ms=here[-1],
        empty_p50_ms=statistics.median(there),
    )


def batch_cost(system: System) -> float:
    """Microseconds per execution of a claim of a hundred, the median of ten."""
    times = []
    for _ in range(11):
        system.insert(BATCH, WAITING)
        started = time.perf_counter()
        system.connection.execute(CLAIM_BATCH).fetchall()
        times.append((time.perf_counter() - started) * 1e6 / BATCH)
    return statistics.median(times[1:])


def run(server: PostgresServer, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """All scenarios, each on top of the one before."""
    empty, other, system = System(server, "empty"), System(server, "other"), System(server, "full")
    results = [measure("another empty system", other, empty, options.samples)]
    console.print(
        f"one claim in an empty system: {results[0].empty_p50_ms:.2f} ms; a hundred at once: ", end=""
    )
    batch_us = batch_cost(other)
    console.print(f"{batch_us:.0f} µs each")

    console.print(f"inserting {options.waiting:,} waiting …")
    system.insert(options.waiting, WAITING)
    results.append(measure(f"{options.waiting:,} waiting", system, empty, options.samples))
    console.print(f"inserting {options.finished:,} finished …")
    system.insert(options.finished, FINISHED)
    results.append(measure(f"+ {options.finished:,} finished", system, empty, options.samples))
    with other.old_snapshot():
        console.print(f"letting {options.passing:,} pass while an old snapshot is open …")
        other.let_pass(options.passing)
        results.append(measure("old snapshot, at once", other, empty, options.samples))
        time.sleep(2.5)
        results.append(measure("old snapshot, a little later", other, empty, options.samples))
    return {
        "postgres": server.version,
        "samples": options.samples,
        "flushed": not options.unflushed,
        "batch_us_per_claim": round(batch_us, 1),
        "scenarios": [{**asdict(result), "ratio": round(result.ratio, 3)} for result in results],
        "within_goal": all(result.ratio <= GOAL for result in results),
    }


def show(report: dict[str, Any], console: Console) -> None:
    """The report as a table."""
    table = Table(
        title=f"ff_claim_next, one execution, PostgreSQL {report['postgres']}, ms", title_justify="left"
    )
    table.add_column("scenario")
    for column in ("p50", "p95", "slowest", "empty p50", "ratio"):
        table.add_column(column, justify="right")
    for row in report["scenarios"]:
        cells = [f"{row[key]:.2f}" for key in ("p50_ms", "p95_ms", "slowest_ms", "empty_p50_ms", "ratio")]
        table.add_row(row["scenario"], *cells)
    console.print(table)
    console.print(f"every ratio within {GOAL:g}: {'yes' if report['within_goal'] else 'NO'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--waiting", type=int, default=100_000, help="executions that wait")
    parser.add_argument("--finished", type=int, default=200_000, help="executions that have ended")
    parser.add_argument("--passing", type=int, default=100_000, help="executions that pass an old snapshot")
    parser.add_argument("--samples", type=int, default=300, help="claims per scenario")
    parser.add_argument(
        "--unflushed",
        action="store_true",
        help="do not wait for the disk, whose time hides that of the function",
    )
    parser.add_argument("--json", type=Path, help="write the report to this file as well")
    options = parser.parse_args()
    console = Console()
    settings = {
        "max_wal_size": "4GB",
        "shared_buffers": "256MB",
        "synchronous_commit": "off" if options.unflushed else "on",
    }
    with start_server(keep=False, settings=settings) as server:
        report = run(server, options, console)
    show(report, console)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if report["within_goal"] else 1


if __name__ == "__main__":
    sys.exit(main())
