"""What does it cost an execution to be part of a graph?

Flows of four shapes are submitted and worked off, and between them as many executions that belong to no flow,
on the same server and in turn, so that a machine that slows down slows both. Timed is what the graph changes:
creating members, and ending them, with everything that their ends make necessary before the last of the flow
has ended or can be claimed. Claims cost the same with and without a flow and are left out.

    python bench/flows.py
    python bench/flows.py --rounds 10 --unflushed --json flows.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import TupleRow
from rich.console import Console
from rich.table import Table

from flowfabric_client import install
from flowfabric_client.dev import PostgresServer, start_server
from flowfabric_client.flow import Flow

Connection = psycopg.Connection[TupleRow]
Fence = tuple[Any, ...]

CREATE_MANY = """
    select execution_id from flowfabric.ff_create_executions(
        array_fill('bench'::text, array[%(count)s::integer]))"""
CLAIM = """
    select c.execution_id, c.lease_id, c.lease_epoch, c.attempt_id
    from unnest(%s::text[]) as e (execution_id)
    cross join lateral flowfabric.ff_issue_grant_and_claim(e.execution_id, 3600000) as c"""
COMPLETE = "select outcome from flowfabric.ff_complete_execution(%s, %s, %s, %s)"
SUBMIT = "select name, execution_id from flowfabric.ff_submit_flow(%s::jsonb)"
DISPATCH = "select more from flowfabric.ff_dispatch_dependencies()"
STATES = "select public_state::text, count(*) from flowfabric.ff_exec_core where flow_id = %s group by 1"


@dataclass
class Stopwatch:
    """Seconds, added up over everything that happens inside `running`."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started


@dataclass
class Shape:
    """A kind of flow: its graph, how it is worked off, and the states in which its members must be then."""

    name: str
    members: int
    build: Callable[[], Flow]
    work: Callable[[Connection, dict[str, str], Stopwatch], None]
    expected: dict[str, int]
    create_us: list[float] = field(default_factory=list)
    end_us: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    """Microseconds per member, also as a multiple of what an execution without a flow costs meanwhile."""

    shape: str
    members: int
    create_us: float
    create_ratio: float
    end_us: float
    end_ratio: float


def claim(connection: Connection, execution_ids: Sequence[str]) -> list[Fence]:
    return connection.execute(CLAIM, [list(execution_ids)]).fetchall()


def complete_each(connection: Connection, held: Sequence[Fence], watch: Stopwatch) -> None:
    """Complete one after another, each in a transaction of its own."""
    for fence in held:
        with watch.running():
            connection.execute(COMPLETE, fence)


def chain() -> Flow:
    names = [f"step-{n}" for n in range(10)]
    flow = Flow().task(names[0])
    for before, name in pairwise(names):
        flow = flow.task(name, after=[before])
    return flow


def work_chain(connection: Connection, ids: dict[str, str], watch: Stopwatch) -> None:
    for execution_id in ids.values():
        complete_each(connection, claim(connection, [execution_id]), watch)


def fan_in() -> Flow:
    names = [f"up-{n}" for n in range(1000)]
    flow = Flow()
    for name in names:
        flow = flow.task(name)
    return flow.task("child", after=names)


def work_fan_in(connection: Connection, ids: dict[str, str], watch: Stopwatch) -> None:
    complete_each(connection, claim(connection, [id_ for name, id_ in ids.items() if name != "child"]), watch)


def fan_out() -> Flow:
    flow = Flow().task("root")
    for n in range(1000):
        flow = flow.task(f"child-{n}", after=["root"])
    return flow


def work_fan_out(connection: Connection, ids: dict[str, str], watch: Stopwatch) -> None:
    complete_each(connection, claim(connection, [ids["root"]]), watch)
    with watch.running():
        while connection.execute(DISPATCH).fetchall():
            pass


def quorum() -> Flow:
    names = [f"up-{n}" for n in range(100)]
    flow = Flow()
    for name in names:
        flow = flow.task(name)
    return flow.quorum("child", k=50, after=names, cancel_remaining=True)


def work_quorum(connection: Connection, ids: dict[str, str], watch: Stopwatch) -> None:
    complete_each(connection, claim(connection, [ids[f"up-{n}"] for n in range(50)]), watch)


def shapes() -> list[Shape]:
    return [
        Shape("chain of 10", 10, chain, work_chain, {"completed": 10}),
        Shape("fan-in of 1000", 1001, fan_in, work_fan_in, {"completed": 1000, "waiting": 1}),
        Shape("fan-out of 1000", 1001, fan_out, work_fan_out, {"completed": 1, "waiting": 1000}),
        Shape(
            "quorum, 50 of 100, cancelling the rest",
            101,
            quorum,
            work_quorum,
            {"completed": 50, "cancelled": 50, "waiting": 1},
        ),
    ]


def run_shape(connection: Connection, shape: Shape) -> None:
    """One flow of a shape, from its submission to its end; void if it does not end as it must."""
    flow = shape.build()
    creating, ending = Stopwatch(), Stopwatch()
    document = json.dumps(flow.to_json())
    with creating.running():
        ids: dict[str, str] = dict(connection.execute(SUBMIT, [document]).fetchall())
    shape.work(connection, ids, ending)
    states: dict[str, int] = dict(connection.execute(STATES, [flow.flow_id]).fetchall())
    if states != shape.expected:
        raise SystemExit(f"A {shape.name} ended as {states} and not as {shape.expected}; the run is void.")
    shape.create_us.append(creating.seconds * 1e6 / shape.members)
    shape.end_us.append(ending.seconds * 1e6 / shape.members)


def run_alone(connection: Connection, count: int) -> tuple[float, float]:
    """As many executions without a flow: microseconds per creation and per completion."""
    creating, ending = Stopwatch(), Stopwatch()
    with creating.running():
        ids = [row[0] for row in connection.execute(CREATE_MANY, {"count": count}).fetchall()]
    complete_each(connection, claim(connection, ids), ending)
    return creating.seconds * 1e6 / count, ending.seconds * 1e6 / count


def run(server: PostgresServer, rounds: int, flushed: bool, console: Console) -> dict[str, Any]:
    """All shapes in turn, several times over; the first round only warms up."""
    dsn = server.dsn()
    install.migrate(dsn)
    measured = shapes()
    alone: list[tuple[float, float]] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.prepare_threshold = 0
        for number in range(rounds + 1):
            console.print(f"round {number} of {rounds} …" if number else "warming up …")
            for shape in measured:
                run_shape(connection, shape)
            alone.append(run_alone(connection, 1000))
    create_us, end_us = (statistics.median(times) for times in zip(*alone[1:], strict=True))
    results = [
        Result(
            shape.name,
            shape.members,
            (created := statistics.median(shape.create_us[1:])),
            created / create_us,
            (ended := statistics.median(shape.end_us[1:])),
            ended / end_us,
        )
        for shape in measured
    ]
    return {
        "postgres": server.version,
        "rounds": rounds,
        "flushed": flushed,
        "alone": {"create_us": create_us, "end_us": end_us},
        "shapes": [asdict(result) for result in results],
    }


def show(report: dict[str, Any], console: Console) -> None:
    """The report as a table."""
    table = Table(
        title=f"flows, PostgreSQL {report['postgres']}, µs per member and ratio to no flow",
        title_justify="left",
    )
    table.add_column("shape")
    for column in ("members", "create", "ratio", "end", "ratio"):
        table.add_column(column, justify="right")
    alone = report["alone"]
    table.add_row("no flow", "1000", f"{alone['create_us']:.0f}", "1.00", f"{alone['end_us']:.0f}", "1.00")
    for row in report["shapes"]:
        table.add_row(
            row["shape"],
            str(row["members"]),
            f"{row['create_us']:.0f}",
            f"{row['create_ratio']:.2f}",
            f"{row['end_us']:.0f}",
            f"{row['end_ratio']:.2f}",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="flows of each shape")
    parser.add_argument(
        "--unflushed",
        action="store_true",
        help="do not wait for the disk, whose time hides that of the functions",
    )
    parser.add_argument("--json", type=Path, help="write the report to this file as well")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds takes a number of at least 1.")
    console = Console()
    settings = {"shared_buffers": "256MB", "synchronous_commit": "off" if options.unflushed else "on"}
    with start_server(keep=False, settings=settings) as server:
        report = run(server, options.rounds, not options.unflushed, console)
    show(report, console)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
