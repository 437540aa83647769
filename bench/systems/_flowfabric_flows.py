"""Flows of four shapes, from their submission to the end of their last member or until it can be claimed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from flowfabric_client.flow import Flow

Connection = psycopg.Connection[TupleRow]
Fence = tuple[Any, ...]

CREATE_MANY = """
    select execution_id from flowfabric.ff_create_executions(
        array_fill('bench'::text, array[%(count)s::integer]))"""
# Members are taken by name, which costs the same with and without a flow and is not timed.
CLAIM = """
    select c.execution_id, c.lease_id, c.lease_epoch, c.attempt_id
    from unnest(%s::text[]) as e (execution_id)
    cross join lateral flowfabric.ff_issue_grant_and_claim(e.execution_id, 3600000) as c"""
COMPLETE = "select outcome from flowfabric.ff_complete_execution(%s, %s, %s, %s)"
SUBMIT = "select name, execution_id from flowfabric.ff_submit_flow(%s::jsonb)"
STATES = "select state::text, count(*) from flowfabric.ff_v_execution where flow_id = %s group by 1"
ALONE = 200


class Stopwatch:
    """Seconds, added up over everything that happens inside `running`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started


@dataclass(frozen=True)
class Shape:
    """A kind of flow: its graph, how it is worked off, and the states in which its members must be then."""

    members: int
    build: Callable[[], Flow]
    work: Callable[[Connection, dict[str, str], Stopwatch], None]
    expected: dict[str, int]


def _claim(connection: Connection, execution_ids: Sequence[str]) -> list[Fence]:
    return connection.execute(CLAIM, [list(execution_ids)]).fetchall()


def _complete_each(connection: Connection, held: Sequence[Fence], watch: Stopwatch) -> None:
    """Complete one after another, each in a transaction of its own."""
    for fence in held:
        with watch.running():
            connection.execute(COMPLETE, fence)


def _chain() -> Flow:
    names = [f"step-{n}" for n in range(10)]
    flow = Flow().task(names[0])
    for before, name in pairwise(names):
        flow = flow.task(name, after=[before])
    return flow


def _work_chain(connection: Connection, ids: dict[str, str], watch: Stopwatch) -> None:
    for execution_id in ids.values():
        _complete_each(connection, _claim(connection, [execution_id]), watch)


def _upstreams(count: int) -> tuple[Flow, list[str]]:
    names = [f"up-{n}" for n in range(count)]
    flow = Flow()
    for name in names:
        flow = flow.task(name)
    return flow, names


def _fan_in() -> Flow:
    flow, names = _upstreams(1000)
    return flow.task("child", after=names)


def _work_fan_in(connection: Connection, ids: dict[str, str], watch: Stopwatch) -> None:
    upstreams = [execution_id for name, execution_id in ids.items() if name != "child"]
    _complete_each(connection, _claim(connection, upstreams), watch)


def _fan_out() -> Flow:
    flow = Flow().task("root")
    for n in range(1000):
        flow = flow.task(f"child-{n}", after=["root"])
    return flow


def _work_fan_out(connection: Connection, ids: dict[str, str], watch: Stopwatch) -> None:
    _complete_each(connection, _claim(connection, [ids["root"]]), watch)
    with watch.running():
        while connection.execute("select more from flowfabric.ff_dispatch_dependencies()").fetchall():
            pass


def _quorum() -> Flow:
    flow, names = _upstreams(100)
    return flow.quorum("child", k=50, after=names, cancel_remaining=True)


def _work_quorum(connection: Connection, ids: dict[str, str], watch: Stopwatch) -> None:
    _complete_each(connection, _claim(connection, [ids[f"up-{n}"] for n in range(50)]), watch)


SHAPES = {
    "chain of 10": Shape(10, _chain, _work_chain, {"completed": 10}),
    "fan-in of 1000": Shape(1001, _fan_in, _work_fan_in, {"completed": 1000, "waiting": 1}),
    "fan-out of 1000": Shape(1001, _fan_out, _work_fan_out, {"completed": 1, "waiting": 1000}),
    "quorum of 50 in 100": Shape(
        101, _quorum, _work_quorum, {"completed": 50, "cancelled": 50, "waiting": 1}
    ),
}


def run_flow(connection: Connection, name: str | None) -> dict[str, float]:
    """One flow, or as many executions that belong to none: members, and seconds to create and to end them."""
    creating, ending = Stopwatch(), Stopwatch()
    if name is None:
        with creating.running():
            created = connection.execute(CREATE_MANY, {"count": ALONE}).fetchall()
        _complete_each(connection, _claim(connection, [row[0] for row in created]), ending)
        return {"members": ALONE, "create": creating.seconds, "end": ending.seconds}
    shape = SHAPES[name]
    flow = shape.build()
    document = json.dumps(flow.to_json())
    with creating.running():
        ids: dict[str, str] = dict(connection.execute(SUBMIT, [document]).fetchall())
    shape.work(connection, ids, ending)
    states: dict[str, int] = dict(connection.execute(STATES, [flow.flow_id]).fetchall())
    if states != shape.expected:
        raise RuntimeError(f"a {name} ended as {states} and not as {shape.expected}")
    return {"members": shape.members, "create": creating.seconds, "end": ending.seconds}
